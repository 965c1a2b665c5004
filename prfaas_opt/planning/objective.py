"""What a deployment serves: its capacity, or the load at which its time to first token holds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.problem import OnDecodeProblem
from prfaas_opt.planning.split import solve

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.scenario import Policy, Scenario


class Asked(Struct, frozen=True):
    """What is to be largest.

    Attributes:
        policy: which routings are looked at.
        goodput: the load at which the scenario's TTFT holds; else the capacity.
        robust_share: decide for the worst case of latencies and bandwidth off by this share; None: for the figures.
    """

    policy: Policy = "threshold"
    goodput: bool = False
    robust_share: float | None = None


class Served(Struct, frozen=True):
    """A decision and the rate it serves, requests/s."""

    decision: Decision
    rate_rps: float


def most_served(scenario: Scenario, problem: TwoPoolProblem, asked: Asked) -> Served | None:
    """The decision that serves most, or does in the worst case, and what it serves; None where none serves anything."""
    if asked.robust_share is not None:
        from prfaas_opt.planning.variations import worst_case

        worst_scenario, worst = worst_case(scenario, problem, asked.robust_share)
        chosen = most_served(worst_scenario, worst, structs.replace(asked, robust_share=None))
        if chosen is None:
            return None
        return Served(chosen.decision, served_as_deployed(scenario, problem, chosen.decision, asked))
    if asked.goodput:
        from prfaas_opt.planning.operating import best_operating_point

        point = best_operating_point(scenario, problem)
        return None if point is None else Served(point.decision, point.rate_rps)
    solution = solve(problem, asked.policy, prove=False)
    return None if solution is None else Served(solution.decision, solution.decision.throughput_rps)


def served_as_deployed(scenario: Scenario, problem: TwoPoolProblem, decision: Decision, asked: Asked) -> float:
    """What a decision serves in a problem other than the one it was made for, requests/s."""
    if isinstance(problem, OnDecodeProblem) and decision.split not in problem.at_batch:
        decision = structs.replace(decision, split=max(problem.at_batch))
    capacity_rps = evaluate(problem, decision, problem.estimator).throughput_rps
    if not asked.goodput:
        return capacity_rps
    from prfaas_opt.planning.operating import Latency, largest_load

    return largest_load(Latency(scenario, problem).of(decision), scenario.service.ttft, capacity_rps)


def most_served_by(scenario: Scenario, asked: Asked, split: int | None = None) -> Served | None:
    """The decision that serves most in a scenario, with its roles fixed or not; None where none serves anything.

    Args:
        scenario: what is planned.
        asked: what is to be largest.
        split: the only split to look at; None looks at all.
    """
    try:
        problem = two_pool_problem(scenario)
    except (InputError, InfeasibleError):
        return None
    if split is not None and not isinstance(problem, OnDecodeProblem):
        if split not in problem.splits:
            return None
        problem = dataclasses.replace(problem, splits=range(split, split + 1))
    return most_served(scenario, problem, asked)
