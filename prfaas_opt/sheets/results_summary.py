"""The first sheet of a workbook of results: what came of the scenarios, the best of them, and charts."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prfaas_opt.sheets.layout import COST, MAIN, ShownColumn
from prfaas_opt.sheets.results_charts import Charts
from prfaas_opt.sheets.styles import Styles, cell_text, print_on_pages

if TYPE_CHECKING:
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

_BEST = 10
_INPUTS = 5
"""Inputs that are shown with the best scenarios: those that vary."""
_LONGEST_REASON = 160
"""Characters of why the first of some rows has no plan."""
_FIRST_INPUT = 4
"""Place of the first input in a row that is kept."""
_NAMES = {
    "prfaas": "remote prefill",
    "pd_prefill": "local prefill",
    "pd_decode": "decode",
    "egress": "the link",
}


class Summary:
    """Counts rows as they come, and writes what they come to.

    Args:
        book: that the sheet is of.
        sheet: to write.
        styles: of the book.
        columns: of the sheet of results.
        study: its name.
        cheapest: whether the best rows are those of least cost.
    """

    def __init__(
        self,
        book: Workbook,
        sheet: Worksheet,
        styles: Styles,
        columns: Sequence[ShownColumn],
        study: str,
        cheapest: bool,
    ) -> None:
        self._sheet, self._styles, self._study, self._cheapest = sheet, styles, study, cheapest
        self._charts = Charts(book, sheet, [column.name for column in columns])
        self._statuses: Counter[str] = Counter()
        self._limits: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._best: list[tuple[float, float, int, tuple[Any, ...]]] = []
        self._inputs = [column for column in columns if column.group == "input"]
        self._ranges: dict[str, tuple[float, float]] = {}
        self._firsts: dict[str, Any] = {}
        self._varied: set[str] = set()

    def add(self, columns: Mapping[str, Sequence[Any]], start: int) -> None:
        """Takes note of rows."""
        self._statuses.update(columns["status"])
        for text in columns["bottlenecks"]:
            self._limits.update([text] if text else [])
        for index, code in enumerate(columns["error_code"]):
            if code is not None:
                self._failures[code] += 1
                if code not in self._reasons:
                    self._reasons[code] = _reason(*(columns[name][index] for name in ("row", "error_where", "error")))
        shown = ("row", "name", "served_rps", COST, *(column.name for column in self._inputs))
        rows = zip(*(columns[name] for name in shown), strict=True)
        found = [self._ranked(row, start + index) for index, row in enumerate(rows) if row[2] is not None]
        ranked = [each for each in found if not (self._cheapest and each[3][3] is None)]
        self._best = heapq.nlargest(_BEST, [*self._best, *ranked], key=lambda each: each[:3])
        for column in self._inputs:
            self._add_range(column, columns[column.name])

    def _ranked(self, row: tuple[Any, ...], number: int) -> tuple[float, float, int, tuple[Any, ...]]:
        """A row with what it is compared by: of rows that serve alike the cheaper is the better one."""
        served, cost = row[2], -math.inf if row[3] is None else -row[3]
        return (cost, served, -number, row) if self._cheapest else (served, cost, -number, row)

    def _add_range(self, column: ShownColumn, values: Sequence[Any]) -> None:
        known = [value for value in values if value is not None]
        if not known:
            return
        first = self._firsts.setdefault(column.name, known[0])
        if any(value != first for value in known):
            self._varied.add(column.name)
        if column.is_number:
            low, high = self._ranges.get(column.name, (known[0], known[0]))
            self._ranges[column.name] = (min(low, *known), max(high, *known))

    def finish(self, rows: int) -> None:
        """Writes the sheet."""
        sheet, styles = self._sheet, self._styles
        planned = rows - self._statuses["error"] - self._statuses["infeasible"]
        varied = [column for column in self._inputs if column.name in self._varied][:_INPUTS]
        sheet.set_column(0, 0, 34)
        sheet.set_column(1, 1, 16)
        sheet.set_column(2, 3 + _INPUTS, 16)
        sheet.write_string(0, 0, cell_text(self._study or "Study"), styles.title)
        sheet.write_string(1, 0, f"{rows:,} scenarios, {planned:,} with a plan", styles.quiet)
        at = self._write_counts(3, "Status", self._statuses) + 1
        if self._failures:
            at = self._write_counts(at, "Without a plan", self._failures, self._reasons) + 1
        limits, limits_at = Counter({_in_words(text): count for text, count in self._limits.most_common()}), at
        if limits:
            at = self._write_counts(at, "Limited by", limits) + 1
        best_at = at
        if self._best:
            at = self._write_best(at, varied) + 1
            self._charts.best(best_at, len(self._best), self._cheapest, at, 0)
        if limits:
            self._charts.limits(limits_at, len(limits), at, 3)
        numeric = [column for column in varied if column.is_number][:2]
        for index, column in enumerate(numeric if planned else []):
            self._charts.scatter(column, self._ranges[column.name], rows, at + 18, 3 * index)
        print_on_pages(sheet, repeat_header=False)
        # The charts on a page of their own: breaks hold only where pages are not fitted.
        sheet.set_print_scale(72)
        sheet.set_h_pagebreaks([at])

    def _write_counts(self, at: int, title: str, counts: Counter[str], firsts: Mapping[str, str] | None = None) -> int:
        """A table of counts from a row on, with the first of each where it is told; the first row after it."""
        sheet, styles = self._sheet, self._styles
        for index, header in enumerate((title, "Scenarios", *(["First"] if firsts else []))):
            sheet.write_string(at, index, header, styles.header("main"))
        for index, (name, count) in enumerate(counts.most_common(), 1):
            sheet.write_string(at + index, 0, name)
            sheet.write_number(at + index, 1, count, styles.number("#,##0"))
            if firsts:
                sheet.write_string(at + index, 2, cell_text(firsts[name]), styles.indented)
        return at + 1 + len(counts)

    def _write_best(self, at: int, varied: Sequence[ShownColumn]) -> int:
        sheet, styles = self._sheet, self._styles
        sheet.set_row(at, 32)
        costs = [MAIN[COST]] if any(row[3] is not None for *_, row in self._best) else []
        title = "Least cost" if self._cheapest else "Best scenarios"
        headers = (title, MAIN["served_rps"], *costs, "Row", *(column.header for column in varied))
        for index, header in enumerate(headers):
            sheet.write_string(at, index, cell_text(header), styles.header("main"))
        places = [_FIRST_INPUT + self._inputs.index(column) for column in varied]
        for offset, (*_, row) in enumerate(self._best, 1):
            sheet.write_string(at + offset, 0, cell_text(self._called(row, places)))
            figures = [(row[2], "#,##0.0000"), *([(row[3], "#,##0.00")] if costs else []), (row[0], "0")]
            for index, (figure, number_format) in enumerate(figures, 1):
                if figure is not None:
                    sheet.write_number(at + offset, index, figure, styles.number(number_format))
            for index, (column, place) in enumerate(zip(varied, places, strict=True), 1 + len(figures)):
                value = row[place]
                if value is not None and column.is_number:
                    sheet.write_number(at + offset, index, value, styles.number(column.number_format))
                elif value is not None:
                    sheet.write_string(at + offset, index, cell_text(str(value)), styles.indented)
        return at + 1 + len(self._best)

    def _called(self, row: tuple[Any, ...], places: Sequence[int]) -> str:
        """What a scenario is called among the best: by its name, or by what it varies where others have that name."""
        number, name = row[0], row[1]
        if name and sum(each[1] == name for *_, each in self._best) == 1:
            return str(name)
        values = [_told(row[place]) for place in places[:3] if row[place] is not None]
        return ", ".join(values) or f"row {number}"


def _reason(row: int, where: str | None, message: str | None) -> str:
    """Why a row has no plan, short."""
    place = where if where and where.startswith(f"row {row}") else f"row {row}, {where}" if where else f"row {row}"
    text = f"{place}: {message}" if message else place
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def _told(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _in_words(text: str) -> str:
    """Bottlenecks as people read them.

    >>> _in_words("prfaas, pd_prefill, egress")
    'remote prefill, local prefill and the link'
    """
    *firsts, last = (_NAMES.get(each, each) for each in text.split(", "))
    return f"{', '.join(firsts)} and {last}" if firsts else last
