"""The same table in every format, and what each format shows beside values."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.sheets.reading import read_scenarios
from tests.sheets import HEADERS, ROW, VALUES, codes, ods, ods_row, row_of, scenarios

XLS = Path(__file__).with_name("sheets_made") / "plan.xls.gz.b64"


@pytest.fixture
def xls(tmp_path: Path) -> Path:
    """An .xls written by xlwt 1.3: rows 2 to 9 on "Scenarios", of which row 4 is hidden."""
    file = tmp_path / "plan.xls"
    file.write_bytes(gzip.decompress(base64.b64decode(XLS.read_text())))
    return file


def test_xls(xls: Path) -> None:
    rows = read_scenarios(xls)
    assert rows.explanation.format == "xls"
    assert rows.values(0, 1) == [(*VALUES, 0.45)]
    assert [rows.place(row) for row in range(len(rows))] == [f"Scenarios!{row}" for row in (2, 3, 5, 6, 7, 8)]
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [
        ("Scenarios!4", "hidden"),
        ("Scenarios!9", 'totals ("Total")'),
    ]
    assert codes(rows, 1) == [("error-cell", "Scenarios!G3")]
    assert codes(rows, 2) == [("date-not-number", "Scenarios!E5")]
    assert codes(rows, 3) == [("date-not-number", "Scenarios!E6")]
    assert codes(rows, 4) == codes(rows, 5) == []
    assert [row_of(rows, row)["model"] for row in (4, 5)] == ["internal-1t", "internal-1t"]
    assert row_of(rows, 5)["residency.stay_share"] == 0.45
    assert any("never calculated" in note.message for note in rows.explanation.notes)


def test_what_a_file_is_its_content_says(xls: Path, tmp_path: Path) -> None:
    renamed = xls.rename(tmp_path / "renamed.xlsx")
    assert read_scenarios(renamed).explanation.format == "xls"
    other = scenarios(tmp_path / "plan.xlsx").rename(tmp_path / "plan.xls")
    assert read_scenarios(other).explanation.format == "xlsx"
    assert read_scenarios(other).values(0, 1) == [VALUES]


@pytest.mark.parametrize("at", [0, 8, 40, 200, 600, 1500, 3000])
def test_damaged_xls(xls: Path, at: int) -> None:
    data = bytearray(xls.read_bytes())
    for i in range(at, min(at + 60, len(data))):
        data[i] ^= 0x5A
    xls.write_bytes(bytes(data))
    try:
        read_scenarios(xls)
    except InputError as error:
        told = error.problems
    else:
        told = ()
    assert all(problem.message and problem.where for problem in told)


def test_xls_with_macros(xls: Path) -> None:
    xls.write_bytes(xls.read_bytes() + "_VBA_PROJECT_CUR".encode("utf-16-le"))
    with pytest.raises(InputError, match="macros"):
        read_scenarios(xls)


def test_ods(tmp_path: Path) -> None:
    def cell(attributes: str, text: str, before: str = "") -> tuple[str]:
        return (f"<table:table-cell {attributes}>{before}<text:p>{text}</text:p></table:table-cell>",)

    error = cell('table:formula="of:=1/0" office:value-type="string" calcext:value-type="error"', "#DIV/0!")
    uncalculated = ('<table:table-cell table:formula="of:=1+1"/>',)
    time = cell('office:value-type="time" office:time-value="PT02H01M00S"', "2:01")
    percent = cell('office:value-type="percentage" office:value="0.45"', "45%")
    remark = "<office:annotation><text:p>why</text:p></office:annotation>"
    remarked = cell('office:value-type="float" office:value="40"', "40", remark)
    spanned = cell('table:number-rows-spanned="2" office:value-type="string"', "internal-1t")
    nothing = '<table:table-cell table:number-columns-repeated="16384"/>'
    empty = f'<table:table-row table:number-rows-repeated="1048560">{nothing}</table:table-row>'
    file = ods(
        tmp_path / "plan.ods",
        '<table:table table:name="Plan"><table:table-column table:number-columns-repeated="20"/>'
        + ods_row("Capacity", attributes='table:number-rows-repeated="2"')
        + ods_row(*HEADERS, "Must stay (%)")
        + ods_row(*ROW[:8], remarked, percent)
        + ods_row(*ROW[:6], error, *ROW[7:])
        + ods_row(*ROW[:6], uncalculated, *ROW[7:])
        + ods_row(*ROW, attributes='table:visibility="collapse"')
        + ods_row(*ROW, attributes='table:visibility="filter" table:number-rows-repeated="3"')
        + ods_row(*ROW[:4], time, *ROW[5:])
        + ods_row(ROW[0], spanned, *ROW[2:])
        + ods_row(ROW[0], ("<table:covered-table-cell/>",), *ROW[2:])
        + empty
        + "</table:table>",
    )
    rows = read_scenarios(file)
    assert rows.explanation.format == "ods"
    assert rows.values(0, 1) == [(*VALUES, 0.45)]
    assert [rows.place(row) for row in range(len(rows))] == [f"Plan!{row}" for row in (4, 5, 6, 11, 12, 13)]
    assert [codes(rows, row) for row in range(6)] == [
        [],
        [("error-cell", "Plan!G5")],
        [("uncalculated-formula", "Plan!G6")],
        [("date-not-number", "Plan!E11")],
        [],
        [],
    ]
    assert row_of(rows, 5)["model"] == "internal-1t"
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [("Plan!7:10", "hidden")]


def test_binary_workbooks_are_refused(tmp_path: Path) -> None:
    import zipfile

    file = tmp_path / "plan.xlsb"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.bin", b"")
    with pytest.raises(InputError, match=r"save it as \.xlsx"):
        read_scenarios(file)
