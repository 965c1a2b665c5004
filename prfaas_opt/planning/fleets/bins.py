"""Bins of length: what a linear program sees of a stream's lengths."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.profiles.curve import merged_breaks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.profiles.curve import Curve

_MOST_ATOMS = 4096


@dataclass(frozen=True)
class StreamBins:
    """Bins of one stream: whole tokens above ``edges[i]`` up to ``edges[i + 1]``, those that hold requests.

    Attributes:
        ranges: (low, high) in tokens.
        weights: probability of each.
        seconds: by way, ``E[T(L); bin]``.
        bytes: by way, ``E[S(L); bin]``, zero where nothing is sent.
    """

    ranges: tuple[tuple[float, float], ...]
    weights: NDArray[np.float64]
    seconds: dict[int, NDArray[np.float64]]
    bytes: dict[int, NDArray[np.float64]]


class Bins:
    """The bins of all streams; cutting further keeps what is known of the bins that stay."""

    def __init__(self, network: Network, edges: Sequence[Iterable[float]]) -> None:
        self._network = network
        self.edges = [frozenset(each) for each in edges]
        self._means: dict[tuple[int, int, float, float], float] = {}
        self.streams = [self._stream(s) for s in range(len(network.streams))]

    def cut(self, edges: Sequence[Iterable[float]]) -> bool:
        """Adds edges, by stream; whether any was new."""
        changed = False
        for s, new in enumerate(edges):
            joined = self.edges[s] | frozenset(new)
            if joined != self.edges[s]:
                self.edges[s] = joined
                self.streams[s] = self._stream(s)
                changed = True
        return changed

    def _stream(self, s: int) -> StreamBins:
        lengths = self._network.streams[s].lengths
        ranges, weights = [], []
        for low, high in itertools.pairwise(sorted(self.edges[s])):
            weight = lengths.moment(0.0, low, high)
            if weight > 0:
                ranges.append((low, high))
                weights.append(weight)
        ways = [(i, self._network.ways[i]) for i in self._network.ways_of[s]]
        zeros = np.zeros(len(ranges))
        return StreamBins(
            tuple(ranges),
            np.array(weights),
            {i: self._between(way.prefill_s, s, ranges) for i, way in ways},
            {i: self._between(way.kv_bytes, s, ranges) if way.kv_bytes is not None else zeros for i, way in ways},
        )

    def _between(self, curve: Curve, s: int, ranges: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
        mean = self._network.mean(curve, s)
        key = id(mean)
        found = []
        for low, high in ranges:
            value = self._means.get((key, s, low, high))
            if value is None:
                value = self._means[key, s, low, high] = max(mean.between(low, high), 0.0)
            found.append(value)
        return np.array(found)


def edges_of(network: Network, stream: int, bins: int, breaks: bool = True) -> set[float]:
    """Edges of bins of about equal probability; with ``breaks`` also where curves break and around single lengths."""
    lengths = network.streams[stream].lengths
    inner = {lengths.quantile(i / bins) for i in range(1, bins)}
    edges = {0.0, float(lengths.last_threshold)} | {x for x in map(around, inner) if x < lengths.high}
    if not breaks:
        return edges
    ways = [network.ways[i] for i in network.ways_of[stream]]
    curves = [curve for way in ways for curve in (way.prefill_s, way.kv_bytes) if curve is not None]
    edges |= {x for x in map(around, merged_breaks(curves, lengths.low, lengths.high)) if x < lengths.high}
    atoms = {math.ceil(x) - below for x in lengths.atom_lengths[:_MOST_ATOMS] for below in (0.0, 1.0)}
    return edges | atoms


def around(length: float) -> float:
    """The whole number of tokens at or above a length: lengths up to it are those up to the length itself."""
    return float(math.ceil(length))
