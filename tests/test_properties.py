"""Properties that every plan has (DESIGN 5), searched for counterexamples by hypothesis."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from prfaas_opt import results
from prfaas_opt.api import plan
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.io.scenario_file import load_scenario
from prfaas_opt.planning.plan import planned_alone
from tests.oracle import Oracle, bandwidth_bytes_per_s, oracle_of
from tests.scenarios import ESTIMATORS, LENGTH_KINDS, Spec, case_like, random_scenario

ROUNDING = 1e-11
"""Relative: two plans of the same problem in other words."""
EXAMPLES = settings(
    max_examples=90,
    suppress_health_check=[HealthCheck.filter_too_much],
)

seeds = st.integers(0, 2**32 - 1)
estimators = st.sampled_from(ESTIMATORS)
any_scenario = st.builds(random_scenario, seeds, estimators)
two_pools = any_scenario.filter(lambda scenario: "there" in scenario["clusters"])
case_dials: dict[str, st.SearchStrategy[Any]] = {
    "mu": st.floats(5.0, 7.5),
    "sigma": st.floats(0.3, 1.2),
    "remote": st.integers(1, 6),
    "pd": st.integers(2, 10),
    "gbps": st.floats(0.3, 30.0),
    "decode_batch": st.integers(5, 100),
    "kv_mib": st.tuples(st.floats(5.0, 40.0), st.floats(0.0, 120.0)).map(lambda kv: (kv[0], kv[0] + kv[1])),
}
case_scenarios = st.builds(case_like, **case_dials)


def planned(scenario: Spec) -> results.Plan | None:
    """The plan, None where nothing is feasible."""
    try:
        return plan(scenario)
    except InfeasibleError:
        return None


def rate(scenario: Spec) -> float:
    """The plan's throughput, 0 where nothing is feasible; what takes plans of other scenarios is left out."""
    try:
        return planned_alone(load_scenario(scenario)).throughput_rps
    except InfeasibleError:
        return 0.0


def changed(scenario: Spec, change: Callable[[Spec], object]) -> Spec:
    """A copy to which a change was made."""
    other = copy.deepcopy(scenario)
    change(other)
    return other


def scaled_bandwidth(link: Spec, factor: float) -> None:
    link["bandwidth"] = f"{bandwidth_bytes_per_s(link['bandwidth']) * factor / 1e9!r}GB/s"


def decision(found: results.Plan) -> tuple[str, int | None, results.Instances]:
    return found.routing.kind, found.threshold_tokens, found.instances


def assert_same(a: results.Plan, b: results.Plan) -> None:
    """The same plan up to the rounding of units: rates agree, a threshold may fall on either side of a tie."""
    assert a.throughput_rps == pytest.approx(b.throughput_rps, rel=ROUNDING)
    assert (a.bound_rps is None) == (b.bound_rps is None)
    if a.bound_rps is not None:
        assert a.bound_rps == pytest.approx(b.bound_rps, rel=1e-8)


class TestMore:
    """More of anything never hurts."""

    @EXAMPLES
    @given(two_pools, st.sampled_from(["here", "there"]), st.integers(1, 3))
    def test_instances(self, scenario: Spec, cluster: str, more: int) -> None:
        def add(s: Spec) -> None:
            s["clusters"][cluster]["instances"] += more

        assert rate(changed(scenario, add)) >= rate(scenario) * (1 - ROUNDING)

    @EXAMPLES
    @given(two_pools, st.floats(1.0, 10.0))
    def test_bandwidth(self, scenario: Spec, factor: float) -> None:
        more = changed(scenario, lambda s: scaled_bandwidth(s["links"][0], factor))
        assert rate(more) >= rate(scenario) * (1 - ROUNDING)

    @EXAMPLES
    @given(two_pools, st.sampled_from(["here", "there", "link"]))
    def test_utilization(self, scenario: Spec, resource: str) -> None:
        def lift(s: Spec) -> None:
            (s["links"][0] if resource == "link" else s["clusters"][resource]).pop("max_utilization", None)

        assert rate(changed(scenario, lift)) >= rate(scenario) * (1 - ROUNDING)

    @EXAMPLES
    @given(two_pools, st.integers(2, 5))
    def test_all_capacities_times_k_give_at_least_k_times(self, scenario: Spec, k: int) -> None:
        def scale(s: Spec) -> None:
            for cluster in s["clusters"].values():
                cluster["instances"] *= k
            scaled_bandwidth(s["links"][0], k)

        assert rate(changed(scenario, scale)) >= k * rate(scenario) * (1 - ROUNDING)


