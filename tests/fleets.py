"""Fleets to test with: the case study's, fleets cut into twins, and random ones from a seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prfaas_opt.api import load_scenario
from prfaas_opt.fleet import Connection, Fleet, Holding, Limits, Role, Site, Stream, fleet_of
from prfaas_opt.profiles.curve import Curve, Piece, linear, log_log, piecewise_curve, table_curve
from prfaas_opt.profiles.decode import DecodeProfile
from prfaas_opt.profiles.model import Model, Profile, Provenance
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution, constant, mixture, table
from prfaas_opt.workload.workload import Workload

LENGTH_KINDS = ("lognormal", "uniform", "table", "constant", "mixture")
ATOMS = ("table", "constant")
"""Kinds of lengths under which the oracle is exact, whatever its number of bins."""
ROLES: tuple[Role, ...] = ("prefill", "pd")

HARDWARE = ("A100", "B200", "H20", "H200")
_ASSUMED = {key: Provenance("assumed", "random") for key in ("prefill", "kv_cache", "decode")}
_TYPICAL_BYTES = 1e8
_INSTANCE_USD_PER_HOUR = 10.0
_BYTES_PER_GBPS = 1e9 / 8


def case_study_fleet() -> Fleet:
    """The paper's."""
    return fleet_of(load_scenario())


def doubled(fleet: Fleet, roles: Sequence[Role] = ROLES) -> Fleet:
    """Twice the GPUs in every site of these roles, and twice the bandwidth of every link there; demands stay."""
    grown = {site.name for site in fleet.sites if site.role in roles}
    return dataclasses.replace(
        fleet,
        sites=tuple(_resized(site, 2.0) if site.name in grown else site for site in fleet.sites),
        connections=tuple(
            _carrying(link, 2.0) if {link.source, link.destination} & grown else link for link in fleet.connections
        ),
    )


def split_in_two(fleet: Fleet, roles: Sequence[Role] = ROLES) -> Fleet:
    """Every site of these roles as two, ``NAME/1`` and ``NAME/2``, with half the GPUs and half of each link.

    A link whose both ends are cut becomes four of a quarter. A stream that any site may decode stays as it is; one
    that a cut site must decode becomes two of half the demand, one for each half (leaving it free would open other
    sites to it). With fractions of instances both fleets carry the same: cutting every rate in two leads from
    the whole to the halves, adding up leads back. With whole instances the halves carry at most as much, and as much
    where all counts of a best plan are even. ``split_in_two(doubled(fleet, roles), roles)`` is the fleet with every
    such site twice.

    Raises:
        ValueError: GPUs of a site are odd.
    """
    halves = {s.name: (f"{s.name}/1", f"{s.name}/2") for s in fleet.sites if s.role in roles}
    sites: list[Site] = []
    for site in fleet.sites:
        half = _resized(site, 0.5) if site.name in halves else site
        sites += [dataclasses.replace(half, name=name) for name in halves.get(site.name, (site.name,))]
    connections: list[Connection] = []
    for link in fleet.connections:
        ends = [
            (a, b)
            for a in halves.get(link.source, (link.source,))
            for b in halves.get(link.destination, (link.destination,))
        ]
        part = _carrying(link, 1.0 / len(ends))
        connections += [dataclasses.replace(part, source=a, destination=b) for a, b in ends]
    streams: list[Stream] = []
    for stream in fleet.streams:
        if stream.destination not in halves:
            streams.append(stream)
            continue
        for i, name in enumerate(halves[stream.destination], start=1):
            half_demand = dataclasses.replace(stream, name=f"{stream.name}/{i}", demand_rps=0.5 * stream.demand_rps)
            streams.append(dataclasses.replace(half_demand, destination=name))
    return dataclasses.replace(fleet, sites=tuple(sites), connections=tuple(connections), streams=tuple(streams))


