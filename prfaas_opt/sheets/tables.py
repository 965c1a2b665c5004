"""Tables on a sheet: where each begins and ends, by the headers that are known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prfaas_opt.sheets.book import cleaned
from prfaas_opt.sheets.cells import is_missing
from prfaas_opt.sheets.header_words import Topic
from prfaas_opt.sheets.headers import Meaning, is_doubtful, meaning, offered, path_meaning, topics, with_unit_below
from prfaas_opt.sheets.unit_words import looks_like_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.sheets.assembly import Pools
    from prfaas_opt.sheets.book import Sheet

_MOST_MERGED = 200_000
_MOST_ABOVE = 8
_MOST_LOOKED_AT = 30_000
"""Cells of a sheet, in rows that hold words of headers; a row of data rarely holds two."""
_SPANNING = re.compile(r"prefill|decode|\bpd\b|remote|local|cluster|link|network|wan|baseline|slo|price", re.IGNORECASE)
"""Words of headers that span several columns."""

_TELLS: dict[Topic, tuple[frozenset[str], ...]] = {
    "profiles": (frozenset({"length", "latency"}), frozenset({"length", "kv_size"}), frozenset({"batch", "step"})),
    "workloads": (
        frozenset({"distribution"}),
        frozenset({"mu", "sigma"}),
        frozenset({"length", "weight"}),
        frozenset({"name", "value"}),
    ),
    "prices": (
        frozenset({"hardware", "price_per_gpu_hour"}),
        frozenset({"price_per_gbps_hour", "price_per_gb"}),
        frozenset({"hardware", "price_per_gbps_hour"}),
        frozenset({"hardware", "price_per_gb"}),
    ),
}
"""Columns of which a table of a topic has all of one set at least."""


@dataclass
class Header:
    """A column's header: where it stands, what it says, and the header that spans it and others, if any."""

    column: int
    text: str
    group: str = ""
    means: Meaning = field(default_factory=lambda: Meaning(None))


@dataclass
class Table:
    """A table on a sheet.

    Attributes:
        sheet: that it is on.
        topic: what it holds.
        row: of its headers, from 0.
        headers: left to right.
        end: the row after its last.
        titles: single texts above it on the sheet.
        has_units: whether the row below the headers states their units.
    """

    sheet: Sheet
    topic: Topic
    row: int
    headers: list[Header]
    end: int = 0
    titles: list[str] = field(default_factory=list)
    has_units: bool = False
    _columns: dict[int, Sequence[Any]] = field(default_factory=dict)
    _distinct: dict[int, frozenset[Any]] = field(default_factory=dict)

    def column(self, column: int) -> Sequence[Any]:
        """The cells below a header, to the end of the table."""
        if not self._columns:
            rows = self.sheet.rows[self.row + 1 : self.end]
            if len(set(map(len, rows))) == 1:
                self._columns = dict(enumerate(zip(*rows, strict=True)))
        if column not in self._columns:
            rows = self.sheet.rows[self.row + 1 : self.end]
            self._columns[column] = [row[column] if column < len(row) else "" for row in rows]
        return self._columns[column]

    def distinct(self, column: int) -> frozenset[Any]:
        """The cells below a header, each once."""
        if column not in self._distinct:
            self._distinct[column] = frozenset(self.column(column))
        return self._distinct[column]

    @property
    def columns(self) -> tuple[int, int]:
        """The first and the last."""
        return self.headers[0].column, self.headers[-1].column

    @property
    def cells(self) -> str:
        """Their address."""
        first, last = self.columns
        return self.sheet.range((self.row, first), (max(self.end - 1, self.row), last))

    def cell(self, row: int, column: int) -> Any:
        """The value of a cell; "" beyond the end of a row."""
        cells = self.sheet.rows[row]
        return cells[column] if column < len(cells) else ""


def spread_merged(sheet: Sheet) -> list[str]:
    """Gives every merged cell the value of its range; says which ranges there are."""
    spread, budget = [], _MOST_MERGED
    for (top, left), (bottom, right) in sheet.merged:
        if top >= len(sheet.rows) or left >= len(sheet.rows[top]) or sheet.rows[top][left] == "":
            continue
        bottom = min(bottom, len(sheet.rows) - 1)
        budget -= (bottom - top + 1) * (right - left + 1)
        if budget < 0:
            break
        value = sheet.rows[top][left]
        flaw, percent = sheet.flaws.get((top, left)), sheet.percents is not None and (top, left) in sheet.percents
        for r in range(top, bottom + 1):
            row = sheet.rows[r]
            row.extend([""] * (right + 1 - len(row)))
            row[left : right + 1] = [value] * (right + 1 - left)
            for c in range(left, right + 1):
                if flaw:
                    sheet.flaws[r, c] = flaw
                if percent and sheet.percents is not None:
                    sheet.percents.add((r, c))
        spread.append(sheet.range((top, left), (bottom, right)))
    return spread


