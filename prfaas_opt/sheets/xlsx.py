""".xlsx workbooks: values from calamine, and from the XML itself what that does not show.

Errors, formulas without a cached value, hidden rows and columns and percent formats are not in what the fast reader
returns. One streaming pass over a sheet's XML sees them; it is made only where the XML holds anything of the kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.archive import Parts, read_parts, refused
from prfaas_opt.sheets.book import (
    MOST_CELLS,
    MOST_CHARACTERS,
    MOST_COLUMNS,
    MOST_MARKED,
    NOT_AVAILABLE,
    UNCALCULATED,
    Book,
    Flaw,
    Place,
    column_number,
)
from prfaas_opt.sheets.calamine import grids
from prfaas_opt.sheets.extent import check_size, count_cells, extent

if TYPE_CHECKING:
    from collections.abc import Iterable

_TO_SEE = (b"<f", b"hidden", b'"e"')
"""Without these a sheet's XML has no formula, nothing hidden and no error."""
_TEXTS = re.compile(rb"<(?:\w+:)?sst[\s>/]")
_MOST_TEXT_BYTES = 128 * 2**20
_REFERENCE = re.compile(r"[A-Z]{1,3}[1-9][0-9]{0,6}")
_MANY_STYLES = 20
_MOST_OUTLINE_BYTES = 8 * 2**20
_BUILT_IN_PERCENT = {9, 10}


@dataclass
class Marks:
    """What a sheet's XML shows beside values."""

    flaws: dict[Place, Flaw] = field(default_factory=dict)
    percents: set[Place] | None = field(default_factory=set)
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)
    rows: int = 0
    columns: int = 0
    text_bytes: int = 0


def read_xlsx(data: bytes, name: str, names: Iterable[str]) -> Book:
    """The workbook in an archive with these parts.

    Raises:
        InputError: it has macros, is damaged, too large, or hostile.
    """
    if any(part.rsplit("/", 1)[-1].lower().startswith("vbaproject") for part in names):
        raise _macros(name)
    parts = read_parts(data, name, lambda part: part.endswith((".xml", ".rels")) and "/drawings/" not in part)
    if b"macroEnabled" in parts.get("[Content_Types].xml", b""):
        raise _macros(name)
    for each in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/styles.xml"):
        if len(parts.get(each, b"")) > _MOST_OUTLINE_BYTES:
            message = f"is larger than {_MOST_OUTLINE_BYTES // 2**20} MiB"
            raise refused(f"{name} ({each})", message, "copy the scenarios to a new workbook", "too-large")
    try:
        outline = Outline(parts)
    except (KeyError, ValueError, expat.ExpatError, SyntaxError):
        message = "is no complete workbook: its list of sheets cannot be read"
        raise refused(name, message, "open it in a spreadsheet program and save it anew", "damaged-file") from None
    texts = [part for part in parts.values() if _TEXTS.search(part, 0, 4096)]
    if len(texts) > 1:
        raise refused(name, "has several lists of texts, expected one", "save it anew as .xlsx")
    lengths = _text_lengths(texts[0] if texts else b"", name)
    marks = {}
    for title, target in outline.targets.items():
        if target in parts:
            marks[printable(title)] = look(parts[target], f"{name} ({printable(title)})", outline, lengths)
    for target, part in parts.items():
        # Whatever else a reader may take for a sheet.
        if target not in outline.targets.values() and b"sheetData" in part:
            look(part, f"{name} ({printable(target)})", outline, lengths)
    packed = parts.packed()
    parts.clear()
    sheets = []
    for sheet in grids(packed, name):
        seen = marks.get(sheet.name, Marks())
        sheet.flaws, sheet.percents = seen.flaws, seen.percents
        sheet.hidden_rows, sheet.hidden_columns = seen.hidden_rows, seen.hidden_columns
        sheets.append(sheet)
    return Book(name, "xlsx", sheets)


def _macros(name: str) -> InputError:
    message = "is a workbook with macros, which are not opened"
    return refused(name, message, "save it as .xlsx, without macros", "macro-workbook")


class Outline:
    """What a workbook says of its sheets."""

    def __init__(self, parts: Parts) -> None:
        from defusedxml.ElementTree import fromstring

        relations = fromstring(parts["xl/_rels/workbook.xml.rels"])
        by_id = {each.get("Id"): each for each in relations}
        self.targets: dict[str, str] = {}
        self.recalculates = False
        for element in fromstring(parts["xl/workbook.xml"]).iter():
            kind = element.tag.rpartition("}")[2]
            if kind == "sheet":
                ids = [value for key, value in element.attrib.items() if key.rpartition("}")[2] == "id"]
                relation = by_id.get(ids[0]) if ids else None
                if relation is not None:
                    self.targets[element.attrib["name"]] = _part(relation.get("Target", ""))
            elif kind == "calcPr":
                self.recalculates = element.get("fullCalcOnLoad") in ("1", "true")
        self.percent_styles = _percent_styles(parts.get("xl/styles.xml"))


