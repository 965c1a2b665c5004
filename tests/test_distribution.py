"""Length distributions against scipy and against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from prfaas_opt.workload import distribution
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform, normal_interval
from prfaas_opt.workload.distribution import LengthDistribution

CASE_STUDY = LengthDistribution(((1.0, TruncatedLognormal(9.9, 1.0, 128.0, 131072.0)),))


def lognormal_pdf(mu: float, sigma: float, low: float, high: float, x: float) -> float:
    whole = stats.lognorm(s=sigma, scale=math.exp(mu))
    return float(whole.pdf(x) / (whole.cdf(high) - whole.cdf(low)))


@given(
    st.floats(4.0, 9.0),
    st.floats(0.2, 2.0),
    st.sampled_from([0.0, 0.237, 0.677, 1.0, 1.5, 2.0]),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_lognormal_partial_moments_equal_quadrature(mu: float, sigma: float, power: float, u: float, v: float) -> None:
    low, high = math.exp(mu - 2 * sigma), math.exp(mu + 2 * sigma)
    a, b = sorted((low + u * (high - low), low + v * (high - low)))
    part = TruncatedLognormal(mu, sigma, low, high)
    expected, _ = integrate.quad(
        lambda z: math.exp(power * (mu + sigma * z)) * stats.norm.pdf(z),
        (math.log(a) - mu) / sigma,
        (math.log(b) - mu) / sigma,
        epsabs=0,
        epsrel=1e-10,
    )
    norm = stats.norm.cdf(2) - stats.norm.cdf(-2)
    assert part.moment(power, a, b) == pytest.approx(expected / norm, rel=1e-8, abs=1e-12 * high**power)


@given(st.floats(-1.0, 2.5), st.floats(0.0, 1.0))
def test_uniform_partial_moments_equal_quadrature(power: float, u: float) -> None:
    part = Uniform(100.0, 1100.0)
    a = 100.0 + 900.0 * u
    expected, _ = integrate.quad(lambda x: x**power / 1000.0, a, 1100.0)
    assert part.moment(power, a, 1100.0) == pytest.approx(expected, rel=1e-8)


def test_uniform_moment_of_power_minus_one_is_a_logarithm() -> None:
    assert Uniform(1.0, math.e).moment(-1.0, 1.0, math.e) == pytest.approx(1 / (math.e - 1))


def test_the_case_study_has_the_paper_s_shares() -> None:
    assert CASE_STUDY.share_above(19400) == pytest.approx(0.496, abs=5e-4)
    assert CASE_STUDY.mean_above(19400) == pytest.approx(44 * 1024, rel=1e-3)


def test_far_tails_keep_their_relative_precision() -> None:
    assert normal_interval(10.0, 11.0) == pytest.approx(float(stats.norm.sf(10) - stats.norm.sf(11)), rel=1e-10)
    assert normal_interval(-11.0, -10.0) == normal_interval(10.0, 11.0)
    tail = CASE_STUDY.share_above(131071.999)
    density = lognormal_pdf(9.9, 1.0, 128.0, 131072.0, 131072.0)
    assert tail == pytest.approx(density * 0.001, rel=1e-5)


@given(st.floats(0.001, 0.999))
def test_quantiles_invert_the_distribution(share: float) -> None:
    length = CASE_STUDY.quantile(share)
    assert CASE_STUDY.share_at_most(length) == pytest.approx(share, abs=1e-12)


def test_quantile_of_a_table_is_one_of_its_lengths() -> None:
    lengths = distribution.table([(10.0, 1.0), (20.0, 1.0), (40.0, 2.0)])
    assert [lengths.quantile(q) for q in (0.1, 0.25, 0.26, 0.5, 0.51, 1.0)] == [10, 10, 20, 20, 40, 40]


def mixed() -> LengthDistribution:
    return distribution.mixture(
        [
            (1.0, distribution.constant(500.0)),
            (2.0, LengthDistribution(((1.0, Uniform(100.0, 1100.0)),))),
            (1.0, distribution.table([(500.0, 1.0), (2000.0, 3.0)])),
        ]
    )


def test_a_mixture_adds_up_its_parts() -> None:
    lengths = mixed()
    assert lengths.moment(0.0) == pytest.approx(1.0)
    assert lengths.mean == pytest.approx(0.25 * 500 + 0.5 * 600 + 0.25 * 1625)
    assert lengths.share_above(500) == pytest.approx(0.5 * 0.6 + 0.25 * 0.75)
    assert lengths.share_at_most(499.999) == pytest.approx(0.5 * 0.399999)
    assert (lengths.low, lengths.high) == (100.0, 2000.0)


@pytest.mark.parametrize("lengths", [CASE_STUDY, mixed(), distribution.table([(3.0, 1.0), (9.0, 2.0)])])
def test_the_classes_of_all_thresholds_equal_one_threshold_at_a_time(lengths: LengthDistribution) -> None:
    classes = lengths.classes
    for index in np.linspace(0, len(lengths.thresholds) - 1, 23).astype(int):
        t = float(lengths.thresholds[index])
        assert classes.share_above[index] == pytest.approx(lengths.share_above(t), rel=1e-9, abs=1e-300)
        assert classes.share_at_most[index] == pytest.approx(lengths.share_at_most(t), rel=1e-9, abs=1e-300)
        above, at_most = lengths.mean_above(t), lengths.mean_at_most(t)
        assert classes.mean_above[index] == pytest.approx(above or lengths.high, rel=1e-9)
        assert classes.mean_at_most[index] == pytest.approx(at_most or lengths.low, rel=1e-9)
    assert classes.share_above[-1] == classes.share_at_most[0] == 0.0


def test_thresholds_reach_from_everything_remote_to_everything_local() -> None:
    assert (CASE_STUDY.first_threshold, CASE_STUDY.last_threshold) == (128, 131072)
    constant = distribution.constant(1000.0)
    assert (constant.first_threshold, constant.last_threshold) == (999, 1000)


@pytest.mark.parametrize(("threshold", "expected"), [(5, 9), (10, 10), (15, 10), (20, 20), (99, 20)])
def test_a_threshold_between_two_lengths_means_the_shorter(threshold: int, expected: int) -> None:
    lengths = distribution.table([(10.0, 1.0), (20.0, 1.0)])
    assert lengths.shortest_equivalent(threshold) == expected
    assert CASE_STUDY.shortest_equivalent(5000) == 5000
