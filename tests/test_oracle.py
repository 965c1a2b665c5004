"""The planner against a brute force that shares no code with it, on thousands of random scenarios.

A failure names the seeds: ``plan(random_scenario(seed, ...))`` repeats it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.special import ndtr

from prfaas_opt import results
from prfaas_opt.api import compare, plan
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.io.scenario_file import load_scenario
from prfaas_opt.planning.plan import planned_alone
from tests.oracle import Oracle, oracle_of, points_of
from tests.scenarios import LENGTH_KINDS, case_like, random_scenario

ROOT = Path(__file__).parents[1]

SAME = 1e-11
"""Relative difference that passes. The contract is 1e-9; the oracle's quadrature is good to about 1e-13."""
CERTAINLY_TIED = 3e-13
"""The planner ties within 1e-12. What the oracle sees this near to the best is a tie whatever its rounding."""
EGRESS_SAME = 1e-9
"""Of the egress of offloading everything; below it, egress is rounding or a tail that never occurs."""

Check = Callable[[int, dict[str, Any]], Iterator[str]]


def planned(scenario: dict[str, Any], seed: int = 0) -> results.Plan | None:
    """The plan, None where it is infeasible; of two seeds in three without what takes plans of other scenarios."""
    try:
        return plan(scenario) if seed % 3 == 0 else planned_alone(load_scenario(scenario))
    except InfeasibleError:
        return None


def row_of(oracle: Oracle, found: results.Plan) -> int:
    """The oracle's row of a plan's threshold."""
    if found.threshold_tokens is not None:
        return oracle.index(found.threshold_tokens)
    return 0 if found.routing.kind == "all-remote" else len(oracle.thresholds) - 1


def differ(got: float, expected: float, tolerance: float = SAME) -> bool:
    return not math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def wrong_optimum(oracle: Oracle, found: results.Plan) -> Iterator[str]:
    """The throughput is the best there is, and that of the plan's own decision, which is one of the best."""
    row, split = row_of(oracle, found), found.instances.pd_prefill
    if differ(found.throughput_rps, oracle.best_rps):
        yield f"throughput {found.throughput_rps!r}, the best is {oracle.best_rps!r}"
    if not oracle.tied(SAME)[row, split]:
        attained = float(oracle.throughput_rps[row, split])
        yield f"threshold {oracle.thresholds[row]} with {split} attains {attained!r} of {oracle.best_rps!r}"


def wrong_tie_break(oracle: Oracle, found: results.Plan) -> Iterator[str]:
    """Least egress among ties, then more decode instances, then a longest length that is really kept."""
    row, split = row_of(oracle, found), found.instances.pd_prefill
    rows, splits = np.nonzero(oracle.tied(CERTAINLY_TIED))
    egress = oracle.egress_bytes
    slack = EGRESS_SAME * float(egress.max())
    least = float(egress[rows].min())
    if egress[row] > least + slack:
        yield f"sends {egress[row]!r} bytes a request, a tied decision {least!r}"
    frugal = splits[egress[rows] <= min(egress[row], least) + slack * 1e-3]
    if frugal.size and frugal.min() < split:
        yield f"{split} prefill instances where {frugal.min()} carry the same with the same egress"
    if not oracle.occupied[row]:
        yield f"threshold {oracle.thresholds[row]} is no length that is kept"


def wrong_report(scenario: dict[str, Any], oracle: Oracle, found: results.Plan) -> Iterator[str]:
    """What the plan says of its decision is what the oracle's sums say."""
    row, split = row_of(oracle, found), found.instances.pd_prefill
    rate = found.throughput_rps
    clusters = {c["role"]: c for c in scenario["clusters"].values()}
    ceilings = [c.get("max_utilization", 1.0) for c in (*clusters.values(), *scenario.get("links", []))]
    if found.instances.pd_decode != clusters["pd"]["instances"] - split:
        yield f"{split} prefill and {found.instances.pd_decode} decode instances do not add up"
    shares = oracle.points.by_cell(1.0)
    if differ(found.offload_share, float(shares[oracle.thresholds[row] :].sum())):
        yield f"offload share {found.offload_share!r}"
    if differ(found.egress_gbps, rate * float(oracle.egress_bytes[row]) * 8e-9):
        yield f"egress {found.egress_gbps!r} Gbps, expected {rate * float(oracle.egress_bytes[row]) * 8e-9!r}"
    remote, link, local_s = (float(load[row]) * rate for load in oracle.loads)
    used = {"pd_decode": rate / (oracle.decode_limit_rps(split) / oracle.pd_ceiling)}
    used |= {"pd_prefill": local_s / split} if split else {}
    if len(clusters) == 2:
        used["prfaas"] = remote * ceilings[1]
    if oracle.egress_bytes_per_s > 0:
        used["egress"] = link * ceilings[-1]
    for stage in ("prfaas", "pd_prefill", "pd_decode", "egress"):
        said = getattr(found.utilization, stage)
        if (said is None) != (stage not in used) or (said is not None and differ(said, used[stage])):
            yield f"utilization of {stage} {said!r}, expected {used.get(stage)!r}"
    for estimator, said in (
        ("expected-time", found.throughput_rps_by_estimator.expected_time),
        ("mean-length", found.throughput_rps_by_estimator.mean_length),
    ):
        expected = float(dataclasses.replace(oracle, estimator=estimator).throughput_rps[row, split])
        if differ(said, expected):
            yield f"{said!r} under {estimator}, expected {expected!r}"


