"""Bounds on what prefill carries, of many scenarios at once: ``certificate`` on arrays.

Where one limit binds the remote side, the cheapest routing at its prices offloads the lengths at which a ratio of two
curves is above a level. All scenarios of a kind share the ratio, so that its turns are isolated once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prfaas_opt.numerics import evaluate_terms, sign_changes, slope_of
from prfaas_opt.planning.batch.roots import newton_in_bracket, sum_of
from prfaas_opt.planning.certificate import PrefillBound
from prfaas_opt.planning.threshold import BestThreshold
from prfaas_opt.profiles.curve import merged_breaks, terms_at

if TYPE_CHECKING:
    from prfaas_opt.numerics import Term
    from prfaas_opt.planning.batch.tables import Flags, Floats, Ints, LoadTables
    from prfaas_opt.planning.batch.thresholds import BestThresholds, Capacities, Thresholds
    from prfaas_opt.profiles.curve import Curve

_ROUNDING = 1e-12
_CLOSED = 1e-9
_BALANCED = 1e-10
"""How near, in logarithms, a price is to the one at which the bound is least; it is flat there."""


class Bounds(NamedTuple):
    """Bounds, an entry each, and the prices that prove them, as ``certificate.Prices``."""

    bound_rps: Floats
    remote_price: Floats
    local_price: Floats
    link_price: Floats


class _Loads(NamedTuple):
    """Seconds of remote prefill, bytes sent, and seconds of local prefill, per request of all."""

    remote_s: Floats
    sent_bytes: Floats
    local_s: Floats


class PrefillBounds:
    """Bounds on what prefill carries, whatever the routing, for a split of each scenario."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds, self._tables = thresholds, thresholds.tables

    def of(self, split: Ints, best: BestThresholds, enough_rps: Floats) -> Bounds:
        """The bounds for splits, given their best thresholds; the least ones, but where others are low enough."""
        given, tables = self._thresholds.given, self._tables
        bounds = Bounds(*(np.empty(len(split)) for _ in Bounds._fields))
        everywhere = np.arange(len(split))
        all_remote = split == 0
        _put(bounds, everywhere[all_remote], self._all_remote(given.of(everywhere[all_remote])))
        left = ~all_remote
        for by_link in (False, True):
            (chosen,) = np.nonzero(left & (best.link_binds == by_link))
            side = tables.offloading(by_link)
            if len(chosen):
                usable = self._thresholds.usable(split)[chosen]
                limit = _OneLimit(side, tables, given.of(chosen), usable, by_link)
                bound, proven = limit.least(best.of(chosen), enough_rps[chosen])
                _put(bounds, chosen, bound)
                left[chosen[proven]] = False
        self._one_by_one(np.nonzero(left)[0], split, best, enough_rps, bounds)
        return bounds

    def _all_remote(self, given: Capacities) -> Bounds:
        """Without local prefill all is offloaded, and no price is better than that of the limit that binds."""
        compute, link = (
            given.remote / self._tables.remote_total_s,
            given.egress_bytes_per_s / self._tables.sent_total_bytes,
        )
        by_compute = compute <= link
        return Bounds(
            np.minimum(compute, link) * (1 + _ROUNDING),
            np.where(by_compute, 1 / self._tables.remote_total_s, 0.0),
            np.zeros(len(compute)),
            np.where(by_compute, 0.0, 1 / self._tables.sent_total_bytes),
        )

    def _one_by_one(self, chosen: Ints, split: Ints, best: BestThresholds, enough_rps: Floats, bounds: Bounds) -> None:
        """The bounds where no one limit of the remote side binds alone."""
        problems = self._thresholds.given.of(chosen).problems(self._tables.problem)
        columns = (split[chosen], enough_rps[chosen], best.threshold[chosen] + self._tables.first, *best.of(chosen)[1:])
        for index, problem, n, enough, *threshold in zip(
            chosen.tolist(), problems, *(column.tolist() for column in columns), strict=True
        ):
            proof = PrefillBound(problem).of(n, BestThreshold(*threshold), enough)
            found = proof.bound_rps, proof.remote_rps, proof.local_rps, proof.link_rps_per_byte_per_s
            for column, value in zip(bounds, found, strict=True):
                column[index] = value


def _put(bounds: Bounds, chosen: Ints, found: Bounds) -> None:
    for column, values in zip(bounds, found, strict=True):
        column[chosen] = values


