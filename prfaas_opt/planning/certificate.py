"""Proof of optimality by weak duality, without a solver.

For a split with N_p local prefill instances, any prices a (remote instance), p (local prefill instance) and b
(link), all >= 0, bound every routing by length, thresholds or not:

    Lambda <= (a*N_remote + p*N_p + b*B) / E[min(a*T_remote(L) + b*S(L), p*T_local(L))]

and the decode limit bounds it too. The mean is exact: the sign changes of ``p*T_local - a*T_remote - b*S`` are
isolated, not sampled. Where a threshold is optimal its own prices close the gap at once; where not, the bound is
minimized over the prices (``balance``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.numerics import bracketed_root, evaluate_terms, sign_changes
from prfaas_opt.planning.balance import Balance, Costs
from prfaas_opt.profiles.curve import merged_breaks, terms_at

if TYPE_CHECKING:
    from prfaas_opt.numerics import Term
    from prfaas_opt.planning.problem import Loads, LocalLimit, Range, RemotePool, TwoPoolProblem
    from prfaas_opt.planning.threshold import BestThreshold

_ROUNDING = 1e-12
"""Relative floating-point error of the sums; bounds are rounded up by it."""
_BALANCED, _BALANCED_LINK = 1e-11, 1e-9
"""Loads that differ by such a share of them are equal: of local prefill, and of the link from remote compute.

