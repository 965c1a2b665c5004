"""The first sheet of a workbook of results: what came of the scenarios, the best of them, and charts."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prfaas_opt.sheets.layout import ShownColumn
from prfaas_opt.sheets.styles import Styles, cell_text, print_on_pages

if TYPE_CHECKING:
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

_BEST = 10
_INPUTS = 5
"""Inputs that are shown with the best scenarios: those that vary."""
_MOST_POINTS = 20_000
"""Of a chart; a program draws more too slowly."""
_WIDE = 30.0
"""An axis whose ends are this many times apart is logarithmic."""
_NAMES = {
    "prfaas": "remote prefill",
    "pd_prefill": "local prefill",
    "pd_decode": "decode",
    "egress": "the link",
}


class Summary:
    """Counts rows as they come, and writes what they come to."""

    def __init__(
        self, book: Workbook, sheet: Worksheet, styles: Styles, columns: Sequence[ShownColumn], study: str
    ) -> None:
        self._book, self._sheet, self._styles, self._columns, self._study = book, sheet, styles, columns, study
        self._statuses: Counter[str] = Counter()
        self._limits: Counter[str] = Counter()
        self._best: list[tuple[float, int, tuple[Any, ...]]] = []
        self._inputs = [column for column in columns if column.group == "input"]
        self._ranges: dict[str, tuple[float, float]] = {}
        self._firsts: dict[str, Any] = {}
        self._varied: set[str] = set()

    def add(self, columns: Mapping[str, Sequence[Any]], start: int) -> None:
        """Takes note of rows."""
        self._statuses.update(columns["status"])
        for text in columns["bottlenecks"]:
            self._limits.update([text] if text else [])
        shown = ("row", "name", "served_rps", *(column.name for column in self._inputs))
        rows = zip(*(columns[name] for name in shown), strict=True)
        found = [(row[2], -(start + index), row) for index, row in enumerate(rows) if row[2] is not None]
        self._best = heapq.nlargest(_BEST, [*self._best, *found], key=lambda each: each[:2])
        for column in self._inputs:
            self._add_range(column, columns[column.name])

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
        sheet.set_column(2, 2 + _INPUTS, 16)
        sheet.write_string(0, 0, cell_text(self._study or "Study"), styles.title)
        sheet.write_string(1, 0, f"{rows:,} scenarios, {planned:,} with a plan", styles.quiet)
        at = self._write_counts(3, "Status", self._statuses)
        limits_at = at + 1
        limits = Counter({_in_words(text): count for text, count in self._limits.most_common()})
        at = self._write_counts(limits_at, "Limited by", limits)
        best_at = at + 1
        at = self._write_best(best_at, varied) + 1
        place = (at, 0)
        if self._best:
            self._insert(self._best_chart(best_at), *place)
        if self._limits:
            self._insert(self._limits_chart(limits_at, len(limits)), at, 3)
        numeric = [column for column in varied if column.is_number][:2]
        for index, column in enumerate(numeric if planned else []):
            self._insert(self._scatter(column, rows), at + 18, 3 * index)
        print_on_pages(sheet, repeat_header=False)
        # The charts on a page of their own: breaks hold only where pages are not fitted.
        sheet.set_print_scale(72)
        sheet.set_h_pagebreaks([at])

    def _write_counts(self, at: int, title: str, counts: Counter[str]) -> int:
        """A table of counts from a row on; the first row after it."""
        sheet, styles = self._sheet, self._styles
        sheet.write_string(at, 0, title, styles.header("main"))
        sheet.write_string(at, 1, "Scenarios", styles.header("main"))
        for index, (name, count) in enumerate(counts.most_common(), 1):
            sheet.write_string(at + index, 0, name)
            sheet.write_number(at + index, 1, count, styles.number("#,##0"))
        return at + 1 + len(counts)

    def _write_best(self, at: int, varied: Sequence[ShownColumn]) -> int:
        sheet, styles = self._sheet, self._styles
        sheet.set_row(at, 32)
        headers = ("Best scenarios", "Serves (req/s)", "Row", *(column.header for column in varied))
        for index, header in enumerate(headers):
            sheet.write_string(at, index, cell_text(header), styles.header("main"))
        places = [3 + self._inputs.index(column) for column in varied]
        for offset, (served_rps, _, row) in enumerate(self._best, 1):
            sheet.write_string(at + offset, 0, cell_text(self._called(row, places)))
            sheet.write_number(at + offset, 1, served_rps, styles.number("#,##0.00##"))
            sheet.write_number(at + offset, 2, row[0], styles.number("0"))
            for index, (column, place) in enumerate(zip(varied, places, strict=True), 3):
                value = row[place]
                if value is not None and column.is_number:
                    sheet.write_number(at + offset, index, value, styles.number(column.number_format))
                elif value is not None:
                    sheet.write_string(at + offset, index, cell_text(str(value)), styles.indented)
        return at + 1 + len(self._best)

    def _called(self, row: tuple[Any, ...], places: Sequence[int]) -> str:
        """What a scenario is called among the best: by its name, or by what it varies where others have that name."""
        number, name = row[0], row[1]
        if name and sum(each[2][1] == name for each in self._best) == 1:
            return str(name)
        values = [_told(row[place]) for place in places[:3] if row[place] is not None]
        return ", ".join(values) or f"row {number}"

    # Charts

    def _insert(self, chart: Any, row: int, column: int) -> None:
        chart.set_size({"width": 468, "height": 340})
        chart.set_legend({"none": True})
        self._sheet.insert_chart(row, column, chart, {"x_offset": 4, "y_offset": 4})

    def _chart(self, kind: str) -> Any:
        # The library's types do not tell the charts apart.
        return self._book.add_chart({"type": kind})

    def _best_chart(self, at: int) -> Any:
        chart = self._chart("bar")
        last = at + len(self._best)
        chart.add_series(
            {
                "categories": ["Summary", at + 1, 0, last, 0],
                "values": ["Summary", at + 1, 1, last, 1],
                "fill": {"color": "#1F4E79"},
                "gap": 60,
            }
        )
        chart.set_title({"name": "Best scenarios", "name_font": {"size": 12}})
        chart.set_x_axis({"name": "req/s", "min": 0, "num_format": "#,##0.0"})
        chart.set_y_axis({"reverse": True})
        return chart

    def _limits_chart(self, at: int, count: int) -> Any:
        chart = self._chart("column")
        chart.add_series(
            {
                "categories": ["Summary", at + 1, 0, at + count, 0],
                "values": ["Summary", at + 1, 1, at + count, 1],
                "fill": {"color": "#375623"},
                "gap": 60,
            }
        )
        chart.set_title({"name": "What limits the scenarios", "name_font": {"size": 12}})
        chart.set_y_axis({"name": "scenarios", "min": 0, "num_format": "#,##0"})
        return chart

    def _scatter(self, column: ShownColumn, rows: int) -> Any:
        """What scenarios serve over one of their inputs, from the sheet of results."""
        names = [each.name for each in self._columns]
        x, y, last = names.index(column.name), names.index("served_rps"), min(rows, _MOST_POINTS)
        chart = self._chart("scatter")
        chart.add_series(
            {
                "categories": ["Results", 1, x, last, x],
                "values": ["Results", 1, y, last, y],
                "marker": {"type": "circle", "size": 4, "fill": {"color": "#1F4E79"}, "border": {"none": True}},
            }
        )
        some = "" if rows <= _MOST_POINTS else f" (first {_MOST_POINTS:,})"
        chart.set_title({"name": f"Served over {column.header}{some}", "name_font": {"size": 12}})
        low, high = self._ranges[column.name]
        axis = {"name": column.header, "num_format": column.number_format, "major_gridlines": {"visible": True}}
        chart.set_x_axis(axis | ({"log_base": 10} if low > 0 and high > _WIDE * low else {}))
        chart.set_y_axis({"name": "req/s", "min": 0, "num_format": "#,##0.0"})
        return chart


def _told(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _in_words(text: str) -> str:
    """Bottlenecks as people read them.

    >>> _in_words("prfaas, pd_prefill, egress")
    'remote prefill, local prefill and the link'
    """
    *firsts, last = (_NAMES.get(each, each) for each in text.split(", "))
    return f"{', '.join(firsts)} and {last}" if firsts else last
