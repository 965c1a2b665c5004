"""The Python API of fleets: two pools as they were planned before, and results whose figures agree with each other."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from prfaas_opt import api, fleet_api
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.fleet import Fleet, fleet_of
from prfaas_opt.fleet_results import FleetPlan, Sizing
from prfaas_opt.io.scenario_file import load_scenario
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.results import Plan
from tests.fleets import case_study_fleet, random_fleet
from tests.scenarios import random_scenario

GAP = 1e-6
PLANNED = (1, 2, 4, 7, 12, 13, 14, 15, 17, 20, 21, 22, 27, 28, 31)
SIZED = (1, 3, 5, 7, 9, 12, 13, 15, 21, 22)
"""Seeds of fleets that can be served, and soon planned."""


def close(a: float | None, b: float | None, relative: float = 1e-9) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=relative, abs_tol=relative)


# Two pools


def instances(plan: FleetPlan) -> tuple[int, int, int]:
    """Remote prefill, local prefill, decode."""
    remote = {each.cluster for each in plan.gpus if each.role == "prefill"}
    counts = {(each.cluster in remote, each.role): each.instances for each in plan.groups}
    return counts.get((True, "prefill"), 0), counts.get((False, "prefill"), 0), counts[False, "decode"]


def check_same(two: Plan, many: FleetPlan, relative: float) -> None:
    """All figures that both plans have."""
    (stream,) = many.streams
    remote = {each.cluster for each in many.gpus if each.role == "prefill"}
    groups = {(each.cluster in remote, each.role): each for each in many.groups}
    link = many.links[0] if many.links else None
    assert (stream.kind, stream.threshold_tokens) == (two.routing.kind, two.threshold_tokens)
    assert instances(many) == (two.instances.prfaas, two.instances.pd_prefill, two.instances.pd_decode)
    assert close(many.throughput_rps, two.throughput_rps, relative)
    assert many.bound_rps is not None
    assert close(many.bound_rps, two.bound_rps, 1e-7)
    assert many.gap_share == pytest.approx(two.gap_share, abs=1e-7)
    assert many.tie_loss_share == pytest.approx(two.tie_loss_share, abs=1e-7)
    assert close(many.offload_share, two.offload_share, relative)
    assert close(stream.offload_share, two.offload_share, relative)
    assert close(many.egress_gbps, two.egress_gbps, relative)
    assert close(stream.ttft_s.mean, two.ttft_s.mean, relative)
    assert close(stream.ttft_s.p90, two.ttft_s.p90, relative)
    used = {
        "prfaas": groups[True, "prefill"].utilization if (True, "prefill") in groups else None,
        "pd_prefill": groups[False, "prefill"].utilization if (False, "prefill") in groups else None,
        "pd_decode": groups[False, "decode"].utilization,
        "egress": link.utilization if link else None,
    }
    for name, share in used.items():
        # A role without instances is null in both; a remote pool that serves nothing is 0 in one of them.
        assert close(share or 0.0, getattr(two.utilization, name) or 0.0, relative), name
    bands = [(band.to_tokens, {way.pool for way in band.ways}) for band in stream.bands]
    assert bands == [(band.to_tokens, {band.pool}) for band in two.routing.bands]
    paths = [(path.model, path.from_, path.to, path.pool) for path in many.paths]
    assert sorted(paths) == sorted((path.model, path.from_, path.to, path.pool) for path in two.paths)
    rates = {path.pool: path.rate_rps for path in two.paths}
    assert all(close(path.rate_rps, rates[path.pool], relative) for path in many.paths)
    words = {"prfaas": "prefill", "pd_prefill": "prefill", "pd_decode": "decode", "egress": "link"}
    assert len(many.bottlenecks) == len(two.bottlenecks)
    assert all(any(words[stage] in name for name in many.bottlenecks) for stage in two.bottlenecks)


def check_same_prices(two: Plan, many: FleetPlan) -> None:
    """What one more of each is worth, counts fixed."""
    remote = {each.cluster for each in many.gpus if each.role == "prefill"}
    prices = two.shadow_prices
    assert prices is not None
    for group in many.groups:
        local = "pd_prefill" if group.role == "prefill" else "pd_decode"
        price = getattr(prices, f"{'prfaas' if group.cluster in remote else local}_instance_rps")
        assert close(group.instance_rps, price, 1e-4), group
    for link in many.links:
        assert close(link.egress_rps_per_gbps, prices.egress_rps_per_gbps, 1e-4)


def test_the_case_study() -> None:
    two, many = api.plan(sensitivity=True), fleet_api.plan_fleet(sensitivity=True)
    check_same(two, many, 1e-9)
    check_same_prices(two, many)
    assert (many.status, many.stopped, many.estimator) == (two.status, "", two.estimator)
    assert many.streams[0].threshold_tokens == 19805
    assert instances(many) == (4, 3, 5)
    assert (many.cost, two.cost) == (None, None)
    assert many.what_ifs is not None
    gains = {each.resource: each for each in many.what_ifs}
    for each in two.what_ifs:
        if each.resource in gains:
            assert close(gains[each.resource].throughput_rps, each.throughput_rps, 2e-5)
    assert two.sensitivity is not None
    assert many.sensitivity is not None
    deviations = {(each.figure, each.off_by_share): each for each in many.sensitivity}
    for off in two.sensitivity:
        same = deviations.get((off.figure, off.off_by_share))
        if same is not None:
            assert close(same.deployed_rps, off.deployed_rps, 1e-6), off
            assert close(same.replanned_rps, off.replanned_rps, 3e-5), off
    assert {"prfaas", "pd"} <= set(gains) & {each.resource for each in two.what_ifs}


@pytest.mark.parametrize("form", ["none", "scenario", "fleet", "mapping"])
def test_every_form_of_the_case_study(form: str) -> None:
    sources = {
        "none": None,
        "scenario": load_scenario(),
        "fleet": case_study_fleet(),
        "mapping": {
            "model": "internal-1t",
            "workload": "prfaas-case-study",
            "clusters": {
                "prfaas": {"role": "prefill", "hardware": "H200", "instances": 4},
                "pd": {"role": "pd", "hardware": "H20", "gpus": 64},
            },
            "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps"}],
            "slo": {"tokens_per_s": 40},
        },
    }
    plan = fleet_api.plan_fleet(sources[form])
    assert (plan.streams[0].threshold_tokens, round(plan.throughput_rps, 6)) == (19805, 3.149440)


def test_a_price_on_two_pools_is_a_price_on_the_fleet() -> None:
    prices = {"clusters.prfaas.price_per_gpu_hour": "4", "clusters.pd.price_per_gpu_hour": "2"}
    scenario = load_scenario(None, prices)
    two, many = api.plan(scenario).cost, fleet_api.plan_fleet(scenario).cost
    assert two is not None
    assert many is not None
    assert many.requests_per_usd is not None
    assert close(many.usd_per_hour, two.usd_per_hour)
    assert close(many.requests_per_usd, two.requests_per_usd)


@pytest.mark.parametrize("seed", [*range(12), 21, 26, 37, 58, 77, 91])
def test_random_two_pools(seed: int) -> None:
    """One bound; and one plan, where a threshold is the best of all routings and sharing one length gains nothing."""
    scenario = load_scenario(random_scenario(seed, "expected-time", ("uniform", "truncated-lognormal")))
    try:
        two = api.plan(scenario)
    except InfeasibleError:
        with pytest.raises((InfeasibleError, InputError)):
            fleet_api.plan_fleet(scenario)
        return
    many = fleet_api.plan_fleet(scenario)
    assert close(many.bound_rps, two.bound_rps, 2 * GAP)
    assert many.throughput_rps >= two.throughput_rps * (1 - 2 * GAP)
    assert many.status == "optimal"
    same = two.status == "optimal" and two.routing.kind == many.streams[0].kind == "threshold"
    assert same or seed < 12 or two.routing.kind != "threshold"
    if same:
        check_same(two, many, 1e-6)


@pytest.mark.parametrize("seed", range(14))
def test_variations_of_the_case_study(seed: int) -> None:
    """Long prompts, so that one length more or less hardly matters: a threshold is best, and all figures agree."""
    rng = np.random.default_rng(seed)
    changes = {
        "clusters.prfaas.instances": str(rng.integers(1, 9)),
        "clusters.pd.instances": str(rng.integers(3, 13)),
        "links.0.bandwidth": f"{rng.uniform(2.0, 30.0):.3f}Gbps",
        "clusters.prfaas.max_utilization": f"{rng.uniform(0.5, 1.0):.3f}",
        "links.0.max_utilization": f"{rng.uniform(0.5, 1.0):.3f}",
    }
    scenario = load_scenario(None, changes)
    two, many = api.plan(scenario), fleet_api.plan_fleet(fleet_of(scenario))
    assert (two.status, two.routing.kind) == ("optimal", "threshold")
    check_same(two, many, 2e-5)


# Figures that agree with each other


def check_plan(fleet: Fleet, plan: FleetPlan, sized: bool = False) -> None:
    """Every figure of a plan against the others and against the fleet."""
    check_supply(fleet, plan, sized)
    check_traffic(fleet, plan)
    total = plan.throughput_rps
    assert plan.demand_rps == fleet.demand_rps
    assert plan.status in ("optimal", "feasible")
    assert plan.streams
    if sized:
        assert plan.bound_rps is plan.gap_share is plan.tie_loss_share is None
        assert all(group.instance_rps is None for group in plan.groups)
        assert all(link.egress_rps_per_gbps is None for link in plan.links)
        return
    assert plan.bound_rps is not None
    assert plan.gap_share is not None
    assert plan.tie_loss_share is not None
    assert plan.bound_rps >= total
    assert close(plan.gap_share, 1 - total / plan.bound_rps, 1e-12)
    assert plan.tie_loss_share >= 0
    if plan.status == "optimal":
        assert plan.gap_share - plan.tie_loss_share <= 1.01 * GAP
    # What all there is is worth cannot be more than all that is served: the prices' own bound.
    worth = sum((g.instance_rps or 0.0) * g.instances * ceiling(fleet, g.cluster, g.hardware) for g in plan.groups)
    assert all((group.instance_rps or 0.0) >= 0 for group in plan.groups)
    assert worth >= 0


def ceiling(fleet: Fleet, cluster: str, hardware: str) -> float:
    return next(h.max_utilization for h in fleet.site(cluster).holdings if h.hardware == hardware)


def check_supply(fleet: Fleet, plan: FleetPlan, sized: bool) -> None:
    """GPUs, instances, links, what they cost, and what binds."""
    used: dict[tuple[str, str], int] = defaultdict(int)
    busy = set()
    for group in plan.groups:
        used[group.cluster, group.hardware] += group.instances * group.gpus_per_instance
        (profile,) = {
            p.gpus_per_instance
            for stream in fleet.streams
            if stream.model.name == group.model and (p := stream.model.profile(group.hardware))
        }
        assert group.gpus_per_instance == profile
        most = ceiling(fleet, group.cluster, group.hardware)
        assert (group.utilization is None) == (group.instances == 0)
        assert (group.utilization or 0.0) <= most * (1 + 1e-4)
        if (group.utilization or 0.0) >= 0.995 * most:
            busy.add(f"{group.cluster} {group.hardware} {group.role} of {group.model}")
    keys = [(group.cluster, group.hardware, group.model, group.role) for group in plan.groups]
    assert len(set(keys)) == len(keys)
    holdings = [(site, holding) for site in fleet.sites for holding in site.holdings]
    assert [(g.cluster, g.role, g.hardware) for g in plan.gpus] == [(s.name, s.role, h.hardware) for s, h in holdings]
    usd = 0.0
    for each, (_, holding) in zip(plan.gpus, holdings, strict=True):
        assert each.gpus_used == used[each.cluster, each.hardware] <= each.gpus
        assert holding.gpus.least <= each.gpus <= holding.gpus.most
        if not sized:
            assert each.gpus == holding.gpus.most
        price = holding.usd_per_gpu_hour
        assert close(each.usd_per_hour, None if price is None else price * each.gpus)
        usd += each.usd_per_hour or 0.0
    assert len(plan.links) == len(fleet.connections)
    for link, asked in zip(plan.links, fleet.connections, strict=True):
        assert (link.from_, link.to) == (asked.source, asked.destination)
        rate, limits = link.bandwidth_gbps * 1e9 / 8, asked.bandwidth_bytes_per_s
        assert limits.least * (1 - 1e-9) <= rate <= limits.most * (1 + 1e-9)
        assert link.egress_gbps <= asked.max_utilization * link.bandwidth_gbps * (1 + 1e-4)
        if link.bandwidth_gbps > 0:
            assert close(link.utilization, link.egress_gbps / link.bandwidth_gbps)
        if (link.utilization or 0.0) >= 0.995 * asked.max_utilization:
            busy.add(f"link {link.from_} to {link.to}")
        if asked.usd_per_gb is None and asked.usd_per_gbps_hour is None:
            assert link.usd_per_hour is None
        else:
            sent = link.egress_gbps / 8 * 3600 * (asked.usd_per_gb or 0.0)
            assert close(link.usd_per_hour, link.bandwidth_gbps * (asked.usd_per_gbps_hour or 0.0) + sent)
        usd += link.usd_per_hour or 0.0
    assert close(plan.egress_gbps, sum(link.egress_gbps for link in plan.links))
    assert set(plan.bottlenecks) == busy
    assert len(plan.bottlenecks) == len(busy)
    if any(holding.usd_per_gpu_hour is None for _, holding in holdings):
        assert plan.cost is None
    else:
        assert plan.cost is not None
        assert close(plan.cost.usd_per_hour, usd)
        per_usd = plan.throughput_rps * 3600 / usd if usd > 0 else None
        assert close(plan.cost.requests_per_usd, per_usd)


def check_traffic(fleet: Fleet, plan: FleetPlan) -> None:
    """Streams, their bands, the paths these amount to, and what travels."""
    total, links = plan.throughput_rps, {(link.source, link.destination) for link in fleet.connections}
    rates: dict[tuple[str, str, str, str], float] = {}
    for path in plan.paths:
        key = (path.stream, path.from_, path.hardware, path.to)
        assert key not in rates
        rates[key] = path.rate_rps
        assert path.pool == ("pd_prefill" if path.from_ == path.to else "prfaas")
        assert path.from_ == path.to or (path.from_, path.to) in links
    assert close(sum(rates.values()), total)
    assert close(plan.offload_share, sum(p.rate_rps for p in plan.paths if p.pool == "prfaas") / total)
    assert [stream.name for stream in plan.streams] == [stream.name for stream in fleet.streams]
    for stream, asked in zip(plan.streams, fleet.streams, strict=True):
        assert (stream.model, stream.demand_rps) == (asked.model.name, asked.demand_rps)
        assert close(stream.rate_rps, total * asked.demand_rps / fleet.demand_rps)
        own = {key: rate for key, rate in rates.items() if key[0] == stream.name}
        assert close(sum(own.values()), stream.rate_rps)
        assert asked.destination is None or {key[3] for key in own} == {asked.destination}
        remote = sum(rate for key, rate in own.items() if key[1] != key[3])
        assert close(stream.offload_share, remote / stream.rate_rps)
        lengths = asked.workload.input_tokens
        assert abs(stream.bands[0].from_tokens - math.ceil(lengths.low)) <= 1
        assert stream.bands[-1].to_tokens == lengths.last_threshold
        # What bands and probabilities of lengths say each way carries.
        carried: dict[tuple[str, str, str, str], float] = defaultdict(float)
        low = -1.0
        for band in stream.bands:
            assert band.from_tokens <= band.to_tokens
            weight = lengths.moment(0.0, low, float(band.to_tokens))
            low = float(band.to_tokens)
            assert close(sum(way.share for way in band.ways), 1.0)
            ways = [(way.from_, way.hardware, way.to) for way in band.ways]
            assert len(set(ways)) == len(ways)
            assert all(way.pool == ("pd_prefill" if way.from_ == way.to else "prfaas") for way in band.ways)
            for way in band.ways:
                carried[stream.name, way.from_, way.hardware, way.to] += way.share * weight * stream.rate_rps
        for band, following in itertools.pairwise(stream.bands):
            assert following.from_tokens > band.to_tokens
            assert lengths.moment(0.0, float(band.to_tokens), following.from_tokens - 1.0) == 0.0
        for key in own.keys() | carried.keys():
            assert own.get(key, 0.0) == pytest.approx(carried[key], abs=1e-6 * stream.rate_rps), key
        pools = [pool for pool, _ in itertools.groupby(tuple(sorted({w.pool for w in b.ways})) for b in stream.bands)]
        kinds = {"pd_prefill": "all-local", "prfaas": "all-remote", "pd_prefill then prfaas": "threshold"}
        assert stream.kind == kinds.get(" then ".join(" and ".join(pool) for pool in pools), "bands")
        assert (stream.threshold_tokens is None) == (stream.kind != "threshold")
        if stream.kind == "threshold":
            local = [band.to_tokens for band in stream.bands if band.ways[0].pool == "pd_prefill"]
            assert stream.threshold_tokens == max(local)
        assert stream.ttft_s.mean > 0
        assert stream.ttft_s.p90 > 0


@pytest.mark.parametrize("seed", PLANNED)
def test_a_random_plan_agrees_with_itself(seed: int) -> None:
    fleet = random_fleet(np.random.default_rng(seed))
    check_plan(fleet, fleet_api.plan_fleet(fleet))


def priced(fleet: Fleet) -> Fleet:
    """With a price on every GPU."""
    sites = []
    for site in fleet.sites:
        held = (dataclasses.replace(h, usd_per_gpu_hour=h.usd_per_gpu_hour or 1.0) for h in site.holdings)
        sites.append(dataclasses.replace(site, holdings=tuple(held)))
    return dataclasses.replace(fleet, sites=tuple(sites))


def check_sizing(fleet: Fleet, sizing: Sizing) -> None:
    """What it costs, and what is proven, from its own plan."""
    plan = sizing.plan
    check_plan(fleet, plan, sized=True)
    usd = sum(each.usd_per_hour or 0.0 for each in plan.gpus) + sum(link.usd_per_hour or 0.0 for link in plan.links)
    assert close(sizing.usd_per_hour, usd, 1e-6)
    assert plan.cost is not None
    assert close(plan.cost.usd_per_hour, sizing.usd_per_hour)
    assert close(plan.throughput_rps, sizing.demand_rps)
    assert (sizing.status == "optimal") == (sizing.gap_share <= sizing.mip_gap_share)
    assert (sizing.status, sizing.stopped) == (plan.status, plan.stopped)
    assert close(sizing.usd_per_million_requests, sizing.usd_per_hour / (3600 * sizing.demand_rps) * 1e6)
    if sizing.goal == "least-cost":
        assert sizing.bound_usd_per_hour is not None
        assert sizing.bound_rps is sizing.budget_usd_per_hour is None
        assert sizing.bound_usd_per_hour <= sizing.usd_per_hour
        assert sizing.gap_share == pytest.approx(1 - sizing.bound_usd_per_hour / sizing.usd_per_hour, abs=1e-6)
    else:
        assert sizing.budget_usd_per_hour is not None
        assert sizing.bound_rps is not None
        assert sizing.bound_usd_per_hour is None
        assert sizing.usd_per_hour <= sizing.budget_usd_per_hour * (1 + 1e-6)
        assert sizing.bound_rps >= sizing.demand_rps
        assert sizing.gap_share == pytest.approx(1 - sizing.demand_rps / sizing.bound_rps, abs=1e-4)


@pytest.mark.parametrize("seed", SIZED)
def test_a_random_sizing_agrees_with_itself(seed: int) -> None:
    fleet = priced(random_fleet(np.random.default_rng(seed), sized=True))
    sizing = fleet_api.size(fleet)
    assert (sizing.goal, sizing.curve) == ("least-cost", None)
    assert close(sizing.demand_rps, fleet.demand_rps)
    check_sizing(fleet, sizing)


@pytest.mark.parametrize("seed", [1, 7, 9])
def test_a_random_budget_agrees_with_itself(seed: int) -> None:
    fleet = priced(random_fleet(np.random.default_rng(seed), sized=True))
    cheapest = fleet_api.size(fleet)
    sizing = fleet_api.size(fleet, budget_usd_per_hour=cheapest.usd_per_hour * 1.001)
    assert sizing.goal == "budget"
    check_sizing(fleet, sizing)
    assert sizing.demand_rps >= fleet.demand_rps * (1 - 2e-3)
    more = fleet_api.size(fleet, budget_usd_per_hour=cheapest.usd_per_hour * 1.3)
    assert more.demand_rps >= sizing.demand_rps * (1 - 2e-3)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_curve_is_what_sizing_finds_at_each_demand_and_never_falls(seed: int) -> None:
    fleet = priced(random_fleet(np.random.default_rng(seed), sized=True))
    demands = [share * fleet.demand_rps for share in (0.3, 1.0, 0.6, 50.0)]
    sizing = fleet_api.size(fleet, curve_rps=demands)
    assert sizing.curve is not None
    low, asked, between, most = sizing.curve
    assert [point.demand_rps for point in sizing.curve] == pytest.approx(demands)
    assert close(asked.usd_per_hour, sizing.usd_per_hour, 2e-3)
    assert asked.gpus == {f"{g.cluster} {g.hardware}": g.gpus for g in sizing.plan.gpus if g.gpus}
    assert (most.status, most.usd_per_hour, most.bound_usd_per_hour, most.gap_share) == ("infeasible", None, None, None)
    assert most.usd_per_million_requests is None
    assert most.gpus == {}
    costs = [point.usd_per_hour or 0.0 for point in (low, between, asked)]
    bounds = [point.bound_usd_per_hour or 0.0 for point in (low, between, asked)]
    assert all(bound <= cost * (1 + 1e-9) for bound, cost in zip(bounds, costs, strict=True))
    assert all(bound <= cost * (1 + 1e-9) for bound, cost in itertools.pairwise([bounds[0], *costs]))
    assert all(a <= b * (1 + 1e-3) for a, b in itertools.pairwise(costs))


def test_demand_is_that_of_all_streams_together() -> None:
    fleet = priced(random_fleet(np.random.default_rng(0), sized=True))
    half = fleet_api.size(fleet, demand_rps=0.5 * fleet.demand_rps)
    assert close(half.demand_rps, 0.5 * fleet.demand_rps)
    rates = [stream.rate_rps / asked.demand_rps for stream, asked in zip(half.plan.streams, fleet.streams, strict=True)]
    assert rates == pytest.approx([0.5] * len(rates))


# What one more gives


def test_ranges_and_missing_prices_are_refused() -> None:
    fleet = random_fleet(np.random.default_rng(0), sized=True)
    with pytest.raises(InputError) as caught:
        fleet_api.plan_fleet(fleet)
    assert {problem.code for problem in caught.value.problems} == {"range"}
    free = [h for site in fleet.sites for h in site.holdings]
    unpriced = dataclasses.replace(
        fleet,
        sites=tuple(
            dataclasses.replace(
                site, holdings=tuple(dataclasses.replace(h, usd_per_gpu_hour=None) for h in site.holdings)
            )
            for site in fleet.sites
        ),
    )
    with pytest.raises(InputError) as caught:
        fleet_api.size(unpriced)
    assert [problem.code for problem in caught.value.problems] == ["missing-price"] * len(free)
    with pytest.raises(InputError) as caught:
        fleet_api.plan_fleet(dataclasses.replace(case_study_fleet(), estimator="mean-length"))
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("not-supported", "built-in case study:31 estimator")


def test_progress_comes_closer_and_is_told_to_who_asks() -> None:
    told: list[float] = []
    fleet = random_fleet(np.random.default_rng(4))
    plan = fleet_api.plan_fleet(fleet, on_progress=lambda progress: told.append(progress.gap_share))
    assert told
    assert told[-1] <= GAP
    assert plan.status == "optimal"
    assert all(after <= before for before, after in itertools.pairwise(told))


def test_a_wide_gap_is_taken_at_its_word() -> None:
    fleet = priced(random_fleet(np.random.default_rng(5), sized=True))
    wide = fleet_api.size(fleet, options=SolverOptions(mip_gap_share=0.2))
    narrow = fleet_api.size(fleet, options=SolverOptions(mip_gap_share=1e-5))
    assert (wide.mip_gap_share, narrow.mip_gap_share) == (0.2, 1e-5)
    assert wide.gap_share <= 0.2
    assert narrow.gap_share <= 1e-5
    assert narrow.usd_per_hour <= wide.usd_per_hour * (1 + 1e-5)
    assert (wide.bound_usd_per_hour or 0.0) <= narrow.usd_per_hour * (1 + 1e-9)
