"""Plans of many scenarios at once are those of each by itself, in every field, errors included."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

from prfaas_opt import results
from prfaas_opt.errors import PrfaasOptError
from prfaas_opt.io.scenario_file import load_scenario
from prfaas_opt.planning import batch
from prfaas_opt.planning.batch import BatchPlanner
from prfaas_opt.planning.plan import planned_alone
from prfaas_opt.scenario import Objective, Scenario
from tests.scenarios import case_like, random_scenario

MODELS = ("internal-1t", "kimi-linear", "qwen3-235b", "minimax-m2.5")
PRICES_AGREE = 1e-6
"""Duals are those of a price found near the best, where the bound is flat; all else is compared more closely."""


def varied(base: Scenario, rng: np.random.Generator, count: int) -> list[Scenario]:
    """The scenario with other capacities, around its own and far from them."""
    scenarios = []
    for _ in range(count):
        pd = dataclasses.replace(
            base.pd, instances=int(rng.integers(1, 25)), max_utilization=float(rng.choice([1.0, 0.85]))
        )
        changed = dataclasses.replace(base, pd=pd, tokens_per_s=base.tokens_per_s if rng.random() < 0.7 else None)
        if base.remote and base.link:
            remote = dataclasses.replace(base.remote, instances=int(rng.integers(1, 13)))
            bandwidth = base.link.bandwidth_bytes_per_s * float(np.exp(rng.normal(0.0, 2.0)))
            link = dataclasses.replace(base.link, bandwidth_bytes_per_s=bandwidth)
            changed = dataclasses.replace(changed, remote=remote, link=link)
        scenarios.append(changed)
    return scenarios


def alone(scenario: Scenario) -> results.Plan | PrfaasOptError:
    try:
        return planned_alone(scenario)
    except PrfaasOptError as error:
        return error


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two plans, as plain data, differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return [f"{where}: {one.keys()} != {other.keys()}"]
        return [text for key in one for text in differences(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            text for i, pair in enumerate(zip(one, other, strict=True)) for text in differences(*pair, f"{where}.{i}")
        ]
    if isinstance(one, float) and isinstance(other, float):
        relative = PRICES_AGREE if ".shadow_prices" in where else 1e-9
        if abs(one - other) <= relative * max(abs(one), abs(other)) + 1e-11:
            return []
    return [] if one == other else [f"{where}: {one!r} != {other!r}"]


def assert_same(scenarios: list[Scenario]) -> int:
    """Compares all of them, and tells how many were planned together with others."""
    by_itself: list[Scenario] = []
    original = batch._planned_by_itself

    def counted(scenario: Scenario, objective: Objective | None) -> results.Plan | PrfaasOptError:
        by_itself.append(scenario)
        return original(scenario, objective)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_planned_by_itself", counted)
        patch.setattr(batch, "_LEAST_TOGETHER", 1)
        together = BatchPlanner().planned_each(scenarios)
    for scenario, plan in zip(scenarios, together, strict=True):
        expected = alone(scenario)
        if isinstance(expected, PrfaasOptError) or isinstance(plan, PrfaasOptError):
            assert repr(plan) == repr(expected)
            continue
        found = differences(*(msgspec.json.decode(msgspec.json.encode(each)) for each in (expected, plan)))
        assert not found, (found, scenario)
    return len(scenarios) - len(by_itself)


@pytest.mark.parametrize("model", MODELS)
def test_shipped_models_at_other_capacities(model: str) -> None:
    rng = np.random.default_rng(1)
    scenarios = varied(load_scenario(None, {"model": model}), rng, 80)
    assert assert_same(scenarios) > 60


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_random_scenarios_at_other_capacities(first: int) -> None:
    rng = np.random.default_rng(first)
    together = 0
    for seed in range(first, first + 40):
        scenario = alone_or_none(random_scenario(seed))
        if scenario is not None:
            together += assert_same(varied(scenario, rng, 6))
    assert together > 40


def alone_or_none(spec: dict[str, Any]) -> Scenario | None:
    try:
        return load_scenario(spec)
    except PrfaasOptError:
        return None


def test_scenarios_of_different_kinds_in_one_batch_keep_their_places() -> None:
    rng = np.random.default_rng(3)
    bases = [load_scenario(case_like(mu=mu)) for mu in (6.0, 6.5, 7.0)] + [load_scenario()]
    several = [each for base in bases for each in varied(base, rng, 12)]
    order = rng.permutation(len(several))
    assert assert_same([several[i] for i in order]) > 40


def test_few_scenarios_of_a_kind_are_planned_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "group_of", lambda _: pytest.fail("tables for a few plans"))
    scenarios = varied(load_scenario(), np.random.default_rng(5), 5)
    assert len(BatchPlanner().planned_each(scenarios)) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"links.0.rtt": "80ms", "links.0.flows": "4", "links.0.window": "16MiB"},
        {
            "transfer.bytes": "full_prompt",
            "workload": "{input_tokens: {distribution: uniform, low: 512, high: 65536}, "
            "output_tokens: 512, cached_share: 0.3}",
        },
        {"transfer.compression": "2"},
        {"clusters.pd.max_context": "64K"},
        {"residency.stay_share": "0.2"},
        {"slo.ttft": "{p90: 9s}"},
        {"local_prefill": "on_decode"},
        {"estimator": "mean-length"},
        {"links.0.bandwidth": "0Gbps"},
        {"clusters.pd.nic": "100Gbps", "clusters.prfaas.nic": "25Gbps"},
        {"baseline.instances": "1"},
        {"baseline": "{hardware: H200, instances: 9}"},
        {"slo.tokens_per_s": "4000"},
        {
            "clusters.pd.price_per_gpu_hour": "1",
            "clusters.prfaas.price_per_gpu_hour": "3",
            "links.0.price_per_gb": "0.01",
        },
    ],
    ids=lambda change: next(iter(change)),
)
def test_terms_beyond_the_paper(change: dict[str, str]) -> None:
    rng = np.random.default_rng(4)
    count = 3 if {"slo.ttft", "clusters.pd.price_per_gpu_hour"} & change.keys() else 12
    assert_same(varied(load_scenario(None, change), rng, count))


def test_tables_that_are_not_kept_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    scenarios = [each for mu in (6.0, 6.5, 7.0) for each in varied(load_scenario(case_like(mu=mu)), rng, 30)]
    kept, forgetful = BatchPlanner(), BatchPlanner()
    expected = [repr(each) for each in kept.planned_each(scenarios)]
    monkeypatch.setattr(batch, "_MOST_THRESHOLDS", 100)
    assert [repr(each) for each in forgetful.planned_each(scenarios)] == expected
    assert [repr(each) for each in kept.planned_each(scenarios)] == expected
    assert not forgetful._groups
