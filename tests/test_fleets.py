"""The plan of a fleet and its bound, against the oracle and against itself on fleets that are more or other."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from prfaas_opt.api import load_scenario
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.fleet import Connection, Fleet, Holding, Limits, Role, fleet_of
from prfaas_opt.planning.fleets.bins import Bins
from prfaas_opt.planning.fleets.decision import Decision
from prfaas_opt.planning.fleets.network import Network, network_of
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms
from prfaas_opt.planning.fleets.search import Progress
from prfaas_opt.planning.fleets.solve import Solved, most_scale
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.planning.plan import planned_alone
from tests.fleet_bins import Count, Counts
from tests.fleet_check import evaluated
from tests.fleet_oracle import best_throughput, best_throughput_of, least_egress
from tests.fleets import ATOMS, LENGTH_KINDS, ROLES, case_study_fleet, doubled, random_fleet, split_in_two
from tests.scenarios import random_scenario

GAP = 1e-6
QUICK = SolverOptions(bins=64)
A_TOKEN = 1.1e-4
"""Relative loss that whole tokens may cost a plan, and its solver's tolerances."""
DENSITIES = tuple(kind for kind in LENGTH_KINDS if kind not in ATOMS)


def fleet(seed: int, *, tiny: bool = False, kinds: tuple[str, ...] = LENGTH_KINDS) -> Fleet:
    return random_fleet(np.random.default_rng(seed), tiny=tiny, kinds=kinds)


def planned(of: Fleet, options: SolverOptions = QUICK) -> Solved | None:
    """The plan; None where some stream cannot be served."""
    with contextlib.suppress(InputError, InfeasibleError):
        return most_scale(network_of(of), options, GAP)
    return None


def served(of: Fleet, options: SolverOptions = QUICK) -> Solved:
    found = planned(of, options)
    assert found is not None
    return found


@functools.cache
def planned_tiny(seed: int) -> Solved | None:
    """The plan of a tiny fleet, made once."""
    return planned(fleet(seed, tiny=True))


def bound_rps(found: Solved) -> float:
    return found.bound * found.demand_rps


def shared_rps(found: Solved) -> float:
    """What the search attains, before borders are rounded to whole tokens."""
    return found.found.solution.scale * found.demand_rps


