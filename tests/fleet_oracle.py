"""A second opinion on fleets: one linear program over binned lengths, written out and handed to scipy.

It shares nothing with the planner but the fleet's data: curves are called, a decode profile is asked for its batch,
densities are integrated here. Each stream's lengths become bins of equal probability, cut at every break of its
model's curves; an atom is a bin of its own. Requests of one bin share their routing and take their bin's mean time
and size, so every optimum here is attained by a routing by length: a throughput is a lower bound, a cost an upper
bound of what unbinned lengths allow, and both converge as bins are added. (The densities of a mixture are binned
one by one: at one length they may be routed differently, which is a share of that length.)

``u[stream, route, bin]`` is the rate of a bin on a route, divided by the bin's share of all requests, in units of
``unit_rps``; a route is where it is prefilled, over which link, where it is decoded. ``z[stream, holding]`` is the
same for decoding, where a stream's bins are alike. Then instances, GPUs, links and the total rate:

    sum_routes u                         = total                 each stream and bin
    sum_bins,routes to the site  w * u   = sum_holdings z        each stream and PD site
    sum q * T * u                       <= rho * instances       each model and holding, prefill
    sum q * BS-limited seconds * z      <= rho * instances       each model and holding, decode
    sum q * S * u                       <= eta * bandwidth       each link
    sum gpus_per_instance * instances   <= gpus                  each holding
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack

from prfaas_opt.fleet import Connection, Fleet, Holding, Site, Stream
from prfaas_opt.profiles.model import Model
from tests.fleet_bins import Array, Counts, Indices, decode_s, gpus_per_instance, routes_of, served
from tests.fleet_bins import Count as Count
from tests.fleet_bins import binned as binned
from tests.fleet_bins import gpus_used as gpus_used

BINS = 400
MOST_COMBINATIONS = 3_000
"""Brute force refuses more."""
BYTES_PER_GBPS = 1e9 / 8
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Sizing:
    """A fleet of least cost.

    Attributes:
        usd_per_hour: what it costs.
        bound_usd_per_hour: nothing is cheaper, says the solver, with these bins.
        counts: instances; fractions of them where the integers were relaxed.
        gpus: paid, by site and hardware.
        bandwidths: paid, bytes/s, one a connection in the fleet's order.
        demand_factor: how many times the demands it serves.
    """

    usd_per_hour: float
    bound_usd_per_hour: float
    counts: dict[Count, float]
    gpus: dict[tuple[str, str], float]
    bandwidths: tuple[float, ...]
    demand_factor: float


@dataclass
class _Rows:
    """Constraints ``lower <= A x <= upper``, row by row."""

    keys: dict[Any, int] = field(default_factory=dict)
    lower: list[float] = field(default_factory=list)
    entries: list[tuple[Indices, Indices, Array]] = field(default_factory=list)

    def row(self, key: Any, lower: float) -> int:
        """The row of a key; its upper limit is 0, its lower limit 0 or -inf."""
        if key not in self.keys:
            self.keys[key] = len(self.lower)
            self.lower.append(lower)
        return self.keys[key]

    def add(self, row: int | Indices, columns: int | Indices, values: Array | float) -> None:
        """Entries of a row, or of many."""
        r, c, v = (np.ravel(x) for x in np.broadcast_arrays(row, columns, values))
        self.entries.append((r, c, np.asarray(v, dtype=np.float64)))

    def matrix(self, columns: int) -> csr_array:
        """A."""
        r, c, v = (np.concatenate(x) for x in zip(*self.entries, strict=True))
        return csr_array((v, (r, c)), shape=(len(self.lower), columns))


class _Program:
    """The program of a fleet; a plan takes the most GPUs and bandwidth there may be as given."""

    def __init__(self, fleet: Fleet, bins: int, unit_rps: float, plan: bool) -> None:
        self.fleet, self.unit_rps, self._plan = fleet, unit_rps, plan
        self._low: list[float] = []
        self._high: list[float] = []
        self._usd_per_hour: list[float] = []
        self._rows = _Rows()
        self.counts: dict[Count, int] = {}
        self._flows: list[tuple[Indices, list[str], dict[str, list[int]], Array]] = []
        self._sent: list[tuple[Indices, Array]] = []
        self.gpus = {(s.name, h.hardware): self._gpus(s, h) for s in fleet.sites for h in s.holdings}
        self.links = [self._link(index, link) for index, link in enumerate(fleet.connections)]
        self.total = self._columns(0.0, math.inf)
        self.servable = all(self._add_stream(stream, bins) for stream in fleet.streams)
        self._matrix = self._rows.matrix(len(self._low))
        equal = np.array(self._rows.lower) == 0.0
        self._equal: Any = self._matrix[equal]
        self._upper: Any = self._matrix[~equal]

    def _columns(self, low: float, high: float, usd_per_hour: Array | float = 0.0, number: int = 1) -> int:
        first = len(self._low)
        self._low += [low] * number
        self._high += [high] * number
        self._usd_per_hour += np.broadcast_to(usd_per_hour, number).tolist()
        return first

    def _gpus(self, site: Site, holding: Holding) -> int:
        least = holding.gpus.most if self._plan else holding.gpus.least
        column = self._columns(least, holding.gpus.most, holding.usd_per_gpu_hour or 0.0)
        self._rows.add(self._rows.row(("gpus", site.name, holding.hardware), -math.inf), column, -1.0)
        return column

    def _link(self, index: int, link: Connection) -> int:
        """Bandwidth as a share of the most there may be."""
        limits = link.bandwidth_bytes_per_s
        least = 1.0 if self._plan or not limits.most else limits.least / limits.most
        column = self._columns(least, 1.0, (link.usd_per_gbps_hour or 0.0) * limits.most / BYTES_PER_GBPS)
        self._rows.add(self._rows.row(("link", index), -math.inf), column, -1.0)
        return column

    def _add_stream(self, stream: Stream, bins: int) -> bool:
        """Whether there is a way to serve it."""
        curves = [curve for profile in stream.model.profiles for curve in (profile.prefill_s, profile.kv_bytes)]
        lengths = binned(stream.workload.input_tokens, bins, [piece.high for curve in curves for piece in curve.pieces])
        weights = lengths.weights
        rate_rps = self.unit_rps * stream.demand_rps / self.fleet.demand_rps
        decodes = self._add_decodes(stream, rate_rps)
        routes = [route for route in routes_of(self.fleet, stream) if route.destination in decodes]
        if not routes:
            return False
        serve = np.array([self._rows.row(("serve", stream.name, i), 0.0) for i in range(len(weights))])
        self._rows.add(serve, self.total, -1.0)
        blocks = []
        for route in routes:
            sent = rate_rps * weights * lengths.means(route.profile.kv_bytes)
            link = None if route.connection is None else self.fleet.connections[route.connection]
            usd = sent * SECONDS_PER_HOUR / 1e9 * (link.usd_per_gb or 0.0) if link else 0.0
            block = self._columns(0.0, math.inf, usd, len(weights)) + np.arange(len(weights))
            busy_s = rate_rps * weights * lengths.means(route.profile.prefill_s)
            self._rows.add(serve, block, 1.0)
            self._rows.add(self._rows.row(("flow", stream.name, route.destination), 0.0), block, weights)
            self._rows.add(self._instances(stream.model, route.site, route.holding, "prefill"), block, busy_s)
            if link:
                usable = link.max_utilization * link.bandwidth_bytes_per_s.most
                self._rows.add(self._rows.row(("link", route.connection), -math.inf), block, sent / usable)
                self._sent.append((block, sent))
            blocks.append(block)
        self._flows.append((np.array(blocks), [route.destination for route in routes], decodes, weights))
        return True

    def _add_decodes(self, stream: Stream, rate_rps: float) -> dict[str, list[int]]:
        """Columns of decoding, by destination."""
        columns: dict[str, list[int]] = {}
        for site in self.fleet.sites:
            if site.role != "pd" or stream.destination not in (None, site.name):
                continue
            for holding, profile in served(site, stream.model):
                seconds = decode_s(stream, profile)
                if seconds is not None:
                    column = self._columns(0.0, math.inf)
                    columns.setdefault(site.name, []).append(column)
                    row = self._instances(stream.model, site, holding, "decode")
                    self._rows.add(row, column, rate_rps * seconds)
                    self._rows.add(self._rows.row(("flow", stream.name, site.name), 0.0), column, -1.0)
        return columns

    def _instances(self, model: Model, site: Site, holding: Holding, role: str) -> int:
        """The row that limits the busy time of a kind of instances."""
        key = Count(model.name, site.name, holding.hardware, role)
        row = self._rows.row(key, -math.inf)
        if key not in self.counts:
            each = gpus_per_instance(model, holding.hardware)
            self.counts[key] = self._columns(0.0, holding.gpus.most / each)
            self._rows.add(row, self.counts[key], -holding.max_utilization)
            self._rows.add(self._rows.row(("gpus", site.name, holding.hardware), -math.inf), self.counts[key], each)
        return row

    def limits(self, total: float | None, counts: Mapping[Count, int] | None) -> tuple[Array, Array]:
        """Least and most of every column, with the total rate and the instances fixed where they are given."""
        low, high = np.array(self._low), np.array(self._high)
        if total is not None:
            low[self.total] = high[self.total] = total
        if counts is not None:
            for key, column in self.counts.items():
                low[column] = high[column] = counts.get(key, 0)
        return low, high

    def cost(self) -> Array:
        """USD/h of one of each column."""
        return np.array(self._usd_per_hour)

    def most_rate(self) -> Array:
        """The objective, to minimize, that makes the total rate largest."""
        objective = np.zeros(len(self._low))
        objective[self.total] = -1.0
        return objective

    def sent_bytes(self) -> Array:
        """Bytes/s of one of each column."""
        sent = np.zeros(len(self._low))
        for block, each in self._sent:
            sent[block] = each
        return sent

    def linear(self, objective: Array, low: Array, high: Array, budget: float | None = None) -> Array | None:
        """The best columns, instances in fractions or fixed by ``low`` and ``high``; None where there are none."""
        upper, limit = self._upper, np.zeros(self._upper.shape[0])
        if budget is not None:
            upper, limit = vstack([upper, csr_array(self.cost()[None, :] / budget)]), np.append(limit, 1.0)
        solved = linprog(
            objective,
            A_ub=upper,
            b_ub=limit,
            A_eq=self._equal,
            b_eq=np.zeros(self._equal.shape[0]),
            bounds=list(zip(low.tolist(), high.tolist(), strict=True)),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        assert solved.status in (0, 2), solved.message
        return None if solved.x is None or solved.status else np.asarray(solved.x)

    def integer(
        self, objective: Array, low: Array, high: Array, budget: float | None, time_limit_s: float
    ) -> tuple[dict[Count, int], float] | None:
        """The best instances and the solver's bound; None where there are none."""
        integrality = np.zeros(len(low), dtype=np.int64)
        integrality[list(self.counts.values())] = 1
        high[integrality == 1] = np.floor(high[integrality == 1])
        constraints = [LinearConstraint(self._matrix, np.array(self._rows.lower), 0.0)]
        if budget is not None:
            constraints.append(LinearConstraint(csr_array(self.cost()[None, :] / budget), -np.inf, 1.0))
        solved = milp(
            objective,
            integrality=integrality,
            bounds=Bounds(low, high),
            constraints=constraints,
            options={"mip_rel_gap": 1e-9, "time_limit": time_limit_s},
        )
        assert solved.status in (0, 1, 2), solved.message
        if solved.x is None:
            assert solved.status == 2, solved.message
            return None
        return {key: round(solved.x[column]) for key, column in self.counts.items()}, float(solved.mip_dual_bound)

    def attained_rps(self, columns: Array, counts: Mapping[Count, int]) -> float:
        """The rate that a routing certainly attains, the solver's tolerances taken out of it, with plain sums."""
        capacities = np.zeros(len(columns))
        capacities[self.links] = 1.0
        for key, column in self.counts.items():
            capacities[column] = counts.get(key, 0)
        limited = [row for key, row in self._rows.keys.items() if isinstance(key, Count) or key[0] == "link"]
        capacity = -(self._matrix @ capacities)[limited]
        # A tolerance of the solver's is no rate on a route that has no capacity.
        blocked = (self._matrix[limited][capacity <= 0] > 0).sum(axis=0) > 0
        columns = np.where(blocked | (columns < 1e-9 * columns[self.total]), 0.0, columns)
        routing = np.zeros(len(columns))
        for blocks, destinations, decodes, weights in self._flows:
            flow = columns[blocks]
            # A bin of almost no requests weighs nothing to the solver, which may leave it where nothing serves.
            flow[np.argmax(flow @ weights), ~flow.any(axis=0)] = 1.0
            routing[blocks] = flow / flow.sum(axis=0)
            arriving: dict[str, float] = dict.fromkeys(decodes, 0.0)
            for block, destination in zip(blocks, destinations, strict=True):
                arriving[destination] += float(weights @ routing[block])
            for destination, rate in arriving.items():
                shares = columns[decodes[destination]]
                if rate > 0 and not shares.any():
                    return 0.0
                routing[decodes[destination]] = rate * shares / shares.sum() if rate > 0 else 0.0
        load = (self._matrix @ routing)[limited]
        if (load[capacity <= 0] > 0).any():
            return 0.0
        return self.unit_rps * float((capacity[load > 0] / load[load > 0]).min())


