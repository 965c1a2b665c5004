"""Brute force for the terms beyond the paper's model, on top of ``tests.oracle`` and as independent of the planner.

Who may serve what, where local prefill runs, what is taken of an instance, what all of it costs. It reads the plain
mapping of a scenario file under expected-time; transfers and links are those of the paper's model.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.oracle import Array, Curve, Points, latency_curve, oracle_of, points_of

SAME = 1e-9
"""Relative difference that passes: the contract."""


@dataclass(frozen=True)
class Capacities:
    """What there is of each resource, before its ceiling.

    Attributes:
        remote: instances; 0 where there are none.
        pd: instances.
        egress_bytes_per_s: what the link carries, its ceiling included.
    """

    remote: int
    pd: int
    egress_bytes_per_s: float


@dataclass(frozen=True)
class Loads:
    """Per served request, at each threshold or at one: seconds of either prefill pool, bytes sent."""

    remote_s: Array
    sent_bytes: Array
    local_s: Array


@dataclass(frozen=True)
class Prices:
    """USD: an instance an hour of each cluster, the link an hour, a byte sent."""

    remote_instance_hour: float
    pd_instance_hour: float
    link_hour: float
    byte: float


@dataclass(frozen=True)
class TermsOracle:
    """Every decision of a scenario with terms.

    Attributes:
        points: served lengths; their probabilities are of the served.
        leaving: the share of each point's requests that may prefill remotely.
        unservable_share: of all requests.
        local_s, remote_s: seconds that an instance is taken for.
        local_latency_s, remote_latency_s: seconds from start to end of a prefill.
        sent_bytes: by length.
        given: what there is in the scenario.
        remote_ceiling, pd_ceiling: of an instance.
        batches, steps_s: decode, every batch that is fast enough.
        accepted: tokens a step.
        mean_output: tokens.
        tokens_per_s: the SLO; None asks nothing.
        on_decode: whether local prefill is on the decode instances.
    """

    points: Points
    leaving: Array
    unservable_share: float
    local_s: Curve
    remote_s: Curve
    local_latency_s: Curve
    remote_latency_s: Curve
    sent_bytes: Curve
    given: Capacities
    remote_ceiling: float
    pd_ceiling: float
    batches: NDArray[np.int64]
    steps_s: Array
    accepted: float
    mean_output: float
    tokens_per_s: float | None
    on_decode: bool

    @cached_property
    def thresholds(self) -> NDArray[np.int64]:
        """From one that offloads all that may leave to one that keeps everything."""
        return np.arange(self.points.cells.min(), self.points.cells.max() + 2)

    def _sums(self, values: Array | float) -> tuple[Array, Array]:
        """``E[values; L > t]`` and ``E[values; L <= t]``."""
        cells = self.points.by_cell(values)
        above, at_most = np.append(np.cumsum(cells[::-1])[::-1], 0.0), np.append(0.0, np.cumsum(cells))
        return above[self.thresholds], at_most[self.thresholds]

    @cached_property
    def loads(self) -> Loads:
        """At each threshold."""
        x, leaving = self.points.lengths, self.leaving
        local = self.local_s(x)
        stay = float(self.points.probabilities @ (local * (1.0 - leaving)))
        return Loads(
            self._sums(self.remote_s(x) * leaving)[0],
            self._sums(self.sent_bytes(x) * leaving)[0],
            self._sums(local * leaving)[1] + stay,
        )

    def remote_share_of(self, bands: Sequence[Any]) -> Array:
        """The share of each point's requests that prefills remotely under a plan's bands; each point is in one."""
        tokens = np.ceil(self.points.lengths)
        share, covered = np.zeros(tokens.size), np.zeros(tokens.size, dtype=np.int64)
        for band in bands:
            inside = (tokens >= band.from_tokens) & (tokens <= band.to_tokens)
            covered += inside
            share = np.where(inside, self.leaving if band.pool == "prfaas" else 0.0, share)
        assert (covered == 1).all(), "the bands do not cover the served lengths once each"
        return share

    def loads_of(self, remote_share: Array) -> Loads:
        """Of any routing by length."""
        x, w = self.points.lengths, self.points.probabilities
        away = w * remote_share
        return Loads(
            np.array([away @ self.remote_s(x)]),
            np.array([away @ self.sent_bytes(x)]),
            np.array([(w - away) @ self.local_s(x)]),
        )

    @cached_property
    def decode_s(self) -> Array:
        """Instance-seconds of decode a request takes, at each batch."""
        seconds: Array = self.steps_s * self.mean_output / (self.batches * self.accepted)
        return seconds

    @cached_property
    def prefill_share(self) -> Array:
        """What the token rate leaves of an instance's time, at each batch."""
        if self.tokens_per_s is None:
            return np.ones(self.steps_s.size)
        left = 1.0 - self.tokens_per_s * self.steps_s / self.accepted
        return np.where(left < 1e-12, 0.0, left)

    def splits(self, have: Capacities | None = None) -> range:
        """Prefill instances of dedicated local prefill, or the index of a batch."""
        return range(self.batches.size if self.on_decode else (have or self.given).pd)

    def rates(self, split: int, loads: Loads | None = None, have: Capacities | None = None) -> Array:
        """Throughput at each threshold, for a split; or of one routing."""
        loads, have = loads or self.loads, have or self.given
        load = _ratio(loads.remote_s, have.remote * self.remote_ceiling)
        load = np.maximum(load, _ratio(loads.sent_bytes, have.egress_bytes_per_s if have.remote else 0.0))
        if not self.batches.size:
            return np.zeros(load.size)
        if self.on_decode:
            decode = (loads.local_s + self.decode_s[split]) / (self.pd_ceiling * have.pd)
            load = np.maximum(load, np.maximum(decode, _ratio(loads.local_s, have.pd * self.prefill_share[split])))
        else:
            load = np.maximum(load, _ratio(loads.local_s, self.pd_ceiling * split))
            load = np.maximum(load, self.decode_s[-1] / (self.pd_ceiling * (have.pd - split)))
        return np.where(np.isinf(load), 0.0, 1.0 / load)

    def best_of_split(self, split: int, have: Capacities | None = None) -> float:
        """Over all thresholds."""
        return float(self.rates(split, have=have).max())

    def best(self, have: Capacities | None = None) -> float:
        """Over all splits and thresholds."""
        return max((self.best_of_split(split, have) for split in self.splits(have)), default=0.0)

    def row(self, threshold: int) -> int:
        """The row of a threshold; those beyond either end are the ends."""
        return int(np.clip(threshold, self.thresholds[0], self.thresholds[-1]) - self.thresholds[0])

    def free_routing(self, split: int) -> tuple[float, float]:
        """The best routing by length of one split: a rate that a routing attains, and one that prices prove."""
        points, have = self.points, self.given
        x, leaving = points.lengths, self.leaving
        offloading = have.remote > 0 and have.egress_bytes_per_s > 0
        per = [
            points.by_cell(curve(x) * leaving) if offloading else np.zeros(0)
            for curve in (self.remote_s, self.sent_bytes, self.local_s)
        ]
        stay = float(points.probabilities @ (self.local_s(x) * (1.0 - (leaving if offloading else 0.0))))
        # Each row: what an offloaded share adds to a load, and the load where nothing is offloaded.
        remote, egress = have.remote * self.remote_ceiling, have.egress_bytes_per_s
        rows = [(per[0] / remote, 0.0), (per[1] / egress, 0.0)] if offloading else []
        constant = 0.0
        if self.on_decode:
            usable = self.pd_ceiling * have.pd
            limits = [(have.pd * float(self.prefill_share[split]), 0.0), (usable, float(self.decode_s[split]))]
        else:
            limits = [(self.pd_ceiling * split, 0.0)]
            constant = float(self.decode_s[-1]) / (self.pd_ceiling * (have.pd - split))
        forced = any(usable == 0 for usable, _ in limits)
        for usable, overhead in limits:
            if usable > 0:
                rows.append((-per[2] / usable, (stay + float(per[2].sum()) + overhead) / usable))
        if forced and stay > 0:
            return 0.0, 0.0
        attained, proven = _least_load(rows, forced)
        return tuple(min(1.0 / max(load, constant), math.inf) for load in (attained, proven))  # type: ignore[return-value]

    def usd_per_request(
        self, prices: Prices, split: int, have: Capacities, loads: Loads | None = None, rates: Array | None = None
    ) -> Array:
        """At each threshold; infinite where nothing is served."""
        loads = loads or self.loads
        rates = self.rates(split, loads, have) if rates is None else rates
        hourly = have.remote * prices.remote_instance_hour + have.pd * prices.pd_instance_hour
        hourly += prices.link_hour if have.remote else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(rates > 0, hourly / 3600.0 / rates + prices.byte * loads.sent_bytes, np.inf)

    def counts(self, remote: bool = True) -> Iterator[Capacities]:
        """Every choice of counts up to the given ones; without a remote instance there is no link."""
        given = self.given
        for pd in range(1, given.pd + 1):
            for away in range(given.remote + 1 if remote else 1):
                yield Capacities(away, pd, given.egress_bytes_per_s if away else 0.0)