class TestNoLink:
    @EXAMPLES
    @given(two_pools)
    def test_zero_bandwidth_is_the_local_only_plan(self, scenario: Spec) -> None:
        def cut(s: Spec) -> None:
            s["links"][0]["bandwidth"] = 0

        def remove(s: Spec) -> None:
            del s["clusters"]["there"], s["links"]

        try:
            local = plan(changed(scenario, remove))
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                plan(changed(scenario, cut))
            return
        found = plan(changed(scenario, cut))
        assert found.routing.kind == "all-local"
        assert found.offload_share == 0
        assert found.throughput_rps == local.throughput_rps
        assert found.bound_rps == local.bound_rps
        assert found.instances.pd_prefill == local.instances.pd_prefill


LATENCY_UNITS = {"latency_s": 1.0, "latency_ms": 1e3, "latency_us": 1e6}
SIZE_UNITS = {"bytes": 1.0, "kib": 2.0**-10, "mib": 2.0**-20, "gib": 2.0**-30, "mb": 1e-6, "gb": 1e-9}
STEP_UNITS = {"step_s": 1.0, "step_ms": 1e3}
BANDWIDTH_UNITS = {"bps": 8.0, "Mbps": 8e-6, "Gbps": 8e-9, "Tbps": 8e-12, "MB/s": 1e-6, "GB/s": 1e-9}
BANDWIDTH_UNITS |= {"MiB/s": 2.0**-20, "GiB/s": 2.0**-30, "Gbit/s": 8e-9}


def rewritten(table: Spec, units: dict[str, float], unit: str) -> None:
    """The column of a table in another unit."""
    column = next((name for name in units if name in table), None)
    if column is None:
        return
    factor = units[unit] / units[column]
    values = table.pop(column)
    table[unit] = [v * factor for v in values] if isinstance(values, list) else values * factor


class TestUnits:
    """The same quantity in another unit is the same scenario."""

    @EXAMPLES
    @given(two_pools, *(st.sampled_from(sorted(u)) for u in (LATENCY_UNITS, SIZE_UNITS, STEP_UNITS, BANDWIDTH_UNITS)))
    def test_any_unit(self, scenario: Spec, latency: str, size: str, step: str, bandwidth: str) -> None:
        def rewrite(s: Spec) -> None:
            rewritten(s["model"]["kv_cache"], SIZE_UNITS, size)
            for profile in s["model"]["profiles"]:
                rewritten(profile["prefill"], LATENCY_UNITS, latency)
                rewritten(profile.get("kv_cache", {}), SIZE_UNITS, size)
                rewritten(profile.get("decode", {}), STEP_UNITS, step)
            link = s["links"][0]
            link["bandwidth"] = f"{bandwidth_bytes_per_s(link['bandwidth']) * BANDWIDTH_UNITS[bandwidth]!r}{bandwidth}"

        other = changed(scenario, rewrite)
        try:
            found = plan(scenario)
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                plan(other)
            return
        assert_same(plan(other), found)

    @EXAMPLES
    @given(case_scenarios)
    def test_binary_units_change_no_bit(self, scenario: Spec) -> None:
        """MiB to bytes and 1024-token lengths written with K are exact, so the whole plan is equal."""

        def rewrite(s: Spec) -> None:
            rewritten(s["model"]["kv_cache"], SIZE_UNITS, "bytes")
            s["workload"]["output_tokens"] = "1K"

        assert plan(changed(scenario, rewrite)) == plan(scenario)

    @pytest.mark.parametrize(("one", "other"), [("64Gbps", "8GB/s"), ("64Gbps", "64,000 Mbps"), ("1Tbps", "125GB/s")])
    def test_bandwidths(self, one: str, other: str) -> None:
        plans = []
        for bandwidth in (one, other):
            scenario = case_like()
            scenario["links"][0]["bandwidth"] = bandwidth
            plans.append(plan(scenario))
        assert plans[0] == plans[1]


