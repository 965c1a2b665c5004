"""Cases that a first version of the operating point and of transfers got wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from prfaas_opt import load_scenario, plan
from prfaas_opt.errors import InputError
from prfaas_opt.latency.first_token import Cells
from prfaas_opt.planning.build import carried_by_link, carried_of_request, curves_of, two_pool_problem
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.operating import Latency, best_operating_point, largest_load
from prfaas_opt.planning.problem import Decision
from prfaas_opt.workload.distribution import table
from tests.latency_oracle import latency_oracle_of
from tests.scenarios import case_like

FOUND = Path(__file__).with_name("operating_points")
"""Scenarios with few lengths whose best threshold was missed."""


def test_cells_of_many_single_lengths_have_the_probability_of_any_range() -> None:
    lengths = table([(float(x), 1.0) for x in range(100, 10_100)])
    cells = Cells(lengths)
    for cut in (150.0, 5000.0, 9700.0):
        share = math.fsum(w for chain in cells.chains(0.0, cut) for w in chain.weights)
        assert share == pytest.approx(lengths.share_at_most(cut), abs=1e-9), cut


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_for_a_trace_of_many_lengths_holds_its_ttft(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scenario = case_like(pd=4, remote=2, decode_batch=200)
    lengths = np.sort(rng.choice(np.arange(16, 3001), int(rng.integers(200, 1500)), replace=False))
    weights = (rng.exponential(size=len(lengths)) + 1e-3).tolist()
    scenario["workload"]["input_tokens"] = {"distribution": "table", "lengths": lengths.tolist(), "weights": weights}
    scenario["slo"] = {"ttft": {"p90": "3.0s"}}
    loaded = load_scenario(scenario)
    problem = two_pool_problem(loaded)
    point = best_operating_point(loaded, problem)
    assert point is not None
    held = latency_oracle_of(scenario).largest_load(
        point.decision.threshold_tokens(problem.lengths), point.decision.split
    )
    assert point.rate_rps == pytest.approx(held, rel=2e-3)


@pytest.mark.parametrize("sigma", [0.05, 0.02, 0.01])
def test_narrow_lengths_in_a_wide_range(sigma: float) -> None:
    text = f"{{distribution: truncated-lognormal, mu: 9.9, sigma: {sigma}, low: 128, high: 131072}}"
    loaded = load_scenario(overrides={"workload": f"{{input_tokens: {text}, output_tokens: 1024}}"})
    problem = two_pool_problem(loaded)
    at = Latency(loaded, problem).of(Decision.at_threshold(problem.lengths, 131072, 3)).at(0.0)
    assert at is not None
    # The quantile of the length is exact: exp(mu + z * sigma).
    length = math.exp(9.9 + 1.2815515655446004 * sigma)
    assert at.quantile_s(0.9) == pytest.approx(problem.local_latency_s(length), rel=3e-3)


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.json")), ids=lambda path: path.stem)
def test_no_threshold_between_few_lengths_serves_more(path: Path) -> None:
    scenario = json.loads(path.read_text(encoding="utf-8"))
    loaded = load_scenario(scenario)
    problem = two_pool_problem(loaded)
    point = best_operating_point(loaded, problem)
    assert point is not None
    latency = Latency(loaded, problem)
    for split in problem.splits:
        for threshold in map(int, problem.lengths.atom_lengths):
            decision = Decision.at_threshold(problem.lengths, threshold, split)
            capacity = evaluate(problem, decision, "expected-time").throughput_rps
            assert point.rate_rps >= largest_load(latency.of(decision), loaded.service.ttft, capacity) * (1 - 2e-3)


def test_flow_caps_and_windows_without_a_count_of_flows_are_not_ignored() -> None:
    for key in ("flow_cap", "window"):
        value = {"flow_cap": "1Gbps", "window": "16MiB"}[key]
        try:
            loaded = load_scenario(overrides={f"links.0.{key}": value, "links.0.rtt": "80ms"})
        except InputError:
            continue
        assert carried_by_link(loaded).bytes_per_s < 12.5e9


def test_the_nic_that_limits_a_request_is_the_receivers() -> None:
    loaded = load_scenario(overrides={"clusters.pd.nic": "10Gbps"})
    assert carried_of_request(loaded).limited_by == "receiver NICs"


@pytest.mark.parametrize("percentile", [29, 57, 58])
def test_percentiles_of_101_measurements_are_exact(percentile: int) -> None:
    rates = ", ".join(f"{rate}Gbps" for rate in range(1, 102))
    loaded = load_scenario(overrides={"links.0.bandwidth": f"{{measured: [{rates}], percentile: {percentile}}}"})
    assert carried_by_link(loaded).bytes_per_s == pytest.approx((percentile + 1) * 1.25e8)


def test_compression_divides_by_no_more_than_its_factor() -> None:
    # All of it grows, but measured a little below a line through zero: what is left at length zero is -0.05 MiB.
    scenario = case_like()
    scenario["model"]["kv_cache"] = {"lengths_tokens": [1000, 3000], "mib": [68.6, 205.9]}
    plain = load_scenario(scenario)
    assert plain.remote is not None
    for compression in (2, 100):
        loaded = load_scenario(scenario | {"transfer": {"compression": compression}})
        assert loaded.remote is not None
        for length in (16, 1000, 3000):
            size = curves_of(plain, plain.remote).sent_bytes(length)
            assert curves_of(loaded, loaded.remote).sent_bytes(length) >= size / compression * (1 - 1e-12)
        plan(scenario | {"transfer": {"compression": compression}})


@pytest.mark.parametrize("share", [0.8, 0.9])
def test_whole_prompts_as_long_as_the_profile_are_in_range(share: float) -> None:
    scenario = case_like(mu=5.0)
    longest = round(3000 * (1 - share))
    scenario["workload"]["input_tokens"] |= {"high": longest}
    scenario["workload"]["cached_share"] = share
    assert plan(scenario).throughput_rps > 0


def test_prompts_that_fit_a_context_exactly_are_served() -> None:
    scenario = case_like(mu=5.0)
    scenario["workload"]["input_tokens"] |= {"high": 200}
    scenario["workload"]["cached_share"] = 0.9
    scenario["clusters"]["here"]["max_context"] = 2000 + 1024
    assert plan(scenario).unservable_share == 0.0


def test_one_chunk_of_uncached_tokens_hides_nothing() -> None:
    """Of a prompt of 1,000 tokens 900 are cached: the 100 others are one chunk, whose KVCache follows its prefill."""
    scenario = case_like(mu=4.0)
    scenario["workload"] |= {"input_tokens": 100, "cached_share": 0.9}
    scenario["transfer"] = {"overlap": "chunk", "chunk_tokens": 100}
    scenario["links"][0]["request_cap"] = "100Mbps"
    times = {}
    for overlap in ("chunk", "none"):
        scenario["transfer"]["overlap"] = overlap
        loaded = load_scenario(scenario)
        problem = two_pool_problem(loaded)
        at = Latency(loaded, problem).of(Decision.at_threshold(problem.lengths, 0, 1)).at(0.0)
        assert at is not None
        times[overlap] = at.mean_s
    assert times["chunk"] == pytest.approx(times["none"])
