"""The load at which the time to first token holds: against trying every split and threshold, and its directions."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

from prfaas_opt import load_scenario, plan
from prfaas_opt.cli import app
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.numerics import first_whole
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.operating import OperatingPoint, best_operating_point
from prfaas_opt.planning.split import solve
from prfaas_opt.results import Plan
from tests.latency_oracle import LatencyOracle, Sent, latency_oracle_of, random_case
from tests.oracle import Points
from tests.scenarios import Spec, case_like

SEARCHED = 2e-3
"""What the search over thresholds may miss, and the oracle's and the planner's tails differ by."""
CONTINUOUS = ("uniform", "truncated-lognormal", "constant")
SEVEN_S = "{p90: 7s}"


@cache
def case_study(**overrides: str) -> Plan:
    """The plan of the paper's case study; ``slo__ttft`` overrides slo.ttft."""
    return plan(load_scenario(overrides={key.replace("__", "."): value for key, value in overrides.items()}))


def point_of(scenario: Spec) -> tuple[OperatingPoint, int] | None:
    """The operating point and its threshold; None where no load holds."""
    loaded = load_scenario(scenario)
    problem = two_pool_problem(loaded)
    point = best_operating_point(loaded, problem)
    return None if point is None else (point, point.decision.threshold_tokens(problem.lengths))


def goodput_rps(scenario: Spec) -> float:
    found = point_of(scenario)
    return 0.0 if found is None else found[0].rate_rps


def some_thresholds(oracle: LatencyOracle) -> list[int]:
    """Every threshold that differs, or every 200th part of them; one where nothing can be offloaded."""
    base = oracle.base
    if not (base.egress_bytes_per_s > 0 and base.remote_instances > 0):
        return [int(base.thresholds[-1])]
    thresholds = base.thresholds[base.occupied]
    if len(thresholds) > 400:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, 200).astype(int)]
    return [int(t) for t in thresholds]


@pytest.mark.parametrize("first_seed", range(0, 60, 15))
def test_no_split_and_no_threshold_serves_more(first_seed: int) -> None:
    binding = 0
    for seed in range(first_seed, first_seed + 15):
        case = random_case(seed, CONTINUOUS)
        if case is None:
            continue
        scenario, oracle = case
        try:
            found = point_of(scenario)
        except InfeasibleError:
            continue
        best, threshold, split = oracle.best(some_thresholds(oracle))
        got = 0.0 if found is None else found[0].rate_rps
        assert got >= best * (1 - SEARCHED), (seed, got, best, threshold, split)
        if found is not None:
            point, at = found
            assert oracle.holds(at, point.decision.split, got * (1 - 1e-9), SEARCHED), seed
            assert point.decision.throughput_rps == pytest.approx(oracle.capacity_rps(at, point.decision.split))
            binding += got < 0.999 * point.decision.throughput_rps
    assert binding > 3


def test_what_is_found_of_few_lengths_and_of_mixtures_holds() -> None:
    looked = 0
    for seed in range(50):
        case = random_case(seed, ("table", "mixture"))
        if case is None:
            continue
        scenario, oracle = case
        try:
            found = point_of(scenario)
        except InfeasibleError:
            continue
        if found is not None:
            looked += 1
            rate = found[0].rate_rps * (1 - 1e-9)
            assert oracle.holds(found[1], found[0].decision.split, rate, SEARCHED), seed
    assert looked > 20


def test_ttft_moves_the_split_of_the_case_study() -> None:
    most, best = case_study(), case_study(slo__ttft=SEVEN_S)
    assert (most.instances.pd_prefill, most.instances.pd_decode) == (3, 5)
    assert (best.instances.pd_prefill, best.instances.pd_decode) == (4, 4)
    point = best.operating_point
    assert point is not None
    capacity = point.largest_capacity
    assert (capacity.instances.pd_prefill, capacity.instances.pd_decode) == (3, 5)
    assert capacity.threshold_tokens == most.threshold_tokens
    assert capacity.capacity_rps == pytest.approx(most.throughput_rps, rel=1e-12)
    assert round(capacity.capacity_rps / best.throughput_rps - 1, 3) == 0.008
    assert best.served_rps == point.rate_rps
    assert capacity.rate_rps < best.served_rps < best.throughput_rps
    assert point.percentiles[0].attained_s == pytest.approx(7.0, rel=1e-9)
    assert point.ttft.p90_s == pytest.approx(7.0, rel=1e-9)
    assert capacity.mean_waits is not None
    for at_most, here in (
        (capacity.mean_waits.prfaas_s, point.ttft.mean_waits.prfaas_s),
        (capacity.mean_waits.pd_prefill_s, point.ttft.mean_waits.pd_prefill_s),
    ):
        assert at_most is not None
        assert here is not None
        assert at_most > here