def wrong_stages(oracle: Oracle, found: results.Plan) -> Iterator[str]:
    """Theta of each stage is its class's share over the load that the class puts on it."""
    row, split = row_of(oracle, found), found.instances.pd_prefill
    share = float(oracle.points.by_cell(1.0)[oracle.thresholds[row] :].sum())
    remote, link, local_s = (float(load[row]) for load in oracle.loads)
    stages = found.stages_rps
    expected = {"pd_decode": (stages.pd_decode, oracle.decode_limit_rps(split))}
    if share > 1e-6:
        expected["prfaas"] = (stages.prfaas, share / max(remote, link))
    if share < 1 - 1e-6:
        expected["pd_prefill"] = (stages.pd_prefill, (1 - share) * oracle.pd_ceiling * split / local_s)
    for stage, (said, rate) in expected.items():
        if said is None or differ(said, rate, 1e-9):
            yield f"{stage} does {said!r} req/s, expected {rate!r}"
    if differ(sum(path.rate_rps for path in found.paths), found.throughput_rps):
        yield f"the paths do not carry {found.throughput_rps!r} in all"


def wrong_ttft(oracle: Oracle, found: results.Plan) -> Iterator[str]:
    """Prefill time of the pool each length goes to: its mean, and a P90 that 90 % of requests keep and no less."""
    points, threshold = oracle.points, oracle.thresholds[row_of(oracle, found)]
    seconds = np.where(points.cells < threshold, oracle.local_s(points.lengths), oracle.remote_s(points.lengths))
    mean, p90 = float(points.probabilities @ seconds), found.ttft_s.p90
    if differ(found.ttft_s.mean, mean):
        yield f"mean TTFT {found.ttft_s.mean!r}, expected {mean!r}"
    # A density's nodes stand for the lengths around them, at up to four ends of the lengths that are slower.
    inside = points.lengths % 1 != 0
    slack = 1e-9 + 4 * float(points.probabilities[inside].max(initial=0.0))
    faster, slower = (float(points.probabilities[seconds <= p90 * (1 + d)].sum()) for d in (-1e-9, 1e-9))
    if not faster - slack <= 0.9 <= slower + slack:
        yield f"{faster!r} to {slower!r} of requests keep the P90 TTFT of {p90!r} s"


def check_decision(seed: int, scenario: dict[str, Any]) -> Iterator[str]:
    oracle = oracle_of(scenario)
    found = planned(scenario, seed)
    if found is None:
        if oracle.best_rps > 0:
            yield f"called infeasible, but {oracle.best_rps!r} req/s are possible"
        return
    yield from wrong_optimum(oracle, found)
    yield from wrong_tie_break(oracle, found)
    yield from wrong_report(scenario, oracle, found)
    yield from wrong_stages(oracle, found)
    yield from wrong_ttft(oracle, found)


