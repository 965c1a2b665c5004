"""What the text of a plan says, and what moves the rate of plans that were not made for throughput alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from prfaas_opt import load_scenario, plan
from prfaas_opt.cli import app
from prfaas_opt.results import Deviation


def text_of(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code == code, result.output
    return result.output


def planned(robust_share: float | None = None, **dials: str) -> Any:
    scenario = load_scenario(overrides={path.replace("__", "."): value for path, value in dials.items()})
    return plan(scenario, robust_share=robust_share)


@pytest.mark.parametrize("estimator", ["expected-time", "mean-length"])
def test_a_robust_plan_has_a_text_under_both_estimators(estimator: str) -> None:
    text = text_of("plan", "--robust", "10%", "--estimator", estimator)
    assert "Best worst case of all splits and thresholds" in text
    assert ("capacity cannot exceed" in text) == (estimator == "expected-time")


def rows_of(found: Any, figure: str) -> list[Deviation]:
    return [row for row in found.sensitivity if row.figure == figure]


def test_what_moves_a_robust_plan_is_planned_robustly() -> None:
    nominal, robust = planned(), planned(robust_share=0.1)
    assert robust.served_rps < nominal.served_rps
    for row in rows_of(robust, "link bandwidth"):
        assert row.replanned_rps == pytest.approx(robust.served_rps, rel=1e-9)
    link = next(each for each in robust.what_ifs if each.resource == "prfaas to pd")
    assert link.gain_rps == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "lengths",
    [
        "{distribution: uniform, low: 16K, high: 32K}",
        "16K",
        "{distribution: table, lengths: [9K, 20K], weights: [1, 1]}",
    ],
)
def test_who_offloads_everything_offloads_shorter_prompts_too(lengths: str) -> None:
    found = planned(workload=f"{{input_tokens: {lengths}, output_tokens: 1K}}", clusters__pd__instances="3")
    assert found.routing.kind == "all-remote"
    shorter, longer = rows_of(found, "mean input length")
    assert shorter.deployed_rps is not None
    assert shorter.deployed_rps >= found.served_rps * (1 - 1e-9)
    assert longer.deployed_rps is not None
    assert 0 < longer.deployed_rps <= found.served_rps * (1 + 1e-9)


def test_prefill_beside_decode_names_the_token_rate() -> None:
    text = text_of("plan", "--set", "local_prefill=on_decode", "--set", "slo.tokens_per_s=30")
    assert "the token rate beside prefill" in text.splitlines()[0]
    assert re.search(r"of it prefill +max 25\.0 % .* 25\.0 %", text)
    why = text_of("plan", "--set", "local_prefill=on_decode", "--set", "residency.stay_share=0.1", code=3)
    assert "the token rate leaves the decode instances no time" in why


def test_requests_that_nothing_takes_are_in_the_verdict_and_in_compare() -> None:
    assert "unservable" in text_of("plan", "--set", "clusters.pd.max_context=32K").splitlines()[0]
    assert "Unservable" in text_of("compare", "--set", "clusters.pd.max_context=32K")


def test_cost_under_a_ttft_objective_claims_no_bound_of_capacity() -> None:
    prices = ["--set", "clusters.prfaas.price_per_gpu_hour=4", "--set", "clusters.pd.price_per_gpu_hour=2"]
    plain = text_of("plan", *prices, "--objective", "cost")
    assert "No counts, split or routing cost less" in plain
    text = text_of("plan", *prices, "--objective", "cost", "--set", "slo.ttft.p90=7s")
    assert "USD per thousand requests" in text
    assert "No counts, split or routing cost less" not in text
    assert "pays up to" not in text


def test_a_rented_link_is_in_the_bound_of_cost() -> None:
    prices = {"clusters__prfaas__price_per_gpu_hour": "4", "clusters__pd__price_per_gpu_hour": "2"}
    free, rented = (planned(None, **prices, links__0__price_per_gbps_hour=each).cost for each in ("0", "0.01"))
    assert rented.least_usd_per_thousand_requests > free.least_usd_per_thousand_requests
    assert rented.least_usd_per_thousand_requests <= rented.usd_per_thousand_requests


def test_a_percentile_of_measurements_is_said() -> None:
    text = text_of("plan", "--set", "links.0.bandwidth={measured: [90Gbps, 100Gbps], percentile: 0}")
    assert "bandwidth at P0 of what was measured" in " ".join(text.split())


def test_a_full_link_is_shown_full_whatever_limits_it() -> None:
    for setting in ("links.0.max_utilization=0.05", "links.0.max_utilization=1.0"):
        bandwidth = "links.0.bandwidth=100Gbps" if "0.05" in setting else "links.0.bandwidth=5Gbps"
        text = text_of("plan", "--set", setting, "--set", bandwidth)
        assert re.search(r"link, \+10 % +5\.00 Gbps .* 100\.0 %", text)
