"""Spreadsheets made for tests."""

from __future__ import annotations

import copy
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xlsxwriter

from prfaas_opt.sheets.rows import SheetRows
from prfaas_opt.study.rows import UNSET

HEADERS = (
    "Name",
    "Model",
    "Workload",
    "GPU (prefill)",
    "Prefill instances",
    "GPU (PD)",
    "PD instances",
    "Link (Gbps)",
    "SLO (tokens/s)",
)
ROW = ("case study", "internal-1t", "prfaas-case-study", "H200", 4, "H20", 8, 100, 40)
VALUES = ("case study", "internal-1t", "prfaas-case-study", "H200", 4, "H20", 8, "100Gbps", 40)


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    """An .xlsx of sheets with rows from A1 on; a text that begins with "=" is a formula without a value."""
    with xlsxwriter.Workbook(str(path), {"strings_to_formulas": False}) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for r, row in enumerate(rows):
                for c, cell in enumerate(row):
                    if isinstance(cell, str) and cell.startswith("="):
                        sheet.write_formula(r, c, cell, None, "")
                    elif cell is not None:
                        sheet.write(r, c, cell)
    return path


def scenarios(path: Path, *rows: Sequence[Any], headers: Sequence[Any] = HEADERS) -> Path:
    """An .xlsx with a sheet of scenarios; without rows, one of the case study."""
    return workbook(path, {"Scenarios": [headers, *(rows or [ROW])]})


_ODS = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{rest}"'
    for prefix, rest in (("office", "office:1.0"), ("table", "table:1.0"), ("text", "text:1.0"))
)
_CALCEXT = 'xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"'


def ods(path: Path, tables: str) -> Path:
    """An .ods whose spreadsheet holds this XML."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr(
            "content.xml",
            f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {_ODS} {_CALCEXT}><office:body>'
            f"<office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>",
        )
    return path


def ods_row(*cells: Any, attributes: str = "") -> str:
    """A row of an .ods, of texts and numbers; XML in a tuple stands for itself."""
    made = []
    for cell in cells:
        if isinstance(cell, tuple):
            made.append(cell[0])
        elif cell is None:
            made.append("<table:table-cell/>")
        elif isinstance(cell, str):
            made.append(f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>')
        else:
            made.append(
                f'<table:table-cell office:value-type="float" office:value="{cell}"><text:p>{cell}</text:p>'
                "</table:table-cell>"
            )
    return f"<table:table-row {attributes}>{''.join(made)}</table:table-row>"


def row_of(rows: SheetRows, row: int = 0) -> dict[str, Any]:
    """What a row sets."""
    (values,) = rows.values(row, row + 1)
    return {field: value for field, value in zip(rows.fields, values, strict=True) if value is not UNSET}


def filled(rows: SheetRows, row: int = 0) -> dict[str, Any]:
    """The document of a row, its fields set one after the other, as a study does."""
    data = copy.deepcopy(rows.base.data)
    for field, value in row_of(rows, row).items():
        *steps, last = field.split(".")
        at = data
        for step in steps:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        at[last] = value
    assert isinstance(data, dict)
    return data


def codes(rows: SheetRows, row: int = 0) -> list[tuple[str, str]]:
    return [(problem.code, problem.where) for problem in rows.problems(row)]
