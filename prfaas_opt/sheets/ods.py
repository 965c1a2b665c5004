""".ods workbooks: values from calamine; sizes, errors, formulas, hidden rows and merged cells from the XML itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.parsers import expat

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.archive import encrypted, read_parts, refused
from prfaas_opt.sheets.book import MOST_CELLS, MOST_COLUMNS, MOST_MARKED, NOT_AVAILABLE, UNCALCULATED, Book, Flaw, Sheet
from prfaas_opt.sheets.calamine import grids
from prfaas_opt.sheets.extent import check_size
from prfaas_opt.sheets.xlsx import check_flaws

if TYPE_CHECKING:
    from collections.abc import Iterable

_ERROR = re.compile(r"#(N/A|DIV/0!|REF!|NAME\?|NULL!|NUM!|VALUE!)|Err:\d+")
_MANIFEST = "META-INF/manifest.xml"
_KEPT = ("mimetype", "content.xml", "styles.xml", _MANIFEST)


def read_ods(data: bytes, name: str, names: Iterable[str]) -> Book:
    """The workbook in an archive with these parts.

    Raises:
        InputError: it has macros, is encrypted, damaged, too large, or hostile.
    """
    if any(part.startswith(("Basic/", "Scripts/")) and not part.endswith("/") for part in names):
        message = "is a workbook with macros, which are not opened"
        raise refused(name, message, "save it as .xlsx, without macros", "macro-workbook")
    # What is encrypted may look like anything: it is not read.
    if b"encryption-data" in read_parts(data, name, _MANIFEST.__eq__).get(_MANIFEST, b""):
        raise encrypted(name)
    parts = read_parts(data, name, lambda part: part in _KEPT and part != "mimetype")
    looker = _Looker(name)
    looker.look(parts.get("content.xml", b""))
    # The reader looks at the type first, as the format asks for.
    parts = type(parts)({"mimetype": b"application/vnd.oasis.opendocument.spreadsheet", **parts})
    packed = parts.packed()
    parts.clear()
    sheets = grids(packed, name)
    for sheet in sheets:
        seen = looker.sheets.get(sheet.name)
        if seen is not None:
            sheet.flaws, sheet.percents, sheet.merged = seen.flaws, seen.percents, seen.merged
            sheet.hidden_rows, sheet.hidden_columns = seen.hidden_rows, seen.hidden_columns
    return Book(name, "ods", sheets)


class _Looker:
    """Reads a workbook's XML once, from start to end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.sheets: dict[str, Sheet] = {}
        self._sheet: Sheet | None = None
        self._row = self._column = self._row_repeats = self._first_column = 0
        self._rows = self._columns = 0
        self._row_has_cells = False
        self._cell: dict[str, str] | None = None
        self._text: list[str] = []
        self._skipping = self._tables = 0

    def look(self, part: bytes) -> None:
        """Fills ``sheets``, checking their sizes."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(part, True)
        except (expat.ExpatError, ValueError) as error:
            fix = "open it in a spreadsheet program and save it anew"
            message = f"is no complete workbook: {error}"
            raise InputError(Problem("damaged-file", self._name, message, fix)) from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "office:annotation":
            self._skipping += 1
        elif tag == "table:table":
            self._tables += 1
            if self._tables == 1:
                name = printable(attributes.get("table:name", ""))
                self._sheet = self.sheets[name] = Sheet(name, [], percents=set())
                self._row = self._first_column = self._rows = self._columns = 0
        elif self._sheet is None or self._tables > 1:
            return
        elif tag == "table:table-column":
            repeats = int(attributes.get("table:number-columns-repeated", 1))
            if attributes.get("table:visibility") in ("collapse", "filter"):
                last = min(self._first_column + repeats, MOST_COLUMNS)
                self._sheet.hidden_columns.update(range(self._first_column, last))
            self._first_column += repeats
        elif tag == "table:table-row":
            self._row_repeats = int(attributes.get("table:number-rows-repeated", 1))
            self._column, self._row_has_cells = 0, False
            if attributes.get("table:visibility") in ("collapse", "filter"):
                last = min(self._row + self._row_repeats, MOST_CELLS)
                self._sheet.hidden_rows.update(range(self._row, last))
        elif tag in ("table:table-cell", "table:covered-table-cell"):
            self._cell, self._text = attributes, []

    def _characters(self, text: str) -> None:
        if self._cell is not None and not self._skipping and len(self._text) < 20:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        if tag == "office:annotation":
            self._skipping -= 1
        elif tag == "table:table":
            self._tables -= 1
            if self._tables == 0:
                self._sheet = None
        elif self._sheet is None or self._tables > 1:
            return
        elif tag in ("table:table-cell", "table:covered-table-cell"):
            self._end_of_cell(self._sheet, self._cell or {})
            self._cell = None
        elif tag == "table:table-row":
            self._row += self._row_repeats
            if self._row_has_cells:
                self._rows = self._row
                check_size(f"{self._name} ({self._sheet.name})", self._rows, self._columns)

    def _end_of_cell(self, sheet: Sheet, cell: dict[str, str]) -> None:
        repeats = int(cell.get("table:number-columns-repeated", 1))
        text, kind = "".join(self._text).strip(), cell.get("office:value-type", "")
        formula, error = "table:formula" in cell, cell.get("calcext:value-type") == "error"
        flaw: Flaw | None = None
        if text == NOT_AVAILABLE and not formula:
            kind, text = "", ""
        elif error or (formula and _ERROR.fullmatch(text)):
            flaw = Flaw("error", text or "#ERROR")
        elif formula and not kind and not text:
            flaw = UNCALCULATED
        if kind or text or flaw:
            self._row_has_cells = True
            last = self._column + repeats
            self._columns = max(self._columns, last)
            check_size(f"{self._name} ({sheet.name})", self._row + self._row_repeats, self._columns)
            self._mark(sheet, last, flaw, kind == "percentage")
        wide, high = (int(cell.get(f"table:number-{x}-spanned", 1)) for x in ("columns", "rows"))
        if (wide > 1 or high > 1) and wide * high <= MOST_CELLS:
            end = (self._row + high - 1, self._column + wide - 1)
            sheet.merged.append(((self._row, self._column), end))
        self._column += repeats

    def _mark(self, sheet: Sheet, last: int, flaw: Flaw | None, percent: bool) -> None:
        """Notes what the cells up to a column, in all rows that are repeated, hold."""
        count = (last - self._column) * self._row_repeats
        if percent and sheet.percents is not None and len(sheet.percents) + count > MOST_MARKED:
            sheet.percents = None
        if flaw is None and (not percent or sheet.percents is None):
            return
        if flaw is not None:
            check_flaws(self._name, sheet.flaws, count)
        places = [(r, c) for r in range(self._row, self._row + self._row_repeats) for c in range(self._column, last)]
        if flaw is not None:
            sheet.flaws.update(dict.fromkeys(places, flaw))
        if percent and sheet.percents is not None:
            sheet.percents.update(places)
