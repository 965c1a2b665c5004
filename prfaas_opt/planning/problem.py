"""The planning problem of two prefill pools: one remote, one inside the PD cluster, and a link between them.

Named constraints (DESIGN, as maximize Lambda):

    remote_prefill   Lambda * E[T_remote(L); offloaded] <= usable_instances
    local_prefill    Lambda * E[T_local(L); kept]       <= pd_ceiling * N_p
    egress           Lambda * E[S(L); offloaded]        <= egress_bytes_per_s
    decode           Lambda                             <= pd_ceiling * N_d * decode_rps_per_instance
    split            N_p + N_d = pd_instances, N_p in splits, integers

Utilization ceilings are inside the right-hand sides. Where short requests prefill on the decode instances, at a batch
with a decode step of D seconds:

    local_prefill    Lambda * E[T_local(L); kept]                    <= N * (1 - tokens_per_s * D)    (the stream slows)
    decode           Lambda * (E[T_local(L); kept] + decode seconds) <= pd_ceiling * N
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, structs

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


class Loads(Struct, frozen=True):
    """What a routing asks of each resource per request: seconds of either pool, bytes of the link."""

    remote_s: float
    local_s: float
    sent_bytes: float


class LocalLimit(Struct, frozen=True):
    """``Lambda * (E[T_local(L); kept] + overhead_s) <= usable_instances``."""

    usable_instances: float
    overhead_s: float = 0.0

    def load_s(self, local_s: float) -> float:
        """``1 / Lambda`` where this limits, s; infinite where nothing can be done."""
        seconds = local_s + self.overhead_s
        if seconds <= 0:
            return 0.0
        return seconds / self.usable_instances if self.usable_instances > 0 else math.inf


class Staying(Struct, frozen=True):
    """Requests without a choice: they prefill in the PD cluster, whatever their length.

    Attributes:
        share: of all requests.
        local_s: what they ask of local prefill, per request of all.
        longest_remote_tokens: longer requests have no choice.
        stay_share: nor has this share of those of any length.
    """

    share: float = 0.0
    local_s: float = 0.0
    longest_remote_tokens: float = math.inf
    stay_share: float = 0.0


NONE_STAY = Staying()
"""Every request has a choice."""


@dataclass(frozen=True)
class RemotePool:
    """Remote prefill and what it may send, both above zero.

    Attributes:
        lengths: uncached prompt length L.
        usable_instances: instances times their utilization ceiling.
        prefill_s: seconds by length that an instance is taken for.
        kv_bytes: bytes sent by length.
        egress_bytes_per_s: what the link carries.
        latency_s: seconds from the start of prefill to its end, by length.
    """

    lengths: LengthDistribution
    usable_instances: float
    prefill_s: Curve
    kv_bytes: Curve
    egress_bytes_per_s: float
    latency_s: Curve

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
        lengths: uncached prompt length L of the requests that have a choice; their share of all is its total.
        remote: None where nothing can be offloaded.
        local_prefill_s: seconds by length that a PD instance is taken for.
        pd_instances: instances to split.
        splits: the numbers of them that may prefill, from 0; one at least must decode.
        pd_ceiling: share of its time that a PD instance may be busy.
        decode_rps_per_instance: requests/s one fully used decode instance finishes (equation 5 with N_d = 1).
        estimator: how service times are averaged.
        served: lengths of all requests, those without a choice included.
        local_latency_s: seconds from the start of prefill on a PD instance to its end, by length.
        staying: requests that have no choice.
    """

    lengths: LengthDistribution
    remote: RemotePool | None
    local_prefill_s: Curve
    pd_instances: int
    splits: range
    pd_ceiling: float
    decode_rps_per_instance: float
    estimator: Estimator
    served: LengthDistribution
    local_latency_s: Curve
    staying: Staying = NONE_STAY

    @cached_property
    def local_time(self) -> Expectation:
        """``E[T_local(L)]`` on any range, seconds."""
        return Expectation(self.local_prefill_s, self.lengths)

    def with_capacities(
        self,
        usable_remote: float,
        egress_bytes_per_s: float,
        pd_instances: int,
        pd_ceiling: float,
        decode_rps_per_instance: float,
    ) -> TwoPoolProblem:
        """The same requests with other capacities; what they take is not worked out anew.

        There must be remote prefill.
        """
        pool = self.remote
        assert pool is not None
        remote = RemotePool(
            pool.lengths, usable_remote, pool.prefill_s, pool.kv_bytes, egress_bytes_per_s, pool.latency_s
        )
        vars(remote).update(time=pool.time, sent=pool.sent)
        problem = TwoPoolProblem(
            self.lengths,
            remote,
            self.local_prefill_s,
            pd_instances,
            range(pd_instances),
            pd_ceiling,
            decode_rps_per_instance,
            self.estimator,
            self.served,
            self.local_latency_s,
            self.staying,
        )
        vars(problem).update(local_time=self.local_time)
        return problem

    def roles(self, split: int) -> tuple[int, int]:
        """Instances of the PD cluster that prefill only, and that decode."""
        return split, self.pd_instances - split

    def decode_limit_rps(self, split: int) -> float:
        """What the decode instances finish when ``split`` of the PD cluster prefill."""
        return self.decode_rps_per_instance * self.pd_ceiling * (self.pd_instances - split)

    def decode_theta_rps(self, split: int, _local_s: float) -> float:
        """Theta of decode, beside local prefill that takes ``_local_s`` seconds a request of all."""
        return self.decode_limit_rps(split)

    def local_limits(self, split: int) -> tuple[LocalLimit, ...]:
        """What limits local prefill."""
        return (LocalLimit(self.usable_prefill(split)),)

    @cached_property
    def local_total_s(self) -> float:
        """``E[T_local(L)]`` of all requests, those without a choice included."""
        return self.local_time.total + self.staying.local_s

    def loads(self, offloaded: tuple[Range, ...]) -> Loads:
        """The loads of offloading some ranges of length; what is offloaded to nowhere loads nothing."""
        local_s = self.staying.local_s + sum(self.local_time.between(*each) for each in complement(offloaded))
        if self.remote is None:
            return Loads(0.0, local_s, 0.0)
        remote_s = sum(self.remote.time.between(*each) for each in offloaded)
        return Loads(remote_s, local_s, sum(self.remote.sent.between(*each) for each in offloaded))

    def usable_prefill(self, split: int) -> float:
        """The right-hand side of ``local_prefill``."""
        return self.pd_ceiling * split

    def local_shares(self, decision: Decision) -> list[tuple[Range, float]]:
        """Ranges of the lengths served, apart, each with the share of its requests that prefill in the PD cluster."""
        longest, stay = self.staying.longest_remote_tokens, self.staying.stay_share
        shares = [((low, min(high, longest)), 1.0) for low, high in decision.kept if low < longest]
        shares += [((low, min(high, longest)), stay) for low, high in decision.offloaded if low < longest]
        return [*shares, ((longest, math.inf), 1.0)] if longest < math.inf else shares

    def remote_shares(self, decision: Decision) -> list[tuple[Range, float]]:
        """Ranges of the lengths served, each with the share of its requests that prefill remotely."""
        longest, share = self.staying.longest_remote_tokens, 1.0 - self.staying.stay_share
        return [((low, min(high, longest)), share) for low, high in decision.offloaded if low < longest]


