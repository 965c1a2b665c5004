"""Cases of memory, contexts, residency and cost that a first version of these terms got wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from prfaas_opt import load_scenario
from prfaas_opt.api import plan
from prfaas_opt.planning import cost
from tests.scenarios import case_like
from tests.terms_oracle import prices_of, terms_oracle_of
from tests.test_cost import cheapest, two_dollars


def three_lengths() -> dict[str, Any]:
    """A third each has 100, 200 and 300 tokens: 1 s here, 0.99 s there, 1 GB; 1 instance there, 2 here."""
    scenario = case_like(remote=1, pd=2, gbps=1000)
    remote, local = scenario["model"]["profiles"]
    remote["prefill"] = {"lengths_tokens": [100, 300], "latency_s": [0.99, 0.99]}
    local["prefill"] = {"lengths_tokens": [100, 300], "latency_s": [1.0, 1.0]}
    local["decode"] = {"batch": 1000, "step_s": 0.001}
    scenario["model"]["kv_cache"] = {"lengths_tokens": [100, 300], "gb": [1.0, 1.0001]}
    lengths = {"distribution": "table", "lengths": [100, 200, 300], "weights": [1, 1, 1]}
    scenario["workload"] = {"input_tokens": lengths, "output_tokens": 10}
    scenario["clusters"]["there"]["price_per_gpu_hour"] = 0.0
    scenario["clusters"]["here"]["price_per_gpu_hour"] = 225.0  # 1 USD/s for both instances
    scenario["links"][0]["price_per_gb"] = 0.5
    return scenario


def least(scenario: dict[str, Any]) -> float:
    return cheapest(terms_oracle_of(scenario), prices_of(scenario))[0]


def test_the_token_above_the_crossing_may_be_the_cheapest() -> None:
    """Keeping 200 too loads local prefill 1 % more than the remote one was, and halves the bytes."""
    scenario = three_lengths()
    found = cost.cheapest(load_scenario(scenario))
    assert found is not None
    assert found.usd_per_request == pytest.approx(least(scenario), rel=1e-9)


def test_where_the_limits_of_on_decode_meet_may_be_the_cheapest() -> None:
    """Time limits up to the kink, the token rate beyond it: between both slopes bytes weigh more, then less."""
    scenario = three_lengths() | {"local_prefill": "on_decode", "slo": {"tokens_per_s": 10}}
    scenario["clusters"]["there"]["instances"] = 10
    local = scenario["model"]["profiles"][1]
    local["decode"] = {"batch": 1, "step_s": 0.08}
    scenario["workload"]["input_tokens"] = {"distribution": "uniform", "low": 100, "high": 300}
    worst = 1.0
    for usd in np.geomspace(0.01, 10, 40):
        scenario["links"][0]["price_per_gb"] = float(usd)
        found = cost.cheapest(load_scenario(scenario))
        assert found is not None
        worst = max(worst, found.usd_per_request / least(scenario))
    assert worst == pytest.approx(1.0, abs=1e-9)


def test_the_bound_on_cost_holds_without_remote_prefill_too() -> None:
    """KVCache in flight takes memory from decode; a deployment without remote prefill has none in flight."""
    scenario = two_dollars()
    local = scenario["model"]["profiles"][1]
    local["decode"] = {"batch": [1, 64], "step_s": [0.02, 0.03]}
    local["memory"] = {"usable_gib": 9.0, "weights_gib": 4.0}
    local["provenance"]["memory"] = "assumed, small"
    scenario["links"][0]["request_cap"] = "10Mbps"
    scenario["clusters"]["there"]["price_per_gpu_hour"] = 100
    found = plan(scenario, objective="cost").cost
    assert found is not None
    assert found.least_usd_per_thousand_requests is not None
    assert found.least_usd_per_thousand_requests <= found.usd_per_thousand_requests * (1 + 1e-12)


@pytest.mark.parametrize("cached", [0.8, 0.9])
def test_a_prompt_that_just_fits_with_its_cached_part_is_served(cached: float) -> None:
    """100 uncached tokens of a prompt of 500 or 1000: 1 / (1 - 0.8) is 5.000000000000001."""
    scenario = case_like()
    for profile in scenario["model"]["profiles"]:
        profile["prefill"] = {"lengths_tokens": [16, 9000], "latency_s": [0.1, 5.0]}
    scenario["model"]["kv_cache"]["lengths_tokens"] = [16, 9000]
    scenario["workload"] = {"input_tokens": 100, "output_tokens": 24, "cached_share": cached}
    scenario["clusters"]["here"]["max_context"] = round(100 / (1 - cached)) + 24
    assert plan(scenario).unservable_share == 0


def test_all_must_stay_is_a_share_of_one() -> None:
    shares = [plan(case_like() | {"residency": {"stay_share": each}}).stay_share for each in (0.9, 0.99, 1.0)]
    assert shares == pytest.approx([0.9, 0.99, 1.0])


def test_decode_takes_the_context_of_the_requests_that_are_served() -> None:
    """Half has 100 tokens, half 2900, which the pd cluster refuses: as if there were only those of 100."""
    scenario = case_like()
    decode = {"batch": [1, 100], "context_tokens": [200, 4000], "step_ms": [[10, 20], [20, 60]]}
    scenario["model"]["profiles"][1]["decode"] = decode
    scenario["slo"] = {"tokens_per_s": 40}
    scenario["clusters"]["here"]["max_context"] = 1500
    scenario["workload"] = {"input_tokens": 100, "output_tokens": 200}
    short = plan(scenario)
    mixed = {"distribution": "table", "lengths": [100, 2900], "weights": [1, 1]}
    scenario["workload"] = {"input_tokens": mixed, "output_tokens": 200}
    found = plan(scenario)
    assert found.unservable_share == pytest.approx(0.5)
    assert math.isclose(found.decode.context_tokens, short.decode.context_tokens)
    assert found.throughput_rps == pytest.approx(short.throughput_rps, rel=1e-12)
