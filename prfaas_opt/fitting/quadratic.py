"""The physical curve of prefill: ``a + b*l + c*l^2``, none of the coefficients negative."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_CONDITION = 1e-6
"""Rows whose smallest singular value, relative to the largest, is below this do not tell the coefficients apart."""


class Quadratic(NamedTuple):
    """Prefill seconds by length in tokens: a launch, a cost of every token, and attention over those before it."""

    a_s: float
    b_s_per_token: float
    c_s_per_token2: float

    def __call__(self, length: float) -> float:
        """Seconds at a length in tokens.

        >>> Quadratic(1.0, 0.5, 0.25)(2.0)
        3.0
        """
        return self.a_s + self.b_s_per_token * length + self.c_s_per_token2 * length * length


def powers(lengths: Sequence[float]) -> NDArray[np.float64]:
    """Rows ``1, l, l^2``: a row times the coefficients is the latency at the length."""
    return np.vander(np.asarray(lengths, dtype=np.float64), 3, increasing=True)


def scale_of(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest of each column: coefficients times it are all of the size of a latency."""
    largest: NDArray[np.float64] = np.abs(rows).max(axis=0)
    return largest


def tell_apart(rows: NDArray[np.float64]) -> bool:
    """Whether values of these rows determine all three coefficients.

    >>> tell_apart(powers([1000, 2000, 3000])), tell_apart(powers([1000, 2000, 2000]))
    (True, False)
    """
    if len(rows) < rows.shape[1]:
        return False
    scaled = rows / scale_of(rows)
    values = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), compute_uv=False)
    return bool(values[-1] > LEAST_CONDITION * values[0])


def relative_least_squares(
    rows: NDArray[np.float64], values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Quadratic:
    """The coefficients, none negative, with the least weighted sum of squared relative residuals.

    A convex program in three unknowns: its optimum is the best of the eight unconstrained optima over which of the
    coefficients are free, so it is found exactly, without a solver.

    >>> relative_least_squares(powers([1, 2, 4]), np.array([1.0, 1.0, 1.0]))
    Quadratic(a_s=1.0, b_s_per_token=0.0, c_s_per_token2=0.0)
    """
    root = np.ones(len(values)) if weights is None else np.sqrt(weights)
    scale = scale_of(rows)
    design, target = rows / scale * (root / values)[:, None], root
    best, least = np.zeros(3), float(target @ target)
    for size in (1, 2, 3):
        for free in itertools.combinations(range(3), size):
            x = np.linalg.lstsq(design[:, free], target, rcond=None)[0]
            misses = design[:, free] @ x - target
            if x.min() >= 0 and float(misses @ misses) < least:
                best, least = np.zeros(3), float(misses @ misses)
                best[list(free)] = x
    return Quadratic(*(best / scale).tolist())
