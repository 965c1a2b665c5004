"""Mean and P90 of the prefill time of many thresholds at once, without queueing: ``latency.ttft`` on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.latency.ttft import LatencyBand, Ttft
from prfaas_opt.numerics import evaluate_terms, slope_of
from prfaas_opt.planning.batch.roots import newton_in_bracket, sum_of
from prfaas_opt.profiles.curve import merged_breaks, terms_at
from prfaas_opt.throughput.expectation import Expectation

if TYPE_CHECKING:
    from prfaas_opt.numerics import Term
    from prfaas_opt.planning.batch.tables import Floats, Ints, LoadTables
    from prfaas_opt.profiles.curve import Curve

_QUANTILE = 0.9


class PrefillTimes:
    """The prefill time where lengths up to a threshold stay, and the others prefill remotely."""

    def __init__(self, tables: LoadTables) -> None:
        self._tables, self._lengths = tables, tables.lengths
        self._curves = tables.local_latency_s, tables.remote.latency_s
        self._kept, self._offloaded = (Expectation(curve, self._lengths) for curve in self._curves)
        self._simple = not self._lengths.atoms and all(
            curve.falls_between(tables.low, tables.high) is None for curve in self._curves
        )
        self._inverses = [_Inverse(curve, tables.low, tables.high) for curve in self._curves] if self._simple else []
        self._longest = self._lengths.quantile(_QUANTILE)
        self._known: dict[int, float] = {}

    def means_s(self, thresholds: Ints) -> Floats:
        """The mean, s."""
        x = thresholds.astype(np.float64)
        return self._kept.at_most_each(x) + self._offloaded.above_each(x)

    def p90s_s(self, thresholds: Ints) -> Floats:
        """The least time within which 90 % of all requests prefill, s."""
        found = np.empty(len(thresholds))
        distinct, where = np.unique(thresholds, return_inverse=True)
        if self._simple:
            return self._distinct_p90s_s(distinct.astype(np.float64))[where]
        for threshold in distinct.tolist():
            if threshold not in self._known:
                self._known[threshold] = self._p90_s(threshold)
        found = np.array([self._known[threshold] for threshold in distinct.tolist()])
        return found[where]

    def _p90_s(self, threshold: int) -> float:
        local, remote = self._curves
        bands = [LatencyBand(0.0, threshold, local), LatencyBand(threshold, np.inf, remote)]
        used = [band for band in bands if self._lengths.moment(0.0, band.low, band.high) > 0]
        return Ttft(self._lengths, used).quantile_s(_QUANTILE)

    def _distinct_p90s_s(self, thresholds: Floats) -> Floats:
        """Where all that is slower than a length of the upper pool is longer too, its quantile is that of lengths."""
        tables, (local, remote) = self._tables, self._curves
        inside = np.clip(thresholds, tables.low, tables.high)
        slowest_local = local(inside)
        if_longest = np.where(self._longest > inside, remote(np.array([self._longest])), 0.0)
        by_length = (thresholds <= tables.low) | ((self._longest > inside) & (if_longest >= slowest_local))
        at_longest = np.where(thresholds <= tables.low, remote(np.array([self._longest])), if_longest)
        all_local = thresholds >= tables.high
        p90 = np.where(all_local, local(np.array([self._longest])), at_longest)
        (others,) = np.nonzero(~by_length & ~all_local)
        if len(others):
            p90[others] = self._solved(inside[others])
        return p90

    def _solved(self, thresholds: Floats) -> Floats:
        """The root of the share within a time."""
        from scipy.optimize.elementwise import find_root

        local, remote = self._curves
        low = np.minimum(local(np.full_like(thresholds, self._tables.low)), remote(thresholds))
        high = np.maximum(local(thresholds), remote(np.full_like(thresholds, self._tables.high)))
        times = np.where(self._excess(low, thresholds) >= 0, low, high)
        (between,) = np.nonzero((times == high) & (self._excess(high, thresholds) > 0))
        if len(between):
            bracket = low[between], high[between]
            times[between] = find_root(self._excess, bracket, args=(thresholds[between],)).x
        return times

    def _excess(self, times: Floats, thresholds: Floats) -> Floats:
        """The share of the requests that prefill within a time, over what must."""
        kept, longest = (inverse.at(times) for inverse in self._inverses)
        within = self._tables.shares_at_most(np.minimum(kept, thresholds))
        beyond = np.maximum(longest, thresholds)
        return within + self._tables.shares_at_most(beyond) - self._tables.shares_at_most(thresholds) - _QUANTILE


class _Inverse:
    """The longest length that prefills within a time, of a curve that never falls."""

    def __init__(self, curve: Curve, low: float, high: float) -> None:
        self._curve, self._low = curve, low
        self._breaks = np.array(merged_breaks([curve], low, high))
        self._values = np.array([evaluate_terms(terms_at(curve, x), x) for x in self._breaks.tolist()])
        self._terms = [terms_at(curve, x) for x in self._breaks[1:].tolist()]

    def at(self, times: Floats) -> Floats:
        """The lengths; the shortest of all where not even that is as fast."""
        index = np.searchsorted(self._values, times, side="right")
        lengths = np.where(index == 0, self._low, self._breaks[np.minimum(index, len(self._breaks)) - 1])
        for number, terms in enumerate(self._terms, start=1):
            (here,) = np.nonzero(index == number)
            if len(here):
                lengths[here] = _solve(terms, times[here], self._breaks[number - 1], self._breaks[number])
        return lengths


def _solve(terms: tuple[Term, ...], times: Floats, low: float, high: float) -> Floats:
    """Where a sum of powers that rises from low to high reaches times."""
    if len(terms) == 1 and terms[0][1] != 0:
        ((coefficient, exponent),) = terms
        power: Floats = np.clip((times / coefficient) ** (1.0 / exponent), low, high)
        return power
    below, above, slope = np.full_like(times, low), np.full_like(times, high), slope_of(terms)
    middle = 0.5 * (below + above)
    return newton_in_bracket(lambda x: (sum_of(terms, x) - times, sum_of(slope, x)), below, above, middle, True)
