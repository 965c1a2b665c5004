"""The sheets of a workbook of results that tell what failed, what columns mean, and where figures come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from prfaas_opt.sheets.layout import ShownColumn
from prfaas_opt.sheets.styles import Styles, cell_text, height_of, print_on_pages

if TYPE_CHECKING:
    import pyarrow as pa
    from xlsxwriter.worksheet import Worksheet

_MEANING = 80.0
"""Width of the column that says what a column means."""
_MOST_ERRORS = 1_048_000
_FEW_VALUES = 5
"""Of a term, that are listed one by one."""
_MOST_KINDS, _MOST_TERMS = 1000, 20_000
"""Distinct provenances and notes, and distinct terms, that are kept; a row may have terms of its own."""

_ERROR_COLUMNS = {
    "Row": 7.0,
    "Name": 22.0,
    "Status": 12.0,
    "Code": 20.0,
    "Where": 34.0,
    "What is wrong": 70.0,
    "How to mend it": 50.0,
}
"""Headers and widths."""

Columns = Mapping[str, Sequence[Any]]


def write_header(sheet: Worksheet, styles: Styles, row: int, headers: Mapping[str, float]) -> None:
    """A row of headers; their columns get these widths."""
    for index, (header, width) in enumerate(headers.items()):
        sheet.write_string(row, index, header, styles.header("row"))
        sheet.set_column(index, index, width)


class ErrorsSheet:
    """A row for each problem of each scenario that has no plan."""

    def __init__(self, sheet: Worksheet, styles: Styles) -> None:
        self._sheet, self._styles, self._row, self._left_out = sheet, styles, 0, 0
        write_header(sheet, styles, 0, _ERROR_COLUMNS)
        sheet.freeze_panes(1, 2)

    def add(self, columns: Columns) -> None:
        """Adds the problems of rows."""
        heads = zip(columns["row"], columns["name"], columns["status"], columns["problems"], strict=True)
        for row, name, status, text in heads:
            if text is None:
                if status not in ("error", "infeasible"):
                    continue
                text = "[{}]"
            for problem in msgspec.json.decode(text, type=list[dict[str, str]]):
                self._write(row, name, status, problem)

    def _write(self, row: int, name: str | None, status: str, problem: Mapping[str, str]) -> None:
        if self._row >= _MOST_ERRORS:
            self._left_out += 1
            return
        self._row += 1
        sheet, styles = self._sheet, self._styles
        widths = (_ERROR_COLUMNS["What is wrong"], _ERROR_COLUMNS["How to mend it"])
        texts = (problem.get("message", ""), problem.get("fix", ""))
        sheet.set_row(self._row, height_of(zip(texts, widths, strict=True)))
        sheet.write_number(self._row, 0, row, styles.top)
        sheet.write_string(self._row, 1, cell_text(name or ""), styles.top_indented)
        sheet.write_string(self._row, 2, status, styles.status(status))
        for index, key in enumerate(("code", "where", "message", "fix"), 3):
            style = styles.wrapped if key in ("message", "fix") else styles.top
            sheet.write_string(self._row, index, cell_text(problem.get(key, "")), style)

    def finish(self) -> None:
        """Says so where there is none."""
        if not self._row:
            self._sheet.write_string(1, 0, "Every scenario has a plan.", self._styles.quiet)
        elif self._left_out:
            self._sheet.write_string(self._row + 1, 0, f"... and {self._left_out:,} more", self._styles.quiet)
        print_on_pages(self._sheet, repeat_header=True)


def write_columns_sheet(sheet: Worksheet, styles: Styles, columns: Sequence[ShownColumn]) -> None:
    """What each column of the results means."""
    write_header(sheet, styles, 0, {"Header": 34, "Meaning": _MEANING, "Unit": 22, "Name in other formats": 46})
    for row, column in enumerate(columns, 1):
        sheet.set_row(row, height_of([(column.description, _MEANING), (column.header, 34)]))
        sheet.write_string(row, 0, cell_text(column.header), styles.wrapped)
        sheet.write_string(row, 1, cell_text(column.description), styles.wrapped)
        sheet.write_string(row, 2, column.unit, styles.top)
        sheet.write_string(row, 3, cell_text(column.name), styles.top)
    sheet.freeze_panes(1, 1)
    print_on_pages(sheet, repeat_header=True)


class ProvenanceSheet:
    """Versions, and where the figures of the scenarios come from."""

    def __init__(self, sheet: Worksheet, styles: Styles, schema: pa.Schema) -> None:
        self._sheet, self._styles = sheet, styles
        self._told = {key.decode(): text.decode() for key, text in (schema.metadata or {}).items()}
        self._sources: dict[tuple[str | None, str], int] = {}
        self._terms: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()

    def add(self, columns: Columns) -> None:
        """Takes note of what rows rest on."""
        models = columns.get("input.model") or [None] * len(columns["row"])
        for model, source in zip(models, columns["provenance"], strict=True):
            if source is not None and ((model, source) in self._sources or len(self._sources) < _MOST_KINDS):
                self._sources[model, source] = self._sources.get((model, source), 0) + 1
        for text in columns["terms"]:
            if text is not None and (text in self._terms or len(self._terms) < _MOST_TERMS):
                self._terms[text] += 1
        for text in columns["warnings"]:
            if text is not None and (text in self._notes or len(self._notes) < _MOST_KINDS):
                self._notes[text] += 1

    def finish(self) -> None:
        """Writes it all."""
        sheet, styles = self._sheet, self._styles
        for index, width in enumerate((24, 40, 16, 48, 44, 44, 10)):
            sheet.set_column(index, index, width)
        rows: list[Sequence[Any]] = [("Versions",)]
        rows += [(label, self._told[key]) for label, key in _VERSIONS.items() if self._told.get(key)]
        rows += [(), ("Where the figures of profiles come from",)]
        rows.append(("Model", "Cluster", "Hardware", "Prefill", "KVCache", "Decode", "Rows"))
        for (model, text), count in self._sources.items():
            for cluster, told in msgspec.json.decode(text).items():
                figures = (told["hardware"], told["prefill"], told["kv_cache"], told["decode"] or "")
                rows.append((model or "", cluster, *figures, count))
        rows += [(), ("What goes beyond the paper's model, or is assumed",), ("Term", "Value", "Source", "Rows")]
        rows += [(*term, count) for term, count in self._each_term().items()]
        rows += [(), ("Notes",), ("Rows", "Note")]
        rows += [(count, note) for note, count in self._notes.items()]
        for number, row in enumerate(rows):
            heading = len(row) == 1
            below_heading = number > 1 and len(rows[number - 1]) == 1
            for index, value in enumerate(row):
                style = styles.section if heading else styles.header("row") if below_heading else styles.top
                if isinstance(value, int):
                    sheet.write_number(number, index, value, style)
                else:
                    sheet.write_string(number, index, cell_text(value), style)
        print_on_pages(sheet, repeat_header=False)

    def _each_term(self) -> dict[tuple[str, str, str], int]:
        """How many rows have each value of each term, where these are few."""
        values: dict[tuple[str, str], Counter[str]] = {}
        for text, count in self._terms.items():
            for term in msgspec.json.decode(text, type=list[dict[str, str]]):
                values.setdefault((term["name"], term["source"]), Counter())[term["value"]] += count
        found: dict[tuple[str, str, str], int] = {}
        for (name, source), counts in values.items():
            if len(counts) > _FEW_VALUES:
                found[name, f"{len(counts):,} different values", source] = counts.total()
            else:
                found |= {(name, value, source): count for value, count in counts.items()}
        return found


_VERSIONS = {
    "Study": "study",
    "Program": "program",
    "Version of the columns": "schema_version",
    "Planned for": "objective",
}
