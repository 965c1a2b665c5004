"""The scenarios of a sheet, a row each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prfaas_opt.errors import Problem
    from prfaas_opt.io.document import Document
    from prfaas_opt.scenario import Objective
    from prfaas_opt.sheets.book import Addresses
    from prfaas_opt.sheets.explanation import Explanation
    from prfaas_opt.study.rows import Detail

_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class SheetRows:
    """The scenarios of a sheet, as ``study.rows.Rows`` has them, and what else the sheet holds.

    Where some rows have no remote cluster and others do, the first fields are ``clusters`` and ``links``: those rows
    replace both by a PD cluster alone, and the fields after them fill it.

    Attributes:
        name: of the file.
        base: the document that every row changes: the one given, or the outline of two pools.
        fields: field paths, one a column that fills one.
        objective: what is planned for; None: as ``plan`` chooses.
        extra_columns: headers of columns that are no fields, to be written beside the results.
        explanation: what was understood of the file.
        detail: what is told of each.
    """

    name: str
    base: Document
    fields: tuple[str, ...]
    objective: Objective | None
    extra_columns: tuple[str, ...]
    explanation: Explanation
    _addresses: Addresses
    _lines: tuple[int, ...] = field(repr=False)
    _columns: tuple[Sequence[Any], ...] = field(repr=False)
    _places: Mapping[str, int] = field(repr=False)
    _extras: tuple[Sequence[Any], ...] = field(repr=False)
    _elsewhere: Mapping[str, Mapping[int, str]] = field(repr=False)
    _problems: Mapping[int, tuple[Problem, ...]] = field(repr=False)
    detail: Detail = "plan"

    @property
    def outline(self) -> tuple[str, ...]:
        """The fields that no cell gives: they say which clusters a row has."""
        return tuple(field for field in self.fields if field in ("clusters", "links") and field not in self._places)

    def __len__(self) -> int:
        """How many scenarios there are."""
        return len(self._lines)

    def values(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        """Rows ``start`` to ``stop``: a plain value a field, as a YAML file would have it; ``UNSET`` where none is."""
        return _rows(self._columns, start, stop, len(self))

    def extras(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        """Rows ``start`` to ``stop``: the cells of ``extra_columns``, as the sheet has them; None where empty."""
        return _rows(self._extras, start, stop, len(self))

    def where(self, row: int, field: str) -> str:
        """The place of a row's field, ``Scenarios!D7``; that of the row, ``Scenarios!7``, for a field without column.

        Any path is taken, one inside a field included: ``links[0].bandwidth``, ``model.profiles[0]``. Of fields that
        another sheet gives, such as a price, it is the cell there.
        """
        path = _INDEX.sub(r".\1", field)
        while path:
            elsewhere = self._elsewhere.get(path, {}).get(row)
            if elsewhere is not None:
                return elsewhere
            column = self._places.get(path)
            if column is not None:
                return self._addresses.cell(self._lines[row], column)
            path = path.rpartition(".")[0]
        return self.place(row)

    def place(self, row: int) -> str:
        """The place of a row: ``Scenarios!7``, ``plan.csv!7``; ``Scenarios!D:D`` where scenarios are columns."""
        return self._addresses.line(self._lines[row])

    def problems(self, row: int) -> Sequence[Problem]:
        """What is wrong with the cells of a row."""
        return self._problems.get(row, ())


def _rows(columns: Sequence[Sequence[Any]], start: int, stop: int, length: int) -> list[tuple[Any, ...]]:
    if not columns:
        return [()] * len(range(start, min(stop, length)))
    return list(zip(*(column[start:stop] for column in columns), strict=True))
