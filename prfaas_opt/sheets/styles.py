"""How cells, headers and pages of our workbooks look; texts that no spreadsheet program runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

_MOST_CHARACTERS = 32_767
"""Of a cell's text."""
_A4 = 9

_COLORS = {"row": "#44546A", "input": "#1F4E79", "extra": "#7F6000", "main": "#375623", "other": "#7F7F7F"}
"""Of headers by the part of a sheet that they are of."""
_STATUSES = {
    "optimal": ("#E2EFDA", "#375623"),
    "threshold-optimal": ("#E2EFDA", "#375623"),
    "feasible": ("#E2EFDA", "#375623"),
    "infeasible": ("#FFF2CC", "#7F6000"),
    "error": ("#F8CBAD", "#833C0B"),
}


def cell_text(text: str) -> str:
    """A text as a cell can hold it.

    It is stored as a text, which no program takes for a formula; a text that XlsxWriter would take for markup of a
    rich text is set apart from it by a space.
    """
    text = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."
    return f" {text}" if text.startswith("<r>") else text


class Styles:
    """The formats of a workbook, each made once."""

    def __init__(self, book: Workbook) -> None:
        self._book = book
        self.header = cache(self._header)
        self.number = cache(self._number)
        self.status = lru_cache(maxsize=64)(self._status)
        self.title = book.add_format({"bold": True, "font_size": 16, "font_color": "#1F4E79"})
        self.section = book.add_format({"bold": True, "font_size": 12, "font_color": "#1F4E79", "bottom": 1})
        self.wrapped = book.add_format({"text_wrap": True, "valign": "top"})
        self.top = book.add_format({"valign": "top"})
        self.top_indented = book.add_format({"valign": "top", "indent": 1})
        self.indented = book.add_format({"indent": 1})
        self.quiet = book.add_format({"italic": True, "font_color": "#595959"})
        self.example = book.add_format({"font_color": "#1F4E79"})

    def _header(self, group: str = "row") -> Format:
        return self._book.add_format(
            {
                "bold": True,
                "font_color": "#FFFFFF",
                "bg_color": _COLORS[group],
                "text_wrap": True,
                "valign": "vcenter",
                "border": 1,
                "border_color": "#FFFFFF",
            }
        )

    def _number(self, number_format: str) -> Format:
        return self._book.add_format({"num_format": number_format})

    def _status(self, status: str) -> Format:
        background, color = _STATUSES.get(status, ("#FFFFFF", "#000000"))
        return self._book.add_format({"bg_color": background, "font_color": color, "valign": "top", "indent": 1})


def height_of(texts: Iterable[tuple[str, float]]) -> float:
    """The height of a row of wrapped texts in columns of some widths, in points: no program works it out on opening."""
    return 15.0 * max(math.ceil((len(text) + 1) / (1.15 * width)) for text, width in texts)


def print_on_pages(sheet: Worksheet, repeat_header: bool, pages_wide: int = 1) -> None:
    """Pages of A4, landscape, together as wide as the sheet, with their numbers."""
    sheet.set_landscape()
    sheet.set_paper(_A4)
    sheet.fit_to_pages(pages_wide, 0)
    sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
    sheet.set_footer("&L&A&RPage &P of &N")
    if repeat_header:
        sheet.repeat_rows(0)
