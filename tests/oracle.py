"""A slow second opinion: brute force over every whole-token threshold and every split, and a free-routing LP.

Nothing here comes from ``prfaas_opt``; it reads the plain mapping of a scenario file (model and workload inline) and
knows only what DESIGN says. Densities become weighted points, Gauss-Legendre nodes inside every token, so no
closed form is shared with the planner. All breakpoints of curves are whole tokens, hence no node interval holds
one and the quadrature sees smooth functions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

NODES_PER_TOKEN = 12
SECONDS = {"latency_s": 1.0, "latency_ms": 1e-3, "latency_us": 1e-6}
BYTES = {"bytes": 1.0, "kib": 1024.0, "mib": 1024.0**2, "gib": 1024.0**3, "mb": 1e6, "gb": 1e9}
BYTES_PER_S = {"Gbps": 1e9 / 8, "Mbps": 1e6 / 8, "GB/s": 1e9, "MB/s": 1e6, "GiB/s": 1024.0**3}


@dataclass(frozen=True)
class Points:
    """Lengths with probabilities; ``cell`` is the whole token below: t lies in the cell ``(t - 1, t]``.

    Attributes:
        lengths: tokens, any order.
        probabilities: their sum is 1.
        cells: ``ceil(length) - 1``; a threshold t offloads the cells from t on.
    """

    lengths: Array
    probabilities: Array
    cells: NDArray[np.int64]

    def by_cell(self, values: Array | float) -> Array:
        """``E[values; L in cell]`` for cells 0, 1, ..."""
        totals: Array = np.bincount(self.cells, weights=self.probabilities * values).astype(np.float64)
        return totals

    def mean(self) -> float:
        return float(self.probabilities @ self.lengths)


def points_of(lengths: Mapping[str, Any] | int, nodes: int = NODES_PER_TOKEN) -> Points:
    """The points of a length distribution as a workload file writes it."""
    if not isinstance(lengths, Mapping):
        return _atoms([lengths], [1.0])
    kind = lengths["distribution"]
    if kind == "constant":
        return _atoms([lengths["value"]], [1.0])
    if kind == "table":
        return _atoms(lengths["lengths"], lengths["weights"])
    if kind == "mixture":
        return _mixture([(part["weight"], points_of(part, nodes)) for part in lengths["parts"]])
    if kind == "uniform":
        return _density(lengths["low"], lengths["high"], nodes, np.zeros_like)

    def log_density(x: Array) -> Array:
        z: Array = (np.log(x) - lengths["mu"]) / lengths["sigma"]
        return -0.5 * z * z - np.log(x)

    return _density(lengths["low"], lengths["high"], nodes, log_density)


def _atoms(lengths: Sequence[int], weights: Sequence[float]) -> Points:
    kept = [(length, weight) for length, weight in zip(lengths, weights, strict=True) if weight > 0]
    x, w = np.array(kept, dtype=np.float64).T
    return Points(x, w / math.fsum(w), x.astype(np.int64) - 1)


def _density(low: int, high: int, nodes: int, log_density: Curve) -> Points:
    unit, weight = np.polynomial.legendre.leggauss(nodes)
    cells = np.repeat(np.arange(low, high), nodes)
    x = np.asarray(cells + np.tile(0.5 * (unit + 1.0), high - low), dtype=np.float64)
    logs = log_density(x)
    w = np.tile(weight, high - low) * np.exp(logs - logs.max())
    return Points(x, w / math.fsum(w), cells)


def _mixture(parts: Sequence[tuple[float, Points]]) -> Points:
    total = math.fsum(weight for weight, _ in parts)
    return Points(
        np.concatenate([part.lengths for _, part in parts]),
        np.concatenate([weight / total * part.probabilities for weight, part in parts]),
        np.concatenate([part.cells for _, part in parts]),
    )


def _quantity(table: Mapping[str, Any], units: Mapping[str, float]) -> tuple[Array, Array]:
    """Lengths and SI values of a table, whatever unit its column is in, with its extrapolation as one more point."""
    column = next(name for name in units if name in table)
    x = np.array(table["lengths_tokens"], dtype=np.float64)
    return x, np.array(table[column], dtype=np.float64) * units[column]


def _joined(table: Mapping[str, Any], x: Array, y: Array, default: str) -> Curve:
    """Points joined as the table says, the last segment's law going on to ``extrapolate_to_tokens``."""
    end = float(table.get("extrapolate_to_tokens", 0))
    if table.get("interpolation", default) == "linear":
        if end > x[-1]:
            y = np.append(y, y[-1] + (y[-1] - y[-2]) / (x[-1] - x[-2]) * (end - x[-1]))
            x = np.append(x, end)
        return lambda length: np.interp(length, x, y)
    log_x, log_y = np.log(x), np.log(y)
    if end > x[-1]:
        slope = (log_y[-1] - log_y[-2]) / (log_x[-1] - log_x[-2])
        log_y = np.append(log_y, log_y[-1] + slope * (math.log(end) - log_x[-1]))
        log_x = np.append(log_x, math.log(end))
    return lambda length: np.exp(np.interp(np.log(length), log_x, log_y))