def _ratio(load: Array, capacity: float) -> Array:
    return load / capacity if capacity > 0 else np.where(load > 0, np.inf, 0.0)


def _least_load(rows: Sequence[tuple[Array, float]], all_offloaded: bool) -> tuple[float, float]:
    """The least largest load over shares to offload: of the solver's shares, and by the solver's prices."""
    columns = rows[0][0].size
    if all_offloaded or columns == 0:
        load = max((float(change.sum()) + constant for change, constant in rows), default=0.0)
        return load, load
    matrix = np.array([change for change, _ in rows])
    constants = np.array([constant for _, constant in rows])
    used = np.abs(matrix).sum(axis=0) > 0
    unit = max(min(float((matrix.sum(axis=1) + constants).max()), float(constants.max())), 1e-300)
    small = matrix[:, used] / unit
    solved = linprog(
        np.append(np.zeros(small.shape[1]), 1.0),
        A_ub=np.hstack([small, -np.ones((len(rows), 1))]),
        b_ub=-constants / unit,
        bounds=[(0.0, 1.0)] * small.shape[1] + [(0.0, None)],
        method="highs-ds",
    )
    assert solved.status == 0, solved.message
    assert solved.x is not None
    shares = np.zeros(columns)
    shares[used] = np.clip(solved.x[:-1], 0.0, 1.0)
    price = np.maximum(-solved.ineqlin.marginals, 0.0)
    price = price / price.sum()
    attained = float((matrix @ shares + constants).max())
    # Weak duality: the priced sum of the loads, each cell offloaded where that is the cheaper way.
    proven = float(np.minimum(price @ matrix, 0.0).sum() + price @ constants)
    return attained, proven


