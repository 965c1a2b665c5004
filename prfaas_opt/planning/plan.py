"""A plan of two pools from its parts: the decision, its proof, what it serves, costs, and what may go wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, structs

from prfaas_opt import results
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.planning import cost
from prfaas_opt.planning.build import homogeneous_scenario, naive_problem, two_pool_problem
from prfaas_opt.planning.describe import describe
from prfaas_opt.planning.objective import Asked, Served, most_served, served_as_deployed
from prfaas_opt.planning.robustness import DEVIATIONS, NEAR_DEVIATIONS, deviations, failures, what_ifs
from prfaas_opt.planning.split import given, solve
from prfaas_opt.planning.variations import worst_case

if TYPE_CHECKING:
    from prfaas_opt.planning.operating import OperatingPoint
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.scenario import Objective, Policy, Scenario


UnderLoad = Literal["at every load", "at the objective", "neither"]
"""Which latencies with queues a plan tells."""


def planned(
    scenario: Scenario, policy: Policy, sensitivity: bool, objective: Objective | None, robust_share: float | None
) -> results.Plan:
    """The plan of a scenario; the arguments are those of ``api.plan``."""
    plan, deployed, problem, served, asked = _best(scenario, policy, objective, robust_share, "at every load")
    return structs.replace(
        _priced(plan, scenario),
        what_ifs=what_ifs(deployed, problem, served, asked),
        failures=failures(deployed, problem, served, asked),
        sensitivity=deviations(deployed, problem, served, asked, DEVIATIONS if sensitivity else NEAR_DEVIATIONS),
    )


def planned_alone(scenario: Scenario, objective: Objective | None = None) -> results.Plan:
    """The plan of a scenario and its baselines, without what takes plans of other scenarios.

    These are what-ifs, failures, deviations, and the least and the break-even cost over other counts; nor are there
    latencies at other loads.
    """
    return _best(scenario, "threshold", objective, None, "at the objective").plan


class _Best(NamedTuple):
    """A plan, and what its changes are planned from."""

    plan: results.Plan
    deployed: Scenario
    problem: TwoPoolProblem
    served: Served
    asked: Asked


def _best(
    scenario: Scenario, policy: Policy, objective: Objective | None, robust_share: float | None, under_load: UnderLoad
) -> _Best:
    objective = objective or ("goodput" if scenario.service.ttft else "throughput")
    _check_asked(scenario, policy, objective, robust_share)
    asked = Asked(policy, goodput=bool(scenario.service.ttft) and objective != "throughput")
    deployed, chosen = scenario, None
    if objective == "cost":
        cost.require_prices(scenario)
        found = cost.cheapest(scenario)
        if found is None:
            raise _nothing_serves(scenario)
        deployed, chosen = found.scenario, found.decision
    problem = two_pool_problem(deployed)
    robust = None
    if robust_share is not None:
        robust, chosen = _robust(deployed, problem, asked, robust_share)
    best, served = _described(deployed, problem, "prfaas-pd", asked, chosen, under_load)
    baselines, _ = _baselines(scenario, asked, under_load="neither")
    best = with_ratios(best, list(map(measured, baselines)))
    best = structs.replace(best, objective=objective, robust=robust)
    return _Best(best, deployed, problem, served, structs.replace(asked, robust_share=robust_share))


def compared(scenario: Scenario) -> results.Comparison:
    """The plan beside its baselines, each at its own optimum."""
    asked = Asked(goodput=bool(scenario.service.ttft))
    best, _ = _described(scenario, two_pool_problem(scenario), "prfaas-pd", asked)
    baselines, unavailable = _baselines(scenario, asked)
    yardsticks = list(map(measured, baselines))
    return results.Comparison(tuple(beside(each, yardsticks) for each in (best, *baselines)), tuple(unavailable))


def _check_asked(scenario: Scenario, policy: Policy, objective: Objective, robust_share: float | None) -> None:
    problems = []
    where = scenario.origin.where
    if objective == "goodput" and not scenario.service.ttft:
        message = "goodput is the load at which slo.ttft holds, and there is none"
        problems.append(Problem("no-objective", where(("slo", "ttft")), message, "add slo: {ttft: {p90: 7s}}"))
    if policy == "free" and (objective != "throughput" or robust_share is not None):
        message = (
            f"bands of length are planned for throughput, found {objective if objective != 'throughput' else 'robust'}"
        )
        problems.append(Problem("not-supported", "--policy free", message, "leave it out: one threshold is planned"))
    if objective == "cost" and robust_share is not None:
        message = "the robust choice is one of throughput or goodput, found cost"
        problems.append(Problem("not-supported", "--robust", message, "leave one of the two out"))
    if objective == "cost" and scenario.estimator == "mean-length":
        message = "cost needs mean service times, but found estimator mean-length"
        problems.append(Problem("not-supported", where(("estimator",)), message, "write estimator: expected-time"))
    if robust_share is not None and not 0 < robust_share < 1:
        message = f"found {robust_share:g}, expected a share above 0 and below 1"
        problems.append(Problem("out-of-range", "robust_share", message, "write 0.1 for 10 %"))
    if problems:
        raise InputError(problems)


def _nothing_serves(scenario: Scenario) -> InfeasibleError:
    if scenario.service.local_prefill == "on_decode":
        message = "some requests must prefill locally, and the token rate leaves the decode instances no time for it"
        fix = "lower slo.tokens_per_s, give the profile smaller, faster batches, or write local_prefill: dedicated"
        return InfeasibleError(Problem("slo", scenario.origin.where(("slo", "tokens_per_s")), message, fix))
    message = "no split of the pd cluster serves this traffic: without local prefill the link must carry all of it"
    fix = "give the pd cluster one more instance, or the link some bandwidth"
    return InfeasibleError(Problem("split", scenario.origin.where(("links",)), message, fix))


def _described(
    scenario: Scenario,
    problem: TwoPoolProblem,
    name: results.Name,
    asked: Asked,
    chosen: Decision | None = None,
    under_load: UnderLoad = "at every load",
) -> tuple[results.Plan, Served]:
    """A deployment at its optimum, or with a decision that was made otherwise, and what it serves."""
    capacity = solve(problem, asked.policy)
    if capacity is None:
        raise _nothing_serves(scenario)
    decision = chosen or capacity.decision
    if asked.goodput and chosen is None:
        most = most_served(scenario, problem, asked)
        if most is None:
            raise _too_slow(scenario)
        decision = most.decision
    solution = capacity
    if (decision.offloaded, decision.split) != (capacity.decision.offloaded, capacity.decision.split):
        solution = given(problem, decision)
        solution = structs.replace(solution, bound_rps=capacity.bound_rps)
    point = _operating_point(scenario, problem, solution.decision)
    if asked.goodput and point is None:
        raise _too_slow(scenario)
    served_rps = point.rate_rps if asked.goodput and point else None
    described = describe(scenario, problem, solution, name, served_rps)
    described = structs.replace(described, objective="goodput" if asked.goodput else "throughput")
    if under_load != "neither" and scenario.estimator == "expected-time":
        from prfaas_opt.planning.under_load import operating_point, ttft_by_load

        described = structs.replace(
            described,
            operating_point=operating_point(scenario, problem, point, capacity.decision) if point else None,
            ttft_by_load=ttft_by_load(scenario, problem, solution.decision) if under_load == "at every load" else (),
        )
    return described, Served(solution.decision, described.served_rps)


def _operating_point(scenario: Scenario, problem: TwoPoolProblem, decision: Decision) -> OperatingPoint | None:
    """The largest load of a decision at which the TTFT objective holds; None where there is no such load."""
    if not scenario.service.ttft:
        return None
    from prfaas_opt.planning.operating import Latency, OperatingPoint, largest_load

    latency = Latency(scenario, problem).of(decision)
    rate_rps = largest_load(latency, scenario.service.ttft, decision.throughput_rps)
    at_rate = latency.at(rate_rps) if rate_rps > 0 else None
    return None if at_rate is None else OperatingPoint(decision, rate_rps, at_rate)


def _robust(scenario: Scenario, problem: TwoPoolProblem, asked: Asked, share: float) -> tuple[results.Robust, Decision]:
    """The decision with the best worst case, and what it gains there over the one that is best by the figures."""
    worst_scenario, worst_problem = worst_case(scenario, problem, share)
    chosen, nominal = (
        most_served(each, of, asked) for each, of in ((worst_scenario, worst_problem), (scenario, problem))
    )
    if chosen is None or nominal is None:
        raise _too_slow(scenario) if asked.goodput else _nothing_serves(scenario)
    offloaded = nominal.decision.offloaded
    robust = results.Robust(
        off_by_share=share,
        worst_rps=chosen.rate_rps,
        nominal_worst_rps=served_as_deployed(worst_scenario, worst_problem, nominal.decision, asked),
        nominal_rps=served_as_deployed(scenario, problem, nominal.decision, asked),
        nominal_instances=results.Instances(
            scenario.remote.instances if scenario.remote else 0, *problem.roles(nominal.decision.split)
        ),
        nominal_threshold_tokens=nominal.decision.threshold_tokens(problem.lengths) if offloaded else None,
    )
    return robust, chosen.decision


def _baselines(
    scenario: Scenario, asked: Asked, under_load: UnderLoad = "at every load"
) -> tuple[list[results.Plan], list[results.Unavailable]]:
    """The homogeneous cluster and the naive split, where they are possible; and why not."""
    baselines, unavailable = [], []
    try:
        homogeneous = homogeneous_scenario(scenario)
        problem = two_pool_problem(homogeneous)
        baselines.append(_described(homogeneous, problem, "homogeneous-pd", asked, under_load=under_load)[0])
    except (InputError, InfeasibleError) as error:
        unavailable.append(results.Unavailable("homogeneous-pd", error.problems[0].message))
    try:
        naive = naive_problem(scenario)
        if naive is None:
            why = "there is no prefill cluster" if scenario.remote is None else "no request can be kept from decode"
            unavailable.append(results.Unavailable("naive-heterogeneous", why))
        else:
            baselines.append(_described(scenario, naive, "naive-heterogeneous", asked, under_load=under_load)[0])
    except InfeasibleError as error:
        unavailable.append(results.Unavailable("naive-heterogeneous", error.problems[0].message))
    return baselines, unavailable


class Yardstick(Struct, frozen=True):
    """What a baseline serves, and how many requests a dollar buys there; None without prices."""

    name: results.Name
    served_rps: float
    requests_per_usd: float | None


def measured(baseline: results.Plan) -> Yardstick:
    """A baseline's plan as what others are measured by."""
    return Yardstick(
        baseline.name, baseline.served_rps, None if baseline.cost is None else baseline.cost.requests_per_usd
    )


