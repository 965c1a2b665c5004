"""Fitting a latency curve to points and to published aggregates: against an independent solver, and against truths."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_opt.fit_api import ModelFit, fit_curve, fit_targets
from prfaas_opt.fitting.convex import least_absolute, least_huber
from prfaas_opt.fitting.points import fit_points
from prfaas_opt.fitting.quadratic import Quadratic, powers, relative_least_squares, tell_apart
from prfaas_opt.fitting.targets import Target, target_row
from prfaas_opt.io.loading import load_model, load_workload, model_of
from prfaas_opt.io.yaml_file import parse_document
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution, table

LENGTHS = [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
TRUTH = Quadratic(0.47, 1.3e-4, 3e-10)
TABLE_6 = """\
workload: prfaas-case-study
targets:
  - {kind: throughput, instances: 9, rps: 2.11}
  - {kind: throughput, instances: 3, up_to: 19400, rps: 1.64}
  - {kind: ttft-percentile, percentile: 90, ttft_s: 9.73}
  - {kind: ttft-mean, ttft_s: 4.44, held_out: true}
"""

curves = st.builds(Quadratic, st.floats(0.01, 2.0), st.floats(1e-6, 1e-3), st.floats(1e-12, 1e-8))


def points_file(folder: Path, lengths: list[int], latencies_s: list[float], digits: int = 9) -> Path:
    path = folder / "points.csv"
    rows = (f"{length},{latency:.{digits}g}" for length, latency in zip(lengths, latencies_s, strict=True))
    path.write_text("\n".join(["length_tokens,latency_s", *rows, ""]), encoding="utf-8")
    return path


def targets_file(folder: Path, text: str) -> Path:
    path = folder / "targets.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def coefficients(fit: ModelFit) -> tuple[float, float, float]:
    return fit.coefficients.a_s, fit.coefficients.b_s_per_token, fit.coefficients.c_s_per_token2


# Points


@settings(max_examples=50)
@given(curves, st.lists(st.sampled_from(LENGTHS), min_size=3, max_size=8, unique=True))
def test_points_on_a_curve_give_the_curve(truth: Quadratic, lengths: list[int]) -> None:
    found = relative_least_squares(powers(lengths), np.array([truth(x) for x in lengths]))
    for length in lengths:
        assert found(length) == pytest.approx(truth(length), rel=1e-9)


@pytest.mark.parametrize("robust", [False, True])
def test_a_file_of_points_on_a_curve_gives_the_curve(robust: bool, tmp_path: Path) -> None:
    found = fit_curve(points_file(tmp_path, LENGTHS, [TRUTH(x) for x in LENGTHS], 15), robust)
    assert coefficients(found) == pytest.approx(tuple(TRUTH), rel=1e-6)
    assert found.range_tokens == (1024, 131072)
    assert not any(row.looks_wrong for row in found.points)
    assert [row.residual_share for row in found.points] == pytest.approx([0.0] * 8, abs=1e-9)


def test_noise_of_2_percent_is_averaged_out(tmp_path: Path) -> None:
    noise = np.random.default_rng(7).normal(1.0, 0.02, (25, 8))
    latencies = [TRUTH(x) * noise[i, j] for i in range(25) for j, x in enumerate(LENGTHS)]
    found = fit_curve(points_file(tmp_path, LENGTHS * 25, latencies))
    for length in LENGTHS:
        fitted = sum(c * length**i for i, c in enumerate(coefficients(found)))
        assert fitted == pytest.approx(TRUTH(length), rel=0.01)
    assert coefficients(found) == pytest.approx(tuple(TRUTH), rel=0.08)
    assert coefficients(found) != pytest.approx(tuple(TRUTH), rel=1e-4)
    assert found.scale_share == pytest.approx(0.02, rel=0.2)
    residuals = [row.residual_share for row in found.points]
    assert np.std(residuals) == pytest.approx(0.02, rel=0.15)


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_an_outlier_is_named_and_no_other(at: int, factor: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(at).uniform(0.99, 1.01, (2, 8))
    latencies = [TRUTH(x) * noise[i, j] for i in range(2) for j, x in enumerate(LENGTHS)]
    latencies[at] *= factor
    path = points_file(tmp_path, LENGTHS * 2, latencies)
    plain, robust = fit_curve(path), fit_curve(path, robust=True)
    for found in (plain, robust):
        (wrong,) = [row for row in found.points if row.looks_wrong]
        assert wrong.line == at + 2
        assert (wrong.robust_z > 0) == (wrong.residual_share > 0) == (factor > 1)
    assert any("--robust" in warning for warning in plain.warnings)
    assert not any("--robust" in warning for warning in robust.warnings)

    def worst(found: ModelFit) -> float:
        return max(abs(row.fitted_s / TRUTH(row.length_tokens) - 1) for row in found.points)

    assert worst(robust) < min(0.02, 0.7 * worst(plain))


def test_points_that_scatter_as_usual_do_not_look_wrong(tmp_path: Path) -> None:
    """Nor do those of few points, whose noise the fit follows."""
    for times in (1, 3):
        flagged = 0
        for seed in range(20):
            noise = np.random.default_rng(seed).normal(1.0, 0.01, 8 * times)
            latencies = [TRUTH(x) * n for x, n in zip(LENGTHS * times, noise, strict=True)]
            flagged += any(
                row.looks_wrong for row in fit_curve(points_file(tmp_path, LENGTHS * times, latencies)).points
            )
        assert flagged <= 2


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(LENGTHS), st.floats(0.05, 50.0)), min_size=3, max_size=12))
def test_least_squares_against_nnls_of_scipy(points: list[tuple[int, float]]) -> None:
    lengths, values = [x for x, _ in points], np.array([y for _, y in points])
    rows = powers(lengths)
    found = relative_least_squares(rows, values)
    assert min(found) >= 0
    scale = np.array([1.0, 1e5, 1e10])
    design = rows / scale / values[:, None]
    expected, norm = scipy.optimize.nnls(design, np.ones(len(values)))
    assert np.linalg.norm(design @ (np.array(found) * scale) - 1.0) == pytest.approx(norm, rel=1e-7, abs=1e-9)
    if tell_apart(rows):
        assert rows @ np.array(found) == pytest.approx(rows @ (expected / scale), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("latencies", "at_zero"),
    [
        ([1.0, 3.0, 4.0, 4.2], {"c_s_per_token2"}),
        ([1e-3, 4e-3, 16e-3, 70e-3], {"a_s", "b_s_per_token"}),
        ([5.0, 4.0, 3.0, 2.0], {"b_s_per_token", "c_s_per_token2"}),
        ([1.0, 0.9, 1.1, 3.0], {"b_s_per_token"}),
    ],
)
def test_coefficients_that_would_be_negative_are_zero(
    latencies: list[float], at_zero: set[str], tmp_path: Path
) -> None:
    lengths = [1000, 2000, 4000, 8000]
    found = fit_curve(points_file(tmp_path, lengths, latencies))
    given = {"a_s": found.coefficients.a_s, "b_s_per_token": found.coefficients.b_s_per_token}
    given["c_s_per_token2"] = found.coefficients.c_s_per_token2
    assert {name for name, value in given.items() if value == 0} == at_zero
    free = np.linalg.lstsq(powers(lengths) / np.array(latencies)[:, None], np.ones(4), rcond=None)[0]
    assert free.min() < 0
    (warning,) = [w for w in found.warnings if "at zero" in w]
    assert all(name in warning for name in at_zero)


def test_the_robust_losses_are_at_their_optima() -> None:
    rng = np.random.default_rng(3)
    rows = powers(LENGTHS)
    values = np.array([TRUTH(x) for x in LENGTHS]) * rng.normal(1.0, 0.05, 8)
    values[2] *= 2

    def absolute(x: Any) -> float:
        return float(np.abs(rows @ x / values - 1).sum())

    def huber(x: Any) -> float:
        return float(scipy.special.huber(0.05, rows @ x / values - 1).sum())

    for loss, found in ((absolute, least_absolute(rows, values)), (huber, least_huber(rows, values, 0.05))):
        best = loss(np.array(found))
        for _ in range(300):
            assert loss(np.abs(np.array(found) * rng.normal(1.0, 0.01, 3))) >= best * (1 - 1e-6)
        assert loss(np.array(relative_least_squares(rows, values))) > best * 1.01


def test_rounding_of_points_moves_as_far_as_the_worst_rounding_does(tmp_path: Path) -> None:
    lengths = [1024, 8192, 32768, 131072]
    printed = [0.60, 1.55, 5.05, 22.56]
    found = fit_curve(points_file(tmp_path, lengths, printed, 4))
    worst = np.zeros(3)
    halves = [0.05, 0.005, 0.005, 0.005]  # 0.60 is written 0.6 by %g
    for signs in itertools.product((-1, 1), repeat=4):
        moved = [y + s * h for y, s, h in zip(printed, signs, halves, strict=True)]
        other = relative_least_squares(powers(lengths), np.array(moved))
        worst = np.maximum(worst, np.abs(np.array(other) - np.array(coefficients(found))))
    for interval, most in zip(found.intervals[:3], worst, strict=True):
        assert interval.most - interval.fitted == pytest.approx(most, rel=0.1)


def test_the_stated_noise_is_the_scatter_of_repeated_fits() -> None:
    rng, lengths, asked = np.random.default_rng(5), LENGTHS * 4, [*np.eye(3), powers([131072])[0]]
    truth = np.array([TRUTH(x) for x in lengths])
    fits = [
        fit_points(lengths, (truth * rng.normal(1.0, 0.02, 32)).tolist(), [1e-9] * 32, False, asked) for _ in range(150)
    ]
    scatter = np.std([np.array(asked) @ np.array(fit.curve) for fit in fits], axis=0)
    stated = np.median([fit.noise for fit in fits], axis=0)
    assert stated == pytest.approx(scatter, rel=0.3)


# Published aggregates


def test_the_h20_curve_of_the_case_study_comes_out_of_table_6(tmp_path: Path) -> None:
    found = fit_targets(targets_file(tmp_path, TABLE_6))
    a, b, c = coefficients(found)
    assert (round(a, 4), round(b, 8), round(c, 12)) == (0.4691, 1.3004e-4, 2.94e-10)
    shipped = load_model("internal-1t").profile("H20")
    assert shipped is not None
    assert [term for term, _ in shipped.prefill_s.pieces[-1].terms] == pytest.approx([a, b, c], rel=2e-4)
    assert found.range_tokens == (128, 131072)
    assert found.agreement == pytest.approx(0.0, abs=1e-6)
    *fitted, held_out = found.targets
    assert [row.evidence for row in fitted] == ["fitted"] * 3
    assert [row.fitted for row in fitted] == pytest.approx([2.11, 1.64, 9.73], rel=1e-9)
    assert (held_out.evidence, held_out.published, round(held_out.fitted, 3)) == ("held out", 4.44, 4.447)


def test_the_digits_of_table_6_leave_1_percent_at_128k_and_9_percent_in_c(tmp_path: Path) -> None:
    found = fit_targets(targets_file(tmp_path, TABLE_6))
    by_name = {interval.what: interval for interval in found.intervals}
    assert round(by_name["T(128K)"].off_by_share or 0, 2) == 0.01
    assert round(by_name["c_s_per_token2"].off_by_share or 0, 2) == 0.09
    lengths = load_workload("prfaas-case-study").input_tokens
    rows = powers([lengths.mean, lengths.mean_at_most(19400) or 0, lengths.quantile(0.9)])
    corners = []
    for signs in itertools.product((-0.005, 0.005), repeat=3):
        values = [9 / (2.11 + signs[0]), 3 / (1.64 + signs[1]), 9.73 + signs[2]]
        x = np.linalg.solve(rows, values)
        corners.append(
            [*x, *(powers([128, 1024, 8192, 32768, 131072]) @ x), x @ [1, lengths.mean, lengths.moment(2.0)]]
        )
    for interval, least, most in zip(found.intervals, np.min(corners, 0), np.max(corners, 0), strict=False):
        assert (interval.least, interval.most) == pytest.approx((least, most), rel=1e-5)
    held_out = found.targets[-1].fitted_range
    assert held_out == pytest.approx((np.min(corners, 0)[-1], np.max(corners, 0)[-1]), rel=1e-5)


def test_what_is_held_out_moves_nothing(tmp_path: Path) -> None:
    found = fit_targets(targets_file(tmp_path, TABLE_6))
    other = fit_targets(targets_file(tmp_path, TABLE_6.replace("4.44", "5.55")))
    assert other.coefficients == found.coefficients
    assert other.targets[-1].off_by_share == pytest.approx(4.4468 / 5.55 - 1, abs=1e-4)
    used = fit_targets(
        targets_file(tmp_path, TABLE_6.replace("held_out: true", "held_out: false").replace("4.44", "5.55"))
    )
    assert used.coefficients != found.coefficients


def test_the_estimator_of_the_targets_counts(tmp_path: Path) -> None:
    mean = fit_targets(targets_file(tmp_path, TABLE_6))
    exact = fit_targets(targets_file(tmp_path, TABLE_6 + "estimator: expected-time\n"))
    assert exact.coefficients != mean.coefficients
    one = TABLE_6.replace("rps: 2.11", "rps: 2.11, estimator: expected-time")
    assert fit_targets(targets_file(tmp_path, one)).coefficients not in (mean.coefficients, exact.coefficients)


def test_rows_of_targets_against_quadrature() -> None:
    mu, sigma, low, high = 9.0, 0.7, 500.0, 60000.0
    lengths = LengthDistribution(((1.0, TruncatedLognormal(mu, sigma, low, high)),))
    z = (np.log([low, high]) - mu) / sigma
    normal = scipy.stats.truncnorm(*z, loc=mu, scale=sigma)

    def mean(function: Any, a: float, b: float) -> float:
        ends = np.log([max(a, low), min(b, high)])
        share = normal.cdf(ends[1]) - normal.cdf(ends[0])
        value = scipy.integrate.quad(
            lambda u: function(np.exp(u)) * normal.pdf(u), float(ends[0]), float(ends[1]), limit=200
        )[0]
        return float(value / share)

    for a, b in ((0.0, np.inf), (0.0, 9000.0), (9000.0, np.inf), (4000.0, 20000.0)):
        limits = {"above_tokens": a, "up_to_tokens": b}
        by_mean = target_row(Target("throughput", 1.0, 0.1, **limits), lengths)  # type: ignore[arg-type]
        assert by_mean @ np.array(TRUTH) == pytest.approx(TRUTH(mean(lambda x: x, a, b)), rel=1e-6)
        exact = Target("throughput", 1.0, 0.1, estimator="expected-time", **limits)  # type: ignore[arg-type]
        for target in (exact, Target("ttft-mean", 1.0, 0.1, **limits)):  # type: ignore[arg-type]
            assert target_row(target, lengths) @ np.array(TRUTH) == pytest.approx(mean(TRUTH, a, b), rel=1e-6)
        inside = normal.cdf(np.log(np.clip([a, b], low, high)))
        expected = np.exp(normal.ppf(inside[0] + 0.8 * (inside[1] - inside[0])))
        percentile = Target("ttft-percentile", 1.0, 0.1, percentile=0.8, **limits)  # type: ignore[arg-type]
        assert target_row(percentile, lengths) @ np.array(TRUTH) == pytest.approx(TRUTH(expected), rel=1e-6)
    latency = Target("latency", 1.0, 0.1, length_tokens=4096.0)
    assert target_row(latency, lengths) @ np.array(TRUTH) == pytest.approx(TRUTH(4096.0))


def test_a_percentile_of_single_lengths_is_one_of_them() -> None:
    lengths = table([(100.0, 1.0), (200.0, 1.0), (300.0, 2.0)])
    target = Target("ttft-percentile", 1.0, 0.1, percentile=0.5, above_tokens=100.0)
    assert target_row(target, lengths)[1] == 300.0
    assert target_row(Target("ttft-percentile", 1.0, 0.1, percentile=0.4), lengths)[1] == 200.0


@settings(max_examples=15)
@given(curves, st.floats(8.0, 10.5), st.floats(0.5, 1.3), st.integers(1000, 60000))
def test_targets_of_a_truth_give_the_truth(
    tmp_path_factory: pytest.TempPathFactory, truth: Quadratic, mu: float, sigma: float, threshold: int
) -> None:
    lengths = LengthDistribution(((1.0, TruncatedLognormal(mu, sigma, 128.0, 131072.0)),))
    below, p90 = lengths.mean_at_most(threshold) or 0.0, lengths.quantile(0.9)
    expected = sum(c * lengths.moment(i) for i, c in enumerate(truth))
    workload = {"distribution": "truncated-lognormal", "mu": mu, "sigma": sigma, "low": 128, "high": 131072}
    document = {
        "workload": {"input_tokens": workload, "output_tokens": 1},
        "targets": [
            {"kind": "throughput", "instances": 5, "rps": 5 / truth(lengths.mean)},
            {"kind": "throughput", "instances": 2, "rps": 2 / truth(below), "up_to": threshold},
            {"kind": "ttft-percentile", "percentile": 90, "ttft_s": truth(p90)},
            {"kind": "latency", "length": "128K", "latency_s": truth(131072)},
            {"kind": "ttft-mean", "ttft_s": expected, "held_out": True},
        ],
    }
    found = fit_targets(targets_file(tmp_path_factory.mktemp("truth"), yaml.safe_dump(document)))
    fitted = Quadratic(*coefficients(found))
    for length in (128, 1024, 8192, 32768, 131072):
        assert fitted(length) == pytest.approx(truth(length), rel=1e-6)
    assert found.targets[-1].off_by_share == pytest.approx(0.0, abs=1e-6)
    for interval in found.intervals:
        assert interval.least <= interval.fitted <= interval.most


def test_targets_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    text = TABLE_6 + "  - {kind: latency, length: 32K, latency_s: 6.0}\n"
    found = fit_targets(targets_file(tmp_path, text))
    assert found.agreement is not None
    assert found.agreement > 1
    assert found.intervals == ()
    assert all(row.fitted_range is None for row in found.targets)
    assert any("no curve meets the digits" in warning for warning in found.warnings)
    agreeing = fit_targets(targets_file(tmp_path, text.replace("6.0", "5.05")))
    assert agreeing.agreement is not None
    assert 0 < agreeing.agreement < 1
    assert len(agreeing.intervals) == 8


def test_a_last_zero_in_quotes_is_a_digit(tmp_path: Path) -> None:
    for text, half in (("2.1", 0.05), ('"2.10"', 0.005), ("2.11", 0.005), ('"2.1100"', 0.00005)):
        found = fit_targets(targets_file(tmp_path, TABLE_6.replace("2.11", text)))
        assert found.targets[0].half_width == pytest.approx(half)


def test_a_workload_beside_the_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "input_tokens: {distribution: uniform, low: 1000, high: 9000}\noutput_tokens: 5\n", encoding="utf-8"
    )
    found = fit_targets(
        targets_file(tmp_path, TABLE_6.replace("prfaas-case-study", "mine.yaml").replace("19400", "4000"))
    )
    assert found.range_tokens == (1000, 9000)
    lengths = LengthDistribution(((1.0, Uniform(1000.0, 9000.0)),))
    fitted = Quadratic(*coefficients(found))
    misses = [
        9 / fitted(lengths.mean) / 2.11 - 1,
        3 / fitted(2500.0) / 1.64 - 1,
        fitted(lengths.quantile(0.9)) / 9.73 - 1,
    ]
    assert [row.off_by_share for row in found.targets[:3]] == pytest.approx(misses)


def test_the_range_can_be_stated(tmp_path: Path) -> None:
    found = fit_targets(targets_file(tmp_path, TABLE_6 + "range_tokens: [1K, 64K]\n"))
    assert found.range_tokens == (1024, 65536)
    assert [interval.what for interval in found.intervals[3:]] == ["T(1K)", "T(8K)", "T(32K)", "T(64K)"]


# What comes of it


def test_the_text_for_a_model_file_loads_as_the_curve(tmp_path: Path) -> None:
    found = fit_targets(targets_file(tmp_path, TABLE_6))
    profile = yaml.safe_load(found.prefill_yaml)
    assert profile["prefill"] == found.prefill
    profile |= {"hardware": "H20", "gpus_per_instance": 8}
    data = {"kv_cache": {"lengths_tokens": [1, 131072], "mib": [1, 2]}, "kv_cache_provenance": "assumed"}
    model = model_of(parse_document(yaml.safe_dump(data | {"profiles": [profile]}), "model.yaml"))
    curve = model.profiles[0].prefill_s
    assert (curve.measured_low_tokens, curve.measured_high_tokens) == (128, 131072)
    for length in (128, 19400, 131072):
        assert curve(length) == pytest.approx(Quadratic(*coefficients(found))(length), rel=1e-5)
    assert str(model.profiles[0].provenance["prefill"]) == "fitted, to 3 figures of targets.yaml"


def test_cvxpy_is_imported_only_where_a_curve_is_fitted() -> None:
    code = "import sys, prfaas_opt.fit_api, prfaas_opt.cli.fit, prfaas_opt.schemas; sys.exit('cvxpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
