"""What more of a resource gives, and where a figure is off: against planning anew by hand."""

from __future__ import annotations

import dataclasses

import pytest

from prfaas_opt import api, load_scenario, plan
from prfaas_opt.profiles.decode import DecodeProfile
from prfaas_opt.results import Plan, WhatIf
from prfaas_opt.workload.densities import Uniform
from prfaas_opt.workload.distribution import LengthDistribution, table


def planned(sensitivity: bool = False, **overrides: str) -> Plan:
    scenario = load_scenario(overrides={key.replace("__", "."): value for key, value in overrides.items()})
    return plan(scenario, sensitivity=sensitivity)


def by_resource(best: Plan) -> dict[str, WhatIf]:
    return {each.resource: each for each in best.what_ifs}


def test_one_more_of_each_is_what_planning_anew_gives() -> None:
    best = planned()
    gains = by_resource(best)
    assert gains["prfaas"].throughput_rps == pytest.approx(planned(clusters__prfaas__instances="5").throughput_rps)
    assert gains["pd"].throughput_rps == pytest.approx(planned(clusters__pd__instances="9").throughput_rps)
    assert gains["prfaas to pd"].throughput_rps == pytest.approx(planned(links__0__bandwidth="110Gbps").throughput_rps)
    assert round(gains["prfaas"].gain_share, 2) == 0.19
    assert round(gains["pd"].gain_share, 2) == 0.08


def test_the_largest_gain_comes_first_and_counts_are_of_the_larger_fleet() -> None:
    best = planned()
    gains = [each.gain_rps for each in best.what_ifs]
    assert gains == sorted(gains, reverse=True)
    assert best.what_ifs[0].instances.prfaas == 5
    counts = by_resource(best)["pd"].instances
    assert counts.pd_prefill + counts.pd_decode == 9


def test_gains_are_per_cost_where_there_are_prices() -> None:
    best = planned(clusters__prfaas__price_per_gpu_hour="2", clusters__pd__price_per_gpu_hour="1")
    gains = by_resource(best)
    assert gains["prfaas"].gain_rps_per_usd_hour == pytest.approx(gains["prfaas"].gain_rps / 16)
    assert gains["pd"].gain_rps_per_usd_hour == pytest.approx(gains["pd"].gain_rps / 8)
    assert gains["prfaas to pd"].gain_rps_per_usd_hour is None


@pytest.mark.parametrize("bandwidth", ["3Gbps", "8Gbps", "100Gbps"])
def test_a_little_more_of_a_resource_gains_what_its_shadow_price_says(bandwidth: str) -> None:
    best = planned(links__0__bandwidth=bandwidth)
    assert best.shadow_prices is not None
    gbps = float(bandwidth.removesuffix("Gbps"))
    wider = planned(links__0__bandwidth=f"{gbps * 1.001:.6f}Gbps")
    assert best.bound_rps is not None
    assert wider.bound_rps is not None
    expected = (best.shadow_prices.egress_rps_per_gbps or 0.0) * gbps * 0.001
    same_split = wider.instances == best.instances
    assert same_split
    assert wider.bound_rps - best.bound_rps == pytest.approx(expected, rel=0.01, abs=1e-9)


def test_a_slower_stream_is_a_what_if_where_decode_is_a_table() -> None:
    scenario = load_scenario()
    profiles = {profile.hardware: profile for profile in scenario.model.profiles}
    table_profile = dataclasses.replace(profiles["H20"], decode=DecodeProfile((1, 20, 40), (0.012, 0.025, 0.030)))
    model = dataclasses.replace(scenario.model, profiles=(profiles["H200"], table_profile))
    few = dataclasses.replace(scenario.pd, instances=2)
    slow = dataclasses.replace(scenario, model=model, pd=few)
    gains = by_resource(plan(slow))
    expected = plan(dataclasses.replace(slow, tokens_per_s=39.0)).throughput_rps
    assert gains["slo.tokens_per_s"].throughput_rps == pytest.approx(expected)
    assert gains["slo.tokens_per_s"].gain_rps > 0
    assert "slo.tokens_per_s" not in by_resource(planned())


