"""The continuous length distributions: truncated log-normal and uniform."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from prfaas_opt.numerics import bracketed_root

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Lengths = float | NDArray[np.float64]

_SQRT1_2 = math.sqrt(0.5)
_FARTHEST_MU = 1.0


def normal_interval(low: float, high: float) -> float:
    """``P(low < Z <= high)`` of a standard normal, to full relative precision in either tail.

    >>> round(normal_interval(-1.96, 1.96), 4)
    0.95
    >>> normal_interval(10.0, math.inf) > 0
    True
    """
    side = _SQRT1_2 if low + high > 0 else -_SQRT1_2
    return abs(0.5 * (math.erfc(side * low) - math.erfc(side * high)))


def normal_intervals(low: Lengths, high: Lengths) -> NDArray[np.float64]:
    """``normal_interval`` of arrays; one of the ends may be a number, that all have.

    >>> import numpy as np
    >>> normal_intervals(np.array([0.0, 10.0]), np.array([np.inf, 11.0])).tolist() == [0.5, normal_interval(10, 11)]
    True
    """
    import numpy as np

    above = np.asarray(low + high > 0)

    def erfc(z: Lengths) -> NDArray[np.float64]:
        if isinstance(z, float):
            return np.where(above, math.erfc(_SQRT1_2 * z), math.erfc(-_SQRT1_2 * z))
        return np.fromiter(
            map(math.erfc, np.where(above, _SQRT1_2 * z, -_SQRT1_2 * z).tolist()), np.float64, len(above)
        )

    return np.abs(0.5 * (erfc(low) - erfc(high)))


@dataclass(frozen=True)
class TruncatedLognormal:
    """``ln L`` is normal(mu, sigma), restricted to ``[low, high]`` tokens (the paper's section 4.1)."""

    mu: float
    sigma: float
    low: float
    high: float

    def scaled(self, factor: float) -> TruncatedLognormal | None:
        """``mu`` moved so that the mean is ``factor`` times as long; the range stays. None where no such mu is near."""
        target = factor * self.moment(1.0, self.low, self.high)

        def excess(mu: float) -> float:
            moved = dataclasses.replace(self, mu=mu)
            return moved.moment(1.0, moved.low, moved.high) - target

        low, high = self.mu - _FARTHEST_MU, self.mu + _FARTHEST_MU
        if not excess(low) < 0 < excess(high):
            return None
        return dataclasses.replace(self, mu=bracketed_root(excess, low, high)[0])

    def up_to(self, high: float) -> TruncatedLognormal:
        """The same log-normal, truncated earlier."""
        return dataclasses.replace(self, high=high)

    def _z(self, length: float) -> float:
        return (math.log(length) - self.mu) / self.sigma

    @cached_property
    def probability_of_range(self) -> float:
        """The probability that the log-normal puts on ``[low, high]``; zero if it underflows."""
        return normal_interval(self._z(self.low), self._z(self.high))

    def moment(self, power: float, a: float, b: float) -> float:
        """``E[L**power; a < L <= b]``: the normal, shifted by ``power * sigma``, times ``exp(power*mu + ...)``."""
        shift = power * self.sigma
        scale = math.exp(power * self.mu + 0.5 * shift * shift) / self.probability_of_range
        return scale * normal_interval(self._z(a) - shift, self._z(b) - shift)

    def moments(self, power: float, a: Lengths, b: Lengths) -> NDArray[np.float64]:
        """``moment`` on many intervals."""
        import numpy as np

        shift = power * self.sigma
        scale = math.exp(power * self.mu + 0.5 * shift * shift) / self.probability_of_range
        low, high = (
            self._z(x) - shift if isinstance(x, float) else (np.log(x) - self.mu) / self.sigma - shift for x in (a, b)
        )
        return scale * normal_intervals(low, high)


@dataclass(frozen=True)
class Uniform:
    """Every length between ``low`` and ``high`` tokens is equally likely."""

    low: float
    high: float

    def scaled(self, factor: float) -> Uniform:
        """Both ends times the factor."""
        return Uniform(factor * self.low, factor * self.high)

    def up_to(self, high: float) -> Uniform:
        """The same, ending earlier."""
        return Uniform(self.low, high)

    def moment(self, power: float, a: float, b: float) -> float:
        """``E[L**power; a < L <= b]``."""
        exponent, log_ratio = power + 1.0, math.log(b / a)
        # (b**exponent - a**exponent) / exponent, without its cancellation where the exponent or the range is small.
        relative = math.expm1(exponent * log_ratio) / exponent if exponent else log_ratio
        return float(a**exponent * relative / (self.high - self.low))

    def moments(self, power: float, a: Lengths, b: Lengths) -> NDArray[np.float64]:
        """``moment`` on many intervals."""
        import numpy as np

        exponent, log_ratio = power + 1.0, np.log(np.asarray(b) / np.asarray(a))
        relative = np.expm1(exponent * log_ratio) / exponent if exponent else log_ratio
        integral: NDArray[np.float64] = np.asarray(a) ** exponent * relative / (self.high - self.low)
        return integral
