"""Equations dispose: every rate of a decision, recomputed from the equations alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.errors import CertificationError, Problem
from prfaas_opt.throughput.equations import (
    pd_prefill_throughput,
    prfaas_throughput,
    system_throughput,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.planning.problem import Decision, Range, TwoPoolProblem
    from prfaas_opt.scenario import Estimator
    from prfaas_opt.workload.distribution import LengthDistribution

_AGREEMENT = 1e-9


class ClassMeans(Struct, frozen=True):
    """Service of the requests that are offloaded and of those that stay; None where there are none.

    Attributes:
        offload_share: p.
        remote_s: prefill seconds of an offloaded request.
        sent_bytes: KVCache bytes of an offloaded request.
        local_s: prefill seconds of a request that stays.
    """

    offload_share: float
    remote_s: float | None
    sent_bytes: float | None
    local_s: float | None


class Rates(Struct, frozen=True):
    """What the equations give for a decision under one estimator: requests/s, shares of unlimited time, bytes/s."""

    means: ClassMeans
    theta_prfaas: float | None
    theta_pd_prefill: float | None
    theta_pd_decode: float
    throughput_rps: float
    egress_bytes_per_s: float


def class_means(problem: TwoPoolProblem, decision: Decision, estimator: Estimator) -> ClassMeans:
    """The means that equations 3 and 4 take: at the mean length of each class, or of the service times themselves.

    Requests without a choice are of the class that stays; mean-length knows none.
    """
    lengths, remote = problem.lengths, problem.remote
    offloaded, kept = decision.offloaded, decision.kept
    # A class is empty where its share or its time is zero: the other may be left, too small to divide by or into.
    local_seconds = math.fsum([problem.staying.local_s, *(problem.local_time.between(*each) for each in kept)])
    remote_seconds = math.fsum(remote.time.between(*each) for each in offloaded) if remote else 0.0
    p, kept_share = (math.fsum(lengths.moment(0.0, *each) for each in ranges) for ranges in (offloaded, kept))
    kept_share += problem.staying.share
    remote_s = sent_bytes = local_s = None
    if remote is not None and remote_seconds > 0 and p > 0:
        if estimator == "expected-time":
            remote_s = remote_seconds / p
            sent_bytes = math.fsum(remote.sent.between(*each) for each in offloaded) / p
        else:
            mean = _mean_length(lengths, offloaded)
            remote_s, sent_bytes = remote.prefill_s(mean), remote.kv_bytes(mean)
    elif remote is not None:
        p = 0.0
    if local_seconds > 0 and kept_share > 0:
        if estimator == "expected-time" or problem.staying.share > 0:
            local_s = local_seconds / kept_share
        else:
            local_s = problem.local_prefill_s(_mean_length(lengths, kept))
    else:
        p = 1.0
    return ClassMeans(p, remote_s, sent_bytes, local_s)


def _mean_length(lengths: LengthDistribution, ranges: Sequence[Range]) -> float:
    """``E[L | L in ranges]``, kept inside them where rounding errors would take it out."""
    share, tokens = (math.fsum(lengths.moment(power, *each) for each in ranges) for power in (0.0, 1.0))
    low, high = max(ranges[0][0], lengths.low), min(ranges[-1][1], lengths.high)
    return min(max(tokens / share, low), high)


def evaluate(problem: TwoPoolProblem, decision: Decision, estimator: Estimator) -> Rates:
    """Equations 3 to 6 for a decision, utilization ceilings included."""
    means = class_means(problem, decision, estimator)
    remote = problem.remote
    theta_prfaas = theta_pd_prefill = None
    if remote is not None and means.remote_s is not None and means.sent_bytes is not None:
        theta_prfaas = prfaas_throughput(
            remote.usable_instances, means.remote_s, remote.egress_bytes_per_s, means.sent_bytes
        )
    if means.local_s is not None:
        theta_pd_prefill = pd_prefill_throughput(problem.usable_prefill(decision.split), means.local_s)
    local_s = (means.local_s or 0.0) * (1 - means.offload_share)
    theta_pd_decode = problem.decode_theta_rps(decision.split, local_s)
    throughput = system_throughput(theta_prfaas, theta_pd_prefill, theta_pd_decode, means.offload_share)
    egress = throughput * means.offload_share * (means.sent_bytes or 0.0)
    return Rates(means, theta_prfaas, theta_pd_prefill, theta_pd_decode, throughput, egress)


def certify(problem: TwoPoolProblem, decision: Decision) -> Rates:
    """Re-evaluates a solver's decision under the problem's estimator.

    Raises:
        CertificationError: the equations give another throughput than the solver claims.
    """
    rates = evaluate(problem, decision, problem.estimator)
    if abs(rates.throughput_rps - decision.throughput_rps) > _AGREEMENT * decision.throughput_rps:
        raise CertificationError(
            Problem(
                "certification",
                "",
                f"the solver claims {decision.throughput_rps!r} req/s offloading {decision.offloaded} with "
                f"{decision.split} prefill instances; the equations give {rates.throughput_rps!r}",
                "please report this with the scenario",
            )
        )
    return rates
