"""The convex programs of fitting, in cvxpy; imported only where one is solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.fitting.quadratic import Quadratic, scale_of
from prfaas_opt.modelling import Sum, cp, huber, norm1
from prfaas_opt.planning.fleets.expressions import product, times
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.planning.solver import run

if TYPE_CHECKING:
    from numpy.typing import NDArray


def least_absolute(rows: NDArray[np.float64], values: NDArray[np.float64]) -> Quadratic:
    """The coefficients, none negative, with the least sum of absolute relative residuals: a linear program."""
    scale = scale_of(rows)
    x = cp.Variable(3, nonneg=True)
    misses = product(rows / scale / values[:, None], x) - 1.0
    _solve(cp.Problem(cp.Minimize(norm1(misses))))
    return _coefficients(x, scale)


def least_huber(rows: NDArray[np.float64], values: NDArray[np.float64], bend: float) -> Quadratic:
    """The same for Huber's loss of the relative residuals: squares up to ``bend``, straight beyond it."""
    scale = scale_of(rows)
    x = cp.Variable(3, nonneg=True)
    # In multiples of the bend, so that the solver's tolerances are relative to it.
    misses = product(rows / scale / values[:, None] / bend, x) - 1.0 / bend
    _solve(cp.Problem(cp.Minimize(Sum(huber(misses, 1)))), cp.CLARABEL)
    return _coefficients(x, scale)


def extremes(
    rows: NDArray[np.float64],
    values: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    asked: Sequence[NDArray[np.float64]],
) -> tuple[float, list[tuple[float, float]]]:
    """The least and most of linear functions of the coefficients over all curves that stay within bounds.

    Args:
        rows: a row times the coefficients lies in ``[low, high]``.
        values: between the two; what was stated.
        low, high: the bounds of each row.
        asked: functions of the coefficients.

    Returns:
        The least factor by which the bounds have to be stretched about the values to be met at all, and the extremes
        of each function; none where that factor is above 1.
    """
    scale, half = scale_of(rows), 0.5 * (high - low)
    x, stretch = cp.Variable(3, nonneg=True), cp.Variable(nonneg=True)
    # In half-widths, so that the solver's tolerances are relative to them.
    misses = product(rows / scale / half[:, None], x) - values / half
    below, above = (values - low) / half, (high - values) / half
    _solve(cp.Problem(cp.Minimize(stretch), [misses <= times(above, stretch), -misses <= times(below, stretch)]))
    needed = float(np.asarray(stretch.value))
    if needed > 1.0 + 1e-6:
        return needed, []
    direction = cp.Parameter(3)
    within = [misses <= above, -misses <= below]
    programs = [cp.Problem(sense(product(direction, x)), within) for sense in (cp.Minimize, cp.Maximize)]
    found = []
    for function in asked:
        weights = function / scale
        size = float(np.abs(weights).max())
        direction.value = weights / size
        ends = []
        for program in programs:
            _solve(program)
            ends.append(float(program.value) * size)
        found.append((ends[0], ends[1]))
    return needed, found


def _coefficients(x: cp.Variable, scale: NDArray[np.float64]) -> Quadratic:
    return Quadratic(*(np.maximum(np.asarray(x.value), 0.0) / scale).tolist())


def _solve(problem: cp.Problem, solver: str = cp.HIGHS) -> None:
    if not run(problem, SolverOptions(solver=solver)).found:
        message = "no curve was found, although one always exists"
        raise SolverError(Problem("solver-failed", "", message, "check the units of the figures"))
