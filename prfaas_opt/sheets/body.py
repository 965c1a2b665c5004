"""The rows of a table: which hold data, and which do not, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prfaas_opt.sheets.book import cleaned
from prfaas_opt.sheets.cells import is_missing
from prfaas_opt.sheets.explanation import RowLeftOut
from prfaas_opt.sheets.notation import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prfaas_opt.sheets.tables import Table

_TOTAL = re.compile(
    r"(grand |sub)?-?\s*(totals?|sums?|averages?|avg\.?|means?|medians?|minimum|maximum|min\.?|max\.?|count|"
    r"summe|gesamt|mittelwert|total g\u00e9n\u00e9ral|somme|moyenne)\s*:?",
    re.IGNORECASE,
)
_REMARK = re.compile(r"[*#\u2020]|(notes?|sources?|assum\w*|remarks?|legend)\b", re.IGNORECASE)


def data_rows(table: Table, include_hidden: bool) -> tuple[list[int], list[tuple[int, str]]]:
    """The rows of a table that hold data, and those that do not with the reason."""
    first, last = table.columns
    width = last + 1 - first
    flawed = {row for row, column in table.sheet.flaws if first <= column <= last}
    hidden = set() if include_hidden else table.sheet.hidden_rows
    rows: list[int] = []
    left_out: list[tuple[int, str]] = []
    texts = [h.column for h in table.headers if h.means.column is not None and _names_something(h.means.column.path)]
    blank_before = False
    begins = {text for h in table.headers for text in set(table.column(h.column)) if _is_total(text)}
    for r in range(table.row + 1, table.end):
        cells = table.sheet.rows[r][first : last + 1]
        empty = cells.count("") + width - len(cells)
        why = ""
        if empty == width and r not in flawed:
            why = "empty"
        elif r in hidden:
            why = "hidden"
        elif empty >= width - 1 or (begins and _begins_with(cells, begins)):
            why = "" if r in flawed else _no_data(table, r, texts, blank_before and bool(rows))
        blank_before = why == "empty"
        if why:
            left_out.append((r, why))
        else:
            rows.append(r)
    while left_out and left_out[-1][0] == table.end - 1 - (len(left_out) - 1) and left_out[-1][1] == "empty":
        left_out.pop()
    return rows, left_out


def _names_something(path: str) -> bool:
    """Whether a column names what a row is about."""
    return path in ("model", "workload") or path.endswith("hardware")


def _is_total(cell: object) -> bool:
    return cell.__class__ is str and len(str(cell)) < 40 and _TOTAL.fullmatch(str(cell).strip()) is not None


def _begins_with(cells: list[object], texts: set[object]) -> bool:
    """Whether the first cell that is not empty has one of some texts."""
    return next((cell in texts for cell in cells if cell != ""), False)


def _no_data(table: Table, r: int, texts: list[int], blank_before: bool) -> str:
    """Why a row with at most one cell, or one that begins as totals do, holds no data; "" where it may."""
    filled = [(h, table.cell(r, h.column)) for h in table.headers]
    filled = [(h, value) for h, value in filled if not is_missing(value)]
    if not filled:
        return "only marks for nothing"
    first_header, first = filled[0]
    if _is_total(first):
        named = [c for c in texts if c != first_header.column and not is_missing(table.cell(r, c))]
        if not named:
            return f'totals ("{cleaned(first)}")'
    if len(filled) > 1 or first.__class__ is not str:
        return ""
    column = first_header.means.column
    is_number = parsed(cleaned(first)) is not None and column is not None and column.kind not in ("text", "choice")
    if is_number:
        return ""
    fits = column is not None and column.kind in ("text", "choice")
    if blank_before or not fits or _REMARK.match(cleaned(first)):
        return f'a remark ("{cleaned(first)[:40]}")'
    return ""


def grouped(table: Table, left_out: Iterable[tuple[int, str]]) -> list[RowLeftOut]:
    """Rows left out, those beside each other for the same reason as one."""
    found: list[RowLeftOut] = []
    start = end = -2
    reason = ""
    for r, why in [*left_out, (-9, "")]:
        if r == end + 1 and why == reason:
            end = r
            continue
        if reason:
            place = f"{table.sheet.name}!{start + 1}" + (f":{end + 1}" if end > start else "")
            found.append(RowLeftOut(place, reason))
        start, end, reason = r, r, why
    return found
