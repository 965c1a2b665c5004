"""Where the rows of a sheet are: notes, blanks, totals, hidden and merged cells around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.sheets.reading import read_scenarios
from tests.sheets import HEADERS, ROW, codes, row_of, scenarios, workbook


def test_layout_notes_blank_rows_and_columns_totals(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Capacity plan 2026"],
        ["Draft, numbers from the vendor"],
        [],
        [None, *HEADERS[:4], None, *HEADERS[4:]],
        [None, *ROW[:4], None, *ROW[4:]],
        [],
        [None, *ROW[:4], None, *ROW[4:]],
        [None, "Total", None, None, None, None, 8, None, 16],
        [],
        [None, "* prices as of May"],
    ]
    found = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": rows}))
    assert len(found) == 2
    assert found.where(1, "clusters.pd.instances") == "Plan!I7"
    assert [(left.place, left.why) for left in found.explanation.rows_left_out] == [
        ("Plan!6", "empty"),
        ("Plan!8", 'totals ("Total")'),
        ("Plan!9", "empty"),
        ("Plan!10", 'a remark ("* prices as of May")'),
    ]
    assert found.problems(0) == found.problems(1) == ()


def test_a_last_row_that_names_nothing_may_be_totals(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW, ROW, ("", "", "", "", 8, "", 16, "", "")))
    assert codes(rows, 2) == [("ambiguous-row", "Scenarios!4")]
    assert codes(rows, 1) == []


def test_hidden_rows_columns_and_sheets_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    book = openpyxl.load_workbook(scenarios(file, ROW, ROW, ROW, headers=[*HEADERS]))
    sheet = book["Scenarios"]
    sheet.row_dimensions[3].hidden = True
    sheet["J1"], sheet["J2"] = "RTT (ms)", 80
    sheet.column_dimensions["J"].hidden = True
    book.create_sheet("Old").sheet_state = "hidden"
    book["Old"].append(list(HEADERS))
    book["Old"].append(list(ROW))
    book.save(file)
    rows = read_scenarios(file)
    assert [rows.place(row) for row in range(len(rows))] == ["Scenarios!2", "Scenarios!4"]
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [("Scenarios!3", "hidden")]
    assert "links.0.rtt" not in rows.fields
    assert rows.explanation.columns[-1].note == "hidden: left out"
    assert ("Old", "ignored") in [(table.sheet, table.used_as) for table in rows.explanation.tables]
    shown = read_scenarios(file, include_hidden=True, sheet="Scenarios")
    assert len(shown) == 3
    assert row_of(shown)["links.0.rtt"] == "80ms"


def test_merged_cells_hold_for_all_their_cells(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    book = openpyxl.load_workbook(
        workbook(
            file,
            {
                "Plan": [
                    [None, "Model", "Workload", "Prefill", None, "PD", None, "Link (Gbps)"],
                    [None, None, None, "GPU", "Instances", "GPU", "Instances", None],
                    [None, "internal-1t", "prfaas-case-study", "H200", 4, "H20", 8, 100],
                    [None, None, "prfaas-case-study", "H200", 5, "H20", 9, 10],
                ]
            },
        )
    )
    for area in ("B1:B2", "C1:C2", "D1:E1", "F1:G1", "H1:H2", "B3:B4"):
        book["Plan"].merge_cells(area)
    book.save(file)
    rows = read_scenarios(file)
    assert row_of(rows, 1) == {
        "model": "internal-1t",
        "workload": "prfaas-case-study",
        "clusters.prfaas.hardware": "H200",
        "clusters.prfaas.instances": 5,
        "clusters.pd.hardware": "H20",
        "clusters.pd.instances": 9,
        "links.0.bandwidth": "10Gbps",
    }
    assert any("B3:B4" in note.message for note in rows.explanation.notes)


def test_headers_above_several_columns_need_no_merging(tmp_path: Path) -> None:
    groups = ["Site A to site B", None, "Prefill", None, "PD", None]
    headers = ["Model", "Workload", "GPU", "Instances", "GPU", "Instances", "Notes"]
    row = ["internal-1t", "prfaas-case-study", "H200", 4, "H20", 8, "x"]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [groups, headers, row]}))
    assert [use.field for use in rows.explanation.columns] == [
        "model",
        "workload",
        "clusters.prfaas.hardware",
        "clusters.prfaas.instances",
        "clusters.pd.hardware",
        "clusters.pd.instances",
        None,
    ]
    assert rows.explanation.columns[3].note == 'under "Prefill"'
    groups[4] = None
    with pytest.raises(InputError, match="keep one of the two columns"):
        read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [groups, headers, row]}))
