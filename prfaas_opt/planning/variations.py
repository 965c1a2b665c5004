"""The same problem with something a little different: one more of a resource, or a figure that is off."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import TwoPoolProblem
    from prfaas_opt.workload.distribution import LengthDistribution

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
    problem: TwoPoolProblem,
    usable_remote_instances: float = 0.0,
    pd_instances: int = 0,
    egress_bytes_per_s: float = 0.0,
) -> TwoPoolProblem:
    """The problem with more of a resource; the roles of the PD cluster are split anew."""
    remote = problem.remote
    if remote is not None:
        remote = dataclasses.replace(
            remote,
            usable_instances=remote.usable_instances + usable_remote_instances,
            egress_bytes_per_s=remote.egress_bytes_per_s + egress_bytes_per_s,
        )
    instances = problem.pd_instances + pd_instances
    splits = range(problem.splits.stop + pd_instances)
    return dataclasses.replace(problem, remote=remote, pd_instances=instances, splits=splits)


def with_figure_off(problem: TwoPoolProblem, figure: Figure, factor: float) -> TwoPoolProblem | None:
    """The problem with one of its figures multiplied; None where lengths would leave a profile's range."""
    remote = problem.remote
    if figure == "local prefill latency":
        return dataclasses.replace(problem, local_prefill_s=problem.local_prefill_s.scaled(factor))
    if figure == "mean input length":
        return _with_lengths(problem, problem.lengths.scaled(factor))
    assert remote is not None
    if figure == "link bandwidth":
        remote = dataclasses.replace(remote, egress_bytes_per_s=remote.egress_bytes_per_s * factor)
    else:
        remote = dataclasses.replace(remote, prefill_s=remote.prefill_s.scaled(factor))
    return dataclasses.replace(problem, remote=remote)


def _with_lengths(problem: TwoPoolProblem, lengths: LengthDistribution | None) -> TwoPoolProblem | None:
    remote = problem.remote
    curves = [problem.local_prefill_s, *([remote.prefill_s, remote.kv_bytes] if remote else [])]
    if lengths is None or lengths.high > min(curve.upper for curve in curves):
        return None
    if remote is not None:
        if remote.kv_bytes(lengths.low) < 0:
            return None
        remote = dataclasses.replace(remote, lengths=lengths)
    return dataclasses.replace(problem, lengths=lengths, remote=remote)
