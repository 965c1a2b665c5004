"""A workbook to start from: example scenarios under the headers that are understood, with lists of what is known."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io import catalog
from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.catalogue import Column, scenario_columns
from prfaas_opt.sheets.results_book import MADE
from prfaas_opt.sheets.styles import Styles, height_of, print_on_pages
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlsxwriter.worksheet import Worksheet

SCENARIOS = "Scenarios"

_ALSO = (
    "clusters.prfaas.price_per_gpu_hour",
    "clusters.pd.price_per_gpu_hour",
    "links.0.price_per_gb",
    "links.0.rtt",
    "slo.ttft.p90",
    "estimator",
)
"""Columns beside those that every scenario needs: what planners ask next."""

EXAMPLES: tuple[Mapping[str, str | float], ...] = (
    {},
    {"name": "half the link", "links.0.bandwidth": 50},
    {
        "name": "full attention",
        "model": "minimax-m2.5",
        "clusters.prfaas.price_per_gpu_hour": 2.5,
        "clusters.pd.price_per_gpu_hour": 1.2,
        "links.0.price_per_gb": 0.01,
    },
    {"name": "over a long link", "links.0.rtt": 40, "slo.ttft.p90": 9},
)
"""Example rows: what differs from the examples of the columns."""

_HELP = 120.0
"""Width of the column with help."""
_ROWS_WITH_LISTS = 1000
"""Rows below the header whose cells offer lists."""

_NOTES = (
    "One row is one scenario. Fill in rows, then run: prfaas-opt study FILE.xlsx -o results.xlsx",
    "A number is in the unit of its header; a text may have its own: 100 Gbps, 32K, 80 ms.",
    "An empty cell leaves its field as it is by default. A note at each header says what the column means.",
    "Columns may be removed, moved or added: by their names, which are listed below, or by paths such as links.0.rtt.",
    "Cells of Model, Workload and GPU offer what is known; a path of your own file is as good.",
    "Prices, measured profiles and workloads may stand on sheets of their own.",
)


def template_columns() -> list[Column]:
    """The columns of the template, in the order of the catalogue."""
    return [each for each in scenario_columns() if each.example is not None or each.path in _ALSO]


def write_template(path: Path, replace: bool = False) -> Path:
    """Writes a workbook with example scenarios, lists of what is known, and a note at each header.

    Args:
        path: the file, .xlsx.
        replace: a file that is there.

    Raises:
        InputError: the file is there and is not to be replaced, is no .xlsx, or cannot be written.
    """
    where = printable(str(path))
    if path.suffix.lower() != ".xlsx":
        message = (
            f'ends in "{printable(path.suffix)}", expected .xlsx' if path.suffix else "has no suffix, expected .xlsx"
        )
        raise InputError(Problem("unknown-format", where, message, f"name it {printable(path.stem)}.xlsx"))
    if path.exists() and not replace:
        raise InputError(Problem("file-exists", where, "is there already", "name another file, or add --force"))
    file = UnfinishedFile(path)
    try:
        with writable(path):
            file.stream.write(_workbook())
        file.finish()
    finally:
        file.discard()
    return path


def _workbook() -> bytes:
    import xlsxwriter

    stream = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(stream, options) as book:
        book.set_properties({"created": MADE, "title": "Scenarios for prfaas-opt", "author": ""})
        styles, columns = Styles(book), template_columns()
        scenarios, columns_sheet, lists = (book.add_worksheet(name) for name in (SCENARIOS, "Help", "Lists"))
        places = _write_lists(lists, columns)
        _write_scenarios(scenarios, styles, columns, places)
        _write_help(columns_sheet, styles)
        lists.hide()
        scenarios.activate()
    return stream.getvalue()


def _write_lists(sheet: Worksheet, columns: Sequence[Column]) -> dict[str, str]:
    """Writes what is known for some columns; the range of each list by the column's path."""
    known = _known()
    places = {}
    for index, column in enumerate(each for each in columns if each.path in known or each.choices):
        words = known.get(column.path) or list(column.choices)
        sheet.write_column(0, index, words)
        letter = chr(ord("A") + index)
        places[column.path] = f"=Lists!${letter}$1:${letter}${len(words)}"
    return places


def _known() -> dict[str, list[str]]:
    """The models and workloads that are found by their name, and the hardware of these models' profiles."""
    models, hardware = _models()
    return {
        "model": models,
        "workload": list(catalog.entries("workloads")),
        "clusters.prfaas.hardware": hardware,
        "clusters.pd.hardware": hardware,
    }


def _models() -> tuple[list[str], list[str]]:
    """Names of the models that can be read, and of the hardware that they have profiles for."""
    from prfaas_opt.io.loading import load_model

    names: list[str] = []
    hardware: set[str] = set()
    for name in catalog.entries("models"):
        try:
            model = load_model(name)
        except InputError:
            # A file of the user's that is wrong is told of by whoever names it.
            continue
        names.append(name)
        hardware |= set(model.hardware)
    return names, sorted(hardware)


def _write_scenarios(sheet: Worksheet, styles: Styles, columns: Sequence[Column], places: Mapping[str, str]) -> None:
    sheet.set_row(0, 32)
    for index, column in enumerate(columns):
        sheet.write_string(0, index, column.header, styles.header("input"))
        sheet.write_comment(0, index, _note(column), {"x_scale": 2, "y_scale": 1.2, "author": ""})
        sheet.set_column(index, index, _width(column), styles.number(column.number_format))
        if column.path in places:
            offered = {
                "validate": "list",
                "source": places[column.path],
                # A path, or a name that is known elsewhere, is not refused.
                "error_type": "information",
                "error_title": "Not in the list",
                "error_message": "It is taken all the same: as a name or path that is known where the study runs.",
            }
            sheet.data_validation(1, index, _ROWS_WITH_LISTS, index, offered)
    for row, example in enumerate(EXAMPLES, 1):
        for index, column in enumerate(columns):
            value = example.get(column.path, column.example)
            if isinstance(value, str):
                sheet.write_string(row, index, value)
            elif value is not None:
                sheet.write_number(row, index, value, styles.number(column.number_format))
    sheet.freeze_panes(1, 1)
    print_on_pages(sheet, repeat_header=True)


def _width(column: Column) -> float:
    longest = max(len(str(each.get(column.path, column.example or ""))) for each in EXAMPLES)
    return max(min(14.0, len(column.header) + 2.0), longest + 2.0)


def _note(column: Column) -> str:
    lines = [column.doc, column.unit and f"unit: {column.unit}", f"field: {column.path}"]
    if column.choices:
        lines.append(f"one of: {', '.join(column.choices)}")
    return "\n".join(filter(None, lines))


def _write_help(sheet: Worksheet, styles: Styles) -> None:
    """What to do, and every column there is: a line each, so that none of them looks like a header."""
    sheet.set_column(0, 0, _HELP)
    sheet.write_string(0, 0, "How to fill in the scenarios", styles.title)
    columns = [f"{each.header}: {each.doc} [{each.path}]" for each in scenario_columns()]
    for row, text in enumerate([*_NOTES, "", *columns], 2):
        sheet.set_row(row, height_of([(text, _HELP)]))
        sheet.write_string(row, 0, text, styles.wrapped)
    print_on_pages(sheet, repeat_header=False)
