"""A file of tables as it was opened: grids of cells, and what is known of them beside their values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

MOST_FILE_BYTES = 64 * 2**20
"""Of any file of tables."""
MOST_CELLS = 2_000_000
"""Of a sheet, from A1 to its last cell, empty ones included."""
MOST_COLUMNS = 2_000
"""Of a sheet."""
MOST_MARKED = 200_000
"""Cells of a sheet with errors, and those of which it is kept that they show a percentage."""
MOST_CHARACTERS = 100_000
"""Of a cell; spreadsheet programs stop at 32,767."""

NOT_AVAILABLE = "#N/A"
"""As a constant it says that a cell has no value; only as what a formula gives it is an error."""

Place = tuple[int, int]
"""Row and column of a cell, from 0."""
Area = tuple[Place, Place]
"""First and last cell of a range."""

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_PLAIN = str.maketrans(
    dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
)


@dataclass(frozen=True)
class Flaw:
    """A cell without a value that can be used: an error of its formula, or a formula that was never calculated."""

    kind: Literal["error", "uncalculated"]
    text: str


UNCALCULATED = Flaw("uncalculated", "")


@dataclass(frozen=True)
class Addresses:
    """What the cells of a sheet are called, with rows and columns from 0; ``turned``: its rows are columns."""

    sheet: str
    turned: bool = False

    def cell(self, row: int, column: int) -> str:
        """``Scenarios!D7``."""
        if self.turned:
            row, column = column, row
        return f"{self.sheet}!{letters(column)}{row + 1}"

    def line(self, first: int, last: int | None = None) -> str:
        """``Scenarios!7``, ``Scenarios!7:9``; of a turned sheet ``Scenarios!D:D``, ``Scenarios!D:F``."""
        last = first if last is None else last
        if self.turned:
            return f"{self.sheet}!{letters(first)}:{letters(last)}"
        return f"{self.sheet}!{first + 1}" + (f":{last + 1}" if last > first else "")


@dataclass
class Sheet:
    """A sheet of a file.

    Attributes:
        name: of the sheet; of the file, for text.
        rows: of cells, from A1 on; "" where a cell is empty. Rows may differ in length.
        merged: ranges of merged cells.
        flaws: cells without a usable value.
        percents: cells that show a percentage; None where the format does not tell.
        hidden_rows: from 0.
        hidden_columns: from 0.
        visible: whether the sheet is shown.
        is_text: cells are texts of a file, in which nothing says what is a number.
        turned: its rows are the columns of the file.
        unsearched: the row from which on no tables were looked for; None: they were everywhere.
    """

    name: str
    rows: list[list[Any]]
    merged: list[Area] = field(default_factory=list)
    flaws: dict[Place, Flaw] = field(default_factory=dict)
    percents: set[Place] | None = None
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)
    visible: bool = True
    is_text: bool = False
    turned: bool = False
    unsearched: int | None = None

    @cached_property
    def texts(self) -> frozenset[str]:
        """Every text of a cell, once."""
        return frozenset(value for value in set().union(*self.rows) if value.__class__ is str)

    @cached_property
    def addresses(self) -> Addresses:
        """What its cells are called."""
        return Addresses(self.name, self.turned)

    def place(self, row: int, column: int) -> str:
        """The address of a cell: ``Scenarios!D7``."""
        return self.addresses.cell(row, column)

    def line(self, first: int, last: int | None = None) -> str:
        """The address of a row, or of several: ``Scenarios!7``, ``Scenarios!7:9``."""
        return self.addresses.line(first, last)

    def range(self, first: Place, last: Place) -> str:
        """The address of a range: ``Scenarios!B4:H24``."""
        end = self.place(*last).removeprefix(f"{self.name}!")
        return self.place(*first) if first == last else f"{self.place(*first)}:{end}"


@dataclass
class Book:
    """A file of tables.

    Attributes:
        name: as errors call it.
        format: what its content says it is.
        sheets: in order.
        notes: what could not be seen, or was assumed.
        encoding: of a text file.
        delimiter: of a text file.
        folder: that it is in.
    """

    name: str
    format: str
    sheets: list[Sheet]
    notes: list[str] = field(default_factory=list)
    encoding: str = ""
    delimiter: str = ""
    folder: Path | None = None


def letters(column: int) -> str:
    """The letters of a column, from 0.

    >>> letters(0), letters(27)
    ('A', 'AB')
    """
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def column_number(text: str) -> int:
    """The column of letters, from 0.

    >>> column_number("A"), column_number("AB")
    (0, 27)
    """
    number = 0
    for ch in text:
        number = number * 26 + ord(ch) - ord("A") + 1
    return number - 1


def cleaned(text: str) -> str:
    r"""A text without characters that nobody sees, and with plain spaces, one between words.

    >>> cleaned("\ufeff100\u00a0 Gbps ")
    '100 Gbps'
    """
    if not text.isascii():
        text = _INVISIBLE.sub("", text).translate(_PLAIN)
    return " ".join(text.split())
