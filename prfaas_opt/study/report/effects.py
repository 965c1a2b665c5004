"""What an axis does to a figure: its mean by value, and how much of its variance the axis explains.

The share of an axis is the variance of the means of its levels, weighted by how many figures each has, over the
variance of all figures: the correlation ratio. Where every combination is planned, or rows are drawn independently, it
is the axis's first-order index: what it explains alone, not with others. Where axes go together, so do their shares. An
axis of k levels that does nothing has a share of about (k - 1) / (n - 1) among n figures by chance, but none where
every combination has a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_opt.study.report.answers import Effect, Level
from prfaas_opt.study.report.lines import FEW, keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.study.report.answers import Measure
    from prfaas_opt.study.report.frame import Levels
    from prfaas_opt.study.report.lines import Axis

BINS = 10
MOST_TEXTS = 50


def effect_of(axis: Axis, axes: Sequence[Axis], measure: Measure, figures: NDArray[np.float64]) -> Effect | None:
    """The effect of an axis on a figure; None where fewer than two levels have one.

    Args:
        axis: whose.
        axes: all of them.
        measure: on which figure.
        figures: of each row, NaN where it has none.
    """
    levels = axis.levels
    binned = levels.numeric and levels.count - levels.has_null > FEW
    codes, ends = stretches_of(levels) if binned else (levels.codes, None)
    count = int(codes.max()) + 1
    has = ~np.isnan(figures)
    rows = np.bincount(codes, minlength=count)
    there, values = codes[has], figures[has]
    counts = np.bincount(there, minlength=count)
    if np.count_nonzero(counts) < 2:
        return None
    sums = np.bincount(there, weights=values, minlength=count)
    means = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, there, values)
    np.maximum.at(most, there, values)
    filled = int(np.count_nonzero(counts))
    shown = np.flatnonzero(rows)
    if not levels.numeric and len(shown) > MOST_TEXTS:
        shown = np.sort(shown[np.argsort(-rows[shown], kind="stable")[:MOST_TEXTS]])

    def level(code: int) -> Level:
        some = counts[code] > 0
        return Level(
            **_place(levels, ends, code),
            rows=int(rows[code]),
            figures=int(counts[code]),
            # A sum has its rounding, so that a mean of equal figures could be outside of them.
            mean=float(np.clip(means[code], least[code], most[code])) if some else None,
            least=float(least[code]) if some else None,
            most=float(most[code]) if some else None,
        )

    return Effect(
        axis=axis.name,
        measure=measure.name,
        by="quantile" if binned else "value",
        variance_share=_variance_share(values, there, means),
        chance_share=None if _is_crossed(axis, axes, has) else min(1.0, (filled - 1) / (len(values) - 1)),
        count=int(np.count_nonzero(rows)),
        levels=tuple(level(int(code)) for code in shown),
    )


def _is_crossed(axis: Axis, axes: Sequence[Axis], has: NDArray[np.bool_]) -> bool:
    """Whether each value of an axis meets each combination of the others once, so that these tell no values apart."""
    rows = np.flatnonzero(has)
    values = len(np.unique(axis.levels.codes[rows]))
    if len(rows) % values:
        return False
    others = keys([each.levels for each in axes if each is not axis], rows)
    distinct, key = np.unique(others, return_inverse=True)
    if len(distinct) * values != len(rows):
        return False
    pairs = key * axis.levels.count + axis.levels.codes[rows]
    return len(np.unique(pairs)) == len(rows)


def _place(levels: Levels, ends: NDArray[np.float64] | None, code: int) -> dict[str, Any]:
    if ends is None:
        return {"value": levels.plain(code), "low": None, "high": None}
    low, high = (None if np.isnan(end) else float(end) for end in ends[code])
    return {"value": None, "low": low, "high": high}


def _variance_share(values: NDArray[np.float64], codes: NDArray[np.int64], means: NDArray[np.float64]) -> float | None:
    centred = values - values.mean()
    total = float(centred @ centred)
    if total <= (1e-12 * float(np.abs(values).max())) ** 2 * len(values):
        return None
    between = means[codes] - values.mean()
    return min(1.0, float(between @ between) / total)


def stretches_of(levels: Levels) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Stretches of an axis with about as many rows each, equal values in one; the least and largest value of each.

    Rows without a value are a stretch of their own, with NaN for ends.
    """
    assert isinstance(levels.values, np.ndarray)
    nulls = int(levels.has_null)
    counts = np.bincount(levels.codes, minlength=levels.count)
    before = np.cumsum(counts[nulls:]) - counts[nulls:]
    # A value belongs where its middle row is.
    middle = before + (counts[nulls:] - 1) / 2
    wanted = np.minimum((middle * BINS / counts[nulls:].sum()).astype(np.int64), BINS - 1)
    _, stretch = np.unique(wanted, return_inverse=True)
    stretch = stretch.astype(np.int64) + nulls
    of_level = np.append(np.zeros(nulls, dtype=np.int64), stretch)
    ends = np.full((int(of_level.max()) + 1, 2), np.nan)
    values = levels.values[nulls:]
    starts = np.flatnonzero(np.append(True, np.diff(stretch) != 0))
    ends[stretch[starts], 0] = values[starts]
    ends[stretch[starts], 1] = values[np.append(starts[1:], len(values)) - 1]
    return of_level[levels.codes], ends
