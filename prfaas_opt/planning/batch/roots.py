"""Roots of many functions of one form at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.numerics import Term

    Floats = NDArray[np.float64]

_MOST_STEPS = 200
_RELATIVE_TOLERANCE = 1e-15


def newton_in_bracket(
    excess_and_slope: Callable[[Floats], tuple[Floats, Floats]], low: Floats, high: Floats, guess: Floats, rises: bool
) -> Floats:
    """Where functions that only rise, or only fall, between low and high are zero: bisection where a step leaves.

    >>> newton_in_bracket(lambda x: (x * x - 2.0, 2.0 * x), np.array([0.0]), np.array([2.0]), np.array([1.0]), True)
    array([1.41421356])
    """
    x = guess
    for _ in range(_MOST_STEPS):
        excess, slope = excess_and_slope(x)
        above = (excess > 0) == rises
        high, low = np.where(above, x, high), np.where(above, low, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess / slope
        following = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
        moved = np.abs(following - x) > _RELATIVE_TOLERANCE * x
        x = following
        if not moved.any():
            break
    return x


def sum_of(terms: Sequence[Term], x: Floats) -> Floats:
    """``sum(c * x**e)``."""
    total = np.zeros(len(x))
    for coefficient, exponent in terms:
        total += coefficient if exponent == 0 else coefficient * (x if exponent == 1 else x**exponent)
    return total