def test_the_case_study_is_the_best_that_the_oracle_finds() -> None:
    best = case_study(slo__ttft=SEVEN_S)
    oracle = coarse(latency_oracle_of(case_study_like(), nodes=1), 16)
    assert best.threshold_tokens is not None
    assert best.served_rps == pytest.approx(oracle.largest_load(best.threshold_tokens, 4), rel=SEARCHED)
    others = oracle.best([int(t) for t in np.geomspace(15_000, 32_000, 24)])
    assert best.served_rps >= others[0] * (1 - SEARCHED)
    assert others[2] == 4


def case_study_like() -> Spec:
    """The built-in case study with its model and workload written out, and a P90 of 7 s."""
    sizes = {"lengths_tokens": [1024, 8192, 32768, 131072], "mib": [190.8, 308.9, 701.3, 2316.3]}
    lengths = {"distribution": "truncated-lognormal", "mu": 9.9, "sigma": 1.0, "low": 128, "high": 131072}
    times = [0.44, 0.72, 1.84, 7.40]
    quadratic = {"a_s": 0.4691, "b_s_per_token": 1.3004e-4, "c_s_per_token2": 2.94e-10}
    return {
        "model": {
            "kv_cache": sizes,
            "profiles": [
                {"hardware": "H200", "prefill": {"lengths_tokens": sizes["lengths_tokens"], "latency_s": times}},
                {
                    "hardware": "H20",
                    "prefill": {"quadratic": quadratic, "range_tokens": [128, 131072]},
                    "decode": {"batch": 20, "step_s": 0.025},
                },
            ],
        },
        "workload": {"input_tokens": lengths, "output_tokens": 1024},
        "clusters": {
            "prfaas": {"role": "prefill", "hardware": "H200", "instances": 4},
            "pd": {"role": "pd", "hardware": "H20", "instances": 8},
        },
        "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps"}],
        "slo": {"tokens_per_s": 40, "ttft": {"p90": "7s"}},
    }