def size_curve(table: Mapping[str, Any]) -> Curve:
    """KVCache bytes: straight between points by default; below them the first segment's slope goes on."""
    x, y = _quantity(table, BYTES)
    inside = _joined(table, x, y, "linear")
    slope = (y[1] - y[0]) / (x[1] - x[0])
    return lambda length: np.where(length < x[0], y[0] + slope * (length - x[0]), inside(length))


def latency_curve(prefill: Mapping[str, Any], size: Curve) -> Curve:
    """Prefill seconds: log-log between points by default, the first point's value below them."""
    if "quadratic" in prefill:
        a, b, c = (prefill["quadratic"][key] for key in ("a_s", "b_s_per_token", "c_s_per_token2"))
        shortest = prefill["range_tokens"][0]

        def quadratic(length: Array) -> Array:
            clipped = np.maximum(length, shortest)
            return np.asarray(a + b * clipped + c * clipped * clipped)

        return quadratic
    if "kv_throughput_gbps" in prefill:
        x, gbps = _quantity(prefill, {"kv_throughput_gbps": 1e9 / 8})
        return _joined(prefill, x, size(x) / gbps, "log-log")
    x, y = _quantity(prefill, SECONDS)
    return _joined(prefill, x, y, "log-log")


def bandwidth_bytes_per_s(text: str | int) -> float:
    """Bytes/s of ``"2.5Gbps"``, ``"300MB/s"`` or 0."""
    if not isinstance(text, str):
        return float(text)
    unit = next(u for u in BYTES_PER_S if text.endswith(u))
    return float(text.removesuffix(unit)) * BYTES_PER_S[unit]


def decode_rps(decode: Mapping[str, Any], tokens_per_s: float | None, mean_output: float) -> float:
    """Requests/s of one decode instance at the largest batch whose step keeps the SLO; 0 where none does."""
    column = "step_s" if "step_s" in decode else "step_ms"
    measured = np.atleast_1d(np.array(decode["batch"]))
    steps_s = np.atleast_1d(np.array(decode[column], dtype=np.float64)) * (1.0 if column == "step_s" else 1e-3)
    if tokens_per_s is None:
        return float(measured[-1] / (steps_s[-1] * mean_output))
    batches = np.arange(measured[0], measured[-1] + 1)
    step_s = np.interp(batches, measured, steps_s)
    fast = np.flatnonzero(step_s * tokens_per_s <= 1.0 + 1e-12)
    return float(batches[fast[-1]] / (step_s[fast[-1]] * mean_output)) if fast.size else 0.0


def _ratio(load: Array, capacity: float) -> Array:
    """Load per unit of capacity; without capacity, nothing may be loaded."""
    return load / capacity if capacity > 0 else np.where(load > 0, np.inf, 0.0)


@dataclass(frozen=True)
class FreeRouting:
    """The best routing by length of one split, from both sides: ``attained`` by a routing, ``proven`` by prices."""

    attained_rps: float
    proven_rps: float


