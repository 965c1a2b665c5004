"""A cached prefix: what prefill then takes, what decodes, what is out of range; and operations on curves."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from prfaas_opt import api, load_scenario, plan
from prfaas_opt.cli import app
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.planning.build import curves_of, two_pool_problem
from prfaas_opt.planning.decoding import mean_context_tokens
from prfaas_opt.profiles.curve import Curve, combined, larger_of, linear, log_log, piecewise_curve, table_curve
from prfaas_opt.scenario import Scenario
from tests.oracle import Curve as OracleCurve
from tests.oracle import latency_curve, size_curve
from tests.scenarios import LOCAL, REMOTE, Spec, case_like, random_scenario

SHARES = (0.05, 0.25, 0.5, 0.7, 0.9, 0.99)


def short_case(cached_share: float, high: int = 30) -> Spec:
    """A case whose whole prompts fit its profiles of 3,000 tokens."""
    scenario = case_like(mu=3.2)
    scenario["workload"]["input_tokens"] |= {"low": 2, "high": high}
    scenario["workload"]["cached_share"] = cached_share
    return scenario


def with_prefix(prefill_s: OracleCurve, uncached: np.ndarray, share: float) -> np.ndarray:
    """``max(T(u), T(l) - T(c) + T(0+))`` by definition."""
    whole = uncached / (1.0 - share)
    at_zero = prefill_s(np.array([1e-9]))
    expected: np.ndarray = np.maximum(
        prefill_s(uncached), prefill_s(whole) - prefill_s(np.maximum(whole - uncached, 1e-9)) + at_zero
    )
    return expected


def curves_by_hand(scenario: Spec, hardware: str) -> OracleCurve:
    model = scenario["model"]
    profile = next(each for each in model["profiles"] if each["hardware"] == hardware)
    return latency_curve(profile["prefill"], size_curve(profile.get("kv_cache") or model["kv_cache"]))


def clusters_of(loaded: Scenario) -> dict[str, Curve]:
    return {each.hardware: curves_of(loaded, each).latency_s for each in (loaded.pd, loaded.remote) if each is not None}


@pytest.mark.parametrize("share", SHARES)
def test_prefill_pays_for_attention_over_the_prefix(share: float) -> None:
    scenario = short_case(share)
    rng = np.random.default_rng(int(1000 * share))
    for hardware, latency_s in clusters_of(load_scenario(scenario)).items():
        uncached = np.exp(rng.uniform(np.log(0.5), np.log(0.9999 * latency_s.upper), 500))
        expected = with_prefix(curves_by_hand(scenario, hardware), uncached, share)
        assert latency_s(uncached) == pytest.approx(expected, rel=1e-9)
        assert latency_s.upper == pytest.approx(3000 * (1 - share))


def test_prefill_of_random_profiles_pays_for_attention_over_the_prefix() -> None:
    looked = 0
    for seed in range(150):
        scenario = random_scenario(seed)
        rng = np.random.default_rng(seed)
        share = float(rng.uniform(0.01, 0.97))
        longest = scenario["workload"]["input_tokens"]
        scenario["workload"] = copy.deepcopy(scenario["workload"]) | {"cached_share": share, "input_tokens": 1}
        assert longest
        for hardware, latency_s in clusters_of(load_scenario(scenario)).items():
            uncached = np.exp(rng.uniform(np.log(0.01), np.log(0.9999 * latency_s.upper), 200))
            expected = with_prefix(curves_by_hand(scenario, hardware), uncached, share)
            assert latency_s(uncached) == pytest.approx(expected, rel=1e-8), (seed, hardware)
            looked += 1
    assert looked > 200


def test_the_figures_of_another_planner_are_met() -> None:
    # DESIGN 2.1: of 32K, 8K cached leave 1417 ms where T(32K) - T(8K) is 1423 ms; T(0+) is the least of the curve.
    table = {
        "lengths_tokens": [1024, 8192, 24576, 32768],
        "latency_ms": [60, 400, 1340, 1823],
        "interpolation": "linear",
    }
    scenario = case_like()
    scenario["model"]["profiles"][1]["prefill"] = table
    scenario["workload"] = {"input_tokens": 24576, "output_tokens": 10, "cached_share": 0.25}
    loaded = load_scenario(scenario)
    assert curves_of(loaded, loaded.pd).latency_s(24576) == pytest.approx(1.423 + 0.060)
    scenario["workload"] = {"input_tokens": 8192, "output_tokens": 10, "cached_share": 0.75}
    loaded = load_scenario(scenario)
    assert curves_of(loaded, loaded.pd).latency_s(8192) == pytest.approx(1.823 - 1.340 + 0.060)


def test_a_concave_curve_never_makes_a_prefix_pay_for_itself() -> None:
    table = {"lengths_tokens": [100, 1000, 3000], "latency_s": [1.0, 2.0, 2.2]}
    scenario = short_case(0.5)
    scenario["model"]["profiles"][0]["prefill"] = table
    loaded = load_scenario(scenario)
    assert loaded.remote is not None
    # T(2000) - T(1000) + T(0+) = 1.12 s, less than T(1000).
    assert curves_of(loaded, loaded.remote).latency_s(1000) == pytest.approx(2.0)


def test_a_prefix_costs_throughput_and_times_to_first_token() -> None:
    plans, as_decided = [], []
    for share in (0.0, 0.5, 0.85):
        scenario = short_case(share, high=300)
        scenario["workload"]["output_tokens"] = 4
        plans.append(plan(scenario))
        as_decided.append(api.evaluate(scenario, threshold_tokens=300, prefill_instances=3))
    for less, more in itertools.pairwise(plans):
        assert more.throughput_rps < less.throughput_rps
    for less, more in itertools.pairwise(as_decided):
        assert more.throughput_rps < less.throughput_rps
        assert more.ttft_s.mean > less.ttft_s.mean
        assert more.decode.context_tokens > less.decode.context_tokens


@pytest.mark.parametrize("share", [0.0, *SHARES])
def test_decode_has_the_whole_prompt_in_its_context(share: float) -> None:
    scenario = short_case(share)
    loaded = load_scenario(scenario)
    mean = loaded.workload.input_tokens.mean
    expected = mean / (1 - share) + 1024 / 2
    assert mean_context_tokens(loaded.workload) == pytest.approx(expected)
    assert plan(scenario).decode.context_tokens == pytest.approx(expected)


def test_steps_by_context_slow_down_with_the_cached_part() -> None:
    decode = {"batch": [1, 64], "context_tokens": [500, 2000], "step_s": [[0.01, 0.02], [0.02, 0.08]]}
    rates = []
    for share in (0.0, 0.5, 0.9):
        scenario = short_case(share, high=100)
        scenario["model"]["profiles"][1]["decode"] = decode
        rates.append(plan(scenario).decode.step_s)
    assert rates == sorted(set(rates))


def test_prompts_that_leave_the_profile_with_their_prefix_are_refused() -> None:
    inside, outside = short_case(0.5, high=1500), short_case(0.5, high=1501)
    assert plan(inside).throughput_rps > 0
    with pytest.raises(InputError) as caught:
        plan(outside)
    assert [problem.code for problem in caught.value.problems] == ["length-above-range"]
    assert "up to 3,002 tokens, cached prefix included" in caught.value.problems[0].message
    assert plan(outside | {"workload": outside["workload"] | {"cached_share": 0.4}}).throughput_rps > 0


def test_whole_prompts_that_are_sent_must_be_of_known_size() -> None:
    scenario = short_case(0.5, high=1000)
    scenario["model"]["kv_cache"] = {"lengths_tokens": [16, 1900], "mib": [25.0, 110.0]}
    assert plan(scenario).throughput_rps > 0
    with pytest.raises(InputError) as caught:
        plan(scenario | {"transfer": {"bytes": "full_prompt"}})
    assert "KVCache size" in caught.value.problems[0].message


def test_a_prompt_out_of_range_ends_with_code_4(tmp_path: Path) -> None:
    path = str(tmp_path / "scenario.yaml")
    Path(path).write_text(yaml.safe_dump(short_case(0.9, high=2000)), encoding="utf-8")
    result = CliRunner().invoke(app, ["plan", path, "--json"])
    assert result.exit_code == 4
    assert json.loads(result.stdout)["errors"][0]["code"] == "length-above-range"
    for share in ("1", "-0.1", "0.995", "50%"):
        result = CliRunner().invoke(app, ["plan", path, "--set", f"workload.cached_share={share}", "--json"])
        assert result.exit_code == 4, share


def test_no_cached_prefix_changes_no_digit() -> None:
    for seed in range(30):
        scenario = random_scenario(seed)
        stated = copy.deepcopy(scenario)
        stated["workload"]["cached_share"] = 0
        try:
            assert two_pool_problem(load_scenario(stated)) == two_pool_problem(load_scenario(scenario))
            assert plan(stated).throughput_rps == plan(scenario).throughput_rps
        except InfeasibleError:
            continue


def random_curve(rng: np.random.Generator, upper: int) -> Curve:
    """A table straight or log-log, or a quadratic, of latency or size, up to a length."""
    low = int(rng.integers(1, upper // 2))
    kind = rng.integers(3)
    quantity = str(rng.choice(["latency", "size"]))
    x = sorted({low, upper, *rng.integers(low, upper, 4).tolist()})
    y = np.exp(rng.uniform(-2, 2, len(x))).tolist()
    if kind == 1:
        # Model files allow no more than length**6 between two points.
        steps = rng.uniform(-3, 6, len(x) - 1) * np.diff(np.log(x))
        y = np.exp(np.append(0.0, np.cumsum(steps))).tolist()
    if kind < 2:
        return table_curve(x, y, (linear, log_log)[kind], quantity, upper if rng.random() < 0.5 else None)
    terms = tuple((float(c), e) for c, e in zip(rng.normal(size=3) * [1, 1e-2, 1e-5], (0.0, 1.0, 2.0), strict=True))
    curve = table_curve([low, upper], [1.0, 2.0], linear)
    return piecewise_curve((type(curve.pieces[-1])(low, upper, terms),), quantity)


def test_curves_are_combined_point_by_point() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        one, other = (random_curve(rng, int(rng.integers(60, 3000))) for _ in range(2))
        upper = min(one.upper, other.upper)
        x = np.exp(rng.uniform(np.log(1e-3), np.log(upper), 300))
        x = np.append(x[x <= upper], upper)
        a, b = one(x), other(x)
        scale = np.abs(a) + np.abs(b)
        f, g, constant = rng.normal(size=3).tolist()
        total = combined([(f, one), (g, other)], constant)
        assert total.upper == upper
        assert np.abs(total(x) - (f * a + g * b + constant)).max() <= 1e-9 * (1 + scale.max())
        larger = larger_of(one, other)
        assert larger.upper == upper
        assert (np.abs(larger(x) - np.maximum(a, b)) <= 1e-9 * scale + 1e-12).all()
        assert np.abs(one.squared()(x) - a * a).max() <= 1e-9 * (1 + (a * a).max())
        factor = float(rng.uniform(0.01, 100))
        stretched = one.stretched(factor)
        assert stretched.upper == pytest.approx(one.upper / factor)
        assert stretched.measured_low_tokens == pytest.approx(one.measured_low_tokens / factor)
        inside = x[x < one.upper * (1 - 1e-9)]
        assert stretched(inside / factor) == pytest.approx(one(inside), rel=1e-8, abs=1e-12)
        assert one.at_zero == pytest.approx(one(1e-12), rel=1e-6, abs=1e-9)


def test_curves_stay_whole_under_operations() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        one, other = (random_curve(rng, 1000) for _ in range(2))
        for curve in (combined([(1.0, one), (2.0, other)]), larger_of(one, other), one.squared(), one.stretched(3.7)):
            assert curve.pieces[0].low == 0.0
            assert all(a.high == b.low for a, b in itertools.pairwise(curve.pieces))
            assert all(piece.low < piece.high for piece in curve.pieces)


def test_the_larger_of_curves_that_cross_and_touch() -> None:
    line, level = table_curve([1, 100], [1.0, 100.0], linear), table_curve([1, 100], [50.0, 50.0], linear)
    larger = larger_of(line, level)
    assert [larger(x) for x in (0.5, 49.0, 50.0, 51.0, 100.0)] == [50.0, 50.0, pytest.approx(50.0), 51.0, 100.0]
    assert larger_of(line, line) is not line
    assert larger_of(line, line)(37.0) == 37.0
    assert larger_of(level, line)(99.0) == larger(99.0)


def test_hardware_of_the_case_is_both() -> None:
    assert set(clusters_of(load_scenario(short_case(0.5)))) == {LOCAL, REMOTE}
