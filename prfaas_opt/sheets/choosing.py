"""Which tables of a file hold scenarios, and what the others are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import counted, shown, suggestion
from prfaas_opt.sheets.book import column_number
from prfaas_opt.sheets.explanation import Note, TableUse
from prfaas_opt.sheets.tables import find_tables, known_headers, spread_merged, understand
from prfaas_opt.sheets.turned import fields_below, turned

if TYPE_CHECKING:
    from prfaas_opt.io.document import Document
    from prfaas_opt.sheets.assembly import Pools
    from prfaas_opt.sheets.book import Book, Sheet
    from prfaas_opt.sheets.tables import Table

_CELL = re.compile(r"(?P<sheet>.+)!\$?(?P<column>[A-Za-z]{1,3})\$?(?P<row>\d{1,7})(?::.*)?")
_FEW = 6
"""Headers that are named of a table that nothing is known of."""
_EMPTY, _HIDDEN = "the sheet is empty", "the sheet is hidden"
_SCENARIOS = ("scenarios", "scenario")
"""Names of sheets that say what they hold, in lower case."""


def tables_of(book: Book, include_hidden: bool, pools: Pools, uses: list[TableUse], notes: list[Note]) -> list[Table]:
    """The tables of a file, each header understood; ``uses`` and ``notes`` get what is to be said of them."""
    tables: list[Table] = []
    seen: list[tuple[Sheet, list[str], list[Table]]] = []
    for sheet in book.sheets:
        if not any(cell != "" for row in sheet.rows for cell in row) and not sheet.flaws:
            uses.append(TableUse(sheet.name, "", "ignored", _EMPTY))
        elif not sheet.visible and not include_hidden:
            uses.append(TableUse(sheet.name, "", "ignored", _HIDDEN))
        else:
            seen.append((sheet, spread_merged(sheet), find_tables(sheet)))
    # Where one sheet has scenarios in rows, fields below each other on another are a legend.
    in_rows = any(_known(table) > 1 for *_, found in seen for table in found if table.topic == "scenarios")
    for sheet, spread, found in seen:
        if not in_rows and all(_known(table) < 2 for table in found) and (other := turned(sheet)):
            sheet, found = other, find_tables(other)
            notes.append(Note(sheet.name, "scenarios stand in columns, fields in rows; read so"))
        if not found:
            uses.append(TableUse(sheet.name, "", "ignored", "no header on it is known"))
        if sheet.unsearched is not None:
            message = "tables are not looked for from here on: too many rows hold words that are headers"
            notes.append(Note(sheet.line(sheet.unsearched), message))
        inside = [area for area in spread if found]
        if inside:
            shown_areas = ", ".join(inside[:5]) + (f" and {len(inside) - 5} more" if len(inside) > 5 else "")
            notes.append(Note(sheet.name, f"merged cells have the value of their range: {shown_areas}"))
        for table in found:
            understand(table, pools)
            tables.append(table)
            if table.topic != "scenarios":
                known = [h.text for h in table.headers if h.means.column is not None]
                uses.append(TableUse(sheet.name, table.cells, table.topic, f"by its columns {', '.join(known)}"))
    return tables


def _known(table: Table) -> int:
    return known_headers(table.headers, table.topic)


def choose(
    book: Book,
    tables: list[Table],
    base: Document | None,
    sheet: str | None,
    uses: list[TableUse],
    problems: list[Problem],
) -> list[Table]:
    """The table of scenarios, with those that go on under the same headers.

    Raises:
        InputError: there is none, or several of which none is meant.
    """
    candidates = [table for table in tables if table.topic == "scenarios"]
    why = "the only table with columns of scenarios"
    if sheet is not None:
        candidates, why = _named(book, candidates, sheet), f"named by --sheet {sheet}"
    if not candidates:
        # All that is wrong with other tables at once; models and workloads nobody uses are not at fault here.
        raise InputError([_without_scenarios(book, uses), *problems])
    complete = [table for table in candidates if _is_complete(table, base is not None)] or candidates
    named = [table for table in complete if table.sheet.name.casefold() in _SCENARIOS]
    if len(named) == 1 and len(complete) > 1:
        complete, why = named, "its sheet is named so"
    first = complete[0]
    chosen = [table for table in complete if _goes_on(first, table)]
    rest = [table for table in complete if table not in chosen]
    if rest:
        places = " and ".join(table.cells for table in [first, *rest][:4])
        message = f"has {counted(len(rest) + 1, 'table')} of scenarios: {places}, expected one"
        fix = f"name one: --sheet {shown(first.sheet.place(first.row, first.columns[0]))}"
        raise InputError(Problem("ambiguous-sheet", book.name, message, fix))
    known = [h.text for h in first.headers if h.means.column is not None]
    why = f"{why}: {', '.join(known)}"
    uses += [TableUse(table.sheet.name, table.cells, "scenarios", why) for table in chosen]
    for table in tables:
        if table.topic == "scenarios" and table not in chosen:
            reason = "another table has the scenarios" if sheet is None else "not the one that --sheet names"
            if not _is_complete(table, base is not None):
                headers = ", ".join(header.text for header in table.headers[:_FEW])
                reason = f"its columns are those of no scenario, model, workload or price: {headers}"
            uses.append(TableUse(table.sheet.name, table.cells, "ignored", reason))
    return chosen


def _without_scenarios(book: Book, uses: list[TableUse]) -> Problem:
    message = f"has no table of scenarios{_instead(uses)}"
    fix = 'give a table the headers of scenarios: "Model", "Workload", "GPU (PD)", "PD instances", "Link (Gbps)", ...'
    if any(use.why == _HIDDEN for use in uses):
        fix += "; or show the hidden sheet, or add --include-hidden"
    for sheet in book.sheets:
        place = fields_below(sheet) if sheet.visible else ""
        if place:
            message += f"; fields stand below each other at {place}, expected beside each other"
            fix = "transpose the table (copy, paste special, transpose), or put it on a sheet of its own"
    return Problem("no-scenarios", book.name, message, fix)


def _instead(uses: list[TableUse]) -> str:
    """What a file has that has no scenarios."""
    others = [f"{use.used_as} at {use.cells}" for use in uses if use.used_as != "ignored"]
    if others:
        return f", only {' and '.join(others)}"
    if all(use.why == _EMPTY for use in uses):
        return ": all of its cells are empty"
    return "".join(f"; {use.sheet}: {use.why}" for use in uses)


def _named(book: Book, candidates: list[Table], sheet: str) -> list[Table]:
    """The tables on a sheet, or the one that a cell belongs to."""
    names = {each.name.casefold(): each.name for each in book.sheets}
    match = _CELL.fullmatch(sheet)
    if match and sheet.casefold() not in names and match["sheet"].casefold() in names:
        cell = int(match["row"]) - 1, column_number(match["column"].upper())
        return [
            table
            for table in candidates
            if table.sheet.name.casefold() == match["sheet"].casefold()
            and table.row <= cell[table.sheet.turned] < table.end
            and table.columns[0] <= cell[not table.sheet.turned] <= table.columns[1]
        ]
    if sheet.casefold() not in names:
        message = f"there is no sheet {shown(sheet)} in {book.name}"
        raise InputError(Problem("unknown-name", "--sheet", message, suggestion(sheet, names.values())))
    return [table for table in candidates if table.sheet.name.casefold() == sheet.casefold()]


def _is_complete(table: Table, has_base: bool) -> bool:
    """Whether a table has the columns without which a row is no scenario."""
    paths = {h.means.column.path for h in table.headers if h.means.column is not None}
    if has_base:
        return bool(paths - {"name"})
    has_gpus = any(path.endswith((".instances", ".gpus")) for path in paths)
    return "model" in paths and has_gpus and any(path.endswith(".hardware") for path in paths)


def _goes_on(first: Table, other: Table) -> bool:
    """Whether a table has the headers of one above it once more, as on printed pages."""
    return first is other or (
        other.sheet is first.sheet
        and [(h.column, h.text) for h in other.headers] == [(h.column, h.text) for h in first.headers]
    )
