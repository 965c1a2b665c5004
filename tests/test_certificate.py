"""The certificate on 5,000 random scenarios of two pools: what it claims, and that it claims it where it should."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prfaas_opt import load_scenario
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.problem import TwoPoolProblem
from prfaas_opt.planning.split import Solution, solve
from tests.scenarios import random_scenario

SCENARIOS = 5_000
GAP = 1e-6
TIE_OF_SHORT_PROMPTS = 1e-4
"""A loss at one token length that only prompts of some hundred tokens have, or a table's."""


def solutions() -> Iterator[tuple[int, TwoPoolProblem, Solution]]:
    for seed in range(700_000, 700_000 + SCENARIOS):
        try:
            problem = two_pool_problem(load_scenario(random_scenario(seed, "expected-time")))
        except InfeasibleError:
            continue
        solution = solve(problem)
        if solution is not None:
            yield seed, problem, solution


def is_threshold_best(problem: TwoPoolProblem, solution: Solution) -> bool | None:
    """Whether, at the plan's prices, offloading stays the cheaper way above a length where it is; None unpriced.

    By values at many lengths, or at those of a table, not by the planner's isolation of roots. A length that costs the
    same in both pools may be shared, which a threshold can do only where it turns; and many such lengths may be routed
    in ways that no threshold is like.
    """
    remote, prices = problem.remote, solution.prices
    if remote is None or prices is None or prices.local_rps <= 0:
        return None
    lengths = np.array(problem.lengths.atom_lengths)
    if problem.lengths.parts:
        between = np.geomspace(problem.lengths.low, problem.lengths.high, 4_000)[1:-1]
        lengths = np.unique(np.r_[lengths, problem.lengths.low, between, problem.lengths.high])
    local = prices.local_rps * problem.local_prefill_s(lengths)
    sent = prices.remote_rps * remote.prefill_s(lengths) + prices.link_rps_per_byte_per_s * remote.kv_bytes(lengths)
    cheaper = np.where(np.abs(local - sent) <= 1e-9 * local, 0.0, np.sign(local - sent))
    return bool((cheaper[1:] >= cheaper[:-1]).all()) and (cheaper == 0.0).sum() <= 1


def test_5000_plans_are_below_their_bounds_and_reach_them_where_offloading_turns_cheaper_once() -> None:
    above, unproven, once, more, gains = [], [], 0, 0, 0
    for seed, problem, solution in solutions():
        rps, bound, prices = solution.decision.throughput_rps, solution.bound_rps, solution.prices
        assert bound is not None
        assert solution.shared_rps is not None
        if rps > bound * (1 + 1e-12):
            above.append(seed)
        best = is_threshold_best(problem, solution)
        # Prices are those of the plan's own split; they tell of the bound where that split has the largest.
        if best is None or prices is None or abs(prices.bound_rps / bound - 1) > 1e-12:
            continue
        gap = 1 - max(rps, solution.shared_rps) / bound
        if best:
            once += 1
            # Requests inside one token are shared at random, not cut by length. That loses to second order, and is
            # seen where prompts are so short that the density or the curves change within a token.
            tie_loss = 1 - rps / solution.shared_rps
            if gap > max(GAP, 0.5 * tie_loss if tie_loss > TIE_OF_SHORT_PROMPTS else 0.0):
                unproven.append((seed, gap))
        else:
            more += 1
            gains += gap > GAP
    assert above == []
    assert unproven == []
    assert once > SCENARIOS / 5
    assert more > SCENARIOS / 50
    assert gains > SCENARIOS / 100
