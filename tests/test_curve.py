"""Curves against numpy interpolation, and the rules outside the measured range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_opt.profiles.curve import Piece, linear, log_log, piecewise_curve, scaled_by_ratio, table_curve

LENGTHS = [1024, 8192, 32768, 131072]
SECONDS = [0.44, 0.72, 1.84, 7.40]
LATENCY = table_curve(LENGTHS, SECONDS, log_log)


@given(st.floats(1024, 131072))
def test_log_log_is_straight_in_log_log_space(length: float) -> None:
    expected = np.exp(np.interp(np.log(length), np.log(LENGTHS), np.log(SECONDS)))
    assert LATENCY(length) == pytest.approx(float(expected), rel=1e-12)


@given(st.floats(1024, 131072))
def test_linear_is_straight_in_length(length: float) -> None:
    curve = table_curve(LENGTHS, SECONDS, linear, "size")
    assert curve(length) == pytest.approx(float(np.interp(length, LENGTHS, SECONDS)), rel=1e-12)


def test_below_its_first_point_a_latency_holds_and_a_size_keeps_its_slope() -> None:
    assert LATENCY(1) == LATENCY(1023) == pytest.approx(0.44)
    size = table_curve([1000, 2000], [50.0, 90.0], linear, "size")
    assert size(500) == pytest.approx(30.0)


def test_above_its_range_a_curve_is_an_error_that_names_the_range() -> None:
    with pytest.raises(ValueError, match="131,073 is outside the curve's range, 1 to 131,072"):
        LATENCY(131073)
    with pytest.raises(ValueError, match="outside the curve's range"):
        LATENCY(np.array([5.0, 131073.0]))


def test_a_stated_extrapolation_continues_the_last_law() -> None:
    longer = table_curve(LENGTHS, SECONDS, log_log, extrapolate_to_tokens=262144)
    assert longer(262144) == pytest.approx(7.40 * 2 ** (np.log(7.40 / 1.84) / np.log(4)))
    assert longer.measured_high_tokens == 131072


def test_arrays_are_evaluated_as_scalars_in_any_order() -> None:
    lengths = np.array([200.0, 131072.0, 1024.0, 5000.0, 8192.0, 1.0])
    assert LATENCY(lengths).tolist() == pytest.approx([LATENCY(float(x)) for x in lengths])


def test_a_ratio_of_curves_scales_at_every_length() -> None:
    slow = piecewise_curve((Piece(128, 131072, ((0.5, 0.0), (1e-4, 1.0), (3e-10, 2.0))),), "latency")
    base = table_curve([1024, 131072], [0.3, 2.0], log_log)
    scaled = scaled_by_ratio(base, slow, LATENCY)
    for length in (100.0, 128.0, 1000.0, 1024.0, 9999.0, 131072.0):
        assert scaled(length) == pytest.approx(base(length) * slow(length) / LATENCY(length), rel=1e-12)


def test_a_ratio_over_a_curve_of_several_terms_is_refused() -> None:
    several = table_curve(LENGTHS, SECONDS, linear)
    with pytest.raises(ValueError, match="log-log table"):
        scaled_by_ratio(LATENCY, LATENCY, several)


def test_falling_stretches_are_found_inside_pieces_too() -> None:
    assert LATENCY.falls_between(1024, 131072) is None
    bumpy = table_curve([10, 20, 40], [1.0, 2.0, 1.5], log_log)
    assert bumpy.falls_between(10, 40) == (20, 40)
    valley = piecewise_curve((Piece(1.0, 10.0, ((26.0, 0.0), (-10.0, 1.0), (1.0, 2.0))),), "latency")
    falls = valley.falls_between(1.0, 10.0)
    assert falls is not None
    assert falls[1] == pytest.approx(5.0)
