"""How a plan's rate moves: with one more of each resource, with one lost, and where a figure is off."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from prfaas_opt import results, units
from prfaas_opt.planning.build import instance_usd_per_hour, profile_of, two_pool_problem
from prfaas_opt.planning.objective import most_served, most_served_by, served_as_deployed
from prfaas_opt.planning.variations import (
    FIGURES,
    LOCAL_FIGURES,
    with_figure_off,
    with_more,
)

if TYPE_CHECKING:
    from prfaas_opt.planning.objective import Asked, Served
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.scenario import Scenario

MORE_LINK_SHARE = 0.1
"""Part of its bandwidth by which a link is made wider in a what-if."""
DEVIATIONS = (-0.2, -0.1, 0.1, 0.2)
NEAR_DEVIATIONS = (-0.1, 0.1)


def what_ifs(scenario: Scenario, problem: TwoPoolProblem, served: Served, asked: Asked) -> tuple[results.WhatIf, ...]:
    """One more instance, a tenth more of the link, a slightly slower stream, each planned anew; largest gain first."""
    return tuple(sorted(_what_ifs(scenario, problem, served, asked), key=lambda each: -each.gain_rps))


def _what_ifs(scenario: Scenario, problem: TwoPoolProblem, served: Served, asked: Asked) -> Iterator[results.WhatIf]:
    remote, link, pd = scenario.remote, scenario.link, scenario.pd
    split = served.decision.split
    changes: list[tuple[str, str, Scenario, float | None, dict[results.Stage, int]]] = []
    if remote is not None and problem.remote is not None:
        price, words = instance_usd_per_hour(scenario, remote), f"one {remote.hardware} instance"
        changes.append((remote.name, words, with_more(scenario, remote_instances=1), price, {"prfaas": split}))
    price, words = instance_usd_per_hour(scenario, pd), f"one {pd.hardware} instance"
    prefilling, _ = problem.roles(split)
    kept: dict[results.Stage, int] = {"pd_prefill": split + 1} if prefilling else {}
    changes.append((pd.name, words, with_more(scenario, pd_instances=1), price, kept | {"pd_decode": split}))
    if link is not None and problem.remote is not None:
        words = units.format_gbps(units.to_gbps(MORE_LINK_SHARE * link.bandwidth_bytes_per_s))
        wider = with_more(scenario, bandwidth_factor=1 + MORE_LINK_SHARE)
        changes.append((f"{link.source} to {link.destination}", words, wider, None, {"egress": split}))
    slower = _slower(scenario)
    if slower is not None:
        changes.append(("slo.tokens_per_s", "1 token/s less", slower, None, {}))
    for resource, words, changed, price, fixed in changes:
        anew = most_served_by(changed, asked)
        if anew is None:
            continue
        fixed_rps = {
            stage: with_roles.rate_rps
            for stage, each in fixed.items()
            if (with_roles := most_served_by(changed, asked, each)) is not None
        }
        rate_rps = max([anew.rate_rps, *fixed_rps.values()])
        gain = max(rate_rps - served.rate_rps, 0.0)
        yield results.WhatIf(
            resource=resource,
            more=words,
            throughput_rps=rate_rps,
            gain_rps=gain,
            gain_share=gain / served.rate_rps,
            instances=_instances(changed, two_pool_problem(changed), anew.decision),
            gain_rps_per_usd_hour=gain / price if price else None,
            fixed_roles_gain_rps={stage: max(rps - served.rate_rps, 0.0) for stage, rps in fixed_rps.items()},
        )


def deviations(
    scenario: Scenario,
    problem: TwoPoolProblem,
    served: Served,
    asked: Asked,
    shares: Sequence[float] = DEVIATIONS,
) -> tuple[results.Deviation, ...]:
    """Each figure off by each share: the deployed decision re-evaluated, and a new plan."""
    rows, for_any_lengths = [], served.decision.for_other_lengths(problem.lengths)
    for figure in FIGURES if problem.remote else LOCAL_FIGURES:
        for share in shares:
            off = with_figure_off(scenario, problem, figure, 1.0 + share)
            anew = most_served(*off, asked) if off is not None else None
            if off is None or anew is None:
                rows.append(results.Deviation(figure, share, None, None, None, None))
                continue
            _, changed = off
            decision = for_any_lengths if figure == "mean input length" else served.decision
            deployed = served_as_deployed(*off, decision, asked)
            rows.append(
                results.Deviation(
                    figure,
                    share,
                    deployed,
                    max(anew.rate_rps, deployed) if asked.goodput else anew.rate_rps,
                    _instances(scenario, changed, anew.decision),
                    changed.roles(anew.decision.split) != problem.roles(served.decision.split),
                )
            )
    return tuple(rows)


def failures(scenario: Scenario, problem: TwoPoolProblem, served: Served, asked: Asked) -> tuple[results.Failure, ...]:
    """One instance, the link or a site lost: what is served with the roles as they are, and after a new split."""
    remote, link, pd, split = scenario.remote, scenario.link, scenario.pd, served.decision.split
    prefilling, _ = problem.roles(split)
    alone = dataclasses.replace(scenario, remote=None, link=None)
    lost: list[tuple[str, results.FailureKind, Scenario | None, int]] = []
    if remote is not None and problem.remote is not None:
        less = with_more(scenario, remote_instances=-1) if remote.instances > 1 else alone
        lost.append((f"one {remote.hardware} instance", "instance", less, split))
    if pd.instances > 1:
        less = with_more(scenario, pd_instances=-1)
        if prefilling:
            lost.append((f"one {pd.hardware} prefill instance", "instance", less, split - 1))
        lost.append((f"one {pd.hardware} decode instance", "instance", less, split))
    else:
        lost.append((f"one {pd.hardware} decode instance", "instance", None, 0))
    if link is not None and problem.remote is not None:
        lost.append((f"link {link.source} to {link.destination}", "link", alone, split))
    if remote is not None and problem.remote is not None:
        lost.append((f"site {remote.name}", "site", alone, split))
    lost.append((f"site {pd.name}", "site", None, 0))
    rows = []
    without_remote = cache(lambda roles: most_served_by(alone, asked, roles))
    for words, kind, left, each in lost:
        if left is alone:
            fixed, anew = without_remote(each), without_remote(None)
        else:
            fixed, anew = (most_served_by(left, asked, roles) if left else None for roles in (each, None))
        fixed_rps = fixed.rate_rps if fixed else 0.0
        anew_rps = max(anew.rate_rps if anew else 0.0, fixed_rps)
        rows.append(
            results.Failure(
                lost=words,
                kind=kind,
                fixed_roles_rps=fixed_rps,
                resplit_rps=anew_rps,
                fixed_roles_served_share=min(fixed_rps / served.rate_rps, 1.0),
                resplit_served_share=min(anew_rps / served.rate_rps, 1.0),
                resplit_instances=_instances(left, two_pool_problem(left), anew.decision) if left and anew else None,
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


def _instances(scenario: Scenario, problem: TwoPoolProblem, decision: Decision) -> results.Instances:
    return results.Instances(scenario.remote.instances if scenario.remote else 0, *problem.roles(decision.split))