def check_bound(seed: int, scenario: dict[str, Any]) -> Iterator[str]:
    """throughput <= best free routing <= bound; "optimal" keeps its word; the bound is tight."""
    found = planned(scenario, seed)
    if found is None:
        return
    assert found.bound_rps is not None
    assert found.tie_loss_share is not None
    free = oracle_of(scenario).best_free_routing()
    if found.throughput_rps > free.proven_rps * (1 + 1e-9):
        yield f"throughput {found.throughput_rps!r} above what free routing can: {free.proven_rps!r}"
    if free.attained_rps > found.bound_rps * (1 + 1e-9):
        yield f"a free routing attains {free.attained_rps!r}, above the bound {found.bound_rps!r}"
    if found.bound_rps > free.proven_rps * (1 + 1e-6):
        yield f"the bound {found.bound_rps!r} is loose: free routing is proven to stay below {free.proven_rps!r}"
    kept = found.bound_rps * (1 - found.tie_loss_share - 1e-6)
    if found.status == "optimal" and found.throughput_rps < kept * (1 - 1e-12):
        yield f"optimal at {found.throughput_rps!r}, but bound less tie loss is {kept!r}"
    if differ(found.gap_share or 0.0, 1.0 - found.throughput_rps / found.bound_rps, 1e-9):
        yield f"gap {found.gap_share!r}"


def check_shadow_prices(seed: int, scenario: dict[str, Any]) -> Iterator[str]:
    """Strong duality in the plan's split: what all capacity is worth is the best free routing of that split."""
    found = planned(scenario, seed)
    if found is None:
        return
    oracle = oracle_of(scenario)
    prices = found.shadow_prices
    assert prices is not None
    clusters = {c["role"]: c["instances"] for c in scenario["clusters"].values()}
    worth = (prices.pd_decode_instance_rps or 0.0) * found.instances.pd_decode
    worth += (prices.pd_prefill_instance_rps or 0.0) * found.instances.pd_prefill
    if len(clusters) == 2:
        gbps = oracle.egress_bytes_per_s * 8e-9 / scenario["links"][0].get("max_utilization", 1.0)
        worth += (prices.prfaas_instance_rps or 0.0) * clusters["prefill"]
        worth += (prices.egress_rps_per_gbps or 0.0) * gbps
    free = oracle.free_routing(found.instances.pd_prefill)
    if not free.attained_rps * (1 - 1e-6) <= worth <= free.proven_rps * (1 + 1e-6):
        yield f"prices are worth {worth!r} in all, free routing of the split {free.proven_rps!r}: {prices}"


def check_baselines(_seed: int, scenario: dict[str, Any]) -> Iterator[str]:
    """The homogeneous cluster has the fleet's instances of the pd hardware; the naive split offloads everything."""
    oracle = oracle_of(scenario)
    if oracle.best_rps == 0:
        return
    fleet = sum(cluster["instances"] for cluster in scenario["clusters"].values())
    homogeneous = dataclasses.replace(oracle, remote_instances=0.0, egress_bytes_per_s=0.0, pd_instances=fleet)
    naive = float(oracle.throughput_rps[:, 0].max())
    expected = {
        "prfaas-pd": oracle.best_rps,
        "homogeneous-pd": homogeneous.best_rps,
        "naive-heterogeneous": naive,
    }
    found = {deployment.name: deployment for deployment in compare(scenario).deployments}
    for name, rate in expected.items():
        got = found[name].throughput_rps if name in found else 0.0
        if differ(got, rate):
            yield f"{name} at {got!r}, expected {rate!r}"
    ratio = found["prfaas-pd"].ratio
    if homogeneous.best_rps > 0 and (ratio is None or differ(ratio, oracle.best_rps / homogeneous.best_rps)):
        yield f"ratio {ratio!r}"


def failures(check: Check, seeds: range, estimator: str, kinds: tuple[str, ...]) -> list[str]:
    """What a check finds wrong, an exception included, each with the call that repeats it."""
    found = []
    for seed in seeds:
        scenario = random_scenario(seed, estimator, kinds)
        try:
            wrongs = list(check(seed, scenario))
        except Exception as error:
            wrongs = [f"{type(error).__name__}: {error}"]
        found += [f"random_scenario({seed}, {estimator!r}, {kinds}): {wrong}" for wrong in wrongs]
    return found


def assert_none(found: list[str]) -> None:
    assert not found, f"{len(found)} wrong:\n" + "\n".join(found[:20])


@pytest.mark.parametrize("kind", LENGTH_KINDS)
@pytest.mark.parametrize("estimator", ["expected-time", "mean-length"])
def test_plan_is_the_brute_force_optimum(estimator: str, kind: str) -> None:
    first = 10_000 * LENGTH_KINDS.index(kind)
    assert_none(failures(check_decision, range(first, first + 240), estimator, (kind,)))


def test_bound_is_the_free_routing_optimum_of_tables() -> None:
    assert_none(failures(check_bound, range(100_000, 100_240), "expected-time", ("table", "constant")))


