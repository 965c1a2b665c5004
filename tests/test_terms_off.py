"""Every term at the value that has no effect gives the plan without it, in every figure to the last digit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from prfaas_opt import results
from prfaas_opt.api import compare, plan
from prfaas_opt.errors import InfeasibleError
from tests.scenarios import case_like, random_scenario

Change = Callable[[dict[str, Any]], None]


def arrivals(scenario: dict[str, Any]) -> None:
    scenario["arrivals"] = {"cv2": 1}


def transfer(scenario: dict[str, Any]) -> None:
    scenario["transfer"] = {"bytes": "missing_at_destination", "overlap": "layer", "compression": 1}
    scenario["transfer"]["chunk_tokens"] = 8192


def local_prefill(scenario: dict[str, Any]) -> None:
    scenario["local_prefill"] = "dedicated"


def residency(scenario: dict[str, Any]) -> None:
    scenario["residency"] = {"stay_share": 0}


def round_trip(scenario: dict[str, Any]) -> None:
    for link in scenario.get("links", []):
        link["rtt"] = "0ms"


def flows(scenario: dict[str, Any]) -> None:
    for link in scenario.get("links", []):
        link |= {"rtt": "0ms", "flows": 100_000, "window": "900GB", "flow_cap": "900TB/s"}
        link |= {"request_flows": 100_000, "request_cap": "900TB/s"}


def nic(scenario: dict[str, Any]) -> None:
    for cluster in scenario["clusters"].values():
        cluster["nic"] = "900TB/s"


def max_context(scenario: dict[str, Any]) -> None:
    for cluster in scenario["clusters"].values():
        cluster["max_context"] = "1M"


def kv_format(scenario: dict[str, Any]) -> None:
    for cluster in scenario["clusters"].values():
        cluster["kv_format"] = "paged, bf16"


def cached_share(scenario: dict[str, Any]) -> None:
    scenario["workload"]["cached_share"] = 0


def accepted_tokens(scenario: dict[str, Any]) -> None:
    for profile in scenario["model"]["profiles"]:
        if "decode" in profile:
            profile["decode"]["accepted_tokens"] = 1


def price_per_gb(scenario: dict[str, Any]) -> None:
    for link in scenario.get("links", []):
        link["price_per_gb"] = 0


def memory(scenario: dict[str, Any]) -> None:
    for profile in scenario["model"]["profiles"]:
        profile["memory"] = {"usable_gib": 9e5, "weights_gib": 1}
        profile["provenance"]["memory"] = "assumed, huge"


def occupancy(scenario: dict[str, Any]) -> None:
    for profile in scenario["model"]["profiles"]:
        prefill = profile["prefill"]
        for latency, taken in (
            ("latency_s", "occupancy_s"),
            ("latency_ms", "occupancy_ms"),
            ("quadratic", "occupancy_quadratic"),
        ):
            if latency in prefill:
                prefill[taken] = copy.deepcopy(prefill[latency])
                profile["provenance"]["occupancy"] = "assumed, the same"


TERMS: tuple[Change, ...] = (
    arrivals,
    transfer,
    local_prefill,
    residency,
    round_trip,
    flows,
    nic,
    max_context,
    kv_format,
    cached_share,
    accepted_tokens,
    price_per_gb,
    memory,
    occupancy,
)


def without_terms(scenario: dict[str, Any]) -> results.Plan | str:
    """The plan but for what it says of its terms; why there is none, where there is none."""
    try:
        return structs.replace(plan(scenario, sensitivity=True), terms=())
    except InfeasibleError as error:
        return error.problems[0].code


def scenario_of(seed: int) -> dict[str, Any]:
    """A random scenario under either estimator, half of them with prices; sizes are known for any context."""
    scenario = random_scenario(seed)
    for owner in (scenario["model"], *scenario["model"]["profiles"]):
        if "kv_cache" in owner:
            owner["kv_cache"]["extrapolate_to_tokens"] = 50_000
    if seed % 2:
        for price, cluster in enumerate(scenario["clusters"].values(), 1):
            cluster["price_per_gpu_hour"] = 1.5 * price
    return scenario


def with_terms(scenario: dict[str, Any], terms: tuple[Change, ...]) -> dict[str, Any]:
    """The scenario with terms stated; mean-length knows no contexts."""
    changed = copy.deepcopy(scenario)
    for term in terms:
        if term is not max_context or scenario["estimator"] == "expected-time":
            term(changed)
    return changed


@pytest.mark.parametrize("first", range(0, 150, 30))
def test_all_terms_off_at_once(first: int) -> None:
    for seed in range(first, first + 30):
        scenario = scenario_of(seed)
        assert without_terms(with_terms(scenario, TERMS)) == without_terms(scenario), seed


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.__name__)
def test_each_term_off(term: Change) -> None:
    for seed in range(1000, 1008):
        scenario = scenario_of(seed)
        assert without_terms(with_terms(scenario, (term,))) == without_terms(scenario), seed


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.__name__)
def test_what_is_compared_is_the_same_too(term: Change) -> None:
    scenario = case_like()
    one, other = (compare(each).deployments for each in (scenario, with_terms(scenario, (term,))))
    assert [structs.replace(each, terms=()) for each in one] == [structs.replace(each, terms=()) for each in other]


def test_a_round_trip_and_windows_that_carry_more_than_the_link_cost_time_alone() -> None:
    for seed in range(2000, 2015):
        scenario = scenario_of(seed)
        far = with_terms(scenario, (flows,))
        for link in far.get("links", []):
            link["rtt"] = "10ms"
        one, other = without_terms(scenario), without_terms(far)
        if isinstance(one, results.Plan) and isinstance(other, results.Plan):
            one, other = (structs.replace(each, ttft_by_load=()) for each in (one, other))
        assert one == other, seed


def test_terms_that_were_stated_say_so() -> None:
    scenario = case_like()
    assumed = {term.name for term in plan(scenario).terms if term.source == "assumed"}
    given = {term.name for term in plan(with_terms(scenario, TERMS)).terms if term.source == "given"}
    assert {term.name for term in plan(scenario).terms if term.source == "given"} == set()
    assert assumed - given <= {"cached prefix", "tokens per decode step"}
