"""The same problem with something a little different: one more of a resource, one less, or a figure that is off."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.planning.build import carried_by_link, two_pool_problem

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import TwoPoolProblem
    from prfaas_opt.scenario import Scenario

Figure = Literal["mean input length", "link bandwidth", "remote prefill latency", "local prefill latency"]
FIGURES: tuple[Figure, ...] = (
    "mean input length",
    "link bandwidth",
    "remote prefill latency",
    "local prefill latency",
)
LOCAL_FIGURES: tuple[Figure, ...] = ("mean input length", "local prefill latency")
"""The figures of a problem where nothing can be offloaded."""


def with_more(
    scenario: Scenario, remote_instances: int = 0, pd_instances: int = 0, bandwidth_factor: float = 1.0
) -> Scenario:
    """The scenario with more or fewer instances, or another bandwidth."""
    remote, pd, link = scenario.remote, scenario.pd, scenario.link
    if remote is not None:
        remote = dataclasses.replace(remote, instances=remote.instances + remote_instances)
    if link is not None:
        link = dataclasses.replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * bandwidth_factor)
    pd = dataclasses.replace(pd, instances=pd.instances + pd_instances)
    return dataclasses.replace(scenario, remote=remote, pd=pd, link=link)


def with_figure_off(
    scenario: Scenario, problem: TwoPoolProblem, figure: Figure, factor: float
) -> tuple[Scenario, TwoPoolProblem] | None:
    """A scenario and its problem with one of the figures multiplied; None where lengths would leave a profile's range.

    Args:
        scenario, problem: what is planned.
        figure, factor: what is off.
    """
    if figure == "local prefill latency":
        return scenario, with_local_latency(problem, factor)
    if figure == "remote prefill latency":
        return scenario, with_remote_latency(problem, factor)
    if figure == "link bandwidth":
        changed = with_more(scenario, bandwidth_factor=factor)
        return changed, two_pool_problem(changed)
    lengths = scenario.workload.input_tokens.scaled(factor)
    if lengths is None:
        return None
    workload = dataclasses.replace(scenario.workload, input_tokens=lengths)
    changed = dataclasses.replace(scenario, workload=workload)
    try:
        return changed, two_pool_problem(changed)
    except (InputError, InfeasibleError):
        return None


def worst_case(scenario: Scenario, problem: TwoPoolProblem, share: float) -> tuple[Scenario, TwoPoolProblem]:
    """The scenario and the problem where latencies are longer and bandwidth is less by a share, all at once.

    What a decision serves never grows with a latency and never falls with bandwidth. So of all deviations within the
    share this one is the worst, for every decision: what serves most here has the best worst case.
    """
    worst = with_more(scenario, bandwidth_factor=1.0 - share)
    slower = with_local_latency(problem, 1.0 + share)
    if slower.remote is None:
        return worst, slower
    slower = with_remote_latency(slower, 1.0 + share)
    assert slower.remote is not None
    remote = dataclasses.replace(slower.remote, egress_bytes_per_s=carried_by_link(worst).bytes_per_s)
    return worst, dataclasses.replace(slower, remote=remote)


def with_local_latency(problem: TwoPoolProblem, factor: float) -> TwoPoolProblem:
    """The problem with local prefill slower or faster."""
    return dataclasses.replace(
        problem,
        local_prefill_s=problem.local_prefill_s.scaled(factor),
        local_latency_s=problem.local_latency_s.scaled(factor),
        staying=structs.replace(problem.staying, local_s=factor * problem.staying.local_s),
    )


def with_remote_latency(problem: TwoPoolProblem, factor: float) -> TwoPoolProblem:
    """The problem with remote prefill slower or faster."""
    remote = problem.remote
    assert remote is not None
    slower = dataclasses.replace(
        remote, prefill_s=remote.prefill_s.scaled(factor), latency_s=remote.latency_s.scaled(factor)
    )
    return dataclasses.replace(problem, remote=slower)
