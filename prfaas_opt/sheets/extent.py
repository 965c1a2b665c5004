"""How far a sheet's XML reaches, found before a reader makes room for all of it.

Programs write cells in one way, and a search sees that all of a sheet are written so: ``<c r="A1" s="1" t="s">``. XML
allows others, as two references of one cell, of which readers may take either; such sheets are read with an XML parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prfaas_opt.sheets.archive import refused
from prfaas_opt.sheets.book import MOST_CELLS, MOST_COLUMNS, column_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES = 2**20
_ATTRIBUTES = rb'"(?: s="[0-9]{1,6}")?(?: t="[a-zA-Z]{1,10}")?/?>'
_NEAR = re.compile(rb'<c r="[A-Z](?:[1-9][0-9]{0,3}|[1-6][0-9]{4})' + _ATTRIBUTES)
"""A cell up to column Z and row 69,999."""
_NEAR_ROWS, _NEAR_COLUMNS = 69_999, 26
_ANYWHERE = re.compile(rb'<c r="([A-Z]{1,3})([1-9][0-9]{0,6})' + _ATTRIBUTES)
_PREFIX = re.compile(rb":c[\s/>]")
_PREFIXED_CELL = re.compile(rb"<(?:\w+:)?c[\s/>]")


def check_size(name: str, rows: int, columns: int) -> None:
    """Refuses a sheet that reaches further than any of scenarios.

    Raises:
        InputError: it does.
    """
    fix = "delete the rows and columns beyond the scenarios, empty ones too"
    if columns > MOST_COLUMNS:
        raise refused(name, f"has {columns:,} columns, at most {MOST_COLUMNS:,} are read", fix, "too-large")
    if rows * columns > MOST_CELLS:
        message = f"reaches to row {rows:,} and column {columns:,}, at most {MOST_CELLS:,} cells are read"
        raise refused(name, message, fix, "too-large")


def count_cells(part: bytes) -> tuple[int, bool]:
    """How many cells there are, at most, and whether their tags have no prefix and stand where cells belong."""
    if _PREFIX.search(part):
        return sum(1 for _ in _PREFIXED_CELL.finditer(part)), False
    start, end = part.find(b"<sheetData"), part.rfind(b"</sheetData>")
    if start < 0 or end < start:
        return part.count(b"<c"), False
    elsewhere = part.count(b"<c ", 0, start) + part.count(b"<c ", end)
    return part.count(b"<c", start, end) + elsewhere, not elsewhere


def extent(part: bytes, cells: int) -> tuple[int, int] | None:
    """Bounds of the last row and column; None where some cell is not written as programs do."""
    if sum(len(_NEAR.findall(piece)) for piece in _pieces(part)) == cells:
        return _NEAR_ROWS, _NEAR_COLUMNS
    found, rows, columns = 0, 0, set()
    for piece in _pieces(part):
        references = _ANYWHERE.findall(piece)
        found += len(references)
        columns |= {reference[0] for reference in references}
        rows = max(rows, max((int(row) for row in {reference[1] for reference in references}), default=0))
    if found != cells:
        return None
    return rows, max(column_number(each.decode()) + 1 for each in columns)


def _pieces(part: bytes) -> Iterator[bytes]:
    """A sheet's XML in pieces, each of whole tags of cells, so that their matches are not all held at once."""
    start = 0
    while start < len(part):
        end = part.find(b"<c ", start + _PIECE_BYTES)
        end = len(part) if end < 0 else end
        yield part[start:end]
        start = end
