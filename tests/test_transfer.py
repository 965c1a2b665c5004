"""What offloading sends: what is compressed of it, what of a cached prompt, and what it leaves as it was."""

from __future__ import annotations

import copy
import itertools
from functools import cache

import numpy as np
import pytest

from prfaas_opt import api, load_scenario, plan
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.planning.build import curves_of, two_pool_problem
from prfaas_opt.results import Plan
from prfaas_opt.scenario import Scenario
from tests.scenarios import case_like, random_scenario

MIB = 2.0**20
FIXED_MIB = 190.8 - 1024 * (308.9 - 190.8) / (8192 - 1024)
"""What the sizes of internal-1t leave at length zero, along their first segment: 173.93 MiB of recurrent states."""
TABLE_MIB = {1024: 190.8, 8192: 308.9, 32768: 701.3, 131072: 2316.3}
SHORT = "{distribution: truncated-lognormal, mu: 9.0, sigma: 1.0, low: 128, high: 32768}"


def scenario(**overrides: str) -> Scenario:
    return load_scenario(overrides={key.replace("__", "."): value for key, value in overrides.items()})


@cache
def planned(**overrides: str) -> Plan:
    return plan(scenario(**overrides))


def cached_prompts(share: float, **overrides: str) -> Scenario:
    """The case study with prompts of which a share is cached, short enough for its profiles."""
    workload = f"{{input_tokens: {SHORT}, output_tokens: 1024, cached_share: {share}}}"
    return scenario(workload=workload, **overrides)


def sent_mib(of: Scenario, length: float) -> float:
    assert of.remote is not None
    return curves_of(of, of.remote).sent_bytes(length) / MIB


def bytes_per_request(of: Scenario, threshold: int) -> float:
    """What a request of all sends on average at a threshold."""
    evaluated = api.evaluate(of, threshold, 3)
    return evaluated.egress_gbps / evaluated.throughput_rps


def test_only_the_growing_part_is_compressed() -> None:
    assert round(FIXED_MIB, 2) == 173.93
    quarter = scenario(transfer__compression="4")
    for length, size in TABLE_MIB.items():
        assert sent_mib(scenario(), length) == pytest.approx(size)
        assert sent_mib(quarter, length) == pytest.approx(FIXED_MIB + (size - FIXED_MIB) / 4)
    assert round(sent_mib(quarter, 32768), 3) == round(173.9286 + (701.3 - 173.9286) / 4, 3) == 305.771
    # Below the table and between its points: straight.
    middle = (701.3 + 2316.3) / 2
    assert sent_mib(quarter, (32768 + 131072) / 2) == pytest.approx(FIXED_MIB + (middle - FIXED_MIB) / 4)
    assert sent_mib(quarter, 512) == pytest.approx(FIXED_MIB + (190.8 - FIXED_MIB) / 8)
    assert sent_mib(scenario(transfer__compression="100"), 1e-6) == pytest.approx(FIXED_MIB)


def test_all_of_a_cache_that_grows_from_nothing_is_compressed() -> None:
    mapping = case_like(kv_mib=(1.6, 300.0)) | {"transfer": {"compression": 2}}
    for length in (16, 100, 3000):
        assert sent_mib(load_scenario(mapping), length) == pytest.approx(0.05 * length)


def test_the_whole_prompt_is_sent_only_if_asked() -> None:
    for share in (0.25, 0.5):
        per_uncached = 1 / (1 - share)
        missing, whole = cached_prompts(share), cached_prompts(share, transfer__bytes="full_prompt")
        for length in (100.0, 1024.0, 5000.0, 16384.0, 32768.0):
            assert sent_mib(missing, length) == pytest.approx(sent_mib(scenario(), length))
            assert sent_mib(whole, length) == pytest.approx(sent_mib(scenario(), length * per_uncached))
    assert sent_mib(cached_prompts(0.75, transfer__bytes="full_prompt"), 8192) == pytest.approx(701.3)


def test_of_a_whole_prompt_too_only_the_growing_part_is_compressed() -> None:
    whole = cached_prompts(0.75, transfer__bytes="full_prompt", transfer__compression="2")
    assert sent_mib(whole, 8192) == pytest.approx(FIXED_MIB + (701.3 - FIXED_MIB) / 2)
    missing = cached_prompts(0.75, transfer__compression="2")
    assert sent_mib(missing, 8192) == pytest.approx(FIXED_MIB + (308.9 - FIXED_MIB) / 2)


def test_without_a_cached_prefix_the_whole_prompt_is_what_is_missing() -> None:
    best, plain = planned(transfer__bytes="full_prompt"), planned()
    assert best.throughput_rps == plain.throughput_rps
    assert best.egress_gbps == plain.egress_gbps
    assert best.ttft_by_load == plain.ttft_by_load


def test_whole_prompts_need_more_of_the_link() -> None:
    narrow = {"links__0__bandwidth": "3Gbps"}
    missing, whole = (
        plan(cached_prompts(0.5, transfer__bytes=sent, **narrow)) for sent in ("missing_at_destination", "full_prompt")
    )
    assert whole.throughput_rps < missing.throughput_rps * 0.99
    threshold = 5000
    ratio = bytes_per_request(cached_prompts(0.5, transfer__bytes="full_prompt"), threshold) / bytes_per_request(
        cached_prompts(0.5), threshold
    )
    assert 1.2 < ratio < 2.0


