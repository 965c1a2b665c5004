"""Where along a bandwidth or a price remote prefill begins or stops to pay.

It pays where the plan sends requests and beats the homogeneous cluster.
An interval is between neighbouring rows of the study: where in it the break-even lies, its rows do not tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from prfaas_opt.study.report.answers import BreakEven, GbPrices, PayingLine, PayingLines, PayingShares, PayingStretch
from prfaas_opt.study.report.effects import stretches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.study.report.answers import Pays
    from prfaas_opt.study.report.lines import Axis, Lines

MOST_LINES = 1_000
_ROUNDING = 1e-9
_ALWAYS, _NEVER, _FROM, _UNTIL, _BETWEEN = range(5)
_WORDS: tuple[Pays, ...] = ("always", "never", "from", "until", "in between")


def is_bandwidth_or_price(name: str) -> bool:
    """Whether an axis is one along which remote prefill begins or stops to pay.

    >>> is_bandwidth_or_price("links.0.bandwidth_gbps"), is_bandwidth_or_price("clusters.pd.instances")
    (True, False)
    """
    field = name.rpartition(".")[2]
    return field.startswith(("bandwidth", "price_per_"))


def pays(ratio: Any) -> Any:
    """Whether a ratio over the homogeneous cluster is more than that cluster itself, beyond rounding; of arrays too."""
    return ratio > 1 + _ROUNDING


def break_even_along(
    lines: Lines,
    ratios: NDArray[np.float64],
    sends: NDArray[np.bool_],
    numbers_of_rows: NDArray[np.int64],
    measure: Literal["throughput", "cost"],
) -> BreakEven | None:
    """The lines along an axis by where remote prefill begins or stops to pay; None where no line has two ratios.

    Args:
        lines: along the axis.
        ratios: of each row, over the homogeneous cluster; NaN where there is none.
        sends: whether the plan of a row prefills anything remotely.
        numbers_of_rows: the rows' own.
        measure: of what the ratios are.
    """
    has = ~np.isnan(ratios[lines.rows])
    places = np.flatnonzero(has)
    line = lines.line[places]
    numbers, starts, sizes = np.unique(line, return_index=True, return_counts=True)
    rows = lines.rows[places]
    paying = pays(ratios[rows]) & sends[rows]
    # Between neighbours that have a ratio.
    flips = np.flatnonzero((np.diff(line) == 0) & (paying[1:] != paying[:-1]))
    flipped, first, flip_counts = np.unique(line[flips], return_index=True, return_counts=True)
    kind = np.where(paying[starts], _ALWAYS, _NEVER)
    at = np.searchsorted(numbers, flipped)
    kind[at] = np.where(flip_counts > 1, _BETWEEN, np.where(paying[flips[first]], _UNTIL, _FROM))
    low, high = starts.copy(), starts.copy()
    low[at], high[at] = flips[first], flips[first] + 1
    two = sizes > 1
    if not two.any():
        return None
    kind, low, high = kind[two], places[low[two]], places[high[two]]
    codes = lines.axis.levels.codes[lines.rows]
    crosses = kind > _NEVER
    table = np.stack([np.where(crosses, codes[low], -1), np.where(crosses, codes[high], -1), kind], axis=1)
    distinct, firsts, group, counts = np.unique(
        table, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    wheres = lines.limits(group.reshape(-1).astype(np.int64), low, len(distinct))

    def ends(place: int) -> tuple[float | None, float | None]:
        if not crosses[place]:
            return None, None
        return lines.value(int(low[place])), lines.value(int(high[place]))

    alike = []
    for place, count, where in zip(firsts.tolist(), counts.tolist(), wheres, strict=True):
        start, end = ends(place)
        alike.append(PayingLines(pays=_WORDS[kind[place]], low=start, high=end, lines=count, where=where))
    each = []
    for place in range(min(len(kind), MOST_LINES)):
        start, end = ends(place)
        values = lines.others_at(int(low[place]))
        row = int(numbers_of_rows[lines.rows[low[place]]]) if crosses[place] else None
        each.append(PayingLine(values=values, pays=_WORDS[kind[place]], low=start, high=end, low_row=row))
    return BreakEven(axis=lines.axis.name, measure=measure, lines=len(kind), alike=tuple(alike), each=tuple(each))


def paying_shares(
    axis: Axis, ratios: NDArray[np.float64], sends: NDArray[np.bool_], measure: Literal["throughput", "cost"]
) -> PayingShares:
    """In how many rows remote prefill pays, by stretches of an axis with about as many rows each.

    Args:
        axis: of numbers.
        ratios: of each row, over the homogeneous cluster; NaN where there is none.
        sends: whether the plan of a row prefills anything remotely.
        measure: of what the ratios are.
    """
    codes, ends = stretches_of(axis.levels)
    has = ~np.isnan(ratios) & ~np.isnan(ends[codes, 0])
    rows = np.bincount(codes[has], minlength=len(ends))
    paying = np.bincount(codes[has & pays(ratios) & sends], minlength=len(ends))
    stretches = [
        PayingStretch(low=float(low), high=float(high), rows=int(count), paying=int(some))
        for (low, high), count, some in zip(ends, rows, paying, strict=True)
        if count
    ]
    return PayingShares(axis=axis.name, measure=measure, stretches=tuple(stretches))


def gb_prices(prices: NDArray[np.float64], told: NDArray[np.bool_]) -> GbPrices | None:
    """The break-even prices of a GB; None where no row tells one.

    Args:
        prices: of each row, NaN where remote prefill pays at none.
        told: which rows tell.
    """
    if not told.any():
        return None
    found = prices[told & ~np.isnan(prices)]
    least, median, most = (float(f(found)) if len(found) else None for f in (np.min, np.median, np.max))
    rows = int(told.sum())
    return GbPrices(rows=rows, never=rows - len(found), least=least, median=median, most=most)
