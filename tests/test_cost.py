"""Dollars per request, against trying every choice of counts, every split and every threshold.

A failure names the seed: ``priced(seed)`` makes its scenario again.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from prfaas_opt import load_scenario
from prfaas_opt.api import plan
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.planning import cost
from prfaas_opt.planning.build import two_pool_problem
from tests.scenarios import case_like, random_scenario
from tests.terms_oracle import Prices, TermsOracle, assert_none_wrong, differ, prices_of, terms_oracle_of


def priced(seed: int, restricted: bool = True) -> dict[str, Any]:
    """A small random scenario with prices, some of them zero, such that bytes and instances both matter."""
    scenario = random_scenario(seed, "expected-time")
    rng = np.random.default_rng(800_000 + seed)
    for cluster in scenario["clusters"].values():
        cluster["instances"] = int(rng.integers(1, 5))
        cluster["price_per_gpu_hour"] = 0.0 if rng.random() < 0.07 else float(rng.uniform(0.5, 5.0))
    if restricted and rng.random() < 0.25:
        scenario["local_prefill"] = "on_decode"
        decode = scenario["model"]["profiles"][0]["decode"]
        if isinstance(decode["batch"], list):
            decode["batch"] = np.cumsum(rng.integers(1, 4, size=len(decode["batch"]))).tolist()
        scenario["slo"] = {key: float(rng.uniform(0.2, 1.0)) * value for key, value in scenario["slo"].items()}
    if restricted and rng.random() < 0.2:
        scenario["residency"] = {"stay_share": float(rng.uniform(0.0, 0.6))}
    for link in scenario.get("links", []):
        oracle, prices = terms_oracle_of(scenario, 1), prices_of(scenario)
        hourly = oracle.given.remote * prices.remote_instance_hour + oracle.given.pd * prices.pd_instance_hour
        sent = float(oracle.loads.sent_bytes.max())
        if rng.random() < 0.75 and sent > 0 and oracle.best() > 0:
            typical = hourly / 3600.0 / oracle.best() / (sent / 1e9)
            link["price_per_gb"] = 0.0 if rng.random() < 0.1 else typical * float(rng.uniform(0.01, 2.0))
        if rng.random() < 0.4 and oracle.given.egress_bytes_per_s > 0:
            gbps = oracle.given.egress_bytes_per_s * 8e-9
            link["price_per_gbps_hour"] = hourly / gbps * float(rng.choice([0.0, 0.05, 0.3]))
    return scenario


def cheapest(oracle: TermsOracle, prices: Prices, remote: bool = True) -> tuple[float, float]:
    """The least dollars per request there are, and the bytes sent there."""
    best = (math.inf, 0.0)
    for have in oracle.counts(remote):
        for split in oracle.splits(have):
            usd = oracle.usd_per_request(prices, split, have)
            at = int(usd.argmin())
            if usd[at] < best[0]:
                best = float(usd[at]), float(oracle.loads.sent_bytes[at])
    return best


def wrong_claims(scenario: dict[str, Any]) -> Iterator[str]:
    """The least there is, and a bound that is never above it."""
    oracle, prices = terms_oracle_of(scenario), prices_of(scenario)
    least, _ = cheapest(oracle, prices)
    loaded = load_scenario(scenario)
    found = cost.cheapest(loaded)
    if found is None:
        if least < math.inf:
            yield f"nothing found, but {least!r} USD a request are possible"
        return
    if differ(found.usd_per_request, least) and max(found.usd_per_request, least) > 0:
        yield f"{found.usd_per_request!r} USD a request, the least is {least!r}"
    bound = cost.least_usd_per_request(loaded)
    if bound is not None and bound > least * (1 + 1e-12):
        yield f"said never to cost less than {bound!r}, but {least!r} is possible"


def test_the_cheapest_of_all_counts_splits_and_thresholds() -> None:
    assert_none_wrong(wrong_claims, priced, range(150))


def wrong_plan(scenario: dict[str, Any]) -> Iterator[str]:
    """The plan deploys what is cheapest, and its own figures say what that costs."""
    try:
        found = plan(scenario, objective="cost")
    except InfeasibleError:
        if cheapest(terms_oracle_of(scenario), prices_of(scenario))[0] < math.inf:
            yield "infeasible"
        return
    oracle, prices = terms_oracle_of(scenario), prices_of(scenario)
    least, _ = cheapest(oracle, prices)
    if found.objective != "cost" or (found.cost is None and least > 0):
        yield f"{found.objective} {found.cost}"
    if found.cost is None:
        return
    if differ(found.cost.usd_per_thousand_requests, 1000 * least):
        yield f"{found.cost.usd_per_thousand_requests!r}, the least is {1000 * least!r}"
    hourly = found.instances.prfaas * prices.remote_instance_hour + prices.pd_instance_hour * (
        found.instances.pd_prefill + found.instances.pd_decode
    )
    hourly += prices.link_hour if found.instances.prfaas else 0.0
    sent = float(oracle.loads_of(oracle.remote_share_of(found.routing.bands)).sent_bytes[0])
    egress = 3600 * found.throughput_rps * sent * prices.byte
    expected = {
        "usd_per_hour": (found.cost.usd_per_hour, hourly + egress),
        "egress_usd_per_hour": (found.cost.egress_usd_per_hour, egress),
        "requests_per_usd": (found.cost.requests_per_usd, 3600 * found.throughput_rps / (hourly + egress)),
        "usd_per_thousand": (
            found.cost.usd_per_thousand_requests,
            1000 * (hourly + egress) / (3600 * found.throughput_rps),
        ),
    }
    for name, (said, by_hand) in expected.items():
        if differ(said, by_hand):
            yield f"{name} {said!r}, expected {by_hand!r}"
    least_said = found.cost.least_usd_per_thousand_requests
    if least_said is not None and least_said > found.cost.usd_per_thousand_requests * (1 + 1e-12):
        yield f"least {least_said!r} above {found.cost.usd_per_thousand_requests!r}"


def test_plans_for_cost() -> None:
    assert_none_wrong(wrong_plan, priced, range(1000, 1050))


def test_a_plan_for_throughput_never_costs_less() -> None:
    def check(scenario: dict[str, Any]) -> Iterator[str]:
        try:
            fastest, frugal = plan(scenario), plan(scenario, objective="cost")
        except InfeasibleError:
            return
        if fastest.cost is None or frugal.cost is None:
            return
        if fastest.cost.usd_per_thousand_requests < frugal.cost.usd_per_thousand_requests * (1 - 1e-9):
            yield f"{fastest.cost} {frugal.cost}"
        same = ("least_usd_per_thousand_requests", "break_even_usd_per_gb")
        if any(getattr(fastest.cost, name) != getattr(frugal.cost, name) for name in same):
            yield f"{fastest.cost} {frugal.cost}"

    assert_none_wrong(check, priced, range(2000, 2040))


def test_bytes_that_weigh_keep_more_here_than_balances_the_pools() -> None:
    """Beyond the crossing of the loads each request kept costs time here and saves bytes, the longer the more time."""
    thresholds = []
    for usd in np.linspace(0.11, 0.24, 14):
        scenario = case_like(remote=1, pd=4, decode_batch=200)
        scenario["clusters"]["there"]["price_per_gpu_hour"] = 0
        scenario["clusters"]["here"]["price_per_gpu_hour"] = 1
        scenario["links"][0]["price_per_gb"] = float(usd)
        found = cost.cheapest(load_scenario(scenario))
        assert found is not None
        least, _ = cheapest(terms_oracle_of(scenario), prices_of(scenario))
        assert found.usd_per_request == pytest.approx(least, rel=1e-9)
        thresholds.append(found.decision.threshold_tokens(two_pool_problem(found.scenario).lengths))
    assert thresholds == sorted(thresholds)
    assert len({each for each in thresholds if each < 3000}) > 6


# The price of a GB


def wrong_break_even(scenario: dict[str, Any]) -> Iterator[str]:
    """Just below the price remote prefill costs less than the best without it, just above it does not."""
    if not scenario.get("links"):
        return
    found = cost.break_even_usd_per_gb(load_scenario(scenario))
    oracle, prices = terms_oracle_of(scenario), prices_of(scenario)
    alone, _ = cheapest(oracle, prices, remote=False)
    if alone == math.inf:
        if found is not None:
            yield f"{found!r}, but there is nothing to compare with"
        return
    if found is None:
        least, sent = cheapest(oracle, dataclasses.replace(prices, byte=0.0))
        if least < alone * (1 - 1e-9) and sent > 0:
            yield f"never pays, but {least!r} is less than {alone!r} where bytes cost nothing"
        return
    below, above = (cheapest(oracle, dataclasses.replace(prices, byte=found * f * 1e-9)) for f in (0.99, 1.01))
    if not (below[1] > 0 and below[0] < alone):
        yield f"1 % below {found!r}: {below!r}, alone {alone!r}"
    if above[1] > 0 and above[0] < alone * (1 - 1e-12):
        yield f"1 % above {found!r}: {above!r}, alone {alone!r}"


def test_remote_prefill_pays_up_to_the_break_even_price() -> None:
    assert_none_wrong(wrong_break_even, priced, range(3000, 3100))


def test_break_even_prices_are_found_often_enough_to_test_them() -> None:
    prices = [cost.break_even_usd_per_gb(load_scenario(priced(seed))) for seed in range(3000, 3060)]
    assert sum(price is not None and price > 0 for price in prices) > 15
    assert sum(price is None for price in prices) > 5


def sent_by_cheapest(scenario: dict[str, Any]) -> float | None:
    found = cost.cheapest(load_scenario(scenario))
    if found is None:
        return None
    return two_pool_problem(found.scenario).loads(found.decision.offloaded).sent_bytes


def test_dearer_egress_never_raises_the_bytes_sent() -> None:
    fell = 0
    for seed in range(4000, 4100):
        scenario = priced(seed)
        link = next(iter(scenario.get("links", [])), None)
        if link is None or sent_by_cheapest(scenario) is None:
            continue
        typical = link.get("price_per_gb") or 0.1
        sent = []
        for factor in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0):
            link["price_per_gb"] = typical * factor
            sent.append(sent_by_cheapest(scenario) or 0.0)
        assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(sent)), (seed, sent)
        fell += sent[-1] < sent[0]
    assert fell > 10


def test_a_flat_line_is_a_price_of_zero_to_the_last_digit() -> None:
    for seed in range(5000, 5020):
        scenario = priced(seed)
        for link in scenario.get("links", []):
            link.pop("price_per_gb", None)
        free = copy.deepcopy(scenario)
        for link in free.get("links", []):
            link["price_per_gb"] = 0
        for objective in ("throughput", "cost"):
            try:
                one, other = (structs.replace(plan(each, objective=objective), terms=()) for each in (scenario, free))
            except InfeasibleError:
                continue
            assert one == other, seed


# By hand


def two_dollars() -> dict[str, Any]:
    """3 remote instances and 6 here of 8 GPUs, at 2 and 1 USD a GPU-hour: 48 and 48 USD an hour."""
    scenario = case_like()
    scenario["clusters"]["there"]["price_per_gpu_hour"] = 2
    scenario["clusters"]["here"]["price_per_gpu_hour"] = 1
    scenario["links"][0] |= {"price_per_gb": 0.01, "price_per_gbps_hour": 0.5}
    return scenario


def test_what_a_thousand_requests_cost_by_hand() -> None:
    found = plan(two_dollars())
    assert found.cost is not None
    gigabytes_an_hour = found.egress_gbps / 8 * 3600
    assert found.cost.egress_usd_per_hour == pytest.approx(0.01 * gigabytes_an_hour, rel=1e-12)
    per_hour = 3 * 8 * 2 + 6 * 8 * 1 + 4 * 0.5 + 0.01 * gigabytes_an_hour
    assert found.cost.usd_per_hour == pytest.approx(per_hour, rel=1e-12)
    per_thousand = per_hour / (found.throughput_rps * 3.6)
    assert found.cost.usd_per_thousand_requests == pytest.approx(per_thousand, rel=1e-12)
    assert found.cost.requests_per_usd == pytest.approx(1000 / per_thousand, rel=1e-12)


def test_cost_needs_every_price() -> None:
    scenario = two_dollars()
    del scenario["clusters"]["here"]["price_per_gpu_hour"]
    with pytest.raises(InputError, match="has no price_per_gpu_hour"):
        plan(scenario, objective="cost")
    scenario["clusters"]["here"]["price_per_gpu_hour"] = 0
    assert plan(scenario).cost is not None


def test_the_cheapest_deployment_lets_go_of_what_does_not_pay() -> None:
    dear = two_dollars()
    dear["clusters"]["there"]["price_per_gpu_hour"] = 100
    found = plan(dear, objective="cost")
    assert found.instances.prfaas == 0
    assert found.routing.kind == "all-local"
    assert found.cost is not None
    assert found.cost.break_even_usd_per_gb is None
