"""Exact means of a curve over a length distribution, whole or on a range of lengths."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.profiles.curve import merged_breaks, terms_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prfaas_opt.numerics import Term
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.workload.distribution import ContinuousPart, LengthDistribution


class _Segment(Struct, frozen=True):
    """Where one density meets one piece of the curve; ``before`` and ``after`` are the sums outside it."""

    low: float
    high: float
    terms: tuple[Term, ...]
    before: float
    after: float


def _integral(part: ContinuousPart, terms: tuple[Term, ...], low: float, high: float) -> float:
    total = 0.0
    for coefficient, exponent in terms:
        total += coefficient * part.moment(exponent, low, high)
    return total


def _integrals(
    part: ContinuousPart, terms: tuple[Term, ...], low: float | NDArray[np.float64], high: float | NDArray[np.float64]
) -> NDArray[np.float64] | float:
    return sum(coefficient * part.moments(exponent, low, high) for coefficient, exponent in terms)


class Expectation:
    """``E[f(L); a < L <= b]`` of a curve f, in the curve's unit, without quadrature or sampling.

    Sums from both ends are kept, so a small tail is as exact, relatively, as the whole.

    >>> from prfaas_opt.profiles.curve import linear, table_curve
    >>> from prfaas_opt.workload.distribution import table
    >>> f = Expectation(table_curve([1, 10], [1.0, 10.0], linear), table([(2.0, 1.0), (4.0, 1.0)]))
    >>> f.total, f.at_most(2.0), f.above(2.0)
    (3.0, 1.0, 2.0)
    """

    def __init__(self, curve: Curve, distribution: LengthDistribution) -> None:
        self._parts = [(weight, part, self._segments(curve, part)) for weight, part in distribution.parts]
        self._atom_lengths = distribution.atom_lengths
        self._atoms_before = [0.0]
        self._atoms_after = [0.0]
        if distribution.atoms:
            import numpy as np

            lengths, weights = np.array(distribution.atoms).T
            values = weights * curve(lengths)
            self._atoms_before += np.cumsum(values).tolist()
            self._atoms_after = [*np.cumsum(values[::-1])[::-1].tolist(), 0.0]
        self.total = self.above(0.0)

    @staticmethod
    def _segments(curve: Curve, part: ContinuousPart) -> list[_Segment]:
        breaks = merged_breaks([curve], part.low, part.high)
        stretches = [(a, b, terms_at(curve, b)) for a, b in itertools.pairwise(breaks)]
        sums = [_integral(part, terms, a, b) for a, b, terms in stretches]
        return [_Segment(a, b, terms, sum(sums[:i]), sum(sums[i + 1 :])) for i, (a, b, terms) in enumerate(stretches)]

    def at_most(self, length: float) -> float:
        """``E[f(L); L <= length]``."""
        total = self._atoms_before[bisect.bisect_right(self._atom_lengths, length)]
        for weight, part, segments in self._parts:
            if length >= part.high:
                total += weight * segments[-1].before
                segment, length_here = segments[-1], part.high
            elif length <= part.low:
                continue
            else:
                segment = next(s for s in segments if length <= s.high)
                total += weight * segment.before
                length_here = length
            total += weight * _integral(part, segment.terms, segment.low, length_here)
        return total

    def above(self, length: float) -> float:
        """``E[f(L); L > length]``."""
        total = self._atoms_after[bisect.bisect_right(self._atom_lengths, length)]
        for weight, part, segments in self._parts:
            if length >= part.high:
                continue
            if length <= part.low:
                segment, length_here = segments[0], part.low
            else:
                segment = next(s for s in segments if length <= s.high)
                length_here = length
            total += weight * (segment.after + _integral(part, segment.terms, length_here, segment.high))
        return total

    def at_most_each(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """``at_most`` of many lengths.

        >>> import numpy as np
        >>> from prfaas_opt.profiles.curve import linear, table_curve
        >>> from prfaas_opt.workload.distribution import table
        >>> f = Expectation(table_curve([1, 10], [1.0, 10.0], linear), table([(2.0, 1.0), (4.0, 1.0)]))
        >>> f.at_most_each(np.array([1.0, 2.0, 5.0])).tolist(), f.above_each(np.array([1.0, 2.0])).tolist()
        ([0.0, 1.0, 3.0], [3.0, 2.0])
        """
        import numpy as np

        totals = np.array(self._atoms_before)[np.searchsorted(self._atom_lengths, lengths, side="right")]
        for weight, part, segments in self._parts:
            inside = np.clip(lengths, part.low, part.high)
            for segment in segments:
                (here,) = np.nonzero((inside > segment.low) & (inside <= segment.high))
                x = inside[here]
                totals[here] += weight * (segment.before + _integrals(part, segment.terms, segment.low, x))
        return totals

    def above_each(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """``above`` of many lengths."""
        import numpy as np

        totals = np.array(self._atoms_after)[np.searchsorted(self._atom_lengths, lengths, side="right")]
        for weight, part, segments in self._parts:
            inside = np.clip(lengths, part.low, part.high)
            for segment in segments:
                at_start = segment is segments[0]
                (here,) = np.nonzero(
                    ((inside >= segment.low) if at_start else (inside > segment.low))
                    & (inside <= segment.high)
                    & (inside < part.high)
                )
                x = inside[here]
                totals[here] += weight * (segment.after + _integrals(part, segment.terms, x, segment.high))
        return totals

    def between(self, low: float, high: float) -> float:
        """``E[f(L); low < L <= high]``, as exact as its nearer end."""
        if low <= 0:
            return self.at_most(high)
        return self.above(low) - self.above(high)