def coarse(oracle: LatencyOracle, tokens: int) -> LatencyOracle:
    """The same with the lengths of every so many tokens as one, for which it is fast; exact at most thresholds."""
    points = oracle.base.points
    kept = len(points.lengths) // tokens * tokens
    weights = points.probabilities[:kept].reshape(-1, tokens)
    means = (weights * points.lengths[:kept].reshape(-1, tokens)).sum(axis=1) / weights.sum(axis=1)
    merged = Points(means, weights.sum(axis=1) / weights.sum(), points.cells[tokens // 2 : kept : tokens])
    return dataclasses.replace(oracle, base=dataclasses.replace(oracle.base, points=merged))


def test_the_text_says_why_the_largest_capacity_is_not_chosen() -> None:
    result = CliRunner().invoke(app, ["plan", "--set", "slo.ttft={p90: 7s}"], env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "within a TTFT P90 of 7 s" in text.splitlines()[0]
    assert "largest capacity (split 3/5, threshold 19,805: 3.15 req/s, +0.8 %) serves only 2.62 req/s" in text
    assert "its queues are longer" in text
    assert "remote prefill 2.58 s instead of 1.65 s, local prefill 2.28 s instead of 0.77 s" in text


def test_an_impossible_ttft_is_infeasible() -> None:
    with pytest.raises(InfeasibleError) as caught:
        plan(load_scenario(overrides={"slo.ttft": "{p90: 1s}"}))
    assert [problem.code for problem in caught.value.problems] == ["slo"]
    assert "P90 of 1 s" in caught.value.problems[0].message
    result = CliRunner().invoke(app, ["plan", "--set", "slo.ttft={p90: 1s}", "--json"])
    assert result.exit_code == 3
    assert json.loads(result.stdout)["errors"][0]["code"] == "slo"


def test_without_an_objective_times_are_told_by_load_and_rise_with_it() -> None:
    for best in (case_study(), case_study(slo__ttft=SEVEN_S)):
        assert [point.load_share for point in best.ttft_by_load] == [0.7, 0.8, 0.9]
        for point in best.ttft_by_load:
            assert point.rate_rps == pytest.approx(point.load_share * best.throughput_rps)
            assert point.p50_s < point.p90_s < point.p99_s
        for name in ("mean_s", "p50_s", "p90_s", "p99_s"):
            times = [getattr(point, name) for point in best.ttft_by_load]
            assert times == sorted(set(times))
        assert best.ttft_by_load[0].mean_s > best.ttft_s.mean
    assert case_study().operating_point is None


def test_times_by_load_are_those_of_the_oracle() -> None:
    best, oracle = case_study(), coarse(latency_oracle_of(case_study_like(), nodes=1), 8)
    assert best.threshold_tokens is not None
    for point in best.ttft_by_load:
        for quantile, seconds in ((0.5, point.p50_s), (0.9, point.p90_s), (0.99, point.p99_s)):
            args = best.threshold_tokens, best.instances.pd_prefill, point.rate_rps
            assert (
                oracle.share_longer(*args, seconds * 0.997) > 1 - quantile > oracle.share_longer(*args, seconds * 1.003)
            )


def looser(scenario: Spec, rng: np.random.Generator) -> None:
    (percentile, limit), *_ = scenario["slo"]["ttft"].items()
    scenario["slo"]["ttft"][percentile] = f"{float(limit.removesuffix('s')) * rng.uniform(1.01, 2.0)!r}s"


def lower_percentile(scenario: Spec, _rng: np.random.Generator) -> None:
    ((percentile, limit),) = scenario["slo"]["ttft"].items()
    scenario["slo"]["ttft"] = {{"p99": "p95", "p95": "p90", "p90": "p50", "p50": "p50"}[percentile]: limit}


def more_remote(scenario: Spec, _rng: np.random.Generator) -> None:
    scenario["clusters"]["there"]["instances"] += 1


def more_local(scenario: Spec, _rng: np.random.Generator) -> None:
    scenario["clusters"]["here"]["instances"] += 1


def wider(scenario: Spec, rng: np.random.Generator) -> None:
    link = scenario["links"][0]
    link["bandwidth"] = f"{float(link['bandwidth'].removesuffix('Gbps')) * rng.uniform(1.05, 3.0)!r}Gbps"


def steadier(scenario: Spec, rng: np.random.Generator) -> None:
    scenario["arrivals"] = {"cv2": scenario["arrivals"]["cv2"] * rng.uniform(0.0, 0.9)}


def nearer(scenario: Spec, rng: np.random.Generator) -> None:
    link = scenario["links"][0]
    link["rtt"] = f"{float(link['rtt'].removesuffix('ms')) * rng.uniform(0.0, 0.9)!r}ms"


def hidden_by_layer(scenario: Spec, _rng: np.random.Generator) -> None:
    scenario["transfer"]["overlap"] = "layer"


def smaller(scenario: Spec, rng: np.random.Generator) -> None:
    scenario["transfer"]["compression"] = scenario["transfer"]["compression"] * rng.uniform(1.1, 4.0)


def smaller_chunks(scenario: Spec, _rng: np.random.Generator) -> None:
    scenario["transfer"]["chunk_tokens"] = max(scenario["transfer"]["chunk_tokens"] // 3, 1)


BETTER: list[Callable[[Spec, np.random.Generator], None]] = [
    looser,
    lower_percentile,
    more_remote,
    more_local,
    wider,
    steadier,
    nearer,
    hidden_by_layer,
    smaller,
    smaller_chunks,
]


def dialled(seed: int) -> Spec:
    """A scenario of the case study's kind where TTFT binds, with every term that may be made better."""
    rng = np.random.default_rng(seed)
    scenario = case_like(
        mu=rng.uniform(5.5, 7.2),
        sigma=rng.uniform(0.3, 1.1),
        remote=int(rng.integers(1, 5)),
        pd=int(rng.integers(2, 8)),
        gbps=rng.uniform(0.5, 6.0),
        decode_batch=int(rng.integers(20, 120)),
    )
    limit_s = float(np.exp(rng.uniform(math.log(1.5), math.log(12.0))))
    scenario["slo"] = {"ttft": {str(rng.choice(["p50", "p90", "p95", "p99"])): f"{limit_s!r}s"}}
    scenario["arrivals"] = {"cv2": float(rng.uniform(0.2, 4.0))}
    scenario["transfer"] = {
        "overlap": str(rng.choice(["chunk", "none"])),
        "compression": float(rng.uniform(1.0, 2.0)),
        "chunk_tokens": int(rng.integers(50, 1500)),
    }
    scenario["links"][0]["rtt"] = f"{float(rng.uniform(1.0, 200.0))!r}ms"
    return scenario


@cache
def dialled_goodput_rps(seed: int) -> float:
    return goodput_rps(dialled(seed))


@pytest.mark.parametrize("change", BETTER)
def test_better_terms_never_lower_goodput(change: Callable[[Spec, np.random.Generator], None]) -> None:
    raised = 0
    for seed in range(6):
        better = dialled(seed)
        change(better, np.random.default_rng(seed))
        before, after = dialled_goodput_rps(seed), goodput_rps(better)
        assert after >= before * (1 - 1e-3), (seed, before, after)
        raised += after > before * 1.001
    assert raised


def test_goodput_is_at_most_capacity_and_reaches_it_where_time_is_plenty() -> None:
    for seed in range(4):
        scenario = dialled(seed)
        found = point_of(scenario)
        loaded = load_scenario(scenario)
        most = solve(two_pool_problem(loaded))
        assert most is not None
        if found is not None:
            assert found[0].rate_rps <= found[0].decision.throughput_rps * (1 + 1e-12)
            assert found[0].decision.throughput_rps <= most.decision.throughput_rps * (1 + 1e-12)
        scenario["slo"] = {"ttft": {"p50": "3600s"}}
        assert goodput_rps(scenario) == pytest.approx(most.decision.throughput_rps, rel=1e-3), seed
        scenario["slo"] = {"ttft": {"p50": "0.0001s"}}
        assert goodput_rps(scenario) == 0.0


def test_all_percentiles_must_hold() -> None:
    scenario = dialled(1)
    alone = []
    for ttft in ({"p50": "2s"}, {"p99": "9s"}, {"p50": "2s", "p99": "9s"}):
        scenario["slo"] = {"ttft": ttft}
        alone.append(goodput_rps(scenario))
    assert alone[2] <= min(alone[:2]) * 1.001
    assert alone[2] > 0


def test_the_first_whole_number_is_that_of_a_scan() -> None:
    rng = np.random.default_rng(11)
    for _ in range(2000):
        low = int(rng.integers(-5, 50))
        size = int(rng.integers(1, 60))
        jumps = rng.exponential(size=size) ** int(rng.integers(1, 6)) * (rng.random(size) < rng.uniform(0.05, 1.0))
        values = np.cumsum(jumps) - rng.uniform(-0.2, 1.2) * jumps.sum()
        if rng.random() < 0.3:
            values = np.where(values < 0, -1.0, math.inf)
        if rng.random() < 0.2:
            values[: int(rng.integers(size))] = -math.inf
        reached = np.flatnonzero(values >= 0)
        expected = low + (int(reached[0]) if reached.size else size - 1)
        asked: list[int] = []

        def function(x: int, values: np.ndarray = values, low: int = low, asked: list[int] = asked) -> float:
            asked.append(x)
            return float(values[x - low])

        assert first_whole(function, low, low + size - 1) == expected
        assert len(asked) <= 2 + 2 * math.ceil(math.log2(size + 1))


def test_the_first_whole_number_of_a_range_takes_few_looks() -> None:
    for level in (0.5, 3.0, 123456.7, 999_999.5):
        asked: list[int] = []

        def function(x: int, level: float = level, asked: list[int] = asked) -> float:
            asked.append(x)
            return x**5 - level**5

        assert first_whole(function, 0, 10**6) == math.ceil(level)
        assert len(asked) <= 42


def test_no_split_of_the_dialled_scenarios_serves_more() -> None:
    """Where splits are close together, and with all the terms at once."""
    fixed_bytes = (25.0 - 16 * (110.0 - 25.0) / (3000 - 16)) * 2**20
    splits = set()
    for seed in range(14):
        scenario = dialled(seed)
        transfer, rtt = scenario["transfer"], float(scenario["links"][0]["rtt"].removesuffix("ms")) * 1e-3
        sent = Sent(transfer["overlap"], transfer["compression"], transfer["chunk_tokens"], fixed_bytes, rtt)
        oracle = coarse(latency_oracle_of(scenario, sent, nodes=1), 4)
        found = point_of(scenario)
        best, threshold, split = oracle.best([int(t) for t in np.geomspace(16, 3000, 60)])
        got = 0.0 if found is None else found[0].rate_rps
        assert got >= best * (1 - SEARCHED), (seed, got, best, threshold, split)
        if found is not None:
            assert oracle.holds(found[1], found[0].decision.split, got * (1 - 1e-9), 2 * SEARCHED), seed
            splits.add(split)
    assert len(splits) > 2