def _part(target: str) -> str:
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _percent_styles(part: bytes | None) -> set[str]:
    """The styles of cells whose number format is a percentage."""
    from defusedxml.ElementTree import fromstring

    if not part:
        return set()
    root = fromstring(part)
    space = root.tag.rpartition("}")[0] + "}" if "}" in root.tag else ""
    percent = set(_BUILT_IN_PERCENT)
    for each in root.iter(f"{space}numFmt"):
        if "%" in re.sub(r'"[^"]*"|\\.', "", each.get("formatCode", "")):
            percent.add(int(each.get("numFmtId", 0)))
    styles = root.find(f"{space}cellXfs")
    return set() if styles is None else {str(i) for i, xf in enumerate(styles) if int(xf.get("numFmtId", 0)) in percent}


def _text_lengths(part: bytes, name: str) -> list[int]:
    """An upper bound of the bytes of each shared text."""
    starts = [match.start() for match in re.finditer(rb"<(?:\w+:)?si[\s/>]", part)] + [len(part)]
    lengths = [end - start for start, end in pairwise(starts)]
    # Each of at most MOST_CHARACTERS may be written in six bytes, as &quot;.
    if lengths and max(lengths) > 6 * MOST_CHARACTERS:
        raise _long_cell(name, max(lengths))
    return lengths


def _long_cell(name: str, length: int) -> InputError:
    message = f"holds a cell of about {length:,} characters, at most {MOST_CHARACTERS:,} are read"
    return refused(name, message, "cut it; spreadsheet programs stop at 32,767", "too-large")


def look(part: bytes, name: str, outline: Outline, lengths: list[int]) -> Marks:
    """What a sheet's XML shows beside values, its size checked.

    Raises:
        InputError: the sheet is larger than any that is read.
    """
    cells, plain = count_cells(part)
    if cells > MOST_CELLS:
        fix = "delete the rows and columns beyond the scenarios"
        raise refused(name, f"has {cells:,} cells, at most {MOST_CELLS:,} cells are read", fix, "too-large")
    size = extent(part, cells) if plain else None
    marks = None if size is None else Marks(rows=size[0], columns=size[1])
    many_texts = len(lengths) and max(lengths) * cells > _MOST_TEXT_BYTES
    styles = outline.percent_styles
    # A look at every cell is quicker than a search for each of many styles.
    shown = len(styles) > _MANY_STYLES or any(b's="%b"' % style.encode() in part for style in styles)
    percents = styles if shown else set()
    to_see = any(sign in part for sign in _TO_SEE) or (b"'" in part and b"'e'" in part)
    if marks is None or many_texts or percents or to_see:
        uncached = outline.recalculates
        looker = Looker(percents, uncached, lengths if many_texts else [], name)
        marks = looker.look(part, marks)
    check_size(name, marks.rows, marks.columns)
    if marks.text_bytes > _MOST_TEXT_BYTES:
        message = (
            f"repeats long texts to {marks.text_bytes / 2**20:,.0f} MiB, at most {_MOST_TEXT_BYTES // 2**20} are read"
        )
        raise refused(name, message, "keep only the scenarios", "too-large")
    return marks


def check_flaws(name: str, flaws: dict[Place, Flaw], more: int = 0) -> None:
    """Refuses a sheet in which nearly nothing has a value.

    Raises:
        InputError: it is such.
    """
    if len(flaws) + more > MOST_MARKED:
        message = f"has more than {MOST_MARKED:,} cells with errors or formulas that were never calculated"
        raise refused(name, message, "open and save it in a spreadsheet program", "too-large")