def find_tables(sheet: Sheet) -> list[Table]:
    """The tables of a sheet, top to bottom."""
    groups = _groups(sheet)
    found = _with_headers(sheet, groups, least=2)
    if not found:
        found = _with_headers(sheet, groups, least=1)[:1]
    for i, table in enumerate(found):
        first, last = table.columns
        below = [
            other.row
            for other in found[i + 1 :]
            if other.row > table.row and other.columns[0] <= last and other.columns[1] >= first
        ]
        table.end = _before_titles(table, min(below)) if below else len(sheet.rows)
        table.titles = _titles(sheet, table)
    return found


def _before_titles(table: Table, end: int) -> int:
    """The end of a table above another, without what stands between them: empty rows and a title."""
    first, last = table.columns
    flawed = {row for row, column in table.sheet.flaws if first <= column <= last}
    for title in (False, True, False):
        while end - 1 > table.row and end - 1 not in flawed:
            cells = [cell for cell in table.sheet.rows[end - 1][first : last + 1] if cell != ""]
            is_title = title and len(set(cells)) == 1 and cells[0].__class__ is str and _is_empty_row(table, end - 2)
            if cells and not is_title:
                break
            end -= 1
    return end


def _is_empty_row(table: Table, row: int) -> bool:
    first, last = table.columns
    return all(cell == "" for cell in table.sheet.rows[row][first : last + 1])


def _groups(sheet: Sheet) -> dict[tuple[int, int], str]:
    """Texts of ranges that span several columns, by the cells below them."""
    groups: dict[tuple[int, int], str] = {}
    for (top, left), (bottom, right) in sheet.merged:
        if right > left and right - left < len(sheet.rows[top] if top < len(sheet.rows) else ()):
            value = sheet.rows[top][left]
            if value.__class__ is str and value:
                groups.update({(bottom + 1, c): cleaned(value) for c in range(left, right + 1)})
    return groups


def _with_headers(sheet: Sheet, groups: dict[tuple[int, int], str], least: int) -> list[Table]:
    """Tables of at least some known headers."""
    found: list[Table] = []
    budget = _MOST_LOOKED_AT
    for row in _candidates(sheet, groups, least):
        budget -= len(sheet.rows[row])
        if budget < 0:
            sheet.unsearched = row if least > 1 else sheet.unsearched
            break
        tables: list[Table] = []
        for run in _runs(sheet, row, groups):
            topic, known = _topic(run)
            if tables and (known < least or (topic == tables[-1].topic and not _overlap(tables[-1], run, topic))):
                # A blank column is part of the table, and so are columns beyond it that nothing else explains.
                tables[-1].headers += run
            elif known >= least:
                tables.append(Table(sheet, topic, row, run))
        for table in tables:
            above = found[-1] if found else None
            if above and above.row == row - 1 and above.columns[0] <= table.columns[1]:
                if _topic(above.headers)[1] > _topic(table.headers)[1]:
                    continue
                found.pop()
            found.append(table)
    return found


def _candidates(sheet: Sheet, groups: dict[tuple[int, int], str], least: int) -> list[int]:
    """Rows that hold enough texts that are headers, or would with what may stand above them."""
    hits = {text for text in sheet.texts if text and topics(cleaned(text))}
    grouped = {row for row, _ in groups}
    return [
        i
        for i, row in enumerate(sheet.rows)
        if i in grouped
        or (not hits.isdisjoint(row) and (len(hits.intersection(row)) >= least or (i and _may_span(sheet.rows[i - 1]))))
    ]


def _may_span(row: list[Any]) -> bool:
    """Whether a row holds a word of headers that span several columns."""
    return any(cell.__class__ is str and _SPANNING.search(cell) for cell in row)


