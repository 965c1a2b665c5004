"""The table of a study: every figure of a plan, what went in, and rows that failed."""

from __future__ import annotations

import json
import random
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pytest
from msgspec import Meta, Struct, field

from prfaas_opt import results
from prfaas_opt.api import plan as plan_alone
from prfaas_opt.api import warnings
from prfaas_opt.errors import Problem
from prfaas_opt.io.scenario_file import load_scenario
from prfaas_opt.planning.plan import planned, planned_alone
from prfaas_opt.study.chunks import plan_chunk, rows_at_once
from prfaas_opt.study.columns import HEAD, plan_columns, schema_named, schema_of
from prfaas_opt.study.definition import read_study
from prfaas_opt.study.fields import StudyField
from prfaas_opt.study.plan_columns import arrays_of, columns_of, nodes_of
from prfaas_opt.study.rows import UNSET
from tests.study_rows import ListedRows

FIELDS = ("links.0.bandwidth", "clusters.pd.instances", "slo.tokens_per_s", "model", "slo.ttft.p90")
ROWS: list[tuple[Any, ...]] = [
    ("33.3Gbps", 6, 40, "internal-1t", UNSET),
    (UNSET, UNSET, 30.5, UNSET, UNSET),
    ("fast", 0, 40, "internal-1t", UNSET),
    ("1Gbps", 2, 1000, "internal-1t", UNSET),
    ("10Gbps", 3, 20, "no-such-model", UNSET),
    ("100Gbps", 8, 40, "internal-1t", "7s"),
    ({"measured": ["9Gbps", "10Gbps"]}, 8, 40, "internal-1t", UNSET),
    ({"max": "10Gbps"}, 8, 40, "internal-1t", UNSET),
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return plan_chunk(ListedRows(FIELDS, ROWS), 0, len(ROWS))


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every figure of a plan's JSON as the rule has it, worked out from the JSON alone."""
    if isinstance(value, dict) and path not in ("provenance",):
        return {
            name: leaf
            for key, inner in value.items()
            for name, leaf in leaves(inner, f"{path}.{key}" if path else key).items()
        }
    if path == "near_optimal_threshold_tokens" and value is not None:
        return {f"{path}.from": value[0], f"{path}.to": value[1]}
    if path == "bottlenecks":
        return {path: ", ".join(value) or None}
    if isinstance(value, list | dict):
        return {path: json.dumps(value, separators=(",", ":"), ensure_ascii=False) if value else None}
    return {path: value}


def as_columns(plan: results.Plan) -> dict[str, Any]:
    found = leaves(msgspec.json.decode(msgspec.json.encode(plan)))
    found["deployment"] = found.pop("name")
    return found


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are; of JSON, what it says."""
    if isinstance(ours, str) and isinstance(theirs, str) and ours[:1] in "[{":
        return same(json.loads(ours), json.loads(theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    # Many plans at once differ from one alone by roundings.
    return bool(ours == (pytest.approx(theirs, rel=1e-9) if isinstance(theirs, float) else theirs))


FULL = planned(
    load_scenario(
        overrides={
            "slo.ttft.p90": "15s",
            "clusters.pd.price_per_gpu_hour": "1",
            "clusters.prfaas.price_per_gpu_hour": "2",
        }
    ),
    "threshold",
    True,
    None,
    0.1,
)
"""A plan in which nothing is missing but the check by a solver."""


@pytest.mark.parametrize("plan", [FULL, planned_alone(load_scenario())], ids=["full", "alone"])
def test_every_figure_of_a_plan_is_a_column(plan: results.Plan) -> None:
    columns = plan_columns()
    nodes = nodes_of(results.Plan)
    names = ["deployment" if each.name == "name" else each.name for each in columns_of(nodes)]
    row = dict(zip(names, (array[0].as_py() for array in arrays_of(nodes, [plan])), strict=True))
    expected = as_columns(plan)
    for name, value in expected.items():
        if name in row:
            assert same(row[name], value), name
        else:
            # A struct that is null has columns for all that it would hold.
            assert value is None, name
            inside = [each for each in row if each.startswith(f"{name}.")]
            assert inside, name
            assert not any(row[each] is not None for each in inside)
    assert {each.name for each in columns} == set(names) - {"status"}
    assert [name for name in row if row[name] is not None and name not in expected] == []


def test_rows_are_what_planning_them_alone_gives(table: pa.Table) -> None:
    rows = table.to_pylist()
    for index, overrides in (
        (0, {"links.0.bandwidth": "33.3Gbps", "clusters.pd.instances": "6"}),
        (5, {"slo.ttft.p90": "7s"}),
    ):
        scenario = load_scenario(overrides=overrides)
        for name, value in as_columns(planned_alone(scenario)).items():
            assert name not in rows[index] or same(rows[index][name], value), name
        assert rows[index]["warnings"] == "; ".join(warnings(scenario))


def test_failures_are_rows_with_a_code_and_a_place(table: pa.Table) -> None:
    head = table.select([each.name for each in HEAD]).to_pylist()
    assert [(each["row"], each["status"], each["error_code"], each["error_where"]) for each in head] == [
        (0, "optimal", None, None),
        (1, "optimal", None, None),
        (2, "error", "out-of-range", "row 2 clusters.pd.instances"),
        (3, "infeasible", "slo", "row 3 slo.tokens_per_s"),
        (4, "error", "unknown-name", "row 4 model"),
        (5, "feasible", None, None),
        (6, "optimal", None, None),
        (7, "error", "not-two-pools", "row 7 links.0.bandwidth"),
    ]
    problems = json.loads(head[2]["problems"])
    assert [each["code"] for each in problems] == ["out-of-range", "bad-unit"]
    assert problems[0]["message"] == head[2]["error"]
    assert problems[1]["fix"]
    failed = table.filter(pa.array([each["error_code"] is not None for each in head]))
    assert all(failed.column(each.name).null_count == len(failed) for each in plan_columns())
    assert {each["name"] for each in head} == {"paper case study"}


def test_what_went_in_is_numbers_in_the_unit_of_the_name_or_kept_as_given(table: pa.Table) -> None:
    bandwidths = table.column("input.links.0.bandwidth_gbps").to_pylist()
    assert bandwidths == [33.3, 100.0, None, 1.0, 10.0, 100.0, None, None]
    assert table.column("input.clusters.pd.instances").to_pylist() == [6, 8, None, 2, 3, 8, 8, 8]
    assert table.column("input.slo.tokens_per_s").to_pylist() == [40.0, 30.5, 40.0, 1000.0, 20.0, 40.0, 40.0, 40.0]
    assert table.column("input.slo.ttft.p90_s").to_pylist() == [None] * 5 + [7.0, None, None]
    assert table.column("input.model").to_pylist()[:2] == ["internal-1t", "internal-1t"]
    odd = [text and json.loads(text) for text in table.column("inputs_as_given").to_pylist()]
    assert odd[:2] == [None, None]
    assert odd[2] == {"links.0.bandwidth": "fast", "clusters.pd.instances": 0}
    assert odd[6] == {"links.0.bandwidth": {"measured": ["9Gbps", "10Gbps"]}}


def test_the_table_does_not_depend_on_the_chunks(table: pa.Table) -> None:
    rows = ListedRows(FIELDS, ROWS)
    parts = [plan_chunk(rows, start, start + 3) for start in (6, 0, 3)]
    again = pa.concat_tables([parts[1], parts[2], parts[0]])
    assert again.equals(table, check_metadata=True)


def test_the_schema_is_that_of_every_chunk_and_tells_units(table: pa.Table) -> None:
    schema = schema_of(ListedRows(FIELDS, ROWS))
    assert table.schema.equals(schema, check_metadata=True)
    assert len(set(schema.names)) == len(schema.names)
    assert all(field.nullable for field in schema)
    told = {field.name: field.metadata or {} for field in schema}
    assert told["throughput_rps"][b"unit"] == b"req/s"
    assert told["input.links.0.bandwidth_gbps"][b"unit"] == b"Gbps"
    assert told["terms"][b"form"] == b"json"
    assert schema.metadata is not None
    assert schema.metadata[b"study"] == b"test"
    assert json.loads(schema.metadata[b"units"])["ttft_s.p90"] == "s"


def test_every_column_of_figures_tells_its_unit_or_has_none_to_tell() -> None:
    without = {each.name for each in plan_columns() if each.type == "float64" and not each.unit}
    assert without == {"ratio", "cost.ratio", "solver_check.relative_difference"}


def test_names_of_columns_alone_give_their_types_back() -> None:
    rows = ListedRows((*FIELDS, "clusters.pd.max_context", "links[0].rtt", "transfer.chunk_tokens", "no.such"), [])
    schema = schema_of(rows)
    assert schema_named(schema.names).equals(schema)


@pytest.mark.parametrize(
    ("path", "column", "type_name"),
    [
        ("links.0.bandwidth", "links.0.bandwidth_gbps", "float64"),
        ("clusters.pd.nic", "clusters.pd.nic_gbps", "float64"),
        ("links.0.window", "links.0.window_bytes", "float64"),
        ("slo.ttft.p90", "slo.ttft.p90_s", "float64"),
        ("clusters.pd.max_context", "clusters.pd.max_context_tokens", "int64"),
        ("transfer.chunk_tokens", "transfer.chunk_tokens", "int64"),
        ("clusters.pd.instances", "clusters.pd.instances", "int64"),
        ("clusters.pd.hardware", "clusters.pd.hardware", "string"),
        ("workload.output_tokens", "workload.output_tokens", "int64"),
        ("workload.input_tokens.mu", "workload.input_tokens.mu", "float64"),
        ("workload.input_tokens.high", "workload.input_tokens.high_tokens", "int64"),
        ("no.such.field", "no.such.field", "string"),
    ],
)
def test_the_column_of_a_field(path: str, column: str, type_name: str) -> None:
    found = StudyField(path)
    assert (found.column, found.form.type) == (column, type_name)


def test_problems_that_are_known_before_planning_come_first() -> None:
    known = Problem("bad-cell", "Scenarios!D3", "found 12,5", "write 12.5")
    rows = ListedRows(("clusters.pd.instances",), [(8,), (0,), (8,)], wrong={1: [known], 2: [known]})
    first, second, third = plan_chunk(rows, 0, 3).to_pylist()
    assert first["status"] == "optimal"
    assert [each["code"] for each in json.loads(second["problems"])] == ["bad-cell", "out-of-range"]
    assert (third["status"], third["error_code"], third["error_where"]) == ("error", "bad-cell", "Scenarios!D3")
    assert third["throughput_rps"] is None


def test_texts_that_a_sheet_brought_along_are_columns() -> None:
    rows = ListedRows(("clusters.pd.instances",), [(8,), (7,)])
    rows.extra_columns, rows.cells = ("Owner", "Owner", "Note"), [("a", None, "=1+1"), ("b", 3, None)]
    table = plan_chunk(rows, 0, 2)
    assert table.column("extra.Owner").to_pylist() == ["a", "b"]
    assert table.column("extra.Owner (2)").to_pylist() == [None, "3"]
    assert table.column("extra.Note").to_pylist() == ["=1+1", None]


def test_rows_have_the_names_that_they_are_given() -> None:
    table = plan_chunk(ListedRows(("name", "clusters.pd.instances"), [("a", 8), ("b", 0), (UNSET, 0)]), 0, 3)
    assert table.column("name").to_pylist() == ["a", "b", "paper case study"]


def test_a_study_without_fields_or_rows_has_its_columns() -> None:
    assert plan_chunk(ListedRows((), [()]), 0, 1).column("status").to_pylist() == ["optimal"]
    assert plan_chunk(ListedRows(FIELDS, []), 0, 5).num_rows == 0


class Inner(Struct, frozen=True, rename="kebab"):
    how_many: int | None
    pair: tuple[float, float] | None


class Outer(Struct, frozen=True):
    from_: Annotated[str, Meta(description="whence")] = field(name="from")
    inner: Inner | None = None
    words: tuple[Literal["a", "b"], ...] = ()
    free: dict[str, int] = field(default_factory=dict)
    yes: bool = True
    share: Annotated[float | None, Meta(description="of it")] = None


def test_a_struct_becomes_columns_by_its_declaration() -> None:
    nodes = nodes_of(Outer)
    assert [(each.name, each.type) for each in columns_of(nodes)] == [
        ("from", "string"),
        ("inner.how-many", "int64"),
        ("inner.pair.from", "float64"),
        ("inner.pair.to", "float64"),
        ("words", "string"),
        ("free", "string"),
        ("yes", "bool"),
        ("share", "float64"),
    ]
    first, *_, last = columns_of(nodes)
    assert (first.description, last.description) == ("whence", "of it")
    rows = [
        Outer("x", Inner(3, (1.0, 2.0)), ("a", "b"), {"k": 1}, share=float("inf")),
        None,
        Outer("y", None, share=0.5),
        Outer("z", Inner(None, None)),
    ]
    table = list(zip(*(array.to_pylist() for array in arrays_of(nodes, rows)), strict=True))
    assert table == [
        ("x", 3, 1.0, 2.0, "a, b", '{"k":1}', True, None),
        (None,) * 8,
        ("y", None, None, None, None, None, True, 0.5),
        ("z", None, None, None, None, None, True, None),
    ]


def test_a_random_sample_of_a_large_study_is_what_plan_gives() -> None:
    """Rows that are planned together, as a million are: every column against ``api.plan`` of the row's scenario."""
    over = {
        "links.0.bandwidth": {"from": "1Gbps", "to": "400Gbps", "spacing": "log"},
        "clusters.prfaas.instances": {"from": 1, "to": 12},
        "clusters.pd.instances": {"from": 2, "to": 24},
        "slo.tokens_per_s": {"from": 10, "to": 40},
    }
    rows = read_study({"axes": [{"sample": {"method": "sobol", "count": 1_000_000, "seed": 3, "over": over}}]})
    start = 500_000
    found = plan_chunk(rows, start, start + 400)
    told = {"what_ifs", "failures", "sensitivity", "ttft_by_load"}
    for row in random.Random(4).sample(range(400), 25):
        (values,) = rows.values(start + row, start + row + 1)
        overrides = {field: str(value) for field, value in zip(rows.fields, values, strict=True)}
        expected = as_columns(plan_alone(load_scenario(overrides=overrides)))
        record = found.slice(row, 1).to_pylist()[0]
        compared = expected.keys() & record.keys() - told
        assert len(compared) > 40
        differ = {name for name in compared if not same(record[name], expected[name])}
        # Duals are those of prices found near the best, where the bound is flat.
        assert all(record[name] == pytest.approx(expected[name], rel=1e-6) for name in differ), differ
        assert differ <= {name for name in expected if name.startswith("shadow_prices.")}
        assert all(record[name] is None for name in told)


def test_a_study_in_full_tells_all_that_plan_tells() -> None:
    rows = ListedRows(("links.0.bandwidth",), [("20Gbps",), ("80Gbps",)], detail="full")
    for record, (bandwidth,) in zip(plan_chunk(rows, 0, 2).to_pylist(), rows.rows, strict=True):
        expected = as_columns(plan_alone(load_scenario(overrides={"links.0.bandwidth": bandwidth})))
        assert all(same(record[name], expected[name]) for name in expected.keys() & record.keys())
        assert all(json.loads(record[name]) for name in ("what_ifs", "failures", "sensitivity", "ttft_by_load"))


@pytest.mark.parametrize(
    ("fields", "row", "detail", "expected"),
    [
        (("clusters.pd.instances",), (4,), "plan", 4000),
        (("clusters.pd.instances",), (4,), "full", 200),
        (("slo.ttft.p90",), ("7s",), "plan", 200),
        (("estimator",), ("mean-length",), "plan", 200),
        (("clusters.pd.instances",), (-1,), "plan", 4000),
    ],
)
def test_chunks_are_large_where_rows_are_planned_together(
    fields: tuple[str, ...], row: tuple[Any, ...], detail: Any, expected: int
) -> None:
    assert rows_at_once(ListedRows(fields, [row], detail=detail)) == expected


def test_fields_that_nobody_gave_and_names_are_no_inputs() -> None:
    class Outlined(ListedRows):
        outline = ("clusters",)

    clusters = {"pd": {"role": "pd", "hardware": "H20", "instances": 8}}
    rows = Outlined(("clusters", "links", "name", "clusters.pd.instances"), [(clusters, [], "alone", 6)])
    record = plan_chunk(rows, 0, 1).to_pylist()[0]
    assert [name for name in record if name.startswith("input.")] == ["input.links", "input.clusters.pd.instances"]
    assert record["name"] == "alone"
    assert record["status"] == "optimal"
    assert record["instances.prfaas"] == 0