def test_bound_is_the_free_routing_optimum_of_densities() -> None:
    kinds = ("uniform", "truncated-lognormal", "mixture")
    assert_none(failures(check_bound, range(200_000, 200_060), "expected-time", kinds))


def test_shadow_prices_of_tables_are_duals_of_the_split() -> None:
    assert_none(failures(check_shadow_prices, range(300_000, 300_240), "expected-time", ("table", "constant")))


@pytest.mark.parametrize("estimator", ["expected-time", "mean-length"])
def test_baselines_are_brute_force_optima(estimator: str) -> None:
    assert_none(failures(check_baselines, range(400_000, 400_200), estimator, LENGTH_KINDS))


def test_random_scenarios_cover_every_regime() -> None:
    """What the other tests mean to cover does occur: each routing, each binding stage, no optimum, no solution."""
    seen: set[str] = set()
    for seed in range(250):
        scenario = random_scenario(seed, "expected-time")
        found = planned(scenario, seed)
        if found is None:
            seen.add("infeasible")
            continue
        seen |= {found.routing.kind, found.status, *found.bottlenecks}
        seen |= {"no remote"} if len(scenario["clusters"]) == 1 else set()
    expected = {
        "all-local",
        "all-remote",
        "threshold",
        "optimal",
        "threshold-optimal",
        "infeasible",
        "no remote",
    }
    assert seen == expected | {"prfaas", "pd_prefill", "pd_decode", "egress"}


def two_lengths() -> dict[str, Any]:
    """Half of the requests have 100 tokens, half 200; sharing one of the lengths needs the link alone."""
    scenario = case_like(gbps=0.5, remote=2, pd=3, decode_batch=1000, kv_mib=(10.0, 200.0))
    scenario["workload"]["input_tokens"] = {"distribution": "table", "lengths": [100, 200], "weights": [1, 1]}
    return scenario


@pytest.mark.parametrize(
    ("check", "scenario"),
    [
        pytest.param(
            check_decision, case_like(mu=14.0, sigma=1.5, estimator="mean-length"), id="lower tail of a log-normal"
        ),
        pytest.param(
            check_decision,
            case_like(mu=7.5, sigma=0.07, pd=1, decode_batch=1000, estimator="mean-length"),
            id="a share below rounding is not none: no local band without local prefill",
        ),
        pytest.param(check_decision, case_like(mu=7.5, sigma=0.04, pd=1), id="a denormal share"),
        pytest.param(check_bound, two_lengths(), id="an atom is shared where only the link binds"),
        pytest.param(check_shadow_prices, two_lengths(), id="prices where an atom is shared"),
        pytest.param(
            check_shadow_prices,
            case_like(mu=6.66796875, sigma=0.3125, remote=1, pd=10, gbps=1.0, decode_batch=10, kv_mib=(5.0, 5.0)),
            id="decode binds but for the one token length at the threshold",
        ),
    ],
)
def test_found_before(check: Check, scenario: dict[str, Any]) -> None:
    """What the random tests have found, made small."""
    assert list(check(0, scenario)) == []


def test_least_egress_goes_before_more_decode() -> None:
    """Half has 100 tokens, half 200. One local instance and 200 offloaded, or two and nothing: 1 request/s each."""
    scenario = case_like(remote=2, pd=3, gbps=1000, decode_batch=1000)
    remote, local = scenario["model"]["profiles"]
    remote["prefill"] = {"lengths_tokens": [100, 200], "latency_s": [4.0, 4.0]}
    local["prefill"] = {"lengths_tokens": [100, 200], "latency_s": [1.0, 3.0]}
    scenario["workload"]["input_tokens"] = {"distribution": "table", "lengths": [100, 200], "weights": [1, 1]}
    oracle = oracle_of(scenario)
    assert [oracle.best_rps, oracle.at(100, 1), oracle.at(200, 2)] == pytest.approx([1.0] * 3, rel=1e-14)
    found = plan(scenario)
    assert (found.routing.kind, found.instances.pd_prefill) == ("all-local", 2)
    assert list(check_decision(0, scenario)) == []


def test_latency_that_falls_as_length_grows() -> None:
    """Latency times length is constant, so that the moment of power -1 is needed."""
    scenario = case_like(remote=1, gbps=0.001)
    scenario["model"]["profiles"][1]["prefill"] = {"lengths_tokens": [100, 300], "latency_s": [0.3, 0.1]}
    scenario["workload"]["input_tokens"] = {"distribution": "uniform", "low": 100, "high": 300}
    assert list(check_decision(0, scenario)) == []


