"""The paper's case study, as it is printed and as it is worked out independently of this program."""

from __future__ import annotations

from pathlib import Path

import pytest

from prfaas_opt import api, compare, load_scenario, plan
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.io.scenario_file import CASE_STUDY
from prfaas_opt.results import Plan


def planned(**overrides: str) -> Plan:
    return plan(load_scenario(overrides={key.replace("__", "."): value for key, value in overrides.items()}))


def test_the_plan_under_expected_time() -> None:
    best = planned()
    assert (best.threshold_tokens, best.instances.pd_prefill, best.instances.pd_decode) == (19805, 3, 5)
    assert best.throughput_rps == pytest.approx(3.149440, abs=5e-7)
    assert best.bound_rps == pytest.approx(3.149482, abs=5e-7)
    assert best.status == "optimal"
    assert best.ratio == pytest.approx(1.56, abs=0.005)
    assert best.bottlenecks == ("prfaas", "pd_prefill")


def test_shadow_prices_are_the_duals_and_use_up_the_bound() -> None:
    best = planned()
    prices = best.shadow_prices
    assert prices is not None
    assert prices.prfaas_instance_rps == pytest.approx(0.601, abs=5e-4)
    assert prices.pd_prefill_instance_rps == pytest.approx(0.249, abs=5e-4)
    assert prices.pd_decode_instance_rps == prices.egress_rps_per_gbps == 0.0
    spent = 4 * (prices.prfaas_instance_rps or 0) + 3 * (prices.pd_prefill_instance_rps or 0)
    assert spent == pytest.approx(best.bound_rps, rel=1e-11)


def test_the_plan_under_the_paper_s_estimator() -> None:
    best = planned(estimator="mean-length")
    assert (best.threshold_tokens, best.instances.pd_prefill) == (19632, 3)
    assert best.throughput_rps == pytest.approx(3.1997, abs=5e-5)
    assert best.egress_gbps == pytest.approx(11.95, abs=0.005)
    assert best.ttft_s.mean == pytest.approx(2.216, abs=5e-4)
    assert best.ttft_s.p90 == pytest.approx(3.513, abs=5e-4)
    assert best.bound_rps is None
    assert best.shadow_prices is None


def test_the_paper_s_own_decision() -> None:
    at = api.evaluate(load_scenario(overrides={"estimator": "mean-length"}), 19400, 3)
    assert at.status == "feasible"
    assert at.stages_rps.prfaas == pytest.approx(1.579, abs=5e-4)
    assert at.stages_rps.pd_prefill == pytest.approx(1.640, abs=5e-4)
    assert at.offload_share == pytest.approx(0.4957, abs=5e-5)
    assert at.ttft_s.mean == pytest.approx(2.207, abs=5e-4)


def test_baselines_of_table_6() -> None:
    by_name = {d.name: d for d in compare(load_scenario(overrides={"estimator": "mean-length"})).deployments}
    homogeneous, naive = by_name["homogeneous-pd"], by_name["naive-heterogeneous"]
    assert (homogeneous.instances.pd_prefill, homogeneous.instances.pd_decode) == (9, 3)
    assert homogeneous.throughput_rps == pytest.approx(2.11, abs=5e-3)
    assert homogeneous.ttft_s.mean == pytest.approx(4.447, abs=5e-4)
    assert naive.throughput_rps == pytest.approx(2.449, abs=5e-4)
    assert naive.ratio == pytest.approx(1.16, abs=5e-3)


def test_throughput_at_equal_cost() -> None:
    prices = {"clusters.prfaas.price_per_gpu_hour": "2", "clusters.pd.price_per_gpu_hour": "1"}
    best = compare(load_scenario(overrides={"estimator": "mean-length", **prices})).deployments[0]
    assert best.cost is not None
    assert best.cost.usd_per_hour == 4 * 8 * 2 + 8 * 8 * 1
    assert best.cost.ratio == pytest.approx(1.137, abs=5e-4)


def test_without_bandwidth_the_pd_cluster_is_alone() -> None:
    cut = planned(links__0__bandwidth="0")
    alone = plan(
        {
            "model": "internal-1t",
            "workload": "prfaas-case-study",
            "clusters": {"pd": {"role": "pd", "hardware": "H20", "instances": 8}},
            "slo": {"tokens_per_s": 40},
        }
    )
    assert cut.routing.kind == alone.routing.kind == "all-local"
    assert cut.throughput_rps == alone.throughput_rps
    assert cut.threshold_tokens is alone.threshold_tokens is None
    assert (cut.utilization.prfaas, alone.utilization.prfaas) == (0.0, None)


def test_one_pd_instance_decodes_and_all_prefill_is_remote() -> None:
    best = planned(clusters__pd__instances="1")
    assert best.routing.kind == "all-remote"
    assert (best.instances.pd_prefill, best.instances.pd_decode) == (0, 1)
    assert best.offload_share == 1.0


def test_one_pd_instance_without_a_link_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="cannot both prefill and decode"):
        planned(clusters__pd__instances="1", links__0__bandwidth="0")


def test_an_slo_that_no_batch_meets_is_infeasible_and_says_where_and_what_would_do() -> None:
    with pytest.raises(InfeasibleError, match="ask 40 tokens/s or less") as caught:
        planned(slo__tokens_per_s="41")
    assert caught.value.problems[0].where == "--set slo.tokens_per_s"