The bound is least where they are, and flat there, so that it is off by the square of that.
"""
_NARROW = 0.05
"""Half of the range of prices, in logarithms, that is tried first."""
_CLOSED = 1e-9
"""A bound this near to an attained throughput needs no better prices."""


class Prices(Struct, frozen=True):
    """What one unit of each right-hand side is worth, in requests/s, and the bound these prices prove.

    Attributes:
        bound_rps: no routing of this split carries more.
        remote_rps: per usable remote instance.
        local_rps: per usable local prefill instance.
        decode_rps: per usable decode instance.
        link_rps_per_byte_per_s: per usable byte/s of the link.
        usable_local: the usable local prefill instances that the bound counts on.
    """

    bound_rps: float
    remote_rps: float = 0.0
    local_rps: float = 0.0
    decode_rps: float = 0.0
    link_rps_per_byte_per_s: float = 0.0
    usable_local: float = 0.0


class Segment(Struct, frozen=True):
    """A range of lengths on which all three curves are one piece each."""

    low: float
    high: float
    local: tuple[Term, ...]
    remote: tuple[Term, ...]
    sent: tuple[Term, ...]


class CheapestRouting:
    """The routing that minimizes the cost of prefill and transfer at given prices, length by length."""

    def __init__(self, problem: TwoPoolProblem, remote: RemotePool) -> None:
        self._problem = problem
        low, self._high = problem.lengths.low, problem.lengths.high
        curves = (problem.local_prefill_s, remote.prefill_s, remote.kv_bytes)
        breaks = merged_breaks(curves, low, self._high)
        ranges = list(itertools.pairwise(breaks)) or [(low, self._high)]
        self._segments = [Segment(a, b, *(terms_at(curve, b) for curve in curves)) for a, b in ranges]

    def offloaded(self, a: float, p: float, b: float) -> tuple[Range, ...]:
        """The ranges of length where offloading is the cheaper way."""
        ranges: list[Range] = []
        start = 0.0
        for segment in self._segments:
            h: list[Term] = [
                *((p * c, e) for c, e in segment.local),
                *((-a * c, e) for c, e in segment.remote),
                *((-b * c, e) for c, e in segment.sent),
            ]
            points = [segment.low, *sign_changes(h, segment.low, segment.high), segment.high]
            for x0, x1 in itertools.pairwise(points):
                end = math.inf if x1 == self._high else x1
                if evaluate_terms(h, 0.5 * (x0 + x1)) > 0:
                    if ranges and ranges[-1][1] == start:
                        start = ranges.pop()[0]
                    ranges.append((start, end))
                start = end
        return tuple(ranges)

    def turns(self, offloaded: tuple[Range, ...]) -> Iterator[tuple[float, Segment]]:
        """The lengths inside a segment at which a routing changes, each with that segment."""
        for length in itertools.chain.from_iterable(offloaded):
            if self._segments[0].low < length < self._high:
                yield length, next(segment for segment in self._segments if length <= segment.high)

    def loads(self, a: float, p: float, b: float) -> Loads:
        """Loads of the cheapest routing."""
        return self._problem.loads(self.offloaded(a, p, b))


class PrefillBound:
    """Bounds on what prefill carries, whatever the routing, for each split of one problem."""

    def __init__(self, problem: TwoPoolProblem) -> None:
        self._problem = problem
        self.routing = CheapestRouting(problem, problem.remote) if problem.remote else None

    def of(self, split: int, best: BestThreshold, enough_rps: float = 0.0) -> Prices:
        """The least bound found for a split, given its best threshold; one that is low enough will do."""
        limits = self._problem.local_limits(split)
        return min((self._under(limit, best, enough_rps) for limit in limits), key=lambda prices: prices.bound_rps)

    def _under(self, limit: LocalLimit, best: BestThreshold, enough_rps: float) -> Prices:
        """The least bound found if this alone limited local prefill."""
        problem, remote = self._problem, self._problem.remote
        if remote is None or self.routing is None:
            seconds = problem.local_total_s + limit.overhead_s
            return Prices(
                _rounded_up(limit.usable_instances / seconds),
                local_rps=1 / seconds,
                usable_local=limit.usable_instances,
            )
        if limit.usable_instances == 0 and problem.staying.local_s + limit.overhead_s > 0:
            return Prices(0.0)
        if limit.usable_instances == 0:
            compute = remote.usable_instances / remote.time.total
            link = remote.egress_bytes_per_s / remote.sent.total
            if compute <= link:
                return Prices(_rounded_up(compute), remote_rps=1 / remote.time.total)
            return Prices(_rounded_up(link), link_rps_per_byte_per_s=1 / remote.sent.total)
        return _SplitBound(problem, remote, self.routing, limit, best).least(enough_rps)


def _rounded_up(bound_rps: float) -> float:
    return bound_rps * (1 + _ROUNDING)


class _SplitBound:
    """Minimizes the bound of one split over the prices."""

    def __init__(
        self,
        problem: TwoPoolProblem,
        remote: RemotePool,
        routing: CheapestRouting,
        limit: LocalLimit,
        best: BestThreshold,
    ) -> None:
        self._remote, self._routing = remote, routing
        self._local_prefill_s, self._limit = problem.local_prefill_s, limit
        self._staying_s, self._all_sent = problem.staying.local_s, problem.loads(((0.0, math.inf),))
        self._best = best
        low, high = problem.lengths.low, problem.lengths.high
        self._crossing = low if best.crossing_tokens is None else min(max(best.crossing_tokens, low), high)
        self._balance = Balance(problem, remote, routing, limit)
        self._prices = Prices(math.inf)
        self._balanced_log_price: float | None = None
        self._excess: dict[float, float] = {}

    def least(self, enough_rps: float) -> Prices:
        """The least bound found, or one that is low enough; a proof whichever prices gave it."""
        fixed_s = self._staying_s + self._limit.overhead_s
        if fixed_s > 0:
            # Local prefill alone has a price: all that can leaves, and costs nothing.
            bound = _rounded_up(self._limit.usable_instances / fixed_s)
            self._prices = Prices(bound, local_rps=1 / fixed_s, usable_local=self._limit.usable_instances)
        link_share = 1.0 if self._best.link_binds else 0.0
        self._try(link_share, self._indifferent_price(link_share, self._crossing))
        if self._prices.bound_rps * self._best.shared_load_s <= 1 + _CLOSED:
            return self._prices
        enough_s = 1.0 / enough_rps if enough_rps > 0 else math.inf
        costs = self._balance.costs(0.5, self._indifferent_price(0.5, self._crossing), enough_s * (1 + _CLOSED))
        if costs is not None:
            self._at(costs)
        elif self._excess_of_link(0.0) > 0 > self._excess_of_link(1.0):
            bracketed_root(self._excess_of_link, 0.0, 1.0)
        return self._prices

    def _try(self, link_share: float, local_price: float) -> Loads:
        """Loads at prices that value the remote side at 1 in all, ``link_share`` of it the link."""
        remote, link = self._remote.usable_instances, self._remote.egress_bytes_per_s
        return self._at(Costs((1.0 - link_share) / remote, local_price, link_share / link))

    def _at(self, costs: Costs) -> Loads:
        """Loads at prices; the bound that they prove is kept if it is the least."""
        usable, pool = self._limit.usable_instances, self._remote
        loads = self._routing.loads(*costs)
        seconds = costs.remote * loads.remote_s + costs.local * (loads.local_s + self._limit.overhead_s)
        mean = seconds + costs.link * loads.sent_bytes
        worth = costs.remote * pool.usable_instances + costs.local * usable + costs.link * pool.egress_bytes_per_s
        bound = _rounded_up(worth / mean)
        if bound < self._prices.bound_rps:
            remote, local, link = (cost / mean for cost in costs)
            self._prices = Prices(bound, remote, local, 0.0, link, usable)
        return loads

    def _indifferent_price(self, link_share: float, length: float) -> float:
        """The local price at which a length costs the same in either pool."""
        compute = self._remote.prefill_s(length) / self._remote.usable_instances
        link = self._remote.kv_bytes(length) / self._remote.egress_bytes_per_s
        return ((1.0 - link_share) * compute + link_share * link) / self._local_prefill_s(length)

    def _excess_of_link(self, link_share: float) -> float:
        """Tries the local price that balances the pools; the link's load less remote compute's there.

        The bound, at its best local price, is least where this changes sign.
        """
        if link_share not in self._excess:
            self._excess[link_share] = self._balanced_excess(link_share)
        return self._excess[link_share]

    def _balanced_excess(self, link_share: float) -> float:
        tried: dict[float, tuple[float, float]] = {}

        def imbalance(log_price: float) -> float:
            loads = self._try(link_share, math.exp(log_price))
            compute, link = self._remote_loads(loads)
            local, remote = self._local_load(loads), (1.0 - link_share) * compute + link_share * link
            difference = local - remote if abs(local - remote) > _BALANCED * remote else 0.0
            tried[log_price] = difference, link - compute if abs(link - compute) > _BALANCED_LINK * compute else 0.0
            return difference

        compute, link = self._remote_loads(self._all_sent)
        if self._local_load(self._all_sent) >= (1.0 - link_share) * compute + link_share * link:
            return link - compute  # What stays overloads local prefill, whatever its price.
        middle = self._balanced_log_price
        if middle is None:
            middle = math.log(self._indifferent_price(link_share, self._crossing))
        low, high, step = middle - _NARROW, middle + _NARROW, _NARROW
        while imbalance(low) <= 0:
            low, high, step = low - step, low, 2.0 * step
        while imbalance(high) >= 0:
            low, high, step = high, high + step, 2.0 * step
        # A length that many requests share makes the imbalance jump; the balanced routing there mixes both ends.
        ends = bracketed_root(imbalance, low, high)
        self._balanced_log_price = ends[0]
        (above, excess_above), (below, excess_below) = (tried[end] for end in ends)
        mix = above / (above - below) if above != below else 0.0
        return excess_above + mix * (excess_below - excess_above)

    def _local_load(self, loads: Loads) -> float:
        return self._limit.load_s(loads.local_s)

    def _remote_loads(self, loads: Loads) -> tuple[float, float]:
        return loads.remote_s / self._remote.usable_instances, loads.sent_bytes / self._remote.egress_bytes_per_s


def bound_over_splits(
    problem: TwoPoolProblem, first_decode_bound: int, prefill_bound: Callable[[int], Prices]
) -> tuple[float, int]:
    """No split and no routing carries more than this, requests/s; and the split whose bound it is.

    Args:
        problem: what is planned.
        first_decode_bound: a split from which on decode is thought to bind; any value gives a valid bound.
        prefill_bound: the bound on what prefill carries in a split.

    More local prefill instances never lower the prefill bound and always lower the decode limit. So the largest of
    all splits' bounds lies where they cross, and two splits prove it.
    """
    split = min(first_decode_bound, problem.splits.stop)
    below = 0.0
    while split > problem.splits.start:
        below = prefill_bound(split - 1).bound_rps
        if below <= problem.decode_limit_rps(split - 1):
            break
        split -= 1
        below = 0.0
    at = problem.decode_limit_rps(split) if split in problem.splits else 0.0
    return max((at, split), (below, split - 1))