def best_throughput(fleet: Fleet, bins: int = BINS, time_limit_s: float = 60.0) -> tuple[float, Counts]:
    """The most requests/s in proportion to the demands, and the instances that serve them; 0 where nothing can."""
    unit_rps = relaxed_throughput(fleet, bins)
    if unit_rps <= 0:
        return 0.0, {}
    program = _Program(fleet, bins, unit_rps, plan=True)
    found = program.integer(program.most_rate(), *program.limits(None, None), None, time_limit_s)
    assert found is not None
    return _throughput(program, found[0]), {key: n for key, n in found[0].items() if n}


def best_throughput_of(fleet: Fleet, counts: Mapping[Count, int], bins: int = BINS) -> float:
    """The most requests/s that given instances serve; keys may be plain tuples, absent ones count 0.

    Raises:
        ValueError: more GPUs are used than there are, or instances serve nothing they could.
    """
    program = _Program(fleet, bins, 1.0, plan=True)
    unknown = [key for key, n in counts.items() if n and key not in program.counts]
    if unknown:
        raise ValueError(f"no use for instances {unknown}")
    for (site, hardware), gpus in gpus_used(fleet, counts).items():
        held = next(h.gpus.most for h in fleet.site(site).holdings if h.hardware == hardware)
        if gpus > held:
            raise ValueError(f"{site} {hardware}: {gpus} GPUs used of {held}")
    rate_rps = _throughput(program, counts)
    # Once more in units of the result, so that the solver's tolerances are relative.
    return _throughput(_Program(fleet, bins, rate_rps, plan=True), counts) if rate_rps > 0 else 0.0


