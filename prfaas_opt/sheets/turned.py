"""Tables whose scenarios are columns and whose fields are rows, read as if they were the other way round."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from prfaas_opt.sheets.book import MOST_COLUMNS, Area, Place, Sheet
from prfaas_opt.sheets.tables import find_tables, known_headers

if TYPE_CHECKING:
    from prfaas_opt.sheets.tables import Table

_LEAST = 3
"""Known headers below each other that are no chance."""


def turned(sheet: Sheet) -> Sheet | None:
    """A sheet with its columns as rows, if that makes a table of scenarios of it; addresses stay those of the sheet."""
    if len(sheet.rows) > MOST_COLUMNS:
        return None
    other = _other_way_round(sheet)
    table = _scenarios(other)
    if table is None:
        return None
    corner = other.rows[table.row]
    first = next(header.column for header in table.headers if known_headers([header], "scenarios"))
    names = [row[first - 1] for row in other.rows[table.row + 1 :] if first and row[first - 1] != ""]
    has_names = any(known_headers([header], "scenarios", "name") for header in table.headers)
    if not has_names and names and all(isinstance(name, str) for name in names):
        # The row above the fields, whatever its corner says, is the scenarios' names.
        corner[first - 1] = "Name"
    return other


def fields_below(sheet: Sheet) -> str:
    """The address of headers of scenarios that stand below each other; "" where none do."""
    table = _scenarios(_other_way_round(sheet)) if len(sheet.rows) <= MOST_COLUMNS else None
    if table is None:
        return ""
    known = [header.column for header in table.headers if known_headers([header], "scenarios")]
    return table.sheet.range((table.row, known[0]), (table.row, known[-1]))


def _other_way_round(sheet: Sheet) -> Sheet:
    def place(at: Place) -> Place:
        return at[1], at[0]

    def area(cells: Area) -> Area:
        return place(cells[0]), place(cells[1])

    return Sheet(
        sheet.name,
        [list(column) for column in zip_longest(*sheet.rows, fillvalue="")],
        merged=[area(each) for each in sheet.merged],
        flaws={place(at): flaw for at, flaw in sheet.flaws.items()},
        percents=None if sheet.percents is None else {place(at) for at in sheet.percents},
        hidden_rows=sheet.hidden_columns,
        hidden_columns=sheet.hidden_rows,
        visible=sheet.visible,
        is_text=sheet.is_text,
        turned=not sheet.turned,
    )


def _scenarios(sheet: Sheet) -> Table | None:
    tables = (table for table in find_tables(sheet) if table.topic == "scenarios")
    return next((table for table in tables if known_headers(table.headers, "scenarios") >= _LEAST), None)