def test_where_nothing_can_be_offloaded_only_the_pd_cluster_can_grow() -> None:
    assert set(by_resource(planned(links__0__bandwidth="0"))) == {"pd"}


def test_a_figure_that_is_off_moves_the_deployed_plan_and_a_new_one() -> None:
    rows = planned(sensitivity=True).sensitivity
    assert rows is not None
    by_row = {(row.figure, row.off_by_share): row for row in rows}
    assert len(by_row) == 16
    slower = by_row["link bandwidth", -0.2]
    assert slower.replanned_rps == pytest.approx(planned(links__0__bandwidth="80Gbps").throughput_rps)
    for row in rows:
        assert row.deployed_rps is not None
        assert row.replanned_rps is not None
        assert row.deployed_rps <= row.replanned_rps * (1 + 1e-12)
    assert by_row["remote prefill latency", 0.1].split_changes
    assert not by_row["remote prefill latency", -0.1].split_changes


def test_without_being_asked_figures_are_off_by_a_tenth() -> None:
    rows = planned().sensitivity
    assert rows is not None
    assert {row.off_by_share for row in rows} == {-0.1, 0.1}


def test_lengths_that_would_leave_the_profile_are_said_to() -> None:
    rows = planned(
        sensitivity=True, workload="{input_tokens: {distribution: uniform, low: 1K, high: 128K}, output_tokens: 1K}"
    ).sensitivity
    assert rows is not None
    by_row = {(row.figure, row.off_by_share): row for row in rows}
    assert by_row["mean input length", 0.1].replanned_rps is None
    assert by_row["mean input length", -0.1].replanned_rps is not None


@pytest.mark.parametrize(
    "lengths",
    [
        "{distribution: uniform, low: 1000, high: 60000}",
        "{distribution: table, lengths: [1K, 9K, 20K, 33K, 70K], weights: [3, 2, 2, 2, 1]}",
    ],
)
def test_a_deployed_threshold_stays_where_it_is_when_lengths_move(lengths: str) -> None:
    setting = {"workload": f"{{input_tokens: {lengths}, output_tokens: 1K}}"}
    scenario = load_scenario(overrides=setting)
    best = plan(scenario, sensitivity=True)
    assert best.sensitivity is not None
    assert best.threshold_tokens is not None
    for row in best.sensitivity:
        if row.figure == "mean input length" and row.deployed_rps is not None:
            moved = scenario.workload.input_tokens.scaled(1 + row.off_by_share)
            assert moved is not None
            workload = dataclasses.replace(scenario.workload, input_tokens=moved)
            other = dataclasses.replace(scenario, workload=workload)
            expected = api.evaluate(other, best.threshold_tokens, best.instances.pd_prefill)
            assert row.deployed_rps == pytest.approx(expected.throughput_rps)


def test_where_nothing_can_be_offloaded_only_local_figures_can_be_off() -> None:
    rows = planned(sensitivity=True, links__0__bandwidth="0").sensitivity
    assert rows is not None
    assert {row.figure for row in rows} == {"mean input length", "local prefill latency"}
    assert all(row.replanned_rps is not None for row in rows)


def mean(lengths: LengthDistribution | None) -> float:
    assert lengths is not None
    return lengths.mean


def test_scaled_lengths() -> None:
    assert mean(LengthDistribution(((1.0, Uniform(10.0, 30.0)),)).scaled(2.0)) == pytest.approx(40.0)
    assert mean(table([(10.0, 1.0), (30.0, 1.0)]).scaled(0.5)) == 10.0


@pytest.mark.parametrize("factor", [0.8, 0.9, 1.1, 1.2])
def test_a_truncated_lognormal_keeps_its_range_and_moves_its_mean_exactly(factor: float) -> None:
    lengths = load_scenario().workload.input_tokens
    scaled = lengths.scaled(factor)
    assert scaled is not None
    assert scaled.mean == pytest.approx(factor * lengths.mean, rel=1e-12)
    assert (scaled.low, scaled.high) == (lengths.low, lengths.high)
    assert lengths.scaled(10.0) is None