def least_egress(fleet: Fleet, counts: Mapping[Count, int], rate_rps: float, bins: int = BINS) -> float | None:
    """The fewest bytes/s that given instances need at a rate; None where they cannot serve it."""
    program = _Program(fleet, bins, rate_rps, plan=True)
    sent = program.sent_bytes()
    columns = program.linear(sent / max(sent.max(), 1.0), *program.limits(1.0, counts))
    return float(sent @ columns) if columns is not None else None


def relaxed_throughput(fleet: Fleet, bins: int = BINS) -> float:
    """The most requests/s if there could be a fraction of an instance; no binned plan has more."""
    rate_rps = 1.0
    for _ in range(2):
        program = _Program(fleet, bins, rate_rps, plan=True)
        columns = program.linear(program.most_rate(), *program.limits(None, None)) if program.servable else None
        rate_rps *= float(columns[program.total]) if columns is not None else 0.0
        if rate_rps <= 0:
            return 0.0
    return rate_rps


def _throughput(program: _Program, counts: Mapping[Count, int]) -> float:
    columns = program.linear(program.most_rate(), *program.limits(None, counts)) if program.servable else None
    if columns is None or columns[program.total] <= 1e-9:
        return 0.0
    return program.attained_rps(columns, counts)


def least_cost(
    fleet: Fleet,
    bins: int = BINS,
    demand_factor: float = 1.0,
    budget: float | None = None,
    time_limit_s: float = 60.0,
) -> Sizing | None:
    """The cheapest fleet that serves the demands times a factor; None where the limits allow none.

    With a ``budget`` in USD/h it is the fleet that serves the largest factor within it (``demand_factor`` then only
    scales the numbers the solver sees), at the least cost for its instances.
    """
    program = _Program(fleet, bins, demand_factor * fleet.demand_rps, plan=False)
    if not program.servable:
        return None
    objective, total = (program.cost(), 1.0) if budget is None else (program.most_rate(), None)
    found = program.integer(objective, *program.limits(total, None), budget, time_limit_s)
    if found is None:
        return None
    counts, bound = found
    columns = None
    if budget is not None:
        most = program.linear(objective, *program.limits(None, counts), budget)
        total = float(most[program.total]) * (1.0 - 1e-9) if most is not None else None
    # Instances that the solver's tolerance called enough may serve a hair too little.
    for spared in (0.0, 1e-8, 1e-7, 1e-6, 5e-6):
        if columns is None and total is not None:
            columns = program.linear(program.cost(), *program.limits(total * (1.0 - spared), counts))
    assert columns is not None
    return _sizing(program, columns, counts, bound if budget is None else budget, demand_factor)


