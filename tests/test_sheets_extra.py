"""Extra sheets: models, workloads and prices beside the scenarios."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from prfaas_opt.io.document import plain_document
from prfaas_opt.io.scenario_file import read_scenario
from prfaas_opt.sheets.reading import read_scenarios
from prfaas_opt.study.rows import UNSET
from tests.sheets import HEADERS, ROW, codes, filled, row_of, workbook

Lines = tuple[tuple[Any, ...], ...]

PROFILES: Lines = (
    ("Model", "GPU", "GPUs per instance", "Length (tokens)", "Latency (ms)", "KV size (GB)", "Source"),
    ("mine", "H200", 8, "1K", 421, 1.04, "measured, vLLM"),
    ("mine", "H200", 8, "8k", "506 ms", 2.08, None),
    ("mine", "H200", 8, 131072, "5.569 s", 33.3, None),
    ("mine", "H200", 8, "32,768", 1111, 8.32, None),
    ("mine", "H20", 8, 1024, 842, 1.04, None),
    ("mine", "H20", 8, 131072, 11000, 33.3, None),
)
DECODE: Lines = (("Model", "GPU", "Batch", "Step (ms)"), ("mine", "H20", 64, 30), ("mine", "H20", 1, "12.5 ms"))
WORKLOADS: Lines = (
    ("Workload", "Distribution", "Mu", "Sigma", "Low", "High", "Output (tokens)"),
    ("chat", "truncated-lognormal", 9.9, 1, "1K", "128K", 1024),
    ("fixed", "Uniform", None, None, 2048, 8192, 300),
)
TABLE: Lines = (("Workload", "Length (tokens)", "Weight", "Output"), ("mix", "32K", 1, 512), ("mix", "2K", 3, None))
PRICES: Lines = (("Accelerator", "Price ($/GPU-hour)"), ("H200", 2.5), ("h20", "$1.20"))
LINK_PRICES: Lines = (("Link price ($/Gbps-hour)", "Egress price ($/GB)"), (0.5, 0.01))


def row(**changes: Any) -> tuple[Any, ...]:
    names = {"model": 1, "workload": 2, "pd": 5, "instances": 6}
    cells = list(ROW)
    for name, value in changes.items():
        cells[names[name]] = value
    return tuple(cells)


def test_a_sheets_model_and_workload_are_what_rows_name(tmp_path: Path) -> None:
    file = workbook(
        tmp_path / "plan.xlsx",
        {
            "Scenarios": [HEADERS, row(model="Mine", workload="chat"), row(workload="mix"), ROW],
            "Curves": [["Made up"], [], *PROFILES, [], ["Decode"], *DECODE],
            "Traffic": [*WORKLOADS, [], *TABLE],
        },
    )
    rows = read_scenarios(file)
    assert [rows.problems(i) for i in range(3)] == [(), (), ()]
    first = read_scenario(plain_document(filled(rows, 0), "row"))
    assert [profile.hardware for profile in first.model.profiles] == ["H200", "H20"]
    model = row_of(rows, 0)["model"]
    assert model["profiles"][0]["prefill"] == {
        "lengths_tokens": ["1K", "8K", 32768, 131072],
        "latency_s": [0.421, 0.506, 1.111, 5.569],
    }
    assert model["profiles"][0]["kv_cache"]["bytes"] == pytest.approx([1.04e9, 2.08e9, 8.32e9, 33.3e9])
    assert model["profiles"][0]["provenance"]["prefill"] == "measured, vLLM"
    assert model["profiles"][1]["decode"] == {"batch": [1, 64], "step_s": [0.0125, 0.03]}
    assert "assumed" in model["profiles"][1]["provenance"]["decode"]
    assert first.workload.name == "chat"
    mix = row_of(rows, 1)["workload"]
    assert mix["input_tokens"] == {"distribution": "table", "lengths": ["2K", "32K"], "weights": [3, 1]}
    assert mix["output_tokens"] == 512
    assert row_of(rows, 2)["model"] == "internal-1t"
    told = {(taken.kind, taken.name): taken for taken in rows.explanation.taken}
    assert told["model", "mine"].cells == "Curves!A3:G9, Curves!A12:D14"
    assert told["workload", "fixed"].note == "no row names it"
    assert [(use.sheet, use.used_as) for use in rows.explanation.tables] == [
        ("Curves", "profiles"),
        ("Curves", "profiles"),
        ("Traffic", "workloads"),
        ("Traffic", "workloads"),
        ("Scenarios", "scenarios"),
    ]


def test_names_of_sheets_come_before_those_that_ship(tmp_path: Path) -> None:
    profiles = [[cell if cell != "mine" else "internal-1t" for cell in line] for line in (*PROFILES, (), *DECODE)]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, ROW], "Curves": profiles}))
    assert isinstance(row_of(rows)["model"], dict)
    assert "stands in for" in rows.explanation.taken[0].note


def test_titles_state_model_and_hardware(tmp_path: Path) -> None:
    sheet: list[list[Any]] = [
        [None, "Prefill profile \u2013 mine, 8\u00d7H20"],
        [],
        [None, "Input length", "Latency (ms)", "KV size (GB)"],
        [None, "1K", 421, 1.04],
        [None, "128k", 5569, 33.3],
        [],
        [None, "Decode"],
        [None, "Batch", "ITL ms"],
        [None, 1, 12.5],
        [None, 64, 30],
    ]
    file = workbook(tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, row(model="mine")], "Prefill": sheet})
    rows = read_scenarios(file)
    assert rows.problems(0) == ()
    (profile,) = row_of(rows)["model"]["profiles"]
    assert (profile["hardware"], profile["gpus_per_instance"]) == ("H20", 8)
    assert profile["decode"] == {"batch": [1, 64], "step_s": [0.0125, 0.03]}


@pytest.mark.parametrize(
    ("at", "cell", "place", "code"),
    [
        ((1, 4), -421, "Curves!E2", "out-of-range"),
        ((2, 4), "506 GB", "Curves!E3", "bad-unit"),
        ((2, 4), "", "", ""),
        ((2, 3), "", "Curves!D3", "missing-key"),
        ((4, 3), "1K", "Curves!D5", "not-ascending"),
        ((4, 3), "=A1", "Curves!D5", "uncalculated-formula"),
        ((1, 2), "", "", ""),
        ((1, 2), 16, "Curves!C2", "ambiguous"),
        ((1, 6), "guessed", "", ""),
        ((2, 5), 1e-3, "Curves!F3", "falling-size"),
    ],
)
def test_what_is_wrong_with_a_model_marks_the_rows_that_name_it(
    tmp_path: Path, at: tuple[int, int], cell: Any, place: str, code: str
) -> None:
    import openpyxl

    profiles = [list(line) for line in PROFILES]
    profiles[at[0]][at[1]] = cell
    file = workbook(
        tmp_path / "plan.xlsx",
        {"Scenarios": [HEADERS, row(model="mine"), ROW], "Curves": [*profiles, [], *DECODE]},
    )
    if cell == "=A1":
        book = openpyxl.load_workbook(file)
        book.save(file)
    rows = read_scenarios(file)
    assert codes(rows, 0) == ([(code, place)] if code else [])
    assert codes(rows, 1) == []


def test_steps_by_batch_and_context(tmp_path: Path) -> None:
    steps: list[list[Any]] = [
        ["Model", "GPU", "Batch", "Context (tokens)", "Step (ms)"],
        *(["mine", "H20", b, c, b * 0.1 + c / 1000] for b in (1, 64) for c in (1024, 32768)),
    ]
    file = workbook(
        tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, row(model="mine")], "Curves": [*PROFILES, [], *steps]}
    )
    rows = read_scenarios(file)
    assert rows.problems(0) == ()
    decode = row_of(rows)["model"]["profiles"][1]["decode"]
    assert decode["context_tokens"] == [1024, 32768]
    assert decode["batch"] == [1, 64]
    assert decode["step_s"][1] == pytest.approx([0.007424, 0.039168])


def test_prices_hold_for_rows_that_state_none(tmp_path: Path) -> None:
    headers = [*HEADERS, "PD price"]
    file = workbook(
        tmp_path / "plan.xlsx",
        {
            "Scenarios": [headers, [*ROW, 9], [*ROW, "-"]],
            "Prices": [*PRICES, [], *LINK_PRICES],
        },
    )
    rows = read_scenarios(file)
    first, second = row_of(rows, 0), row_of(rows, 1)
    assert first["clusters.pd.price_per_gpu_hour"] == 9
    assert second["clusters.pd.price_per_gpu_hour"] == 1.2
    assert second["clusters.prfaas.price_per_gpu_hour"] == 2.5
    assert second["links.0.price_per_gbps_hour"] == 0.5
    assert second["links.0.price_per_gb"] == 0.01
    assert rows.where(0, "clusters.pd.price_per_gpu_hour") == "Scenarios!J2"
    assert rows.where(1, "clusters.pd.price_per_gpu_hour") == "Prices!B3"
    assert rows.where(1, "links[0].price_per_gb") == "Prices!B6"


def test_one_price_for_all_clusters_of_a_row(tmp_path: Path) -> None:
    headers = [*HEADERS, "Price ($/GPU-hour)", "PD price ($/GPU-hour)"]
    file = workbook(
        tmp_path / "plan.xlsx",
        {"Scenarios": [headers, [*ROW, 3, None], [*ROW, 3, 1], [*ROW, None, None]], "Prices": PRICES},
    )
    rows = read_scenarios(file)
    found = [
        tuple(row_of(rows, i).get(f"clusters.{name}.price_per_gpu_hour") for name in ("prfaas", "pd")) for i in range(3)
    ]
    assert found == [(3, 3), (3, 1), (2.5, 1.2)]
    assert rows.where(0, "clusters.prfaas.price_per_gpu_hour") == "Scenarios!J2"


def test_prices_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    file = workbook(tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, ROW], "Prices": [*PRICES, ("H200", 3)]})
    rows = read_scenarios(file)
    assert [(p.code, p.where) for p in rows.explanation.problems] == [("ambiguous", "Prices!B4")]


def test_tables_beside_each_other(tmp_path: Path) -> None:
    lines: list[list[Any]] = [[*HEADERS, None, *PRICES[0]], [*ROW, None, *PRICES[1]], [*ROW, None, *PRICES[2]]]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"All": lines}))
    assert len(rows) == 2
    assert row_of(rows, 1)["clusters.pd.price_per_gpu_hour"] == 1.2
    lower: list[list[Any]] = copy.deepcopy(lines[:1])
    lower[0] = [*HEADERS]
    lower += [[*ROW], [*ROW, None, *PRICES[0]], [*ROW, None, *PRICES[1]]]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"All": lower}))
    assert len(rows) == 3
    assert row_of(rows, 0)["clusters.prfaas.price_per_gpu_hour"] == 2.5
    assert UNSET not in rows.values(0, 1)[0][:9]


def test_a_workload_that_is_wrong_marks_its_rows(tmp_path: Path) -> None:
    workloads = [*WORKLOADS, ("bad", "uniform", None, None, 100, 50, 1024), ("chat", "constant", None, None, 1, 2, 3)]
    file = workbook(
        tmp_path / "plan.xlsx",
        {"Scenarios": [HEADERS, row(workload="bad"), row(workload="chat"), ROW], "Traffic": workloads},
    )
    rows = read_scenarios(file)
    assert codes(rows, 0) == [("out-of-range", "Traffic!F4")]
    assert codes(rows, 1) == [("duplicate-key", "Traffic!5")]
    assert codes(rows, 2) == []


def test_all_that_is_wrong_with_extra_sheets_comes_at_once(tmp_path: Path) -> None:
    profiles = [*PROFILES[:2], ("mine", "H200", 8, "long", 506, 2.08, None), *PROFILES[3:]]
    decode = [*DECODE[:2], ("mine", "H20", "forty", "fast"), ("mine", "H20", 1, True)]
    mix = [*TABLE[:1], ("mix", "32K", "30%", 512), ("mix", "2K", "lots", None), ("mix", "many", 0.2, None)]
    file = workbook(
        tmp_path / "plan.xlsx",
        {
            "Scenarios": [HEADERS, row(model="mine", workload="mix"), row(workload="mix")],
            "Curves": [*profiles, [], *decode],
            "Traffic": mix,
            "Prices": [*PRICES, ("H100", "free"), ("B200", "3 EUR")],
        },
    )
    rows = read_scenarios(file)
    of_mix = [("wrong-type", "Traffic!C3"), ("bad-unit", "Traffic!B4")]
    of_mine = [("bad-unit", "Curves!D3"), ("wrong-type", "Curves!C11"), ("wrong-type", "Curves!D12")]
    assert set(codes(rows, 0)) == {*of_mine, ("bad-unit", "Curves!D11"), *of_mix}
    assert codes(rows, 1) == of_mix
    of_prices = [("wrong-type", "Prices!B4"), ("bad-unit", "Prices!B5")]
    told = [(problem.code, problem.where) for problem in rows.explanation.problems]
    assert told[:2] == of_prices
    assert set(told[2:]) == set(codes(rows, 0)) | set(codes(rows, 1))
    assert not any(each.name == "h100" for each in rows.explanation.taken)


def test_weights_may_be_percentages(tmp_path: Path) -> None:
    mix = [("Workload", "Length (tokens)", "Share (%)", "Output"), ("mix", "32K", 30, 512), ("mix", "2K", "70 %", None)]
    file = workbook(tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, row(workload="mix")], "Traffic": mix})
    rows = read_scenarios(file)
    assert rows.problems(0) == ()
    assert row_of(rows)["workload"]["input_tokens"]["weights"] == [0.7, 0.3]


def test_an_explanation_tells_of_cells_of_scenarios_too(tmp_path: Path) -> None:
    many = [(*ROW[:7], "12,5", *ROW[8:])] * 130
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, ROW, *many]}))
    told = rows.explanation
    assert len(told.problems) == 100
    assert (told.problems[0].code, told.problems[0].where) == ("ambiguous-number", "Scenarios!H3")
    assert "30 more problems" in told.notes[-1].message


@pytest.mark.parametrize(
    "header",
    ["Rate ($/h)", "$/h", "Cost per GPU-hour (USD)", "List price ($/GPU-hour)", "Hourly rate ($)", "USD/GPU/hr"],
)
def test_words_for_prices_of_accelerators(tmp_path: Path, header: str) -> None:
    prices = [("Accelerator", header), ("H200", 3), ("H20", 1)]
    rows = read_scenarios(workbook(tmp_path / "plan.xlsx", {"Plan": [HEADERS, ROW], "Prices": prices}))
    found = row_of(rows)
    assert found["clusters.prfaas.price_per_gpu_hour"] == 3
    assert found["clusters.pd.price_per_gpu_hour"] == 1
