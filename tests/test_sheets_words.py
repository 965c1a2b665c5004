"""Words, units and notations that planners use in headers and cells, and what each is taken for."""

from __future__ import annotations

import datetime
from pathlib import Path

import openpyxl
import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.io.document import plain_document
from prfaas_opt.io.scenario_file import read_scenario
from prfaas_opt.sheets.reading import read_scenarios
from tests.sheets import HEADERS, ROW, codes, filled, row_of, scenarios


def test_units_that_differ_are_said(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, "4 s"], headers=[*HEADERS, "RTT (ms)"]))
    assert row_of(rows)["links.0.rtt"] == "4s"
    assert [(note.place, "cell's unit counts" in note.message) for note in rows.explanation.notes] == [
        ("Scenarios!J2", True)
    ]


@pytest.mark.parametrize(
    ("header", "cell", "value"),
    [
        ("Must stay %", 45, 0.45),
        ("Must stay, %", 45, 0.45),
        ("Must stay%", 45, 0.45),
        ("% must stay", 45, 0.45),
        ("Must stay (in %)", 45, 0.45),
    ],
)
def test_a_percent_sign_counts_wherever_it_stands_in_a_header(
    tmp_path: Path, header: str, cell: float, value: float
) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, cell], [*ROW, 0.5], headers=[*HEADERS, header]))
    assert row_of(rows)["residency.stay_share"] == value
    assert codes(rows, 1) == [("ambiguous-percentage", "Scenarios!J3")]


@pytest.mark.parametrize(
    "header",
    [
        "PD price \u20ac",
        "PD price\u20ac",
        "PD price \u20ac/GPU-hour",
        "PD price \u20ac (per GPU-hour)",
        "PD price per GPU hour in EUR",
        "PD price HK$",
        "PD price ($/GB)",
        "PD price ($/Gbps-hour)",
        "PD price ($/GPU-month)",
        "PD price ($/h)",
        "Egress price ($/GiB)",
        "Link price $/GB",
        "Price ($/h)",
    ],
)
def test_prices_that_are_no_dollars_a_gpu_hour_are_errors(tmp_path: Path, header: str) -> None:
    file = scenarios(tmp_path / "plan.xlsx", [*ROW, 2], headers=[*HEADERS, header])
    with pytest.raises(InputError) as error:
        read_scenarios(file)
    (problem,) = error.value.problems
    assert (problem.code, problem.where) == ("bad-unit", "Scenarios!J1")
    assert "convert" in problem.fix


@pytest.mark.parametrize(
    "header", ["PD price $", "PD $/GPU-hr", "PD price, USD per GPU hour", "PD GPU price ($/h)", "PD price US$/GPU/h"]
)
def test_prices_in_dollars(tmp_path: Path, header: str) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, 2], headers=[*HEADERS, header]))
    assert row_of(rows)["clusters.pd.price_per_gpu_hour"] == 2


@pytest.mark.parametrize("cell", ["2.50/hr", "2.50 $/h", "$2.50 per GPU-hour", "USD 2.50", "US$2.50 / GPU-h"])
def test_prices_that_say_per_what(tmp_path: Path, cell: str) -> None:
    headers = [*HEADERS, "PD price ($/GPU-hour)"]
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, cell], [*ROW, "2.50/GB"], headers=headers))
    assert row_of(rows)["clusters.pd.price_per_gpu_hour"] == 2.5
    assert codes(rows, 1) == [("bad-unit", "Scenarios!J3")]


