"""Why a fleet cannot serve its demands: sets of limits that truly conflict, and changes that are just enough."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from prfaas_opt import fleet_api
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.fleet import Connection, Fleet, Holding, Limits, Site, Stream
from prfaas_opt.planning.fleets.network import network_of
from prfaas_opt.planning.fleets.solve import least_cost
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.profiles.curve import linear, table_curve
from prfaas_opt.profiles.decode import DecodeProfile
from prfaas_opt.profiles.model import Model, Profile, Provenance
from prfaas_opt.workload.distribution import constant, table
from prfaas_opt.workload.workload import Workload
from tests import fleet_oracle
from tests.fleets import ATOMS, random_fleet

GBPS = 1e9 / 8
OPTIONS = SolverOptions(time_limit_s=20.0)
AMPLE_INSTANCES = 10_000
DECODES = DecodeProfile((1, 9), (0.010, 0.018))
"""One request decodes 100 tokens/s; nine 55.6 tokens/s each."""
_SAID = {key: Provenance("assumed", "made up") for key in ("prefill", "kv_cache", "decode")}

Limit = tuple[str, ...]
"""Its kind, and what it is a limit of."""
Change = Callable[[Fleet], Fleet]


def profile(hardware: str, gpus: int, longest_s: float, decode: DecodeProfile | None = None) -> Profile:
    """0.1 MB and ``longest_s`` / 1000 of work for every token of up to 1000."""
    seconds = table_curve([100, 1000], [0.1 * longest_s, longest_s], linear, "latency")
    size = table_curve([100, 1000], [1e7, 1e8], linear, "size")
    return Profile(hardware, gpus, "", seconds, size, decode, _SAID)


MODEL = Model("m", "", (profile("R", 2, 1.0), profile("L", 4, 1.0, DECODES)))
OTHER = dataclasses.replace(MODEL, name="other")
REMOTE_ONLY = Model("slow local", "", (profile("R", 2, 1.0), profile("L", 4, 1e7, DECODES)))


def stream(
    name: str = "s",
    model: Model = MODEL,
    demand_rps: float = 3.0,
    destination: str | None = None,
    tokens_per_s: float | None = 64.0,
) -> Stream:
    """Half its prompts are of 200, half of 1000 tokens: 0.6 s and 60 MB in the mean; 100 tokens of output."""
    workload = Workload("", "", table([(200.0, 1.0), (1000.0, 1.0)]), constant(100.0))
    return Stream(name, model, workload, demand_rps, destination, tokens_per_s)


def fleet(
    *streams: Stream, far: int = 4, near: int = 12, isle: int = 0, gbps: float | None = 8.0, given: bool = False
) -> Fleet:
    """Remote prefill ``far``, 2 GPUs an instance, linked to ``near``; 4 GPUs an instance there and on an ``isle``."""

    def held(hardware: str, most: int) -> Holding:
        return Holding(hardware, Limits(most if given else 0, most), usd_per_gpu_hour=1.0)

    sites = [Site("far", "prefill", (held("R", far),)), Site("near", "pd", (held("L", near),))]
    sites += [Site("isle", "pd", (held("L", isle),))] if isle else []
    rate = 0.0 if gbps is None else gbps * GBPS
    links = () if gbps is None else (Connection("far", "near", Limits(rate if given else 0.0, rate)),)
    return Fleet("by hand", streams, tuple(sites), links)


def feasible(fleet: Fleet, by_oracle: bool = False) -> bool:
    """Whether some fleet within the limits serves the demands, as the planner sees it or as scipy does."""
    if not fleet.streams:
        return True
    if by_oracle:
        return fleet_oracle.least_cost(fleet, bins=40) is not None
    try:
        network = network_of(fleet)
    except (InfeasibleError, InputError):
        return False
    return least_cost(network, OPTIONS, 1e-3) is not None


def infeasible_size(fleet: Fleet) -> dict[Limit, Problem]:
    """What sizing says is in conflict."""
    return _conflict(lambda: fleet_api.size(fleet, options=OPTIONS))


def infeasible_plan(fleet: Fleet) -> dict[Limit, Problem]:
    """What planning says is in conflict."""
    return _conflict(lambda: fleet_api.plan_fleet(fleet, OPTIONS))


_WORDS = (
    ("gpus", r"at most [\d,]+ (?P<hardware>\S+) GPUs in (?P<place>\S+)"),
    ("link", r"at most \S+ [KMGT]?bps from (?P<source>\S+) to (?P<destination>\S+)"),
    ("slo", r"\S+ tokens/s for (?P<stream>\S+)"),
    ("demand", r"\S+ req/s of (?P<stream>\S+)"),
)


def _conflict(ask: Callable[[], object]) -> dict[Limit, Problem]:
    with pytest.raises(InfeasibleError) as caught:
        ask()
    problems = caught.value.problems
    together = f"one of {len(problems)} limits that together rule out" if len(problems) > 1 else "rules out"
    found: dict[Limit, Problem] = {}
    for problem in problems:
        words, separator, _ = problem.message.partition(f": {together} serving ")
        (limit,) = ((kind, *match.groups()) for kind, each in _WORDS if (match := re.fullmatch(each, words)))
        assert (problem.code, separator) == ("conflict", f": {together} serving ")
        assert limit not in found
        found[limit] = problem
    return found


def with_gpus(limit: Limit, most: float | None) -> Change:
    """With other GPUs, or with so many that they are no limit."""

    def other(fleet: Fleet, holding: Holding) -> Holding:
        profiles = (stream.model.profile(holding.hardware) for stream in fleet.streams)
        largest = max((p.gpus_per_instance for p in profiles if p), default=1)
        enough = max(holding.gpus.most, AMPLE_INSTANCES * largest) if most is None else most
        given = holding.gpus.given and most is not None
        return dataclasses.replace(holding, gpus=Limits(enough if given else holding.gpus.least, enough))

    def change(fleet: Fleet) -> Fleet:
        sites = []
        for site in fleet.sites:
            held = tuple(other(fleet, h) if limit == ("gpus", h.hardware, site.name) else h for h in site.holdings)
            sites.append(dataclasses.replace(site, holdings=held))
        return dataclasses.replace(fleet, sites=tuple(sites))

    return change


def with_link(limit: Limit, most: float | None) -> Change:
    """With a link that may be this many bytes/s wide, or wide enough for all."""

    def other(link: Connection) -> Connection:
        rate = link.bandwidth_bytes_per_s
        enough = max(100 * rate.most, 1000 * GBPS) if most is None else most
        given = rate.given and most is not None
        return dataclasses.replace(link, bandwidth_bytes_per_s=Limits(enough if given else rate.least, enough))

    def change(fleet: Fleet) -> Fleet:
        links = (
            other(link) if limit == ("link", link.source, link.destination) else link for link in fleet.connections
        )
        return dataclasses.replace(fleet, connections=tuple(links))

    return change


def with_demand(limit: Limit, demand_rps: float | None) -> Change:
    """With another demand of a stream, or without the stream."""

    def change(fleet: Fleet) -> Fleet:
        streams = (
            each if limit != ("demand", each.name) else dataclasses.replace(each, demand_rps=demand_rps or 0.0)
            for each in fleet.streams
        )
        return dataclasses.replace(fleet, streams=tuple(each for each in streams if each.demand_rps > 0))

    return change


def with_slo(limit: Limit, tokens_per_s: float | None) -> Change:
    """With another SLO of a stream, or with none."""

    def change(fleet: Fleet) -> Fleet:
        streams = (
            dataclasses.replace(each, tokens_per_s=tokens_per_s) if limit == ("slo", each.name) else each
            for each in fleet.streams
        )
        return dataclasses.replace(fleet, streams=tuple(streams))

    return change


CHANGES = {"gpus": with_gpus, "link": with_link, "slo": with_slo, "demand": with_demand}


def without(fleet: Fleet, limits: Iterable[Limit]) -> Fleet:
    """The fleet without some of its limits."""
    for limit in limits:
        fleet = CHANGES[limit[0]](limit, None)(fleet)
    return fleet


def limits_of(fleet: Fleet) -> list[Limit]:
    """All limits there are, those of the supply first: without streams the others mean nothing."""
    found: list[Limit] = [("gpus", h.hardware, site.name) for site in fleet.sites for h in site.holdings]
    found += [("link", link.source, link.destination) for link in fleet.connections]
    found += [("slo", stream.name) for stream in fleet.streams]
    return found + [("demand", stream.name) for stream in fleet.streams]


FIXES = {
    "gpus": r"allow (?P<number>[\d,]+) {1} GPUs in {2}",
    "link": r"widen it to (?P<number>[\d.]+) Gbps",
    "slo": r"ask for (?P<number>[\d.]+) tokens/s",
    "demand": r"lower it to (?P<number>[\d.]+) req/s",
}
CANNOT_HELP = "this limit alone cannot be changed so that it helps"


def stated(limit: Limit, problem: Problem, fleet: Fleet) -> tuple[Change, Change]:
    """The change that a problem says is enough, and one that is a little less."""
    if problem.fix == "leave this stream out":
        (stream,) = (each for each in fleet.streams if limit == ("demand", each.name))
        return with_demand(limit, None), with_demand(limit, 0.01 * stream.demand_rps)
    match = re.fullmatch(FIXES[limit[0]].format(*limit), problem.fix)
    assert match, problem.fix
    number = float(match["number"].replace(",", ""))
    if limit[0] == "link":
        return with_link(limit, number * GBPS), with_link(limit, 0.98 * number * GBPS)
    if limit[0] == "gpus":
        profiles = (stream.model.profile(limit[1]) for stream in fleet.streams)
        return with_gpus(limit, number), with_gpus(limit, number - min(p.gpus_per_instance for p in profiles if p))
    return CHANGES[limit[0]](limit, number), CHANGES[limit[0]](limit, {"slo": 1.01, "demand": 1.03}[limit[0]] * number)


SEEDS = (1, 3, 7, 11, 12, 13, 14, 16, 17, 18, 19, 20, 23)
"""Of the first two dozens those that are told soon."""

SIZED: dict[str, tuple[Fleet, dict[Limit, str]]] = {
    # 2 + 3 instances, of which at most 4 prefill, at 0.6 s a request.
    "too few GPUs": (
        fleet(stream(demand_rps=8.0)),
        {
            ("gpus", "R", "far"): "allow 8 R GPUs in far",
            ("gpus", "L", "near"): "allow 20 L GPUs in near",
            ("demand", "s"): "lower it to 5 req/s",
        },
    ),
    # Prefill in far does not help where near decodes too little.
    "too few GPUs that decode": (
        fleet(stream(demand_rps=20.0), far=100, near=8, gbps=100.0),
        {("gpus", "L", "near"): "allow 20 L GPUs in near", ("demand", "s"): "lower it to 7.97 req/s"},
    ),
    # 3 req/s of 60 MB are 1.44 Gbps.
    "a narrow link": (
        fleet(stream(model=REMOTE_ONLY), gbps=1.0),
        {("link", "far", "near"): "widen it to 1.45 Gbps", ("demand", "s"): "lower it to 2.06 req/s"},
    ),
    "a narrow link, or GPUs to prefill": (
        fleet(stream(), near=4, gbps=1.0),
        {
            ("link", "far", "near"): "widen it to 1.45 Gbps",
            ("gpus", "L", "near"): "allow 8 L GPUs in near",
            ("demand", "s"): "lower it to 2.06 req/s",
        },
    ),
    # At 99 tokens/s an instance decodes 1 request; with 3 of them, at 83.3, 2 instances decode 5 req/s.
    "a fast SLO": (
        fleet(stream(demand_rps=5.0, tokens_per_s=99.0)),
        {
            ("gpus", "L", "near"): "allow 24 L GPUs in near",
            ("slo", "s"): "ask for 83.2 tokens/s",
            ("demand", "s"): "lower it to 2.97 req/s",
        },
    ),
    # Two decode, 2.4 instances' work of prefill for each model makes three and three.
    "two streams": (
        fleet(stream("a", demand_rps=4.0), stream("b", OTHER, 4.0), far=8, near=12),
        {
            ("gpus", "R", "far"): "allow 10 R GPUs in far",
            ("gpus", "L", "near"): "allow 16 L GPUs in near",
            ("demand", "a"): "lower it to 3.31 req/s",
            ("demand", "b"): "lower it to 3.31 req/s",
        },
    ),
    # No link leads to the isle, where one instance cannot both prefill and decode.
    "a stream without a way": (
        fleet(stream("a", destination="near", demand_rps=1.0), stream("b", destination="isle", demand_rps=1.0), isle=4),
        {("gpus", "L", "isle"): "allow 8 L GPUs in isle", ("demand", "b"): "leave this stream out"},
    ),
}


# The same fleets cannot be planned at all: no rate is served.
PLANNED: dict[str, tuple[Fleet, dict[Limit, str]]] = {
    "models that share too few GPUs": (
        fleet(stream("a"), stream("b", OTHER), near=12, gbps=None, given=True),
        {("gpus", "L", "near"): "allow 16 L GPUs in near"},
    ),
    "models that share too few GPUs in two places": (
        fleet(stream("a"), stream("b", OTHER), far=2, near=8, given=True),
        {("gpus", "R", "far"): "allow 4 R GPUs in far", ("gpus", "L", "near"): "allow 12 L GPUs in near"},
    ),
    "three models": (
        fleet(
            stream("a"),
            stream("b", OTHER),
            stream("c", dataclasses.replace(MODEL, name="third")),
            far=4,
            near=12,
            given=True,
        ),
        {("gpus", "R", "far"): "allow 6 R GPUs in far", ("gpus", "L", "near"): "allow 16 L GPUs in near"},
    ),
    "a stream without a way": (
        fleet(stream("a", destination="near"), stream("b", destination="isle"), isle=4, given=True),
        {("gpus", "L", "isle"): "allow 8 L GPUs in isle"},
    ),
    "one instance and no link": (
        fleet(stream(), near=4, gbps=None, given=True),
        {("gpus", "L", "near"): "allow 8 L GPUs in near"},
    ),
}


def place(limit: Limit, fleet: Fleet) -> str:
    """Where a limit stands in a scenario."""
    kind, *names = limit
    streams = [stream.name for stream in fleet.streams]
    links = [[link.source, link.destination] for link in fleet.connections]
    if kind == "demand":
        return f"traffic.{streams.index(names[0])}.demand_rps" if len(streams) > 1 else "demand_rps"
    if kind == "link":
        return f"links.{links.index(names)}.bandwidth"
    return f"clusters.{names[1]}" if kind == "gpus" else "slo.tokens_per_s"


def times(fleet: Fleet, factor: float) -> Fleet:
    """The fleet with all demands multiplied."""
    streams = (dataclasses.replace(each, demand_rps=factor * each.demand_rps) for each in fleet.streams)
    return dataclasses.replace(fleet, streams=tuple(streams))


def check_conflict(asked: Fleet, found: dict[Limit, Problem]) -> None:
    """The limits found conflict, not without any one of them; their changes are enough, and a little less is not."""

    def judged(fleet: Fleet, expected: bool, why: object) -> None:
        assert feasible(fleet) == expected, why
        assert feasible(fleet, by_oracle=True) == expected, why

    judged(asked, False, asked)
    others = without(asked, (limit for limit in limits_of(asked) if limit not in found and limit[0] != "demand"))
    judged(others, False, others)
    for limit, problem in found.items():
        judged(without(others, [limit]), True, limit)
        enough, less = stated(limit, problem, asked)
        judged(enough(asked), True, problem)
        judged(less(asked), False, problem)


@pytest.mark.parametrize("name", SIZED)
def test_known_conflicts_of_sizing(name: str) -> None:
    asked, known = SIZED[name]
    found = infeasible_size(asked)
    assert {limit: problem.fix for limit, problem in found.items()} == known
    assert all(problem.message.endswith(f" serving {asked.demand_rps:g} req/s") for problem in found.values())
    assert all(problem.where == place(limit, asked) for limit, problem in found.items())
    check_conflict(asked, found)


@pytest.mark.parametrize("name", PLANNED)
def test_known_conflicts_of_planning(name: str) -> None:
    asked, known = PLANNED[name]
    found = infeasible_plan(asked)
    assert {limit: problem.fix for limit, problem in found.items()} == known
    assert all(problem.message.endswith(" serving any traffic") for problem in found.values())
    check_conflict(times(asked, 1e-3), found)


def test_of_two_conflicts_side_by_side_one_is_told_and_no_change_that_would_leave_the_other() -> None:
    streams = (stream(name, MODEL, 40.0, name) for name in ("near", "isle"))
    asked = fleet(*streams, isle=8)
    found = infeasible_size(asked)
    (place,) = (limit for limit in found if limit[0] == "gpus")
    assert set(found) == {place, ("demand", place[-1])}
    assert {problem.fix for problem in found.values()} == {CANNOT_HELP}
    others = without(asked, (limit for limit in limits_of(asked) if limit not in found))
    assert not feasible(others)
    assert feasible(without(others, [place]))


def test_a_fleet_that_serves_its_demands_has_no_conflict() -> None:
    assert fleet_api.size(fleet(stream(demand_rps=4.9)), options=OPTIONS).demand_rps == pytest.approx(4.9)


def random_infeasible(seed: int) -> Fleet | None:
    """A sized fleet that serves some multiple of its demands, but not these; None where it serves none."""
    rng = np.random.default_rng(seed)
    drawn = random_fleet(rng, sized=True, kinds=ATOMS)
    sites = []
    for site in drawn.sites:
        held = (dataclasses.replace(h, usd_per_gpu_hour=h.usd_per_gpu_hour or 1.0) for h in site.holdings)
        sites.append(dataclasses.replace(site, holdings=tuple(held)))
    drawn = dataclasses.replace(drawn, sites=tuple(sites))
    most = fleet_oracle.relaxed_throughput(drawn, bins=40) / drawn.demand_rps
    return times(drawn, float(rng.uniform(1.05, 4.0)) * most) if most > 0 else None


@pytest.mark.parametrize("seed", SEEDS)
def test_random_conflicts_are_conflicts_and_minimal(seed: int) -> None:
    """Judged by scipy alone, on lengths that are atoms, where its bins are exact."""
    asked = random_infeasible(seed)
    assert asked is not None
    assert not feasible(asked, by_oracle=True)
    found = infeasible_size(asked)
    limits = limits_of(asked)
    assert set(found) <= set(limits)
    others = without(asked, (limit for limit in limits if limit not in found))
    assert not feasible(others, by_oracle=True)
    for limit, problem in found.items():
        assert feasible(without(others, [limit]), by_oracle=True), limit
        if problem.fix != CANNOT_HELP:
            enough, _ = stated(limit, problem, asked)
            assert feasible(enough(asked), by_oracle=True), problem