def _resized(site: Site, factor: float) -> Site:
    holdings = []
    for holding in site.holdings:
        gpus = Limits(factor * holding.gpus.least, factor * holding.gpus.most)
        if gpus.least % 1 or gpus.most % 1:
            raise ValueError(f"{site.name}: {holding.gpus} is not even")
        holdings.append(dataclasses.replace(holding, gpus=gpus))
    return dataclasses.replace(site, holdings=tuple(holdings))


def _carrying(link: Connection, factor: float) -> Connection:
    limits = link.bandwidth_bytes_per_s
    return dataclasses.replace(link, bandwidth_bytes_per_s=Limits(factor * limits.least, factor * limits.most))


def random_fleet(
    rng: np.random.Generator,
    *,
    sized: bool = False,
    tiny: bool = False,
    kinds: Sequence[str] = LENGTH_KINDS,
) -> Fleet:
    """A small fleet; the same generator state gives the same one.

    Rates are drawn around each other, so that prefill, links and decode each bind often. About one in seven cannot
    serve all its streams: too few GPUs for an instance of each model, or hardware without decode figures.

    Args:
        rng: where it comes from.
        sized: ranges of GPUs and bandwidth with prices, for sizing, and demands of a few instances each; otherwise
            both are given, and demands are mere proportions.
        tiny: one remote site and one or two PD sites of one kind of hardware and few instances, for brute force.
        kinds: of input lengths, out of ``LENGTH_KINDS``.
    """
    hardware = [str(h) for h in rng.permutation(HARDWARE)[: 2 if tiny else int(rng.integers(2, 5))]]
    typical_s = _log_uniform(rng, 0.05, 5.0)
    unit_gpus = {h: int(rng.choice([1, 2, 4, 8])) for h in hardware}
    longest = int(rng.integers(100, 20_000))
    models = [
        _model(rng, f"model-{i}", hardware, unit_gpus, longest, typical_s)
        for i in range(int(rng.integers(1, 3 if tiny else 4)))
    ]
    most_sites = 2 if tiny else 3
    remote = [f"remote-{i}" for i in range(1 if tiny else int(rng.integers(1, most_sites + 1)))]
    local = [f"pd-{i}" for i in range(int(rng.integers(1, most_sites + 1)))]
    roles: list[tuple[Role, list[str]]] = [("prefill", remote), ("pd", local)]
    sites = [
        Site(name, role, _holdings(rng, hardware, unit_gpus, role, sized, tiny))
        for role, names in roles
        for name in names
    ]
    streams = [
        _stream(rng, f"stream-{i}", models[i % len(models)], local, longest, typical_s, sized, kinds)
        for i in range(int(rng.integers(len(models), 3 if tiny else 5)))
    ]
    connections = [
        _connection(rng, source, destination, typical_s, sized)
        for source in remote
        for destination in local
        if rng.random() < 0.8
    ]
    return Fleet("random", tuple(streams), tuple(sites), tuple(connections))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _pick(rng: np.random.Generator, options: Sequence[Callable[[], Any]]) -> Any:
    return options[int(rng.integers(len(options)))]()


def _model(
    rng: np.random.Generator,
    name: str,
    hardware: Sequence[str],
    unit_gpus: dict[str, int],
    longest: int,
    typical_s: float,
) -> Model:
    """A model on most of the hardware, an instance taking one or two of the hardware's units of GPUs."""
    heavy = _log_uniform(rng, 0.5, 2.0)
    own_size = rng.random() < 0.2
    size = _size(rng, longest)
    profiles: list[Profile] = []
    for each in hardware:
        if profiles and rng.random() < 0.1:
            continue
        latency = _latency(rng, longest, heavy * typical_s * _log_uniform(rng, 0.4, 2.5))
        decode = _decode(rng) if rng.random() < 0.95 else None
        gpus = unit_gpus[each] * int(rng.choice([1, 1, 2]))
        kv_bytes = _size(rng, longest) if own_size else size
        profiles.append(Profile(each, gpus, "", latency, kv_bytes, decode, _ASSUMED))
    return Model(name, "", tuple(profiles))


