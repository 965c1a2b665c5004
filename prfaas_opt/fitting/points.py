"""A curve through measured points, the points that look wrong, and what the rounding of the data does to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.fitting.quadratic import Quadratic, powers, relative_least_squares, scale_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LOOKS_WRONG_Z = 3.5
"""Of robust z-scores (Iglewicz and Hoaglin, How to detect and handle outliers, 1993, section 3)."""
FINEST_SCALE_SHARE = 0.001
"""No measurement is taken to be more exact than this: points that fit better are not told apart."""
_NORMAL = 0.6745
"""The median of a standard normal's absolute values."""
_HUBER = 1.345
"""Scales at which Huber's loss bends: 95 % efficient where the noise is normal."""


@dataclass(frozen=True)
class PointFit:
    """A fit to points.

    Attributes:
        curve: the coefficients.
        residuals_share: measured over fitted, less 1, one a point.
        robust_z: how far each point is from a fit by least absolute residuals, in robust standard deviations.
        scale_share: that standard deviation, relative to the latency.
        rounding: of each function asked for, how much the rounding of the data may move it either way.
        noise: its standard deviation by the noise of the points, that of ``scale_share``.
    """

    curve: Quadratic
    residuals_share: tuple[float, ...]
    robust_z: tuple[float, ...]
    scale_share: float
    rounding: tuple[float, ...]
    noise: tuple[float, ...]


def fit_points(
    lengths: Sequence[float],
    latencies_s: Sequence[float],
    half_widths_s: Sequence[float],
    robust: bool,
    asked: Sequence[NDArray[np.float64]],
) -> PointFit:
    """The curve through points, by least squares of the relative residuals or, if robust, by Huber's loss.

    Args:
        lengths: tokens, three different ones at least.
        latencies_s: positive, one a length.
        half_widths_s: half a unit of the last digit of each.
        robust: let no point pull harder than one that is 1.345 standard deviations off.
        asked: functions of the coefficients whose movement by rounding is wanted.
    """
    from prfaas_opt.fitting.convex import least_absolute, least_huber

    rows, values, halves = powers(lengths), np.array(latencies_s), np.array(half_widths_s)
    middle = least_absolute(rows, values)
    misses = rows @ np.array(middle) / values - 1.0
    scale = max(_scale(misses, sum(x > 0 for x in middle)), FINEST_SCALE_SHARE, float(np.median(halves / values)))
    weights = np.ones(len(values))
    if robust:
        bend = _HUBER * scale
        curve = least_huber(rows, values, bend)
        sizes = np.abs(rows @ np.array(curve) / values - 1.0)
        weights = np.minimum(1.0, bend / np.maximum(sizes, bend))
    curve = relative_least_squares(rows, values, weights)
    return PointFit(
        curve,
        tuple((values / (rows @ np.array(curve)) - 1.0).tolist()),
        tuple((-misses / scale).tolist()),
        scale,
        *_moves(rows, values, halves, weights, curve, scale, asked),
    )


def _scale(misses: NDArray[np.float64], free: int) -> float:
    """A robust standard deviation.

    A fit by least absolutes meets as many points as it has coefficients, and follows the noise of few points; so the
    smallest residuals are left out, and the rest is stretched (Rousseeuw and Leroy, Robust regression, 1987).
    """
    median = float(np.median(np.sort(np.abs(misses))[max(free - 1, 0) :])) / _NORMAL
    return median * (1.0 + 5.0 / max(len(misses) - free, 1))


def _moves(
    rows: NDArray[np.float64],
    values: NDArray[np.float64],
    halves: NDArray[np.float64],
    weights: NDArray[np.float64],
    curve: Quadratic,
    scale_share: float,
    asked: Sequence[NDArray[np.float64]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """How much rounding, at its worst for all values at once, and a standard deviation of noise move each function.

    To first order, coefficients at zero staying there: the derivative of the normal equations by each value.
    """
    coefficients, scale = np.array(curve), scale_of(rows)
    free = coefficients > 0
    design = (rows / scale / values[:, None])[:, free]
    fitted = design @ (coefficients * scale)[free]
    pull = (weights * (2.0 * fitted - 1.0))[:, None] * design
    moves = np.linalg.solve(design.T @ (weights[:, None] * design), pull.T)
    of_each = np.abs((np.array(asked) / scale)[:, free] @ moves)
    by_rounding = (of_each * (halves / values)).sum(axis=1)
    by_noise = scale_share * np.sqrt((of_each * of_each).sum(axis=1))
    return tuple(by_rounding.tolist()), tuple(by_noise.tolist())
