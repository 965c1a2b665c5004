"""Points of a sample, each found by its number alone: the same whatever range it is asked for in."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Method = Literal["sobol", "random"]
METHODS: tuple[Method, ...] = ("sobol", "random")

MOST_SOBOL_POINTS = 2**30
_BLOCK_ROWS = 1024
_DOUBLE = 2.0**-53


def points(method: Method, dimensions: int, seed: int, start: int, stop: int) -> NDArray[np.float64]:
    """Points ``start`` to ``stop`` of a sample of the unit cube, one a row.

    Args:
        method: ``sobol``: a scrambled Sobol sequence, which covers the cube evenly; ``random``: independent points.
        dimensions: of the cube.
        seed: of the sample.
        start: the first point.
        stop: the one after the last.
    """
    if method == "sobol":
        return _sequence(dimensions, seed).between(start, stop)
    return _random(dimensions, seed, start, stop)


def _random(dimensions: int, seed: int, start: int, stop: int) -> NDArray[np.float64]:
    """Each block of rows has a counter-based generator of its own, so that no row before it need be drawn."""
    first, last = start // _BLOCK_ROWS, max(stop - 1, start) // _BLOCK_ROWS
    blocks = [
        np.random.Philox(key=np.array([seed, block], dtype=np.uint64)).random_raw(_BLOCK_ROWS * dimensions)
        for block in range(first, last + 1)
    ]
    raw = np.concatenate(blocks).reshape(-1, dimensions)
    offset = first * _BLOCK_ROWS
    found: NDArray[np.float64] = (raw[start - offset : stop - offset] >> np.uint64(11)).astype(np.float64) * _DOUBLE
    return found


class _Sequence:
    """A Sobol sequence that goes on from where it is, and starts anew to go back."""

    def __init__(self, dimensions: int, seed: int) -> None:
        self._dimensions, self._seed = dimensions, seed
        self._engine: Any = None

    def between(self, start: int, stop: int) -> NDArray[np.float64]:
        """Points of the sequence."""
        from scipy.stats import qmc

        if self._engine is None or self._engine.num_generated > start:
            self._engine = qmc.Sobol(self._dimensions, scramble=True, rng=np.random.default_rng(self._seed))
        ahead = start - self._engine.num_generated
        if ahead:
            self._engine.fast_forward(ahead)
        with warnings.catch_warnings():
            # It warns of counts that are no power of two; a range of rows is a part of the sequence.
            warnings.simplefilter("ignore", UserWarning)
            found: NDArray[np.float64] = self._engine.random(stop - start)
        return found


@functools.lru_cache(maxsize=8)
def _sequence(dimensions: int, seed: int) -> _Sequence:
    return _Sequence(dimensions, seed)