def terms_oracle_of(scenario: Mapping[str, Any], nodes: int = 6) -> TermsOracle:
    """The oracle of a scenario mapping with its model and workload inline."""
    base = oracle_of(scenario, nodes)
    clusters = {each["role"]: each for each in scenario["clusters"].values()}
    pd, remote = clusters["pd"], clusters.get("prefill")
    points = points_of(scenario["workload"]["input_tokens"], nodes)
    longest_output = float(points_of(scenario["workload"]["output_tokens"]).cells.max() + 1)
    pd_longest = pd.get("max_context", math.inf) - longest_output
    served = points.lengths <= pd_longest
    total = float(points.probabilities[served].sum())
    kept = Points(points.lengths[served], points.probabilities[served] / (total or 1.0), points.cells[served])
    leaving = np.zeros(kept.lengths.size)
    if remote is not None and _formats_match(pd, remote) and base.egress_bytes_per_s > 0:
        stay = scenario.get("residency", {}).get("stay_share", 0.0)
        leaving = np.where(kept.lengths <= remote.get("max_context", math.inf), 1.0 - stay, 0.0)
    decode = _profile(scenario, pd)["decode"]
    tokens_per_s = scenario.get("slo", {}).get("tokens_per_s")
    accepted = float(decode.get("accepted_tokens", 1.0))
    batches, steps_s = fast_batches(decode, tokens_per_s, accepted)
    local, away = (_profile(scenario, each or pd) for each in (pd, remote))
    size = base.sent_bytes
    return TermsOracle(
        points=kept,
        leaving=leaving,
        unservable_share=float(points.probabilities[~served].sum()),
        local_s=latency_curve(taken(local["prefill"]), size),
        remote_s=latency_curve(taken(away["prefill"]), size),
        local_latency_s=base.local_s,
        remote_latency_s=base.remote_s,
        sent_bytes=size,
        given=Capacities(remote["instances"] if remote else 0, pd["instances"], base.egress_bytes_per_s),
        remote_ceiling=remote.get("max_utilization", 1.0) if remote else 1.0,
        pd_ceiling=pd.get("max_utilization", 1.0),
        batches=batches,
        steps_s=steps_s,
        accepted=accepted,
        mean_output=points_of(scenario["workload"]["output_tokens"]).mean(),
        tokens_per_s=tokens_per_s,
        on_decode=scenario.get("local_prefill") == "on_decode",
    )


