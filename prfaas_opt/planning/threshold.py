"""The best threshold for a given split, exact to the token.

A threshold t loads the stages per request: ``remote_load(t)`` (the worse of remote compute and link) and
``local_load(t)`` per unit of capacity. Prefill carries ``1 / max(remote_load, local_load)``. Under expected-time the
first falls and the second rises with t, so bisection finds the crossing. Under mean-length the remote load need not
fall (equation 3 takes the latency at the mean length), so every threshold is looked at.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import TwoPoolProblem

TIE = 1e-12
"""Relative difference of two throughputs that counts as a tie."""


@dataclass(frozen=True)
class BestThreshold:
    """The best threshold of one split.

    Attributes:
        threshold_tokens: longest length kept local.
        load_s: ``1 / throughput`` that prefill allows at it, s; infinite where prefill can't serve all lengths.
        shared_load_s: the same if the one token length at the crossing could be split between the pools.
        crossing_tokens: where, within that token length, the loads are equal; None where one pool serves all.
        link_binds: the link, not remote compute, is the remote load at the crossing.
    """

    threshold_tokens: int
    load_s: float
    shared_load_s: float
    crossing_tokens: float | None
    link_binds: bool


class ThresholdSearch(Protocol):
    """How thresholds of one problem are searched under one estimator."""

    def best(self, prefill_instances: int) -> BestThreshold:
        """The threshold with the least load; among equals the one with the least egress."""

    def within(self, prefill_instances: int, load_s: float) -> tuple[int, int]:
        """The shortest and the longest threshold with at most this load, which ``best`` reaches."""

    def least_egress(self, prefill_instances: int, load_s: float) -> int:
        """The threshold of least egress among those with at most this load."""


def search(problem: TwoPoolProblem) -> ThresholdSearch:
    """The search that is exact for the problem's estimator."""
    if problem.estimator == "expected-time":
        return Bisection(problem)
    from prfaas_opt.planning.scan import Scan

    return Scan(problem)


class Bisection:
    """Expected-time: both loads are monotone in the threshold."""

    def __init__(self, problem: TwoPoolProblem) -> None:
        self._problem = problem
        self._range = range(problem.lengths.first_threshold, problem.lengths.last_threshold + 1)

    def _compute_load(self, threshold: float) -> float:
        remote = self._problem.remote
        return remote.time.above(threshold) / remote.usable_instances if remote else self._impossible(threshold)

    def _link_load(self, threshold: float) -> float:
        remote = self._problem.remote
        return remote.sent.above(threshold) / remote.egress_bytes_per_s if remote else self._impossible(threshold)

    def _impossible(self, threshold: float) -> float:
        """The load of offloading to nowhere."""
        return math.inf if self._problem.lengths.share_above(threshold) > 0 else 0.0

    def _remote_load(self, threshold: float) -> float:
        return max(self._compute_load(threshold), self._link_load(threshold))

    def _local_load(self, prefill_instances: int, threshold: float) -> float:
        seconds = self._problem.local_time.at_most(threshold)
        if seconds <= 0:
            return 0.0
        return seconds / self._problem.usable_prefill(prefill_instances) if prefill_instances else math.inf

    def best(self, prefill_instances: int) -> BestThreshold:
        """Bisection on the first threshold at which local prefill is the busier pool."""

        def local(threshold: float) -> float:
            return self._local_load(prefill_instances, threshold)

        def crossed(threshold: int) -> bool:
            load = local(threshold)
            return load >= self._compute_load(threshold) and load >= self._link_load(threshold)

        above = self._range[bisect.bisect_left(self._range, True, key=crossed)]
        below = above - 1
        load_above, load_below = local(above), self._remote_load(below)
        if below < self._range[0]:
            return BestThreshold(above, load_above, load_above, None, False)
        threshold, load = (above, load_above) if load_above <= load_below * (1 + TIE) else (below, load_below)
        shared_load, crossing, link_binds = self._share_token(prefill_instances, below, above)
        return BestThreshold(threshold, load, min(shared_load, load), crossing, link_binds)

    def _share_token(self, prefill_instances: int, below: int, above: int) -> tuple[float, float, bool]:
        """Least load with the token length ``above`` shared, where in it the loads meet, and whether the link binds."""
        local_0, local_1 = (self._local_load(prefill_instances, t) for t in (below, above))
        if math.isinf(self._remote_load(below)):
            return math.inf, above, False
        if math.isinf(local_1):
            return math.inf, below, False
        crossings = []
        for remote_load, is_link in ((self._compute_load, False), (self._link_load, True)):
            remote_0, remote_1 = remote_load(below), remote_load(above)
            slope = (local_1 - local_0) + (remote_0 - remote_1)
            share = min(max((remote_0 - local_0) / slope, 0.0), 1.0) if slope > 0 else 1.0
            shared = max(local_0 + share * (local_1 - local_0), remote_0 - share * (remote_0 - remote_1))
            crossings.append((shared, below + share, is_link))
        shared, crossing, link_binds = max(crossings)
        atoms = self._problem.lengths.atom_lengths
        if bisect.bisect_right(atoms, below) < bisect.bisect_right(atoms, above):
            return shared, crossing, link_binds
        return (*self._meet(prefill_instances, below, crossing, above), link_binds)

    def _meet(self, prefill_instances: int, below: int, guess: float, above: int) -> tuple[float, float]:
        """Least load of a threshold inside a token length without atoms, and where: one secant step from a guess."""

        def loads(x: float) -> tuple[float, float]:
            return self._local_load(prefill_instances, x), self._remote_load(x)

        local, remote = loads(guess)
        end = below if local > remote else above
        end_local, end_remote = loads(end)
        difference, end_difference = local - remote, end_local - end_remote
        if difference == end_difference:
            return max(local, remote), guess
        refined = min(max(guess + difference / (difference - end_difference) * (end - guess), below), above)
        return min((max(local, remote), guess), (max(loads(refined)), refined))

    def within(self, prefill_instances: int, load_s: float) -> tuple[int, int]:
        """Bisection on either side."""
        lowest = bisect.bisect_left(self._range, True, key=lambda t: self._remote_load(t) <= load_s)
        return self._range[lowest], self.least_egress(prefill_instances, load_s)

    def least_egress(self, prefill_instances: int, load_s: float) -> int:
        """The longest threshold that local prefill still carries."""
        beyond = bisect.bisect_left(self._range, True, key=lambda t: self._local_load(prefill_instances, t) > load_s)
        return self._range[beyond - 1]
