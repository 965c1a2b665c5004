"""What a curve of latency or size must satisfy, whatever it was measured on; each test names the points that fail."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prfaas_opt.profiles.cached import CachedPrefill
    from prfaas_opt.profiles.curve import Curve

_BETWEEN = 64


class Miss(NamedTuple):
    """A length where a curve is not what it must be: its value there, and the limit on it."""

    length_tokens: float
    found: float
    limit: float


def stated_lengths(curve: Curve) -> list[float]:
    """The lengths a curve's data stand at: the points of a table, the ends of a formula's range; and where it ends."""
    low = curve.measured_low_tokens or 1.0
    return sorted({low, *(piece.high for piece in curve.pieces if piece.high > low)})


def many_lengths(curve: Curve) -> list[float]:
    """The lengths of the data and more between them."""
    stated = stated_lengths(curve)
    low, high = max(stated[0], 1.0), stated[-1]
    steps = (low * (high / low) ** (i / _BETWEEN) for i in range(1, _BETWEEN))
    return sorted({*stated, *steps})


def falls(curve: Curve, noise_share: float) -> list[Miss]:
    """Data lengths whose value is below that of a shorter one by more than the noise of both.

    >>> from prfaas_opt.profiles.curve import linear, table_curve
    >>> falls(table_curve([10, 20, 30], [4.0, 3.0, 5.0], linear), 0.01)[0].length_tokens
    20
    """
    misses, highest = [], 0.0
    ratio = (1.0 - noise_share) / (1.0 + noise_share)
    turns = [x for x in curve.slope_sign_changes if x > curve.measured_low_tokens]
    for length in sorted({*stated_lengths(curve), *turns}):
        value = curve(length)
        if value < highest * ratio * (1.0 - 1e-12):
            misses.append(Miss(length, value, highest * ratio))
        highest = max(highest, value)
    return misses


def above_convex(points: Sequence[tuple[float, float]], noise_share: float) -> list[Miss]:
    """Points that no convex curve comes near.

    A convex curve within the noise of every point exists exactly where each point is within the noise of the largest
    convex curve below all of them, taken at their upper ends: the lower hull.

    >>> above_convex([(1, 1.0), (2, 3.0), (3, 3.0)], 0.1)
    [Miss(length_tokens=2, found=3.0, limit=2.444...)]
    """
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) > 1 and _turns_down(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    misses = []
    widest = (1.0 + noise_share) / (1.0 - noise_share)
    for (x0, y0), (x1, y1) in itertools.pairwise(hull):
        for x, y in points:
            if x0 < x < x1:
                limit = (y0 + (y1 - y0) * (x - x0) / (x1 - x0)) * widest
                if y > limit * (1.0 + 1e-12):
                    misses.append(Miss(x, y, limit))
    return misses


def _turns_down(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


def below(curve: Curve, floor: Callable[[float], float]) -> list[Miss]:
    """Data lengths where a curve is below a floor; or else the worst length between them, if any."""
    stated = [Miss(x, curve(x), floor(x)) for x in stated_lengths(curve)]
    misses = [miss for miss in stated if miss.found < miss.limit * (1.0 - 1e-12)]
    if misses:
        return misses
    worst = min((Miss(x, curve(x), floor(x)) for x in many_lengths(curve)), key=lambda m: m.found / m.limit)
    return [worst] if worst.found < worst.limit * (1.0 - 1e-12) else []


def off(curve: Curve, reference: Callable[[float], float], noise_share: float, upper: float = math.inf) -> list[Miss]:
    """Data lengths, up to where the reference is known, at which a curve differs from it by more than the noise.

    >>> from prfaas_opt.profiles.curve import linear, table_curve
    >>> one, other = (table_curve([1, 2], values, linear) for values in ([1.0, 2.0], [1.0, 2.5]))
    >>> [miss.length_tokens for miss in off(other, one, 0.1)]
    [2]
    """
    lengths = [x for x in stated_lengths(curve) if x <= min(curve.upper, upper)]
    misses = [Miss(x, curve(x), reference(x)) for x in lengths]
    return [m for m in misses if not math.isclose(m.found, m.limit, rel_tol=noise_share)]


class CachedMiss(NamedTuple):
    """Cached and uncached tokens at which prefill takes other than it must: the seconds found, and the limit."""

    cached_tokens: float
    uncached_tokens: float
    found: float
    limit: float


def dearer_with_prefix(table: CachedPrefill, prefill_s: Curve, noise_share: float) -> list[CachedMiss]:
    """Measured points where a prompt takes longer, by more than the noise of both, than with less of it cached.

    A prompt of ``c + u`` tokens is compared with itself with each smaller prefix of the table, where that was measured
    over its length, and with nothing cached.

    >>> from prfaas_opt.profiles.cached import CachedPrefill
    >>> from prfaas_opt.profiles.curve import linear, table_curve
    >>> row, prefill = (table_curve([10, 20], values, linear) for values in ([3.0, 9.0], [5.0, 7.0]))
    >>> [miss.uncached_tokens for miss in dearer_with_prefix(CachedPrefill((5.0,), (row,)), prefill, 0.0)]
    []
    >>> prefill = table_curve([10, 25], [5.0, 8.0], linear)
    >>> dearer_with_prefix(CachedPrefill((5.0,), (row,)), prefill, 0.0)
    [CachedMiss(cached_tokens=5.0, uncached_tokens=20, found=9.0, limit=8.0...)]
    """
    widest = (1.0 + noise_share) / (1.0 - noise_share) * (1.0 + 1e-12)
    misses = []
    smaller = [(0.0, prefill_s)]
    for cached, row in zip(table.cached_tokens, table.rows_s, strict=True):
        for uncached in table.uncached_tokens:
            at = [(less, curve) for less, curve in smaller if cached + uncached - less <= curve.upper]
            least = min((curve(cached + uncached - less) for less, curve in at), default=math.inf)
            if row(uncached) > least * widest:
                misses.append(CachedMiss(cached, uncached, row(uncached), least * widest))
        smaller.append((cached, row))
    return misses


def cheaper_with_prefix(table: CachedPrefill, prefill_s: Curve, noise_share: float) -> list[CachedMiss]:
    """Measured points faster, by more than the noise of both, than a prompt of the uncached tokens alone.

    Attention over a prefix is paid for, cached or not.
    """
    least = (1.0 - noise_share) / (1.0 + noise_share)
    found = [
        CachedMiss(cached, uncached, row(uncached), prefill_s(uncached) * least)
        for cached, row in zip(table.cached_tokens, table.rows_s, strict=True)
        for uncached in table.uncached_tokens
        if uncached <= prefill_s.upper
    ]
    return [miss for miss in found if miss.found < miss.limit * (1.0 - 1e-12)]
