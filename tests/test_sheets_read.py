"""Workbooks as planners write them: what each habit of theirs means."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import msgspec
import openpyxl
import pytest
import xlsxwriter
from openpyxl.worksheet.worksheet import Worksheet

from prfaas_opt.errors import InputError
from prfaas_opt.io.document import plain_document
from prfaas_opt.io.scenario_file import read_scenario
from prfaas_opt.sheets.reading import read_scenarios
from prfaas_opt.study.rows import UNSET
from tests.sheets import HEADERS, ROW, VALUES, codes, filled, row_of, scenarios, workbook


def test_a_row_is_a_scenario(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx"))
    assert len(rows) == 1
    assert rows.name == "plan"
    assert rows.values(0, 1) == [VALUES]
    assert rows.problems(0) == ()
    assert rows.where(0, "links.0.bandwidth") == "Scenarios!H2"
    assert rows.where(0, "links[0].bandwidth") == "Scenarios!H2"
    assert rows.where(0, "model.profiles[0].hardware") == "Scenarios!B2"
    assert rows.where(0, "clusters.pd.max_context") == "Scenarios!2"
    assert rows.place(0) == "Scenarios!2"
    scenario = read_scenario(plain_document(filled(rows), "row"))
    assert scenario.remote is not None
    assert (scenario.remote.hardware, scenario.remote.instances, scenario.pd.instances) == ("H200", 4, 8)


def test_rows_can_be_pickled_and_asked_for_in_any_range(tmp_path: Path) -> None:
    many = [(*ROW[:4], count, *ROW[5:]) for count in range(1, 12)]
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", *many))
    whole = rows.values(0, 11)
    assert [value for start in range(0, 11, 3) for value in rows.values(start, min(start + 3, 11))] == whole
    copy = pickle.loads(pickle.dumps(rows))
    assert copy.values(0, 11) == whole
    assert copy.explanation == rows.explanation
    assert rows.values(9, 50) == whole[9:]


@pytest.mark.parametrize(
    ("header", "cell", "path", "value"),
    [
        ("gpus of PD hardware type", None, None, None),
        ("INSTANCES, PD", 8, "clusters.pd.instances", 8),
        ("pd_instances", 8, "clusters.pd.instances", 8),
        ("Clusters.PD.instances", 8, "clusters.pd.instances", 8),
        ("clusters.pd.instances", "8", "clusters.pd.instances", 8),
        ("PD\u00a0instances", "\u200b8\u00a0", "clusters.pd.instances", 8),
        ("PD\ninstances", 8.0, "clusters.pd.instances", 8),
        ("Link bandwidth [Gbps]", 25, "links.0.bandwidth", "25Gbps"),
        ("Link", "25 Gbps", "links.0.bandwidth", "25Gbps"),
        ("Link", "3.5 GB/s", "links.0.bandwidth", "3.5GB/s"),
        ("Link (Gbps)", "25 Gbps", "links.0.bandwidth", "25Gbps"),
        ("Link, Gbps", 0.5, "links.0.bandwidth", "0.5Gbps"),
        ("Link Gbps", 1e-5, "links.0.bandwidth", "1e-05Gbps"),
        ("Link (Gbit/s)", 25, "links.0.bandwidth", "25Gbit/s"),
        ("links[0].rtt (ms)", 80, "links.0.rtt", "80ms"),
        ("RTT (ms)", "0.08 s", "links.0.rtt", "0.08s"),
        ("RTT", "80 ms", "links.0.rtt", "80ms"),
        ("TTFT P90 SLO (s)", 4, "slo.ttft.p90", "4s"),
        ("TTFT p90 limit (ms)", 4000, "slo.ttft.p90", "4000ms"),
        ("PD max context (tokens)", "32K", "clusters.pd.max_context", "32K"),
        ("PD max context (K tokens)", 32, "clusters.pd.max_context", "32K"),
        ("PD max context", "32,768", "clusters.pd.max_context", 32768),
        ("Window (MiB)", 16, "links.0.window", "16MiB"),
        ("Must stay (%)", 45, "residency.stay_share", 0.45),
        ("Must stay", "45%", "residency.stay_share", 0.45),
        ("Must stay", "45 %", "residency.stay_share", 0.45),
        ("Must stay", 0.45, "residency.stay_share", 0.45),
        ("PD price ($/GPU-hour)", "$2.50", "clusters.pd.price_per_gpu_hour", 2.5),
        ("PD price", "2.50 USD", "clusters.pd.price_per_gpu_hour", 2.5),
        ("SLO (tokens/s)", "40 tok/s", "slo.tokens_per_s", 40),
        ("SLO (tokens/s)", "4e1", "slo.tokens_per_s", 40),
        ("Estimator", "Mean length", "estimator", "mean-length"),
        ("Transfer overlap", "None", "transfer.overlap", "none"),
        ("Local prefill", "on decode", "local_prefill", "on_decode"),
        ("Demand (req/s)", 3.5, "demand_rps", 3.5),
    ],
)
def test_headers_and_units(tmp_path: Path, header: str, cell: Any, path: str | None, value: Any) -> None:
    headers, row = list(HEADERS), list(ROW)
    for known, replaced in (("PD instances", "clusters.pd.instances"), ("Link (Gbps)", "links.0.bandwidth")):
        if path == replaced:
            at = headers.index(known)
            del headers[at], row[at]
    if path == "slo.tokens_per_s":
        headers, row = headers[:-1], row[:-1]
    file = scenarios(tmp_path / "plan.xlsx", [*row, cell], headers=[*headers, header])
    if path is None:
        with pytest.raises(InputError, match="looks like one"):
            read_scenarios(file)
        return
    rows = read_scenarios(file)
    assert rows.problems(0) == ()
    found = row_of(rows)[path]
    assert (found, type(found)) == (value, type(value))
    assert rows.where(0, path) == f"Scenarios!{'ABCDEFGHIJ'[len(headers)]}2"
    use = rows.explanation.columns[-1]
    assert (use.header, use.field) == (" ".join(header.replace("\u00a0", " ").split()), path)


@pytest.mark.parametrize("cell", ["n/a", "NA", "None", "-", "\u2014", " ", "\u200b", "#N/A", "nan", None])
def test_marks_for_nothing(tmp_path: Path, cell: Any) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, cell], [*ROW, 5], headers=[*HEADERS, "RTT (ms)"]))
    assert "links.0.rtt" not in row_of(rows, 0)
    assert row_of(rows, 1)["links.0.rtt"] == "5ms"
    assert rows.problems(0) == ()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Pefill GPUs", "did you mean Prefill GPUs"),
        ("Modle", "did you mean Model?"),
        ("GPU", "did you mean GPU (prefill) or GPU (PD)?"),
        ("Instances", "did you mean Prefill instances or PD instances?"),
        ("H200 count", "Prefill instances"),
        ("H20 nodes", "PD instances"),
        ("Decode cluster", "did you mean GPU (PD)?"),
        ("RTT (Gbps)", 'has the unit "Gbps", expected one such as "ms"'),
        ("PD price (\u20ac/GPU-hour)", "has the unit"),
        ("PD GPUs (instances)", "has the unit"),
        ("RTT (one way, ms)", "has the unit"),
        ("Estimator (theirs)", "has the unit"),
        ("Price ($/GPU-month)", "has the unit"),
        ("Price per GPU month", "did you mean Price ($/GPU-hour)?"),
    ],
)
def test_headers_that_look_like_a_field_are_errors(tmp_path: Path, header: str, message: str) -> None:
    file = scenarios(tmp_path / "plan.xlsx", [*ROW, 1, 2], headers=[*HEADERS, header, "Owner"])
    with pytest.raises(InputError) as error:
        read_scenarios(file)
    (problem,) = error.value.problems
    assert problem.where == "Scenarios!J1"
    assert message in str(problem)


def test_a_row_of_units_below_the_headers(tmp_path: Path) -> None:
    headers = ["Model", "PD instances", "Link", "SLO", "RTT (ms)", "Notes"]
    units = [None, None, "Gbps", "(tokens/s)", None, None]
    file = scenarios(tmp_path / "plan.xlsx", units, ["internal-1t", 8, 100, 40, 80, "x"], headers=headers)
    rows = read_scenarios(file)
    assert [rows.place(row) for row in range(len(rows))] == ["Scenarios!3"]
    assert row_of(rows) == {
        "model": "internal-1t",
        "clusters.pd.instances": 8,
        "links.0.bandwidth": "100Gbps",
        "slo.tokens_per_s": 40,
        "links.0.rtt": "80ms",
    }
    assert [(left.place, left.why) for left in rows.explanation.rows_left_out] == [
        ("Scenarios!2", "units of the columns")
    ]
    units[2] = "ms"
    with pytest.raises(InputError, match='has the unit "ms" below it'):
        read_scenarios(scenarios(tmp_path / "plan.xlsx", units, ["internal-1t", 8, 100, 40, 80, "x"], headers=headers))


def test_columns_without_a_name_are_told(tmp_path: Path) -> None:
    headers = ["Model", "PD instances", None, "Owner", 2026, "Link (Gbps)"]
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", ["internal-1t", 8, 7, "me", 5, 100], headers=headers))
    assert rows.extra_columns == ("Owner",)
    assert [note.place for note in rows.explanation.notes] == ["Scenarios!C1", "Scenarios!E1"]


@pytest.mark.parametrize(
    "header",
    [
        "Notes",
        "Owner",
        "ID",
        "#",
        "Scenario #",
        "Price source",
        "Region",
        "Workload mix",
        "$",
        "USD",
        "%",
        "Total GPUs",
        "Host",
        "PD notes",
        "# GPUs total",
    ],
)
def test_columns_of_planners_are_no_errors(tmp_path: Path, header: str) -> None:
    assert read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, 1], headers=[*HEADERS, header])).extra_columns


def test_two_columns_for_one_field_are_an_error(tmp_path: Path) -> None:
    file = scenarios(tmp_path / "plan.xlsx", [*ROW, 9, 8], headers=[*HEADERS, "local instances", "Modle"])
    with pytest.raises(InputError) as error:
        read_scenarios(file)
    assert [(p.code, p.where) for p in error.value.problems] == [
        ("unknown-column", "Scenarios!K1"),
        ("duplicate-column", "Scenarios!J1"),
    ]
    assert '"PD instances" at Scenarios!G1' in str(error.value)


def test_columns_that_are_no_fields_are_kept(tmp_path: Path) -> None:
    file = scenarios(
        tmp_path / "plan.xlsx", [*ROW, "me", 7.5, True], [*ROW, "-", 3.0, ""], headers=[*HEADERS, "Owner", "Rack", "OK"]
    )
    rows = read_scenarios(file)
    assert rows.extra_columns == ("Owner", "Rack", "OK")
    assert rows.extras(0, 2) == [("me", 7.5, True), (None, 3, None)]
    assert "kept beside" in rows.explanation.columns[-1].note


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        (datetime.datetime(2026, 8, 1), "date-not-number"),
        (datetime.time(2, 1), "date-not-number"),
        ("=1/0", "uncalculated-formula"),
        ("#REF!", "error-cell"),
        (True, "wrong-type"),
        ("12,5", "ambiguous-number"),
        ("1.250", "ambiguous-number"),
    ],
)
def test_what_is_no_number_marks_its_row(tmp_path: Path, cell: Any, code: str) -> None:
    file = tmp_path / "plan.xlsx"
    book = openpyxl.Workbook()
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    sheet.title = "Scenarios"
    for row in (HEADERS, ROW, (*ROW[:8], cell), ROW):
        sheet.append(list(row))
    book.save(file)
    rows = read_scenarios(file)
    assert len(rows) == 3
    assert [codes(rows, row) for row in range(3)] == [[], [(code, "Scenarios!I3")], []]
    (problem,) = rows.problems(1)
    assert problem.message
    assert problem.fix


def test_all_that_is_wrong_comes_at_once(tmp_path: Path) -> None:
    bad = ("x", "internal-1t", "w", "H200", True, "H20", "1,250", "12,5", "#REF!")
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", bad))
    found = {problem.where: problem.code for problem in rows.problems(0)}
    assert found == {
        "Scenarios!E2": "wrong-type",
        "Scenarios!H2": "ambiguous-number",
        "Scenarios!I2": "error-cell",
    }


def test_an_unambiguous_count_is_read_whatever_its_separators(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", (*ROW[:6], "1,250", *ROW[7:])))
    assert row_of(rows)["clusters.pd.instances"] == 1250
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", (*ROW[:6], "1,000", *ROW[7:])))
    assert codes(rows) == [("ambiguous-number", "Scenarios!G2")]


def test_percent_formats_tell_what_a_percent_header_holds(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    headers = [*HEADERS, "Must stay (%)"]
    book = openpyxl.load_workbook(scenarios(file, [*ROW, 0.45], [*ROW, 45], [*ROW, 0.45], headers=headers))
    book["Scenarios"]["J2"].number_format = "0.0%"
    book.save(file)
    rows = read_scenarios(file)
    assert [row_of(rows, row).get("residency.stay_share") for row in range(3)] == [0.45, 0.45, None]
    assert codes(rows, 2) == [("ambiguous-percentage", "Scenarios!J4")]


def test_percent_headers_of_texts_are_ambiguous_below_one(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("Model,PD instances,Must stay (%)\ninternal-1t,8,0.45\ninternal-1t,8,45\ninternal-1t,8,0.45%\n")
    rows = read_scenarios(file)
    assert codes(rows, 0) == [("ambiguous-percentage", "plan.csv!C2")]
    assert row_of(rows, 1)["residency.stay_share"] == 0.45
    assert row_of(rows, 2)["residency.stay_share"] == 0.0045


def test_a_models_folder_beside_the_sheet_is_found(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx"))
    assert rows.base.folder == tmp_path


def test_cached_formulas_are_values(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    with xlsxwriter.Workbook(str(file)) as book:
        sheet = book.add_worksheet("Scenarios")
        sheet.write_row(0, 0, HEADERS)
        sheet.write_row(1, 0, ROW)
        sheet.write_row(2, 0, ROW)
        sheet.write_formula(1, 6, "=2*4", None, 8)
        # XlsxWriter asks programs to recalculate: its 0 stands for a value that it does not know.
        sheet.write_formula(2, 6, "=2*4")
    rows = read_scenarios(file)
    assert rows.values(0, 1) == [VALUES]
    assert codes(rows, 1) == [("uncalculated-formula", "Scenarios!G3")]
    assert "open and save it in a spreadsheet program" in rows.problems(1)[0].fix


def test_a_constant_that_says_not_available_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    book = openpyxl.load_workbook(scenarios(file, [*ROW, 1], [*ROW, 2], [*ROW, 3], headers=[*HEADERS, "RTT (ms)"]))
    sheet = book["Scenarios"]
    sheet["J2"].value, sheet["J2"].data_type = "#N/A", "e"
    sheet["J3"].value, sheet["J3"].data_type = "#REF!", "e"
    sheet["J4"] = "=NA()"
    book.save(file)
    rows = read_scenarios(file)
    assert codes(rows, 0) == []
    assert "links.0.rtt" not in row_of(rows, 0)
    assert codes(rows, 1) == [("error-cell", "Scenarios!J3")]
    assert codes(rows, 2) == [("uncalculated-formula", "Scenarios!J4")]


def test_rows_without_a_remote_cluster_are_homogeneous(tmp_path: Path) -> None:
    homogeneous = ("local", "internal-1t", "prfaas-case-study", "", "-", "H20", 9, None, 40)
    zero = ("none", "internal-1t", "prfaas-case-study", "H200", 0, "H20", 9, 100, 40)
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW, homogeneous, zero))
    assert rows.fields[:2] == ("clusters", "links")
    for row in (1, 2):
        document = filled(rows, row)
        assert list(document["clusters"]) == ["pd"]
        assert document["links"] == []
        scenario = read_scenario(plain_document(document, "row"))
        assert scenario.remote is None
        assert scenario.pd.instances == 9
    assert read_scenario(plain_document(filled(rows, 0), "row")).remote is not None
    assert any("homogeneous" in note.message for note in rows.explanation.notes)
    only = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW[1:3] + ROW[5:7], headers=HEADERS[1:3] + HEADERS[5:7]))
    assert only.base.data == {"clusters": {"pd": {"role": "pd"}}}


def test_half_a_remote_cluster_is_none_of_that(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", ROW, (*ROW[:4], "", *ROW[5:])))
    assert "clusters" not in rows.fields
    with pytest.raises(InputError, match="instances"):
        read_scenario(plain_document(filled(rows, 1), "row"))


def test_fields_without_a_column_are_the_base_scenarios(tmp_path: Path) -> None:
    base = plain_document(
        {
            "model": "internal-1t",
            "workload": "prfaas-case-study",
            "clusters": {
                "us": {"role": "prefill", "hardware": "H200", "instances": 4},
                "eu": {"role": "pd", "hardware": "H20", "instances": 8},
            },
            "links": [{"from": "us", "to": "eu", "bandwidth": "100Gbps"}],
        },
        "base.yaml",
    )
    file = scenarios(tmp_path / "plan.xlsx", (6, 10), (7, ""), headers=("PD instances", "Link (Gbps)"))
    rows = read_scenarios(file, base=base)
    assert rows.fields == ("clusters.eu.instances", "links.0.bandwidth")
    assert rows.values(0, 2) == [(6, "10Gbps"), (7, UNSET)]
    assert rows.base is base
    paths = ("clusters.eu.instances", "Clusters.US.nic (Gbps)", "workload.output_tokens", "transfer.new")
    named = read_scenarios(scenarios(tmp_path / "plan.xlsx", (6, 10, "2K", "x"), headers=paths), base=base)
    assert row_of(named) == {
        "clusters.eu.instances": 6,
        "clusters.us.nic": "10Gbps",
        "workload.output_tokens": "2K",
        "transfer.new": "x",
    }
    assert named.where(0, "clusters.us.nic") == "Scenarios!B2"
    with pytest.raises(InputError, match="put it in the cells"):
        read_scenarios(scenarios(tmp_path / "plan.xlsx", (6,), headers=("workload.output_tokens (tokens)",)), base=base)
    alone = read_scenarios(scenarios(tmp_path / "plan.xlsx", (6,), headers=("Link (Gbps)",)), base=base)
    assert alone.values(0, 1) == [("6Gbps",)]


def test_a_base_with_several_clusters_of_a_role_asks_for_paths(tmp_path: Path) -> None:
    pd = {"role": "pd", "hardware": "H20", "instances": 8}
    base = plain_document({"model": "internal-1t", "clusters": {"eu": pd, "us": pd}}, "base.yaml")
    with pytest.raises(InputError, match="use the path"):
        read_scenarios(scenarios(tmp_path / "plan.xlsx", (6, 7), headers=("PD instances", "SLO (tokens/s)")), base=base)
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", (6,), headers=("clusters.us.instances",)), base=base)
    assert row_of(rows) == {"clusters.us.instances": 6}


def test_several_tables_of_scenarios_ask_for_one(tmp_path: Path) -> None:
    file = workbook(tmp_path / "plan.xlsx", {"East": [HEADERS, ROW], "West": [[], HEADERS, ROW, ROW]})
    with pytest.raises(InputError, match="2 tables of scenarios") as error:
        read_scenarios(file)
    assert '--sheet "East!A1"' in str(error.value)
    assert len(read_scenarios(file, sheet="west")) == 2
    assert len(read_scenarios(file, sheet="East!C2")) == 1
    with pytest.raises(InputError, match="did you mean West"):
        read_scenarios(file, sheet="Wst")
    named = workbook(tmp_path / "plan.xlsx", {"Old": [HEADERS, ROW], "Scenarios": [HEADERS, ROW, ROW]})
    assert len(read_scenarios(named)) == 2


def test_headers_again_on_the_next_page_go_on(tmp_path: Path) -> None:
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [HEADERS, ROW, [], HEADERS, ROW, ROW]}))
    assert [rows.place(row) for row in range(len(rows))] == ["Plan!2", "Plan!5", "Plan!6"]


def test_the_explanation_has_a_stable_json_form(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx"))
    told = msgspec.json.decode(msgspec.json.encode(rows.explanation))
    assert list(told) == [
        "file",
        "format",
        "encoding",
        "delimiter",
        "decimal",
        "decimal_evidence",
        "rows",
        "tables",
        "columns",
        "rows_left_out",
        "taken",
        "notes",
        "problems",
    ]
    assert told["columns"][7] == {
        "header": "Link (Gbps)",
        "cell": "Scenarios!H1",
        "cells": "Scenarios!H2",
        "field": "links.0.bandwidth",
        "unit": "Gbps",
        "note": "",
    }


def test_a_sheet_without_scenarios_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no table of scenarios"):
        read_scenarios(workbook(tmp_path / "plan.xlsx", {"Notes": [["x"], ["y", 3]]}))
    with pytest.raises(InputError, match="no row of a scenario"):
        read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [HEADERS]}))
