"""Rows become the scenarios that the full reader makes of them, whichever way they are made."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document
from prfaas_opt.io.overrides import apply_overrides, steps_of
from prfaas_opt.io.scenario_file import CASE_STUDY, read_scenario
from prfaas_opt.io.yaml_file import parse_document
from prfaas_opt.scenario import Scenario
from prfaas_opt.study.lenses import _OF_CLUSTER, _OF_LINK, _OF_SCENARIO, _QUANTILES
from prfaas_opt.study.rows import UNSET
from prfaas_opt.study.scenarios import ScenarioMaker
from prfaas_opt.study_api import run_study

BASE = parse_document(CASE_STUDY.read_text(encoding="utf-8"), "case.yaml")
BARE = parse_document(
    "{model: internal-1t, workload: prfaas-case-study, clusters: {pd: {role: pd, hardware: H20, instances: 8}}}",
    "bare.yaml",
)
Row = tuple[Any, ...]


def where(row: int, field: str) -> str:
    return f"row {row} {field}"


def outcome(base: Document, fields: Sequence[str], values: Row) -> Scenario | InputError:
    """What ``load_scenario`` makes of the values as overrides."""
    texts = {
        field: json.dumps(value).replace("Infinity", ".inf")
        for field, value in zip(fields, values, strict=True)
        if value is not UNSET
    }
    try:
        return read_scenario(apply_overrides(base, texts) if texts else base)
    except InputError as error:
        return error


def same_place(ours: str, theirs: str, row: int) -> bool:
    """Whether a place in a row is the place of an override; a mapping that was made for a field is at that field."""
    if not theirs.startswith("--set "):
        return ours == theirs
    found, meant = (steps_of(text.replace(" ", ".")) for text in (ours.removeprefix(f"row {row} "), theirs[6:]))
    return ours.startswith(f"row {row} ") and found[: len(meant)] == meant


def check(base: Document, fields: Sequence[str], rows: Sequence[Row], start: int = 0) -> list[Scenario | InputError]:
    """The scenarios of rows, which must be those of the full reader."""
    made = ScenarioMaker(base, fields).make(rows, where, start)
    for row, (values, ours) in enumerate(zip(rows, made, strict=True), start):
        theirs = outcome(base, fields, values)
        assert type(ours) is type(theirs), (values, ours, theirs)
        if isinstance(ours, InputError) and isinstance(theirs, InputError):
            assert [_but_place(each) for each in ours.problems] == [_but_place(each) for each in theirs.problems]
            for mine, other in zip(ours.problems, theirs.problems, strict=True):
                assert same_place(mine.where, other.where, row), (mine.where, other.where)
        else:
            assert ours == theirs
            # Whole numbers and fractions of one value are equal; they must be of one kind too.
            assert repr(ours) == repr(theirs)
    return made


def _but_place(problem: Problem) -> tuple[str, str, str]:
    return problem.code, problem.message, problem.fix


SHARES = st.one_of(st.floats(1e-3, 1.0), st.sampled_from([1, 0, 80, -0.5, "0.5", True, 1e-9]))
COUNTS = st.one_of(st.integers(1, 60), st.sampled_from([0, -1, 3.0, 2.5, "7", True, {"max": 4}, {"min": 1, "max": 9}]))
PRICES = st.one_of(st.floats(0, 100), st.integers(0, 9), st.sampled_from([-1, "2", 1e-20, [1], float("inf")]))
RATES = st.one_of(
    st.floats(0.1, 400).map(lambda x: f"{x!r}Gbps"),
    st.sampled_from(["1 GB/s", "10", 10, 0, 0.0, True, "1e3Mbps", "fast", "-1Gbps", {"measured": ["1Gbps", "3Gbps"]}]),
)
TIMES = st.one_of(st.floats(0.1, 9).map(lambda x: f"{x!r}s"), st.sampled_from(["80ms", 0, 7, "0s", "2 h", "soon", []]))
TOKENS = st.one_of(st.integers(1000, 200_000), st.sampled_from(["32K", "19.4K", 0, 4096.0, "x", 1.5, True]))
POSITIVE = st.one_of(st.floats(1, 60), st.sampled_from([40, 0, -3, "40", True, 1e16]))
SIMPLE = [
    *(".".join(steps) for steps in _OF_SCENARIO),
    *(f"clusters.{name}.{key}" for name in ("pd", "prfaas") for key in _OF_CLUSTER),
    *(f"links.0.{key}" for key in _OF_LINK),
    *(f"slo.ttft.{key}" for key in _QUANTILES),
    "demand_rps",
]

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.one_of(st.text("ab1 =\t\x07", max_size=5), st.sampled_from([7, 7.0, True, "x"])),
    "model": st.sampled_from(["internal-1t", "minimax-m2.5", "qwen3-235b", "internal-1", 70]),
    "workload": st.sampled_from(["prfaas-case-study", "nothing"]),
    "workload.output_tokens": st.integers(500, 2000),
    "estimator": st.sampled_from(["expected-time", "mean-length", "mean"]),
    "local_prefill": st.sampled_from(["dedicated", "on_decode"]),
    "residency.stay_share": SHARES,
    "arrivals.cv2": st.one_of(st.floats(0, 100), st.sampled_from([-1, 2000])),
    "transfer.compression": st.one_of(st.floats(1, 100), st.sampled_from([0.5, 2])),
    "transfer.chunk_tokens": TOKENS,
    "transfer.overlap": st.sampled_from(["layer", "chunk", "none"]),
    "demand_rps": POSITIVE,
    "slo.tokens_per_s": POSITIVE,
    "slo.ttft.p90": TIMES,
    "slo.ttft.p99": TIMES,
    "baseline.instances": COUNTS,
    "baseline.hardware": st.sampled_from(["H20", "H200", "h20", "B300"]),
    "baseline.price_per_gpu_hour": PRICES,
    "clusters.pd.hardware": st.sampled_from(["H20", "H200", "H21"]),
    "clusters.pd.instances": COUNTS,
    "clusters.pd.gpus": st.one_of(st.integers(1, 20).map(lambda n: 8 * n), COUNTS),
    "clusters.prfaas.instances": COUNTS,
    "clusters.pd.max_utilization": SHARES,
    "clusters.prfaas.max_utilization": SHARES,
    "clusters.pd.price_per_gpu_hour": PRICES,
    "clusters.pd.max_context": TOKENS,
    "clusters.prfaas.nic": RATES,
    "clusters.pd.kv_format": st.sampled_from(["fp8", "bf16"]),
    "clusters.other.instances": COUNTS,
    "links.0.bandwidth": RATES,
    "links[0].max_utilization": SHARES,
    "links.0.price_per_gbps_hour": PRICES,
    "links.0.price_per_gb": PRICES,
    "links.0.rtt": TIMES,
    "links.0.flows": COUNTS,
    "links.0.flow_cap": RATES,
    "links.0.window": st.sampled_from(["16MiB", "1MB", 5, "1"]),
    "links.0.request_flows": COUNTS,
    "links.0.request_cap": RATES,
    "links.1.bandwidth": RATES,
    "clusters.pd": st.sampled_from([{"role": "pd", "hardware": "H20", "instances": 5}, {"role": "pd"}, 3]),
    "links": st.sampled_from([[], [{"from": "prfaas", "to": "pd", "bandwidth": "9Gbps"}]]),
    "no.such.field": st.just(1),
}


@st.composite
def studies(draw: st.DrawFn) -> tuple[Document, list[str], list[Row]]:
    fields = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6, unique=True))
    of_row = st.tuples(*(st.one_of(VALUES[field], VALUES[field], st.just(UNSET)) for field in fields))
    return draw(st.sampled_from([BASE, BASE, BARE])), fields, draw(st.lists(of_row, min_size=1, max_size=6))


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(studies())
def test_rows_are_the_scenarios_of_the_full_reader(study: tuple[Document, list[str], list[Row]]) -> None:
    check(*study)


@st.composite
def studies_of_one_shape(draw: st.DrawFn) -> tuple[Document, list[str], list[Row]]:
    """Rows that have the same words, and differ in numbers alone."""
    fields = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=2, max_size=7, unique=True))
    numeric = [field in SIMPLE or field.startswith("links[0]") for field in fields]
    words = [draw(st.one_of(VALUES[field], st.just(UNSET))) for field in fields]
    of_row = st.tuples(
        *(
            VALUES[field] if number and word is not UNSET else st.just(word)
            for field, number, word in zip(fields, numeric, words, strict=True)
        )
    )
    return draw(st.sampled_from([BASE, BARE])), fields, draw(st.lists(of_row, min_size=4, max_size=8))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(studies_of_one_shape())
def test_rows_that_differ_in_numbers_alone_do_too(study: tuple[Document, list[str], list[Row]]) -> None:
    check(*study)


def good_value(field: str, rng: random.Random) -> Any:
    """A value that reads well, seldom the same twice."""
    key = field.split(".")[-1]
    if key in ("bandwidth", "flow_cap", "request_cap", "nic"):
        return f"{rng.uniform(50, 400)!r}Gbps"
    if key in ("p50", "p90", "p95", "p99", "rtt"):
        return f"{rng.uniform(1, 9)!r}s"
    if key in ("instances", "flows", "request_flows"):
        return rng.randint(2, 50)
    if key in ("max_context", "chunk_tokens"):
        return rng.choice(["64K", rng.randint(50_000, 200_000)])
    special = {"gpus": 8 * rng.randint(2, 50), "window": f"{rng.randint(1, 64)}MiB", "name": f"s{rng.random()}"}
    return special.get(key, rng.uniform(1, 9) if key == "compression" else rng.uniform(0.5, 1.0))


@pytest.mark.parametrize("field", SIMPLE)
def test_every_simple_field_takes_the_fast_way_and_the_right_one(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, fields, base = random.Random(field), [field], BASE
    if field.endswith(("flow_cap", "window", "request_flows")):
        fields += ["links.0.flows", "links.0.rtt"]
    if field.endswith("gpus"):
        text = CASE_STUDY.read_text(encoding="utf-8")
        base = parse_document(text.replace("instances: 4", "gpus: 32").replace("instances: 8", "gpus: 64"), "gpus.yaml")
    rows: list[Row] = [tuple(good_value(each, rng) for each in fields) for _ in range(4)]
    assert not [each for each in check(base, fields, rows) if isinstance(each, InputError)]
    maker = ScenarioMaker(base, fields)
    read: list[Row] = []
    in_full = maker.read

    def counted(values: Row, *place: Any) -> Scenario:
        read.append(values)
        return in_full(values, *place)

    monkeypatch.setattr(maker, "read", counted)
    maker.make(rows, where)
    assert read == rows[:1]


def test_a_row_that_sets_a_cluster_anew_has_its_numbers_put_into_that_one() -> None:
    anew = {"pd": {"role": "pd", "hardware": "H200", "instances": 2}}
    fields = ["clusters", "links", "model", "clusters.pd.instances", "slo.tokens_per_s"]
    rows: list[Row] = [
        (anew, [], "minimax-m2.5", 3, 20.0),
        (UNSET, UNSET, UNSET, 4, 21.0),
        (anew, [], "minimax-m2.5", 5, 22.0),
        (UNSET, UNSET, UNSET, 6, UNSET),
    ]
    made = check(BASE, fields, rows)
    assert [each.pd.instances for each in made if isinstance(each, Scenario)] == [3, 4, 5, 6]


def test_a_field_that_a_later_one_replaces_has_no_effect() -> None:
    anew = {"role": "pd", "hardware": "H20", "instances": 2}
    made = check(BASE, ["clusters.pd.instances", "clusters.pd"], [(3, anew), (4, anew)])
    assert [each.pd.instances for each in made if isinstance(each, Scenario)] == [2, 2]


def test_objectives_of_an_entry_of_the_traffic_hold_before_those_of_the_scenario() -> None:
    base = parse_document(
        "{traffic: [{model: internal-1t, workload: prfaas-case-study, slo: {tokens_per_s: 30}}],"
        " clusters: {pd: {role: pd, hardware: H20, instances: 8}}}",
        "traffic.yaml",
    )
    made = check(base, ["slo.tokens_per_s"], [(30,), (20,)])
    assert [each.tokens_per_s for each in made if isinstance(each, Scenario)] == [30.0, 30.0]


def test_true_is_not_one() -> None:
    one, true, fraction = check(BASE, ["clusters.pd.instances"], [(1,), (True,), (1.0,)])
    assert isinstance(one, Scenario)
    assert isinstance(true, InputError)
    assert isinstance(fraction, Scenario)


def test_places_are_those_of_the_row_and_else_of_the_base() -> None:
    fields = ["clusters.pd.instances", "slo.ttft.p90"]
    first, second = ScenarioMaker(BASE, fields).make([(4, "5s"), (5, "6s")], where, start=7)
    for row, each in ((7, first), (8, second)):
        assert isinstance(each, Scenario)
        assert each.origin.where(("clusters", "pd", "instances")) == f"row {row} clusters.pd.instances"
        assert each.origin.where(("slo", "ttft")) == f"row {row} slo.ttft.p90"
        assert each.origin.where(("links", 0, "bandwidth")) == BASE.where(("links", 0, "bandwidth"))
        assert each.origin.where() == BASE.where()


def test_a_place_inside_a_value_names_the_rest_of_the_path() -> None:
    (error,) = ScenarioMaker(BASE, ["clusters.pd"]).make(
        [({"role": "pd", "hardware": "H20", "instances": "x"},)], where
    )
    assert isinstance(error, InputError)
    assert [each.where for each in error.problems] == ["row 0 clusters.pd instances"]


def test_a_fleet_is_an_error_of_its_row() -> None:
    (error,) = ScenarioMaker(BASE, ["clusters.pd.instances"]).make([({"max": 9},)], where)
    assert isinstance(error, InputError)
    assert [each.code for each in error.problems] == ["not-two-pools"]


TWO_SOURCES = """model: internal-1t
workload: prfaas-case-study
clusters:
  us: {role: prefill, hardware: H200, instances: 3}
  eu: {role: prefill, hardware: H200, instances: 1}
  pd: {role: pd, hardware: H20, instances: 8}
