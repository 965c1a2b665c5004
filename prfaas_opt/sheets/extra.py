"""Extra sheets: what their tables hold, as mappings that scenario files may hold, each field with its cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prfaas_opt import units
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document, FieldPath, dotted
from prfaas_opt.sheets.body import data_rows
from prfaas_opt.sheets.cells import CellReader, error_cell, uncalculated_cell
from prfaas_opt.study.rows import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prfaas_opt.sheets.notation import Notation
    from prfaas_opt.sheets.tables import Table


@dataclass
class Record:
    """A row of an extra sheet: its values by key, the place of each, its own place, keys that are known to be wrong."""

    values: dict[str, Any]
    places: dict[str, str]
    place: str
    troubled: set[str] = field(default_factory=set)


@dataclass
class Named:
    """A model or workload that a sheet holds.

    Attributes:
        data: the mapping, as a scenario file may hold it.
        cells: where it stands.
        problems: what is wrong with it.
        places: the cell of each of its fields.
    """

    data: dict[str, Any]
    cells: str
    problems: list[Problem] = field(default_factory=list)
    places: dict[FieldPath, str] = field(default_factory=dict)


@dataclass
class Extras:
    """What extra sheets hold.

    Attributes:
        models: by name.
        workloads: by name.
        gpu_prices: USD per GPU-hour by hardware in lower case, with the cell.
        link_prices: by field of a link, with the cell.
        problems: of cells that belong to none of these.
    """

    models: dict[str, Named] = field(default_factory=dict)
    workloads: dict[str, Named] = field(default_factory=dict)
    gpu_prices: dict[str, tuple[Any, str]] = field(default_factory=dict)
    link_prices: dict[str, tuple[Any, str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


@dataclass
class _CellDocument(Document):
    """A mapping whose fields stand in cells."""

    cells: dict[FieldPath, str] = field(default_factory=dict)

    def where(self, path: FieldPath = ()) -> str:
        """The cell of a field, or of what it belongs to."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.cells:
                rest = dotted(path)
                return self.cells[path[:end]] if end == len(path) else f"{self.cells[path[:end]]} {rest}"
        return f"{self.name} {dotted(path)}".strip()


def records(table: Table, notation: Notation, include_hidden: bool, problems: list[Problem]) -> Iterator[Record]:
    """The rows of an extra table."""
    readers = {
        h.column: CellReader(h.means.column, h.means.unit, notation, table.sheet.is_text)
        for h in table.headers
        if h.means.column is not None and (include_hidden or h.column not in table.sheet.hidden_columns)
    }
    rows, _ = data_rows(table, include_hidden)
    for r in rows:
        record = Record({}, {}, table.sheet.line(r))
        for c, reader in readers.items():
            place = table.sheet.place(r, c)
            flaw = table.sheet.flaws.get((r, c))
            percents = table.sheet.percents
            found = reader.read(table.cell(r, c), None if percents is None else (r, c) in percents)
            trouble = found.trouble
            if flaw is not None:
                trouble = error_cell(flaw.text) if flaw.kind == "error" else uncalculated_cell()
            elif trouble is None and isinstance(found.value, str):
                trouble = reader.no_number(found.value)
            if trouble is not None:
                problems.append(Problem(trouble.code, place, trouble.message, trouble.fix))
                record.troubled.add(reader.column.path)
            elif found.value is not UNSET:
                record.values[reader.column.path] = found.value
            record.places[reader.column.path] = place
        yield record


def check(named: Named, read: Callable[[Document], object]) -> None:
    """Adds what is wrong with a mapping when it is read as a file would be."""
    try:
        read(_CellDocument(named.cells, named.data, cells=named.places))
    except InputError as error:
        named.problems += error.problems


def tokens(value: Any) -> float:
    """A length as a number to sort by; 0 for what is none."""
    try:
        return float(units.parse_tokens(value))
    except units.UnitError:
        return 0.0
