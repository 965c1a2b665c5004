"""The cheapest fleet that survives failures by brute force: all counts, one linear program each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from prfaas_opt.fleet import Fleet, Stream
from prfaas_opt.fleet_results import FailureKind
from tests.fleet_bins import Count, Counts, binned, decode_s, gpus_per_instance, gpus_used, routes_of, served

BYTES_PER_GBPS = 1e9 / 8
MOST_COUNTS = 400


@dataclass(frozen=True)
class Failure:
    """What is lost, if anything: a link, one instance of a kind, or all of a site."""

    link: int | None = None
    instance: Count | None = None
    site: str | None = None

    def left(self, key: Count, instances: int) -> int:
        """Instances of a kind that are there after it."""
        if key.site == self.site:
            return 0
        return max(instances - 1, 0) if key == self.instance else instances


def failures(fleet: Fleet, kinds: Sequence[FailureKind], keys: Iterable[Count]) -> Iterator[Failure]:
    """Of some kinds, and first none."""
    yield Failure()
    if "link" in kinds:
        yield from (Failure(link=e) for e in range(len(fleet.connections)))
    if "instance" in kinds:
        yield from (Failure(instance=key) for key in keys)
    if "site" in kinds:
        yield from (Failure(site=site.name) for site in fleet.sites)


class _Needs:
    """What requests of one stream need.

    Attributes:
        demand_rps: all of them.
        keys: instances that may serve it.
        weights: probability of each length.
        decoders: instances that decode it, with seconds of a request.
        routes: each with instances that prefill there, and seconds and bytes by length.
    """

    def __init__(self, fleet: Fleet, stream: Stream) -> None:
        model, lengths = stream.model.name, binned(stream.workload.input_tokens, 1, [])
        self.demand_rps, self.weights = stream.demand_rps, lengths.weights
        self.decoders = [
            (Count(model, site.name, holding.hardware, "decode"), seconds)
            for site in fleet.sites
            if site.role == "pd" and stream.destination in (None, site.name)
            for holding, profile in served(site, stream.model)
            if (seconds := decode_s(stream, profile)) is not None
        ]
        self.routes = [
            (
                route,
                Count(model, route.site.name, route.holding.hardware, "prefill"),
                lengths.means(route.profile.prefill_s),
                lengths.means(route.profile.kv_bytes),
            )
            for route in routes_of(fleet, stream)
        ]
        self.keys = {key for key, _ in self.decoders} | {key for _, key, _, _ in self.routes}


class _Rows:
    """Rows of a matrix with limits, written entry by entry."""

    def __init__(self) -> None:
        self.limits: list[float] = []
        self._entries: list[tuple[float, int, int]] = []

    def add(self, columns: Mapping[int, float], limit: float) -> None:
        self._entries += [(value, len(self.limits), column) for column, value in columns.items()]
        self.limits.append(limit)

    def matrix(self, columns: int) -> Any:
        values, rows, entries = zip(*self._entries, strict=True) if self._entries else ((), (), ())
        return csr_array((values, (rows, entries)), shape=(len(self.limits), columns))


class Survival:
    """The linear program of a fleet in all its states at once. Exact on atoms.

    Counts only limit how busy instances may be, so one program is made for all of them. A state in which nothing can
    be lost, for there is no instance of the kind, is the one without failures once more.
    """

    def __init__(self, fleet: Fleet, kinds: Sequence[FailureKind]) -> None:
        self._fleet = fleet
        self._unit = [max(link.bandwidth_bytes_per_s.most, 1.0) for link in fleet.connections]
        self._cost = [
            (link.usd_per_gbps_hour or 0.0) / BYTES_PER_GBPS * unit
            for link, unit in zip(fleet.connections, self._unit, strict=True)
        ]
        self._equal, self._upper = _Rows(), _Rows()
        self._busy: list[tuple[int, Failure, Count, float]] = []
        needs = [_Needs(fleet, stream) for stream in fleet.streams]
        keys = {key for each in needs for key in each.keys}
        states = [self._add(needs, failure) for failure in failures(fleet, kinds, sorted(keys))]
        self.servable = all(states)
        self._bounds: list[tuple[float, float | None]] = [
            (link.bandwidth_bytes_per_s.least / unit, link.bandwidth_bytes_per_s.most / unit)
            for link, unit in zip(fleet.connections, self._unit, strict=True)
        ]
        self._bounds += [(0.0, None)] * (len(self._cost) - len(self._bounds))
        self._upper_matrix, self._equal_matrix = (rows.matrix(len(self._cost)) for rows in (self._upper, self._equal))

    def _add(self, needs: Sequence[_Needs], failure: Failure) -> bool:
        """Adds a state; whether every length of every stream has a route."""
        busy: dict[Count, dict[int, float]] = {}
        sent: dict[int, dict[int, float]] = {}
        servable = True
        for each in needs:
            arriving: dict[str, dict[int, float]] = {}
            for key, seconds in each.decoders:
                column = self._column(0.0)
                busy.setdefault(key, {})[column] = each.demand_rps * seconds
                arriving.setdefault(key.site, {})[column] = -1.0
            rows: list[dict[int, float]] = [{} for _ in each.weights]
            for route, key, seconds_each, bytes_each in each.routes:
                if route.connection is not None and route.connection == failure.link:
                    continue
                for b, weight in enumerate(each.weights.tolist()):
                    rate, usd = each.demand_rps * weight, 0.0
                    load = rate * float(bytes_each[b])
                    if route.connection is not None and failure == Failure():
                        usd = load * 3600.0 / 1e9 * (self._fleet.connections[route.connection].usd_per_gb or 0.0)
                    column = self._column(usd)
                    if route.connection is not None:
                        sent.setdefault(route.connection, {})[column] = load / self._unit[route.connection]
                    rows[b][column] = 1.0
                    busy.setdefault(key, {})[column] = rate * float(seconds_each[b])
                    arriving.setdefault(route.destination, {})[column] = weight
            servable = servable and all(rows)
            for row in rows:
                self._equal.add(row, 1.0)
            for columns in arriving.values():
                self._upper.add(columns, 0.0)
        for key, columns in busy.items():
            holding = next(h for h in self._fleet.site(key.site).holdings if h.hardware == key.hardware)
            self._busy.append((len(self._upper.limits), failure, key, holding.max_utilization))
            self._upper.add(columns, 0.0)
        for e, columns in sent.items():
            self._upper.add({**columns, e: -self._fleet.connections[e].max_utilization}, 0.0)
        return servable

    def _column(self, usd_per_hour: float) -> int:
        self._cost.append(usd_per_hour)
        return len(self._cost) - 1

    def usd_of_links(self, counts: Counts) -> float | None:
        """The least USD/h of links that serve the demands in all states; None where the counts do not."""
        if not self.servable:
            return None
        limits = np.array(self._upper.limits)
        for row, failure, key, ceiling in self._busy:
            limits[row] = ceiling * failure.left(key, counts.get(key, 0))
        found = linprog(
            self._cost,
            A_ub=self._upper_matrix,
            b_ub=limits,
            A_eq=self._equal_matrix,
            b_eq=self._equal.limits,
            bounds=self._bounds,
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
    """The least USD/h of all counts; None where none survives, as when the most of every kind at once does not."""
    program, combinations = Survival(fleet, kinds), all_counts(fleet)
    most = {key: max(counts[key] for counts in combinations) for key in combinations[0]}
    if program.usd_of_links(most) is None:
        return None
    best: float | None = None
    for usd, counts in sorted(((usd_of_gpus(fleet, c), c) for c in combinations), key=lambda each: each[0]):
        if best is not None and usd >= best:
            break
        links = program.usd_of_links(counts)
        if links is not None:
            best = usd + links if best is None else min(best, usd + links)
    return best