def _points(rng: np.random.Generator, longest: int, count: int) -> list[int]:
    return sorted({5, longest, *rng.integers(5, longest + 1, size=count).tolist()})


def _latency(rng: np.random.Generator, longest: int, at_longest_s: float) -> Curve:
    """A quadratic, or a table of any joining; it starts at 5 tokens, where some lengths are shorter."""
    if rng.random() < 0.4:
        shares = rng.dirichlet([1.0, 2.0, 2.0]) * at_longest_s
        terms = tuple((float(share) / longest**power, float(power)) for power, share in enumerate(shares))
        return piecewise_curve((Piece(5.0, float(longest), terms),), "latency")
    x = _points(rng, longest, int(rng.integers(0, 4)))
    exponents = rng.uniform(0.0, 1.8, size=len(x) - 1)
    logs = np.concatenate([[0.0], np.cumsum(exponents * np.diff(np.log(x)))])
    y = at_longest_s * np.maximum(np.exp(logs - logs[-1]), 1e-4)
    return table_curve(x, y.tolist(), _pick(rng, [lambda: log_log, lambda: linear]), "latency")


def _size(rng: np.random.Generator, longest: int) -> Curve:
    """A state and a slope, or a broken line, in bytes."""
    state = _TYPICAL_BYTES * float(rng.choice([0.02, 0.2, 0.8]))
    x = _points(rng, longest, int(rng.integers(0, 3)))
    slopes = rng.uniform(0.3, 1.5, size=len(x) - 1) * (_TYPICAL_BYTES - state) / longest
    y = state + slopes[0] * x[0] + np.concatenate([[0.0], np.cumsum(slopes * np.diff(x))])
    return table_curve(x, y.tolist(), linear, "size")


def _decode(rng: np.random.Generator) -> DecodeProfile:
    """One batch, or a table; always fast enough for 20 tokens/s at its smallest batch."""
    if rng.random() < 0.5:
        return DecodeProfile((int(rng.integers(4, 40)),), (float(rng.uniform(0.015, 0.05)),))
    batches = tuple(sorted({1, *rng.integers(2, 60, size=2).tolist()}))
    start = float(rng.uniform(0.008, 0.02))
    return DecodeProfile(batches, tuple(start + float(0.001 * b * rng.uniform(0.9, 1.1)) for b in batches))


def _holdings(
    rng: np.random.Generator, hardware: Sequence[str], unit_gpus: dict[str, int], role: Role, sized: bool, tiny: bool
) -> tuple[Holding, ...]:
    kinds = rng.permutation(hardware)[: 1 if tiny else int(rng.integers(1, 3))]
    fewest = 4 if role == "pd" else 1
    return tuple(_holding(rng, str(h), unit_gpus[str(h)], fewest, sized, tiny) for h in kinds)


def _holding(rng: np.random.Generator, hardware: str, unit: int, fewest: int, sized: bool, tiny: bool) -> Holding:
    """GPUs for a few units; now and then some that fill no instance."""
    units = int(rng.integers(fewest, fewest + (3 if tiny else 7)))
    most = units * unit * (2 if sized and not tiny else 1) + (int(rng.integers(0, unit)) if rng.random() < 0.2 else 0)
    ceiling = float(rng.uniform(0.4, 1.0)) if rng.random() < 0.3 else 1.0
    if not sized:
        return Holding(hardware, Limits(most, most), ceiling)
    least = int(rng.integers(0, most + 1)) if rng.random() < 0.2 else 0
    price = _INSTANCE_USD_PER_HOUR / unit * _log_uniform(rng, 0.5, 2.0) if rng.random() < 0.9 else None
    return Holding(hardware, Limits(least, most), ceiling, price)


