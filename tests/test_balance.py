"""Prices by Newton's method: proven by the routing they lead to, and by differences of what they cost."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from prfaas_opt import load_scenario
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.planning.balance import Balance, Costs
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.certificate import CheapestRouting, PrefillBound
from prfaas_opt.planning.problem import LocalLimit, RemotePool, TwoPoolProblem
from prfaas_opt.planning.threshold import search
from tests.scenarios import random_scenario

CONTINUOUS = ("truncated-lognormal", "uniform")
Case = tuple[TwoPoolProblem, RemotePool, CheapestRouting, LocalLimit]


def cases(count: int, kinds: tuple[str, ...]) -> Iterator[Case]:
    """Random scenarios, half of the PD cluster prefilling; the link takes a length of the middle as compute does."""
    found = 0
    for seed in itertools.count(4_200_000):
        try:
            problem = two_pool_problem(load_scenario(random_scenario(seed, "expected-time", kinds)))
        except InfeasibleError:
            continue
        pool, split = problem.remote, problem.pd_instances // 2
        if pool is None or split == 0:
            continue
        length = middle(problem)
        egress = float(pool.usable_instances * pool.kv_bytes(length) / pool.prefill_s(length))
        remote = dataclasses.replace(pool, egress_bytes_per_s=egress)
        problem = dataclasses.replace(problem, remote=remote)
        yield problem, remote, CheapestRouting(problem, remote), problem.local_limits(split)[0]
        found += 1
        if found == count:
            return


def middle(problem: TwoPoolProblem) -> float:
    """A length between the shortest and the longest."""
    return math.sqrt(problem.lengths.low * problem.lengths.high)


def cost_and_most_load(case: Case, costs: Costs) -> tuple[float, float, float]:
    """What requests cost at least, all capacity costing 1; the load of the busiest limit; what quadrature may miss."""
    problem, remote, _, limit = case
    ((_, density),) = problem.lengths.parts
    ends = np.geomspace(problem.lengths.low, problem.lengths.high, 100_001)
    share, lengths = density.moments(0.0, ends[:-1], ends[1:]), np.sqrt(ends[1:] * ends[:-1])
    loads_s = np.array(
        [
            remote.prefill_s(lengths) / remote.usable_instances,
            remote.kv_bytes(lengths) / remote.egress_bytes_per_s,
            problem.local_prefill_s(lengths) / limit.usable_instances,
        ]
    )
    capacities = remote.usable_instances, remote.egress_bytes_per_s, limit.usable_instances
    weights = np.array([costs.remote, costs.link, costs.local]) * capacities
    weights /= weights.sum()
    away = weights[:2] @ loads_s[:2] < weights[2] * loads_s[2]
    total = (loads_s * [away, away, ~away]) @ share
    (turns,) = np.nonzero(away[1:] != away[:-1])
    missed = sum((loads_s[:, cells] * share[cells]).max() for cells in (turns, turns + 1) if len(turns))
    return float(weights @ total), float(total.max()), len(turns) * float(missed)


def indifferent_price(case: Case, link_share: float) -> float:
    """The local price at which a length of the middle costs the same in either pool, the remote side costing 1."""
    problem, remote, _, _ = case
    length = middle(problem)
    compute_s = remote.prefill_s(length) / remote.usable_instances
    link_s = remote.kv_bytes(length) / remote.egress_bytes_per_s
    return float(((1.0 - link_share) * compute_s + link_share * link_s) / problem.local_prefill_s(length))


def test_no_limit_is_busier_than_the_cost_of_the_cheapest_routing() -> None:
    """By weak duality nothing can be carried at less load than that cost; this routing comes as near."""
    priced, found = set(), 0
    for case in cases(150, CONTINUOUS):
        costs = Balance(*case).costs(0.5, indifferent_price(case, 0.5))
        if costs is None:
            continue
        found += 1
        cost, most, missed = cost_and_most_load(case, costs)
        assert most == pytest.approx(cost, rel=1e-6, abs=missed)
        priced.add(tuple(price > 0 for price in costs))
    assert found > 110
    assert priced >= {(True, True, True), (True, True, False), (False, True, True)}


def differences(found: Balance, weights: NDArray[np.float64], step: float = 1e-6) -> NDArray[np.float64]:
    """How fast the gradient falls by each weight."""
    low, high = (
        np.array(
            [found._at((weights[0] + x, weights[1] + y)).gradient for x, y in ((sign * step, 0), (0, sign * step))]
        )
        for sign in (-1, 1)
    )
    falls: NDArray[np.float64] = (low - high) / (2 * step)
    return falls


def test_curvature_is_that_of_differences() -> None:
    """But where a step makes a range of offloaded lengths appear or vanish."""
    near, turning = 0, 0
    for case in cases(60, CONTINUOUS):
        found = Balance(*case)
        local = indifferent_price(case, 0.6) * case[3].usable_instances
        weights = np.array([0.4, 0.6]) / (1.0 + local)
        first, mixed, second = found._curvature(found._at((weights[0], weights[1])))
        seen = differences(found, weights)
        if seen.any():
            turning += 1
            stated = np.array([[first, mixed], [mixed, second]])
            near += bool(np.allclose(stated, seen, rtol=0.0, atol=1e-3 * np.abs(seen).max()))
    assert turning > 40
    assert near > 0.9 * turning


def test_single_lengths_of_many_requests_are_left_to_the_other_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: no routing is tried for them."""
    (case,) = cases(1, ("table",))
    monkeypatch.setattr(Balance, "_at", lambda *_: pytest.fail("a routing was tried"))
    assert Balance(*case).costs(0.5, indifferent_price(case, 0.5)) is None


def test_the_other_method_finds_the_same_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    newton, compared = Balance.costs, 0
    for problem, _, _, limit in cases(150, CONTINUOUS):
        split = round(limit.usable_instances / problem.pd_ceiling)
        best = search(problem).best(split)
        bounds = []
        for costs in (newton, lambda *_: None):
            monkeypatch.setattr(Balance, "costs", costs)
            bounds.append(PrefillBound(problem).of(split, best).bound_rps)
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-10)
        compared += bounds[0] * best.shared_load_s > 1 + 1e-6
    assert compared > 15
