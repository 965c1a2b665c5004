"""Fleets that survive failures, against brute force: all counts, one linear program over every state for each."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from prfaas_opt import fleet_api, schemas
from prfaas_opt.errors import InfeasibleError, InputError, Problem, SolverError
from prfaas_opt.fleet import Fleet, Holding, Limits
from prfaas_opt.fleet_results import FailureKind, FleetFailure, FleetPlan, Sizing
from prfaas_opt.planning.fleets import survival
from prfaas_opt.planning.fleets.network import Network, network_of
from prfaas_opt.planning.fleets.states import failures_of
from prfaas_opt.planning.fleets.survival import NoneSurvivesError, Surviving, least_cost_surviving
from prfaas_opt.planning.options import SolverOptions
from tests import fleet_oracle
from tests.fleet_bins import Count, Counts, gpus_per_instance
from tests.fleets import ATOMS, random_fleet
from tests.survival_oracle import Survival, all_counts, brute_force
from tests.test_cli import run

GAP = 1e-6
A_SOLVERS_TOLERANCE = 2e-5
BYTES_PER_GBPS = 1e9 / 8
KINDS: tuple[tuple[FailureKind, ...], ...] = (
    ("link",),
    ("instance",),
    ("site",),
    ("link", "instance"),
    ("link", "instance", "site"),
)
SIZED = """\
name: what to buy
model: internal-1t
workload: prfaas-case-study
demand_rps: 6
clusters:
  us: {role: prefill, hardware: H200, gpus: {max: 256}, price_per_gpu_hour: 2.5}
  pd:
    role: pd
    hardware:
      H20:  {gpus: {max: 256}, price_per_gpu_hour: 1.2}
      H200: {gpus: {max: 64}, price_per_gpu_hour: 3}
links:
  - {from: us, to: pd, bandwidth: {max: 100Gbps}, price_per_gbps_hour: 0.5}
slo: {tokens_per_s: 40}
"""
GIVEN = """\
name: two sites, two models
traffic:
  - {model: internal-1t, workload: prfaas-case-study, demand_rps: 3}
  - {name: chat-eu, model: kimi-linear, workload: prfaas-case-study, demand_rps: 1, cluster: pd-eu,
     slo: {tokens_per_s: 30}}
clusters:
  us:    {role: prefill, hardware: H200, gpus: 64}
  pd-eu: {role: pd, hardware: H20, gpus: 64}
  pd-us: {role: pd, hardware: H20, gpus: 64}
links:
  - {from: us, to: pd-eu, bandwidth: 20Gbps}
  - {from: us, to: pd-us, bandwidth: 40Gbps}
