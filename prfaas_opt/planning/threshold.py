"""The best threshold for a given split, exact to the token.

A threshold t loads the stages per request: ``remote_load(t)`` (the worse of remote compute and link) and
``local_load(t)`` per unit of capacity. Prefill carries ``1 / max(remote_load, local_load)``. Under expected-time the
first falls and the second rises with t, so bisection finds the crossing. Under mean-length the remote load need not
fall (equation 3 takes the latency at the mean length), so every threshold is looked at.
"""

from __future__ import annotations

import bisect
import math
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from prfaas_opt.numerics import first_whole

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import TwoPoolProblem

TIE = 1e-12
"""Relative difference of two throughputs that counts as a tie."""


class BestThreshold(Struct, frozen=True):
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

    def best(self, split: int) -> BestThreshold:
        """The threshold with the least load; among equals the one with the least egress."""

    def within(self, split: int, load_s: float) -> tuple[int, int]:
        """The shortest and the longest threshold with at most this load, which ``best`` reaches."""

    def least_egress(self, split: int, load_s: float) -> int:
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

    @cached_property
    def _remote_loads(self) -> dict[float, float]:
        return {}

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
        """The worse of compute and link, whatever the split."""
        if threshold not in self._remote_loads:
            self._remote_loads[threshold] = max(self._compute_load(threshold), self._link_load(threshold))
        return self._remote_loads[threshold]

    def _local_load(self, split: int, threshold: float) -> float:
        seconds = self._problem.local_time.at_most(threshold) + self._problem.staying.local_s
        return max(limit.load_s(seconds) for limit in self._problem.local_limits(split))

    def best(self, split: int) -> BestThreshold:
        """Bisection on the first threshold at which local prefill is the busier pool."""

        def excess(threshold: int) -> float:
            load, remote_load = self._local_load(split, threshold), self._remote_load(threshold)
            return load - remote_load if load < math.inf else math.inf

        above = first_whole(excess, self._range[0], self._range[-1])
        below = above - 1
        load_above, load_below = self._local_load(split, above), self._remote_load(below)
        if below < self._range[0]:
            return BestThreshold(above, load_above, load_above, None, False)
        threshold, load = (above, load_above) if load_above <= load_below * (1 + TIE) else (below, load_below)
        shared_load, crossing, link_binds = self._share_token(split, below, above)
        return BestThreshold(threshold, load, min(shared_load, load), crossing, link_binds)

    def _share_token(self, split: int, below: int, above: int) -> tuple[float, float, bool]:
        """Least load with the token length ``above`` shared, where in it the loads meet, and whether the link binds."""
        local_0, local_1 = (self._local_load(split, t) for t in (below, above))
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
        return (*self._meet(split, below, crossing, above), link_binds)

    def _meet(self, split: int, below: int, guess: float, above: int) -> tuple[float, float]:
        """Least load of a threshold inside a token length without atoms, and where: one secant step from a guess."""

        def loads(x: float) -> tuple[float, float]:
            return self._local_load(split, x), self._remote_load(x)

        local, remote = loads(guess)
        end = below if local > remote else above
        end_local, end_remote = loads(end)
        difference, end_difference = local - remote, end_local - end_remote
        if difference == end_difference:
            return max(local, remote), guess
        refined = min(max(guess + difference / (difference - end_difference) * (end - guess), below), above)
        return min((max(local, remote), guess), (max(loads(refined)), refined))

    def within(self, split: int, load_s: float) -> tuple[int, int]:
        """Bisection on either side."""
        lowest = bisect.bisect_left(self._range, True, key=lambda t: self._remote_load(t) <= load_s)
        return self._range[lowest], self.least_egress(split, load_s)

    def least_egress(self, split: int, load_s: float) -> int:
        """The longest threshold that local prefill still carries."""
        beyond = bisect.bisect_left(self._range, True, key=lambda t: self._local_load(split, t) > load_s)
        return self._range[beyond - 1]
