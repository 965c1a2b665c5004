"""What the oracle of fleets sees of a fleet: lengths in bins, routes, and what instances take.

Nothing here knows how the planner does it: densities are integrated with Gauss-Legendre nodes inside every bin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from prfaas_opt.fleet import Fleet, Holding, Site, Stream
from prfaas_opt.profiles.curve import Curve
from prfaas_opt.profiles.model import Model, Profile
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

NODES = 8
"""Gauss-Legendre nodes in a bin."""


class Count(NamedTuple):
    """What instances are counted by."""

    model: str
    site: str
    hardware: str
    role: str
    """``prefill`` or ``decode``."""


Counts = dict[Count, int]


@dataclass(frozen=True)
class Binned:
    """Lengths with their probabilities, grouped."""

    lengths: Array
    masses: Array
    index: Indices

    @property
    def weights(self) -> Array:
        """Probability of each bin."""
        return self._sums(self.masses)

    def means(self, curve: Curve) -> Array:
        """Mean of a curve in each bin."""
        return self._sums(self.masses * curve(self.lengths)) / self.weights

    def _sums(self, values: Array) -> Array:
        return np.bincount(self.index, weights=values).astype(np.float64)


def binned(lengths: LengthDistribution, bins: int, breaks: Sequence[float]) -> Binned:
    """The bins of a distribution: about ``bins`` of equal probability, and every break is an edge."""
    points: list[Array] = []
    masses: list[Array] = []
    for weight, part in lengths.parts:
        count = max(1, math.ceil(bins * weight))
        x, w = (
            _lognormal(part, count, breaks) if isinstance(part, TruncatedLognormal) else _uniform(part, count, breaks)
        )
        points += list(x)
        masses += list(weight * w / w.sum())
    for length, probability in lengths.atoms:
        points.append(np.array([length]))
        masses.append(np.array([probability]))
    kept = [i for i, mass in enumerate(masses) if mass.sum() > 0]
    index = np.repeat(np.arange(len(kept)), [len(points[i]) for i in kept])
    return Binned(np.concatenate([points[i] for i in kept]), np.concatenate([masses[i] for i in kept]), index)


def _lognormal(part: TruncatedLognormal, bins: int, breaks: Sequence[float]) -> tuple[Array, Array]:
    """Nodes and masses, a row a bin, in the normal variable, where the density is smooth."""
    low, high = ((math.log(x) - part.mu) / part.sigma for x in (part.low, part.high))
    # Equal shares on the side where they are not rounded away.
    side = -1.0 if low + high > 0 else 1.0
    ends = ndtr(side * np.array([low, high]))
    inner = side * ndtri(np.linspace(ends[0], ends[1], bins + 1)[1:-1])
    cuts = [(math.log(x) - part.mu) / part.sigma for x in breaks if part.low < x < part.high]
    z, dz = _gauss(np.array([low, high, *inner, *cuts]))
    return np.clip(np.exp(part.mu + part.sigma * z), part.low, part.high), dz * np.exp(-0.5 * z * z)


def _uniform(part: Any, bins: int, breaks: Sequence[float]) -> tuple[Array, Array]:
    assert isinstance(part, Uniform), part
    edges = np.linspace(part.low, part.high, bins + 1).tolist()
    return _gauss(np.array([*edges, *(x for x in breaks if part.low < x < part.high)]))


def _gauss(edges: Array) -> tuple[Array, Array]:
    unit, weight = np.polynomial.legendre.leggauss(NODES)
    edges = np.unique(edges)
    start, width = edges[:-1, None], np.diff(edges)[:, None]
    return start + 0.5 * width * (unit + 1.0), 0.5 * width * weight


@dataclass(frozen=True)
class Route:
    """A way of one stream: prefilled at a holding, sent over a connection (or not), decoded at a site."""

    site: Site
    holding: Holding
    profile: Profile
    connection: int | None
    destination: str


def routes_of(fleet: Fleet, stream: Stream) -> Iterator[Route]:
    """All of a stream, whether or not its destination can decode."""
    pd_sites = {s.name for s in fleet.sites if s.role == "pd" and stream.destination in (None, s.name)}
    for site in fleet.sites:
        for holding, profile in served(site, stream.model):
            if site.role == "pd" and site.name in pd_sites:
                yield Route(site, holding, profile, None, site.name)
            elif site.role == "prefill":
                for index, link in enumerate(fleet.connections):
                    if (
                        link.source == site.name
                        and link.destination in pd_sites
                        and link.bandwidth_bytes_per_s.most > 0
                    ):
                        yield Route(site, holding, profile, index, link.destination)


def served(site: Site, model: Model) -> Iterator[tuple[Holding, Profile]]:
    """The holdings of a site that the model has a profile for, were there only GPUs enough."""
    for holding in site.holdings:
        profile = model.profile(holding.hardware)
        if profile is not None:
            yield holding, profile


def decode_s(stream: Stream, profile: Profile) -> float | None:
    """Seconds that one request takes of a decode instance, in its share of the batch (equation 5)."""
    batch = profile.decode.largest_batch(stream.tokens_per_s) if profile.decode else None
    if profile.decode is None or batch is None:
        return None
    return profile.decode.step_s(batch) * stream.workload.output_tokens.mean / batch


def gpus_per_instance(model: Model, hardware: str) -> int:
    profile = model.profile(hardware)
    assert profile is not None
    return profile.gpus_per_instance


def gpus_used(fleet: Fleet, counts: Mapping[Count, int]) -> dict[tuple[str, str], int]:
    """GPUs that instances take, by site and hardware."""
    models = {stream.model.name: stream.model for stream in fleet.streams}
    used: dict[tuple[str, str], int] = {}
    for (model, site, hardware, _), n in counts.items():
        used[site, hardware] = used.get((site, hardware), 0) + n * gpus_per_instance(models[model], hardware)
    return used
