"""What an instance is taken for beside how long a prompt takes: capacity follows the one, TTFT the other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from prfaas_opt.api import plan
from prfaas_opt.errors import InfeasibleError, InputError
from tests.scenarios import case_like, random_scenario
from tests.terms_oracle import assert_none_wrong, differ, terms_oracle_of


def add_occupancy(profile: dict[str, Any], share: float, rng: np.random.Generator | None = None) -> None:
    """Gives a profile an occupancy: a share of its latency, or less than that at shorter lengths."""
    prefill = profile["prefill"]
    column = next((key for key in ("latency_s", "latency_ms") if key in prefill), None)
    if column is not None:
        shares = np.full(len(prefill[column]), share)
        if rng is not None and "extrapolate_to_tokens" not in prefill:
            shares *= (np.array(prefill["lengths_tokens"]) / prefill["lengths_tokens"][-1]) ** rng.uniform(0.0, 0.5)
        prefill[column.replace("latency", "occupancy")] = (np.array(prefill[column]) * shares).tolist()
    elif "quadratic" in prefill:
        prefill["occupancy_quadratic"] = {key: share * value for key, value in prefill["quadratic"].items()}
    else:
        return
    profile["provenance"]["occupancy"] = "assumed, random"


def occupied(seed: int) -> dict[str, Any]:
    """A random scenario with an occupancy on either hardware, or on one of them."""
    scenario = random_scenario(seed, "expected-time")
    rng = np.random.default_rng(300_000 + seed)
    for profile in scenario["model"]["profiles"]:
        if rng.random() < 0.8:
            add_occupancy(profile, float(rng.uniform(0.1, 1.0)), rng)
    return scenario


def wrong_plan(scenario: dict[str, Any]) -> Iterator[str]:
    oracle = terms_oracle_of(scenario)
    try:
        found = plan(scenario)
    except InfeasibleError:
        if oracle.best() > 0:
            yield "infeasible"
        return
    if differ(found.throughput_rps, oracle.best()):
        yield f"throughput {found.throughput_rps!r}, the best is {oracle.best()!r}"
    x, weights, share = oracle.points.lengths, oracle.points.probabilities, oracle.remote_share_of(found.routing.bands)
    mean = float(weights @ (share * oracle.remote_latency_s(x) + (1 - share) * oracle.local_latency_s(x)))
    if differ(found.ttft_s.mean, mean):
        yield f"mean prefill time {found.ttft_s.mean!r}, expected {mean!r}"
    busy = found.throughput_rps * float(oracle.loads_of(share).local_s[0])
    if found.instances.pd_prefill and differ(found.utilization.pd_prefill or 0.0, busy / found.instances.pd_prefill):
        yield f"utilization {found.utilization.pd_prefill!r} of {found.instances.pd_prefill}, expected {busy!r} in all"


def test_capacity_follows_occupancy_and_prefill_time_follows_latency() -> None:
    assert_none_wrong(wrong_plan, occupied, range(120))


def test_an_occupancy_of_half_the_latency_is_the_capacity_of_half_the_latency() -> None:
    slow = case_like()
    fast = copy.deepcopy(slow)
    for whole, half in zip(slow["model"]["profiles"], fast["model"]["profiles"], strict=True):
        add_occupancy(whole, 0.5)
        if "quadratic" in half["prefill"]:
            half["prefill"]["quadratic"] = {key: 0.5 * value for key, value in half["prefill"]["quadratic"].items()}
        else:
            half["prefill"]["latency_s"] = [0.5 * value for value in half["prefill"]["latency_s"]]
    halved, stated = plan(fast), plan(slow)
    assert stated.throughput_rps == pytest.approx(halved.throughput_rps, rel=1e-12)
    assert (stated.threshold_tokens, stated.instances) == (halved.threshold_tokens, halved.instances)
    assert stated.ttft_s.mean == pytest.approx(2 * halved.ttft_s.mean, rel=1e-12)
    assert stated.ttft_s.p90 == pytest.approx(2 * halved.ttft_s.p90, rel=1e-9)


def test_an_occupancy_equal_to_the_latency_changes_nothing_to_the_last_digit() -> None:
    for seed in range(60):
        scenario = random_scenario(seed)
        stated = copy.deepcopy(scenario)
        for profile in stated["model"]["profiles"]:
            add_occupancy(profile, 1.0)
        try:
            one, other = (structs.replace(plan(each, sensitivity=True), terms=()) for each in (scenario, stated))
        except InfeasibleError:
            continue
        assert one == other, seed


def test_the_terms_say_which_hardware_has_an_occupancy() -> None:
    scenario = case_like()
    assert {term.name: term.value for term in plan(scenario).terms}["occupancy"] == "occupancy equal to latency"
    add_occupancy(scenario["model"]["profiles"][0], 0.5)
    term = {term.name: term for term in plan(scenario).terms}["occupancy"]
    assert (term.value, term.source) == ("occupancy of REMOTE", "given")


def test_a_prompt_never_takes_an_instance_longer_than_it_waits() -> None:
    scenario = case_like()
    add_occupancy(scenario["model"]["profiles"][0], 1.1)
    with pytest.raises(InputError, match="expected at most its latency"):
        plan(scenario)


def test_less_occupancy_never_lowers_throughput() -> None:
    rates = []
    for share in (1.0, 0.8, 0.5, 0.2):
        scenario = case_like()
        for profile in scenario["model"]["profiles"]:
            add_occupancy(profile, share)
        rates.append(plan(scenario).throughput_rps)
    assert rates == sorted(rates)
    assert rates[-1] > rates[0]