slo: {tokens_per_s: 40}
"""


@pytest.fixture
def sized(tmp_path: Path) -> str:
    path = tmp_path / "sized.yaml"
    path.write_text(SIZED, encoding="utf-8")
    return str(path)


@pytest.fixture
def given(tmp_path: Path) -> str:
    path = tmp_path / "given.yaml"
    path.write_text(GIVEN, encoding="utf-8")
    return str(path)


def small_fleets() -> list[tuple[int, Fleet]]:
    """Of single lengths, with few enough counts; many of them survive little, so demands are halved."""
    found = []
    for seed in range(75):
        fleet = random_fleet(np.random.default_rng(seed), sized=True, tiny=True, kinds=ATOMS)
        streams = tuple(dataclasses.replace(s, demand_rps=0.4 * s.demand_rps) for s in fleet.streams)
        fleet = dataclasses.replace(fleet, streams=streams)
        try:
            all_counts(fleet)
            network_of(fleet)
        except (ValueError, InputError, InfeasibleError):
            continue
        found.append((seed, fleet))
    return found


SMALL = small_fleets()


def surviving(fleet: Fleet, kinds: Sequence[FailureKind], options: SolverOptions | None = None) -> Surviving | None:
    network = network_of(fleet)
    try:
        return least_cost_surviving(network, failures_of(network, kinds), options or SolverOptions(bins=16), GAP)
    except NoneSurvivesError:
        return None


def counts_of(network: Network, numbers: Sequence[int]) -> Counts:
    return {
        Count(team.model, team.site, team.hardware, team.role): n
        for team, n in zip(network.teams, numbers, strict=True)
    }


def check_survives(fleet: Fleet, kinds: Sequence[FailureKind], found: Surviving) -> None:
    """The counts, rates and roles of an answer serve the demand in every state, says the oracle."""
    decision = found.solved.decision
    held = iter(decision.gpus)
    rates = iter(decision.bytes_per_s)
    sites = []
    for site in fleet.sites:
        holdings = tuple(dataclasses.replace(h, gpus=Limits(n := next(held), n)) for h in site.holdings)
        sites.append(dataclasses.replace(site, holdings=holdings))
    links = tuple(
        dataclasses.replace(link, bandwidth_bytes_per_s=Limits(0.0, next(rates) * (1 + 1e-6)))
        for link in fleet.connections
    )
    bought = dataclasses.replace(fleet, sites=tuple(sites), connections=links)
    eased = tuple(dataclasses.replace(s, demand_rps=s.demand_rps * (1 - 2e-6)) for s in fleet.streams)
    bought = dataclasses.replace(bought, streams=eased)
    assert Survival(bought, kinds).usd_of_links(counts_of(found.solved.network, decision.counts)) is not None


# What it finds


@pytest.mark.parametrize("kinds", KINDS, ids=",".join)
def test_cost_against_brute_force(kinds: tuple[FailureKind, ...]) -> None:
    feasible = dearer = 0
    for seed, fleet in SMALL[:: 1 if "site" in kinds else 4]:
        expected, found = brute_force(fleet, kinds), surviving(fleet, kinds)
        assert (found is None) == (expected is None), seed
        if found is None or expected is None:
            continue
        assert found.solved.usd_per_hour == pytest.approx(expected, rel=A_SOLVERS_TOLERANCE, abs=1e-4), seed
        assert found.solved.bound <= expected * (1 + GAP) + 1e-9, seed
        check_survives(fleet, kinds, found)
        feasible += 1
        dearer += found.solved.usd_per_hour > found.unprotected_usd_per_hour * 1.001
    assert feasible >= 4
    assert dearer >= 2


def test_surviving_more_never_costs_less() -> None:
    rising = 0
    chain: list[tuple[FailureKind, ...]] = [("instance",), ("link", "instance"), ("link", "instance", "site")]
    for seed, fleet in SMALL[1::5]:
        costs = [found.solved.usd_per_hour if (found := surviving(fleet, kinds)) else math.inf for kinds in chain]
        for less, more in itertools.pairwise(costs):
            assert less <= more * (1 + 2e-5) + 1e-6, seed
            rising += more > less * 1.001
    assert rising >= 2


def test_many_states_at_once_bound_and_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of large fleets, taken by small ones: its bound is below the optimum, what it buys survives."""
    monkeypatch.setattr(survival, "_MOST_WAYS", 0)
    checked = 0
    for seed, fleet in SMALL[::5]:
        kinds: tuple[FailureKind, ...] = ("link", "instance")
        expected, found = brute_force(fleet, kinds), surviving(fleet, kinds)
        assert (found is None) == (expected is None), seed
        if found is None or expected is None:
            continue
        assert found.solved.bound <= expected * (1 + GAP) + 1e-9, seed
        assert found.solved.usd_per_hour >= expected * (1 - A_SOLVERS_TOLERANCE) - 1e-4, seed
        check_survives(fleet, kinds, found)
        checked += 1
    assert checked >= 3


