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


@pytest.mark.parametrize("nothing", ["-", "[-]", "n/a", "", None])
def test_rows_of_units_may_have_marks_for_none(tmp_path: Path, nothing: str | None) -> None:
    headers = ["Name", "Model", "GPU (PD)", "PD instances", "Link", "RTT", "SLO"]
    units = [nothing, nothing, nothing, "#", "[Gbit/s]", "(ms)", "tok/s"]
    row = ["today", "internal-1t", "H20", 8, 100, 80, 40]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [headers, units, row]}))
    assert len(rows) == 1
    assert row_of(rows)["links.0.bandwidth"] == "100Gbit/s"
    assert row_of(rows)["links.0.rtt"] == "80ms"


def test_headings_between_rows_are_no_scenarios(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    blank = [None] * (len(HEADERS) - 1)
    book = openpyxl.load_workbook(scenarios(file, ["Region EU", *blank], ROW, ["Region US", *blank], ROW))
    book["Scenarios"].merge_cells("A2:I2")
    book["Scenarios"].merge_cells("B4:I4")
    book.save(file)
    rows = read_scenarios(file)
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [
        ("Scenarios!2", 'a heading over merged cells ("Region EU")')
    ]
    assert [rows.place(row) for row in range(len(rows))] == ["Scenarios!3", "Scenarios!4", "Scenarios!5"]
    assert codes(rows, 1) == [("ambiguous-row", "Scenarios!4")]
    assert not any("homogeneous" in note.message for note in rows.explanation.notes)


TOTALS = [
    "Total g\u00e9n\u00e9ral",
    "Totale",
    "Suma",
    "\u5408\u8ba1",
    "\u5408\u8a08",
    "\u0418\u0442\u043e\u0433\u043e",
    "Totaal",
    "Razem",
    "Gesamtsumme",
    "Zwischensumme:",
    "TOTAL (all)",
    "Grand Total 2027",
    "\u03a3",
    "\u00d8",
    "Durchschnitt",
    "Summa",
]


@pytest.mark.parametrize("total", TOTALS)
def test_totals_in_other_languages(tmp_path: Path, total: str) -> None:
    sums = (total, None, None, None, 8, None, 16, 110, None)
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW, sums, ROW))
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [
        ("Scenarios!3", f'totals ("{total}")')
    ]
    named = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW, (total, *ROW[1:])))
    assert len(named) == 2


@pytest.mark.parametrize("total", ["Sum of GPUs", "Total cost of ownership", "Average day"])
def test_rows_that_begin_as_totals_may_be_scenarios(tmp_path: Path, total: str) -> None:
    sums = (total, None, None, None, 8, None, 16, 110, None)
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW, sums, ROW))
    assert codes(rows, 1) == [("ambiguous-row", "Scenarios!3")]


def test_titles_are_no_group_of_headers(tmp_path: Path) -> None:
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [["Prefill study"], HEADERS, ROW]}))
    assert {use.note for use in rows.explanation.columns} == {""}


def test_a_group_of_decoding_offers_the_pd_cluster(tmp_path: Path) -> None:
    groups = [None, None, "Prefill", None, "Decode", None]
    headers = ["Model", "Workload", "GPU", "Instances", "GPU", "Instances"]
    row = ["internal-1t", "prfaas-case-study", "H200", 4, "H20", 8]
    with pytest.raises(InputError) as error:
        read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [groups, headers, row]}))
    assert [(problem.where, problem.fix[:23]) for problem in error.value.problems] == [
        ("Plan!E2", "did you mean GPU (PD)? "),
        ("Plan!F2", "did you mean PD instanc"),
    ]
    assert 'under "Decode"' in error.value.problems[0].message


