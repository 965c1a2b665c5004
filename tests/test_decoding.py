"""Decode steps by batch and context, and the batch that the SLO and the memory of an instance allow."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prfaas_opt import plan
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.fleet_api import plan_fleet
from prfaas_opt.io.document import plain_document
from prfaas_opt.io.loading import model_of
from prfaas_opt.planning.decoding import DecodeLimits, Decoding, decoding, mean_context_tokens
from prfaas_opt.profiles.decode import DecodeProfile
from prfaas_opt.profiles.memory import InstanceMemory
from prfaas_opt.profiles.model import Model
from prfaas_opt.scenario import Nowhere
from prfaas_opt.workload.densities import Uniform
from prfaas_opt.workload.distribution import LengthDistribution, constant, table
from prfaas_opt.workload.workload import Workload

GIB = 2**30

WORKLOAD = Workload("w", "", constant(1000.0), constant(100.0))
"""A mean context of 1,050 tokens."""

MODEL: dict[str, Any] = {
    "name": "m",
    "kv_cache": {"lengths_tokens": [50, 1050, 2050], "gib": [0.1, 1, 1.9]},
    "kv_cache_provenance": "measured",
    "profiles": [
        {
            "hardware": "X",
            "gpus_per_instance": 2,
            "prefill": {"lengths_tokens": [50, 2000], "latency_s": [0.1, 1.0]},
            "decode": {"batch": [1, 64], "step_s": [0.025, 0.025]},
            "memory": {"usable_gib": 640, "weights_gib": 620},
            "provenance": {"prefill": "measured", "decode": "measured", "memory": "measured"},
        }
    ],
}


def model(**profile: Any) -> Model:
    """The model with some fields of its profile replaced, or left out where they are None."""
    data = copy.deepcopy(MODEL)
    data["profiles"][0] |= profile
    for key in [key for key, value in profile.items() if value is None]:
        del data["profiles"][0][key], data["profiles"][0]["provenance"][key]
    return model_of(plain_document(data, "m"))


def decodes(
    of: Model, tokens_per_s: float | None = None, in_flight_byte_s: float = 0.0, workload: Workload = WORKLOAD
) -> Decoding:
    return decoding(of, of.profiles[0], workload, tokens_per_s, Nowhere(), in_flight_byte_s)


def refusal(error: type[InputError | InfeasibleError], *arguments: Any, **more: Any) -> Problem:
    with pytest.raises(error) as caught:
        decodes(*arguments, **more)
    (problem,) = caught.value.problems
    return problem


# Steps


def test_a_table_is_straight_in_batch_and_in_context() -> None:
    by_context = DecodeProfile.by_context([1, 9], [1000, 3000], [[0.25, 0.75], [0.5, 1.5]])
    assert by_context.at(2000).step_s(5) == 0.75
    assert [by_context.at(1000).step_s(b) for b in (1, 3, 9)] == [0.25, 0.3125, 0.5]
    assert [by_context.at(3000).step_s(b) for b in (1, 9)] == [0.75, 1.5]
    assert by_context.at(1) == by_context.at(1000), "below the first context its steps hold"
    with pytest.raises(ValueError, match="3,001 tokens is beyond 3,000"):
        by_context.at(3001)
    with pytest.raises(ValueError, match="depends on the context"):
        by_context.step_s(1)
    for batch in (0, 10):
        with pytest.raises(ValueError, match="outside 1 to 9"):
            by_context.at(1000).step_s(batch)


def test_a_profile_by_batch_alone_is_the_same_at_any_context() -> None:
    by_batch = DecodeProfile((1, 9), (0.010, 0.018), 1.5)
    assert by_batch.at(10**9) is by_batch


@given(
    base=st.floats(0.001, 0.05),
    per_request=st.floats(0, 1e-3),
    per_token=st.floats(0, 1e-7),
    batch=st.integers(4, 512),
    context=st.floats(2000, 200_000),
)
def test_a_fit_is_its_formula_everywhere_in_its_range(
    base: float, per_request: float, per_token: float, batch: int, context: float
) -> None:
    fitted = DecodeProfile.fitted((base, per_request, per_token), (4, 512), (2000, 200_000))
    wanted = base + batch * (per_request + per_token * context)
    assert fitted.at(context).step_s(batch) == pytest.approx(wanted, rel=1e-12)


def test_accepted_tokens_relax_the_step() -> None:
    # At 5,000 tokens a step takes 10 ms + 0.6 ms a request; 40 tokens/s leave 25 ms, with 1.8 tokens a step 45 ms.
    fitted = DecodeProfile.fitted((0.010, 1e-4, 1e-7), (1, 256), (1000, 10_000))
    assert fitted.at(5000).largest_batch(40) == 25
    speculative = dataclasses.replace(fitted, accepted_tokens=1.8).at(5000)
    assert speculative.largest_batch(40) == 58
    assert speculative.fastest_tokens_per_s == pytest.approx(1.8 / 0.0106)
    assert speculative.largest_batch(170) is None
    assert speculative.largest_batch(None) == 256


# Context


def test_the_mean_context_is_that_over_time() -> None:
    assert mean_context_tokens(WORKLOAD) == 1050
    two = dataclasses.replace(WORKLOAD, output_tokens=table([(100.0, 1.0), (300.0, 1.0)]))
    assert mean_context_tokens(two) == 1000 + 50_000 / 400
    even = dataclasses.replace(WORKLOAD, output_tokens=LengthDistribution(parts=((1.0, Uniform(100.0, 300.0)),)))
    assert mean_context_tokens(even) == pytest.approx(1000 + (300**3 - 100**3) / 600 / 400)
    assert mean_context_tokens(dataclasses.replace(two, cached_share=0.75)) == 4000 + 125


def test_the_mean_context_is_what_counting_tokens_gives() -> None:
    rng = random.Random(7)
    inputs, outputs = ([rng.randint(1, 400) for _ in range(30)] for _ in range(2))
    contexts = [i + done + 0.5 for i, o in itertools.product(inputs, outputs) for done in range(o)]
    prompt, output = (table([(float(x), 1.0) for x in lengths]) for lengths in (inputs, outputs))
    counted = Workload("w", "", prompt, output)
    assert mean_context_tokens(counted) == pytest.approx(sum(contexts) / len(contexts), rel=1e-12)


def test_the_step_is_that_at_the_mean_context() -> None:
    decode = {"batch": [1, 21], "context_tokens": [50, 2050], "step_ms": [[10, 12], [20, 52]]}
    found = decodes(model(decode=decode, memory=None), 40)
    # Half way between the contexts: 11 ms at 1, 36 ms at 21, so 25 ms at 12.2.
    assert (found.batch, found.context_tokens, found.limited_by) == (12, 1050, "slo")
    assert found.step_s == pytest.approx(0.02475)
    assert found.rps_per_instance == pytest.approx(12 / (0.02475 * 100))


# Memory


@pytest.mark.parametrize(
    ("accepted", "in_flight_gib_s", "batch"),
    [
        (1, 0, 20),  # 620 GiB of weights and 20 of 1 GiB each.
        (1, 2.5, 10),  # 0.4 req/s of each request in the batch, so as much again in flight.
        (2, 2.5, 6),  # Twice that rate: 3 GiB for each request in the batch.
        (1, 47.5, 1),
    ],
)
def test_what_fits_in_memory(accepted: float, in_flight_gib_s: float, batch: int) -> None:
    decode = {"batch": [1, 64], "step_s": [0.025, 0.025], "accepted_tokens": accepted}
    found = decodes(model(decode=decode), None, in_flight_gib_s * GIB)
    assert (found.batch, found.limited_by) == (batch, "memory")
    assert found.rps_per_instance == pytest.approx(batch * accepted / 2.5)


def test_what_limits_the_batch() -> None:
    rising = {"batch": [1, 31], "step_ms": [10, 40]}
    assert (decodes(model(decode=rising), 40).batch, decodes(model(decode=rising), 40).limited_by) == (16, "slo")
    assert (decodes(model(decode=rising), 25).batch, decodes(model(decode=rising), 25).limited_by) == (20, "memory")
    roomy = model(decode=rising, memory={"usable_gib": 651, "weights_gib": 620})
    assert (decodes(roomy, 25).batch, decodes(roomy, 25).limited_by) == (31, "profile")
    assert decodes(model(memory=None)).limited_by == "profile"


def test_no_batch_is_fast_enough() -> None:
    problem = refusal(InfeasibleError, model(decode={"batch": [2, 4], "step_ms": [20, 40], "accepted_tokens": 1.5}), 80)
    assert (problem.code, problem.where) == ("slo", "slo.tokens_per_s")
    assert "80 tokens/s leave 18.8 ms a decode step, but the fastest step measured for m on X takes 20 ms" in str(
        problem
    )
    assert problem.fix.startswith("ask 75 tokens/s or less")


def test_no_batch_fits() -> None:
    decode = {"batch": [8, 16], "step_s": [0.025, 0.025]}
    memory = {"usable_gib": 627.5, "weights_gib": 620}
    problem = refusal(InfeasibleError, model(decode=decode, memory=memory), None, 2.5 * GIB)
    assert (problem.code, problem.where) == ("memory", "model")
    assert problem.message == (
        "no batch of m on X fits in memory: the least that decodes, 8, takes 620 GiB of weights, 8 GiB of KVCache, "
        "8 GiB in flight, in all 636 GiB, expected 627.5 GiB of usable memory at most"
    )
    assert "636 GiB" in problem.fix
    assert "in flight" not in refusal(InfeasibleError, model(decode=decode, memory=memory)).message


def test_the_least_batch_that_is_fast_may_lie_inside_a_stretch() -> None:
    # The step rises so steeply that a larger batch finishes fewer requests/s, and so has less in flight.
    limits = DecodeLimits(
        DecodeProfile((2, 20), (0.01, 1.0)),
        1.0,
        1.0,
        None,
        InstanceMemory(60.0, 1.0),
        kv_bytes=1.0,
        in_flight_byte_s=1.0,
    )
    held = {batch: 1 + batch + batch / (0.01 + (batch - 2) * 0.055) for batch in range(2, 21)}
    assert held[2] == 203
    assert min(held, key=lambda batch: held[batch]) == limits.least_fast_batch == 8
    assert [b for b, used in held.items() if used <= 60] == list(itertools.chain.from_iterable(limits.spans))
    assert limits.largest is not None
    assert (limits.largest.batch, limits.largest.limited_by) == (20, "profile")


@pytest.mark.parametrize("seed", range(40))
def test_batches_against_trying_each(seed: int) -> None:
    """Random tables, falling ones too, so small that every batch can be tried by the formulas of the issue."""
    rng = random.Random(seed)
    reasons = set()
    for _ in range(250):
        batches = sorted(rng.sample(range(1, 60), rng.randint(1, 4)))
        steps = [rng.uniform(0.005, 0.05) * (batch if rng.random() < 0.3 else 8) for batch in batches]
        accepted, output = rng.choice([1.0, 1.8]), rng.uniform(1, 10)
        usable, weights, kv, in_flight = (
            rng.uniform(60, 100),
            rng.uniform(1, 20),
            rng.uniform(0.1, 6),
            rng.uniform(0, 9),
        )
        slo = rng.choice([None, rng.uniform(1, 20)])
        memory = rng.choice([None, InstanceMemory(usable, weights)])
        profile = DecodeProfile(tuple(batches), tuple(steps), accepted)
        limits = DecodeLimits(profile, 1.0, output, slo, memory, kv, in_flight)
        good, fast = [], []
        for batch in range(batches[0], batches[-1] + 1):
            i = max(1, next(i for i, measured in enumerate(batches) if measured >= batch)) if len(batches) > 1 else 0
            step = steps[0]
            if i:
                share = (batch - batches[i - 1]) / (batches[i] - batches[i - 1])
                step = (1 - share) * steps[i - 1] + share * steps[i]
            rate = batch * accepted / (step * output)
            fits = memory is None or weights + batch * kv + rate * in_flight <= usable
            if slo is None or step <= accepted / slo:
                fast.append(batch)
                good += [batch] if fits else []
        assert list(itertools.chain.from_iterable(limits.spans)) == good
        assert list(itertools.chain.from_iterable(limits.fast_spans)) == fast
        assert profile.largest_batch(slo) == (fast[-1] if fast else None)
        found = limits.largest
        assert (found.batch if found else None) == (good[-1] if good else None)
        if found:
            wanted = "memory" if found.batch != fast[-1] else "profile" if found.batch == batches[-1] else "slo"
            assert found.limited_by == wanted
        reasons.add(found and found.limited_by)
    assert reasons == {None, "slo", "memory", "profile"}


def test_a_great_many_batches_take_no_time() -> None:
    # Trying each of ten million would take a minute.
    steps = DecodeProfile((1, 10_000_000), (0.001, 1000.0))
    limits = DecodeLimits(steps, 1.0, 100.0, None, InstanceMemory(1e12, 1e10), kv_bytes=1e5, in_flight_byte_s=1e3)
    assert limits.largest is not None
    batch = limits.largest.batch
    assert limits.largest.limited_by == "memory"
    assert limits.held_bytes(batch) <= 1e12 < limits.held_bytes(batch + 1)


FITTED = st.builds(
    DecodeProfile.fitted,
    st.tuples(st.floats(0.001, 0.03), st.floats(0, 1e-3), st.floats(0, 1e-7)),
    st.just((1, 300)),
    st.just((100, 20_000)),
    st.sampled_from([1.0, 1.6, 2.5]),
)


def limits_of(
    decode: DecodeProfile,
    context: float = 5000.0,
    slo: float | None = None,
    usable: float = 100.0,
    in_flight: float = 0.0,
) -> DecodeLimits:
    memory = InstanceMemory(usable, 20.0)
    return DecodeLimits(decode.at(context), context, 200.0, slo, memory, context * 2e-4, in_flight)


def batch_of(limits: DecodeLimits) -> int:
    return limits.largest.batch if limits.largest else 0


@given(decode=FITTED, slo=st.floats(10, 200), usable=st.floats(21, 400), more=st.floats(0, 100), flight=st.floats(0, 5))
def test_more_memory_never_lowers_the_batch(
    decode: DecodeProfile, slo: float, usable: float, more: float, flight: float
) -> None:
    less, roomier = (batch_of(limits_of(decode, 5000, slo, each, flight)) for each in (usable, usable + more))
    assert less <= roomier


@given(decode=FITTED, slo=st.floats(10, 200), more=st.floats(0, 100), flight=st.floats(0, 5))
def test_a_higher_slo_never_raises_the_batch(decode: DecodeProfile, slo: float, more: float, flight: float) -> None:
    loose, strict = (batch_of(limits_of(decode, 5000, each, 100, flight)) for each in (slo, slo + more))
    assert strict <= loose


@given(decode=FITTED, slo=st.floats(10, 200), context=st.floats(100, 10_000), more=st.floats(0, 10_000))
def test_a_longer_context_never_raises_the_batch_of_a_fit(
    decode: DecodeProfile, slo: float, context: float, more: float
) -> None:
    short, long = (batch_of(limits_of(decode, each, slo)) for each in (context, context + more))
    assert long <= short


@given(decode=FITTED, accepted=st.floats(1, 4))
def test_accepted_tokens_multiply_the_rate(decode: DecodeProfile, accepted: float) -> None:
    one, many = (limits_of(dataclasses.replace(decode, accepted_tokens=each)).largest for each in (1.0, accepted))
    assume(one is not None)
    assert one is not None
    assert many is not None
    assert many.batch == one.batch
    assert many.rps_per_instance == pytest.approx(accepted * one.rps_per_instance, rel=1e-14)


# What is not known


def test_a_context_beyond_the_figures_is_refused() -> None:
    decode = {"batch": [1, 21], "context_tokens": [50, 1049], "step_ms": [[10, 12], [20, 52]]}
    problem = refusal(InputError, model(decode=decode, memory=None))
    assert (problem.code, problem.where) == ("length-above-range", "workload")
    assert "1,050 tokens on average" in problem.message
    assert "decode step up to 1,049" in problem.message
    assert "KVCache" not in problem.message
    longer = dataclasses.replace(WORKLOAD, input_tokens=constant(2050.0))
    assert "KVCache size up to 2,050" in refusal(InputError, model(), workload=longer).message
    assert decodes(model(memory=None), workload=longer).batch == 64, "without memory no size is asked for"


def test_sizes_that_are_not_positive_at_the_context_are_refused() -> None:
    data = copy.deepcopy(MODEL) | {"kv_cache": {"lengths_tokens": [1500, 2000], "gib": [0.4, 1.4]}}
    problem = refusal(InputError, model_of(plain_document(data, "m")))
    assert (problem.code, problem.where) == ("negative-size", "model")


def test_hardware_without_decode_figures_is_refused() -> None:
    problem = refusal(InputError, model(decode=None))
    assert (problem.code, problem.where) == ("missing-decode", "model")


# Plans


def scenario(**profile: Any) -> dict[str, Any]:
    data = copy.deepcopy(MODEL)
    data["profiles"][0] |= profile
    return {
        "model": data,
        "workload": {"input_tokens": 1000, "output_tokens": 100},
        "clusters": {"near": {"role": "pd", "hardware": "X", "instances": 8}},
        "slo": {"tokens_per_s": 40},
    }


def fleet(**profile: Any) -> dict[str, Any]:
    data = scenario(**profile)
    near = data["clusters"]["near"]
    del near["instances"]
    data["clusters"] = {"near": near | {"gpus": 16}}
    return data


CROWDED = {"memory": {"usable_gib": 620.9, "weights_gib": 620}}


def test_plans_of_two_pools_decode_what_fits() -> None:
    assert plan(scenario()).decode_batch == 20
    relaxed = plan(scenario(decode={"batch": [1, 19], "step_ms": [26, 44], "accepted_tokens": 1.5}))
    assert relaxed.decode_batch == 12, "37.5 ms a step"
    with pytest.raises(InfeasibleError, match="no batch of m on X fits in memory"):
        plan(scenario(**CROWDED))


def test_plans_of_fleets_decode_what_fits() -> None:
    many, few = plan_fleet(fleet()), plan_fleet(fleet(memory={"usable_gib": 621, "weights_gib": 620}))
    assert many.throughput_rps == pytest.approx(plan(scenario()).throughput_rps, rel=1e-6)
    assert few.throughput_rps < 0.5 * many.throughput_rps, "a batch of 1 instead of 20"


def test_a_fleet_that_cannot_hold_a_batch_says_so() -> None:
    with pytest.raises(InfeasibleError) as caught:
        plan_fleet(fleet(**CROWDED))
    (problem,) = caught.value.problems
    assert problem.code == "memory"
    assert "no batch of m on X fits in memory" in problem.message


def test_a_fleet_whose_contexts_are_not_known_says_so_once() -> None:
    decode = {"batch": [1, 21], "context_tokens": [50, 1049], "step_ms": [[10, 12], [20, 52]]}
    with pytest.raises(InputError) as caught:
        plan_fleet(fleet(decode=decode))
    assert [problem.code for problem in caught.value.problems] == ["length-above-range"]
