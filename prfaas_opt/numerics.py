"""Roots of scalar functions, exact enough to build proofs on.

scipy.optimize has good root finders, but importing it takes five times as long as numpy; a plan needs only these two.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence

Term = tuple[float, float]
"""A coefficient and an exponent: ``c * x**e``."""

_RELATIVE_TOLERANCE = 4 * math.ulp(1.0)
_SHARE_ROUNDING = 1e-14


def evaluate_terms(terms: Sequence[Term], x: float) -> float:
    """Sum of ``c * x**e``.

    >>> evaluate_terms([(1.0, 0.0), (2.0, 1.0)], 3.0)
    7.0
    """
    total = 0.0
    for coefficient, exponent in terms:
        if exponent == 0.0:
            total += coefficient
        elif exponent == 1.0:
            total += coefficient * x
        else:
            total += coefficient * x**exponent
    return total


def slope_of(terms: Sequence[Term]) -> list[Term]:
    """The derivative of a sum of powers.

    >>> slope_of([(3.0, 0.0), (2.0, 1.0), (1.0, 2.0)])
    [(2.0, 0.0), (2.0, 1.0)]
    """
    return [(c * e, e - 1.0) for c, e in terms if e]


def bracketed_root(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Two neighbouring points between which a function changes sign (Chandrupatla's method).

    Inverse quadratic steps where they are safe, bisection elsewhere, so a jump is located as well as a smooth
    root. The sign at ``low`` is that of ``function(low)`` and the interval returned is a few floats wide.

    Args:
        function: scalar function with ``function(low) * function(high) <= 0``.
        low, high: the bracket, in any order.

    Returns:
        The end with the sign of ``function(low)`` and the end with the other sign (equal at an exact root).

    Raises:
        ValueError: the function has the same sign at both ends.

    >>> a, b = bracketed_root(lambda x: x * x - 2.0, 0.0, 2.0)
    >>> round((a + b) / 2, 12)
    1.414213562373
    """
    near, far = high, low
    f_near, f_far = function(near), function(far)
    negative_at_low = f_far < 0
    if f_far == 0.0:
        return far, far
    if f_near == 0.0:
        return near, near
    if (f_near < 0) == (f_far < 0):
        raise ValueError(f"no sign change between {low} and {high}")
    step = 0.5
    for _ in range(200):
        x = near + step * (far - near)
        f_x = function(x)
        if (f_x < 0) == (f_near < 0):
            third, f_third = near, f_near
        else:
            third, f_third = far, f_far
            far, f_far = near, f_near
        near, f_near = x, f_x
        if f_x == 0.0:
            return x, x
        tolerance = _RELATIVE_TOLERANCE * max(abs(near), abs(far)) / abs(far - near)
        if tolerance >= 0.5:
            break
        xi = (near - far) / (third - far)
        phi = (f_near - f_far) / (f_third - f_far)
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            step = f_near / (f_far - f_near) * f_third / (f_far - f_third) + (third - near) / (far - near) * f_near / (
                f_third - f_near
            ) * f_far / (f_third - f_far)
        else:
            step = 0.5
        step = min(max(step, tolerance), 1 - tolerance)
    return (near, far) if (f_near < 0) == negative_at_low else (far, near)


def first_reaching(function: Callable[[float], float], level: float, low: float, high: float) -> float:
    """The least x of ``[low, high]`` at which a function that never falls reaches a level (within 1e-14).

    Where it jumps over the level, x is at the jump, within a few floats and never before it.

    >>> first_reaching(lambda x: 1.0 if x >= 3.0 else 0.0, 1.0, 0.0, 10.0) - 3.0 < 1e-14
    True
    """
    target = level - _SHARE_ROUNDING
    if function(low) >= target:
        return low
    if function(high) < target:
        return high
    smallest = math.ulp(0.0)
    return bracketed_root(
        lambda x: difference if (difference := function(x) - target) < 0 else max(difference, smallest), low, high
    )[1]


def first_whole(function: Callable[[int], float], low: int, high: int) -> int:
    """The least whole number of ``[low, high]`` at which a function that never falls is not negative; ``high`` if none.

    False position where both ends are finite, bisection wherever that does not halve the range fast enough.

    >>> first_whole(lambda x: x**3 - 1000.5, 0, 10**6)
    11
    """
    f_low = function(low)
    if f_low >= 0 or low >= high:
        return low
    f_high = function(high)
    if f_high < 0:
        return high
    bisects = False
    while high - low > 1:
        width = high - low
        middle = low + width // 2
        if not bisects and f_high - f_low < math.inf:
            middle = min(max(low + round(width * -f_low / (f_high - f_low)), low + 1), high - 1)
        f_middle = function(middle)
        if f_middle >= 0:
            high, f_high = middle, f_middle
        else:
            low, f_low = middle, f_middle
        bisects = not bisects and high - low > width // 2
    return high


def at_or_just_below(points: Sequence[float], x: float) -> float:
    """The first of some ascending points that equals x but for rounding, else x.

    >>> at_or_just_below([1.0, 2.0], 2.0 + 1e-15), at_or_just_below([1.0, 2.0], 1.5)
    (2.0, 1.5)
    """
    index = bisect.bisect_left(points, x * (1 - _SHARE_ROUNDING))
    return points[index] if index < len(points) and points[index] <= x else x


def sign_changes(terms: Sequence[Term], low: float, high: float) -> list[float]:
    """Every point of ``(low, high)`` where ``sum(c * x**e)`` changes sign, ascending.

    None is missed: by Descartes' rule for real exponents a sum has no more positive roots than its coefficients,
    sorted by exponent, have sign changes. Beyond one, the derivative (with one term less) is split first and
    the function is monotone between its roots.

    Args:
        terms: coefficients and real exponents.
        low, high: ``0 < low < high``.

    >>> [round(x, 9) for x in sign_changes([(6.0, 0.0), (-5.0, 1.0), (1.0, 2.0)], 1.0, 10.0)]
    [2.0, 3.0]
    >>> sign_changes([(1.0, 0.0), (1.0, 1.5)], 1.0, 10.0)
    []
    """
    merged: dict[float, float] = {}
    for coefficient, exponent in terms:
        merged[exponent] = merged.get(exponent, 0.0) + coefficient
    return _sign_changes([(c, e) for e, c in sorted(merged.items()) if c != 0.0], low, high)


def _sign_changes(terms: list[Term], low: float, high: float) -> list[float]:
    signs = sum((a[0] < 0) != (b[0] < 0) for a, b in itertools.pairwise(terms))
    if signs == 0:
        return []
    points = [low, high]
    if signs > 1:
        lowest = terms[0][1]
        derivative = [(c * (e - lowest), e - lowest) for c, e in terms[1:]]
        points[1:1] = _sign_changes(derivative, low, high)
    roots = []
    values = [evaluate_terms(terms, x) for x in points]
    for a, b, f_a, f_b in zip(points, points[1:], values, values[1:], strict=False):
        if f_a * f_b < 0:
            roots.append(sum(bracketed_root(lambda x: evaluate_terms(terms, x), a, b)) / 2)
    return roots
