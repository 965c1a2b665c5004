"""Rows that differ in one axis alone, in the order of its values: the only neighbours that can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.study.report.frame import Levels

_MOST_KEYS = 2**62
FEW = 20
"""Values of an axis that are listed one by one."""


def keys(columns: Sequence[Levels], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """A number for each row, equal where all columns are."""
    key, size = np.zeros(len(rows), dtype=np.int64), 1
    for column in columns:
        if size * column.count > _MOST_KEYS:
            distinct, key = np.unique(key, return_inverse=True)
            key, size = key.astype(np.int64), len(distinct)
        key = key * column.count + column.codes[rows]
        size *= column.count
    return key


@dataclass(frozen=True)
class Axis:
    """A field that differs between rows, and those that always change with it.

    Attributes:
        levels: its values by row.
        together: names of fields that change with it, value for value.
    """

    levels: Levels
    together: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The field's path."""
        return self.levels.name


@dataclass(frozen=True)
class Lines:
    """Rows that differ in one axis alone.

    Attributes:
        axis: in which they differ.
        others: the axes that are the same along a line.
        rows: places of the rows, line by line, by value; each value once a line, that of the first row.
        line: of each of them, the number of its line; lines of one row are left out.
    """

    axis: Axis
    others: tuple[Axis, ...]
    rows: NDArray[np.intp]
    line: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many lines there are."""
        return int(self.line[-1]) + 1 if len(self.line) else 0

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each line begins."""
        return np.flatnonzero(np.append(True, np.diff(self.line) != 0)) if len(self.line) else np.empty(0, np.intp)

    @cached_property
    def steps(self) -> NDArray[np.intp]:
        """Places of rows that the next one is a neighbour of."""
        return np.flatnonzero(np.diff(self.line) == 0)

    def value(self, place: int) -> float:
        """The axis's value at a place."""
        return float(self.axis.levels.values[int(self.axis.levels.codes[self.rows[place]])])

    def others_at(self, place: int) -> dict[str, Any]:
        """The values of the other axes at a place."""
        row = self.rows[place]
        return {axis.name: axis.levels.plain(int(axis.levels.codes[row])) for axis in self.others}

    def limits(self, groups: NDArray[np.int64], places: NDArray[np.intp], count: int) -> list[dict[str, Any]]:
        """Of groups of places, the values of other axes that each is limited to.

        Args:
            groups: number of the group of each place, from 0.
            places: the places.
            count: how many groups there are.
        """
        found: list[dict[str, Any]] = [{} for _ in range(count)]
        all_rows = self.rows[self.starts]
        for axis in self.others:
            levels = axis.levels
            among = len(np.unique(levels.codes[all_rows]))
            pairs = np.unique(groups * levels.count + levels.codes[self.rows[places]])
            group, code = pairs // levels.count, pairs % levels.count
            for number, codes in _split(group, code):
                if len(codes) < among and len(codes) <= FEW:
                    found[number][axis.name] = tuple(levels.plain(int(each)) for each in codes)
        return found


def _split(group: NDArray[np.int64], code: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each group's number and codes, of groups in order."""
    numbers, starts = np.unique(group, return_index=True)
    yield from zip(numbers.tolist(), np.split(code, starts[1:]) if len(numbers) else [], strict=True)


def axes_of(inputs: Sequence[Levels], rows: int) -> list[Axis]:
    """The axes of a study: inputs that differ, of those that change together the first."""
    axes: list[Axis] = []
    for levels in inputs:
        for number, axis in enumerate(axes):
            if _change_together(axis.levels, levels, rows):
                axes[number] = Axis(axis.levels, (*axis.together, levels.name))
                break
        else:
            axes.append(Axis(levels))
    return axes


def _change_together(one: Levels, other: Levels, rows: int) -> bool:
    """Whether the value of one tells that of the other and the other way round.

    Where every row has values of its own this is so of any two columns, drawn ones too: then they change together only
    if one rises or falls with the other.
    """
    if one.count != other.count:
        return False
    if 2 * one.count > rows:
        alike = np.array_equal(one.codes, other.codes)
        return alike or np.array_equal(one.codes, one.count - 1 - other.codes)
    return len(np.unique(one.codes * other.count + other.codes)) == one.count


def lines_along(axis: Axis, axes: Sequence[Axis], planned: NDArray[np.intp]) -> Lines:
    """The lines along an axis.

    Args:
        axis: along which.
        axes: all of them.
        planned: places of the rows that have a plan, in order.
    """
    others = tuple(each for each in axes if each is not axis)
    levels = axis.levels
    rows = planned[levels.codes[planned] > 0] if levels.has_null else planned
    key, code = keys([each.levels for each in others], rows), levels.codes[rows]
    order = np.lexsort((code, key))
    rows, key, code = rows[order], key[order], code[order]
    is_first = np.append(True, (np.diff(key) != 0) | (np.diff(code) != 0))[: len(rows)]
    rows, key = rows[is_first], key[is_first]
    same = np.diff(key) == 0
    paired = (np.append(same, False) | np.append(False, same))[: len(rows)]
    rows, key = rows[paired], key[paired]
    line = np.cumsum(np.append(False, np.diff(key) != 0)[: len(rows)]).astype(np.int64)
    return Lines(axis, others, rows, line)