def test_an_error_of_planning_names_the_line_of_the_file(tmp_path: Path) -> None:
    text = CASE_STUDY.read_text(encoding="utf-8")
    file = tmp_path / "fast.yaml"
    file.write_text(text.replace("tokens_per_s: 40", "tokens_per_s: 99"), encoding="utf-8")
    line = 1 + text[: text.index("tokens_per_s: 40")].count("\n")
    with pytest.raises(InfeasibleError) as caught:
        plan(file)
    assert caught.value.problems[0].where == f"{file}:{line} slo.tokens_per_s"


def test_lengths_beyond_a_profile_name_the_range_and_every_cluster() -> None:
    with pytest.raises(InputError) as caught:
        plan(
            load_scenario(
                overrides={"workload": "{input_tokens: {distribution: uniform, low: 1, high: 200K}, output_tokens: 9}"}
            )
        )
    (problem,) = caught.value.problems
    assert problem.code == "length-above-range"
    for figure in ("prefill latency on H200", "KVCache size on H200", "prefill latency on H20"):
        assert f"{figure} up to 131,072" in problem.message


def test_ceilings_bind_where_the_capacity_was() -> None:
    best = planned(
        clusters__prfaas__max_utilization="0.9", clusters__pd__max_utilization="0.98", clusters__pd__instances="9"
    )
    assert best.utilization.prfaas == pytest.approx(0.9, abs=1e-4)
    assert best.utilization.pd_prefill == pytest.approx(0.98, abs=1e-4)
    assert best.bottlenecks == ("prfaas", "pd_prefill")


def test_a_ceiling_of_the_link_binds_as_less_bandwidth_does() -> None:
    share, less = planned(links__0__max_utilization="0.05"), planned(links__0__bandwidth="5Gbps")
    assert share.throughput_rps == pytest.approx(less.throughput_rps, rel=1e-12)
    assert share.utilization.egress == pytest.approx(0.05, rel=1e-4)
    assert share.bottlenecks == less.bottlenecks == ("pd_prefill", "egress")


def test_a_dense_model_behind_a_tight_link_is_only_threshold_optimal() -> None:
    best = planned(model="minimax-m2.5", links__0__bandwidth="1Gbps")
    assert best.status == "threshold-optimal"
    assert best.bound_rps is not None
    assert 1.003 < best.bound_rps / best.throughput_rps < 1.03


def test_a_decode_bound_plan_sends_as_little_as_it_can() -> None:
    best = planned(model="minimax-m2.5")
    assert best.bottlenecks == ("pd_prefill", "pd_decode")
    assert best.threshold_tokens is not None
    further = api.evaluate(load_scenario(overrides={"model": "minimax-m2.5"}), best.threshold_tokens + 1, 4)
    assert further.throughput_rps < best.throughput_rps


def test_an_evaluation_of_an_impossible_split_is_an_error() -> None:
    with pytest.raises(InputError, match="expected 0 to 7") as caught:
        api.evaluate(None, -1, 8)
    assert len(caught.value.problems) == 2


def test_a_decision_that_serves_nobody_carries_nothing() -> None:
    nothing = api.evaluate(None, 19400, 0)
    assert nothing.throughput_rps == nothing.egress_gbps == 0.0
    assert nothing.status == "feasible"


@pytest.mark.parametrize("estimator", ["expected-time", "mean-length"])
def test_classes_too_rare_for_a_number_are_empty(estimator: str) -> None:
    lengths = "{distribution: truncated-lognormal, mu: 9.5, sigma: 0.01, low: 128, high: 128K}"
    narrow = {"workload": f"{{input_tokens: {lengths}, output_tokens: 9}}", "estimator": estimator}
    scenario = load_scenario(overrides=narrow)
    shares = []
    for threshold in range(19400, 19660):
        at = api.evaluate(scenario, threshold, 3)
        shares.append(at.offload_share)
        assert at.throughput_rps > 0
    assert shares[0] > 0 == shares[-1]
    assert any(0 < share < 1e-300 for share in shares)


def test_a_threshold_that_offloads_to_nowhere_is_an_error() -> None:
    cut = load_scenario(overrides={"links.0.bandwidth": "0"})
    with pytest.raises(InputError, match="nothing can be offloaded"):
        api.evaluate(cut, 19400, 6)
    assert api.evaluate(cut, 131072, 6).throughput_rps == planned(links__0__bandwidth="0").throughput_rps


def test_a_link_without_bandwidth_has_no_price() -> None:
    prices = planned(links__0__bandwidth="0").shadow_prices
    assert prices is not None
    assert prices.egress_rps_per_gbps is None
    assert prices.prfaas_instance_rps == 0.0


def test_a_baseline_that_cannot_be_is_named_as_such() -> None:
    scenario = load_scenario(overrides={"baseline": "{instances: 1}"})
    assert plan(scenario).ratio is None
    assert any("no homogeneous cluster to compare with" in note for note in api.warnings(scenario))
    (missing,) = compare(scenario).unavailable
    assert missing.name == "homogeneous-pd"
    assert "cannot both prefill and decode" in missing.problem


def test_the_baseline_takes_a_price_that_is_there() -> None:
    prices = {"clusters.prfaas.hardware": "H20", "clusters.prfaas.price_per_gpu_hour": "2"}
    by_name = {d.name: d for d in compare(load_scenario(overrides=prices)).deployments}
    assert by_name["prfaas-pd"].cost is None
    homogeneous = by_name["homogeneous-pd"].cost
    assert homogeneous is not None
    assert homogeneous.usd_per_hour == 12 * 8 * 2
