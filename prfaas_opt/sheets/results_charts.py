"""The charts of a workbook of results, native to spreadsheet programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

    from prfaas_opt.sheets.layout import ShownColumn

_MOST_POINTS = 20_000
"""Of a chart; a program draws more too slowly."""
_WIDE = 30.0
"""An axis whose ends are this many times apart is logarithmic."""


class Charts:
    """Puts charts on the sheet "Summary", of its tables and of the columns with these names on "Results"."""

    def __init__(self, book: Workbook, sheet: Worksheet, names: Sequence[str]) -> None:
        self._book, self._sheet, self._names = book, sheet, names

    def best(self, table: int, count: int, cheapest: bool, row: int, column: int) -> None:
        """The best scenarios, as the table below this row of headers has them: what they serve, or cost."""
        chart = self._bars("bar", table, count, 2 if cheapest else 1, "#1F4E79")
        chart.set_title({"name": "Least cost" if cheapest else "Best scenarios", "name_font": {"size": 12}})
        unit = "$ per 1,000 requests" if cheapest else "req/s"
        chart.set_x_axis({"name": unit, "min": 0, "num_format": "#,##0.0"})
        chart.set_y_axis({"reverse": True})
        self._insert(chart, row, column)

    def limits(self, table: int, count: int, row: int, column: int) -> None:
        """What limits how many scenarios."""
        chart = self._bars("column", table, count, 1, "#375623")
        chart.set_title({"name": "What limits the scenarios", "name_font": {"size": 12}})
        chart.set_y_axis({"name": "scenarios", "min": 0, "num_format": "#,##0"})
        self._insert(chart, row, column)

    def scatter(self, over: ShownColumn, ends: tuple[float, float], rows: int, row: int, column: int) -> None:
        """What scenarios serve over one of their inputs, which lies between these ends."""
        x, y, last = self._names.index(over.name), self._names.index("served_rps"), min(rows, _MOST_POINTS)
        chart = self._chart("scatter")
        chart.add_series(
            {
                "categories": ["Results", 1, x, last, x],
                "values": ["Results", 1, y, last, y],
                "marker": {"type": "circle", "size": 4, "fill": {"color": "#1F4E79"}, "border": {"none": True}},
            }
        )
        some = "" if rows <= _MOST_POINTS else f" (first {_MOST_POINTS:,})"
        chart.set_title({"name": f"Served over {over.header}{some}", "name_font": {"size": 12}})
        low, high = ends
        axis = {"name": over.header, "num_format": over.number_format, "major_gridlines": {"visible": True}}
        chart.set_x_axis(axis | ({"log_base": 10} if low > 0 and high > _WIDE * low else {}))
        chart.set_y_axis({"name": "req/s", "min": 0, "num_format": "#,##0.0"})
        self._insert(chart, row, column)

    def _bars(self, kind: str, table: int, count: int, values: int, color: str) -> Any:
        """Bars of a column of a table, below its row of headers, by the names in the first column."""
        chart = self._chart(kind)
        first, last = table + 1, table + count
        chart.add_series(
            {
                "categories": ["Summary", first, 0, last, 0],
                "values": ["Summary", first, values, last, values],
                "fill": {"color": color},
                "gap": 60,
            }
        )
        return chart

    def _chart(self, kind: str) -> Any:
        # The library's types do not tell the charts apart.
        return self._book.add_chart({"type": kind})

    def _insert(self, chart: Any, row: int, column: int) -> None:
        chart.set_size({"width": 468, "height": 340})
        chart.set_legend({"none": True})
        self._sheet.insert_chart(row, column, chart, {"x_offset": 4, "y_offset": 4})