def beside(deployment: results.Plan, yardsticks: Sequence[Yardstick]) -> results.Plan:
    """The deployment with its ratios over the homogeneous cluster, where that is one of the yardsticks."""
    homogeneous = next((each for each in yardsticks if each.name == "homogeneous-pd"), None)
    if homogeneous is None:
        return deployment
    ratio = _ratio(deployment, homogeneous)
    cost = deployment.cost
    if cost is not None:
        cost = structs.replace(cost, ratio=ratio.cost_ratio)
    return structs.replace(deployment, ratio=ratio.ratio, cost=cost)


def with_ratios(deployment: results.Plan, yardsticks: Sequence[Yardstick]) -> results.Plan:
    """The deployment with its ratios over all yardsticks."""
    ratios = tuple(_ratio(deployment, each) for each in yardsticks)
    return structs.replace(beside(deployment, yardsticks), baselines=ratios)


def _ratio(deployment: results.Plan, baseline: Yardstick) -> results.BaselineRatio:
    per_usd = None
    if deployment.cost is not None and baseline.requests_per_usd is not None:
        per_usd = deployment.cost.requests_per_usd / baseline.requests_per_usd
    ratio = deployment.served_rps / baseline.served_rps
    return results.BaselineRatio(baseline.name, baseline.served_rps, ratio, per_usd)


def _priced(best: results.Plan, scenario: Scenario) -> results.Plan:
    """The plan with the least that a request could cost, and the price per GB at which remote prefill stops paying."""
    if best.cost is None or scenario.estimator == "mean-length":
        return best
    at_capacity = dataclasses.replace(scenario, service=structs.replace(scenario.service, ttft=()))
    least = cost.least_usd_per_request(at_capacity)
    priced = structs.replace(
        best.cost,
        least_usd_per_thousand_requests=None if least is None else 1000.0 * least,
        break_even_usd_per_gb=cost.break_even_usd_per_gb(at_capacity),
    )
    return structs.replace(best, cost=priced)


def _too_slow(scenario: Scenario) -> InfeasibleError:
    slos = " and ".join(f"{slo.name} of {slo.limit_s:g} s" for slo in scenario.service.ttft)
    message = f"no threshold and no split holds a TTFT {slos}, not even at the lowest load"
    fix = "allow it more time, or shorten what it waits for: prefill, the round trip, what is sent after prefill"
    return InfeasibleError(Problem("slo", scenario.origin.where(("slo", "ttft")), message, fix))
