"""Scenario files that describe fleets: what they mean, when they are two pools, and how overrides change them."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from prfaas_opt.errors import InputError, PrfaasOptError, Problem
from prfaas_opt.fleet import Connection, Fleet, Holding, Limits, Site, fleet_of
from prfaas_opt.io.document import plain_document
from prfaas_opt.io.scenario_file import SCENARIO, load_any, load_fleet, load_scenario
from prfaas_opt.scenario import Scenario
from tests.test_mutated_input import check_problems, mutate

CORPUS = Path(__file__).with_name("bad_input")
PAGE = Path(__file__).parents[1] / "docs/reference/scenario.md"

FLEET_TEXT = """\
name: two sites, two models
traffic:
  - {model: internal-1t, workload: prfaas-case-study, demand_rps: 3}
  - {name: chat-eu, model: kimi-linear, workload: prfaas-case-study, demand_rps: 1, cluster: pd-eu,
     slo: {tokens_per_s: 30}}
clusters:
  us:    {role: prefill, hardware: H200, gpus: 64, price_per_gpu_hour: 2.5}
  pd-eu: {role: pd, hardware: H20, instances: 8}
  pd-us:
    role: pd
    hardware:
      H20:  {gpus: {min: 0, max: 256}, price_per_gpu_hour: 1.1}
      H200: {instances: {max: 16}, price_per_gpu_hour: 2.5, max_utilization: 0.9}
links:
  - {from: us, to: pd-eu, bandwidth: 100Gbps}
  - {from: us, to: pd-us, bandwidth: {min: 0Gbps, max: 400Gbps}, price_per_gbps_hour: 0.4, price_per_gb: 0.02}
slo: {tokens_per_s: 40}
estimator: expected-time
"""
FLEET: dict[str, Any] = yaml.safe_load(FLEET_TEXT)
TWO_POOLS: dict[str, Any] = {
    "model": "internal-1t",
    "workload": "prfaas-case-study",
    "clusters": {
        "prfaas": {"role": "prefill", "hardware": "H200", "instances": 4},
        "pd": {"role": "pd", "hardware": "H20", "instances": 8},
    },
    "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps"}],
}
ONE_STREAM = {"model": "internal-1t", "workload": "prfaas-case-study"}


def with_set(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a scenario with one field set, or left out where the value is None."""
    data = copy.deepcopy(data)
    *above, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    holder: Any = data
    for step in above:
        holder = holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return data


def streams(*entries: dict[str, Any]) -> dict[str, Any]:
    """The fleet with the traffic of these entries, each with a demand."""
    return FLEET | {"traffic": [ONE_STREAM | {"demand_rps": 1} | entry for entry in entries]}


def problems(data: Any, overrides: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        load_fleet(data, overrides)
    return caught.value.problems


def test_the_example(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET_TEXT)
    fleet = load_fleet(path)
    assert [
        (s.name, s.model.name, s.workload.name, s.demand_rps, s.destination, s.tokens_per_s) for s in fleet.streams
    ] == [
        ("internal-1t", "internal-1t", "prfaas-case-study", 3, None, 40),
        ("chat-eu", "kimi-linear", "prfaas-case-study", 1, "pd-eu", 30),
    ]
    assert fleet.sites == (
        Site("us", "prefill", (Holding("H200", Limits(64, 64), 1.0, 2.5),)),
        Site("pd-eu", "pd", (Holding("H20", Limits(64, 64)),)),
        Site("pd-us", "pd", (Holding("H20", Limits(0, 256), 1.0, 1.1), Holding("H200", Limits(0, 128), 0.9, 2.5))),
    )
    assert fleet.connections == (
        Connection("us", "pd-eu", Limits(12.5e9, 12.5e9)),
        Connection("us", "pd-us", Limits(0, 50e9), 1.0, 0.4, 0.02),
    )
    assert (fleet.name, fleet.estimator, fleet.demand_rps) == ("two sites, two models", "expected-time", 4)
    assert fleet.origin.where(("clusters", "us", "instances")) == f"{path}:7 clusters.us.instances"
    assert fleet.origin.where(("links", 1, "bandwidth", "max")) == f"{path}:16 links[1].bandwidth.max"


def test_the_page_shows_the_example() -> None:
    assert f"```yaml\n{FLEET_TEXT}```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("data", [TWO_POOLS, None, TWO_POOLS | {"slo": {"tokens_per_s": 30}, "name": "x"}])
def test_two_pools_are_the_fleet_they_were(data: Any) -> None:
    scenario, fleet = load_scenario(data), load_fleet(data)
    assert fleet == fleet_of(scenario)
    assert load_any(data) == scenario


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("clusters.pd.instances", {"min": 8, "max": 8}),
        ("clusters.pd", {"role": "pd", "hardware": "H20", "gpus": 64}),
        ("clusters.pd", {"role": "pd", "hardware": "H20", "gpus": {"min": 64, "max": 64}}),
        ("clusters.pd", {"role": "pd", "hardware": {"H20": {"gpus": 64}}}),
        ("clusters.pd", {"role": "pd", "hardware": {"H20": {"instances": 8}}}),
        ("links.0.bandwidth", {"min": "12.5GB/s", "max": "100Gbps"}),
        ("demand_rps", 7),
    ],
)
def test_other_ways_to_write_two_pools(path: str, value: Any) -> None:
    assert load_any(with_set(TWO_POOLS, path, value)) == load_scenario(TWO_POOLS)