def case_study() -> dict[str, Any]:
    """The shipped case study with its model and workload inline."""
    scenario: dict[str, Any] = yaml.safe_load((ROOT / "prfaas_opt/io/case_study.yaml").read_text(encoding="utf-8"))
    for folder, key in (("models", "model"), ("workloads", "workload")):
        path = ROOT / folder / f"{scenario[key]}.yaml"
        scenario[key] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return scenario


@pytest.mark.parametrize("estimator", ["expected-time", "mean-length"])
def test_case_study_over_all_131072_lengths(estimator: str) -> None:
    scenario = case_study() | {"estimator": estimator}
    oracle = oracle_of(scenario, nodes=4)
    found = plan(scenario)
    assert [*wrong_optimum(oracle, found), *wrong_tie_break(oracle, found)] == []
    assert not list(wrong_report(scenario, oracle, found))


def test_case_study_bound_and_prices() -> None:
    """DESIGN 2.5: plan 3.149440, bound 3.149482, prices 0.601 and 0.249."""
    oracle = oracle_of(case_study(), nodes=2)
    assert oracle.best_rps == pytest.approx(3.149440, abs=5e-7)
    found = plan(case_study())
    free = oracle.free_routing(found.instances.pd_prefill)
    assert free.attained_rps == pytest.approx(3.149482, abs=5e-7)
    assert free.proven_rps == pytest.approx(free.attained_rps, rel=1e-7)
    assert found.bound_rps == pytest.approx(free.proven_rps, rel=1e-7)
    assert found.shadow_prices is not None
    assert found.shadow_prices.prfaas_instance_rps == pytest.approx(0.601, abs=5e-4)
    assert found.shadow_prices.pd_prefill_instance_rps == pytest.approx(0.249, abs=5e-4)


class TestOracle:
    """The oracle itself, by hand."""

    def test_quadrature_is_the_normal_distribution_function(self) -> None:
        spec = {"distribution": "truncated-lognormal", "mu": 6.0, "sigma": 0.7, "low": 20, "high": 2000}
        shares = np.cumsum(points_of(spec).by_cell(1.0))
        z = (np.log([20.0, 300.0, 1000.0, 2000.0]) - 6.0) / 0.7
        expected = (ndtr(z) - ndtr(z[0])) / (ndtr(z[3]) - ndtr(z[0]))
        assert shares[[299, 999, 1999]] == pytest.approx(expected[1:], rel=1e-13)

    def test_two_lengths_by_hand(self) -> None:
        scenario = random_scenario(0)
        model = scenario["model"]
        for profile, seconds in zip(model["profiles"], ([1.0, 4.0], [1.0, 2.0]), strict=True):
            profile["prefill"] = {"lengths_tokens": [100, 200], "latency_s": seconds}
            profile["decode"] = {"batch": 10, "step_s": 0.01}
        model["kv_cache"] = {"lengths_tokens": [100, 200], "bytes": [1e9, 2e9]}
        scenario["clusters"] = {
            "here": {"role": "pd", "hardware": "LOCAL", "instances": 3},
            "there": {"role": "prefill", "hardware": "REMOTE", "instances": 2},
        }
        scenario["links"] = [{"from": "there", "to": "here", "bandwidth": "2GB/s", "max_utilization": 0.5}]
        lengths = {"distribution": "table", "lengths": [100, 200], "weights": [3, 1]}
        scenario["workload"] = {"input_tokens": lengths, "output_tokens": 200}
        scenario |= {"slo": {}, "estimator": "expected-time"}
        oracle = oracle_of(scenario)
        # Offloading 200 alone: 0.25 * 2 s / 2 instances, 0.25 * 2 GB over 1 GB/s, 0.75 * 1 s / n; decode 5 (3 - n).
        assert [oracle.at(100, n) for n in range(3)] == pytest.approx([0.0, 4 / 3, 2.0])
        # Everything: 0.75 + 0.5 GB; nothing: 1.75 s / n.
        assert [oracle.at(99, n) for n in range(3)] == pytest.approx([0.8, 0.8, 0.8])
        assert [oracle.at(200, n) for n in range(3)] == pytest.approx([0.0, 4 / 7, 8 / 7])
        # With n = 2 and a share f of 200 offloaded the link has 0.5 f to do, local prefill (1.75 - f) / 2: f = 7/8.
        free = oracle.free_routing(2)
        assert (free.attained_rps, free.proven_rps) == pytest.approx((16 / 7, 16 / 7))
