"""Results as workbooks: numbers are numbers, nothing runs, and a spreadsheet program opens them."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pytest

import prfaas_opt.sheets
from prfaas_opt.errors import InputError
from prfaas_opt.sheets.layout import MAIN, columns_shown
from prfaas_opt.sheets.results_book import ResultsBook
from prfaas_opt.study.chunks import plan_chunk
from prfaas_opt.study.columns import plan_columns
from prfaas_opt.study.outputs import check_output, formats, writer_for
from prfaas_opt.study.rows import UNSET
from tests.studies import written
from tests.study_rows import ListedRows

TEXTS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "<r>x</r>",
    "http://example.com",
    "12",
    "{=A1}",
    "a\x01b",
    "x" * 40_000,
]

ROWS = ListedRows(
    ("name", "links.0.bandwidth", "clusters.pd.instances", "model", "links.0.rtt", "clusters.pd.max_utilization"),
    [
        *(
            (text.replace("\x01", ""), f"{10 + 7.5 * i}Gbps", 4 + i % 3, "internal-1t", "20ms", 0.9)
            for i, text in enumerate(TEXTS)
        ),
        ("bad", "fast", 0, "internal-1t", UNSET, UNSET),
        ("none", "1Gbps", 3, "no-such", UNSET, UNSET),
    ],
    name="=study",
    extra_columns=("Owner", "=Note"),
    cells=[(text, None) for text in TEXTS] + [(None, None)] * 2,
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return plan_chunk(ROWS, 0, len(ROWS))


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("book") / "out.xlsx", table)


def rows_of(sheet: Any) -> list[dict[str, Any]]:
    header, *rows = sheet.iter_rows(values_only=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_results_stand_beside_inputs_as_numbers_with_formats(path: Path, table: pa.Table) -> None:
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Summary", "Results", "Errors", "Columns", "Provenance"]
    sheet = book["Results"]
    shown = columns_shown(table.schema)
    names = {column.name: index for index, column in enumerate(shown, 1)}
    assert sheet.max_row == len(table) + 1
    for row, values in enumerate(table.to_pylist(), 2):
        for column in shown:
            cell, value = sheet.cell(row, names[column.name]), values[column.name]
            if value is None:
                assert cell.value is None
            elif column.is_number:
                assert cell.data_type == "n"
                # Sixteen digits, as the library writes them.
                assert cell.value == pytest.approx(value, rel=1e-14)
                assert cell.number_format == column.number_format != "General"
            else:
                assert cell.data_type in ("s", "inlineStr")
    formats_of = {column.name: column.number_format for column in shown}
    assert formats_of["offload_share"] == "0.0%"
    assert formats_of["input.clusters.pd.max_utilization"] == "0.0%"
    assert formats_of["threshold_tokens"] == "#,##0"


def test_headers_are_those_of_people_with_units_and_a_note_each(path: Path) -> None:
    header = next(openpyxl.load_workbook(path)["Results"].iter_rows(max_row=1))
    texts = [cell.value for cell in header]
    assert texts[:9] == [
        "Row",
        "Name",
        "Link (Gbps)",
        "PD instances",
        "Model",
        "RTT (s)",
        "PD max utilization",
        "Owner",
        "=Note",
    ]
    assert texts[9 : 9 + len(MAIN)] == list(MAIN.values())
    assert len(set(texts)) == len(texts)
    assert all(cell.comment is not None and "column: " in cell.comment.text for cell in header)


def test_every_figure_of_a_plan_but_json_is_a_column(table: pa.Table) -> None:
    shown = {column.name for column in columns_shown(table.schema)}
    assert {each.name for each in plan_columns() if not each.is_json} <= shown


def test_no_text_is_a_formula_or_a_link(path: Path) -> None:
    book = openpyxl.load_workbook(path)
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                assert cell.data_type != "f", (sheet.title, cell.coordinate)
                assert cell.hyperlink is None
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/"):
                raw = archive.read(name)
                assert b"<f>" not in raw
                assert b"<r>" not in raw
    owners = [row["Owner"] for row in rows_of(book["Results"])]
    assert owners[:5] == TEXTS[:5]
    assert owners[5].strip() == "<r>x</r>"
    assert owners[6:9] == TEXTS[6:9]
    assert len(owners[10]) == 32_767


def test_a_row_an_error_tells_where_why_and_what_to_do(path: Path) -> None:
    errors = rows_of(openpyxl.load_workbook(path)["Errors"])
    assert [(each["Row"], each["Name"], each["Code"], each["Where"]) for each in errors] == [
        (11, "bad", "out-of-range", "row 11 clusters.pd.instances"),
        (11, "bad", "bad-unit", "row 11 links.0.bandwidth"),
        (12, "none", "unknown-name", "row 12 model"),
    ]
    assert all(each["What is wrong"] for each in errors)
    assert errors[1]["How to mend it"]


def test_the_summary_counts_and_has_charts(path: Path) -> None:
    sheet = openpyxl.load_workbook(path)["Summary"]
    cells = [cell for row in sheet.iter_rows(values_only=True) for cell in row]
    assert cells[0] == "=study"
    assert "13 scenarios, 11 with a plan" in cells
    with zipfile.ZipFile(path) as archive:
        charts = [name for name in archive.namelist() if name.startswith("xl/charts/chart")]
        scatter = [name for name in charts if b"scatterChart" in archive.read(name)]
    assert len(charts) == 4
    assert len(scatter) == 2


def test_provenance_and_versions_are_told(path: Path) -> None:
    cells = [cell for row in openpyxl.load_workbook(path)["Provenance"].iter_rows(values_only=True) for cell in row]
    for text in ("prfaas-opt 0.1.0", "paper, table 5", "fitted, to three figures of table 6", "no compression"):
        assert text in cells


def test_columns_of_which_nothing_is_known_are_hidden_and_the_others_shown(path: Path, table: pa.Table) -> None:
    sheet = openpyxl.load_workbook(path)["Results"]
    hidden = set()
    for letters, dimension in sheet.column_dimensions.items():
        if dimension.hidden:
            hidden |= set(range(dimension.min or 0, (dimension.max or 0) + 1))
        assert letters
    for index, column in enumerate(columns_shown(table.schema), 1):
        empty = table.column(column.name).null_count == len(table)
        assert (index in hidden) == (empty or column.group == "other"), column.name
    assert sheet.freeze_panes == "C2"
    assert sheet.page_setup.orientation == "landscape"
    assert sheet.page_setup.fitToWidth == 2
    assert sheet.auto_filter.ref is not None


def test_bytes_are_the_same_whatever_the_parts(tmp_path: Path, path: Path, table: pa.Table) -> None:
    again = written(tmp_path / "again.xlsx", table.slice(0, 2), table.slice(2, 0), table.slice(2))
    assert again.read_bytes() == path.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["again.xlsx"]


def test_an_aborted_book_leaves_nothing(tmp_path: Path, table: pa.Table) -> None:
    writer = writer_for(tmp_path / "out.xlsx", table.schema)
    writer.write(table)
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_more_rows_than_a_sheet_holds_are_an_error_up_front(
    tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert formats()[".xlsx"].most_rows == prfaas_opt.sheets.MOST_ROWS == 2**20 - 1
    with pytest.raises(InputError, match="holds at most 1,048,575 rows, and the study has 2,000,000"):
        check_output(tmp_path / "out.xlsx", 2_000_000)
    monkeypatch.setattr("prfaas_opt.sheets.results_book.MOST_ROWS", 20)
    writer = ResultsBook(tmp_path / "out.xlsx", table.schema)
    writer.write(table)
    with pytest.raises(InputError, match="a sheet holds 20 scenarios"):
        writer.write(table)
    writer.abort()


def test_a_study_of_failures_alone_is_a_book_too(tmp_path: Path) -> None:
    rows = ListedRows(("clusters.pd.instances",), [(0,), (-1,)])
    book = openpyxl.load_workbook(written(tmp_path / "out.xlsx", plan_chunk(rows, 0, 2)))
    assert len(rows_of(book["Errors"])) == 2


def test_a_study_without_failures_says_so(tmp_path: Path) -> None:
    rows = ListedRows(("clusters.pd.instances",), [(8,)])
    book = openpyxl.load_workbook(written(tmp_path / "out.xlsx", plan_chunk(rows, 0, 1)))
    assert book["Errors"].cell(2, 1).value == "Every scenario has a plan."


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_libreoffice_opens_it_and_makes_a_pdf_of_it(path: Path, tmp_path: Path) -> None:
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = ["soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", str(tmp_path), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "out.pdf").stat().st_size > 20_000


def summary_of(path: Path) -> list[list[Any]]:
    """The rows of the summary, without empty cells."""
    rows = openpyxl.load_workbook(path)["Summary"].iter_rows(values_only=True)
    return [[cell for cell in row if cell is not None] for row in rows]


def test_the_summary_says_why_rows_have_no_plan(path: Path) -> None:
    rows = summary_of(path)
    at = rows.index(["Without a plan", "Scenarios", "First"])
    assert [row[:2] for row in rows[at + 1 : at + 3]] == [["out-of-range", 1], ["unknown-name", 1]]
    assert rows[at + 1][2].startswith("row 11 clusters.pd.instances: found 0")


def test_a_summary_of_failures_alone_has_no_empty_tables(tmp_path: Path) -> None:
    file = written(tmp_path / "out.xlsx", plan_chunk(ListedRows(("clusters.pd.instances",), [(0,), (-1,)]), 0, 2))
    assert [row[0] for row in summary_of(file) if len(row) > 1] == [
        "Status",
        "error",
        "Without a plan",
        "out-of-range",
    ]
    with zipfile.ZipFile(file) as archive:
        assert not [name for name in archive.namelist() if name.startswith("xl/charts/")]


@pytest.mark.parametrize("objective", [None, "cost"])
def test_the_best_scenarios_have_their_cost_where_there_are_prices(tmp_path: Path, objective: Any) -> None:
    prices = ("clusters.prfaas.price_per_gpu_hour", "clusters.pd.price_per_gpu_hour", "links.0.price_per_gb")
    changed = ("clusters.pd.instances", "demand_rps", *prices)
    rows = ListedRows(changed, [(n, 1.5, 2.5, price, 0.01) for n in (8, 12) for price in (3, 1)], objective=objective)
    table = plan_chunk(rows, 0, 4)
    found = summary_of(written(tmp_path / "out.xlsx", table))
    title = "Least cost" if objective else "Best scenarios"
    (at,) = [index for index, row in enumerate(found) if row[:1] == [title]]
    assert "Cost ($/1,000 requests)" in found[at]
    costs: list[Any] = table["cost.usd_per_thousand_requests"].to_pylist()
    served: list[Any] = table["served_rps"].to_pylist()
    keys = [(costs[i], -served[i], i) if objective else (-served[i], costs[i], i) for i in range(4)]
    order = [key[2] for key in sorted(keys)]
    assert [row[2] for row in found[at + 1 : at + 5]] == pytest.approx([costs[i] for i in order])
    assert [row[3] for row in found[at + 1 : at + 5]] == order
