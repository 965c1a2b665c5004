"""The cheapest way for every length of a stream at given prices: the lower envelope of the ways' costs, exactly.

A request of length l costs ``team * T(l) + link * S(l) + site`` on a way. Whatever the routing, a stream asks of its
resources at least the mean of the cheapest cost, at any prices of zero or more: weak duality, on unbinned lengths.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt.numerics import evaluate_terms, sign_changes
from prfaas_opt.profiles.curve import merged_breaks, terms_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prfaas_opt.numerics import Term
    from prfaas_opt.planning.fleets.network import Network, Way

_ROUNDING = 1e-12
"""Relative floating-point error of the sums; proven costs are rounded down by it."""


@dataclass(frozen=True)
class Prices:
    """Prices of one unit of each resource, zero or more.

    Attributes:
        teams: of a second of each prefill team, by team.
        pipes: of a byte of each link, by link.
        sites: of a request decoded, by (stream, site).
    """

    teams: Mapping[int, float]
    pipes: Mapping[int, float]
    sites: Mapping[tuple[int, int], float]

    def of(self, way: Way) -> tuple[float, float, float]:
        """Price of a second, of a byte and of a request on a way."""
        sent = 0.0 if way.pipe is None else self.pipes.get(way.pipe, 0.0)
        return self.teams.get(way.team, 0.0), sent, self.sites.get((way.stream, way.destination), 0.0)


@dataclass(frozen=True)
class Stretch:
    """Lengths above ``low`` up to ``high`` tokens whose cheapest way is ``way``."""

    low: float
    high: float
    way: int


class Envelope:
    """The cheapest ways of one stream."""

    def __init__(self, network: Network, stream: int) -> None:
        self._network, self._stream = network, stream
        self._ways = network.ways_of[stream]
        lengths = network.streams[stream].lengths
        ways = [network.ways[i] for i in self._ways]
        curves = [curve for way in ways for curve in (way.prefill_s, way.kv_bytes) if curve is not None]
        breaks = merged_breaks(curves, lengths.low, lengths.high)
        ranges = list(itertools.pairwise(breaks)) or [(lengths.low, lengths.high)]
        self._segments = [
            (low, high, [(terms_at(w.prefill_s, high), terms_at(w.kv_bytes, high) if w.kv_bytes else ()) for w in ways])
            for low, high in ranges
        ]

    def stretches(self, prices: Prices) -> list[Stretch]:
        """The cheapest way by length, neighbours of one way joined."""
        way_prices = [prices.of(self._network.ways[i]) for i in self._ways]
        found: list[Stretch] = []
        start = 0.0
        for low, high, terms in self._segments:
            costs = [_cost(each, *price) for each, price in zip(terms, way_prices, strict=True)]
            for end, k in _cheapest(costs, low, high):
                way = self._ways[k]
                if found and found[-1].way == way:
                    start = found.pop().low
                found.append(Stretch(start, end, way))
                start = end
        return found

    def mean_cost(self, prices: Prices, stretches: Sequence[Stretch]) -> float:
        """The mean cost of the cheapest ways of one request, rounded down."""
        network, stream = self._network, self._stream
        total = 0.0
        for stretch in stretches:
            way = network.ways[stretch.way]
            team, pipe, site = prices.of(way)
            total += team * network.mean(way.prefill_s, stream).between(stretch.low, stretch.high)
            if way.kv_bytes is not None:
                total += pipe * network.mean(way.kv_bytes, stream).between(stretch.low, stretch.high)
            total += site * network.streams[stream].lengths.moment(0.0, stretch.low, stretch.high)
        return total * (1 - _ROUNDING)


def _cost(terms: tuple[tuple[Term, ...], tuple[Term, ...]], team: float, pipe: float, site: float) -> list[Term]:
    prefill, sent = terms
    return [*((team * c, e) for c, e in prefill), *((pipe * c, e) for c, e in sent), (site, 0.0)]


def _cheapest(costs: list[list[Term]], low: float, high: float) -> list[tuple[float, int]]:
    """The index of the least of some sums of powers up to each of some lengths, the last of them ``high``."""
    if low >= high:
        return [(high, min(range(len(costs)), key=lambda k: evaluate_terms(costs[k], high)))]
    bounds = [_bounds(cost, low, high) for cost in costs]
    least_upper = min(upper for _, upper in bounds)
    rivals = [k for k, (lower, _) in enumerate(bounds) if lower <= least_upper]
    crossings = {
        x
        for i, k in enumerate(rivals)
        for other in rivals[:i]
        for x in sign_changes([*costs[k], *((-c, e) for c, e in costs[other])], low, high)
    }
    ends = [*sorted(crossings), high]
    middles = (0.5 * (a + b) for a, b in zip([low, *ends], ends, strict=False))
    return [(b, min(rivals, key=lambda k: evaluate_terms(costs[k], x))) for b, x in zip(ends, middles, strict=True)]


def _bounds(cost: list[Term], low: float, high: float) -> tuple[float, float]:
    """A lower and an upper bound of a sum of powers, each of which is monotone."""
    ends = [(c * low**e, c * high**e) for c, e in cost]
    return sum(map(min, ends)), sum(map(max, ends))