def _formats_match(pd: Mapping[str, Any], remote: Mapping[str, Any]) -> bool:
    formats = [each["kv_format"].lower() for each in (pd, remote) if "kv_format" in each]
    return len(set(formats)) <= 1


def taken(prefill: Mapping[str, Any]) -> dict[str, Any]:
    """A prefill curve's fields with what an instance is taken for in place of the latency."""
    fields = dict(copy.deepcopy(prefill))
    for key in list(fields):
        if key.startswith("occupancy_"):
            fields[{"occupancy_quadratic": "quadratic"}.get(key, key.replace("occupancy", "latency"))] = fields.pop(key)
    return fields


def fast_batches(decode: Mapping[str, Any], tokens_per_s: float | None, accepted: float) -> tuple[Any, Array]:
    """Every whole batch of the measured range whose step keeps the SLO, and its step."""
    column, unit = ("step_s", 1.0) if "step_s" in decode else ("step_ms", 1e-3)
    measured = np.atleast_1d(np.array(decode["batch"]))
    steps_s = np.atleast_1d(np.array(decode[column], dtype=np.float64)) * unit
    batches = np.arange(measured[0], measured[-1] + 1)
    step_s = np.interp(batches, measured, steps_s)
    fast = np.full(batches.size, True) if tokens_per_s is None else step_s * tokens_per_s <= accepted * (1.0 + 1e-12)
    return batches[fast], step_s[fast]


def prices_of(scenario: Mapping[str, Any]) -> Prices:
    """The prices of a scenario mapping."""
    clusters = {each["role"]: each for each in scenario["clusters"].values()}
    link: Mapping[str, Any] = next(iter(scenario.get("links", [])), {})
    hourly = {
        role: each.get("price_per_gpu_hour", 0.0) * _profile(scenario, each)["gpus_per_instance"]
        for role, each in clusters.items()
    }
    gbps = oracle_of(scenario, 1).egress_bytes_per_s / link.get("max_utilization", 1.0) * 8e-9
    return Prices(
        hourly.get("prefill", 0.0),
        hourly["pd"],
        gbps * link.get("price_per_gbps_hour", 0.0),
        link.get("price_per_gb", 0.0) / 1e9,
    )


def _profile(scenario: Mapping[str, Any], cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    profiles: list[Mapping[str, Any]] = scenario["model"]["profiles"]
    return next(each for each in profiles if each["hardware"] == cluster["hardware"])


def differ(got: float, expected: float, tolerance: float = SAME) -> bool:
    """Whether two figures differ by more than rounding."""
    return not math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def assert_none_wrong(
    check: Callable[[dict[str, Any]], Iterable[str]], make: Callable[[int], dict[str, Any]], seeds: Iterable[int]
) -> None:
    """Nothing is wrong with the scenarios of some seeds, an exception included; else each with what repeats it."""
    wrong = []
    for seed in seeds:
        try:
            said = list(check(make(seed)))
        except Exception as error:
            said = [f"{type(error).__name__}: {error}"]
        wrong += [f"seed {seed}: {each}" for each in said]
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])
