"""The planning problem of two prefill pools: one remote, one inside the PD cluster, and a link between them.

Named constraints (DESIGN, as maximize Lambda):

    remote_prefill   Lambda * E[T_remote(L); offloaded] <= usable_instances
    local_prefill    Lambda * E[T_local(L); kept]       <= pd_ceiling * N_p
    egress           Lambda * E[S(L); offloaded]        <= egress_bytes_per_s
    decode           Lambda                             <= pd_ceiling * N_d * decode_rps_per_instance
    split            N_p + N_d = pd_instances, N_p in splits, integers

Utilization ceilings are inside the right-hand sides.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from prfaas_opt.throughput.expectation import Expectation

if TYPE_CHECKING:
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.scenario import Estimator
    from prfaas_opt.workload.distribution import LengthDistribution


Range = tuple[float, float]
"""Lengths above the first and up to the second number of whole tokens; the last range of all ends at infinity."""


def complement(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The lengths outside some ranges.

    >>> complement(((0, 10), (20, 30)))
    ((10, 20), (30, inf))
    """
    edges = [0.0, *itertools.chain.from_iterable(ranges), math.inf]
    return tuple((low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high)


@dataclass(frozen=True)
class Loads:
    """What a routing asks of each resource per request: seconds of either pool, bytes of the link."""

    remote_s: float
    local_s: float
    sent_bytes: float


@dataclass(frozen=True)
class RemotePool:
    """Remote prefill and what it may send, both above zero.

    Attributes:
        lengths: uncached prompt length L.
        usable_instances: instances times their utilization ceiling.
        prefill_s: seconds by length.
        kv_bytes: bytes sent by length.
        egress_bytes_per_s: link rate times its utilization ceiling.
    """

    lengths: LengthDistribution
    usable_instances: float
    prefill_s: Curve
    kv_bytes: Curve
    egress_bytes_per_s: float

    @cached_property
    def time(self) -> Expectation:
        """``E[T_remote(L)]`` on any range, seconds."""
        return Expectation(self.prefill_s, self.lengths)

    @cached_property
    def sent(self) -> Expectation:
        """``E[S(L)]`` on any range, bytes."""
        return Expectation(self.kv_bytes, self.lengths)


@dataclass(frozen=True)
class TwoPoolProblem:
    """One model, one remote pool at most, one PD cluster.

    Attributes:
        lengths: uncached prompt length L.
        remote: None where nothing can be offloaded.
        local_prefill_s: seconds by length on a PD instance.
        pd_instances: instances to split.
        splits: the numbers of them that may prefill, from 0; one at least must decode.
        pd_ceiling: share of its time that a PD instance may be busy.
        decode_rps_per_instance: requests/s one fully used decode instance finishes (equation 5 with N_d = 1).
        estimator: how service times are averaged.
    """

    lengths: LengthDistribution
    remote: RemotePool | None
    local_prefill_s: Curve
    pd_instances: int
    splits: range
    pd_ceiling: float
    decode_rps_per_instance: float
    estimator: Estimator

    @cached_property
    def local_time(self) -> Expectation:
        """``E[T_local(L)]`` on any range, seconds."""
        return Expectation(self.local_prefill_s, self.lengths)

    def decode_limit_rps(self, prefill_instances: int) -> float:
        """What the decode instances finish when ``prefill_instances`` of the PD cluster prefill."""
        return self.decode_rps_per_instance * self.pd_ceiling * (self.pd_instances - prefill_instances)

    def loads(self, offloaded: tuple[Range, ...]) -> Loads:
        """The loads of offloading some ranges of length; what is offloaded to nowhere loads nothing."""
        local_s = sum(self.local_time.between(*each) for each in complement(offloaded))
        if self.remote is None:
            return Loads(0.0, local_s, 0.0)
        remote_s = sum(self.remote.time.between(*each) for each in offloaded)
        return Loads(remote_s, local_s, sum(self.remote.sent.between(*each) for each in offloaded))

    def usable_prefill(self, prefill_instances: int) -> float:
        """The right-hand side of ``local_prefill``."""
        return self.pd_ceiling * prefill_instances


@dataclass(frozen=True)
class Decision:
    """What a solver proposes: which lengths to offload, and a split.

    Attributes:
        offloaded: ranges of length that prefill remotely, ascending and apart; the other lengths stay.
        prefill_instances: N_p.
        throughput_rps: what the solver claims for it.
    """

    offloaded: tuple[Range, ...]
    prefill_instances: int
    throughput_rps: float

    @classmethod
    def at_threshold(
        cls, lengths: LengthDistribution, threshold_tokens: int, prefill_instances: int, throughput_rps: float = 0.0
    ) -> Decision:
        """Offloads every length above a threshold."""
        offloaded = ((threshold_tokens, math.inf),) if threshold_tokens < lengths.last_threshold else ()
        return cls(offloaded, prefill_instances, throughput_rps)

    @property
    def kept(self) -> tuple[Range, ...]:
        """The ranges of length that prefill locally."""
        return complement(self.offloaded)
