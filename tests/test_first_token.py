"""Time to first token under load: against sampling, closed forms, hand-computed numbers and sums over every length."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from prfaas_opt import load_scenario
from prfaas_opt.latency.first_token import Cells, Chain, Class, FirstToken, Queue, Sending, TtftAtLoad
from prfaas_opt.latency.queueing import Wait
from prfaas_opt.latency.ttft import LatencyBand, Ttft
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.operating import Latency
from prfaas_opt.planning.problem import Decision
from prfaas_opt.profiles.curve import linear, log_log, table_curve
from prfaas_opt.terms import Overlap, Transfer
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution, constant, mixture, table
from tests.latency_oracle import LatencyOracle, Sent, latency_oracle_of, random_case, wait_tail
from tests.scenarios import Spec, case_like

SAMPLES = 400_000
SECONDS = table_curve([1, 100, 10_000], [0.5, 1.0, 20.0], log_log)
SIZES = table_curve([1, 10_000], [1e6, 1e9], linear, "size")
IDLE = Queue(1, 0.0, 0.0)
SOME_LENGTHS = {
    "log-normal": LengthDistribution(((1.0, TruncatedLognormal(6.0, 1.0, 10.0, 9000.0)),)),
    "uniform": LengthDistribution(((1.0, Uniform(10.0, 9000.0)),)),
    "constant": constant(700.0),
    "table": table([(float(x), 1.0 + x % 7) for x in range(50, 9000, 97)]),
    "mixture": mixture(
        [
            (1.0, LengthDistribution(((1.0, Uniform(10.0, 500.0)),))),
            (2.0, LengthDistribution(((1.0, TruncatedLognormal(7.0, 0.5, 300.0, 9000.0)),))),
            (0.5, table([(40.0, 1.0), (4000.0, 2.0), (9500.0, 0.1)])),
        ]
    ),
}


def at_load(scenario: Spec, threshold: int, split: int, rate: float) -> TtftAtLoad | None:
    loaded = load_scenario(scenario)
    problem = two_pool_problem(loaded)
    return Latency(loaded, problem).of(Decision.at_threshold(problem.lengths, threshold, split)).at(rate)


def alone(length: float, queue: Queue, decode: Queue = IDLE) -> FirstToken:
    """A deployment that serves one length in one pool."""
    return FirstToken((Class(1.0, queue, (Chain((1.0,), (length,)),), SECONDS),), decode)


def sampled_s(oracle: LatencyOracle, threshold: int, split: int, rate: float, seed: int) -> np.ndarray:
    """Times to first token, drawn one by one: a length, its pool, its wait there, and one for a decode slot."""
    rng = np.random.default_rng(seed)
    points = oracle.base.points
    drawn = rng.choice(len(points.lengths), SAMPLES, p=points.probabilities / points.probabilities.sum())
    to_remote, to_local, decode, stretch = oracle._waits(threshold, split, rate)
    assert to_remote is not None
    assert to_local is not None
    assert decode is not None
    local_s, remote_s, size = oracle._curves
    remote = points.cells[drawn] >= threshold
    own = np.where(
        remote,
        remote_s[drawn] + oracle._unhidden_s(remote_s[drawn], size[drawn], points.lengths[drawn], stretch),
        local_s[drawn],
    )

    def waits(wait: Wait) -> np.ndarray:
        mean = wait.mean_s / wait.delayed_share if wait.delayed_share else 0.0
        delayed: np.ndarray = rng.random(SAMPLES) < wait.delayed_share
        return delayed * rng.exponential(mean, SAMPLES)

    times: np.ndarray = own + np.where(remote, waits(to_remote), waits(to_local)) + waits(decode)
    return times


@pytest.mark.parametrize("load", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("overlap", ["layer", "chunk", "none"])
def test_quantiles_and_mean_are_those_of_samples(overlap: Overlap, load: float) -> None:
    scenario = case_like(gbps=2.0) | {"transfer": {"overlap": overlap, "chunk_tokens": 256}, "arrivals": {"cv2": 1.6}}
    scenario["links"][0] |= {"rtt": "50ms", "request_cap": "1Gbps"}
    oracle = latency_oracle_of(scenario, Sent(overlap, 1.0, 256.0, 0.0, 0.05, 1.25e8))
    rate = load * oracle.capacity_rps(900, 3)
    found = at_load(scenario, 900, 3, rate)
    assert found is not None
    times = sampled_s(oracle, 900, 3, rate, seed=int(100 * load))
    error = 4 * float(times.std()) / math.sqrt(SAMPLES)
    assert found.mean_s == pytest.approx(float(times.mean()), abs=error + 0.001 * found.mean_s)
    for quantile in (0.5, 0.9, 0.99):
        later = float((times > found.quantile_s(quantile)).mean())
        error = 4 * math.sqrt(quantile * (1 - quantile) / SAMPLES)
        assert later == pytest.approx(1 - quantile, abs=error + 0.003 * (1 - quantile)), quantile


def test_quantiles_of_random_scenarios_are_those_of_sums_over_every_length() -> None:
    looked = 0
    for seed in range(150):
        case = random_case(seed, ("uniform", "constant", "table"))
        if case is None:
            continue
        scenario, oracle = case
        rng = np.random.default_rng(seed)
        thresholds = oracle.base.thresholds
        can_offload = oracle.base.egress_bytes_per_s > 0
        threshold = int(rng.choice(thresholds)) if can_offload else int(thresholds[-1])
        split = int(rng.integers(oracle.base.pd_instances))
        capacity = oracle.capacity_rps(threshold, split)
        found = at_load(scenario, threshold, split, capacity * rng.uniform(0.1, 0.97)) if capacity > 0 else None
        if found is None:
            continue
        looked += 1
        for quantile in (0.5, 0.9, 0.99):
            seconds = found.quantile_s(quantile)
            # Beyond a quantile by 0.3 % fewer are late, before it more: where lengths are few, both may be far away.
            args = threshold, split, found.rate_rps
            late = [oracle.share_longer(*args, seconds * factor) for factor in (0.997, 1.003)]
            assert late[0] >= 1 - quantile - 1e-9, (seed, quantile)
            assert late[1] <= 1 - quantile + 1e-9, (seed, quantile)
    assert looked > 60


def test_one_length_waits_as_in_m_m_c() -> None:
    # Three servers at two Erlangs: 4/9 wait, on average 2 s / (3 * (1 - 2/3)) = 2 s.
    at = alone(100.0, Queue(3, 2.0, 1.0)).at(1.0)
    assert at is not None
    assert at.mean_s == pytest.approx(1.0 + 4 / 9 * 2.0)
    assert at.quantile_s(0.5) == pytest.approx(1.0)
    assert at.quantile_s(0.9) == pytest.approx(1.0 + 2.0 * math.log(4 / 9 / 0.1))
    assert at.quantile_s(0.99) == pytest.approx(1.0 + 2.0 * math.log(4 / 9 / 0.01))
    assert at.share_longer(3.0) == pytest.approx(4 / 9 * math.exp(-1))
    assert at.share_longer(0.999) == 1.0


def test_prefill_and_decode_waits_add_up_to_a_hypoexponential() -> None:
    # M/M/1 at rates 2 and 4 of its waits: both delayed 1/2, a sum of independent halves.
    at = alone(100.0, Queue(1, 0.25, 1.0), Queue(1, 0.125, 1.0)).at(2.0)
    assert at is not None
    first, second = 1 / 0.25 - 2.0, 1 / 0.125 - 2.0
    assert at.mean_s == pytest.approx(1.0 + 0.5 / first + 0.25 / second)
    for y in (0.0, 0.1, 1.0, 5.0):
        a, b = 0.5, 0.25
        both = a * b * (second * math.exp(-first * y) - first * math.exp(-second * y)) / (second - first)
        expected = both + a * (1 - b) * math.exp(-first * y) + b * (1 - a) * math.exp(-second * y)
        assert at.share_longer(1.0 + y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-7, 1e-5, -1e-7])
def test_equal_waits_add_up_to_an_erlang(apart: float) -> None:
    at = alone(100.0, Queue(1, 0.25, 1.0), Queue(1, 0.25 * (1 + apart), 1.0)).at(2.0)
    assert at is not None
    for y in (0.0, 0.1, 1.0, 5.0):
        expected = 0.25 * (1 + 2 * y) * math.exp(-2 * y) + 0.5 * math.exp(-2 * y)
        assert at.share_longer(1.0 + y) == pytest.approx(expected, rel=2e-5 + 20 * abs(apart))


@pytest.mark.parametrize("name", SOME_LENGTHS)
@pytest.mark.parametrize("threshold", [45.0, 701.0, 3000.0])
def test_without_load_it_is_prefill_alone(name: str, threshold: float) -> None:
    lengths = SOME_LENGTHS[name]
    cells = Cells(lengths)
    fast = table_curve([1, 10_000], [0.3, 3.0], log_log)
    parts = [(0.0, threshold, SECONDS), (threshold, math.inf, fast)]
    classes = tuple(
        Class(1.0, Queue(2, 1.0, 1.0), tuple(cells.chains(low, high)), curve)
        for low, high, curve in parts
        if cells.chains(low, high)
    )
    at = FirstToken(classes, IDLE).at(0.0)
    assert at is not None
    alone_s = Ttft(lengths, [LatencyBand(*each) for each in parts])
    assert at.mean_s == pytest.approx(alone_s.mean_s, rel=2e-3)
    for quantile in (0.5, 0.9, 0.99):
        assert at.quantile_s(quantile) == pytest.approx(alone_s.quantile_s(quantile), rel=3e-3)


@pytest.mark.parametrize("name", SOME_LENGTHS)
def test_cells_of_any_range_have_its_probability(name: str) -> None:
    lengths = SOME_LENGTHS[name]
    cells, rng = Cells(lengths), np.random.default_rng(3)
    for _ in range(200):
        low, high = sorted(rng.uniform(0.0, 11_000.0, 2).round(int(rng.integers(0, 3))).tolist())
        chains = cells.chains(low, high)
        assert math.fsum(w for chain in chains for w in chain.weights) == pytest.approx(
            lengths.share_above(low) - lengths.share_above(high), abs=1e-12
        )
        assert all(low <= x <= high for chain in chains for x in chain.lengths)
        assert all(len(c.lengths) in (1, len(c.weights) + 1) for c in chains)
    everything = cells.chains(0.0, math.inf)
    assert math.fsum(w for chain in everything for w in chain.weights) == pytest.approx(1.0, abs=1e-12)


def test_a_single_length_at_a_cut_is_kept() -> None:
    cells = Cells(constant(700.0))
    assert cells.chains(0.0, 700.0) == [Chain((1.0,), (700.0,))]
    assert cells.chains(700.0, math.inf) == []


def sending(overlap: Overlap, chunk_tokens: int = 8192, rtt_s: float = 0.0) -> Sending:
    """1 MB/s alone on a link of 4 MB/s."""
    return Sending(4e6, 1e6, rtt_s, Transfer(overlap=overlap, chunk_tokens=chunk_tokens), 1e6)


def test_what_a_transfer_adds_by_overlap() -> None:
    # 6 MB take 6 s, stretched by 1.5 9 s; prefill takes 4 s.
    for stretch, layer, none in ((1.0, 2.0, 6.0), (1.5, 5.0, 9.0), (0.5, 0.0, 3.0)):
        assert sending("layer").unhidden_s(4.0, 6e6, 1000.0, stretch) == pytest.approx(layer)
        assert sending("none").unhidden_s(4.0, 6e6, 1000.0, stretch) == pytest.approx(none)
        assert sending("layer", rtt_s=0.25).unhidden_s(4.0, 6e6, 1000.0, stretch) == pytest.approx(layer + 0.25)
        assert sending("none", rtt_s=0.25).unhidden_s(4.0, 6e6, 1000.0, stretch) == pytest.approx(none + 0.25)


def test_the_last_chunk_hides_nothing_and_the_others_the_prefill_before_it() -> None:
    # The last of four chunks sends a quarter of 6 MB. A fast link waits for it alone: 1.5 s of 6 s. Prefill of 4 s is
    # 3 s old when the last chunk starts: a slow link, 6 s, is not through with the others, and ends 6 - 3 s late.
    assert sending("chunk", 250).unhidden_s(8.0, 6e6, 1000.0, 1.0) == pytest.approx(1.5)
    assert sending("chunk", 250).unhidden_s(4.0, 6e6, 1000.0, 1.0) == pytest.approx(3.0)
    assert sending("chunk", 250, 0.1).unhidden_s(4.0, 6e6, 1000.0, 2.0) == pytest.approx(9.1)
    # A prompt of a chunk at most: as after prefill.
    for tokens in (250.0, 100.0):
        assert sending("chunk", 250).unhidden_s(4.0, 6e6, tokens, 1.0) == pytest.approx(6.0)


def test_transfers_share_the_link() -> None:
    # R = 4 at a time; half the link is taken at 2 req/s of 1 MB. C(4, 2) = 4/23, so 1 + 4/23 / (4 * 0.5) = 1 + 2/23.
    assert sending("none").stretch(0.0) == 1.0
    assert sending("none").stretch(2.0) == pytest.approx(1 + 2 / 23)
    assert sending("none").stretch(4.0) == math.inf
    chains = (Chain((1.0,), (100.0,)),)
    sent = Class(1.0, Queue(9, 0.0, 0.0), chains, SECONDS, SIZES, sending("none"))
    at = FirstToken((sent,), IDLE).at(2.0)
    assert at is not None
    assert at.quantile_s(0.5) == pytest.approx(1.0 + SIZES(100) / 1e6 * (1 + 2 / 23))
    assert FirstToken((sent,), IDLE).at(4.0) is None


def test_queues_without_an_end_have_no_time() -> None:
    assert alone(100.0, Queue(2, 1.0, 0.0)).at(2.0) is None
    assert alone(100.0, Queue(0, 1.0, 0.0)).at(0.1) is None
    assert alone(100.0, Queue(2, 1.0, 0.0), Queue(5, 10.0, 1.0)).at(0.5) is None
    assert alone(100.0, Queue(2, 1.0, 0.0), Queue(5, 10.0, 1.0)).at(0.49) is not None


def test_classes_are_mixed_by_their_shares_and_arrive_thinned() -> None:
    chains = [Chain((0.25,), (100.0,)), Chain((0.75,), (10_000.0,))]
    queues = Queue(1, 1.0, 1.0), Queue(40, 1.0, 1.0)
    classes = tuple(Class(c.weights[0], q, (c,), SECONDS) for c, q in zip(chains, queues, strict=True))
    at = FirstToken(classes, IDLE, arrival_cv2=5.0).at(2.0)
    assert at is not None
    # The short ones are a quarter: cv2 of 1 + (5 - 1) / 4 = 2 at 0.5 req/s.
    assert at.waits[0] == Queue(1, 1.0, 1.0).wait(0.5, 2.0)
    assert at.waits[1] == Queue(40, 1.0, 1.0).wait(1.5, 4.0)
    assert at.share_longer(15.0) == pytest.approx(0.75 + 0.25 * at.waits[0].share_longer(14.0), rel=1e-9)


def test_no_time_falls_with_load() -> None:
    rng = np.random.default_rng(8)
    for _ in range(150):
        servers, cv2, arrivals = (
            int(rng.integers(1, 30)),
            rng.choice([0.0, 0.3, 1.0, 2.5]),
            rng.choice([0.0, 0.4, 1, 6]),
        )
        slots = Queue(int(rng.integers(1, 200)), 5.0, float(cv2))
        chain = Chain((0.5, 0.5), (10.0, 1000.0, 9000.0))
        one = FirstToken((Class(1.0, Queue(servers, 4.0, float(cv2)), (chain,), SECONDS),), slots, float(arrivals))
        most = min(servers / 4.0, slots.servers / 5.0)
        points = [one.at(float(most * load)) for load in (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97)]
        for seconds in (0.6, 2.0, 10.0, 18.0, 25.0, 60.0):
            shares = [at.share_longer(seconds) for at in points if at]
            assert all(b >= a - 1e-12 for a, b in itertools.pairwise(shares)), (servers, cv2, arrivals)


def test_the_oracle_adds_waits_as_sampling_does() -> None:
    rng = np.random.default_rng(5)
    for first, second in (
        (Wait(0.6, 1.2), Wait(0.3, 0.1)),
        (Wait(0.5, 0.5), Wait(0.5, 0.5)),
        (Wait(0.1, 0.1), Wait(0.9, 5.0)),
        (Wait(0.0, 0.0), Wait(0.4, 1.0)),
        (Wait(0.4, 1.0), Wait(0.0, 0.0)),
    ):
        total = np.zeros(SAMPLES)
        for wait in (first, second):
            if wait.delayed_share:
                drawn = rng.exponential(wait.mean_s / wait.delayed_share, SAMPLES)
                total += (rng.random(SAMPLES) < wait.delayed_share) * drawn
        y = np.array([-1.0, 0.0, 0.2, 1.0, 4.0])
        expected = np.array([(total > each).mean() for each in y])
        assert np.abs(wait_tail(first, second, y) - expected).max() < 4 * 0.5 / math.sqrt(SAMPLES)
