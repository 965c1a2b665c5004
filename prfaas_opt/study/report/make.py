"""From a file of results to what its rows answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.study.report.answers import (
    AxisChanges,
    AxisFound,
    BreakEven,
    Effect,
    GbPrices,
    Measure,
    ParetoFront,
    ParetoRow,
    PayingShares,
    StudyReport,
)
from prfaas_opt.study.report.break_even import break_even_along, gb_prices, is_bandwidth_or_price, paying_shares
from prfaas_opt.study.report.changes import NOTHING, changes_along
from prfaas_opt.study.report.effects import effect_of
from prfaas_opt.study.report.frame import LEAST_COST, Frame, names_of, read_frame
from prfaas_opt.study.report.lines import FEW, Axis, Lines, axes_of, keys, lines_along
from prfaas_opt.study.report.measures import BREAK_EVEN, COST_RATIO, MEASURES, OFFLOADED, RATIO, objectives_named
from prfaas_opt.study.report.pareto import non_dominated
from prfaas_opt.study.report.select import selected
from prfaas_opt.study.report.words import field_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_LISTED = 10_000
_RATIOS: tuple[tuple[Literal["throughput", "cost"], str], ...] = (("throughput", RATIO), ("cost", COST_RATIO))


def report_of(
    path: Path, objectives: Sequence[str] | None = None, where: Mapping[str, str] | None = None
) -> StudyReport:
    """What the rows of a file of results answer.

    Args:
        path: a file that ``study`` wrote.
        objectives: names of those that the front is of; None: all that any row has.
        where: values by field, of the rows that are wanted.

    Raises:
        InputError: the file is none of results, an objective is unknown or in no row, or no row has the values.
    """
    chosen = None if objectives is None else objectives_named(objectives)
    frame = read_frame(path)
    if where:
        frame = selected(frame, where)
    axes = axes_of([column for column in frame.inputs if column.count > 1], len(frame))
    planned = np.flatnonzero(frame.planned)
    along = {axis.name: lines_along(axis, axes, planned) for axis in axes}
    notes: list[str] = []
    repeated = len(planned) - len(np.unique(keys(frame.inputs, planned)))
    if repeated:
        notes.append(f"{repeated:,} rows have the fields of an earlier one: neighbours are compared with the first.")
    objectives_found = _objectives(frame, chosen)
    changes, effects = _changes(frame, axes, along, notes), _effects(frame, axes)
    break_even, shares = _break_even(frame, axes, along, notes)
    return StudyReport(
        source=printable(path.name),
        study=frame.study,
        where=dict(where or {}),
        rows=len(frame),
        planned=len(planned),
        by_status=_counts(frame.status.codes, frame.status.values),
        repeated=repeated,
        axes=tuple(_axis(axis, along[axis.name].count > 0) for axis in axes),
        pareto=_pareto(frame, axes, objectives_found),
        bottlenecks=_bottlenecks(frame, planned),
        changes=changes,
        effects=effects,
        break_even=break_even,
        paying_shares=shares,
        gb_prices=_gb_prices(frame, notes),
        notes=tuple(notes),
    )


def _counts(codes: NDArray[np.int64], names: Sequence[str | None] | NDArray[np.float64]) -> dict[str, int]:
    counts = np.bincount(codes, minlength=len(names)).tolist()
    found = [(str(name or NOTHING), count) for name, count in zip(names, counts, strict=True) if count]
    return dict(sorted(found, key=lambda pair: (-pair[1], pair[0])))


def _axis(axis: Axis, has_neighbours: bool) -> AxisFound:
    levels = axis.levels
    numbers = levels.values[int(levels.has_null) :] if isinstance(levels.values, np.ndarray) else None
    return AxisFound(
        name=levels.name,
        unit=levels.unit,
        numeric=levels.numeric,
        count=levels.count,
        values=tuple(map(levels.plain, range(levels.count))) if levels.count <= FEW else (),
        low=float(numbers[0]) if numbers is not None else None,
        high=float(numbers[-1]) if numbers is not None else None,
        together_with=axis.together,
        has_neighbours=has_neighbours,
    )


def _objectives(frame: Frame, chosen: tuple[Measure, ...] | None) -> tuple[Measure, ...]:
    if chosen is None:
        return tuple(each for each in MEASURES.values() if frame.has(each.column))
    if not frame.planned.any():
        return chosen
    problems = []
    for each in chosen:
        if not frame.has(each.column):
            message = f"no row of {printable(frame.path.name)} has {each.column}"
            fix = "give every cluster a price_per_gpu_hour" if each.name == "cost" else "leave it out"
            problems.append(Problem("missing-figure", f"--pareto {each.name}", message, fix))
    if problems:
        raise InputError(problems)
    return chosen


def _pareto(frame: Frame, axes: Sequence[Axis], objectives: tuple[Measure, ...]) -> ParetoFront:
    planned = int(frame.planned.sum())
    if not objectives or not planned:
        return ParetoFront(
            objectives=tuple(each.name for each in objectives),
            compared=0,
            without_plan=len(frame) - planned,
            without_figure=planned,
            count=0,
            rows=(),
        )
    points = np.stack([frame.figures[each.column] for each in objectives], axis=1)
    points *= [-1.0 if each.more_is_better else 1.0 for each in objectives]
    complete = np.flatnonzero(frame.planned & ~np.isnan(points).any(axis=1))
    front = complete[non_dominated(points[complete])]
    order = np.lexsort((frame.rows[front], *points[front].T[::-1]))
    listed = front[order][:MOST_LISTED]
    names = names_of(frame, frame.rows[listed].tolist())
    rows = [
        ParetoRow(
            row=int(frame.rows[at]),
            name=names.get(int(frame.rows[at])),
            values={axis.name: axis.levels.plain(int(axis.levels.codes[at])) for axis in axes},
            figures={each.name: float(frame.figures[each.column][at]) for each in objectives},
        )
        for at in listed
    ]
    return ParetoFront(
        objectives=tuple(each.name for each in objectives),
        compared=len(complete),
        without_plan=len(frame) - planned,
        without_figure=planned - len(complete),
        count=len(front),
        rows=tuple(rows),
    )


def _bottlenecks(frame: Frame, planned: NDArray[np.intp]) -> dict[str, int]:
    return _counts(frame.bottlenecks.codes[planned], frame.bottlenecks.values) if frame.bottlenecks else {}


def _changes(frame: Frame, axes: Sequence[Axis], along: dict[str, Lines], notes: list[str]) -> tuple[AxisChanges, ...]:
    if not frame.planned.any():
        notes.append("Without a plan there is nothing to conclude; the column error says why each row has none.")
        return ()
    numeric = [axis for axis in axes if axis.levels.numeric]
    planned = np.flatnonzero(frame.planned)
    differing = [axis for axis in numeric if len(np.unique(axis.levels.codes[planned])) > 1]
    alone = [field_of(axis.name) for axis in differing if not along[axis.name].count]
    if alone:
        listed = ", ".join(alone)
        notes.append(
            f"No two rows with a plan differ in {listed} alone, as where rows are drawn: there are no neighbours to "
            "compare, and neither changes of bottleneck nor break-evens are told along these. What is told: the main "
            "effects and, of bandwidths and prices, in how many rows remote prefill pays."
        )
    if frame.bottlenecks is None:
        notes.append("The file has no column bottlenecks: where they change is not told.")
        return ()
    return tuple(changes_along(along[axis.name], frame.bottlenecks) for axis in numeric if along[axis.name].count)


def _effects(frame: Frame, axes: Sequence[Axis]) -> tuple[Effect, ...]:
    found = []
    for measure in (MEASURES["throughput"], MEASURES["cost"], BREAK_EVEN):
        if frame.has(measure.column):
            found += [effect_of(axis, axes, measure, frame.figures[measure.column]) for axis in axes]
    return tuple(each for each in found if each is not None)


def _break_even(
    frame: Frame, axes: Sequence[Axis], along: dict[str, Lines], notes: list[str]
) -> tuple[tuple[BreakEven, ...], tuple[PayingShares, ...]]:
    """Break-evens along bandwidths and prices; the shares of rows in which it pays where no row has a neighbour."""
    paying = [axis for axis in axes if axis.levels.numeric and is_bandwidth_or_price(axis.name)]
    if not paying and frame.planned.any():
        notes.append("No bandwidth and no price is an axis: there is no break-even along one.")
    # A plan that sends nothing may beat the homogeneous cluster too, by its counts: remote prefill does not pay there.
    sends = frame.figures[OFFLOADED] > 0 if frame.has(OFFLOADED) else np.ones(len(frame), dtype=bool)
    found, shares = [], []
    for axis in paying:
        for measure, column in _RATIOS:
            # What a fleet serves does not depend on what it costs.
            if not frame.has(column) or (measure == "throughput" and "price" in axis.name.rpartition(".")[2]):
                continue
            if along[axis.name].count:
                found.append(break_even_along(along[axis.name], frame.figures[column], sends, frame.rows, measure))
            else:
                shares.append(paying_shares(axis, frame.figures[column], sends, measure))
    return tuple(each for each in found if each is not None), tuple(shares)


def _gb_prices(frame: Frame, notes: list[str]) -> GbPrices | None:
    nothing = np.full(len(frame), np.nan)
    prices = frame.figures.get(BREAK_EVEN.column, nothing)
    # Without a price, the row tells that there is none only if it was looked for.
    found = gb_prices(prices, ~np.isnan(prices) | ~np.isnan(frame.figures.get(LEAST_COST, nothing)))
    if found is None and frame.has(MEASURES["cost"].column):
        notes.append(
            "Up to which price of a GB sent remote prefill pays is told row by row if the study has detail: full "
            f"({BREAK_EVEN.column})."
        )
    return found