@dataclass(frozen=True)
class Oracle:
    """Two prefill pools and a decode pool; capacities are after their utilization ceilings.

    Attributes:
        points: lengths and probabilities.
        local_s, remote_s, sent_bytes: curves by length.
        remote_instances: usable; 0 where there is no remote cluster.
        egress_bytes_per_s: usable.
        pd_instances: to split.
        pd_ceiling: of each.
        decode_rps: of one fully used decode instance; 0 where no batch keeps the SLO.
        estimator: expected-time or mean-length.
    """

    points: Points
    local_s: Curve
    remote_s: Curve
    sent_bytes: Curve
    remote_instances: float
    egress_bytes_per_s: float
    pd_instances: int
    pd_ceiling: float
    decode_rps: float
    estimator: str

    @cached_property
    def thresholds(self) -> NDArray[np.int64]:
        """Every threshold that differs: from one that offloads everything to one that keeps everything."""
        return np.arange(self.points.cells.min(), self.points.cells.max() + 2)

    @cached_property
    def occupied(self) -> NDArray[np.bool_]:
        """Whether a longest kept length can be this threshold (in order of ``thresholds``)."""
        counts = np.bincount(self.points.cells, minlength=int(self.thresholds[-1]))
        return np.append(True, counts[self.thresholds[1:] - 1] > 0)

    def _sums(self, values: Array | float) -> tuple[Array, Array]:
        """``E[values; L > t]`` and ``E[values; L <= t]`` at each threshold."""
        cells = self.points.by_cell(values)
        above = np.append(np.cumsum(cells[::-1])[::-1], 0.0)
        at_most = np.append(0.0, np.cumsum(cells))
        return above[self.thresholds], at_most[self.thresholds]

    def _work(self, curve: Curve) -> tuple[Array, Array]:
        """What offloaded and kept requests need of a curve, per request of all, at each threshold."""
        if self.estimator == "expected-time":
            return self._sums(curve(self.points.lengths))
        longest = float(self.points.lengths.max())
        work = []
        for share, tokens in zip(self._sums(1.0), self._sums(self.points.lengths), strict=True):
            mean = np.divide(tokens, share, out=np.full_like(share, longest), where=share > 0)
            work.append(share * curve(np.minimum(mean, longest)))
        return work[0], work[1]

    @cached_property
    def egress_bytes(self) -> Array:
        """Bytes sent per request of all, at each threshold."""
        return self._work(self.sent_bytes)[0]

    @cached_property
    def loads(self) -> tuple[Array, Array, Array]:
        """Per request: remote seconds and bytes per capacity, local seconds; at each threshold."""
        remote = _ratio(self._work(self.remote_s)[0], self.remote_instances)
        return remote, _ratio(self.egress_bytes, self.egress_bytes_per_s), self._work(self.local_s)[1]

    @cached_property
    def throughput_rps(self) -> Array:
        """At each threshold (rows) and number of local prefill instances (columns)."""
        remote, link, local_s = self.loads
        columns = []
        for prefill in range(self.pd_instances):
            load = np.maximum(np.maximum(remote, link), _ratio(local_s, self.pd_ceiling * prefill))
            columns.append(np.minimum(1.0 / load, self.decode_limit_rps(prefill)))
        return np.array(columns).T

    def decode_limit_rps(self, prefill: int) -> float:
        return self.decode_rps * self.pd_ceiling * (self.pd_instances - prefill)

    @property
    def best_rps(self) -> float:
        return float(self.throughput_rps.max())

    def index(self, threshold: int) -> int:
        """Row of a threshold; those beyond either end are the ends."""
        return int(np.clip(threshold, self.thresholds[0], self.thresholds[-1]) - self.thresholds[0])

    def at(self, threshold: int, prefill: int) -> float:
        """Throughput of one decision."""
        return float(self.throughput_rps[self.index(threshold), prefill])

    def tied(self, share: float) -> NDArray[np.bool_]:
        """Decisions within a relative difference of the best."""
        tied: NDArray[np.bool_] = self.throughput_rps >= self.best_rps * (1.0 - share)
        return tied

    def free_routing(self, prefill: int) -> FreeRouting:
        """The best routing by length, thresholds or not, of one split.

        Per token cell (a single length in a table) a share is offloaded: minimize the largest load. The solver is
        not trusted: ``attained`` evaluates its shares, ``proven`` its prices, both with plain sums. Prices are
        evaluated at every point, so that they also bound routings that cut a token in two.
        """
        decode, points = self.decode_limit_rps(prefill), self.points
        capacities = (self.remote_instances, self.egress_bytes_per_s, self.pd_ceiling * prefill)
        curves = (self.remote_s, self.sent_bytes, self.local_s)
        work = [curve(points.lengths) for curve in curves]
        everything = [
            float(points.probabilities @ w) / n if n else math.inf for w, n in zip(work, capacities, strict=True)
        ]
        if math.inf in everything[:2]:
            attained = proven = everything[2]
        elif math.isinf(everything[2]):
            attained = proven = max(everything[:2])
        else:
            remote, sent, local = (w / n for w, n in zip(work, capacities, strict=True))
            shares, price = _least_load(*(points.by_cell(load) for load in (remote, sent, local)))
            share = shares[points.cells] * points.probabilities
            attained = max(float(share @ remote), float(share @ sent), float((points.probabilities - share) @ local))
            cheapest = np.minimum(price[0] * remote + price[1] * sent, price[2] * local)
            proven = float(points.probabilities @ cheapest)
        return FreeRouting(min(1.0 / attained, decode), min(1.0 / proven, decode))

    def best_free_routing(self) -> FreeRouting:
        """Over all splits."""
        routings = [self.free_routing(prefill) for prefill in range(self.pd_instances)]
        return FreeRouting(max(r.attained_rps for r in routings), max(r.proven_rps for r in routings))


