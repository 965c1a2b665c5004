"""Distributions of a length in tokens, with exact tail shares, partial moments and quantiles.

A distribution is a weighted set of continuous parts (each with closed-form power moments) and atoms (single lengths).
Mixtures flatten into that form, so everything above this module handles one kind.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prfaas_opt.numerics import at_or_just_below, first_reaching

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ContinuousPart(Protocol):
    """A density on ``[low, high]`` tokens whose partial power moments have a closed form."""

    @property
    def low(self) -> float:
        """The shortest length, in tokens."""

    @property
    def high(self) -> float:
        """The longest length, in tokens."""

    def scaled(self, factor: float) -> ContinuousPart | None:
        """A density of the same kind whose mean is ``factor`` times as long; None where there is none."""

    def up_to(self, high: float) -> ContinuousPart:
        """The density given that no length is above ``high``, itself above ``low``."""

    def moment(self, power: float, a: float, b: float) -> float:
        """``E[L**power; a < L <= b]`` for ``low <= a <= b <= high``."""

    def moments(
        self, power: float, a: float | NDArray[np.float64], b: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """``moment`` on many intervals; one of the ends may be a number, that all have."""


class ThresholdClasses(NamedTuple):
    """Share and mean length, in tokens, of the requests longer than each of many thresholds, and of the others."""

    share_above: NDArray[np.float64]
    mean_above: NDArray[np.float64]
    share_at_most: NDArray[np.float64]
    mean_at_most: NDArray[np.float64]


@dataclass(frozen=True)
class LengthDistribution:
    """A length in tokens as a random variable L.

    Attributes:
        parts: (weight, density) pairs.
        atoms: (length, probability) pairs, ascending by length.
    """

    parts: tuple[tuple[float, ContinuousPart], ...] = ()
    atoms: tuple[tuple[float, float], ...] = ()

    @cached_property
    def low(self) -> float:
        """The shortest length that occurs, in tokens."""
        return min([part.low for _, part in self.parts] + [x for x, _ in self.atoms[:1]])

    @cached_property
    def high(self) -> float:
        """The longest length that occurs, in tokens."""
        return max([part.high for _, part in self.parts] + [x for x, _ in self.atoms[-1:]])

    @cached_property
    def atom_lengths(self) -> list[float]:
        """The lengths of the atoms, ascending, in tokens."""
        return [x for x, _ in self.atoms]

    def moment(self, power: float, a: float = 0.0, b: float = math.inf) -> float:
        """``E[L**power; a < L <= b]``, exact.

        >>> constant(3.0).moment(2.0)
        9.0
        """
        continuous = math.fsum(
            weight * part.moment(power, max(a, part.low), min(b, part.high))
            for weight, part in self.parts
            if a < part.high and b > part.low
        )
        first, last = bisect.bisect_right(self.atom_lengths, a), bisect.bisect_right(self.atom_lengths, b)
        return continuous + math.fsum(w * x**power for x, w in self.atoms[first:last])

    def scaled(self, factor: float) -> LengthDistribution | None:
        """A distribution of the same kind whose mean is ``factor`` times as long; None where there is none.

        Lengths are multiplied; but a truncated log-normal keeps its range, and its ``mu`` moves.

        >>> table([(10.0, 1.0), (20.0, 1.0)]).scaled(1.5).mean
        22.5
        """
        scaled = [(weight, part.scaled(factor)) for weight, part in self.parts]
        parts = tuple((weight, part) for weight, part in scaled if part is not None)
        if len(parts) < len(scaled):
            return None
        return LengthDistribution(parts, tuple((factor * x, w) for x, w in self.atoms))

    def up_to(self, high: float, factor: float = 1.0) -> LengthDistribution | None:
        """The lengths of at most ``high`` tokens, their probabilities times a factor; None where there are none.

        The sum of the probabilities is what is left of 1.

        >>> constant(3.0).up_to(2.0) is None, table([(1.0, 1.0), (5.0, 1.0)]).up_to(2.0, 2.0).moment(0.0)
        (True, 1.0)
        """
        parts = []
        for weight, part in self.parts:
            if part.low < high:
                share = 1.0 if part.high <= high else part.moment(0.0, part.low, high)
                parts.append((factor * weight * share, part.up_to(min(part.high, high))))
        atoms = tuple((x, factor * w) for x, w in self.atoms if x <= high)
        return LengthDistribution(tuple(parts), atoms) if parts or atoms else None

    @cached_property
    def mean(self) -> float:
        """``E[L]`` in tokens."""
        return self.moment(1.0)

    def share_above(self, length: float) -> float:
        """``P(L > length)``."""
        return self.moment(0.0, length)

    def share_at_most(self, length: float) -> float:
        """``P(L <= length)``."""
        return self.moment(0.0, 0.0, length)

    def mean_above(self, length: float) -> float | None:
        """``E[L | L > length]`` in tokens; None where no longer length occurs."""
        share = self.share_above(length)
        return self.moment(1.0, length) / share if share > 0 else None

    def mean_at_most(self, length: float) -> float | None:
        """``E[L | L <= length]`` in tokens; None where no such length occurs."""
        share = self.share_at_most(length)
        return self.moment(1.0, 0.0, length) / share if share > 0 else None

    def quantile(self, share: float) -> float:
        """The shortest length with ``P(L <= length) >= share``, in tokens.

        >>> table([(10.0, 1.0), (20.0, 3.0)]).quantile(0.25)
        10.0
        """
        reached = first_reaching(self.share_at_most, share, self.low, self.high)
        return at_or_just_below(self.atom_lengths, reached)

    @cached_property
    def first_threshold(self) -> int:
        """The longest whole length that no request is shorter than: a threshold there sends everything."""
        densities = [math.floor(part.low) for _, part in self.parts]
        return min([*densities, *(math.ceil(x) - 1 for x in self.atom_lengths[:1])])

    @cached_property
    def last_threshold(self) -> int:
        """The shortest whole length that no request is longer than: a threshold there keeps everything."""
        return math.ceil(self.high)

    def shortest_equivalent(self, threshold: int) -> int:
        """The shortest threshold that splits the requests as this one does.

        >>> table([(10.0, 1.0), (20.0, 3.0)]).shortest_equivalent(17)
        10
        """
        if any(part.low < threshold <= math.ceil(part.high) for _, part in self.parts):
            return threshold
        index = bisect.bisect_right(self.atom_lengths, threshold)
        ends = [math.ceil(part.high) for _, part in self.parts if math.ceil(part.high) <= threshold]
        ends += [math.ceil(x) for x in self.atom_lengths[index - 1 : index]]
        return max(ends, default=self.first_threshold)

    @cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """Every whole length from ``first_threshold`` to ``last_threshold``; only the atoms where all is atoms."""
        import numpy as np

        if not self.parts:
            return np.array([self.first_threshold, *self.atom_lengths], dtype=np.float64)
        return np.arange(self.first_threshold, self.last_threshold + 1, dtype=np.float64)

    @cached_property
    def classes(self) -> ThresholdClasses:
        """Share and mean length of the requests above and up to each of ``thresholds``, summed from their own ends."""
        import numpy as np

        (share_above, share_at_most), (tokens_above, tokens_at_most) = map(self._sums_by_threshold, (0.0, 1.0))
        # Where a class is nearly empty its mean is a ratio of rounding errors; it still lies inside the class.
        within = np.clip(self.thresholds, self.low, self.high)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_above = np.fmin(np.fmax(tokens_above / share_above, within), self.high)
            mean_at_most = np.fmax(np.fmin(tokens_at_most / share_at_most, within), self.low)
        return ThresholdClasses(share_above, mean_above, share_at_most, mean_at_most)

    def _sums_by_threshold(self, power: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``E[L**power; L > t]`` and ``E[L**power; L <= t]`` at each threshold."""
        import numpy as np

        above, at_most = np.zeros(len(self.thresholds)), np.zeros(len(self.thresholds))
        for weight, part in self.parts:
            inside = np.clip(self.thresholds, part.low, part.high)
            low, high = np.full_like(inside, part.low), np.full_like(inside, part.high)
            above += np.where(inside < part.high, weight * part.moments(power, inside, high), 0.0)
            at_most += np.where(inside > part.low, weight * part.moments(power, low, inside), 0.0)
        if self.atoms:
            contributions = np.array([w * x**power for x, w in self.atoms])
            index = np.searchsorted(self.atom_lengths, self.thresholds, side="right")
            above += np.append(np.cumsum(contributions[::-1])[::-1], 0.0)[index]
            at_most += np.insert(np.cumsum(contributions), 0, 0.0)[index]
        return above, at_most


def constant(length: float) -> LengthDistribution:
    """Every request has this length, in tokens."""
    return LengthDistribution(atoms=((length, 1.0),))


def table(points: Iterable[tuple[float, float]]) -> LengthDistribution:
    """Lengths in tokens with their weights, normalized; equal lengths are added up."""
    weights: dict[float, float] = {}
    for length, weight in points:
        weights[length] = weights.get(length, 0.0) + weight
    total = math.fsum(weights.values())
    return LengthDistribution(atoms=tuple((x, w / total) for x, w in sorted(weights.items()) if w > 0))


def mixture(components: Sequence[tuple[float, LengthDistribution]]) -> LengthDistribution:
    """Weighted distributions, the weights normalized."""
    total = math.fsum(weight for weight, _ in components)
    parts = tuple((weight / total * inner, part) for weight, component in components for inner, part in component.parts)
    atoms: dict[float, float] = {}
    for weight, component in components:
        for length, probability in component.atoms:
            atoms[length] = atoms.get(length, 0.0) + weight / total * probability
    return LengthDistribution(parts, tuple(sorted(atoms.items())))