def _runs(sheet: Sheet, row: int, groups: dict[tuple[int, int], str]) -> list[list[Header]]:
    """Texts beside each other in a row."""
    runs: list[list[Header]] = [[]]
    above = _texts_above(sheet, row)
    for c, value in enumerate(sheet.rows[row]):
        text = cleaned(value) if value.__class__ is str else ""
        if text:
            group = groups.get((row, c)) or above.get(c, "")
            runs[-1].append(Header(c, text, "" if group == text else group))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _texts_above(sheet: Sheet, row: int) -> dict[int, str]:
    """Texts of the row above, each with the empty cells to its right: a header over several columns, not merged."""
    if row == 0 or any(cell.__class__ is not str for cell in sheet.rows[row - 1]):
        return {}
    found: dict[int, str] = {}
    text = ""
    for c in range(len(sheet.rows[row])):
        cell = sheet.rows[row - 1][c] if c < len(sheet.rows[row - 1]) else ""
        text = cleaned(cell) or text
        if text:
            found[c] = text
    return found


def _topic(run: list[Header]) -> tuple[Topic, int]:
    """What a table with these headers holds, and how many of them are known."""
    best: tuple[Topic, int] = ("scenarios", 0)
    run = [header for header in run if header.group or topics(header.text)]
    for topic in ("profiles", "workloads", "prices", "scenarios"):
        paths: list[str] = []
        doubtful = 0
        for header in run:
            means = meaning(header.text, topic, header.group)
            if means.column is not None:
                paths.append(means.column.path)
            elif topic == "scenarios" and (is_doubtful(header.text, header.group) or path_meaning(header.text)):
                doubtful += 1
        known = len(set(paths)) + doubtful
        tells = _TELLS.get(topic)
        if tells and not any(each <= set(paths) for each in tells):
            continue
        if known > best[1]:
            best = topic, known
    return best


def known_headers(headers: list[Header], topic: Topic, path: str = "") -> int:
    """How many of some headers are known in a table of a topic, or are known as one column."""
    found = {means.column.path for h in headers if (means := meaning(h.text, topic, h.group)).column is not None}
    return len(found & {path} if path else found)


def _overlap(table: Table, run: list[Header], topic: Topic) -> bool:
    """Whether a run has a column that a table has."""
    paths = [
        {means.column.path for h in headers if (means := meaning(h.text, topic, h.group)).column is not None}
        for headers in (table.headers, run)
    ]
    return not paths[0].isdisjoint(paths[1])


def _titles(sheet: Sheet, table: Table) -> list[str]:
    """Texts above a table, nearest first."""
    titles: list[str] = []
    for r in range(table.row - 1, -1, -1):
        texts = list(dict.fromkeys(cleaned(v) for v in sheet.rows[r] if v.__class__ is str and v.strip()))
        if len(texts) == 1:
            titles.append(texts[0])
        if len(titles) == _MOST_ABOVE:
            break
    return titles


def understand(table: Table, pools: Pools) -> None:
    """Works out what each header of a table means, where a base scenario names the clusters so."""
    for header in table.headers:
        alone = offered(pools.known(header.text), table.topic)
        header.means = offered(pools.known(header.text), table.topic, header.group)
        if header.means == alone:
            # What stands above tells nothing of this column, as a title does not.
            header.group = ""
        if header.means.column is None and table.topic == "scenarios":
            header.means = path_meaning(header.text) or header.means
    below = [_unit_in(cell) for cell in _row_below(table)]
    stated = [cell for cell in below if cell != ""]
    if stated and all(cell.__class__ is str and (cell == "#" or looks_like_unit(cell)) for cell in stated):
        table.has_units = True
        for header, cell in zip(table.headers, below, strict=True):
            header.means = with_unit_below(header.means, cell)
    # A merged header is one column; the others that it spans have no cells of their own.
    seen: dict[str, Header] = {}
    for header in list(table.headers):
        twin = seen.get(header.text)
        if twin is not None and _same_range(table, twin, header) and _is_empty(table, header):
            table.headers.remove(header)
        else:
            seen[header.text] = header


def _unit_in(cell: Any) -> Any:
    """What a cell below a header may state as the unit; "" where it says that there is none."""
    text = cleaned(cell).strip("()[] ") if cell.__class__ is str else cell
    return "" if is_missing(text) or text in ("Unit", "unit", "Units", "units") else text


def _row_below(table: Table) -> list[Any]:
    if table.row + 1 >= table.end:
        return []
    return [table.cell(table.row + 1, header.column) for header in table.headers]


def _same_range(table: Table, one: Header, other: Header) -> bool:
    return any(
        top <= table.row <= bottom and left <= one.column and other.column <= right
        for (top, left), (bottom, right) in table.sheet.merged
    )


def _is_empty(table: Table, header: Header) -> bool:
    cells = table.column(header.column)
    return cells.count("") == len(cells)
