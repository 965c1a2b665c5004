"""Prefill of prompts whose first tokens are found in a prefix cache, as it was measured."""

from __future__ import annotations

import itertools

from msgspec import Struct

from prfaas_opt.numerics import Term
from prfaas_opt.profiles.curve import Curve, Piece, merged_breaks, terms_at, whole_tokens


class CachedPrefill(Struct, frozen=True):
    """Seconds by cached and by uncached tokens.

    Attributes:
        cached_tokens: lengths of the prefix that was found, ascending, above 0.
        rows_s: for each of them, seconds by uncached length, all over the same lengths.
    """

    cached_tokens: tuple[float, ...]
    rows_s: tuple[Curve, ...]

    @property
    def uncached_tokens(self) -> tuple[float, ...]:
        """The uncached lengths it was measured at."""
        row = self.rows_s[0]
        return tuple(x for x in (piece.high for piece in row.pieces) if x >= row.measured_low_tokens)

    def along(self, uncached_s: Curve, cached_per_uncached: float) -> Curve:
        """The curve by uncached length of prompts that have so many cached tokens for each uncached one.

        At every uncached length, seconds are straight in the cached tokens between those that were measured, none of
        them being cached among those. A sum of powers stays one, so that expectations over it stay exact. The curve
        ends where the table does.

        Args:
            uncached_s: seconds by length where nothing is cached.
            cached_per_uncached: above 0.

        >>> from prfaas_opt.profiles.curve import linear, table_curve
        >>> none, all_ = (table_curve([10, 20], values, linear) for values in ([1.0, 2.0], [3.0, 6.0]))
        >>> curve = CachedPrefill((40.0,), (all_,)).along(none, 2.0)
        >>> curve(10), curve(20), curve.upper
        (2.0, 6.0, 20.0)
        """
        marks, rows = (0.0, *self.cached_tokens), (uncached_s, *self.rows_s)
        pieces: list[Piece] = []
        for (less, more), (one, other) in zip(itertools.pairwise(marks), itertools.pairwise(rows), strict=True):
            low, full = (whole_tokens(mark / cached_per_uncached) for mark in (less, more))
            high = min(full, one.upper, other.upper)
            if low >= high:
                break
            for a, b in itertools.pairwise(merged_breaks((one, other), low, high)):
                terms = _between(terms_at(one, b), terms_at(other, b), less, more, cached_per_uncached)
                pieces.append(Piece(a, b, terms))
            if high < full:
                break
        first = max(uncached_s.measured_low_tokens, self.rows_s[0].measured_low_tokens)
        last = pieces[-1].high
        if uncached_s.measured_high_tokens < min(whole_tokens(marks[1] / cached_per_uncached), last):
            last = uncached_s.measured_high_tokens
        return Curve(tuple(pieces), first, last)


def _between(
    one: tuple[Term, ...], other: tuple[Term, ...], less: float, more: float, cached_per_uncached: float
) -> tuple[Term, ...]:
    """``(1 - w) * one + w * other``, w growing straight with the length: 0 at ``less`` cached tokens, 1 at ``more``."""
    slope, offset = cached_per_uncached / (more - less), less / (more - less)
    found: dict[float, float] = {}
    for terms, constant, rising in ((one, 1.0 + offset, -slope), (other, -offset, slope)):
        for coefficient, exponent in terms:
            found[exponent] = found.get(exponent, 0.0) + coefficient * constant
            found[exponent + 1.0] = found.get(exponent + 1.0, 0.0) + coefficient * rising
    return tuple((coefficient, exponent) for exponent, coefficient in found.items() if coefficient != 0.0)