def counts_of(network: Network, decision: Decision) -> Counts:
    """Instances by what the oracle counts them by."""
    keys = [Count(team.model, team.site, team.hardware, team.role) for team in network.teams]
    return dict(zip(keys, decision.counts, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_plan_and_bound_against_the_oracle(seed: int) -> None:
    """Every fourth fleet has single lengths only, on which the oracle is exact."""
    exact = seed % 4 == 0
    asked = fleet(seed, kinds=ATOMS if exact else LENGTH_KINDS)
    attained = best_throughput(asked, 60)[0]
    found = planned(asked)
    assert (found is None) == (attained == 0)
    if found is None:
        return
    bound = bound_rps(found)
    assert attained <= bound * (1 + GAP)
    assert attained >= bound * (1 - (GAP if exact else 1e-3))
    assert bound * (1 - GAP) <= shared_rps(found) <= bound * (1 + 1e-9)
    evaluation = evaluated(asked, found.network, found.decision)
    evaluation.check_limits()
    assert evaluation.throughput_rps == pytest.approx(found.scale * found.demand_rps, rel=1e-6)
    assert bound * (1 - A_TOKEN) <= evaluation.throughput_rps <= bound * (1 + 1e-9)
    assert best_throughput_of(asked, evaluation.counts, 60) == pytest.approx(bound, rel=GAP if exact else 1e-3)


@functools.cache
def fine_throughput(seed: int, counts: tuple[tuple[Count, int], ...]) -> float:
    """What some counts of a tiny fleet carry on forty to eighty times as many bins, whatever bins found them."""
    return best_throughput_of(fleet(seed, tiny=True, kinds=DENSITIES), dict(counts), 640)


@pytest.mark.parametrize("bins", [8, 16])
def test_bound_is_no_artefact_of_bins(bins: int) -> None:
    """However few bins the search begins with, forty times as many attain no more."""
    approached = 0
    for seed in range(14):
        asked = fleet(seed, tiny=True, kinds=DENSITIES)
        found = planned(asked, SolverOptions(bins=bins))
        if found is None:
            continue
        attained = fine_throughput(seed, tuple(counts_of(found.network, found.decision).items()))
        assert attained <= bound_rps(found) * (1 + 1e-9), seed
        assert attained >= bound_rps(found) * (1 - 1e-4), seed
        # A few bins do not come near the bound, so that a grid's own optimum in its place would be noticed.
        approached += best_throughput(asked, bins)[0] < attained * (1 - 1e-5)
    assert approached > 1


def cut_counts(counts: Counts, of: Fleet, roles: tuple[Role, ...]) -> list[int]:
    """Instances in the sites of these roles."""
    return [n for key, n in counts.items() if of.site(key.site).role in roles]


@pytest.mark.parametrize("roles", [("prefill",), ("pd",), ROLES])
def test_twins_carry_what_one_of_twice_the_size_does(roles: tuple[Role, ...]) -> None:
    """As much at most, for instances are whole; as much where the whole's counts can be halved."""
    checked = halved = 0
    for seed in range(10):
        whole = doubled(fleet(seed, tiny=True), roles)
        one, twins = planned(whole), planned(split_in_two(whole, roles))
        if one is None or twins is None:
            assert twins is None
            assert one is None or best_throughput(split_in_two(whole, roles), 8)[0] == 0
            continue
        assert shared_rps(twins) <= bound_rps(one) * (1 + 1e-9), seed
        if all(n % 2 == 0 for n in cut_counts(counts_of(one.network, one.decision), whole, roles)):
            assert bound_rps(twins) >= shared_rps(one) * (1 - 1e-9), seed
            assert bound_rps(twins) == pytest.approx(bound_rps(one), rel=GAP), seed
            halved += 1
        checked += 1
    assert checked >= 5
    assert halved >= 2


def test_two_of_a_fleet_carry_twice_as_much() -> None:
    """Next to each other at least that, one of twice the size no less than those."""
    for seed in (2, 3, 8, 11, 12, 17):
        twice = doubled(fleet(seed, tiny=True))
        one = planned_tiny(seed)
        assert one is not None
        rates = [one, served(split_in_two(twice)), served(twice)]
        assert 2 * shared_rps(rates[0]) <= bound_rps(rates[1]) * (1 + 1e-9), seed
        assert shared_rps(rates[1]) <= bound_rps(rates[2]) * (1 + 1e-9), seed


def test_case_study() -> None:
    found = served(case_study_fleet())
    assert bound_rps(found) == pytest.approx(3.149482, abs=1e-6)
    assert found.scale * found.demand_rps == pytest.approx(3.149440, abs=1e-6)
    assert {key[1:]: n for key, n in counts_of(found.network, found.decision).items()} == {
        ("prfaas", "H200", "prefill"): 4,
        ("pd", "H20", "prefill"): 3,
        ("pd", "H20", "decode"): 5,
    }
    assert {key[1:]: band for band in found.decision.bands[0] for key in [way_of(found.network, band.shares)]} == {
        ("pd", "pd"): dataclasses.replace(found.decision.bands[0][0], high=19805.0),
        ("prfaas", "pd"): dataclasses.replace(found.decision.bands[0][1], low=19805.0, high=131072.0),
    }


def way_of(network: Network, shares: tuple[tuple[int, float], ...]) -> tuple[str, str, str]:
    """Stream, source and destination of the only way of a band."""
    ((i, share),) = shares
    assert share == 1
    way = network.ways[i]
    return network.streams[way.stream].name, network.teams[way.team].site, network.sites[way.destination]


def test_case_study_with_its_remote_pool_in_two() -> None:
    """Four instances and 100 Gbps are two and two with 50 each, and so are the requests."""
    found = served(split_in_two(case_study_fleet(), ("prefill",)))
    assert bound_rps(found) == pytest.approx(3.149482, abs=1e-6)
    assert found.scale * found.demand_rps == pytest.approx(3.149440, abs=1e-6)
    counts = {key[1:]: n for key, n in counts_of(found.network, found.decision).items()}
    assert (counts["prfaas/1", "H200", "prefill"], counts["prfaas/2", "H200", "prefill"]) == (2, 2)
    rates = [found.loads.rates_rps[i] for i, way in enumerate(found.network.ways) if way.pipe is not None]
    assert rates[0] == pytest.approx(rates[1], rel=1e-3)


def test_case_study_twice() -> None:
    """Sixteen PD instances can be split better than twice three and five; two and two eights can too."""
    whole = served(doubled(case_study_fleet()))
    twins = served(split_in_two(doubled(case_study_fleet())))
    assert bound_rps(whole) > 2 * 3.149483
    assert bound_rps(twins) == pytest.approx(bound_rps(whole), rel=GAP)
    assert best_throughput(doubled(case_study_fleet()), 160)[0] == pytest.approx(bound_rps(whole), rel=1e-4)


def test_two_pools_agree_with_their_own_planner() -> None:
    checked = 0
    for seed in range(700, 740):
        scenario = load_scenario(random_scenario(seed, "expected-time"))
        found = planned(fleet_of(scenario))
        try:
            bound = planned_alone(scenario).bound_rps
        except InfeasibleError:
            assert found is None, seed
            continue
        assert bound is not None
        assert found is not None, seed
        assert bound_rps(found) == pytest.approx(bound, rel=GAP), seed
        assert shared_rps(found) == pytest.approx(bound, rel=GAP), seed
        checked += 1
    assert checked > 30


STEP = 1e-3
"""Of an instance, and of a link, by which capacities are changed."""


def scale_of(found: Solved, *, team: int | None = None, pipe: int | None = None, step: float = 0.0) -> float:
    """The best scale with the counts found, on the same bins, with a bit more of one capacity.

    More of a team is a higher ceiling, as if there were ``step`` instances more; of a link, ``step`` of its rate.
    """
    network, counts = found.network, list(found.found.counts)
    if team is not None:
        instances, ceiling = counts[team] + step, network.teams[team].ceiling
        if counts[team] == 0:
            counts[team] = 1
        changed = dataclasses.replace(network.teams[team], ceiling=ceiling * instances / counts[team])
        room = [
            dataclasses.replace(g, limits=Limits(0, g.limits.most + changed.gpus_per_instance)) for g in network.gpus
        ]
        teams = tuple(changed if t == team else each for t, each in enumerate(network.teams))
        network = dataclasses.replace(network, teams=teams, gpus=tuple(room))
    if pipe is not None:
        rate = network.pipes[pipe].bytes_per_s.most * (1 + step)
        changed_pipe = dataclasses.replace(network.pipes[pipe], bytes_per_s=Limits(rate, rate))
        pipes = tuple(changed_pipe if e == pipe else each for e, each in enumerate(network.pipes))
        network = dataclasses.replace(network, pipes=pipes)
    edges = [{x for pair in each.ranges for x in pair} for each in found.found.solution.bins]
    program = BinnedProgram(network, Bins(network, edges), Terms(goal="scale", counts=tuple(counts)))
    assert program.solve(QUICK).found
    return program.solution.scale


def shadow_prices(found: Solved) -> dict[tuple[str, int], float]:
    """What one more instance of each team, and one more of each link used, is worth in scale."""
    network, program = found.network, found.found.program
    prices: dict[tuple[str, int], float] = {}
    for role in ("prefill", "decode"):
        teams = [t for t, team in enumerate(network.teams) if team.role == role]
        for t, dual in zip(teams, program.duals(role), strict=True):
            prices["team", t] = dual * network.teams[t].ceiling
    pipes = sorted({way.pipe for way in network.ways if way.pipe is not None})
    for e, dual in zip(pipes, program.duals("egress") if pipes else (), strict=True):
        prices["pipe", e] = dual * network.pipes[e].ceiling
    return prices


def test_shadow_prices_are_slopes() -> None:
    """Each lies between what a bit more brings and what a bit less costs; mostly these are the same."""
    alike = {"prefill": 0, "decode": 0, "pipe": 0}
    for found in [planned(case_study_fleet()), *map(planned_tiny, range(18))]:
        if found is None:
            continue
        base = scale_of(found)
        assert base == pytest.approx(found.found.solution.scale, rel=1e-7)
        for (kind, index), price in shadow_prices(found).items():
            name = "pipe" if kind == "pipe" else found.network.teams[index].role
            more, less = (
                scale_of(found, **{kind: index}, step=step)
                if step > 0 or kind == "pipe" or found.found.counts[index] > 0
                else 0.0
                for step in (STEP, -STEP)
            )
            tolerance = 1e-5 * base
            assert (more - base) / STEP <= price + tolerance, (name, index)
            assert price <= (base - less) / STEP + tolerance, (name, index)
            alike[name] += price > 1e-3 and abs(base - less - (more - base)) < 1e-3 * price * STEP
    assert min(alike.values()) >= 3, alike


def border_bytes(of: Fleet, found: Solved, rate_rps: float) -> float:
    """Bytes/s of the requests of one token length more or less at every border between bands."""
    sent = 0.0
    for s, (stream, bands) in enumerate(zip(of.streams, found.decision.bands, strict=True)):
        curves = [curve for i in found.network.ways_of[s] if (curve := found.network.ways[i].kv_bytes) is not None]
        for border in {x for band in bands for x in (band.low, band.high)} if curves else ():
            share = stream.workload.input_tokens.moment(0.0, border - 1.0, border + 1.0)
            sent += rate_rps * share * max(curve(min(border + 1.0, curve.upper)) for curve in curves)
    return sent


def test_where_lengths_do_not_limit_the_rate_the_fewest_bytes_are_sent() -> None:
    """As few as a linear program of its own finds for the rate, but for the whole tokens at the borders of bands."""
    checked = 0
    for seed in range(18):
        asked = fleet(seed, tiny=True, kinds=DENSITIES)
        found = planned(asked)
        if found is None:
            continue
        evaluation = evaluated(asked, found.network, found.decision)
        rate_rps = evaluation.throughput_rps
        if best_throughput_of(asked, evaluation.counts, 8) < rate_rps * (1 - 1e-9):
            continue  # Each of a few lengths would have to go where it goes.
        fewest = least_egress(asked, evaluation.counts, rate_rps * (1 - 1e-9), 200)
        assert fewest is not None
        sent = rate_rps * sum(evaluation.sent_bytes)
        assert fewest * (1 - 1e-4) <= sent <= fewest * (1 + 1e-4) + border_bytes(asked, found, rate_rps), seed
        checked += sent > 0
    assert checked > 5


@pytest.mark.parametrize("shape", ["one", "remote twins", "twice", "twins of twice"])
@pytest.mark.parametrize(("gbps", "instances"), [(52, 7), (96, 8), (140, 9)])
def test_where_decode_binds_few_bands_send_the_fewest_bytes(gbps: int, instances: int, shape: str) -> None:
    """A dense model behind a link: the short and the very long are sent, whichever of two twins takes them."""
    settings = {"links.0.bandwidth": f"{gbps}Gbps", "clusters.pd.instances": str(instances)}
    one = fleet_of(load_scenario(overrides={"model": "minimax-m2.5", **settings}))
    asked = {
        "one": one,
        "remote twins": split_in_two(one, ("prefill",)),
        "twice": doubled(one),
        "twins of twice": split_in_two(doubled(one)),
    }[shape]
    found = served(asked)
    evaluation = evaluated(asked, found.network, found.decision)
    rate_rps = evaluation.throughput_rps
    assert rate_rps == pytest.approx(bound_rps(found), rel=1e-4)
    decode = [(n, evaluation.busy_s[key]) for key, n in evaluation.counts.items() if key.role == "decode"]
    assert rate_rps * sum(busy for _, busy in decode) == pytest.approx(sum(n for n, _ in decode), rel=1e-4)
    fewest = least_egress(asked, evaluation.counts, rate_rps * (1 - 1e-9), 800)
    assert fewest is not None
    assert rate_rps * sum(evaluation.sent_bytes) == pytest.approx(fewest, rel=1e-4)
    bands = found.decision.bands[0]
    assert len(bands) <= len(found.network.ways) + 3
    sent = [sum(share for i, share in band.shares if found.network.ways[i].pipe is not None) > 0.5 for band in bands]
    ends = [a.high for a, b, after in zip(bands, sent, sent[1:], strict=False) if b != after]
    assert ends == [pytest.approx(border, abs=20) for border in BORDERS[gbps]]


BORDERS = {52: (15528, 72280), 96: (18840, 58941), 140: (21090, 52377)}
"""Tokens, by Gbps: requests in between stay."""


class _Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


SLOW = 26
"""A fleet whose first counts are not the best, so that its search goes on for rounds."""


@pytest.fixture(scope="module")
def complete() -> tuple[Solved, list[Progress]]:
    """The plan of that fleet, and what was reported on the way."""
    reports = list[Progress]()
    found = most_scale(network_of(fleet(SLOW)), QUICK, GAP, reports.append)
    assert found is not None
    return found, reports


def test_a_search_out_of_time_still_has_a_bound(
    complete: tuple[Solved, list[Progress]], monkeypatch: pytest.MonkeyPatch
) -> None:
    best, _ = complete
    clock = _Clock()
    monkeypatch.setattr("prfaas_opt.planning.fleets.search.time", clock)

    def wait(_: Progress) -> None:
        clock.now_s += 1000.0

    network = network_of(fleet(SLOW))
    stopped = most_scale(network, SolverOptions(bins=64, time_limit_s=900.0), GAP, wait)
    assert stopped is not None
    assert stopped.found.stopped == "time limit"
    assert best.found.stopped == ""
    assert bound_rps(stopped) >= shared_rps(best) * (1 - 1e-9)
    assert 0 < shared_rps(stopped) <= bound_rps(best) * (1 + 1e-9)
    assert shared_rps(stopped) < bound_rps(stopped) * (1 - GAP)


def test_an_interrupted_search_keeps_the_best_so_far(complete: tuple[Solved, list[Progress]]) -> None:
    reports = list[Progress]()

    def interrupt(progress: Progress) -> None:
        reports.append(progress)
        raise KeyboardInterrupt

    stopped = most_scale(network_of(fleet(SLOW)), QUICK, GAP, interrupt)
    assert stopped is not None
    assert stopped.found.stopped == "interrupted"
    assert len(reports) == 1
    assert (stopped.found.solution.scale, stopped.bound) == (reports[0].value, reports[0].bound)
    assert reports[0].value <= reports[0].bound
    assert bound_rps(stopped) >= shared_rps(complete[0]) * (1 - 1e-9)
    evaluation = evaluated(fleet(SLOW), stopped.network, stopped.decision)
    evaluation.check_limits()
    assert evaluation.throughput_rps == pytest.approx(shared_rps(stopped), rel=A_TOKEN)


def test_reports_close_in_on_the_optimum(complete: tuple[Solved, list[Progress]]) -> None:
    _, reports = complete
    assert len(reports) > 2
    assert all(a.value <= b.value and a.bound >= b.bound for a, b in itertools.pairwise(reports))
    assert all(a.elapsed_s <= b.elapsed_s for a, b in itertools.pairwise(reports))
    assert reports[-1].gap_share <= GAP


def test_interrupted_before_anything_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prfaas_opt.planning.fleets.search.Search._close", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        most_scale(network_of(fleet(SLOW)), QUICK, GAP)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def more_of(of: Fleet, what: str, which: int) -> Fleet:
    """The fleet with more GPUs of one holding, higher ceilings of one site and its links, or a wider link."""
    if what == "bandwidth" and of.connections:
        which %= len(of.connections)
        links = tuple(_wider(link) if e == which else link for e, link in enumerate(of.connections))
        return dataclasses.replace(of, connections=links)
    which %= len(of.sites)
    name = of.sites[which].name

    def grown(holding: Holding) -> Holding:
        if what == "ceilings":
            return dataclasses.replace(holding, max_utilization=min(1.0, 1.3 * holding.max_utilization))
        more = holding.gpus.most + max(1.0, holding.gpus.most // 3)
        return dataclasses.replace(holding, gpus=Limits(more, more))

    sites = tuple(
        dataclasses.replace(site, holdings=tuple(map(grown, site.holdings))) if site.name == name else site
        for site in of.sites
    )
    links = tuple(
        dataclasses.replace(link, max_utilization=min(1.0, 1.3 * link.max_utilization))
        if what == "ceilings" and name in (link.source, link.destination)
        else link
        for link in of.connections
    )
    return dataclasses.replace(of, sites=sites, connections=links)


def _wider(link: Connection) -> Connection:
    rate = 1.7 * link.bandwidth_bytes_per_s.most
    return dataclasses.replace(link, bandwidth_bytes_per_s=Limits(rate, rate))


@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["gpus", "bandwidth", "ceilings"]), st.integers(0, 2))
def test_more_of_anything_never_hurts(seed: int, what: str, which: int) -> None:
    less = fleet(seed, tiny=True)
    more = more_of(less, what, which)
    assume(more != less)  # some ceilings are all 1
    rates = []
    for each in (less, more):
        found = planned(each, SolverOptions(bins=16))
        rates.append((shared_rps(found), bound_rps(found)) if found else (0.0, 0.0))
    assert rates[1][0] >= rates[0][0] * (1 - 1.1 * GAP)
    assert rates[1][1] >= rates[0][0] * (1 - 1e-9)