links: [{from: us, to: pd, bandwidth: 100Gbps}, {from: eu, to: pd, bandwidth: 100Gbps}]
slo: {tokens_per_s: 40}
"""
RANGE = """model: internal-1t
workload: prfaas-case-study
clusters: {pd: {role: pd, hardware: H20, instances: {max: 8}}}
slo: {tokens_per_s: 40}
"""
STREAMS = """traffic:
  - {model: internal-1t, workload: prfaas-case-study, demand_rps: 1}
  - {model: kimi-linear, workload: prfaas-case-study, demand_rps: 1}
clusters: {pd: {role: pd, hardware: H20, instances: 8}}
slo: {tokens_per_s: 40}
"""
PD = {"role": "pd", "hardware": "H20", "instances": 8}


@pytest.mark.parametrize(
    ("base", "grid", "found"),
    [
        (
            TWO_SOURCES,
            {"links.0.bandwidth": ["1Gbps", "9Gbps"]},
            "base.yaml:5 clusters.eu: makes this a fleet (2 prefill",
        ),
        (TWO_SOURCES, {"clusters.eu.instances": [1, 2]}, "base.yaml:5 clusters.eu: makes this a fleet (2 prefill"),
        (RANGE, {"slo.tokens_per_s": [20, 40]}, "base.yaml:3 clusters.pd: makes this a fleet (a range of H20"),
        (STREAMS, {"traffic.0.demand_rps": [1, 2]}, "base.yaml:1 traffic: makes this a fleet (2 streams"),
        (TWO_SOURCES, {"slo.tokens_per_s": [0.5]}, "base.yaml:5 clusters.eu: makes this a fleet (2 prefill"),
        # A field may make two pools of it, in some row at least.
        (TWO_SOURCES, {"clusters": [{"pd": PD}], "links": [[]]}, ""),
        (RANGE, {"clusters.pd.instances": [{"max": 9}, 8]}, ""),
        (STREAMS, {"traffic": [[{"model": "internal-1t", "workload": "prfaas-case-study"}]]}, ""),
    ],
)
def test_a_base_that_stays_a_fleet_is_refused(base: str, grid: dict[str, Any], found: str, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"base": "base.yaml", "axes": [{"grid": grid}]}), encoding="utf-8")
    if not found:
        assert run_study(tmp_path / "s.yaml").planned
        return
    with pytest.raises(InputError) as caught:
        run_study(tmp_path / "s.yaml")
    (problem,) = caught.value.problems
    assert found in f"{problem.where}: {problem.message}"
    assert "name a base of two pools" in problem.fix


def test_a_base_that_is_no_mapping_fails_every_row() -> None:
    base = parse_document("[1]", "list.yaml")
    made = ScenarioMaker(base, ["clusters.pd.instances"]).make([(1,), (2,)], where)
    assert all(isinstance(each, InputError) for each in made)


def test_rows_with_the_same_wrong_names_have_the_same_error_each_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ["links.0.bandwidth", "model", "clusters.pd.hardware", "clusters.other.instances"]
    rows: list[Row] = [(f"{n}Gbps", "no-model", "H21", UNSET) for n in range(1, 4)]
    rows += [(f"{n}Gbps", "internal-1t", "H21", UNSET) for n in (4, "fast", 6, 7)]
    rows += [(f"{n}Gbps", "internal-1t", "H20", n) for n in range(8, 11)]
    assert all(isinstance(each, InputError) for each in check(BASE, fields, rows, start=5))
    maker = ScenarioMaker(BASE, fields)
    maker.make(rows, where)
    monkeypatch.setattr(maker, "read", lambda *_: pytest.fail("read in full"))
    ours = maker.make([rows[0], rows[3], rows[7]], where, start=100)
    assert [each.problems[0].where for each in ours if isinstance(each, InputError)] == [
        "row 100 model",
        "row 101 clusters.pd.hardware",
        "row 102 clusters.other.instances",
    ]


def test_rows_share_equal_models_and_workloads() -> None:
    rows: list[Row] = [
        ("internal-1t", "expected-time"),
        ("internal-1t", "mean-length"),
        ("minimax-m2.5", "mean-length"),
    ]
    first, second, third = check(BASE, ["model", "estimator"], rows)
    assert isinstance(first, Scenario)
    assert isinstance(second, Scenario)
    assert isinstance(third, Scenario)
    assert first.model is second.model
    assert first.workload is second.workload
    assert first.model is not third.model


def test_a_value_given_to_several_rows_is_changed_by_none_of_them() -> None:
    links = [{"from": "prfaas", "to": "pd", "bandwidth": "9Gbps"}]
    check(BASE, ["links", "links.0.max_utilization", "estimator"], [(links, 0.5, "expected-time"), (links, UNSET, "x")])
    assert links == [{"from": "prfaas", "to": "pd", "bandwidth": "9Gbps"}]