def test_a_measured_bandwidth_is_two_pools() -> None:
    measured = load_any(with_set(TWO_POOLS, "links.0.bandwidth", {"measured": ["200Gbps", "100Gbps"], "percentile": 0}))
    assert isinstance(measured, Scenario)
    assert measured.link is not None
    assert measured.link.bandwidth_bytes_per_s == 12.5e9
    assert measured.link.route.measured_percentile == 0


def test_one_entry_of_traffic_is_two_pools() -> None:
    rest = {key: value for key, value in TWO_POOLS.items() if key not in ONE_STREAM}
    entry = {**ONE_STREAM, "name": "chat", "cluster": "pd", "slo": {"tokens_per_s": 30}}
    data = rest | {"traffic": [entry], "slo": {"tokens_per_s": 40}}
    assert load_any(data) == load_scenario(TWO_POOLS | {"slo": {"tokens_per_s": 30}})
    (stream,) = load_fleet(data).streams
    assert (stream.name, stream.demand_rps, stream.destination) == ("chat", 1, "pd")


@pytest.mark.parametrize(
    ("path", "value", "where", "found"),
    [
        ("clusters.pd.instances", {"max": 9}, "clusters.pd", "a range of H20 in pd"),
        (
            "clusters.pd",
            {"role": "pd", "hardware": "H20", "gpus": 60},
            "clusters.pd",
            "60 GPUs in pd, no whole number of instances of 8",
        ),
        (
            "clusters.pd",
            {"role": "pd", "hardware": {"H20": {"gpus": 8}, "H200": {"gpus": 8}}},
            "clusters.pd",
            "2 kinds of hardware in pd",
        ),
        ("clusters.pd-b", TWO_POOLS["clusters"]["pd"], "clusters.pd-b", "2 pd clusters"),
        ("links.0.bandwidth", {"max": "100Gbps"}, "links[0].bandwidth", "a range of bandwidth"),
    ],
)
def test_what_makes_a_fleet(path: str, value: Any, where: str, found: str) -> None:
    data = with_set(TWO_POOLS, path, value)
    assert isinstance(load_any(data), Fleet)
    assert load_any(data) == load_fleet(data)
    with pytest.raises(InputError) as caught:
        load_scenario(data)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("not-two-pools", f"scenario {where}")
    assert f"({found})" in problem.message
    assert all(name in problem.fix for name in ("plan_fleet", "prfaas-opt plan", "prfaas-opt size"))


def test_all_that_makes_a_fleet_is_said() -> None:
    data = with_set(FLEET, "clusters.ca", {"role": "prefill", "hardware": "H20", "gpus": 8})
    data["links"].append({"from": "ca", "to": "pd-us", "bandwidth": "1Gbps"})
    with pytest.raises(InputError) as caught:
        load_scenario(data)
    (problem,) = caught.value.problems
    assert problem.where == "scenario traffic"
    assert "(2 streams of traffic, 2 pd clusters, 2 prefill clusters)" in problem.message


def test_baseline_and_mean_length_are_for_two_pools() -> None:
    two = {"baseline": {"hardware": "H200"}, "estimator": "mean-length"}
    assert load_fleet(TWO_POOLS | two).estimator == "mean-length"
    assert [(p.code, p.where) for p in problems(FLEET | two)] == [
        ("not-supported", "scenario baseline"),
        ("not-supported", "scenario estimator"),
    ]
    assert [p.code for p in problems(TWO_POOLS | {"baseline": {"hardware": "B200"}})] == ["unknown-hardware"]


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ([{}], ["internal-1t"]),
        ([{}, {"model": "kimi-linear"}], ["internal-1t", "kimi-linear"]),
        ([{"cluster": "pd-us"}, {"cluster": "pd-eu"}], ["internal-1t to pd-us", "internal-1t to pd-eu"]),
        ([{"name": "a"}, {"cluster": "pd-eu"}], ["a", "internal-1t to pd-eu"]),
        ([{"name": "a"}, {"name": 7}], ["a", "7"]),
    ],
)
def test_names_of_streams(entries: list[dict[str, Any]], names: list[str]) -> None:
    assert [stream.name for stream in load_fleet(streams(*entries)).streams] == names


