"""What reports of studies conclude, against plain Python that compares every row with every other."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prfaas_opt.errors import InputError
from prfaas_opt.study.report.break_even import break_even_along
from prfaas_opt.study.report.frame import Levels
from prfaas_opt.study.report.lines import Axis, axes_of, lines_along
from prfaas_opt.study.report.pareto import non_dominated
from prfaas_opt.study_report_api import StudyReport, report_study
from tests.reports import BANDWIDTH, Row, results

QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


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
    assert any("links.0.bandwidth, clusters" in note and "neighbours" in note for note in report.notes)


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
    found = break_even_along(
        lines, np.repeat([0.5, 2.0], 50_000), np.ones(100_000, dtype=bool), np.arange(100_000), "throughput"
    )
    assert found is not None
    assert [(each.pays, each.low, each.high, each.lines) for each in found.alike] == [("from", 0.0, 1.0, 50_000)]


def test_columns_drawn_by_themselves_do_not_change_together() -> None:
    rng = np.random.default_rng(3)
    one, other = (Levels(name, rng.permutation(99), np.arange(99.0)) for name in "ab")
    falling = Levels("c", 98 - one.codes, np.arange(99.0))
    assert [(axis.name, axis.together) for axis in axes_of([one, other, falling], 99)] == [("a", ("c",)), ("b", ())]


def test_chance_has_no_part_where_every_combination_has_a_figure(tmp_path: Path) -> None:
    grid = [
        {f"input.{BANDWIDTH}": b, "input.clusters.pd.instances": n, "served_rps": b + n / 100}
        for b, n in itertools.product([1.0, 4.0, 9.0], [8, 6])
    ]
    whole = report_study(results(tmp_path / "r.parquet", grid)).effects
    assert [each.chance_share for each in whole] == [None, None]
    holed = report_study(results(tmp_path / "h.parquet", [*grid[:5], grid[5] | {"served_rps": None}])).effects
    assert [each.chance_share for each in holed] == pytest.approx([2 / 4, 1 / 4])
    repeated = report_study(results(tmp_path / "d.parquet", [*grid, grid[0]])).effects
    assert [each.chance_share for each in repeated] == pytest.approx([2 / 6, 1 / 6])


def test_of_drawn_rows_it_is_told_in_how_many_remote_prefill_pays(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows: list[Row] = [
        {
            f"input.{BANDWIDTH}": float(b),
            "input.clusters.pd.instances": int(n),
            "served_rps": 1.0 if i % 9 else None,
            "ratio": float(b * n / 4000) if i % 9 else None,
            "offload_share": float(i % 7 > 0),
        }
        for i, (b, n) in enumerate(zip(rng.uniform(1, 100, 300), rng.permutation(300), strict=True))
    ]
    report = report_study(results(tmp_path / "r.parquet", rows))
    (shares,) = report.paying_shares
    assert (shares.axis, shares.measure, report.break_even) == (BANDWIDTH, "throughput", ())
    for each in shares.stretches:
        there = [row for row in rows if row["ratio"] is not None and each.low <= row[f"input.{BANDWIDTH}"] <= each.high]
        assert each.rows == len(there)
        assert each.paying == sum(row["ratio"] > 1 and row["offload_share"] > 0 for row in there)
    assert sum(each.rows for each in shares.stretches) == sum(row["ratio"] is not None for row in rows)
    assert len(shares.stretches) == 10
