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

_SUMS = """
    total totals sum sums average averages avg mean median count min max minimum maximum \u03a3 \u00d8
    summe gesamt gesamtsumme zwischensumme endsumme mittelwert durchschnitt anzahl
    somme moyenne sous-total totaux totale totali somma media suma totales promedio soma m\u00e9dia
    totaal gemiddelde razem suma \u015brednia summa totalt sammanlagt yhteens\u00e4 celkem toplam ortalama ukupno
    \u0438\u0442\u043e\u0433\u043e \u0432\u0441\u0435\u0433\u043e \u0440\u0430\u0437\u043e\u043c
    \u5408\u8ba1 \u603b\u8ba1 \u5c0f\u8ba1 \u5e73\u5747 \u5408\u8a08 \u7dcf\u8a08 \u5c0f\u8a08 \ud569\uacc4
"""
_TOTAL = "|".join(map(re.escape, _SUMS.split()))
_TOTALS = re.compile(
    rf"(?:grand |sub[- ]?)?(?:{_TOTAL})(?: g\u00e9n\u00e9ral| generale| general| geral)?\.?"
    r"(?:\s*(?:\([^()]*\)|(?:19|20)\d\d))?",
    re.IGNORECASE,
)
"""What the first cell of a row of totals says."""
_MAYBE_TOTALS = re.compile(rf"(?:grand |sub[- ]?)?(?:{_TOTAL})\b", re.IGNORECASE)
"""How it begins where it may as well be the name of a scenario."""
_BEGINNINGS = {"grand", "sub", *_SUMS.casefold().split()}
_BEGINNINGS |= {f"sub-{word}" for word in _BEGINNINGS} | {f"sub{word}" for word in _BEGINNINGS}
_LONGEST_TOTAL = 60
_REMARK = re.compile(r"[*#\u2020]|(notes?|sources?|assum\w*|remarks?|legend)\b", re.IGNORECASE)


def data_rows(table: Table, include_hidden: bool) -> tuple[list[int], list[tuple[int, str]]]:
    """The rows of a table that hold data, and those that do not with the reason."""
    first, last = table.columns
    width = last + 1 - first
    flawed = {row for row, column in table.sheet.flaws if first <= column <= last}
    hidden = set() if include_hidden else table.sheet.hidden_rows
    left_out: list[tuple[int, str]] = []
    texts = [h.column for h in table.headers if h.means.column is not None and names_something(h.means.column.path)]
    begins = {text for h in table.headers for text in table.distinct(h.column) if _is_total(text)}
    top, lines = table.row + 1, table.sheet.rows[table.row + 1 : table.end]
    if first or any(len(line) > width for line in lines):
        lines = [line[first : last + 1] for line in lines]
    headings, blanks = _headings(table), _blanks(table)
    fullest = width - 1
    for i, line in enumerate(lines):
        r = top + i
        empty = line.count("") + width - len(line)
        why = ""
        if i == 0 and table.has_units:
            left_out.append((r, "units of the columns"))
            continue
        if empty < fullest and not begins and r not in hidden and r not in headings and r not in blanks:
            continue
        if empty == width and r not in flawed:
            why = "empty"
        elif r in hidden:
            why = "hidden"
        elif r in headings:
            why = f'a heading over merged cells ("{headings[r]}")'
        elif r in blanks and r not in flawed:
            why = "only marks for nothing"
        elif (empty >= fullest or _begins_with(line, begins)) and r not in flawed:
            blank_before = bool(left_out) and left_out[-1] == (r - 1, "empty")
            why = _no_data(table, r, texts, blank_before and len(left_out) < i)
        if why:
            left_out.append((r, why))
    not_taken = {r for r, _ in left_out}
    rows = [r for r in range(top, top + len(lines)) if r not in not_taken]
    while left_out and left_out[-1] == (top + len(lines) - 1, "empty"):
        left_out.pop()
        del lines[-1]
    return rows, left_out


def _headings(table: Table) -> dict[int, str]:
    """Texts below the headers over several merged cells, in rows that hold nothing else."""
    first, last = table.columns
    found = {}
    for (top, left), (bottom, right) in table.sheet.merged:
        if right <= left or not table.row < top < table.end:
            continue
        for r in range(top, min(bottom + 1, table.end)):
            text = table.cell(r, left)
            others = (table.cell(r, c) for c in range(first, last + 1) if not left <= c <= right)
            if text.__class__ is str and text and all(cell == "" for cell in others):
                found[r] = cleaned(text)[:40]
    return found


def _blanks(table: Table) -> set[int]:
    """Rows below the headers of which every cell says that there is nothing."""
    known = [header.column for header in table.headers]
    fewest = min(known, key=lambda column: len(table.distinct(column)))
    marks = {cell for cell in table.distinct(fewest) if is_missing(cell)}
    if not marks:
        return set()
    rows = (table.row + 1 + i for i, cell in enumerate(table.column(fewest)) if cell in marks)
    return {r for r in rows if all(is_missing(table.cell(r, column)) for column in known)}


def names_something(path: str) -> bool:
    """Whether a column names what a row is about."""
    return path in ("model", "workload") or path.endswith("hardware")


def _is_total(cell: object) -> bool:
    return _begins_so(cell) and len(str(cell)) < _LONGEST_TOTAL and bool(_TOTALS.fullmatch(_label(str(cell))))


def may_be_total(cell: object) -> bool:
    """Whether a text begins as the first cell of a row of totals does, and goes on."""
    return _begins_so(cell) and bool(_MAYBE_TOTALS.match(_label(str(cell))))


def _begins_so(cell: object) -> bool:
    if cell.__class__ is not str:
        return False
    first = str(cell)[:_LONGEST_TOTAL].split(None, 1)[:1]
    return bool(first) and first[0].strip(":.,").casefold() in _BEGINNINGS


def _label(text: str) -> str:
    return cleaned(text).strip(" :")


def _begins_with(cells: list[object], texts: set[object]) -> bool:
    """Whether the first cell that is not empty has one of some texts."""
    return next((cell in texts for cell in cells if cell != ""), False)


def _no_data(table: Table, r: int, texts: list[int], blank_before: bool) -> str:
    """Why a row with at most one cell, or one that begins as totals do, holds no data; "" where it may."""
    filled = [(h, table.cell(r, h.column)) for h in table.headers]
    filled = [(h, value) for h, value in filled if not is_missing(value)]
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
            found.append(RowLeftOut(table.sheet.line(start, end), reason))
        start, end, reason = r, r, why
    return found
