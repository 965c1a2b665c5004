"""Points that no other point beats, exactly, whatever their number.

A point dominates another that is no better in any objective and worse in one. Distinct points are sorted by their first
objective; the front of the better half is found, then that of the other half, of which the better half's front takes
what it dominates (Kung, Luccio and Preparata, 1975). In that step one objective less matters, down to two, where a sort
and a running least answer it: O(n log^(d-2) n) for d objectives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW = 256
"""Points up to which each is compared with each."""
_FEW_PAIRS = 65_536


def non_dominated(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points nothing dominates; equal points are all in or all out.

    Args:
        points: shape (points, objectives), finite; less is better in each.

    >>> non_dominated(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 3.0], [2.0, 2.0]])).tolist()
    [True, True, False, True]
    """
    if not len(points):
        return np.zeros(0, dtype=bool)
    order = np.lexsort(points.T[::-1])
    is_new = np.append(True, (np.diff(points[order], axis=0) != 0).any(axis=1))
    distinct = points[order[is_new]]
    hopeful = np.flatnonzero(~_beaten_by_some(distinct))
    kept = np.zeros(len(distinct), dtype=bool)
    kept[hopeful[_front(distinct[hopeful])]] = True
    found = np.empty(len(points), dtype=bool)
    found[order] = kept[np.cumsum(is_new) - 1]
    return found


def _beaten_by_some(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Points that one of a few good ones dominates, which is most of them, usually: it saves time only."""
    ranks = np.zeros(len(points))
    for column in points.T:
        ranks += np.searchsorted(np.sort(column), column)
    good = points[np.argsort(ranks, kind="stable")[:24]]
    beaten = np.zeros(len(points), dtype=bool)
    for one in good:
        beaten |= (one <= points).all(axis=1) & (one < points).any(axis=1)
    return beaten


def _front(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Indices of the front of distinct points, which are in lexicographic order."""
    count = len(points)
    if count <= _FEW:
        return np.flatnonzero(~_beaten_in_few(points))
    half = count // 2
    best = _front(points[:half])
    rest = half + _front(points[half:])
    # The first objective is no worse before the half, and the points are distinct: what is left decides.
    lost = _covered(points[rest, 1:], points[best, 1:])
    return np.concatenate([best, rest[~lost]])


def _beaten_in_few(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    no_worse = _no_worse(points, points)
    np.fill_diagonal(no_worse, val=False)
    return _any(no_worse)


def _no_worse(by: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For each of some points, a row, and each of others, a column, whether the one is no worse in any objective."""
    found = np.ones((len(by), len(points)), dtype=bool)
    for one, other in zip(by.T, points.T, strict=True):
        found &= one[:, None] <= other[None, :]
    return found


def _any(no_worse: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce(no_worse, axis=0)
    return found


def _covered(points: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points some other is no worse than in any objective."""
    if not len(points) or not len(by):
        return np.zeros(len(points), dtype=bool)
    objectives = points.shape[1]
    if objectives == 0:
        return np.ones(len(points), dtype=bool)
    if objectives == 1:
        beaten: NDArray[np.bool_] = by[:, 0].min() <= points[:, 0]
        return beaten
    if objectives == 2:
        return _covered_in_two(points, by)
    if len(points) * len(by) <= _FEW_PAIRS:
        return _any(_no_worse(by, points))
    firsts = np.concatenate([points[:, 0], by[:, 0]])
    middle = np.partition(firsts, len(firsts) // 2)[len(firsts) // 2]
    below, by_below = points[:, 0] < middle, by[:, 0] < middle
    if not below.any() and not by_below.any():
        # The least is the median: what equals it is set apart, so that both parts are smaller.
        below, by_below = points[:, 0] <= middle, by[:, 0] <= middle
        if below.all() and by_below.all():
            return _covered(points[:, 1:], by[:, 1:])
    covered = np.zeros(len(points), dtype=bool)
    covered[below] = _covered(points[below], by[by_below])
    above = points[~below]
    covered[~below] = _covered(above, by[~by_below]) | _covered(above[:, 1:], by[by_below][:, 1:])
    return covered


def _covered_in_two(points: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.bool_]:
    order = np.argsort(by[:, 0], kind="stable")
    least = np.append(np.inf, np.minimum.accumulate(by[order, 1]))
    before = np.searchsorted(by[order, 0], points[:, 0], side="right")
    covered: NDArray[np.bool_] = least[before] <= points[:, 1]
    return covered
