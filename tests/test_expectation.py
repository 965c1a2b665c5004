"""Exact expectations against quadrature and plain sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from prfaas_opt.profiles.curve import linear, log_log, table_curve
from prfaas_opt.throughput.expectation import Expectation
from prfaas_opt.workload import distribution
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution

LATENCY = table_curve([1024, 8192, 32768, 131072], [0.44, 0.72, 1.84, 7.40], log_log)
CASE_STUDY = LengthDistribution(((1.0, TruncatedLognormal(9.9, 1.0, 128.0, 131072.0)),))


def by_quadrature(low: float, high: float) -> float:
    whole = stats.lognorm(s=1.0, scale=math.exp(9.9))
    norm = whole.cdf(131072) - whole.cdf(128)
    breaks = [low, *(x for x in (1024, 8192, 32768) if low < x < high), high]
    pieces = [
        integrate.quad(lambda x: LATENCY(x) * whole.pdf(x), a, b, epsrel=1e-11)[0]
        for a, b in itertools.pairwise(breaks)
    ]
    return float(sum(pieces) / norm)


@given(st.floats(128.0, 131000.0))
def test_a_lognormal_over_a_log_log_table(threshold: float) -> None:
    expectation = Expectation(LATENCY, CASE_STUDY)
    assert expectation.above(threshold) == pytest.approx(by_quadrature(threshold, 131072.0), rel=1e-8)
    assert expectation.at_most(threshold) + expectation.above(threshold) == pytest.approx(expectation.total, rel=1e-13)


def test_outside_the_support_nothing_is_left() -> None:
    expectation = Expectation(LATENCY, CASE_STUDY)
    assert expectation.above(131072) == expectation.at_most(128) == 0.0
    assert expectation.at_most(10**6) == pytest.approx(expectation.total, rel=1e-14)
    assert expectation.above(1) == expectation.total


@given(st.integers(0, 21))
def test_atoms_are_summed_and_a_threshold_includes_its_own_length(threshold: int) -> None:
    points = [(5.0, 1.0), (10.0, 2.0), (20.0, 1.0)]
    curve = table_curve([1, 100], [2.0, 200.0], linear)
    expectation = Expectation(curve, distribution.table(points))
    expected = sum(w / 4 * 2 * x for x, w in points if x <= threshold)
    assert expectation.at_most(threshold) == pytest.approx(expected)
    assert expectation.above(threshold) == pytest.approx(0.25 * 10 + 0.5 * 20 + 0.25 * 40 - expected)


def test_a_mixture_of_density_and_atoms_adds_up() -> None:
    curve = table_curve([1, 100], [2.0, 200.0], linear)
    both = distribution.mixture(
        [(3.0, LengthDistribution(((1.0, Uniform(10.0, 30.0)),))), (1.0, distribution.constant(20.0))]
    )
    expectation = Expectation(curve, both)
    assert expectation.total == pytest.approx(40.0)
    assert expectation.between(10.0, 20.0) == pytest.approx(0.75 * 0.5 * 30.0 + 0.25 * 40.0)
    assert expectation.above(20.0) == pytest.approx(0.75 * 0.5 * 50.0)


@pytest.mark.parametrize(
    "lengths",
    [
        CASE_STUDY,
        LengthDistribution(((1.0, Uniform(500.0, 60000.0)),)),
        distribution.table([(300.0, 1.0), (1024.0, 3.0), (40000.5, 2.0)]),
        distribution.mixture([(1.0, CASE_STUDY), (2.0, distribution.constant(8192.0))]),
    ],
    ids=["lognormal", "uniform", "atoms", "mixture"],
)
def test_many_lengths_at_once_are_each_of_them(lengths: LengthDistribution) -> None:
    curve = table_curve([128, 8192, 131072], [0.3, 0.72, 7.40], linear)
    x = np.array([1.0, 128.0, 300.0, 499.9, 1024.0, 8191.5, 8192.0, 40000.5, 60000.0, 131072.0, 2e6])
    for expectation in (Expectation(LATENCY, CASE_STUDY), Expectation(curve, lengths)):
        assert expectation.at_most_each(x) == pytest.approx([expectation.at_most(each) for each in x], rel=1e-13)
        assert expectation.above_each(x) == pytest.approx([expectation.above(each) for each in x], rel=1e-13)