def test_egress_at_a_threshold_falls_with_compression_down_to_the_states() -> None:
    sent = [bytes_per_request(scenario(transfer__compression=f"{ratio}"), 19805) for ratio in (1, 1.5, 2, 10, 100)]
    assert all(after < before for before, after in itertools.pairwise(sent))
    share = api.evaluate(scenario(), 19805, 3).offload_share
    fixed = share * FIXED_MIB * MIB * 8e-9
    assert sent[-1] > fixed
    # Linear in 1 / ratio, hence by hand from the first.
    for ratio, found in zip((1, 1.5, 2, 10, 100), sent, strict=True):
        assert found == pytest.approx(fixed + (sent[0] - fixed) / ratio, rel=1e-9)


def test_compression_never_raises_egress_of_random_scenarios() -> None:
    compared = 0
    for seed in range(120):
        mapping = random_scenario(seed)
        rng = np.random.default_rng(seed)
        if not mapping.get("links") or mapping["links"][0]["bandwidth"] == 0:
            continue
        smaller = copy.deepcopy(mapping) | {"transfer": {"compression": float(rng.uniform(1.0, 6.0))}}
        try:
            first, second = load_scenario(mapping), load_scenario(smaller)
            problems = two_pool_problem(first), two_pool_problem(second)
        except InfeasibleError:
            continue
        lengths = problems[0].lengths
        for threshold in rng.integers(lengths.first_threshold, lengths.last_threshold, 4):
            before, after = (problem.loads(((float(threshold), np.inf),)).sent_bytes for problem in problems)
            assert after <= before * (1 + 1e-12), (seed, threshold)
        compared += 1
    assert compared > 60


def test_compression_lets_a_narrow_link_carry_more() -> None:
    narrow = {"links__0__bandwidth": "4Gbps"}
    rates = [planned(**narrow, transfer__compression=ratio).throughput_rps for ratio in ("1", "2", "4", "100")]
    assert all(after > before * 1.005 for before, after in itertools.pairwise(rates))
    assert planned(transfer__compression="4").throughput_rps == pytest.approx(planned().throughput_rps, rel=1e-4)


@pytest.mark.parametrize("rtt", ["1ms", "200ms", "30s"])
@pytest.mark.parametrize("bandwidth", ["3Gbps", "100Gbps"])
def test_a_round_trip_delays_the_first_token_and_never_costs_capacity(rtt: str, bandwidth: str) -> None:
    far, near = planned(links__0__rtt=rtt, links__0__bandwidth=bandwidth), planned(links__0__bandwidth=bandwidth)
    for name in ("throughput_rps", "threshold_tokens", "instances", "egress_gbps", "bound_rps", "link"):
        assert getattr(far, name) == getattr(near, name), name
    seconds = {"1ms": 1e-3, "200ms": 0.2, "30s": 30.0}[rtt]
    for slow, fast in zip(far.ttft_by_load, near.ttft_by_load, strict=True):
        assert slow.mean_s - fast.mean_s == pytest.approx(seconds * near.offload_share, rel=1e-6)


def test_what_overlaps_less_delays_the_first_token_and_costs_no_capacity() -> None:
    slow_link = {"links__0__bandwidth": "20Gbps", "links__0__request_cap": "4Gbps"}
    layer, chunk, none = (planned(**slow_link, transfer__overlap=overlap) for overlap in ("layer", "chunk", "none"))
    assert layer.throughput_rps == chunk.throughput_rps == none.throughput_rps
    for by_layer, by_chunk, afterwards in zip(layer.ttft_by_load, chunk.ttft_by_load, none.ttft_by_load, strict=True):
        assert by_layer.mean_s < by_chunk.mean_s < afterwards.mean_s
    tiny, huge = (
        planned(**slow_link, transfer__overlap="chunk", transfer__chunk_tokens=tokens) for tokens in ("1", "1M")
    )
    assert tiny.ttft_by_load[0].mean_s == pytest.approx(layer.ttft_by_load[0].mean_s, rel=1e-3)
    assert huge.ttft_by_load == none.ttft_by_load


def test_all_at_their_defaults_change_no_digit() -> None:
    stated = {
        "transfer": "{bytes: missing_at_destination, overlap: layer, compression: 1, chunk_tokens: 8K}",
        "links__0__rtt": "0",
        "arrivals": "{cv2: 1}",
        "local_prefill": "dedicated",
        "residency": "{stay_share: 0}",
    }
    best, plain = planned(**stated), planned()
    for name in Plan.__struct_fields__:
        if name != "terms":
            assert getattr(best, name) == getattr(plain, name), name
    given = {term.value for term in best.terms if term.source == "given"}
    assert given
    assert not [term for term in plain.terms if term.source == "given"]


def test_random_scenarios_at_their_defaults_change_no_digit() -> None:
    defaults = {
        "transfer": {"bytes": "full_prompt", "overlap": "none", "compression": 1.0, "chunk_tokens": 64},
        "arrivals": {"cv2": 4.0},
        "local_prefill": "dedicated",
        "residency": {"stay_share": 0.0},
    }
    for seed in range(40):
        mapping = random_scenario(seed)
        try:
            plain = plan(mapping)
        except InfeasibleError:
            continue
        stated = copy.deepcopy(mapping) | defaults
        if stated.get("links"):
            stated["links"][0]["rtt"] = "3s"
        best = plan(stated)
        for name in ("throughput_rps", "threshold_tokens", "bound_rps", "instances", "egress_gbps", "ttft_s"):
            assert getattr(best, name) == getattr(plain, name), (seed, name)
