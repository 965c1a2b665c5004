"""Curves over prompt length: prefill latency in seconds, KVCache size in bytes.

A curve is, on each of its pieces, a sum of powers ``c * l**e``. Tables joined by straight lines in log-log space
(one term), tables joined straight in length (two) and quadratic formulas (three) all have this form, products
and ratios of them too; and the mean of a power over the usual length distributions has a closed form. So every
expectation in this package is exact, and the sign changes of any combination of curves can be isolated.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

from msgspec import Struct

from prfaas_opt.numerics import Term, evaluate_terms, sign_changes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Piece(Struct, frozen=True):
    """``sum(c * l**e)`` for lengths in ``(low, high]``, in tokens."""

    low: float
    high: float
    terms: tuple[Term, ...]


class Curve(Struct, frozen=True, dict=True):
    """A function of prompt length, defined on ``(0, upper]`` tokens.

    Attributes:
        pieces: contiguous, from 0 upwards.
        measured_low_tokens: where the data start; below it the curve is assumed.
        measured_high_tokens: where the data end; beyond it, up to ``upper``, a stated extrapolation.
    """

    pieces: tuple[Piece, ...]
    measured_low_tokens: float
    measured_high_tokens: float

    @property
    def upper(self) -> float:
        """The longest length the curve is defined at, in tokens."""
        return self.pieces[-1].high

    @cached_property
    def _highs(self) -> list[float]:
        return [piece.high for piece in self.pieces]

    @overload
    def __call__(self, lengths: float) -> float: ...
    @overload
    def __call__(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]: ...

    def __call__(self, lengths: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
        """The curve's value at a length or an array of lengths, in tokens.

        Raises:
            ValueError: a length is not in ``(0, upper]``.
        """
        if not isinstance(lengths, int | float):
            return self._evaluate_array(lengths)
        if not 0 < lengths <= self.upper:
            raise ValueError(f"length {lengths:,.0f} is outside the curve's range, 1 to {self.upper:,.0f} tokens")
        return evaluate_terms(self.pieces[bisect.bisect_left(self._highs, lengths)].terms, lengths)

    def _evaluate_array(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        if lengths.size and not (lengths.min() > 0 and lengths.max() <= self.upper):
            raise ValueError(f"lengths outside the curve's range, 1 to {self.upper:,.0f} tokens")
        import numpy as np

        if not (lengths[1:] >= lengths[:-1]).all():
            order = np.argsort(lengths)
            values = np.empty(lengths.shape)
            values[order] = self._evaluate_array(lengths[order])
            return values
        ends = np.searchsorted(lengths, self._highs, side="right").tolist()
        stretches = []
        for piece, start, end in zip(self.pieces, [0, *ends], ends, strict=False):
            x = lengths[start:end]
            stretch = np.zeros(len(x))
            for coefficient, exponent in piece.terms:
                stretch += coefficient * (x if exponent == 1.0 else x**exponent if exponent else 1.0)
            stretches.append(stretch)
        return np.concatenate(stretches)

    def scaled(self, factor: float) -> Curve:
        """The curve times a positive factor.

        >>> table_curve([1, 2], [3.0, 4.0], linear).scaled(2.0)(1)
        6.0
        """
        pieces = tuple(
            Piece(piece.low, piece.high, tuple((factor * c, e) for c, e in piece.terms)) for piece in self.pieces
        )
        return Curve(pieces, self.measured_low_tokens, self.measured_high_tokens)

    def stretched(self, factor: float) -> Curve:
        """The curve at ``factor`` times each length.

        >>> table_curve([1, 4], [3.0, 6.0], linear).stretched(2.0)(1)
        4.0
        """
        pieces = tuple(
            Piece(
                whole_tokens(piece.low / factor),
                whole_tokens(piece.high / factor),
                tuple((c * factor**e, e) for c, e in piece.terms),
            )
            for piece in self.pieces
        )
        return Curve(pieces, self.measured_low_tokens / factor, self.measured_high_tokens / factor)

    def squared(self) -> Curve:
        """The curve times itself.

        >>> table_curve([1, 4], [1.0, 4.0], linear).squared()(3)
        9.0
        """
        pieces = tuple(
            Piece(piece.low, piece.high, tuple((a * b, ea + eb) for a, ea in piece.terms for b, eb in piece.terms))
            for piece in self.pieces
        )
        return Curve(pieces, self.measured_low_tokens, self.measured_high_tokens)

    @property
    def at_zero(self) -> float:
        """What is left of the curve at length zero: the launch of a prefill, the states of fixed size."""
        return math.fsum(c for c, exponent in self.pieces[0].terms if exponent == 0.0)

    @cached_property
    def slope_sign_changes(self) -> list[float]:
        """Lengths inside pieces where the curve turns from rising to falling or back."""
        return [
            x
            for piece in self.pieces
            for x in sign_changes([(c * e, e - 1) for c, e in piece.terms if e], max(piece.low, 1e-9), piece.high)
        ]

    def falls_between(self, low: float, high: float) -> tuple[float, float] | None:
        """The first stretch inside ``[low, high]`` where the curve falls, or None if it never does."""
        inner = [x for x in [*self._highs, *self.slope_sign_changes] if low < x < high]
        points = sorted({low, *inner, high})
        for a, b in itertools.pairwise(points):
            if self(b) < self(a) * (1 - 1e-12):
                return a, b
        return None


def whole_tokens(tokens: float) -> float:
    """The whole number that a length is but for rounding, else the length.

    >>> whole_tokens(8192 / (1 / 3)), whole_tokens(0.5)
    (24576.0, 0.5)
    """
    whole = round(tokens)
    return float(whole) if abs(tokens - whole) <= 1e-12 * tokens else tokens


def log_log(lengths: Sequence[float], values: Sequence[float]) -> tuple[Piece, ...]:
    """Points joined by straight lines in log-log space: a power law between neighbours.

    >>> curve = table_curve([1024, 8192], [0.44, 0.72], log_log)
    >>> round(curve(math.sqrt(1024 * 8192)), 6) == round(math.sqrt(0.44 * 0.72), 6)
    True
    """
    pieces = []
    for x0, x1, y0, y1 in zip(lengths, lengths[1:], values, values[1:], strict=False):
        exponent = math.log(y1 / y0) / math.log(x1 / x0)
        pieces.append(Piece(x0, x1, ((y0 / x0**exponent, exponent),)))
    return tuple(pieces)


def linear(lengths: Sequence[float], values: Sequence[float]) -> tuple[Piece, ...]:
    """Points joined straight in length."""
    pieces = []
    for x0, x1, y0, y1 in zip(lengths, lengths[1:], values, values[1:], strict=False):
        slope = (y1 - y0) / (x1 - x0)
        pieces.append(Piece(x0, x1, ((y0 - slope * x0, 0.0), (slope, 1.0))))
    return tuple(pieces)


INTERPOLATIONS: dict[str, Callable[[Sequence[float], Sequence[float]], tuple[Piece, ...]]] = {
    "log-log": log_log,
    "linear": linear,
}


def _hold_first_value(pieces: tuple[Piece, ...]) -> tuple[Term, ...]:
    return ((evaluate_terms(pieces[0].terms, pieces[0].low), 0.0),)


def _keep_first_slope(pieces: tuple[Piece, ...]) -> tuple[Term, ...]:
    """The straight line through the ends of the first piece."""
    first = pieces[0]
    ends = [evaluate_terms(first.terms, x) for x in (first.low, first.high)]
    return linear([first.low, first.high], ends)[0].terms


BELOW_RANGE = {"latency": _hold_first_value, "size": _keep_first_slope}


def table_curve(
    lengths: Sequence[float],
    values: Sequence[float],
    interpolation: Callable[[Sequence[float], Sequence[float]], tuple[Piece, ...]],
    quantity: str = "latency",
    extrapolate_to_tokens: float | None = None,
) -> Curve:
    """A curve through measured points.

    Args:
        lengths: ascending, in tokens, at least two.
        values: positive, one a length.
        interpolation: one of ``INTERPOLATIONS``.
        quantity: ``"latency"`` holds the first value below the first length, ``"size"`` keeps the first
            segment's slope.
        extrapolate_to_tokens: continue the last piece's law to this length; None ends at the last point.

    >>> size = table_curve([1024, 8192], [2000.0, 9168.0], linear, "size")
    >>> size(512), size.measured_low_tokens
    (1488.0, 1024)
    """
    return piecewise_curve(interpolation(lengths, values), quantity, extrapolate_to_tokens)


def piecewise_curve(pieces: tuple[Piece, ...], quantity: str, extrapolate_to_tokens: float | None = None) -> Curve:
    """A curve from the pieces of its measured range, completed below it and, if asked, above."""
    first, last = pieces[0], pieces[-1]
    below = (Piece(0.0, first.low, BELOW_RANGE[quantity](pieces)),) if first.low > 0 else ()
    above = (
        (Piece(last.high, extrapolate_to_tokens, last.terms),)
        if extrapolate_to_tokens is not None and extrapolate_to_tokens > last.high
        else ()
    )
    return Curve((*below, *pieces, *above), first.low, last.high)


def merged_breaks(curves: Sequence[Curve], low: float, high: float) -> list[float]:
    """``low``, ``high`` and every break of the curves between them, ascending."""
    inner = {piece.high for curve in curves for piece in curve.pieces if low < piece.high < high}
    return sorted({low, high, *inner})


def terms_at(curve: Curve, length: float) -> tuple[Term, ...]:
    """The terms of the piece that holds a length, in tokens."""
    return curve.pieces[bisect.bisect_left(curve._highs, length)].terms


def combined(parts: Sequence[tuple[float, Curve]], constant: float = 0.0) -> Curve:
    """A sum of curves, each times a factor, and a constant, where all of them are defined.

    >>> line = table_curve([1, 4], [1.0, 4.0], linear)
    >>> combined([(2.0, line), (-1.0, line)], 5.0)(3)
    8.0
    """
    curves = [curve for _, curve in parts]
    breaks = merged_breaks(curves, 0.0, min(curve.upper for curve in curves))
    pieces = []
    for low, high in itertools.pairwise(breaks):
        terms = [(factor * c, e) for factor, curve in parts for c, e in terms_at(curve, high)]
        pieces.append(Piece(low, high, (*terms, (constant, 0.0))))
    return _joined(pieces, curves)


def larger_of(one: Curve, other: Curve) -> Curve:
    """The larger of two curves at every length where both are defined; their crossings are isolated, not sampled.

    >>> rising, level = (table_curve([1, 4], values, linear) for values in ([1.0, 4.0], [2.0, 2.0]))
    >>> larger_of(rising, level)(1), larger_of(rising, level)(4)
    (2.0, 4.0)
    """
    pieces = []
    for low, high in itertools.pairwise(merged_breaks((one, other), 0.0, min(one.upper, other.upper))):
        a, b = terms_at(one, high), terms_at(other, high)
        difference = [*a, *((-c, e) for c, e in b)]
        for x0, x1 in itertools.pairwise([low, *sign_changes(difference, max(low, 1e-9), high), high]):
            pieces.append(Piece(x0, x1, a if evaluate_terms(difference, 0.5 * (x0 + x1)) >= 0 else b))
    return _joined(pieces, (one, other))


def _joined(pieces: Sequence[Piece], curves: Sequence[Curve]) -> Curve:
    first = max(curve.measured_low_tokens for curve in curves)
    return Curve(tuple(pieces), first, min(curve.measured_high_tokens for curve in curves))


def scaled_by_ratio(base: Curve, numerator: Curve, denominator: Curve) -> Curve:
    """``base * numerator / denominator`` at every length: a curve carried to other hardware by a known ratio.

    Raises:
        ValueError: a piece of the denominator has several terms, so that the ratio is no sum of powers.

    >>> base = table_curve([100, 1000], [1.0, 2.0], log_log)
    >>> slow = table_curve([100, 1000], [3.0, 6.0], linear)
    >>> fast = table_curve([100, 1000], [1.0, 3.0], log_log)
    >>> round(scaled_by_ratio(base, slow, fast)(1000), 9)
    4.0
    """
    curves = (base, numerator, denominator)
    breaks = merged_breaks(curves, 0.0, min(curve.upper for curve in curves))
    pieces = []
    for low, high in itertools.pairwise(breaks):
        divisor = terms_at(denominator, high)
        if len(divisor) != 1:
            raise ValueError("the curve divided by must be a log-log table")
        ((d_coefficient, d_exponent),) = divisor
        terms = tuple(
            (a * b / d_coefficient, ea + eb - d_exponent)
            for a, ea in terms_at(base, high)
            for b, eb in terms_at(numerator, high)
        )
        pieces.append(Piece(low, high, terms))
    return _joined(pieces, curves)