FIELDS = ["Model", "Workload", "GPU (prefill)", "Prefill instances", "GPU (PD)", "PD instances", "Link (Gbps)"]
TWO: list[list[Any]] = [
    ["internal-1t", "internal-1t"],
    ["prfaas-case-study", "prfaas-case-study"],
    ["H200", "H200"],
    [4, 4],
    ["H20", "H20"],
    [8, 8],
    [100, "12,5"],
]
TURNED: list[list[Any]] = [[field, *values] for field, values in zip(FIELDS, TWO, strict=True)]


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@pytest.mark.parametrize("corner", ["", "Field", "Name", "Capacity plan"])
def test_scenarios_in_columns(tmp_path: Path, corner: str, suffix: str) -> None:
    table: list[list[Any]] = [[None], [corner, "today", "slow"], *TURNED, ["Owner", "Ana", "Ben"]]
    file = tmp_path / f"plan{suffix}"
    if suffix == ".xlsx":
        workbook(file, {"Plan": table})
    else:
        file.write_text("".join(",".join(f'"{cell or ""}"' for cell in row) + "\n" for row in table))
    rows = read_scenarios(file)
    name = "Plan" if suffix == ".xlsx" else "plan.csv"
    assert [rows.place(row) for row in range(len(rows))] == [f"{name}!B:B", f"{name}!C:C"]
    assert row_of(rows) == {
        "name": "today",
        "model": "internal-1t",
        "workload": "prfaas-case-study",
        "clusters.prfaas.hardware": "H200",
        "clusters.prfaas.instances": 4,
        "clusters.pd.hardware": "H20",
        "clusters.pd.instances": 8,
        "links.0.bandwidth": "100Gbps",
    }
    assert rows.where(1, "clusters.pd.instances") == f"{name}!C8"
    assert codes(rows, 1) == [("ambiguous-number", f"{name}!C9")]
    assert rows.extra_columns == ("Owner",)
    assert len(read_scenarios(file, sheet=f"{name}!C5")) == 2
    assert rows.explanation.columns[-2].cells == f"{name}!B9:C9"
    assert any("in columns" in note.message for note in rows.explanation.notes)


def test_scenarios_in_columns_with_a_column_of_units_and_a_hidden_one(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    units = ["", "", "", "#", "", "#", "Gbps"]
    fields = [*FIELDS[:-1], "Link"]
    table = [["Field", "Unit", "today", "old", "slow"]]
    table += [[f, u, v[0], v[0], v[1]] for f, u, v in zip(fields, units, TWO, strict=True)]
    book = openpyxl.load_workbook(workbook(file, {"Plan": table}))
    book["Plan"].column_dimensions["D"].hidden = True
    book.save(file)
    rows = read_scenarios(file)
    assert [row_of(rows, row)["name"] for row in range(len(rows))] == ["today", "slow"]
    assert row_of(rows)["links.0.bandwidth"] == "100Gbps"
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [
        ("Plan!B:B", "units of the columns"),
        ("Plan!D:D", "hidden"),
    ]


def test_scenarios_in_columns_beside_another_table_say_how_to_mend(tmp_path: Path) -> None:
    prices: list[list[Any]] = [[], ["GPU", "Price ($/GPU-hour)"], ["H200", 3.2]]
    with pytest.raises(InputError) as error:
        read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [["Name", "today", "slow"], *TURNED, *prices]}))
    (problem,) = error.value.problems
    assert "stand below each other at Plan!A1:A8" in problem.message
    assert "transpose" in problem.fix


def test_hidden_sheets_are_named_where_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    book = openpyxl.load_workbook(scenarios(file))
    book.create_sheet("Notes")
    book["Scenarios"].sheet_state = "hidden"
    book.save(file)
    with pytest.raises(InputError, match="--include-hidden"):
        read_scenarios(file)


def test_a_legend_of_fields_is_no_table_of_scenarios(tmp_path: Path) -> None:
    legend = [[field, f"what {field} is"] for field in FIELDS]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Legend": legend, "Plan": [HEADERS, ROW]}))
    assert rows.place(0) == "Plan!2"
    assert ("Legend", "ignored") in [(table.sheet, table.used_as) for table in rows.explanation.tables]


def test_several_rows_of_sums_without_a_label(tmp_path: Path) -> None:
    sums = ("", "", "", "", 8, "", 16, "", "")
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", *[ROW] * 5, sums, sums))
    assert [codes(rows, row) for row in (4, 5, 6)] == [
        [],
        [("ambiguous-row", "Scenarios!7")],
        [("ambiguous-row", "Scenarios!8")],
    ]


def test_tables_that_are_of_nothing_known_say_so(tmp_path: Path) -> None:
    other: list[list[Any]] = [["GPU", "Power (W)"], ["H200", 700]]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [HEADERS, ROW], "Power": other}))
    (use,) = [table for table in rows.explanation.tables if table.sheet == "Power"]
    assert use.used_as == "ignored"
    assert "GPU, Power (W)" in use.why


def test_where_most_rows_may_be_headers_the_search_ends_and_says_so(tmp_path: Path) -> None:
    many = [["High", "Low", *range(98)]] * 320
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Risks": [*many, HEADERS, ROW], "Plan": [HEADERS, ROW]}))
    assert rows.place(0) == "Plan!2"
    (note,) = rows.explanation.notes
    assert note.place == "Risks!301"
    assert "not looked for" in note.message
