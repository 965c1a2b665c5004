"""Spreadsheets: scenarios in, plans out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.study.outputs import Format, Writer, register

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1_048_575
"""Scenarios that a sheet of results holds below its header."""


def _results_book(path: Path, schema: pa.Schema) -> Writer:
    from prfaas_opt.sheets.results_book import ResultsBook

    return ResultsBook(path, schema)


register(Format(".xlsx", "Excel workbook", _results_book, most_rows=MOST_ROWS))