class Looker:
    """Reads a sheet's XML once, from start to end."""

    def __init__(self, percents: set[str], uncached: bool, lengths: list[int], name: str) -> None:
        self._percents, self._uncached, self._lengths, self._name = percents, uncached, lengths, name
        self._marks = Marks()
        self._row, self._column = -1, -1
        self._type, self._formula, self._text = "", False, ""
        self._inside = self._watching = False
        self._attributes: dict[str, str] = {}
        self._flaws: dict[str, Flaw] = {}

    def look(self, part: bytes, extent: Marks | None) -> Marks:
        """The marks of the sheet; ``extent``: its size, where it is known and every cell states its reference."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        if extent is None:
            parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        else:
            parser.StartElementHandler = self._start_plain
            self._marks.rows, self._marks.columns = extent.rows, extent.columns
        self._parser = parser
        try:
            parser.Parse(part, True)
        except (expat.ExpatError, ValueError) as error:
            message = f"is no complete workbook: {error}"
            fix = "open it in a spreadsheet program and save it anew"
            raise InputError(Problem("damaged-file", self._name, message, fix)) from None
        return self._marks

    def _start_plain(self, tag: str, attributes: dict[str, str]) -> None:
        """As ``_start``, of cells with references: most of them are passed by."""
        if tag == "c":
            kind = attributes.get("t")
            self._attributes, self._watching = attributes, False
            texts = self._lengths and kind == "s"
            if kind == "e" or texts or (self._percents and attributes.get("s") in self._percents):
                self._watch()
        elif tag in ("v", "t"):
            if self._watching:
                self._start(tag, attributes)
        elif tag == "f":
            if not self._watching:
                self._watch()
            self._formula = True
        elif tag in ("row", "col"):
            self._start(tag, attributes)

    def _watch(self) -> None:
        self._watching = True
        self._cell(self._attributes)
        self._parser.EndElementHandler = self._end

    def _doctype(self, *_: Any) -> None:
        raise refused(self._name, "declares a document type, which no workbook needs", "save it anew as .xlsx")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if ":" in tag:
            tag = tag.rpartition(":")[2]
        if tag == "c":
            self._cell(attributes)
        elif tag == "f":
            self._formula = True
        elif tag in ("v", "t"):
            if self._formula or self._type == "e" or (self._lengths and self._type == "s"):
                self._inside = True
                self._parser.CharacterDataHandler = self._characters
        elif tag == "row":
            self._row = int(attributes["r"]) - 1 if attributes.get("r", "").isdecimal() else self._row + 1
            self._column = -1
            if attributes.get("hidden") in ("1", "true"):
                self._marks.hidden_rows.add(self._row)
        elif tag == "col" and attributes.get("hidden") in ("1", "true"):
            first, last = int(attributes.get("min", 1)), int(attributes.get("max", 1))
            self._marks.hidden_columns.update(range(first - 1, min(last, MOST_COLUMNS)))

    def _cell(self, attributes: dict[str, str]) -> None:
        reference = attributes.get("r", "")
        row = reference.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        if not reference:
            self._column += 1
        elif not _REFERENCE.fullmatch(reference):
            message = f"has a cell called {printable(reference[:20])}, expected A1 to XFD1048576"
            raise refused(self._name, message, "open it in a spreadsheet program and save it anew", "damaged-file")
        else:
            self._row, self._column = int(row) - 1, column_number(reference[: -len(row)])
        marks = self._marks
        if self._column >= MOST_COLUMNS:
            check_size(self._name, self._row + 1, self._column + 1)
        marks.rows, marks.columns = max(marks.rows, self._row + 1), max(marks.columns, self._column + 1)
        self._type, self._formula, self._text, self._inside = attributes.get("t", ""), False, "", False
        if marks.percents is not None and attributes.get("s") in self._percents:
            marks.percents.add((self._row, self._column))
            if len(marks.percents) > MOST_MARKED:
                marks.percents = None

    def _characters(self, text: str) -> None:
        if self._inside and len(self._text) < 100:
            self._text += text

    def _end(self, tag: str) -> None:
        if tag == "v" or tag.endswith(":v") or tag == "t":
            if self._inside:
                self._inside = False
                self._parser.CharacterDataHandler = None
        elif tag == "c" or tag.endswith(":c"):
            self._end_of_cell()
            if self._watching:
                self._watching = False
                self._parser.EndElementHandler = None

    def _end_of_cell(self) -> None:
        here = (self._row, self._column)
        if self._type == "e":
            text = self._text.strip()[:20] or "#ERROR"
            if text != NOT_AVAILABLE or self._formula:
                self._marks.flaws[here] = self._flaws.setdefault(text, Flaw("error", text))
        elif self._formula and (
            (not self._text and self._type != "str") or (self._uncached and self._text.strip() in ("", "0"))
        ):
            self._marks.flaws[here] = UNCALCULATED
        elif self._lengths and self._type == "s" and self._text.isdecimal() and int(self._text) < len(self._lengths):
            self._marks.text_bytes += self._lengths[int(self._text)]
        self._type, self._formula = "", False
        check_flaws(self._name, self._marks.flaws)
