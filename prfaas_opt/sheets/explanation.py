"""What was understood of a sheet: data for ``--explain`` and for the sheets beside results; rendering is apart."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SheetUse = Literal["scenarios", "profiles", "workloads", "prices", "ignored"]


class ColumnUse(Struct, frozen=True):
    """What became of a column.

    Attributes:
        header: as the sheet has it.
        cell: address of the header: ``Scenarios!D4``.
        cells: the cells below it that were read: ``Scenarios!D5:D24``.
        field: that it fills; None: it is kept beside the results.
        unit: that bare numbers in it are in; "" where none is needed or stated.
        note: what else there is to say, such as why it is no field.
    """

    header: str
    cell: str
    cells: str
    field: str | None
    unit: str = ""
    note: str = ""


class RowLeftOut(Struct, frozen=True):
    """Rows that hold nothing that is taken: their place, ``Scenarios!25`` or ``Scenarios!25:27``, and why."""

    place: str
    why: str


class TableUse(Struct, frozen=True):
    """A table that was found: its sheet, its cells, ``Scenarios!B4:H24``, what it was taken as, and why."""

    sheet: str
    cells: str
    used_as: SheetUse
    why: str


class Taken(Struct, frozen=True):
    """A model, workload or price that a sheet states: ``kind``, its name, its cells, and whom it stands in for."""

    kind: Literal["model", "workload", "price"]
    name: str
    cells: str
    note: str = ""


class Note(Struct, frozen=True):
    """Something that was assumed or could not be seen, and where; ``place`` may be the file alone."""

    place: str
    message: str


class SheetProblem(Struct, frozen=True):
    """What is wrong with a cell."""

    code: str
    where: str
    message: str
    fix: str = ""


class Explanation(Struct, frozen=True):
    """What was understood of a file.

    Attributes:
        file: its name.
        format: what its content says it is: xlsx, xls, ods, csv, tsv.
        encoding: of a text file.
        delimiter: of a text file.
        decimal: the mark before decimals in texts, "." or ","; "" where no text needed it.
        decimal_evidence: what decided that.
        rows: how many scenarios there are.
        tables: what was found, in order.
        columns: of the table of scenarios.
        rows_left_out: of all tables, that of scenarios first.
        taken: models, workloads and prices from extra sheets.
        notes: what was assumed, and what this format does not show.
        problems: of cells, those outside the rows of scenarios first; a hundred at most.
    """

    file: str
    format: str
    encoding: str = ""
    delimiter: str = ""
    decimal: str = ""
    decimal_evidence: str = ""
    rows: int = 0
    tables: tuple[TableUse, ...] = ()
    columns: tuple[ColumnUse, ...] = ()
    rows_left_out: tuple[RowLeftOut, ...] = ()
    taken: tuple[Taken, ...] = ()
    notes: tuple[Note, ...] = ()
    problems: tuple[SheetProblem, ...] = ()