class TestScale:
    """Scaling what is measured scales what is found."""

    @EXAMPLES
    @given(case_scenarios, estimators, st.integers(2, 4))
    def test_lengths(self, scenario: Spec, estimator: str, k: int) -> None:
        """Every length times k, costs as before: the same plan on a finer grid of thresholds."""

        def stretch(s: Spec) -> None:
            lengths = s["workload"]["input_tokens"]
            lengths |= {"mu": lengths["mu"] + math.log(k), "low": lengths["low"] * k, "high": lengths["high"] * k}
            s["model"]["kv_cache"]["lengths_tokens"] = [16 * k, 3000 * k]
            remote, local = (profile["prefill"] for profile in s["model"]["profiles"])
            remote["lengths_tokens"] = [16 * k, 400 * k, 3000 * k]
            local["quadratic"]["b_s_per_token"] /= k
            local["quadratic"]["c_s_per_token2"] /= k * k
            local["range_tokens"] = [16 * k, 3000 * k]

        scenario["estimator"] = estimator
        found, stretched = plan(scenario), plan(changed(scenario, stretch))
        assert stretched.throughput_rps >= found.throughput_rps * (1 - 1e-10)
        assert stretched.throughput_rps == pytest.approx(found.throughput_rps, rel=2e-2)
        if found.bound_rps is not None:
            assert stretched.bound_rps == pytest.approx(found.bound_rps, rel=1e-8)
        if estimator == "expected-time" and found.threshold_tokens and stretched.instances == found.instances:
            assert stretched.threshold_tokens == pytest.approx(k * found.threshold_tokens, abs=k)

    @EXAMPLES
    @given(case_scenarios, estimators, st.floats(0.1, 10.0))
    def test_times(self, scenario: Spec, estimator: str, k: float) -> None:
        """All times k times as long, with 1/k of the bandwidth: 1/k of the throughput."""

        def slow(s: Spec) -> None:
            remote, local = s["model"]["profiles"]
            remote["prefill"]["latency_s"] = [v * k for v in remote["prefill"]["latency_s"]]
            local["prefill"]["quadratic"] = {key: v * k for key, v in local["prefill"]["quadratic"].items()}
            local["decode"]["step_s"] *= k
            scaled_bandwidth(s["links"][0], 1 / k)

        scenario["estimator"] = estimator
        assert rate(changed(scenario, slow)) == pytest.approx(rate(scenario) / k, rel=1e-10)


def worth(found: results.Plan, scenario: Spec) -> float:
    """All capacity at its shadow prices, requests/s."""
    prices = found.shadow_prices
    assert prices is not None
    egress_gbps = bandwidth_bytes_per_s(scenario["links"][0]["bandwidth"]) * 8e-9
    return (
        (prices.prfaas_instance_rps or 0.0) * found.instances.prfaas
        + (prices.pd_prefill_instance_rps or 0.0) * found.instances.pd_prefill
        + (prices.pd_decode_instance_rps or 0.0) * found.instances.pd_decode
        + (prices.egress_rps_per_gbps or 0.0) * egress_gbps
    )


def one_token_slack(oracle: Oracle, found: results.Plan) -> float:
    """How far below its ceiling a binding resource may be left because a token length is not shared."""
    if found.threshold_tokens is None:
        return 1e-9
    here = oracle.index(found.threshold_tokens)
    steps = [abs(np.diff(load[max(here - 1, 0) : here + 2])).max() / load[here] for load in oracle.loads]
    return float(max(steps)) + 1e-9


class TestShadowPrices:
    """Duals of the plan's split, where a threshold is the best routing."""

    @EXAMPLES
    @given(case_scenarios)
    def test_strong_duality(self, scenario: Spec) -> None:
        found, oracle = plan(scenario), oracle_of(scenario, nodes=4)
        free = oracle.free_routing(found.instances.pd_prefill)
        assert free.attained_rps * (1 - 1e-9) <= worth(found, scenario) <= free.proven_rps * (1 + 1e-6)
        assert free.proven_rps == pytest.approx(free.attained_rps, rel=1e-4)
        assert found.bound_rps is not None
        assert found.throughput_rps * (1 - ROUNDING) <= worth(found, scenario) <= found.bound_rps * (1 + 1e-9)

    @EXAMPLES
    @given(case_scenarios)
    def test_only_what_binds_has_a_price(self, scenario: Spec) -> None:
        found, oracle = plan(scenario), oracle_of(scenario, nodes=4)
        prices, used = found.shadow_prices, found.utilization
        assert prices is not None
        stages = {
            "prfaas": (prices.prfaas_instance_rps, used.prfaas),
            "pd_prefill": (prices.pd_prefill_instance_rps, used.pd_prefill),
            "pd_decode": (prices.pd_decode_instance_rps, used.pd_decode),
            "egress": (prices.egress_rps_per_gbps, used.egress),
        }
        slack = one_token_slack(oracle, found)
        for stage, (price, utilization) in stages.items():
            assert price is None or price >= 0, stage
            if price is not None and price * 1e6 > found.throughput_rps:
                assert utilization is not None
                assert utilization >= 1 - slack, (stage, price, slack)
        assert any(price for price, _ in stages.values())

    @EXAMPLES
    @given(case_scenarios)
    def test_a_little_more_bandwidth_is_worth_its_price(self, scenario: Spec) -> None:
        """The bound of the same split grows by no more than price times what was added, and decode stays a limit."""
        found = plan(scenario)
        more = changed(scenario, lambda s: scaled_bandwidth(s["links"][0], 1.01))
        oracle = oracle_of(more, nodes=4)
        assert found.shadow_prices is not None
        added_gbps = bandwidth_bytes_per_s(scenario["links"][0]["bandwidth"]) * 8e-9 * 0.01
        most = worth(found, scenario) + (found.shadow_prices.egress_rps_per_gbps or 0.0) * added_gbps
        assert oracle.free_routing(found.instances.pd_prefill).attained_rps <= most * (1 + 1e-7)

    @EXAMPLES
    @given(case_scenarios)
    def test_a_threshold_is_proven_optimal(self, scenario: Spec) -> None:
        """Nothing is lost besides the token length at the threshold."""
        found = plan(scenario)
        assert found.gap_share is not None
        assert found.tie_loss_share is not None
        assert 0 <= found.gap_share <= found.tie_loss_share + 1e-6
        assert found.status == "optimal"


