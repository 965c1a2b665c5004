"""Reports of studies against plain Python that compares every row with every other."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.schemas import schema
from prfaas_opt.study.report.break_even import break_even_along
from prfaas_opt.study.report.frame import Levels
from prfaas_opt.study.report.lines import Axis, axes_of, lines_along
from prfaas_opt.study.report.pareto import non_dominated
from prfaas_opt.study_api import run_study
from prfaas_opt.study_report_api import StudyReport, report_study, write_report

Row = dict[str, Any]
BANDWIDTH = "links.0.bandwidth_gbps"
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

NUMBERS: dict[str, pa.DataType] = {
    "served_rps": pa.float64(),
    "cost.usd_per_thousand_requests": pa.float64(),
    "ttft_s.p90": pa.float64(),
    "egress_gbps": pa.float64(),
    "ratio": pa.float64(),
    "cost.ratio": pa.float64(),
    "offload_share": pa.float64(),
    f"input.{BANDWIDTH}": pa.float64(),
    "input.clusters.pd.instances": pa.int64(),
}


def results(path: Path, rows: Sequence[Row], metadata: dict[str, str] | None = None) -> Path:
    """A file of results with a few columns; what a row does not have is null."""
    texts = {"status": "optimal", "bottlenecks": "egress", "name": "base", "input.model": "m"}
    columns: dict[str, pa.Array[Any]] = {"row": pa.array([row.get("row", i) for i, row in enumerate(rows)], pa.int64())}
    for name, default in texts.items():
        columns[name] = pa.array([row.get(name, default) for row in rows], pa.string())
    for name, kind in NUMBERS.items():
        columns[name] = pa.array([row.get(name) for row in rows], kind)
    table = pa.table(columns).replace_schema_metadata({"schema_version": "1", "study": "t", **(metadata or {})})
    pq.write_table(table, path, row_group_size=7)
    return path


# The front.


def brute_front(points: Sequence[Sequence[float]]) -> list[bool]:
    def beats(one: Sequence[float], other: Sequence[float]) -> bool:
        pairs = list(zip(one, other, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    return [not any(beats(other, one) for other in points) for one in points]


@QUIET
@given(
    st.integers(1, 4).flatmap(
        lambda d: st.lists(
            st.tuples(*[st.one_of(st.integers(0, 4).map(float), st.floats(-1e3, 1e3), st.just(-0.0))] * d), max_size=60
        )
    )
)
def test_the_front_is_that_of_every_pair(points: list[tuple[float, ...]]) -> None:
    found = non_dominated(np.array(points, dtype=float) if points else np.empty((0, 2)))
    assert found.tolist() == brute_front(points)


@pytest.mark.parametrize("objectives", [2, 3, 4])
@pytest.mark.parametrize("shape", ["cloud", "front", "ties", "one column"])
def test_large_fronts_are_divided_rightly(objectives: int, shape: str) -> None:
    rng = np.random.default_rng(objectives)
    points = rng.normal(size=(1500, objectives))
    if shape == "front":
        points[:, -1] = -points[:, :-1].sum(axis=1)
    elif shape == "ties":
        points = rng.integers(0, 9, size=points.shape).astype(float)
        points[:, -1] = np.round(20 - points[:, :-1].sum(axis=1) + rng.integers(0, 2, 1500))
    elif shape == "one column":
        points[:, 0] = rng.integers(0, 2, 1500)
    assert non_dominated(points).tolist() == brute_front(points.tolist())


def test_the_front_of_a_file(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"served_rps": 3.0, "egress_gbps": 5.0},
        {"served_rps": 2.0, "egress_gbps": 6.0},  # less for more
        {"served_rps": 3.0, "egress_gbps": 5.0},  # the same as the first
        {"served_rps": 1.0, "egress_gbps": 1.0},
        {"served_rps": 9.0},  # no figure
        {"status": "error"},
        {"served_rps": 9.0, "egress_gbps": math.nan},
    ]
    front = report_study(results(tmp_path / "r.parquet", rows), ["throughput", "egress"]).pareto
    assert [each.row for each in front.rows] == [0, 2, 3]
    assert (front.count, front.compared, front.without_plan, front.without_figure) == (3, 4, 1, 2)
    assert front.rows[0].figures == {"throughput": 3.0, "egress": 5.0}


def test_objectives_are_those_that_rows_have(tmp_path: Path) -> None:
    path = results(tmp_path / "r.parquet", [{"served_rps": 3.0, "ttft_s.p90": 5.0}, {"served_rps": 4.0}])
    assert report_study(path).pareto.objectives == ("throughput", "ttft")
    for names, code in ((["cost"], "missing-figure"), (["speed"], "unknown-name"), (["ttft", "ttft"], "duplicate-key")):
        with pytest.raises(InputError) as error:
            report_study(path, names)
        assert [each.code for each in error.value.problems] == [code]


# Lines, changes, break-even and effects, on grids with holes and repeated rows.

VALUES = st.fixed_dictionaries(
    {
        f"input.{BANDWIDTH}": st.sampled_from([1.0, 2.5, 10.0, 40.0]),
        "input.model": st.sampled_from(["a", "b", "c", None]),
        "input.clusters.pd.instances": st.sampled_from([None, 2, 4]),
        "served_rps": st.one_of(st.none(), st.integers(1, 9).map(float)),
        "bottlenecks": st.sampled_from(["egress", "pd_decode", "prfaas, pd_prefill"]),
        "ratio": st.one_of(st.none(), st.sampled_from([0.5, 1.0, 1.0 + 1e-12, 1.5])),
        "cost.ratio": st.one_of(st.none(), st.sampled_from([0.9, 1.1])),
        "offload_share": st.sampled_from([0.5, 0.5, 0.0]),
    }
)
ROWS = st.lists(VALUES, min_size=1, max_size=40)
AXES = (f"input.{BANDWIDTH}", "input.model", "input.clusters.pd.instances")


def lines_of(rows: Sequence[Row], axis: str, axes: Sequence[str]) -> list[list[Row]]:
    """Rows with a plan that differ in an axis alone, by its value, the first of equal ones."""
    found: dict[tuple[Any, ...], dict[float, Row]] = defaultdict(dict)
    for row in rows:
        if row["served_rps"] is not None and row[axis] is not None:
            found[tuple(row[each] for each in axes if each != axis)].setdefault(row[axis], row)
    return [[line[value] for value in sorted(line)] for line in found.values() if len(line) > 1]


def varying(rows: Sequence[Row]) -> list[str]:
    return [axis for axis in AXES if len({row[axis] for row in rows}) > 1]


def merged(report: StudyReport) -> bool:
    """Whether fields change together, so that lines are along both."""
    return any(axis.together_with for axis in report.axes)


@QUIET
@given(ROWS)
def test_changes_of_bottleneck_are_those_of_neighbours(tmp_path: Path, rows: list[Row]) -> None:
    report = report_study(results(tmp_path / "r.parquet", rows))
    if merged(report):
        return
    axes = varying(rows)
    for along in report.changes:
        expected: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        lines = lines_of(rows, f"input.{along.axis}", axes)
        unchanged = 0
        for line in lines:
            pairs = [pair for pair in itertools.pairwise(line) if pair[0]["bottlenecks"] != pair[1]["bottlenecks"]]
            unchanged += not pairs
            for one, other in pairs:
                value = f"input.{along.axis}"
                key = (one[value], other[value], one["bottlenecks"], other["bottlenecks"])
                expected[key].append(one)
        found = {(each.low, each.high, each.before, each.after): each for each in along.changes}
        assert {key: each.lines for key, each in found.items()} == {key: len(each) for key, each in expected.items()}
        assert (along.lines, along.unchanged) == (len(lines), unchanged)
        for key, each in found.items():
            for axis in (name for name in axes if name != f"input.{along.axis}"):
                among = {line[0][axis] for line in lines}
                here = {row[axis] for row in expected[key]}
                limited = each.where.get(axis.removeprefix("input."))
                assert (set(limited) if limited else among) == here
    told = {each.axis for each in along_all(report)}
    numeric = [axis for axis in axes if axis != "input.model"]
    assert told == {axis.removeprefix("input.") for axis in numeric if lines_of(rows, axis, axes)}


def along_all(report: StudyReport) -> Sequence[Any]:
    return report.changes


@QUIET
@given(ROWS)
def test_break_evens_are_between_neighbours(tmp_path: Path, rows: list[Row]) -> None:
    report = report_study(results(tmp_path / "r.parquet", rows))
    if merged(report):
        return
    axes = varying(rows)
    expected: dict[str, list[Any]] = {}
    for measure, column in (("throughput", "ratio"), ("cost", "cost.ratio")):
        found = []
        for line in lines_of(rows, AXES[0], axes) if AXES[0] in axes else []:
            some = [row for row in line if row[column] is not None]
            if len(some) < 2:
                continue
            pays = [row[column] > 1 + 1e-9 and row["offload_share"] > 0 for row in some]
            flips = [i for i in range(len(some) - 1) if pays[i] != pays[i + 1]]
            word = "always" if pays[0] else "never"
            low = high = None
            if flips:
                word = "in between" if len(flips) > 1 else ("until" if pays[0] else "from")
                low, high = some[flips[0]][AXES[0]], some[flips[0] + 1][AXES[0]]
            values = {axis.removeprefix("input."): some[0][axis] for axis in axes if axis != AXES[0]}
            found.append((json.dumps(values, sort_keys=True), word, low, high))
        if found:
            expected[measure] = sorted(found, key=repr)
    told = {
        each.measure: sorted(
            ((json.dumps(line.values, sort_keys=True), line.pays, line.low, line.high) for line in each.each), key=repr
        )
        for each in report.break_even
    }
    assert told == expected
    for each in report.break_even:
        assert sum(group.lines for group in each.alike) == each.lines == len(each.each)


@QUIET
@given(ROWS)
def test_effects_are_means_by_value(tmp_path: Path, rows: list[Row]) -> None:
    report = report_study(results(tmp_path / "r.parquet", rows))
    figures = [row["served_rps"] for row in rows if row["served_rps"] is not None]
    for effect in (each for each in report.effects if each.measure == "throughput"):
        axis = f"input.{effect.axis}"
        groups = {value: [row for row in rows if row[axis] == value] for value in {row[axis] for row in rows}}
        assert {level.value: level.rows for level in effect.levels} == {key: len(each) for key, each in groups.items()}
        between = 0.0
        for level in effect.levels:
            here = [row["served_rps"] for row in groups[level.value] if row["served_rps"] is not None]
            assert level.figures == len(here)
            if here:
                assert level.mean == pytest.approx(statistics.fmean(here))
                assert (level.least, level.most) == (min(here), max(here))
                between += len(here) * (statistics.fmean(here) - statistics.fmean(figures)) ** 2
        total = sum((each - statistics.fmean(figures)) ** 2 for each in figures)
        if total < 1e-9:
            assert effect.variance_share is None
        else:
            assert effect.variance_share == pytest.approx(between / total, abs=1e-9)


def test_drawn_values_are_in_stretches_and_have_no_neighbours(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        {f"input.{BANDWIDTH}": float(b), "input.clusters.pd.instances": int(n), "served_rps": float(b)}
        for b, n in zip(rng.uniform(1, 100, 400), rng.permutation(400), strict=True)
    ]
    report = report_study(results(tmp_path / "r.parquet", rows))
    bandwidth, instances = report.effects
    assert (bandwidth.by, instances.by, bandwidth.count) == ("quantile", "quantile", 10)
    assert {level.rows for level in bandwidth.levels} == {40}
    assert all(one.high < other.low for one, other in itertools.pairwise(bandwidth.levels) if one.high and other.low)
    assert bandwidth.variance_share is not None
    assert bandwidth.variance_share > 0.98
    assert instances.variance_share is not None
    assert instances.chance_share == pytest.approx(9 / 399)
    assert instances.variance_share < 4 * 9 / 399
    assert not report.axes[0].has_neighbours
    assert not report.changes
    assert not report.break_even
    assert any(BANDWIDTH in note and "neighbours" in note for note in report.notes)


def test_fields_of_a_zip_are_one_axis(tmp_path: Path) -> None:
    rows = [
        {f"input.{BANDWIDTH}": b, "input.clusters.pd.instances": n, "input.model": m, "served_rps": 1.0, "ratio": b / 5}
        for (b, n), m in itertools.product([(1.0, 8), (4.0, 6), (9.0, 3)], ["a", "b"])
    ]
    report = report_study(results(tmp_path / "r.parquet", rows))
    assert [(axis.name, axis.together_with) for axis in report.axes] == [
        ("model", ()),
        (BANDWIDTH, ("clusters.pd.instances",)),
    ]
    assert [(each.low, each.high, each.lines) for each in report.break_even[0].alike] == [(4.0, 9.0, 2)]


def test_keys_of_many_axes_are_not_mixed_up() -> None:
    rng = np.random.default_rng(2)
    columns = [Levels(f"c{i}", rng.permutation(50_000), np.arange(50_000.0)) for i in range(6)]
    axes = [Axis(each) for each in columns]
    assert lines_along(axes[0], axes, np.arange(50_000)).count == 0
    twice = [Levels(each.name, np.tile(each.codes, 2), each.values) for each in columns[1:]]
    first = Levels("first", np.repeat([0, 1], 50_000), np.array([0.0, 1.0]))
    axes = [Axis(each) for each in (first, *twice)]
    lines = lines_along(axes[0], axes, np.arange(100_000))
    assert lines.count == 50_000
    found = break_even_along(lines, np.repeat([0.5, 2.0], 50_000), np.ones(100_000, dtype=bool), "throughput")
    assert found is not None
    assert [(each.pays, each.low, each.high, each.lines) for each in found.alike] == [("from", 0.0, 1.0, 50_000)]


def test_columns_drawn_by_themselves_do_not_change_together() -> None:
    rng = np.random.default_rng(3)
    one, other = (Levels(name, rng.permutation(99), np.arange(99.0)) for name in "ab")
    falling = Levels("c", 98 - one.codes, np.arange(99.0))
    assert [(axis.name, axis.together) for axis in axes_of([one, other, falling], 99)] == [("a", ("c",)), ("b", ())]


# What is written.


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    axes = {
        "model": ["internal-1t", "minimax-m2.5", "kimi-k2.5"],
        "links.0.bandwidth": ["1Gbps", "10Gbps", "100Gbps"],
        "clusters.prfaas.price_per_gpu_hour": [1, 8],
    }
    base = {"clusters.pd.price_per_gpu_hour": 1, "baseline.hardware": "H20", "baseline.instances": 12}
    definition = {"name": "a study", "set": base, "axes": [{"grid": axes}]}
    for suffix in ("parquet", "csv", "jsonl"):
        run_study(definition, folder / f"out.{suffix}")
    return folder


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


def test_files_hold_the_report(study: Path, tmp_path: Path) -> None:
    page, table = tmp_path / "r.md", tmp_path / "r.csv"
    report = report_study(study / "out.parquet")
    assert run(str(study / "out.parquet"), "-o", str(page)).exit_code == 0
    write_report(report, table)
    text = page.read_text(encoding="utf-8")
    assert "| 1 to 10 | from there on |" in text
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


# What is wrong.


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        ("missing", "missing-file", "no such file"),
        ("text", "unknown-format", "expected one of"),
        ("cut parquet", "unreadable-file", "cannot be read"),
        ("cut csv", "unreadable-file", "cannot be read"),
        ("cut jsonl", "unreadable-file", "no line of results"),
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