def relaxed_least_cost(fleet: Fleet, bins: int = BINS, demand_factor: float = 1.0) -> Sizing | None:
    """The least cost if there could be a fraction of an instance; no binned fleet is cheaper."""
    program = _Program(fleet, bins, demand_factor * fleet.demand_rps, plan=False)
    columns = program.linear(program.cost(), *program.limits(1.0, None)) if program.servable else None
    if columns is None:
        return None
    counts = {key: float(columns[column]) for key, column in program.counts.items()}
    return _sizing(program, columns, counts, float(program.cost() @ columns), demand_factor)


def _sizing(
    program: _Program, columns: Array, counts: Mapping[Count, float], bound: float, demand_factor: float
) -> Sizing:
    return Sizing(
        usd_per_hour=float(program.cost() @ columns),
        bound_usd_per_hour=bound,
        counts={key: n for key, n in counts.items() if n > 1e-9},
        gpus={key: float(columns[column]) for key, column in program.gpus.items()},
        bandwidths=tuple(
            float(columns[column]) * link.bandwidth_bytes_per_s.most
            for column, link in zip(program.links, program.fleet.connections, strict=True)
        ),
        demand_factor=demand_factor * float(columns[program.total]),
    )


def brute_force_throughput(fleet: Fleet, bins: int = BINS) -> tuple[float, Counts]:
    """The best of all instance counts, each solved by itself; for tiny fleets.

    Raises:
        ValueError: there are more than ``MOST_COMBINATIONS``.
    """
    program = _Program(fleet, bins, 1.0, plan=True)
    tried = [(_throughput(program, counts), counts) for counts in _combinations(program, full=True)]
    rate_rps, counts = max(tried, key=lambda each: each[0])
    return rate_rps, {key: n for key, n in counts.items() if n}