class TestNothingBetter:
    @EXAMPLES
    @given(any_scenario, st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1, exclude_max=True)), min_size=20))
    def test_no_sampled_decision_beats_the_plan(self, scenario: Spec, picks: list[tuple[float, float]]) -> None:
        best, oracle = rate(scenario), oracle_of(scenario)
        for threshold_share, split_share in picks:
            threshold = int(oracle.thresholds[0] + threshold_share * (oracle.thresholds[-1] - oracle.thresholds[0]))
            split = int(split_share * oracle.pd_instances)
            assert oracle.at(threshold, split) <= best * (1 + ROUNDING), (threshold, split)


class TestNearOptimalRange:
    @pytest.mark.parametrize("kind", [kind for kind in LENGTH_KINDS if kind != "constant"])
    @settings(EXAMPLES, max_examples=50)
    @given(seed=seeds, estimator=estimators)
    def test_ends_are_within_a_percent_and_beyond_them_nothing_is(self, kind: str, seed: int, estimator: str) -> None:
        scenario = random_scenario(seed, estimator, (kind,))
        found = planned(scenario)
        assume(found is not None)
        assert found is not None
        assume(found.near_optimal_threshold_tokens is not None)
        assert found.near_optimal_threshold_tokens is not None
        low, high = found.near_optimal_threshold_tokens
        assert found.threshold_tokens is not None
        assert low <= found.threshold_tokens <= high
        oracle = oracle_of(scenario)
        shares = oracle.throughput_rps[:, found.instances.pd_prefill] / found.throughput_rps
        for end in (low, high):
            assert shares[oracle.index(end)] >= 0.99 * (1 - ROUNDING)
        outside = (oracle.thresholds < low) | (oracle.thresholds > high)
        assert not (shares[outside] > 0.99 * (1 + ROUNDING)).any()

    @EXAMPLES
    @given(case_scenarios)
    def test_all_between_the_ends_is_within_under_expected_time(self, scenario: Spec) -> None:
        found = plan(scenario)
        assume(found.near_optimal_threshold_tokens is not None)
        assert found.near_optimal_threshold_tokens is not None
        oracle = oracle_of(scenario)
        rows = slice(*map(oracle.index, found.near_optimal_threshold_tokens))
        shares = oracle.throughput_rps[rows, found.instances.pd_prefill] / found.throughput_rps
        assert (shares >= 0.99 * (1 - ROUNDING)).all()


@EXAMPLES
@given(any_scenario)
def test_the_same_input_gives_the_same_plan(scenario: Spec) -> None:
    found = planned(scenario)
    assume(found is not None)
    assert plan(copy.deepcopy(scenario)) == found


@EXAMPLES
@given(any_scenario)
def test_a_mixture_of_one_is_that_one(scenario: Spec) -> None:
    """Also of two halves of the same: how a distribution is written changes nothing."""

    def halve(s: Spec) -> None:
        half = s["workload"]["input_tokens"] | {"weight": 0.5}
        s["workload"]["input_tokens"] = {"distribution": "mixture", "parts": [half, half]}

    assert rate(changed(scenario, halve)) == pytest.approx(rate(scenario), rel=1e-10)
