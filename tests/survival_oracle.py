"""The cheapest fleet that survives failures by brute force: all counts, one linear program each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import linprog

from prfaas_opt.fleet import Fleet
from prfaas_opt.fleet_results import FailureKind
from tests.fleet_bins import Count, Counts, binned, decode_s, gpus_per_instance, gpus_used, routes_of, served

BYTES_PER_GBPS = 1e9 / 8
MOST_COUNTS = 400

State = tuple[Counts, frozenset[int]]
"""Instances that are there, and links that carry nothing."""


def states(fleet: Fleet, counts: Counts, kinds: Sequence[FailureKind]) -> Iterator[State]:
    yield counts, frozenset()
    if "link" in kinds:
        for e in range(len(fleet.connections)):
            yield counts, frozenset({e})
    if "instance" in kinds:
        for key, n in counts.items():
            if n:
                yield {**counts, key: n - 1}, frozenset()
    if "site" in kinds:
        for site in fleet.sites:
            yield {key: 0 if key.site == site.name else n for key, n in counts.items()}, frozenset()


def usd_of_links(fleet: Fleet, counts: Counts, kinds: Sequence[FailureKind]) -> float | None:
    """The least USD/h of links that serve the demands in all states; None where the counts do not. Exact on atoms."""
    cost = [(link.usd_per_gbps_hour or 0.0) / BYTES_PER_GBPS for link in fleet.connections]
    scale = [max(link.bandwidth_bytes_per_s.most, 1.0) for link in fleet.connections]
    cost = [c * x for c, x in zip(cost, scale, strict=True)]
    bounds: list[tuple[float, float | None]] = [
        (link.bandwidth_bytes_per_s.least / x, link.bandwidth_bytes_per_s.most / x)
        for link, x in zip(fleet.connections, scale, strict=True)
    ]
    equal: list[tuple[dict[int, float], float]] = []
    upper: list[tuple[dict[int, float], float]] = []
    for number, (there, dead) in enumerate(states(fleet, counts, kinds)):
        busy: dict[Count, dict[int, float]] = {}
        sent: dict[int, dict[int, float]] = {}
        for stream in fleet.streams:
            lengths = binned(stream.workload.input_tokens, 1, [])
            arriving: dict[str, dict[int, float]] = {}
            decoding: dict[str, dict[int, float]] = {}
            for site in fleet.sites:
                if site.role != "pd" or stream.destination not in (None, site.name):
                    continue
                for holding, profile in served(site, stream.model):
                    seconds = decode_s(stream, profile)
                    if seconds is not None:
                        column = len(cost)
                        cost.append(0.0)
                        bounds.append((0.0, None))
                        key = Count(stream.model.name, site.name, holding.hardware, "decode")
                        busy.setdefault(key, {})[column] = stream.demand_rps * seconds
                        decoding.setdefault(site.name, {})[column] = 1.0
            rows: list[dict[int, float]] = [{} for _ in lengths.weights]
            for route in routes_of(fleet, stream):
                if route.connection in dead:
                    continue
                key = Count(stream.model.name, route.site.name, route.holding.hardware, "prefill")
                seconds_each = lengths.means(route.profile.prefill_s)
                bytes_each = lengths.means(route.profile.kv_bytes)
                for b, weight in enumerate(lengths.weights):
                    rate = stream.demand_rps * float(weight)
                    column = len(cost)
                    usd = 0.0
                    if route.connection is not None:
                        link = fleet.connections[route.connection]
                        load = rate * float(bytes_each[b])
                        sent.setdefault(route.connection, {})[column] = load / scale[route.connection]
                        usd = 0.0 if number else load * 3600.0 / 1e9 * (link.usd_per_gb or 0.0)
                    cost.append(usd)
                    bounds.append((0.0, None))
                    rows[b][column] = 1.0
                    busy.setdefault(key, {})[column] = rate * float(seconds_each[b])
                    arriving.setdefault(route.destination, {})[column] = float(weight)
            equal += [(row, 1.0) for row in rows]
            for name, columns in arriving.items():
                upper.append(({**columns, **dict.fromkeys(decoding.get(name, {}), -1.0)}, 0.0))
        for key, columns in busy.items():
            holding = next(h for h in fleet.site(key.site).holdings if h.hardware == key.hardware)
            upper.append((columns, holding.max_utilization * there.get(key, 0)))
        for e, columns in sent.items():
            upper.append(({**columns, e: -fleet.connections[e].max_utilization}, 0.0))
    if any(not row for row, _ in equal):
        return None

    def matrix(rows: list[tuple[dict[int, float], float]]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        dense = np.zeros((len(rows), len(cost)))
        for i, (row, _) in enumerate(rows):
            for column, value in row.items():
                dense[i, column] = value
        return dense

    found = linprog(
        cost,
        A_ub=matrix(upper),
        b_ub=[limit for _, limit in upper],
        A_eq=matrix(equal),
        b_eq=[value for _, value in equal],
        bounds=bounds,
        method="highs",
    )
    assert found.status in (0, 2), found.message
    return float(found.fun) if found.status == 0 and found.fun is not None else None


def all_counts(fleet: Fleet) -> list[Counts]:
    """All numbers of instances within the GPUs."""
    models = {stream.model.name: stream.model for stream in fleet.streams}
    choices: list[list[Counts]] = []
    for site in fleet.sites:
        for holding in site.holdings:
            keys = [
                Count(name, site.name, holding.hardware, role)
                for name, model in models.items()
                if model.profile(holding.hardware) is not None
                for role in (("prefill", "decode") if site.role == "pd" else ("prefill",))
            ]
            sizes = [gpus_per_instance(models[key.model], holding.hardware) for key in keys]
            ranges = [range(int(holding.gpus.most // size) + 1) for size in sizes]
            choices.append(
                [
                    dict(zip(keys, numbers, strict=True))
                    for numbers in itertools.product(*ranges)
                    if sum(n * size for n, size in zip(numbers, sizes, strict=True)) <= holding.gpus.most
                ]
            )
    if math.prod(map(len, choices)) > MOST_COUNTS:
        raise ValueError("too many")
    return [{key: n for part in parts for key, n in part.items()} for parts in itertools.product(*choices)]


def usd_of_gpus(fleet: Fleet, counts: Counts) -> float:
    used = gpus_used(fleet, counts)
    return sum(
        (holding.usd_per_gpu_hour or 0.0) * max(holding.gpus.least, used.get((site.name, holding.hardware), 0))
        for site in fleet.sites
        for holding in site.holdings
    )


def brute_force(fleet: Fleet, kinds: Sequence[FailureKind]) -> float | None:
    best: float | None = None
    for usd, counts in sorted(((usd_of_gpus(fleet, c), c) for c in all_counts(fleet)), key=lambda each: each[0]):
        if best is not None and usd >= best:
            break
        links = usd_of_links(fleet, counts, kinds)
        if links is not None:
            best = usd + links if best is None else min(best, usd + links)
    return best
