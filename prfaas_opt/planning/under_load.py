"""The time to first token of a plan under load, as results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt import results
from prfaas_opt.planning.describe import utilization_at
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.objective import Asked, served_as_deployed
from prfaas_opt.planning.operating import Latency

if TYPE_CHECKING:
    from prfaas_opt.latency.first_token import TtftAtLoad
    from prfaas_opt.planning.operating import OperatingPoint
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.scenario import Scenario

LOADS = (0.7, 0.8, 0.9)
"""Shares of capacity at which the time to first token is told."""


def ttft_by_load(scenario: Scenario, problem: TwoPoolProblem, decision: Decision) -> tuple[results.TtftAtLoad, ...]:
    """The time to first token at some shares of a decision's capacity; none where a queue has no end there."""
    latency = Latency(scenario, problem).of(decision)
    points = [(share, latency.at(share * decision.throughput_rps)) for share in LOADS]
    return tuple(_at_load(at_rate, share) for share, at_rate in points if at_rate is not None)


def operating_point(
    scenario: Scenario, problem: TwoPoolProblem, point: OperatingPoint, most: Decision
) -> results.OperatingPoint:
    """The load that a plan serves within its percentiles, beside what the decision of largest capacity would.

    Args:
        scenario, problem: what is planned.
        point: what was found.
        most: the decision of largest capacity.
    """
    rates = evaluate(problem, point.decision, problem.estimator)
    at_same_rate = Latency(scenario, problem).of(most).at(point.rate_rps)
    remote = scenario.remote.instances if scenario.remote else 0
    threshold = most.threshold_tokens(problem.lengths) if most.offloaded else None
    return results.OperatingPoint(
        rate_rps=point.rate_rps,
        percentiles=tuple(
            results.Percentile(slo.name, slo.limit_s, point.at_rate.quantile_s(slo.quantile))
            for slo in scenario.service.ttft
        ),
        ttft=_at_load(point.at_rate, point.rate_rps / rates.throughput_rps),
        utilization=utilization_at(scenario, problem, point.decision, rates, point.rate_rps),
        largest_capacity=results.CapacityChoice(
            instances=results.Instances(remote, *problem.roles(most.split)),
            threshold_tokens=threshold,
            capacity_rps=most.throughput_rps,
            rate_rps=served_as_deployed(scenario, problem, most, Asked(goodput=True)),
            mean_waits=None if at_same_rate is None else _waits(at_same_rate),
        ),
    )


def _at_load(at_rate: TtftAtLoad, load_share: float) -> results.TtftAtLoad:
    return results.TtftAtLoad(
        load_share=load_share,
        rate_rps=at_rate.rate_rps,
        mean_s=at_rate.mean_s,
        p50_s=at_rate.quantile_s(0.5),
        p90_s=at_rate.quantile_s(0.9),
        p99_s=at_rate.quantile_s(0.99),
        mean_waits=_waits(at_rate),
    )


def _waits(at_rate: TtftAtLoad) -> results.MeanWaits:
    sent = [wait.mean_s for each, wait in zip(at_rate.classes, at_rate.waits, strict=True) if each.sending]
    kept = [wait.mean_s for each, wait in zip(at_rate.classes, at_rate.waits, strict=True) if not each.sending]
    return results.MeanWaits(sent[0] if sent else None, kept[0] if kept else None, at_rate.decode_wait.mean_s)