def _connection(rng: np.random.Generator, source: str, destination: str, typical_s: float, sized: bool) -> Connection:
    """From much too slow to more than enough; where it is bought, a typical flow costs about as much as an instance."""
    typical = _TYPICAL_BYTES / typical_s
    most = 0.0 if rng.random() < 0.05 else typical * _log_uniform(rng, 0.05, 20.0)
    ceiling = float(rng.uniform(0.4, 1.0)) if rng.random() < 0.3 else 1.0
    if not sized:
        return Connection(source, destination, Limits(most, most), ceiling)
    least = most * float(rng.uniform(0.0, 1.0)) if rng.random() < 0.2 else 0.0
    usd = [_INSTANCE_USD_PER_HOUR * _log_uniform(rng, 0.02, 2.0) if rng.random() < 0.7 else None for _ in range(2)]
    per_gbps = None if usd[0] is None else usd[0] * _BYTES_PER_GBPS / typical
    per_gb = None if usd[1] is None else usd[1] * 1e9 / (typical * 3600.0)
    return Connection(source, destination, Limits(least, most), ceiling, per_gbps, per_gb)


def _stream(
    rng: np.random.Generator,
    name: str,
    model: Model,
    destinations: Sequence[str],
    longest: int,
    typical_s: float,
    sized: bool,
    kinds: Sequence[str],
) -> Stream:
    """Traffic that decodes from much faster to a bit slower than it prefills."""
    slo = float(rng.uniform(5.0, 20.0)) if rng.random() < 0.7 else None
    batch, step_s = 10, 0.02
    decode = next((p.decode for p in model.profiles if p.decode), None)
    if decode is not None:
        batch = decode.largest_batch(slo) or batch
        step_s = decode.step_s(batch) if batch >= decode.batches[0] else step_s
    output = max(2, round(typical_s * _log_uniform(rng, 0.1, 1.5) * batch / step_s))
    outputs: LengthDistribution = _pick(
        rng,
        [
            lambda: constant(float(output)),
            lambda: _uniform(0.5 * output, 1.5 * output),
            lambda: table([(max(1.0, output // 2), 1.0), (float(output), 2.0)]),
        ],
    )
    workload = Workload(f"{name} lengths", "", _lengths(rng, longest, str(rng.choice(kinds)), kinds), outputs)
    demand = _log_uniform(rng, 0.2, 1.5) / typical_s if sized else _log_uniform(rng, 0.2, 5.0)
    destination = str(rng.choice(destinations)) if rng.random() < 0.5 else None
    return Stream(name, model, workload, demand, destination, slo)


def _uniform(low: float, high: float) -> LengthDistribution:
    return LengthDistribution(((1.0, Uniform(low, high)),))


def _lengths(rng: np.random.Generator, longest: int, kind: str, kinds: Sequence[str]) -> LengthDistribution:
    """Input lengths of 1 to ``longest`` tokens."""
    if kind == "mixture":
        simple = [k for k in kinds if k != "mixture"]
        parts = [_lengths(rng, longest, str(rng.choice(simple)), kinds) for _ in range(int(rng.integers(2, 4)))]
        return mixture([(_log_uniform(rng, 0.1, 10.0), part) for part in parts])
    if kind == "constant":
        return constant(float(rng.integers(1, longest + 1)))
    if kind == "table":
        return table(
            [
                (float(x), _log_uniform(rng, 0.1, 10.0))
                for x in rng.integers(1, longest + 1, size=int(rng.integers(1, 9)))
            ]
        )
    low = int(rng.integers(1, longest // 2))
    high = int(rng.integers(low + 1, longest + 1))
    if kind == "uniform":
        return _uniform(float(low), float(high))
    mu = math.log(low) + float(rng.uniform(-0.2, 1.1)) * math.log(high / low)
    return LengthDistribution(((1.0, TruncatedLognormal(mu, float(rng.uniform(0.3, 1.5)), float(low), float(high))),))
