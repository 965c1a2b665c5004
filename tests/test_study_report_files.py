"""Reports of studies as they are read, written, narrowed and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.schemas import schema
from prfaas_opt.study_report_api import report_study, write_report
from tests.reports import BANDWIDTH, Row, results, small_study

# What is written.


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_study(tmp_path_factory.mktemp("study"))


def test_every_format_gives_the_same_report(study: Path) -> None:
    reports = [report_study(study / f"out.{suffix}") for suffix in ("parquet", "csv", "jsonl")]
    plain = [
        msgspec.to_builtins(each) | {"source": "", "study": ""} | {"axes": [a.name for a in each.axes]}
        for each in reports
    ]
    assert plain[0] == plain[1] == plain[2]
    assert (reports[0].rows, reports[0].planned, reports[0].study) == (18, 12, "a study")
    assert reports[0].by_status == {"error": 6} | {
        key: value for key, value in reports[0].by_status.items() if key != "error"
    }
    assert reports[0].pareto.objectives == ("throughput", "cost", "ttft", "egress")


def test_break_even_of_a_study_is_what_plans_say(study: Path) -> None:
    from prfaas_opt import load_scenario, plan

    report = report_study(study / "out.parquet")
    found = next(each for each in report.break_even if each.axis == BANDWIDTH and each.measure == "throughput")
    intervals = {line.values["model"]: (line.low, line.high) for line in found.each}
    assert intervals == {"internal-1t": (1.0, 10.0), "minimax-m2.5": (10.0, 100.0)}
    for model, (low, high) in intervals.items():
        ratios = [
            plan(load_scenario(overrides={"model": model, "links.0.bandwidth": f"{b}Gbps"})).ratio for b in (low, high)
        ]
        assert ratios[0] is not None
        assert ratios[1] is not None
        assert ratios[0] < 1 < ratios[1]
    price = next(each for each in report.break_even if each.axis.endswith("price_per_gpu_hour"))
    assert price.measure == "cost"
    assert {line.pays for line in price.each} <= {"until", "always", "never"}


def test_break_evens_are_narrowed_by_planning_between_rows(study: Path) -> None:
    from prfaas_opt import load_scenario, plan

    report = report_study(study / "out.parquet", study=study / "study.yaml")
    assert sum(line.low is not None for each in report.break_even for line in each.each) >= 6
    for each in report.break_even:
        for line in each.each:
            assert (line.refined_low is None) == (line.low is None)
            if line.low is None or line.high is None or line.refined_low is None or line.refined_high is None:
                continue
            assert line.low <= line.refined_low < line.refined_high <= line.high
            assert line.refined_high - line.refined_low <= 1e-3 * line.refined_high
            paid = []
            for value in (line.refined_low, line.refined_high):
                told = line.values | {each.axis: value}
                fields = {name: str(field) for name, field in told.items() if name != BANDWIDTH}
                fields |= {"clusters.pd.price_per_gpu_hour": "1", "links.0.bandwidth": f"{told[BANDWIDTH]}Gbps"}
                found = plan(load_scenario(overrides=fields))
                ratio = found.ratio
                if each.measure == "cost":
                    assert found.cost is not None
                    ratio = found.cost.ratio
                assert ratio is not None
                paid.append(ratio > 1)
            assert paid == [line.pays != "from", line.pays == "from"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[internal-1t, minimax-m2.5, kimi-k2.5]", "[kimi-k2.5]", "no row"),
        ("[internal-1t, minimax-m2.5, kimi-k2.5]", "[minimax-m2.5, internal-1t, kimi-k2.5]", "other plans"),
        ("links.0.bandwidth: [1Gbps, 10Gbps, 100Gbps]", "clusters.pd.instances: [1, 2, 3]", "no axis"),
    ],
)
def test_another_study_narrows_nothing(study: Path, tmp_path: Path, old: str, new: str, words: str) -> None:
    text = (study / "study.yaml").read_text(encoding="utf-8")
    assert old in text
    other = tmp_path / "other.yaml"
    other.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        report_study(study / "out.parquet", study=other)


def run(*arguments: str, width: int = 80) -> Any:
    return CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"}).invoke(app, ["study", "report", *arguments])


def test_the_terminal_shows_all_answers_within_its_width(study: Path) -> None:
    done = run(str(study / "out.parquet"))
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "a study: 12 of 18 rows have a plan" in done.stdout
    for title in ("Pareto-optimal", "Where the bottleneck changes along bandwidth (Gbps)", "Main effects on cost"):
        assert title in done.stdout
    assert "Where remote prefill pays along bandwidth (Gbps)" in done.stdout


def test_json_is_as_its_schema_says(study: Path) -> None:
    done = run(str(study / "out.parquet"), "--json", "--pareto", "throughput, cost")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, schema("study report"))
    assert answer["command"] == "study report"
    assert answer["data"]["pareto"]["objectives"] == ["throughput", "cost"]


def test_json_of_drawn_rows_is_as_its_schema_says(tmp_path: Path) -> None:
    rows = [{f"input.{BANDWIDTH}": 1.0 + i, "served_rps": 1.0 + i, "ratio": i / 9} for i in range(30)]
    path = results(tmp_path / "r.parquet", rows)
    table = pq.read_table(path)
    pq.write_table(
        table.append_column("input.slo.tokens_per_s", pa.array([float(7 * i % 30) for i in range(30)])), path
    )
    found = json.loads(run(str(path), "--json").stdout)
    jsonschema.validate(found, schema("study report"))
    assert len(found["data"]["paying_shares"][0]["stretches"]) == 10
    assert run(str(path), "-o", str(tmp_path / "r.csv")).exit_code == 0
    assert "\npaying share," in (tmp_path / "r.csv").read_text(encoding="utf-8")


def test_files_hold_the_report(study: Path, tmp_path: Path) -> None:
    page, table = tmp_path / "r.md", tmp_path / "r.csv"
    report = report_study(study / "out.parquet")
    assert run(str(study / "out.parquet"), "-o", str(page)).exit_code == 0
    write_report(report, table)
    text = page.read_text(encoding="utf-8")
    assert "| 1 to 10 | from there on |" in text
    assert "| Row | Fields | Serves (req/s) | USD / 1,000 | TTFT P90 (s) | Egress (Gbps) |" in text
    assert text.count("\n## ") >= 6
    lines = table.read_text(encoding="utf-8").splitlines()
    sections = {line.split(",")[0] for line in lines[1:]}
    assert sections == {"pareto", "bottlenecks", "changes", "effects", "break-even"}


def test_a_part_of_the_rows_is_as_a_file_of_them(study: Path, tmp_path: Path) -> None:
    table = pq.read_table(study / "out.parquet")
    model, bandwidth = (table[f"input.{name}"].to_pylist() for name in ("model", BANDWIDTH))
    kept = [m == "internal-1t" and b == 10.0 for m, b in zip(model, bandwidth, strict=True)]
    pq.write_table(table.filter(pa.array(kept)), tmp_path / "part.parquet")
    expected = report_study(tmp_path / "part.parquet")
    assert expected.rows == 2
    for spelt, value in (("links.0.bandwidth", "10Gbps"), ("links[0].bandwidth", "10"), (BANDWIDTH, "10.0")):
        found = report_study(study / "out.parquet", where={"model": "internal-1t", spelt: value})
        assert msgspec.structs.replace(found, where={}, source="") == msgspec.structs.replace(expected, source="")
    done = run(str(study / "out.parquet"), "--where", "model=internal-1t", "--where", "links.0.bandwidth=10Gbps")
    assert "all 2 rows with model internal-1t, links.0.bandwidth 10Gbps have a plan" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"modle": "internal-1t"}, "did you mean model"),
        ({"instances": "8"}, "use one of: model, links.0.bandwidth, clusters.prfaas.price_per_gpu_hour"),
        ({"model": "gpt"}, "expected a value that rows have: internal-1t"),
        ({"links.0.bandwidth": "11Gbps"}, "rows have: 1, 10, 100"),
        ({"links.0.bandwidth": "wide"}, "found wide"),
    ],
)
def test_what_rows_are_limited_to_must_be_there(study: Path, where: dict[str, str], words: str) -> None:
    with pytest.raises(InputError) as error:
        report_study(study / "out.parquet", where=where)
    assert words in str(error.value)
    assert error.value.problems[0].where.startswith("--where")


def test_names_of_scenarios_are_shown_and_run_nowhere(tmp_path: Path) -> None:
    rows = [{"name": f"=site {i}", "served_rps": float(i + 1)} for i in range(3)]
    path = results(tmp_path / "r.parquet", rows)
    table = pq.read_table(path)
    pq.write_table(table.append_column("input.name", table["name"]), path)
    report = report_study(path, ["throughput"])
    assert [(each.row, each.name) for each in report.pareto.rows] == [(2, "=site 2")]
    assert report.axes == ()
    model = pa.array(["=cmd", "b", "[bold]"])
    at = table.schema.get_field_index("input.model")
    pq.write_table(table.set_column(at, "input.model", model), path)
    write_report(report_study(path, ["throughput"]), tmp_path / "r.csv")
    assert ",'=cmd," in (tmp_path / "r.csv").read_text(encoding="utf-8")
    assert "[bold]" in run(str(path)).stdout


def test_axes_are_called_as_their_fields(tmp_path: Path) -> None:
    rows = [{f"input.{BANDWIDTH}": 1.0 + i, "served_rps": 1.0 + i % 2} for i in range(3)]
    path = results(tmp_path / "r.parquet", rows)
    table = pq.read_table(path)
    rates = pa.field("input.slo.tokens_per_s", pa.float64(), metadata={"unit": "tokens/s"})
    pq.write_table(table.append_column(rates, pa.array([20.0, 30.0, 20.0])), path)
    shown = run(str(path)).stdout
    assert "slo.tokens_per_s: 2 values, 20 to 30 tokens/s" in shown
    assert "tokens_per_s (tokens/s)" in shown
    assert "No two rows with a plan differ in slo.tokens_per_s alone" in " ".join(shown.split())


def test_a_narrow_table_breaks_no_name(tmp_path: Path) -> None:
    rows = [
        {
            f"input.{BANDWIDTH}": 1.0 + i,
            "input.clusters.pd.instances": (i + 1) % 3,
            "served_rps": 1.0 + i,
            "cost.usd_per_thousand_requests": 1000.0 + i,
            "ttft_s.p90": 1.0 + i,
            "egress_gbps": 100.0 + i,
        }
        for i in range(3)
    ]
    path = results(tmp_path / "r.parquet", rows)
    table = pq.read_table(path)
    price = "input.clusters.prfaas.price_per_gpu_hour"
    pq.write_table(table.append_column(price, pa.array([2.123, 2.789, 2.456])), path)
    assert "price_per_gpu_hour 2.123" in run(str(path)).stdout


def test_values_that_are_not_shown_are_counted_by_axis(tmp_path: Path) -> None:
    rows = [{f"input.{BANDWIDTH}": 1.0 + i, "served_rps": 1.0 + i} for i in range(13)]
    path = results(tmp_path / "r.parquet", rows)
    assert "Shown: 12 of 13 values of bandwidth; --top 13 shows all." in run(str(path)).stdout
    assert "Shown:" not in run(str(path), "--top", "13").stdout


def test_rows_are_chosen_by_the_names_that_the_report_has(study: Path) -> None:
    whole, short = (
        report_study(study / "out.parquet", where={name: "10Gbps"}) for name in ("links.0.bandwidth", "bandwidth")
    )
    assert 0 < short.rows < 18
    assert msgspec.structs.replace(short, where={}) == msgspec.structs.replace(whole, where={})


def test_an_end_of_two_names_is_none(tmp_path: Path) -> None:
    path = results(tmp_path / "r.parquet", [{"input.clusters.pd.instances": n, "served_rps": 1.0} for n in (1, 2)])
    table = pq.read_table(path)
    pq.write_table(table.append_column("input.clusters.prfaas.instances", pa.array([1, 2])), path)
    assert report_study(path, where={"pd.instances": "1"}).rows == 1
    with pytest.raises(InputError, match=r"write more of it: clusters\.pd\.instances or clusters\.prfaas\.instances"):
        report_study(path, where={"instances": "1"})


# What is wrong.


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        ("missing", "missing-file", "no such file"),
        ("text", "unknown-format", "expected one of"),
        ("cut parquet", "unreadable-file", "cannot be read"),
        ("cut csv", "unreadable-file", "ends in the middle of a row"),
        ("cut jsonl", "unreadable-file", "ends in the middle of a row"),
        ("odd jsonl", "unreadable-file", "no line of results"),
        ("other columns", "wrong-file", "no results of a study"),
        ("a scenario", "unknown-format", "expected one of"),
        ("no rows", "empty-file", "holds no rows"),
        ("empty csv", "unreadable-file", ""),
        ("version", "wrong-version", "expected 1"),
        ("twice", "duplicate-key", "row 3 more than once"),
        ("texts", "unreadable-file", "not as study writes it"),
    ],
)
def test_what_is_no_file_of_results_is_refused(study: Path, tmp_path: Path, make: str, code: str, words: str) -> None:
    path = tmp_path / "r.parquet"
    rows: list[Row] = [{"served_rps": 1.0} for _ in range(5)]
    match make:
        case "text":
            path = tmp_path / "r.txt"
            path.write_text("x")
        case "a scenario":
            path = tmp_path / "s.yaml"
            path.write_text("model: internal-1t")
        case "cut parquet":
            path.write_bytes((study / "out.parquet").read_bytes()[:-100])
        case "cut csv" | "cut jsonl":
            path = tmp_path / f"r.{make[4:]}"
            path.write_bytes((study / f"out.{make[4:]}").read_bytes()[:-900])
        case "odd jsonl":
            path = tmp_path / "r.jsonl"
            path.write_bytes((study / "out.jsonl").read_bytes() + b"{\n")
        case "other columns":
            pq.write_table(pa.table({"row": [1], "input.x": [2]}), path)
        case "no rows":
            results(path, [])
        case "empty csv":
            path = tmp_path / "r.csv"
            path.write_text("")
        case "version":
            results(path, rows, {"schema_version": "7"})
        case "twice":
            results(path, [each | {"row": min(i, 3)} for i, each in enumerate(rows)])
        case "texts":
            table = pq.read_table(results(path, rows))
            at = table.schema.get_field_index("served_rps")
            pq.write_table(table.set_column(at, "served_rps", pa.array(["fast"] * 5)), path)
    done = run(str(path), "--json")
    assert done.exit_code == 4, done.output
    (problem,) = json.loads(done.stdout)["errors"]
    assert problem["code"] == code
    assert words in problem["message"]
    assert path.name in problem["where"]


def test_a_report_does_not_replace_its_source(study: Path, tmp_path: Path) -> None:
    done = run(str(study / "out.csv"), "-o", str(study / "out.csv"))
    assert done.exit_code == 4
    assert "the file of results itself" in done.stderr
    done = run(str(study / "out.csv"), "-o", str(tmp_path / "r.pdf"))
    assert done.exit_code == 4
    assert "expected .md or .csv" in done.stderr


def test_rows_without_a_plan_make_a_report_that_says_so(tmp_path: Path) -> None:
    path = results(tmp_path / "r.parquet", [{"status": "error", f"input.{BANDWIDTH}": b} for b in (1.0, 2.0)])
    report = report_study(path)
    assert (report.planned, report.pareto.count, report.effects, report.changes) == (0, 0, (), ())
    assert run(str(path)).exit_code == 0
    assert run(str(path), "--pareto", "throughput").exit_code == 0