def test_a_search_that_is_stopped_still_answers(sized: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the time does not allow to search is mended, and labelled."""
    best = fleet_api.size(sized, survive=("link", "instance"))
    assert (best.status, best.stopped) == ("optimal", "")

    def too_late(*_: object) -> None:
        raise SolverError(Problem("solver-limit", "", "too late"))

    monkeypatch.setattr("prfaas_opt.planning.fleets.many_states.ManyStates.next", too_late)
    monkeypatch.setattr(survival, "_MOST_WAYS", 0)
    stopped = fleet_api.size(sized, survive=("link", "instance"))
    assert (stopped.status, stopped.stopped) == ("feasible", "time limit")
    assert stopped.usd_per_hour >= best.usd_per_hour * (1 - 1e-6)
    assert stopped.bound_usd_per_hour is not None
    assert stopped.bound_usd_per_hour <= best.usd_per_hour
    assert stopped.failures
    assert all(row.served_share == 1.0 for row in stopped.failures)


def test_surviving_nothing_is_plain_sizing(sized: str) -> None:
    plain, none = fleet_api.size(sized), fleet_api.size(sized, survive=())
    assert plain == none
    assert (plain.survives, plain.failures, plain.unprotected_usd_per_hour) == ((), None, None)
    assert plain.usd_per_hour == pytest.approx(296.4530, abs=1e-3)


# What is said of the failures


def bought(fleet: Fleet, sizing: Sizing) -> Fleet:
    """The fleet with what was bought."""
    gpus = {(each.cluster, each.hardware): each.gpus for each in sizing.plan.gpus}
    sites = []
    for site in fleet.sites:
        held = tuple(Holding(h.hardware, Limits(n := gpus[site.name, h.hardware], n)) for h in site.holdings)
        sites.append(dataclasses.replace(site, holdings=held))
    rates = [link.bandwidth_gbps * BYTES_PER_GBPS for link in sizing.plan.links]
    links = tuple(
        dataclasses.replace(link, bandwidth_bytes_per_s=Limits(rate, rate))
        for link, rate in zip(fleet.connections, rates, strict=True)
    )
    return dataclasses.replace(fleet, sites=tuple(sites), connections=links)


def without(fleet: Fleet, row: FleetFailure, plan: FleetPlan) -> tuple[Fleet, Counts]:
    """The fleet and its counts after a failure."""
    counts = {Count(g.model, g.cluster, g.hardware, g.role): g.instances for g in plan.groups}
    if row.kind == "link":
        links = tuple(c for c in fleet.connections if f"{c.source} to {c.destination}" != row.part)
        assert len(links) == len(fleet.connections) - 1
        return dataclasses.replace(fleet, connections=links), counts
    if row.kind == "site":
        sites = tuple(site for site in fleet.sites if site.name != row.part)
        links = tuple(c for c in fleet.connections if row.part not in (c.source, c.destination))
        kept = tuple(s for s in fleet.streams if s.destination != row.part)
        counts = {key: n for key, n in counts.items() if key.site != row.part}
        return dataclasses.replace(fleet, sites=sites, connections=links, streams=kept), counts
    key = next(k for k in counts if row.part == f"{k.site} {k.hardware} {k.role} of {k.model}")
    assert counts[key] > 0
    model = next(stream.model for stream in fleet.streams if stream.model.name == key.model)
    lost = gpus_per_instance(model, key.hardware)
    sites_left = []
    for site in fleet.sites:
        held = tuple(
            dataclasses.replace(h, gpus=Limits(h.gpus.least - lost, h.gpus.most - lost))
            if (site.name, h.hardware) == (key.site, key.hardware)
            else h
            for h in site.holdings
        )
        sites_left.append(dataclasses.replace(site, holdings=held))
    return dataclasses.replace(fleet, sites=tuple(sites_left)), {**counts, key: counts[key] - 1}


def test_every_failure_that_is_listed_is_served(sized: str) -> None:
    """By plan_fleet on what is left with roles split anew, and by the oracle with the roles as they are."""
    sizing = fleet_api.size(sized, survive=("instance", "link"))
    assert sizing.survives == ("link", "instance")
    assert sizing.failures is not None
    fleet = bought(fleet_api.load_fleet(sized), sizing)
    groups = [group for group in sizing.plan.groups if group.instances]
    assert [row.kind for row in sizing.failures] == ["link"] + ["instance"] * len(groups)
    for row in sizing.failures:
        left, counts = without(fleet, row, sizing.plan)
        assert row.served_share == 1.0
        assert row.cut_off == ()
        assert row.throughput_rps >= sizing.demand_rps * (1 - 1e-6)
        assert fleet_api.plan_fleet(left).throughput_rps >= sizing.demand_rps * (1 - 1e-4), row.part
        known = {key: n for key, n in counts.items() if n and not (row.kind == "link" and key.site == "us")}
        most = fleet_oracle.best_throughput_of(left, known, 200)
        assert most >= sizing.demand_rps * (1 - 1e-4), row.part
        assert row.throughput_rps <= most * (1 + 1e-4), row.part


def test_failures_of_a_plan_are_those_of_the_fleets_that_are_left(given: str) -> None:
    fleet = fleet_api.load_fleet(given)
    assert fleet_api.plan_fleet(given).failures is None
    plan = fleet_api.plan_fleet(given, failures=True)
    anew: dict[str, float] = {}  # one H20 instance less is the same fleet, whatever its role was
    assert plan.failures is not None
    assert {row.kind for row in plan.failures} == {"link", "instance", "site"}
    for row in plan.failures:
        left, counts = without(fleet, row, plan)
        chat_lost = (row.kind, row.part) == ("site", "pd-eu")
        assert row.cut_off == (("chat-eu",) if chat_lost else ())
        assert row.resplit_cut_off == row.cut_off
        used = {key: n for key, n in counts.items() if n}
        if row.kind == "site" and row.part == "pd-eu":
            used = {key: n for key, n in used.items() if key.model == "internal-1t"}
        most = fleet_oracle.best_throughput_of(left, used, 200)
        assert row.throughput_rps == pytest.approx(min(most, plan.throughput_rps), rel=2e-4), row
        if (key := repr(left)) not in anew:
            anew[key] = fleet_api.plan_fleet(left).throughput_rps
        assert row.resplit_rps is not None
        # Roles are split anew to a gap of 1e-4.
        assert row.resplit_rps == pytest.approx(min(anew[key], plan.throughput_rps), rel=3e-4), row
        assert row.resplit_rps >= row.throughput_rps * (1 - 1e-4)
        demand = fleet.demand_rps
        share = min(row.throughput_rps / demand, 0.75 if chat_lost else 1.0)
        assert row.served_share == pytest.approx(share, rel=1e-9)


# When none survives


def test_the_only_cluster_that_decodes_cannot_be_lost(sized: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        fleet_api.size(sized, survive=("site", "instance"))
    (problem,) = caught.value.problems
    assert problem.code == "survive"
    assert "clusters.pd" in problem.where
    assert "the loss of cluster pd cannot be survived" in problem.message
    assert "internal-1t may be decoded nowhere else" in problem.message
    assert "another pd cluster" in problem.fix
    assert "leave site out of --survive" in problem.fix


def test_what_would_help_does(sized: str, tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError) as caught:
        fleet_api.size(sized, 10, survive=("link",))
    (problem,) = caught.value.problems
    assert problem.code == "survive"
    assert "no fleet within the limits serves 10 req/s after the loss of link us to pd" in problem.message
    fixes = problem.fix.split("; or ")
    gpus = int(fixes[0].removeprefix("allow ").removesuffix(" H20 GPUs in pd"))
    demand = float(fixes[2].removeprefix("lower the demand to ").removesuffix(" req/s"))
    assert fixes[3] == "leave link out of --survive"
    assert fleet_api.size(sized, demand, survive=("link",)).survives == ("link",)
    path = tmp_path / "more.yaml"
    for allowed, enough in ((gpus, True), (gpus - 8, False)):
        path.write_text(SIZED.replace("H20:  {gpus: {max: 256}", f"H20:  {{gpus: {{max: {allowed}}}"), encoding="utf-8")
        if enough:
            assert fleet_api.size(str(path), 10, survive=("link",)).status == "optimal"
        else:
            with pytest.raises(InfeasibleError):
                fleet_api.size(str(path), 10, survive=("link",))


def test_a_demand_that_nothing_serves_conflicts_as_ever(sized: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        fleet_api.size(sized, 1000, survive=("instance",))
    assert {problem.code for problem in caught.value.problems} == {"conflict"}


def test_what_is_refused(sized: str) -> None:
    with pytest.raises(InputError):
        fleet_api.size(sized, budget_usd_per_hour=100, survive=("link",))
    with pytest.raises(InputError):
        fleet_api.size(sized, survive=("rack",))  # type: ignore[arg-type]
    for arguments in (["--survive", "rack"], ["--survive", ""], ["--survive", "link", "--budget", "100"]):
        assert run("size", sized, *arguments).exit_code == 2, arguments


# The command line


def test_text_and_json(sized: str) -> None:
    text = run("size", sized, "--survive", "link, instance")
    assert text.exit_code == 0, text.output
    assert not [line for line in text.stdout.splitlines()[1:] if len(line) > 80]
    words = " ".join(text.stdout.split())
    for expected in (
        "for 347.62 USD/h serve 6.00 req/s",
        "link us to pd 6.05 req/s 100.0 %",
        "After the loss of any one of these, a link or an instance, the whole demand is still served",
        "51.17 USD/h (17.3 %) more than the cheapest fleet found that survives nothing",
        "no fleet within these limits serves this and survives these for less than 347.",
    ):
        assert expected in words
    machine = run("size", sized, "--survive", "link,instance", "--curve", "3,40", "--json")
    assert machine.exit_code == 0
    document = json.loads(machine.stdout)
    jsonschema.Draft202012Validator(schemas.schema("size")).validate(document)
    data = document["data"]
    assert data["survives"] == ["link", "instance"]
    assert data["unprotected_usd_per_hour"] == pytest.approx(296.453, abs=0.01)
    assert data["bound_usd_per_hour"] <= data["usd_per_hour"]
    assert {row["kind"] for row in data["failures"]} == {"link", "instance"}
    three, forty = data["curve"]
    assert three["usd_per_hour"] > fleet_api.size(sized, 3).usd_per_hour * 1.01
    assert forty["status"] == "infeasible"


def test_none_survives_on_the_command_line(sized: str) -> None:
    result = run("size", sized, "--survive", "site")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "the loss of cluster pd cannot be survived" in result.stderr
    document = json.loads(run("size", sized, "--survive", "site", "--json").stdout)
    assert (document["status"], document["errors"][0]["code"]) == ("infeasible", "survive")
