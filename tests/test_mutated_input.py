"""Whatever is done to a good scenario, an error of this package comes out, or a plan of finite numbers."""

from __future__ import annotations

import copy
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import HealthCheck, given, settings

from prfaas_opt import api
from prfaas_opt.errors import CertificationError, PrfaasOptError
from prfaas_opt.io.scenario_file import CASE_STUDY, load_scenario, read_scenario
from prfaas_opt.io.yaml_file import parse_document, read_document

QUICK = settings(suppress_health_check=list(HealthCheck))

MODELS = sorted(Path(__file__).parents[1].joinpath("models").glob("*.yaml"))

WORKLOADS: list[Any] = [
    {
        "input_tokens": {"distribution": "truncated-lognormal", "mu": 9.9, "sigma": 1.0, "low": 128, "high": 131072},
        "output_tokens": 1024,
    },
    {
        "input_tokens": {"distribution": "table", "lengths": [2048, 8192, 65536], "weights": [1, 2, 1]},
        "output_tokens": {"distribution": "uniform", "low": 100, "high": 2000},
    },
    {
        "input_tokens": {
            "distribution": "mixture",
            "parts": [
                {"weight": 3, "distribution": "constant", "value": "4K"},
                {"weight": 1, "distribution": "uniform", "low": "8K", "high": "64K"},
                {"weight": 2, "distribution": "truncated-lognormal", "mu": 8, "sigma": 0.5, "low": 256, "high": "16K"},
            ],
        },
        "output_tokens": 512,
    },
]

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, -1, 1, 2, 10**7, 10**30, 10**400, 1e-300, 1e-9, 1e9, 1e300, math.nan, math.inf, -math.inf, 0.5]
    ),
    st.integers(-3, 300_000),
    st.floats(),
    st.sampled_from(["", " ", "32K", "19.4K", "16M", "100 GB", "1Gbps", "80%", "yes", "pd", "prefill", "H20", "H200"]),
    st.sampled_from(
        ["linear", "log-log", "table", "mixture", "mean-length", "internal-1t", "no/such.yaml", "~nobody/x"]
    ),
    st.text(max_size=8),
    st.sampled_from([[], {}, [1], {"a": 1}, [[]], {"distribution": "mixture", "parts": []}, (1, 2), Decimal(1), b"x"]),
    st.sampled_from([{1: 2}, {None: 1}, {"role": "pd"}, [128, 131072], [1, 2, 3], [131072, 128]]),
).map(copy.deepcopy)


SYNTAX = st.sampled_from(
    [
        "\t",
        "\n",
        "\n  ",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        '"',
        "'",
        "#",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "|",
        "---\n",
        "?",
        "%",
        "\0",
    ]
)

PATHS = [
    "clusters.pd.instances",
    "clusters.prfaas",
    "clusters.new.instances",
    "links",
    "links.0.bandwidth",
    "links[0].max_utilization",
    "links.7",
    "slo.tokens_per_s",
    "slo",
    "baseline.instances",
    "model",
    "model.name",
    "workload.output_tokens",
    "name",
    "",
]


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a mapping or list."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [p for key, value in items for p in ((*path, key), *places(value, (*path, key)))]


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """A scenario that is good until something happens to it."""
    scenario: dict[str, Any] = {
        "name": "a fleet",
        "model": read_document(draw(st.sampled_from(MODELS)), "model").data,
        "workload": copy.deepcopy(draw(st.sampled_from(WORKLOADS))),
        "clusters": {
            "prfaas": {"role": "prefill", "hardware": "H200", "instances": 4, "price_per_gpu_hour": 4.0},
            "pd": {"role": "pd", "hardware": "H20", "instances": 8, "max_utilization": 0.9, "price_per_gpu_hour": 1},
        },
        "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps", "max_utilization": 0.8}],
        "slo": {"tokens_per_s": 40},
        "estimator": draw(st.sampled_from(["expected-time", "mean-length"])),
        "baseline": {"hardware": "H20", "instances": 12},
    }
    for _ in range(draw(st.integers(0, 3))):
        mutate(draw, scenario)
    return scenario


def mutate(draw: st.DrawFn, scenario: dict[str, Any]) -> None:
    """Deletes, replaces, renames, adds, repeats, swaps or rescales something."""
    *above, key = draw(st.sampled_from(places(scenario) or [("x",)]))
    holder: Any = scenario
    for step in above:
        holder = holder[step]
    what = draw(st.sampled_from(["delete", "replace", "rename", "add", "repeat", "swap", "scale", "scale"]))
    if what == "delete":
        holder.pop(key, None) if isinstance(holder, dict) else holder.pop(key)
    elif what == "replace":
        holder[key] = draw(ODD)
    elif what == "rename" and isinstance(holder, dict):
        holder[draw(st.sampled_from([f"{key}s", "x", 7, None, "name", "<<", ""]))] = holder.pop(key, None)
    elif what == "add" and isinstance(holder, dict):
        holder[draw(st.text(max_size=5))] = draw(ODD)
    elif what == "repeat" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif what == "swap" and isinstance(holder, list):
        holder[0], holder[key] = holder[key], holder[0]
    elif isinstance(holder.get(key) if isinstance(holder, dict) else holder[key], int | float):
        holder[key] *= draw(st.sampled_from([-1, 0, 0.5, 2, 10, 1e-3, 1e3, 1e-6, 1e6, 1e-12, 1e12]))


def numbers(data: Any) -> list[float]:
    """Every number of a result."""
    if isinstance(data, dict | list):
        return [n for item in (data.values() if isinstance(data, dict) else data) for n in numbers(item)]
    return [data] if isinstance(data, int | float) else []


def check_problems(error: PrfaasOptError) -> None:
    """An error blames the input, and can be shown on any terminal."""
    assert not isinstance(error, CertificationError), error
    assert error.problems
    for problem in error.problems:
        assert problem.code
        assert problem.where
        assert problem.message
        assert all(text.isprintable() for text in (problem.where, problem.message, problem.fix)), problem


@settings(QUICK, max_examples=400)
@given(scenarios())
def test_an_error_of_this_package_or_a_plan_of_finite_numbers(scenario: dict[str, Any]) -> None:
    try:
        answer = api.compare(scenario)
        notes = api.warnings(api.load_scenario(scenario))
    except PrfaasOptError as error:
        check_problems(error)
        return
    assert all(math.isfinite(number) for number in numbers(msgspec.to_builtins(answer)))
    assert all(deployment.throughput_rps > 0 for deployment in answer.deployments)
    assert all(note.isprintable() for note in notes)


@settings(QUICK, max_examples=400)
@given(st.data())
def test_any_change_of_a_files_text(data: st.DataObject) -> None:
    text = CASE_STUDY.read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 20))
        text = text[:start] + data.draw(st.one_of(st.text(max_size=4), SYNTAX)) + text[end:]
    try:
        scenario = read_scenario(parse_document(text, "fleet.yaml"))
    except PrfaasOptError as error:
        check_problems(error)
        return
    assert scenario.pd.instances >= 1


@settings(QUICK, max_examples=300)
@given(
    st.dictionaries(
        st.one_of(st.text(max_size=10), st.sampled_from(PATHS), st.sampled_from(PATHS).map(lambda path: path[:-1])),
        st.one_of(
            st.text(max_size=10), SYNTAX, st.sampled_from(["8", "0", "1e400", "100Gbps", "null", "[1]", "{a: 1}"])
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_override(overrides: dict[str, str]) -> None:
    try:
        scenario = load_scenario(overrides=overrides)
    except PrfaasOptError as error:
        check_problems(error)
        return
    assert scenario.pd.instances >= 1