class DecodeAtBatch(Struct, frozen=True):
    """Decode at one batch, beside prefill on the same instances.

    Attributes:
        decode_s: instance-seconds of decode that a request takes.
        prefill_share: share of an instance's time that the token rate leaves for prefill.
    """

    decode_s: float
    prefill_share: float


@dataclass(frozen=True)
class OnDecodeProblem(TwoPoolProblem):
    """Local prefill on the decode instances; a split is the batch that all of them decode.

    Attributes:
        at_batch: decode at each batch of ``splits``.
    """

    at_batch: Mapping[int, DecodeAtBatch] = field(default_factory=dict)

    def roles(self, _split: int) -> tuple[int, int]:
        """None prefill only."""
        return 0, self.pd_instances

    def decode_limit_rps(self, _split: int) -> float:
        """None of its own: decode shares the limits of local prefill."""
        return math.inf

    def decode_theta_rps(self, split: int, local_s: float) -> float:
        """What all instances finish beside the prefill that they do."""
        return self.pd_ceiling * self.pd_instances / (local_s + self.at_batch[split].decode_s)

    def local_limits(self, split: int) -> tuple[LocalLimit, ...]:
        """The token rate, and the time of the instances."""
        time = LocalLimit(self.pd_ceiling * self.pd_instances, self.at_batch[split].decode_s)
        return LocalLimit(self.usable_prefill(split)), time

    def usable_prefill(self, split: int) -> float:
        """What the token rate leaves of the instances."""
        return self.at_batch[split].prefill_share * self.pd_instances


class Decision(Struct, frozen=True):
    """What a solver proposes: which lengths to offload, and a split.

    Attributes:
        offloaded: ranges of length that prefill remotely, ascending and apart; the other lengths stay.
        split: N_p; the decode batch where local prefill is on the decode instances.
        throughput_rps: what the solver claims for it.
    """

    offloaded: tuple[Range, ...]
    split: int
    throughput_rps: float

    @classmethod
    def at_threshold(
        cls, lengths: LengthDistribution, threshold_tokens: int, split: int, throughput_rps: float = 0.0
    ) -> Decision:
        """Offloads every length above a threshold."""
        offloaded = ((threshold_tokens, math.inf),) if threshold_tokens < lengths.last_threshold else ()
        return cls(offloaded, split, throughput_rps)

    def for_other_lengths(self, lengths: LengthDistribution) -> Decision:
        """The same for other lengths: what offloads every request of some lengths offloads every request of any."""
        if self.offloaded and self.offloaded[0][0] <= lengths.first_threshold:
            return structs.replace(self, offloaded=((0.0, math.inf),))
        return self

    def threshold_tokens(self, lengths: LengthDistribution) -> int:
        """The longest length kept, where what is longer is offloaded."""
        return int(self.offloaded[0][0]) if self.offloaded else lengths.last_threshold

    @property
    def kept(self) -> tuple[Range, ...]:
        """The ranges of length that prefill locally."""
        return complement(self.offloaded)
