"""Time to first token without queueing: the prefill time of a request where it is routed."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.numerics import at_or_just_below, evaluate_terms, first_reaching, sign_changes
from prfaas_opt.profiles.curve import merged_breaks, terms_at
from prfaas_opt.throughput.expectation import Expectation

if TYPE_CHECKING:
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.workload.distribution import LengthDistribution


class LatencyBand(Struct, frozen=True):
    """Lengths in ``(low, high]`` tokens, or a share of them, that prefill with one latency curve."""

    low: float
    high: float
    prefill_s: Curve
    share: float = 1.0


class Ttft:
    """Prefill seconds as a random variable, over the lengths of all requests.

    >>> from prfaas_opt.profiles.curve import linear, table_curve
    >>> from prfaas_opt.workload.distribution import table
    >>> band = LatencyBand(0, 100, table_curve([1, 100], [0.1, 10.0], linear))
    >>> ttft = Ttft(table([(10.0, 3.0), (50.0, 1.0)]), [band])
    >>> ttft.mean_s, ttft.share_within(1.0), ttft.quantile_s(0.9)
    (2.0, 0.75, 5.0)
    """

    def __init__(self, lengths: LengthDistribution, bands: Sequence[LatencyBand]) -> None:
        self._bands = bands
        self._densities = dataclasses.replace(lengths, atoms=())
        self.mean_s = sum(
            band.share * Expectation(band.prefill_s, lengths).between(band.low, band.high) for band in bands
        )
        atoms = sorted(
            (band.prefill_s(x), band.share * w) for x, w in lengths.atoms for band in bands if band.low < x <= band.high
        )
        self._atom_times = [time for time, _ in atoms]
        self._shares = [0.0, *itertools.accumulate(share for _, share in atoms)]

    def share_within(self, seconds: float) -> float:
        """Share of requests whose prefill takes ``seconds`` or less, exact for any curve."""
        share = self._shares[bisect.bisect_right(self._atom_times, seconds)]
        for band, a, b in self._stretches():
            excess = [*terms_at(band.prefill_s, b), (-seconds, 0.0)]
            for x0, x1 in itertools.pairwise([a, *sign_changes(excess, a, b), b]):
                if evaluate_terms(excess, 0.5 * (x0 + x1)) <= 0:
                    share += band.share * self._densities.moment(0.0, x0, x1)
        return share

    def quantile_s(self, quantile: float) -> float:
        """The least time within which a ``quantile`` of all requests prefill, s."""
        times = self._atom_times[:1] + self._atom_times[-1:]
        for band, a, b in self._stretches():
            turns = [x for x in band.prefill_s.slope_sign_changes if a < x < b]
            times += [evaluate_terms(terms_at(band.prefill_s, b), x) for x in (a, *turns, b)]
        reached = first_reaching(self.share_within, quantile, min(times), max(times))
        return at_or_just_below(self._atom_times, reached)

    def _stretches(self) -> list[tuple[LatencyBand, float, float]]:
        """Ranges of length with a density, on which one band's curve is one piece."""
        stretches = []
        for band in self._bands if self._densities.parts else ():
            low, high = max(band.low, self._densities.low), min(band.high, self._densities.high)
            breaks = merged_breaks([band.prefill_s], low, high) if low < high else []
            stretches += [(band, a, b) for a, b in itertools.pairwise(breaks)]
        return stretches