class _OneLimit:
    """Minimizes bounds over the price of local prefill, that of one limit of the remote side being 1 in all."""

    def __init__(
        self, side: LevelSets, tables: LoadTables, given: Capacities, usable_local: Floats, by_link: bool
    ) -> None:
        self._side, self._tables, self._usable, self._by_link = side, tables, usable_local, by_link
        self._limit, self._other = (
            (given.egress_bytes_per_s, given.remote) if by_link else (given.remote, given.egress_bytes_per_s)
        )
        self._price = 1.0 / self._limit
        self._bound = np.full(len(usable_local), np.inf)
        self._local_price, self._mean = np.zeros_like(self._bound), np.ones_like(self._bound)

    def least(self, best: BestThresholds, enough_rps: Floats) -> tuple[Bounds, Flags]:
        """The least bounds found, and whether they are the least that there are, or low enough."""
        crossing = np.clip(best.crossing_tokens, self._tables.low, self._tables.high)
        local_price = self._price / self._side.ratio(crossing)
        self._try(np.arange(len(crossing)), local_price)
        proven = self._bound <= np.maximum((1 + _CLOSED) / best.shared_load_s, enough_rps)
        (others,) = np.nonzero(~proven)
        if len(others) and not self._tables.lengths.atoms:
            proven[others] = self._balance(others, local_price[others]) | (self._bound[others] <= enough_rps[others])
        remote_price = self._price / self._mean
        none = np.zeros_like(remote_price)
        prices = (none, remote_price) if self._by_link else (remote_price, none)
        return Bounds(self._bound, prices[0], self._local_price / self._mean, prices[1]), proven

    def _try(self, chosen: Ints, local_price: Floats) -> tuple[Floats, Floats]:
        """The bounds of prices; how much busier local prefill is than the limit, and whether that is than the other."""
        loads = self._side.loads(self._price[chosen] / local_price)
        limited, other = (loads.sent_bytes, loads.remote_s) if self._by_link else (loads.remote_s, loads.sent_bytes)
        usable = self._usable[chosen]
        mean = self._price[chosen] * limited + local_price * loads.local_s
        bound = (1.0 + local_price * usable) / mean * (1 + _ROUNDING)
        better = bound < self._bound[chosen]
        here = chosen[better]
        self._bound[here], self._local_price[here], self._mean[here] = bound[better], local_price[better], mean[better]
        load, other_load = limited / self._limit[chosen], other / self._other[chosen]
        return loads.local_s / usable - load, load - other_load

    def _balance(self, chosen: Ints, local_price: Floats) -> Flags:
        """Moves the local price to where both pools are as busy; whether the other limit is less busy there."""
        from scipy.optimize.elementwise import bracket_root, find_root

        def excess(log_price: Floats, index: Ints) -> Floats:
            return self._try(index, np.exp(log_price))[0]

        start = np.log(local_price)
        bracket = bracket_root(excess, start - 0.1, start + 0.1, args=(chosen,)).bracket
        found = find_root(excess, bracket, args=(chosen,), tolerances={"xatol": _BALANCED})
        _, slack = self._try(chosen, np.exp(found.x))
        return found.success & (slack > 0)


class _Stretch(NamedTuple):
    """A range of lengths on which a ratio only rises or only falls; ``after`` is its start, and 0 for the first."""

    after: float
    low: float
    high: float
    at_low: float
    at_high: float
    over: tuple[Term, ...]
    under: tuple[Term, ...]
    loads: tuple[float, float, float]


class LevelSets:
    """The lengths at which a ratio of two curves is above a level, and what offloading them loads."""

    def __init__(self, tables: LoadTables, denominator: Curve) -> None:
        self._tables, self._numerator, self._denominator = tables, tables.local_prefill_s, denominator
        self._stretches = list(self._monotone_stretches())
        self._all_local_s = tables.local_total_s

    def ratio(self, lengths: Floats) -> Floats:
        """The ratio at lengths."""
        return self._numerator(lengths) / self._denominator(lengths)

    def loads(self, levels: Floats) -> _Loads:
        """What offloading the lengths with a ratio above levels loads, and what the others do."""
        remote_s, sent_bytes, gone_s = (np.zeros(len(levels)) for _ in range(3))
        for stretch in self._stretches:
            lowest, highest = sorted((stretch.at_low, stretch.at_high))
            whole = lowest > levels
            for sums, value in zip((remote_s, sent_bytes, gone_s), stretch.loads, strict=True):
                sums[whole] += value
            (inside,) = np.nonzero(~whole & (highest > levels))
            if len(inside):
                root = _reach(stretch, levels[inside])
                rises = stretch.at_high > stretch.at_low
                ends = (root, np.full_like(root, stretch.high)) if rises else (np.full_like(root, stretch.after), root)
                for sums, values in zip((remote_s, sent_bytes, gone_s), self._between(*ends), strict=True):
                    sums[inside] += values
        return _Loads(remote_s, sent_bytes, np.maximum(self._all_local_s - gone_s, 0.0))

    def _between(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Loads of the lengths of ranges, if offloaded, and what they would load if kept."""
        above, beyond = self._tables.loads(low), self._tables.loads(high)
        return above[0] - beyond[0], above[1] - beyond[1], beyond[2] - above[2]

    def _monotone_stretches(self) -> list[_Stretch]:
        tables, stretches = self._tables, []
        breaks = merged_breaks((self._numerator, self._denominator), tables.low, tables.high)
        for a, b in itertools.pairwise(breaks if len(breaks) > 1 else [tables.low, tables.high]):
            over, under = terms_at(self._numerator, b), terms_at(self._denominator, b)
            slope = [(c * d * (e - f), e + f - 1.0) for c, e in over for d, f in under]
            for x0, x1 in itertools.pairwise([a, *sign_changes(slope, a, b), b] if a < b else [a, b]):
                at_low, at_high = (evaluate_terms(over, x) / evaluate_terms(under, x) for x in (x0, x1))
                after = 0.0 if x0 == tables.low else x0
                loads = [float(each[0]) for each in self._between(np.array([after]), np.array([x1]))]
                stretches.append(_Stretch(after, x0, x1, at_low, at_high, over, under, (loads[0], loads[1], loads[2])))
        return stretches


def _reach(stretch: _Stretch, levels: Floats) -> Floats:
    """Where the ratio, which only rises or only falls on a stretch, reaches levels."""
    over_slope, under_slope = slope_of(stretch.over), slope_of(stretch.under)

    def excess_and_slope(x: Floats) -> tuple[Floats, Floats]:
        excess = sum_of(stretch.over, x) - levels * sum_of(stretch.under, x)
        return excess, sum_of(over_slope, x) - levels * sum_of(under_slope, x)

    low, high = np.full_like(levels, stretch.low), np.full_like(levels, stretch.high)
    guess = low + (levels - stretch.at_low) / (stretch.at_high - stretch.at_low) * (high - low)
    return newton_in_bracket(excess_and_slope, low, high, guess, stretch.at_high > stretch.at_low)
