"""How a plan's throughput moves: with one more of each resource, and where a figure is off."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prfaas_opt import results, units
from prfaas_opt.planning.build import instance_usd_per_hour, profile_of, two_pool_problem
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.split import solve
from prfaas_opt.planning.variations import FIGURES, LOCAL_FIGURES, with_figure_off, with_more

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.scenario import Policy, Scenario

MORE_LINK_SHARE = 0.1
"""Part of its bandwidth by which a link is made wider in a what-if."""
DEVIATIONS = (-0.2, -0.1, 0.1, 0.2)


def what_ifs(
    scenario: Scenario, problem: TwoPoolProblem, throughput_rps: float, policy: Policy
) -> tuple[results.WhatIf, ...]:
    """One more instance, a tenth more of the link, a slightly slower stream, each planned anew; largest gain first."""
    remote, link, pd = scenario.remote, scenario.link, scenario.pd
    changes: list[tuple[str, str, TwoPoolProblem, float | None, int]] = []
    if remote is not None and problem.remote is not None:
        more = with_more(problem, usable_remote_instances=remote.max_utilization)
        changes.append(
            (remote.name, f"one {remote.hardware} instance", more, instance_usd_per_hour(scenario, remote), 1)
        )
    one_more = with_more(problem, pd_instances=1)
    changes.append((pd.name, f"one {pd.hardware} instance", one_more, instance_usd_per_hour(scenario, pd), 0))
    if link is not None and problem.remote is not None:
        extra = MORE_LINK_SHARE * link.bandwidth_bytes_per_s
        wider = with_more(problem, egress_bytes_per_s=extra * link.max_utilization)
        words = units.format_gbps(units.to_gbps(extra))
        changes.append((f"{link.source} to {link.destination}", words, wider, None, 0))
    slower = _slower(scenario)
    if slower is not None:
        changes.append(("slo.tokens_per_s", "1 token/s less", two_pool_problem(slower), None, 0))
    found = []
    for resource, words, changed, price, more_remote in changes:
        solution = solve(changed, policy)
        if solution is None:
            continue
        rps = solution.decision.throughput_rps
        gain = max(rps - throughput_rps, 0.0)
        instances = _instances(scenario, changed, solution.decision, more_remote)
        per_usd = gain / price if price else None
        found.append(results.WhatIf(resource, words, rps, gain, gain / throughput_rps, instances, per_usd))
    return tuple(sorted(found, key=lambda each: -each.gain_rps))


def deviations(
    scenario: Scenario,
    problem: TwoPoolProblem,
    decision: Decision,
    policy: Policy,
    shares: Sequence[float] = DEVIATIONS,
) -> tuple[results.Deviation, ...]:
    """Each figure off by each share: the deployed decision re-evaluated, and a new plan."""
    rows = []
    for figure in FIGURES if problem.remote else LOCAL_FIGURES:
        for share in shares:
            changed = with_figure_off(problem, figure, 1.0 + share)
            solution = solve(changed, policy) if changed is not None else None
            if changed is None or solution is None:
                rows.append(results.Deviation(figure, share, None, None, None, None))
                continue
            deployed = evaluate(changed, decision, problem.estimator).throughput_rps
            rows.append(
                results.Deviation(
                    figure,
                    share,
                    deployed,
                    solution.decision.throughput_rps,
                    _instances(scenario, changed, solution.decision),
                    solution.decision.prefill_instances != decision.prefill_instances,
                )
            )
    return tuple(rows)


def _slower(scenario: Scenario) -> Scenario | None:
    """The scenario with an SLO of one token/s less; None without an SLO above that, and for a constant decode pair."""
    decode = profile_of(scenario, scenario.pd).decode
    rate = scenario.tokens_per_s
    if decode is None or len(decode.batches) < 2 or rate is None or rate <= 1:
        return None
    return dataclasses.replace(scenario, tokens_per_s=rate - 1)


def _instances(
    scenario: Scenario, problem: TwoPoolProblem, decision: Decision, more_remote: int = 0
) -> results.Instances:
    remote = scenario.remote.instances + more_remote if scenario.remote else 0
    prefill = decision.prefill_instances
    return results.Instances(remote, prefill, problem.pd_instances - prefill)