def _least_load(remote: Array, sent: Array, local: Array) -> tuple[Array, Array]:
    """Shares to offload for the least largest load, and the prices of the three loads, 1 in all."""
    taken = local > 0
    # The better of offloading everything and nothing is 1, so that the solver's tolerances are relative.
    unit = min(float(local.sum()), max(float(remote.sum()), float(sent.sum())))
    rows = np.array([remote, sent, -local])[:, taken] / unit
    columns = rows.shape[1]
    solved = linprog(
        np.append(np.zeros(columns), 1.0),
        A_ub=np.hstack([rows, -np.ones((3, 1))]),
        b_ub=np.array([0.0, 0.0, -float(local.sum()) / unit]),
        bounds=[(0.0, 1.0)] * columns + [(0.0, None)],
        method="highs-ds",
    )
    assert solved.status == 0, solved.message
    assert solved.x is not None
    shares = np.zeros(local.size)
    shares[taken] = np.clip(solved.x[:-1], 0.0, 1.0)
    prices = np.maximum(-solved.ineqlin.marginals, 0.0)
    assert prices.sum() > 0
    return shares, prices / prices.sum()


def oracle_of(scenario: Mapping[str, Any], nodes: int = NODES_PER_TOKEN) -> Oracle:
    """The oracle of a scenario mapping with its model and workload inline."""
    model, workload = scenario["model"], scenario["workload"]
    clusters = scenario["clusters"].values()
    pd = next(c for c in clusters if c["role"] == "pd")
    remote = next((c for c in clusters if c["role"] == "prefill"), None)
    link = next(iter(scenario.get("links", [])), None)
    local_s, _ = _curves(model, pd["hardware"])
    remote_s, sent_bytes = _curves(model, (remote or pd)["hardware"])
    decode = _profile(model, pd["hardware"])["decode"]
    mean_output = points_of(workload["output_tokens"]).mean()
    return Oracle(
        points=points_of(workload["input_tokens"], nodes),
        local_s=local_s,
        remote_s=remote_s,
        sent_bytes=sent_bytes,
        remote_instances=remote["instances"] * remote.get("max_utilization", 1.0) if remote else 0.0,
        egress_bytes_per_s=bandwidth_bytes_per_s(link["bandwidth"]) * link.get("max_utilization", 1.0) if link else 0.0,
        pd_instances=pd["instances"],
        pd_ceiling=pd.get("max_utilization", 1.0),
        decode_rps=decode_rps(decode, scenario.get("slo", {}).get("tokens_per_s"), mean_output),
        estimator=scenario.get("estimator", "expected-time"),
    )


def _profile(model: Mapping[str, Any], hardware: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(p for p in model["profiles"] if p["hardware"] == hardware)
    return found


def _curves(model: Mapping[str, Any], hardware: str) -> tuple[Curve, Curve]:
    """Latency and size on a hardware."""
    profile = _profile(model, hardware)
    size = size_curve(profile.get("kv_cache") or model["kv_cache"])
    return latency_curve(profile["prefill"], size), size
