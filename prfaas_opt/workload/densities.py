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


def normal_intervals(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """``normal_interval`` of arrays.

    >>> import numpy as np
    >>> normal_intervals(np.array([0.0, 10.0]), np.array([np.inf, 11.0])).tolist() == [0.5, normal_interval(10, 11)]
    True
    """
    import numpy as np

    side = np.where(low + high > 0, _SQRT1_2, -_SQRT1_2)
    near, far = (np.fromiter(map(math.erfc, (side * z).tolist()), np.float64, len(side)) for z in (low, high))
    return np.abs(0.5 * (near - far))


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

    def moments(self, power: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """``moment`` on many intervals."""
        import numpy as np

        shift = power * self.sigma
        scale = math.exp(power * self.mu + 0.5 * shift * shift) / self.probability_of_range
        z = ((np.log(x) - self.mu) / self.sigma - shift for x in (a, b))
        return scale * normal_intervals(*z)


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

    def moments(self, power: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """``moment`` on many intervals."""
        import numpy as np

        exponent, log_ratio = power + 1.0, np.log(b / a)
        relative = np.expm1(exponent * log_ratio) / exponent if exponent else log_ratio
        integral: NDArray[np.float64] = a**exponent * relative / (self.high - self.low)
        return integral
