"""What many scenarios of one model, workload and kind of hardware share: their loads at every threshold."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.planning.batch.proofs import LevelSets
from prfaas_opt.planning.problem import NONE_STAY, OnDecodeProblem
from prfaas_opt.throughput.expectation import Expectation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.planning.problem import RemotePool, TwoPoolProblem
    from prfaas_opt.workload.distribution import LengthDistribution

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_MOST_THRESHOLDS = 2**21


class LoadTables:
    """Loads by threshold, in whole tokens from ``first``; arrays have one entry a threshold.

    Attributes:
        problem: that of one scenario; its capacities are of no account.
        first, last: thresholds that offload everything and nothing.
        lengths: L, of all requests.
        remote: its remote pool.
        remote_s, sent_bytes: of the requests above each threshold, per request of all.
        local_s: of the others.
        remote_total_s, sent_total_bytes, local_total_s: if all requests were offloaded, and if all stayed.
    """

    def __init__(self, problem: TwoPoolProblem, remote: RemotePool) -> None:
        self.problem, self.lengths = problem, problem.lengths
        self.local_prefill_s, self.local_latency_s, self.remote = (
            problem.local_prefill_s,
            problem.local_latency_s,
            remote,
        )
        self.first, self.last = problem.lengths.first_threshold, problem.lengths.last_threshold
        self.local_time = problem.local_time
        thresholds = np.arange(self.first, self.last + 1, dtype=np.float64)
        self.remote_s = remote.time.above_each(thresholds)
        self.sent_bytes = remote.sent.above_each(thresholds)
        self.local_s = problem.local_time.at_most_each(thresholds)
        self.remote_total_s, self.sent_total_bytes = remote.time.total, remote.sent.total
        self.local_total_s = problem.local_time.total
        self._requests = _powers(problem.lengths, 0.0)
        self._tokens = _powers(problem.lengths, 1.0)
        self._atoms_at_most = np.searchsorted(problem.lengths.atom_lengths, thresholds, side="right")

    @property
    def low(self) -> float:
        """The shortest length, tokens."""
        return self.lengths.low

    @property
    def high(self) -> float:
        """The longest length, tokens."""
        return self.lengths.high

    def shares(self, thresholds: Ints) -> tuple[Floats, Floats]:
        """Shares of the requests above thresholds, and of the others."""
        x = thresholds.astype(np.float64)
        return self._requests.above_each(x), self._requests.at_most_each(x)

    def shares_at_most(self, lengths: Floats) -> Floats:
        """Shares of the requests up to lengths inside a token."""
        return self._requests.at_most_each(lengths)

    def mean_lengths(self, thresholds: Ints, above: Floats, kept: Floats) -> tuple[Floats, Floats]:
        """Mean lengths of the requests above thresholds, and of the others, given their shares; tokens."""
        x = thresholds.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            long, short = self._tokens.above_each(x) / above, self._tokens.at_most_each(x) / kept
        within = np.clip(x, self.low, self.high)
        return np.fmin(np.fmax(long, within), self.high), np.fmax(np.fmin(short, within), self.low)

    def holds_atom(self, index: Ints) -> Flags:
        """Whether some requests are exactly as long as a threshold, so that none splits them."""
        held: Flags = self._atoms_at_most[index] > self._atoms_at_most[index - 1]
        return held

    def loads(self, lengths: Floats) -> tuple[Floats, Floats, Floats]:
        """``remote_s``, ``sent_bytes`` and ``local_s`` at thresholds inside a token."""
        remote = self.remote
        return (
            remote.time.above_each(lengths),
            remote.sent.above_each(lengths),
            self.local_time.at_most_each(lengths),
        )

    def offloading(self, by_link: bool) -> LevelSets:
        """Which lengths are cheapest offloaded where only the link, or only remote compute, has a price."""
        return self._by_link if by_link else self._by_compute

    @cached_property
    def _by_link(self) -> LevelSets:
        return LevelSets(self, self.remote.kv_bytes)

    @cached_property
    def _by_compute(self) -> LevelSets:
        return LevelSets(self, self.remote.prefill_s)


def tables_of(problem: TwoPoolProblem) -> LoadTables | None:
    """The tables of a problem; None where its thresholds are not all that there is to it."""
    lengths, remote = problem.lengths, problem.remote
    if remote is None or isinstance(problem, OnDecodeProblem) or problem.staying != NONE_STAY:
        return None
    if problem.estimator != "expected-time" or lengths is not problem.served:
        return None
    if lengths.last_threshold - lengths.first_threshold > _MOST_THRESHOLDS:
        return None
    return LoadTables(problem, remote)


def _powers(lengths: LengthDistribution, power: float) -> Expectation:
    from prfaas_opt.profiles.curve import Curve, Piece

    return Expectation(Curve((Piece(0.0, math.inf, ((1.0, power),)),), 0.0, math.inf), lengths)