def brute_force_cost(fleet: Fleet, bins: int = BINS, demand_factor: float = 1.0) -> float | None:
    """The cheapest of all instance counts, USD/h, each solved by itself; None where none serves the demands.

    Raises:
        ValueError: there are more than ``MOST_COMBINATIONS``.
    """
    program = _Program(fleet, bins, demand_factor * fleet.demand_rps, plan=False)
    if not program.servable:
        return None
    # By what the GPUs cost: once that alone is more than the best, the rest is too.
    priced = sorted(
        ((_usd_for_gpus(fleet, c), c) for c in _combinations(program, full=False)), key=lambda each: each[0]
    )
    best: float | None = None
    for usd_for_gpus, counts in priced:
        if best is not None and usd_for_gpus >= best:
            break
        columns = program.linear(program.cost(), *program.limits(1.0, counts))
        if columns is not None:
            usd_per_hour = float(program.cost() @ columns)
            best = usd_per_hour if best is None else min(best, usd_per_hour)
    return best


def _usd_for_gpus(fleet: Fleet, counts: Mapping[Count, int]) -> float:
    used = gpus_used(fleet, counts)
    return sum(
        (holding.usd_per_gpu_hour or 0.0) * max(holding.gpus.least, used.get((site.name, holding.hardware), 0))
        for site in fleet.sites
        for holding in site.holdings
    )


def _combinations(program: _Program, full: bool) -> Iterator[Counts]:
    """All instance counts within the GPUs; with ``full``, those that leave no room for one more instance."""
    by_holding: dict[tuple[str, str], list[Count]] = {}
    for key in program.counts:
        by_holding.setdefault((key.site, key.hardware), []).append(key)
    models = {stream.model.name: stream.model for stream in program.fleet.streams}
    choices = []
    for (site, hardware), keys in by_holding.items():
        held = next(h.gpus.most for h in program.fleet.site(site).holdings if h.hardware == hardware)
        sizes = [gpus_per_instance(models[key.model], hardware) for key in keys]
        packed = [dict(zip(keys, n, strict=True)) for n in _packings(sizes, math.floor(held), full)]
        choices.append(packed)
    if math.prod(map(len, choices)) > MOST_COMBINATIONS:
        raise ValueError(f"{math.prod(map(len, choices)):,} combinations are too many")
    for chosen in itertools.product(*choices):
        yield {key: n for counts in chosen for key, n in counts.items()}


def _packings(sizes: Sequence[int], room: int, full: bool) -> Iterator[tuple[int, ...]]:
    ranges = [range(room // size + 1) for size in sizes]
    for numbers in itertools.product(*ranges):
        left = room - sum(n * size for n, size in zip(numbers, sizes, strict=True))
        if left >= 0 and not (full and left >= min(sizes)):
            yield numbers
