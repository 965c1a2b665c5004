"""Who may serve which request: contexts, KVCache formats and residency, against trying every threshold and split.

A failure names the seed: ``restricted(seed)`` makes its scenario again.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prfaas_opt import load_scenario
from prfaas_opt.api import check_by_solver, plan, warnings
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.planning.options import SolverOptions
from tests.oracle import points_of
from tests.scenarios import LENGTH_KINDS, case_like, random_scenario
from tests.terms_check import POINTS, solved, wrong_optimum
from tests.terms_oracle import assert_none_wrong, differ, terms_oracle_of


def restricted(seed: int, kinds: tuple[str, ...] = LENGTH_KINDS) -> dict[str, Any]:
    """A random scenario with one restriction or several."""
    scenario = random_scenario(seed, "expected-time", kinds)
    rng = np.random.default_rng(700_000 + seed)
    clusters = {each["role"]: each for each in scenario["clusters"].values()}
    lengths = points_of(scenario["workload"]["input_tokens"], 1).cells + 1
    output = int(points_of(scenario["workload"]["output_tokens"], 1).cells.max()) + 1

    def some_length() -> int:
        return int(rng.integers(max(lengths.min() - 1, 1), lengths.max() + 2))

    if rng.random() < 0.6:
        clusters["pd"]["max_context"] = some_length() + output
    if "prefill" in clusters:
        if rng.random() < 0.6:
            clusters["prefill"]["max_context"] = some_length()
        if rng.random() < 0.6:
            scenario["residency"] = {"stay_share": float(rng.choice([0.0, 0.05, 0.3, 0.9, 1.0, rng.random()]))}
        if rng.random() < 0.15:
            clusters["prefill"]["kv_format"] = "paged-16"
            clusters["pd"]["kv_format"] = str(rng.choice(["Paged-16", "paged-64"]))
    if rng.random() < 0.15:
        scenario["local_prefill"] = "on_decode"
        decode = scenario["model"]["profiles"][0]["decode"]
        if isinstance(decode["batch"], list):
            decode["batch"] = np.cumsum(rng.integers(1, 4, size=len(decode["batch"]))).tolist()
        scenario["slo"] = {key: 0.5 * value for key, value in scenario["slo"].items()}
    return scenario


def wrong_shares(scenario: dict[str, Any]) -> Iterator[str]:
    """Shares, bands, paths and prefill times of the three classes: those that may choose, must stay, fit nowhere."""
    found = solved(scenario)
    if found is None:
        return
    oracle = terms_oracle_of(scenario)
    weights, tokens = oracle.points.probabilities, np.ceil(oracle.points.lengths)
    share = oracle.remote_share_of(found.routing.bands)
    away = float(weights @ share)
    offers_choice = bool((oracle.leaving > 0).any())
    said_and_expected = {
        "unservable": (found.unservable_share, oracle.unservable_share),
        "stay": (found.stay_share, float(weights @ (1.0 - oracle.leaving)) if offers_choice else found.stay_share),
        "offloaded": (found.offload_share, away),
        "mean prefill time": (
            found.ttft_s.mean,
            float(
                weights
                @ (
                    share * oracle.remote_latency_s(oracle.points.lengths)
                    + (1.0 - share) * oracle.local_latency_s(oracle.points.lengths)
                )
            ),
        ),
        "paths": (sum(path.rate_rps for path in found.paths), found.throughput_rps),
        "remote path": (
            sum(path.rate_rps for path in found.paths if path.pool == "prfaas"),
            found.throughput_rps * away,
        ),
    }
    for name, (said, expected) in said_and_expected.items():
        if differ(said, expected):
            yield f"{name} {said!r}, expected {expected!r}"
    bands = found.routing.bands
    if not tokens.min() - 1 <= bands[0].from_tokens <= tokens.min() or bands[-1].to_tokens != tokens.max():
        yield f"{bands} of {tokens.min()} to {tokens.max()}"
    if any(high.from_tokens != low.to_tokens + 1 for low, high in itertools.pairwise(bands)):
        yield f"{bands} leave gaps"
    kinds = {"threshold": 2, "all-local": 1, "all-remote": 1}
    if len(bands) != kinds.get(found.routing.kind, len(bands)):
        yield f"{found.routing.kind}: {bands}"
    if found.routing.kind == "threshold" and found.threshold_tokens != bands[0].to_tokens:
        yield f"threshold {found.threshold_tokens}: {bands}"


def wrong_bound(scenario: dict[str, Any]) -> Iterator[str]:
    """throughput <= best free routing of any split <= bound, which is tight."""
    found = solved(scenario)
    if found is None:
        return
    assert found.bound_rps is not None
    oracle = terms_oracle_of(scenario)
    free = [oracle.free_routing(split) for split in oracle.splits()]
    attained, proven = (max(each[i] for each in free) for i in (0, 1))
    if found.throughput_rps > proven * (1 + 1e-9):
        yield f"throughput {found.throughput_rps!r} above what free routing can: {proven!r}"
    if attained > found.bound_rps * (1 + 1e-9):
        yield f"a free routing attains {attained!r}, above the bound {found.bound_rps!r}"
    if found.bound_rps > proven * (1 + 1e-6):
        yield f"the bound {found.bound_rps!r} is loose: free routing is proven to stay below {proven!r}"


@pytest.mark.parametrize("kind", LENGTH_KINDS)
def test_the_plan_is_the_best_of_all_thresholds_and_splits(kind: str) -> None:
    first = 1000 * LENGTH_KINDS.index(kind)
    assert_none_wrong(wrong_optimum, lambda seed: restricted(seed, (kind,)), range(first, first + 50))


def test_shares_and_bands_are_those_of_the_classes() -> None:
    assert_none_wrong(wrong_shares, restricted, range(10_000, 10_130))


def test_the_bound_is_the_free_routing_optimum() -> None:
    assert_none_wrong(wrong_bound, lambda seed: restricted(seed, POINTS), range(20_000, 20_120))


def test_random_scenarios_cover_every_class() -> None:
    seen: set[str] = set()
    for seed in range(120):
        found = solved(restricted(seed))
        if found is None:
            seen.add("infeasible")
            continue
        seen |= {found.routing.kind, *(band.pool for band in found.routing.bands)}
        seen |= {"unservable"} if found.unservable_share > 0 else set()
        seen |= {"some stay"} if 0 < found.stay_share < 1 else set()
    kinds = {"threshold", "all-local", "all-remote", "bands"}
    assert seen == kinds | {"prfaas", "pd_prefill", "pd_decode", "infeasible", "unservable", "some stay"}


@pytest.mark.parametrize("seed", range(30))
def test_whole_plans_of_restricted_scenarios(seed: int) -> None:
    """Baselines, failures and what-ifs of every class come out, or there is no deployment at all."""
    scenario = restricted(30_000 + seed)
    best = solved(scenario)
    if best is None:
        with pytest.raises(InfeasibleError):
            plan(scenario)
        return
    found = plan(scenario, sensitivity=True)
    assert found.throughput_rps == best.throughput_rps
    assert all(lost.fixed_roles_rps <= lost.resplit_rps for lost in found.failures)


@pytest.mark.parametrize(
    ("residency", "there", "here"), [(0.3, None, None), (0.0, 900, None), (0.2, 1500, None), (0.0, None, 2024)]
)
def test_the_program_of_the_solver_knows_the_classes(residency: float, there: int | None, here: int | None) -> None:
    scenario = case_like() | {"residency": {"stay_share": residency}}
    for name, longest in (("there", there), ("here", here)):
        if longest is not None:
            scenario["clusters"][name]["max_context"] = longest
    best = plan(scenario)
    check = check_by_solver(scenario, best, SolverOptions("HIGHS"))
    assert check.throughput_rps == pytest.approx(terms_oracle_of(scenario).best(), rel=2e-3)
    assert abs(check.relative_difference) <= 1e-6


# Directions


def test_a_longer_context_never_serves_fewer_requests() -> None:
    for seed in range(40):
        scenario = random_scenario(40_000 + seed, "expected-time")
        output = int(points_of(scenario["workload"]["output_tokens"], 1).cells.max()) + 1
        unservable = []
        for longest in (200, 400, 800, 1600, 3200):
            scenario["clusters"]["here"]["max_context"] = longest + output
            found = solved(scenario)
            unservable.append(1.0 if found is None else found.unservable_share)
        if min(unservable) < 1.0:
            assert unservable == sorted(unservable, reverse=True), seed
            assert unservable[-1] == 0.0, seed


def test_a_longer_remote_context_never_lowers_what_any_routing_can() -> None:
    """Of one threshold it may: beyond it all go, where the longest had better stayed."""
    for seed in range(40):
        scenario = random_scenario(50_000 + seed, "expected-time")
        if "there" not in scenario["clusters"]:
            continue
        rates = []
        for longest in (50, 200, 400, 800, 1600, 3200):
            scenario["clusters"]["there"]["max_context"] = longest
            found = solved(scenario)
            rates.append((found.bound_rps or 0.0) if found else 0.0)
        assert all(b >= a * (1 - 1e-6) for a, b in itertools.pairwise(rates)), seed


def test_a_larger_share_that_must_stay_never_raises_what_any_routing_can() -> None:
    """Of one threshold it may, where the shortest had better left."""
    lower = 0
    for seed in range(40):
        scenario = random_scenario(60_000 + seed, "expected-time")
        rates = []
        for share in (0.0, 0.1, 0.4, 0.8, 1.0):
            found = solved(scenario | {"residency": {"stay_share": share}})
            rates.append((found.bound_rps or 0.0) if found else 0.0)
        assert all(b <= a * (1 + 1e-6) for a, b in itertools.pairwise(rates)), seed
        lower += rates[-1] < rates[0]
    assert lower > 10


def test_where_a_threshold_is_best_a_larger_share_that_must_stay_never_raises_throughput() -> None:
    rates = [plan(case_like() | {"residency": {"stay_share": i / 10}}).throughput_rps for i in range(11)]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(rates))
    assert rates[-1] < 0.9 * rates[0]


# By hand


def three_lengths() -> dict[str, Any]:
    """A third each has 100, 200 and 300 tokens: 1, 2 and 4 s here, 1 s there; the output has 10."""
    scenario = case_like(remote=1, pd=3, gbps=1000)
    remote, local = scenario["model"]["profiles"]
    remote["prefill"] = {"lengths_tokens": [100, 300], "latency_s": [1.0, 1.0]}
    local["prefill"] = {"lengths_tokens": [100, 200, 300], "latency_s": [1.0, 2.0, 4.0]}
    local["decode"] = {"batch": 100, "step_s": 0.01}
    lengths = {"distribution": "table", "lengths": [100, 200, 300], "weights": [1, 1, 1]}
    scenario["workload"] = {"input_tokens": lengths, "output_tokens": 10}
    return scenario


def test_a_prompt_and_its_output_must_fit_where_it_decodes() -> None:
    scenario = three_lengths()
    scenario["clusters"]["here"]["max_context"] = 310
    assert plan(scenario).unservable_share == 0
    scenario["clusters"]["here"]["max_context"] = 309
    found = plan(scenario)
    assert found.unservable_share == pytest.approx(1 / 3, rel=1e-14)
    # Half 100, half 200 tokens: 2 instances take 1.5 s a request, or one keeps 100 and sends 200.
    assert found.throughput_rps == pytest.approx(2.0)
    assert found.routing.bands[-1].to_tokens == 200


def test_a_remote_cluster_takes_the_prompts_that_fit_it_alone() -> None:
    scenario = three_lengths()
    scenario["clusters"]["there"]["max_context"] = 299
    found = plan(scenario)
    assert found.stay_share == pytest.approx(1 / 3, rel=1e-14)
    assert found.unservable_share == 0
    # 300 stays: 4/3 s of local prefill, 1.5 req/s with 2 instances; 100 and 200 offloaded take 2/3 s there.
    assert found.throughput_rps == pytest.approx(1.5)
    assert found.routing.bands[-1].pool == "pd_prefill"
    assert found.routing.bands[-1].to_tokens == 300


def test_no_request_that_fits_is_an_error_that_says_so() -> None:
    scenario = three_lengths()
    scenario["clusters"]["here"]["max_context"] = 109
    with pytest.raises(InfeasibleError, match="no request fits"):
        plan(scenario)


def test_formats_that_do_not_match_leave_the_pd_cluster_alone() -> None:
    scenario = three_lengths()
    alone = copy.deepcopy(scenario)
    del alone["clusters"]["there"], alone["links"]
    scenario["clusters"]["there"]["kv_format"] = "fp8-paged"
    assert plan(scenario).throughput_rps > plan(alone).throughput_rps
    scenario["clusters"]["here"]["kv_format"] = "bf16"
    found = plan(scenario)
    assert found.routing.kind == "all-local"
    assert found.throughput_rps == plan(alone).throughput_rps
    assert any("formats of KVCache do not match" in note for note in warnings(load_scenario(scenario)))


@pytest.mark.parametrize(
    "change",
    [
        {"residency": {"stay_share": 0.5}},
        {"local_prefill": "on_decode"},
    ],
)
def test_the_paper_s_estimator_knows_no_such_requests(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="mean-length"):
        plan(three_lengths() | change | {"estimator": "mean-length"})