@pytest.mark.parametrize(
    ("header", "offered"),
    [
        ("# prefill nodes", "did you mean Prefill instances or Prefill GPUs?"),
        ("PD replicas", "did you mean PD instances or PD GPUs?"),
        ("Prefill", "did you mean Prefill instances or Prefill GPUs?"),
        ("Decode", "did you mean PD instances or PD GPUs?"),
        ("Number of decode servers", "did you mean PD instances or PD GPUs?"),
        ("Decode GPU type", "did you mean GPU (PD)?"),
        ("Decode GPUs", "how many of its instances decode"),
        ("TTFT SLO (s)", "did you mean TTFT P50 SLO (s)"),
        ("TTFT", "TTFT P99 SLO (s)"),
        ("TPOT ms", "1000 / TPOT in ms"),
        ("ITL target (ms)", "did you mean SLO (tokens/s)?"),
        ("TPS target", "did you mean SLO (tokens/s)?"),
        ("Link latency (ms)", "did you mean RTT (ms)?"),
        ("QPS", "did you mean Demand (req/s)?"),
    ],
)
def test_words_that_planners_use_for_fields_are_no_remarks(tmp_path: Path, header: str, offered: str) -> None:
    file = scenarios(tmp_path / "plan.xlsx", [*ROW, 2], headers=[*HEADERS, header])
    with pytest.raises(InputError) as error:
        read_scenarios(file)
    (problem,) = error.value.problems
    assert (problem.code, problem.where) == ("unknown-column", "Scenarios!J1")
    assert offered in problem.fix


@pytest.mark.parametrize("header", ["BW Gbit/s", "Link BW (Gbps)", "Inter-DC bandwidth (Gbps)", "WAN [Gbps]"])
def test_other_words_for_the_link(tmp_path: Path, header: str) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", headers=[*HEADERS[:7], header, HEADERS[8]]))
    assert str(row_of(rows)["links.0.bandwidth"]).startswith("100Gb")


def test_columns_of_workloads_beside_scenarios_are_said_to_be_that(tmp_path: Path) -> None:
    file = scenarios(tmp_path / "plan.xlsx", [*ROW, 32768, 9], headers=[*HEADERS, "ISL", "Avg output tokens"])
    uses = read_scenarios(file).explanation.columns
    assert [use.field for use in uses[-2:]] == [None, None]
    assert all("a scenario has it from its workload" in use.note for use in uses[-2:])


@pytest.mark.parametrize(
    ("cell", "share"), [("7e1%", 0.7), ("1e-1 %", 0.001), ("+70%", 0.7), ("0.7", 0.7), ("7E-1", 0.7)]
)
def test_percentages_with_an_exponent(tmp_path: Path, cell: str, share: float) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW, cell], headers=[*HEADERS, "Must stay"]))
    assert row_of(rows)["residency.stay_share"] == pytest.approx(share, rel=1e-15)


def test_an_apostrophe_before_a_number_makes_it_a_text_and_no_other(tmp_path: Path) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", (*ROW[:6], "'8", "\u2019100 Gbps", *ROW[8:])))
    assert row_of(rows)["clusters.pd.instances"] == 8
    assert row_of(rows)["links.0.bandwidth"] == "100Gbps"


@pytest.mark.parametrize("cell", ["8 nodes", "8-12", "~8", "8*", "x8", "8 (est.)", "1,28,000", "128_000"])
def test_what_is_no_number_is_passed_on_as_it_stands(tmp_path: Path, cell: str) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", (*ROW[:6], cell, *ROW[7:])))
    assert row_of(rows)["clusters.pd.instances"] == cell
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", (*ROW[:7], "100 (est.)", ROW[8])))
    assert row_of(rows)["links.0.bandwidth"] == "100 (est.)"


@pytest.mark.parametrize("cell", ["100 Gb/s", "100 gbps", "100 Gbit/sec", "100 Gb / second", "100Gbps"])
def test_units_that_are_only_spelled_otherwise_are_not_said(tmp_path: Path, cell: str) -> None:
    rows = read_scenarios(scenarios(tmp_path / "plan.xlsx", [*ROW[:7], cell, ROW[8]]))
    assert rows.problems(0) == ()
    assert rows.explanation.notes == ()
    scenario = read_scenario(plain_document(filled(rows), "row"))
    assert scenario.link is not None
    assert scenario.link.bandwidth_bytes_per_s == 12.5e9


def test_a_date_is_told_without_its_midnight(tmp_path: Path) -> None:
    file = tmp_path / "plan.xlsx"
    book = openpyxl.load_workbook(scenarios(file, ROW))
    day = datetime.datetime(2026, 5, 3)
    book["Scenarios"]["A2"], book["Scenarios"]["G2"] = day, day
    book.save(file)
    rows = read_scenarios(file)
    assert row_of(rows)["name"] == "2026-05-03"
    assert rows.problems(0)[0].message == "holds the date 2026-05-03, expected a whole number"
