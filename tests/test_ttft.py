"""TTFT without queueing against a fine grid of lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_opt.latency.ttft import LatencyBand, Ttft
from prfaas_opt.profiles.curve import Piece, log_log, piecewise_curve, table_curve
from prfaas_opt.workload import distribution
from prfaas_opt.workload.densities import Uniform
from prfaas_opt.workload.distribution import LengthDistribution

SLOW = piecewise_curve((Piece(1.0, 2000.0, ((0.1, 0.0), (1e-3, 1.0), (1e-6, 2.0))),), "latency")
FAST = table_curve([1, 100, 2000], [0.05, 0.1, 0.9], log_log)
LENGTHS = LengthDistribution(((1.0, Uniform(10.0, 2000.0)),))


def sampled(threshold: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    grid = np.linspace(10.0, 2000.0, 400_001)
    middles = (grid[1:] + grid[:-1]) / 2
    return np.where(middles <= threshold, SLOW(middles), FAST(middles))


@settings(max_examples=20)
@given(st.floats(20.0, 1990.0), st.floats(0.02, 0.98))
def test_mean_and_quantiles_equal_a_fine_grid(threshold: float, quantile: float) -> None:
    bands = [LatencyBand(0.0, threshold, SLOW), LatencyBand(threshold, 2000.0, FAST)]
    times = sampled(threshold)
    assert Ttft(LENGTHS, bands).mean_s == pytest.approx(float(times.mean()), rel=1e-5)
    assert Ttft(LENGTHS, bands).quantile_s(quantile) == pytest.approx(float(np.quantile(times, quantile)), rel=2e-4)


def test_quantiles_of_atoms_are_their_times() -> None:
    lengths = distribution.table([(100.0, 1.0), (1000.0, 1.0), (2000.0, 2.0)])
    bands = [LatencyBand(0.0, 1000.0, SLOW), LatencyBand(1000.0, 2000.0, FAST)]
    assert Ttft(lengths, bands).quantile_s(0.25) == pytest.approx(SLOW(100.0))
    assert Ttft(lengths, bands).quantile_s(0.75) == pytest.approx(FAST(2000.0))
    assert Ttft(lengths, bands).quantile_s(0.9) == pytest.approx(SLOW(1000.0))


def test_a_single_length_has_one_time() -> None:
    lengths = distribution.constant(500.0)
    bands = [LatencyBand(0.0, 500.0, SLOW)]
    assert Ttft(lengths, bands).mean_s == Ttft(lengths, bands).quantile_s(0.9) == pytest.approx(SLOW(500.0))


def test_latencies_that_fall_are_counted_where_they_are_low() -> None:
    valley = piecewise_curve((Piece(1.0, 2000.0, ((2.0, 0.0), (-2e-3, 1.0), (1e-6, 2.0))),), "latency")
    bands = [LatencyBand(0.0, 2000.0, valley)]
    share = Ttft(LENGTHS, bands).share_within(1.25)
    assert share == pytest.approx(1000.0 / 1990.0, rel=1e-9)
    assert Ttft(LENGTHS, bands).quantile_s(share) == pytest.approx(1.25, rel=1e-9)