def test_what_would_do_instead_of_a_missing_field_is_offered() -> None:
    (problem,) = problems(with_set(FLEET, "clusters.us.gpus", None))
    assert problem.fix == "add it: model instances (not GPUs), or give gpus instead"
    missing = problems(with_set(FLEET, "traffic", None))
    assert [problem.fix.rpartition(", ")[2] for problem in missing] == ["or give traffic instead"] * 2
    (problem,) = problems(with_set(TWO_POOLS, "model", None))
    assert "traffic" not in problem.fix


def test_streams_of_one_model_share_it() -> None:
    first, second = load_fleet(streams({"name": "a"}, {"name": "b"})).streams
    assert first.model is second.model


def test_an_entry_may_ask_no_slo() -> None:
    first, second = load_fleet(streams({"name": "a", "slo": {}}, {"name": "b"})).streams
    assert (first.tokens_per_s, second.tokens_per_s) == (None, 40)


def test_hardware_that_cannot_decode_may_stand_beside_some_that_can() -> None:
    data = streams({"model": str(CORPUS / "parts/prefill-only.yaml")})
    assert load_fleet(data).site("pd-us").holdings[1].hardware == "H200"
    (problem,) = problems(with_set(data, "clusters.pd-us.hardware.H20", None))
    assert (problem.code, problem.where) == ("missing-decode", "scenario clusters.pd-us.hardware.H200")


def test_hardware_that_one_model_knows_is_enough() -> None:
    data = streams({}, {"model": str(CORPUS / "parts/h200-only.yaml")})
    (problem,) = problems(data)
    assert (problem.code, problem.where) == ("missing-decode", "scenario traffic[1]")
    data = streams({}, {"model": str(CORPUS / "parts/four-gpus.yaml")})
    data = with_set(data, "clusters.pd-eu", {"role": "pd", "hardware": "H20", "gpus": 64})
    assert load_fleet(data).site("us").holdings[0].gpus == Limits(64, 64)


def test_instances_are_ambiguous_only_where_models_differ() -> None:
    four = str(CORPUS / "parts/four-gpus.yaml")
    alone = load_fleet(with_set(TWO_POOLS, "clusters.prfaas.hardware", "H20") | {"model": four})
    assert [site.holdings[0].gpus for site in alone.sites] == [Limits(16, 16), Limits(32, 32)]
    (problem,) = problems(streams({}, {"model": four}))
    assert (problem.code, problem.where) == ("ambiguous", "scenario clusters.pd-eu.instances")
    assert "4 GPUs of four, 8 GPUs of internal-1t" in problem.message
    assert problem.fix == "give gpus instead of instances"


def test_overrides() -> None:
    fleet = load_fleet(
        FLEET,
        {
            "traffic.0.demand_rps": "5",
            "traffic[1].slo.tokens_per_s": "20",
            "traffic.0.slo.tokens_per_s": "10",
            "clusters.us.gpus": "128",
            "clusters.pd-us.hardware.H20.gpus.max": "64",
            "clusters.pd-us.hardware.H200.instances.min": "2",
            "links.1.bandwidth": "50Gbps",
            "links[0].bandwidth": "{max: 10Gbps}",
        },
    )
    assert [(stream.demand_rps, stream.tokens_per_s) for stream in fleet.streams] == [(5, 10), (1, 20)]
    gpus = [holding.gpus for site in fleet.sites for holding in site.holdings]
    assert gpus == [Limits(128, 128), Limits(64, 64), Limits(0, 64), Limits(16, 128)]
    assert [link.bandwidth_bytes_per_s for link in fleet.connections] == [Limits(0, 1.25e9), Limits(6.25e9, 6.25e9)]


