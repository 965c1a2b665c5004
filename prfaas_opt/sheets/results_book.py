"""Results as a workbook: a summary with charts, a row a scenario, what failed, what columns mean, provenance."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.sheets import MOST_ROWS
from prfaas_opt.sheets.layout import ShownColumn, columns_shown
from prfaas_opt.sheets.styles import Styles, cell_text, print_on_pages
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    import pyarrow as pa
    from xlsxwriter.worksheet import Worksheet

MADE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)
"""When every workbook says that it was made: the same results give the same bytes."""


class ResultsBook:
    """Writes a workbook of results, row after row, whatever their number."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import xlsxwriter

        from prfaas_opt.sheets.results_sheets import ErrorsSheet, ProvenanceSheet, write_columns_sheet
        from prfaas_opt.sheets.results_summary import Summary

        self._file = UnfinishedFile(path)
        self._folder = tempfile.TemporaryDirectory(prefix="prfaas-opt-")
        self._book = xlsxwriter.Workbook(
            self._file.stream,
            {
                "constant_memory": True,
                "tmpdir": self._folder.name,
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
            },
        )
        self._book.set_properties({"created": MADE, "title": _told(schema, "study"), "author": ""})
        self._styles = Styles(self._book)
        self._columns = columns_shown(schema)
        sheets = {name: self._book.add_worksheet(name) for name in ("Summary", "Results", "Errors", "Columns")}
        self._results: Worksheet = sheets["Results"]
        self._errors = ErrorsSheet(sheets["Errors"], self._styles)
        write_columns_sheet(sheets["Columns"], self._styles, self._columns)
        self._provenance = ProvenanceSheet(self._book.add_worksheet("Provenance"), self._styles, schema)
        self._summary = Summary(
            self._book,
            sheets["Summary"],
            self._styles,
            self._columns,
            _told(schema, "study"),
            cheapest=_told(schema, "objective") == "cost",
        )
        self._rows = 0
        self._seen = [False] * len(self._columns)
        self._begin()

    def _begin(self) -> None:
        sheet, styles = self._results, self._styles
        sheet.set_row(0, 48)
        for index, column in enumerate(self._columns):
            sheet.write_string(0, index, cell_text(column.header), styles.header(column.group))
            sheet.write_comment(0, index, column.note, {"x_scale": 2, "y_scale": 1.2, "author": ""})
        sheet.freeze_panes(1, 2)

    def write(self, table: pa.Table) -> None:
        """Adds rows.

        Raises:
            InputError: they are more than a sheet holds.
        """
        if self._rows + len(table) > MOST_ROWS:
            message = f"a sheet holds {MOST_ROWS:,} scenarios, and there are more"
            where = printable(str(self._file.path))
            raise InputError(Problem("too-many", where, message, "write the study as .parquet or .csv"))
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        with writable(self._file.path):
            self._write_results(columns, len(table))
            self._errors.add(columns)
        self._provenance.add(columns)
        self._summary.add(columns, self._rows)
        self._rows += len(table)

    def _write_results(self, columns: Mapping[str, Sequence[Any]], count: int) -> None:
        sheet, styles = self._results, self._styles
        cells: list[tuple[int, ShownColumn, Sequence[Any], Any]] = []
        for index, column in enumerate(self._columns):
            values = columns[column.name]
            if any(value is not None for value in values):
                self._seen[index] = True
                cells.append((index, column, values, styles.number(column.number_format)))
        # A row must be complete before the next: what is before it is on disk already.
        for offset in range(count):
            row = 1 + self._rows + offset
            for index, column, values, style in cells:
                value = values[offset]
                if value is None:
                    continue
                if column.is_number:
                    sheet.write_number(row, index, value, style)
                elif column.name == "status":
                    sheet.write_string(row, index, value, styles.status(value))
                else:
                    sheet.write_string(row, index, cell_text(str(value)), styles.indented)

    def close(self) -> None:
        """Completes the file and gives it its name."""
        with writable(self._file.path):
            self._finish_results()
            self._errors.finish()
            self._provenance.finish()
            self._summary.finish(self._rows)
            self._book.close()
        self._folder.cleanup()
        self._file.finish()

    def _finish_results(self) -> None:
        sheet = self._results
        for index, column in enumerate(self._columns):
            hidden = not self._seen[index]
            if column.group == "other":
                # Folded away, to be opened by the sign above the columns.
                sheet.set_column(index, index, column.width, None, {"level": 1, "hidden": True})
            else:
                sheet.set_column(index, index, column.width, None, {"hidden": hidden})
        sheet.autofilter(0, 0, max(1, self._rows), len(self._columns) - 1)
        print_on_pages(sheet, repeat_header=True, pages_wide=2)
        sheet.repeat_columns(0, 1)

    def abort(self) -> None:
        """Leaves nothing of the file."""
        with contextlib.suppress(Exception):
            # It must be closed, or it complains later that nobody did.
            self._book.close()
        self._folder.cleanup()
        self._file.discard()


def _told(schema: pa.Schema, key: str) -> str:
    metadata = schema.metadata or {}
    return metadata.get(key.encode(), b"").decode()
