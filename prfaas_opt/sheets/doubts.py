"""Rows that may be no scenarios, or whose cells may stand in the wrong column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.errors import Problem
from prfaas_opt.sheets.body import may_be_total, names_something
from prfaas_opt.sheets.cells import is_missing
from prfaas_opt.study.rows import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prfaas_opt.sheets.assembly import Filled
    from prfaas_opt.sheets.tables import Header, Table

_FEW = 3
"""Rows of sums below each other."""
Row = tuple["Table", int]
"""A row of a sheet, from 0, and the table that it is of."""
Doubt = tuple[int, Problem]
"""A row of the study, and what is doubtful of it."""


def totals_perhaps(rows: list[Row], headers: list[Header]) -> Iterator[Doubt]:
    """Rows without model, workload and hardware that begin as totals do, or are the last below rows that have these."""
    naming = [h.column for h in headers if h.means.column is not None and names_something(h.means.column.path)]
    if len(rows) < 2 or not naming:
        return
    fix = 'fill them in, or begin the row with "Total" and nothing else'
    message = "names no model, workload or hardware as the other rows do: it may be a scenario or totals"
    begins = {text for h in rows[0][0].headers for text in rows[0][0].distinct(h.column) if may_be_total(text)}
    nameless = [i for i, (table, r) in enumerate(rows) if all(is_missing(table.cell(r, c)) for c in naming)]
    # Sums stand below what they add up: a few rows at the end, where all above have names.
    last = nameless if nameless == list(range(len(rows) - len(nameless), len(rows))) else []
    for i in nameless:
        table, r = rows[i]
        if (begins and _first(table, r) in begins) or (i in last and len(last) <= min(_FEW, len(rows) // 2)):
            yield i, Problem("ambiguous-row", table.sheet.line(r), message, fix)


def _first(table: Table, r: int) -> object:
    """The first cell of a row that is not empty."""
    return next((cell for h in table.headers if (cell := table.cell(r, h.column)) != ""), "")


def names_alone(rows: list[Row], columns: Mapping[str, Filled], problems: Mapping[int, object]) -> Iterator[Doubt]:
    """Rows that fill nothing but their name: scenarios to be filled in, or headings."""
    name = columns.get("name")
    if name is None:
        return
    others = [column.values for path, column in columns.items() if path != "name"]
    for i, (table, r) in enumerate(rows):
        if name.values[i] is UNSET or i in problems or any(values[i] is not UNSET for values in others):
            continue
        message = "has a name and nothing else: it may be a scenario or a heading"
        fix = "fill it in; or merge the cells of a heading, or leave an empty row before it"
        yield i, Problem("ambiguous-row", table.sheet.line(r), message, fix)


def too_wide(rows: list[Row], delimiter: str) -> Iterable[Doubt]:
    """Rows of a text file with more cells than headers: an unquoted "12,5" shifts what stands after it."""
    table = rows[0][0]
    if not table.sheet.is_text:
        return
    lines = [table.sheet.rows[r] for _, r in rows]
    expected = len(table.sheet.rows[table.row])
    widths = set(map(len, lines))
    if max(widths) <= expected or (len(widths) == 1 and not any(cell for line in lines for cell in line[expected:])):
        return
    for i, line in enumerate(lines):
        if len(line) > expected:
            message = f"has {len(line)} cells, the headers are {expected}: some may stand in the wrong column"
            fix = f"put cells that contain a {delimiter} in quotation marks, or save the table as .xlsx"
            yield i, Problem("too-many-cells", table.sheet.line(rows[i][1]), message, fix)