@pytest.mark.parametrize(
    ("overrides", "code", "where", "fix"),
    [
        ({"traffic.2.demand_rps": "5"}, "bad-override", "traffic.2.demand_rps", "step into it with 0 to 1"),
        ({"traffic.0.demand_rps": "0"}, "out-of-range", "traffic[0].demand_rps", ""),
        ({"clusters.us.instances": "8"}, "ambiguous", "clusters.us.gpus", "keep gpus, or instances"),
        ({"clusters.us.gpus.max": "8"}, "bad-override", "clusters.us.gpus.max", "set clusters.us.gpus as a whole"),
        ({"clusters.pd-us.gpus": "8"}, "misplaced-key", "clusters.pd-us.gpus", "hardware: {NAME: {gpus: ...}}"),
        ({"clusters.pd-us.hardware.H20.gpu": "8"}, "unknown-key", "clusters.pd-us.hardware.H20.gpu", "gpus?"),
        (
            {"clusters.pd-us.hardware.H2O.max_utilization": "0.5"},
            "unknown-name",
            "clusters.pd-us.hardware.H2O",
            "did you mean H20",
        ),
        ({"clusters.ca.hardware.H20.gpus": "8"}, "unknown-name", "clusters.ca", "set role as well"),
        ({"links.1.bandwidth.min": "1TB/s"}, "out-of-range", "links[1].bandwidth.min", "swap the two"),
        ({"model": "kimi-linear"}, "ambiguous", "traffic", "keep traffic, or model and workload"),
    ],
)
def test_overrides_that_are_wrong(overrides: dict[str, str], code: str, where: str, fix: str) -> None:
    (problem,) = problems(FLEET, overrides)
    assert (problem.code, problem.where.split(" ", 1)[1]) == (code, where)
    assert fix in problem.fix


LOADERS: list[Callable[[Any], Scenario | Fleet]] = [load_scenario, load_fleet, load_any]


def problems_by(load: Callable[[Any], Scenario | Fleet], path: Path) -> tuple[Problem, ...]:
    try:
        load(str(path))
    except InputError as error:
        return error.problems
    return ()


def test_whatever_loads_a_broken_file_finds_the_same() -> None:
    found = [[problems_by(load, path) for load in LOADERS] for path in sorted((CORPUS / "scenario").glob("*.yaml"))]
    assert sum(bool(first) for first, *_ in found) > 150
    assert all(first == other for first, *others in found for other in others)


def test_the_example_fits_the_schema() -> None:
    jsonschema.validate(FLEET, SCENARIO.schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", "internal-1t"),
        ("workload", "prfaas-case-study"),
        ("traffic", []),
        ("traffic", None),
        ("traffic.0.demand", 3),
        ("clusters.us.instances", 8),
        ("clusters.us.gpus", None),
        ("clusters.us.gpus", {"min": 3}),
        ("clusters.us.gpus", {"min": -1, "max": 3}),
        ("clusters.pd-us.gpus", 8),
        ("clusters.pd-us.price_per_gpu_hour", 8),
        ("clusters.pd-us.hardware.H20.instances", 8),
        ("clusters.pd-us.hardware", {}),
        ("links.0.bandwidth", {"min": "1Gbps"}),
    ],
)
def test_what_is_refused_does_not_fit_the_schema(path: str, value: Any) -> None:
    data = with_set(FLEET, path, value)
    assert problems(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCENARIO.schema())


def test_every_subset_of_what_says_the_traffic() -> None:
    """The record and its schema agree on which of model, workload and traffic may stand together."""
    parts = {"model": "internal-1t", "workload": "prfaas-case-study", "traffic": FLEET["traffic"]}
    rest = {key: value for key, value in FLEET.items() if key != "traffic"}
    for chosen in itertools.product([False, True], repeat=3):
        data = rest | {key: part for take, (key, part) in zip(chosen, parts.items(), strict=True) if take}
        right = chosen in ((True, True, False), (False, False, True))
        assert jsonschema.Draft202012Validator(SCENARIO.schema()).is_valid(data) == right
        if right:
            assert dataclasses.replace(load_fleet(data), streams=()) == dataclasses.replace(
                load_fleet(FLEET), streams=()
            )
        else:
            assert problems(data)


FITS = jsonschema.Draft202012Validator(SCENARIO.schema())


@st.composite
def changed_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    changed: dict[str, Any] = copy.deepcopy(draw(st.sampled_from([FLEET, TWO_POOLS])))
    for _ in range(draw(st.integers(1, 3))):
        mutate(draw, changed)
    return changed


@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(changed_scenarios())
def test_any_change_of_a_fleet_is_refused_or_makes_another(changed: dict[str, Any]) -> None:
    """Nothing but errors of this package; and what loads fits the schema, with amounts that can be."""
    try:
        fleet = load_fleet(changed)
    except PrfaasOptError as error:
        check_problems(error)
        return
    assert FITS.is_valid(plain_document(changed, "scenario").data)
    assert len({stream.name for stream in fleet.streams}) == len(fleet.streams) > 0
    assert all(stream.demand_rps > 0 for stream in fleet.streams)
    amounts = [holding.gpus for site in fleet.sites for holding in site.holdings]
    assert all(0 <= amount.least <= amount.most > 0 for amount in amounts)
    assert all(0 <= link.bandwidth_bytes_per_s.least <= link.bandwidth_bytes_per_s.most for link in fleet.connections)
    assert isinstance(load_any(changed), Scenario) or load_any(changed) == fleet
