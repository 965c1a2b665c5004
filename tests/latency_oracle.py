"""A slow second opinion on the time to first token and on the load at which it holds: sums over many single lengths.

It shares with the planner only the waits of single queues (``latency.queueing``, tested against simulations and exact
values by itself). Lengths, curves and moments come from ``tests.oracle``; the waits are convolved by conditioning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prfaas_opt.latency.queueing import NO_WAIT, Wait, sharing_stretch, wait
from tests.oracle import Array, Oracle, oracle_of, points_of
from tests.scenarios import LENGTH_KINDS, Spec, random_scenario

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Sent:
    """Bytes that one request sends and how, all in SI units; ``fixed_bytes`` of them are never compressed."""

    overlap: str = "layer"
    compression: float = 1.0
    chunk_tokens: float = 8192.0
    fixed_bytes: float = 0.0
    rtt_s: float = 0.0
    request_bytes_per_s: float = math.inf


def wait_tail(first: Wait, second: Wait, seconds: Array) -> Array:
    """P(first + second > y) for independent waits, each zero or exponential; 1 where y < 0."""
    y = np.maximum(seconds, 0.0)
    a, b = first.delayed_share, second.delayed_share
    alpha = a / first.mean_s if first.mean_s > 0 else 1.0
    beta = b / second.mean_s if second.mean_s > 0 else 1.0
    a, b = (a if first.mean_s > 0 else 0.0), (b if second.mean_s > 0 else 0.0)
    gap = alpha - beta
    if abs(gap) < 1e-9 * alpha:
        overlap = y * np.exp(-beta * y)
    elif gap > 0:
        overlap = np.exp(-beta * y) * -np.expm1(-gap * y) / gap
    else:
        overlap = np.exp(-alpha * y) * np.expm1(gap * y) / gap
    tail = a * np.exp(-alpha * y) + (1.0 - a) * b * np.exp(-beta * y) + a * b * alpha * overlap
    return np.where(seconds < 0, 1.0, tail)


def largest_batch(decode: Mapping[str, Any], tokens_per_s: float | None) -> tuple[int, float]:
    """The largest batch whose step keeps the SLO, and the step in seconds."""
    unit = 1.0 if "step_s" in decode else 1e-3
    measured = np.atleast_1d(np.array(decode["batch"]))
    steps = np.atleast_1d(np.array(decode.get("step_s", decode.get("step_ms")), dtype=np.float64)) * unit
    batches = np.arange(measured[0], measured[-1] + 1)
    step_s = np.interp(batches, measured, steps)
    fast = np.flatnonzero(step_s * (tokens_per_s or 0.0) <= 1.0 + 1e-12)
    return int(batches[fast[-1]]), float(step_s[fast[-1]])


@dataclass(frozen=True)
class LatencyOracle:
    """The time to first token of any threshold and split of one scenario."""

    base: Oracle
    remote_servers: int
    slots_per_instance: int
    held_s: float
    held_cv2: float
    arrival_cv2: float
    sent: Sent
    slos: Sequence[tuple[float, float]]

    @cached_property
    def _curves(self) -> tuple[Array, Array, Array]:
        """Local seconds, remote seconds and bytes sent at each point."""
        base, sent = self.base, self.sent
        x = base.points.lengths
        size = base.sent_bytes(x)
        return base.local_s(x), base.remote_s(x), sent.fixed_bytes + (size - sent.fixed_bytes) / sent.compression

    def capacity_rps(self, threshold: int, split: int) -> float:
        """What the decision carries at most: compute, link and decode."""
        base, w = self.base, self.base.points.probabilities
        remote = base.points.cells >= threshold
        local_s, remote_s, size = self._curves
        limits = [base.decode_limit_rps(split)]
        for load, capacity in (
            (float(w[remote] @ remote_s[remote]), base.remote_instances),
            (float(w[remote] @ size[remote]), base.egress_bytes_per_s),
            (float(w[~remote] @ local_s[~remote]), base.pd_ceiling * split),
        ):
            if load > 0:
                limits.append(capacity / load)
        return min(limits)

    def _waits(self, threshold: int, split: int, rate: float) -> tuple[Wait | None, Wait | None, Wait | None, float]:
        """Of remote prefill, local prefill and decode, and the stretch of transfers; None: without end."""
        points = self.base.points
        local_s, remote_s, size = self._curves
        remote = points.cells >= threshold

        def of(mask: NDArray[np.bool_], seconds: Array, servers: int) -> Wait | None:
            share = float(points.probabilities[mask].sum())
            if share <= 0 or rate <= 0:
                return NO_WAIT
            if servers < 1:
                return None
            w, s = points.probabilities[mask] / share, seconds[mask]
            mean = float(w @ s)
            cv2 = float(w @ (s - mean) ** 2) / mean**2
            return wait(rate * share, servers, mean, cv2, 1.0 + share * (self.arrival_cv2 - 1.0))

        slots = self.slots_per_instance * (self.base.pd_instances - split)
        decode = wait(rate, slots, self.held_s, self.held_cv2, self.arrival_cv2) if rate > 0 else NO_WAIT
        link = self.base.egress_bytes_per_s
        stretch = 1.0
        if link > 0 and remote.any():
            load = rate * float(points.probabilities[remote] @ size[remote]) / link
            stretch = sharing_stretch(load, link / min(link, self.sent.request_bytes_per_s))
        return of(remote, remote_s, self.remote_servers), of(~remote, local_s, split), decode, stretch

    def share_longer(self, threshold: int, split: int, rate: float, seconds: float) -> float:
        """P(TTFT > seconds); 1 where some queue has no end."""
        to_remote, to_local, decode, stretch = self._waits(threshold, split, rate)
        if to_remote is None or to_local is None or decode is None or math.isinf(stretch):
            return 1.0
        points = self.base.points
        remote = points.cells >= threshold
        local_s, remote_s, size = self._curves
        total = 0.0
        if remote.any():
            own = remote_s[remote] + self._unhidden_s(remote_s[remote], size[remote], points.lengths[remote], stretch)
            total += float(points.probabilities[remote] @ wait_tail(to_remote, decode, seconds - own))
        if not remote.all():
            own = local_s[~remote]
            total += float(points.probabilities[~remote] @ wait_tail(to_local, decode, seconds - own))
        return total

    def _unhidden_s(self, prefill_s: Array, size: Array, tokens: Array, stretch: float) -> Array:
        """What is left of a transfer when prefill ends, and the round trip."""
        sent = self.sent
        sending_s = size * stretch / min(self.base.egress_bytes_per_s, sent.request_bytes_per_s)
        if sent.overlap == "layer":
            return sent.rtt_s + np.maximum(sending_s - prefill_s, 0.0)
        if sent.overlap == "none":
            return sent.rtt_s + sending_s
        last = np.minimum(sent.chunk_tokens / tokens, 1.0)
        return sent.rtt_s + np.maximum(last * sending_s, sending_s - (1.0 - last) * prefill_s)

    def holds(self, threshold: int, split: int, rate: float, slack: float = 0.0) -> bool:
        """Whether every percentile holds at a rate, their limits made longer by a share."""
        return all(
            self.share_longer(threshold, split, rate, limit_s * (1.0 + slack)) <= 1.0 - quantile + 1e-12
            for quantile, limit_s in self.slos
        )

    def largest_load(self, threshold: int, split: int, least_rps: float = 0.0) -> float:
        """The largest rate at which the percentiles hold, by plain bisection; 0 where none above ``least_rps`` does."""
        capacity = self.capacity_rps(threshold, split)
        if capacity <= least_rps or not self.holds(threshold, split, least_rps):
            return 0.0
        if self.holds(threshold, split, capacity):
            return capacity
        low, high = least_rps, capacity
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            if self.holds(threshold, split, middle):
                low = middle
            else:
                high = middle
        return low

    def best(self, thresholds: Sequence[int]) -> tuple[float, int, int]:
        """The largest load over some thresholds and all splits, and where."""
        best = (0.0, -1, -1)
        for split in range(self.base.pd_instances):
            for threshold in thresholds:
                rate = self.largest_load(threshold, split, best[0] * (1.0 + 1e-6))
                if rate > best[0]:
                    best = (rate, threshold, split)
        return best


def latency_oracle_of(scenario: Mapping[str, Any], sent: Sent = Sent(), nodes: int = 2) -> LatencyOracle:
    """The oracle of a scenario mapping with its model and workload inline; ``sent`` says its links in SI units."""
    base = oracle_of(scenario, nodes)
    pd = next(c for c in scenario["clusters"].values() if c["role"] == "pd")
    remote = next((c for c in scenario["clusters"].values() if c["role"] == "prefill"), None)
    profile = next(p for p in scenario["model"]["profiles"] if p["hardware"] == pd["hardware"])
    slo = scenario.get("slo", {})
    batch, step_s = largest_batch(profile["decode"], slo.get("tokens_per_s"))
    output = points_of(scenario["workload"]["output_tokens"])
    mean = output.mean()
    cv2 = float(output.probabilities @ output.lengths**2) / mean**2 - 1.0
    return LatencyOracle(
        base=base,
        remote_servers=remote["instances"] if remote else 0,
        slots_per_instance=batch,
        held_s=step_s * mean,
        held_cv2=max(cv2, 0.0),
        arrival_cv2=scenario.get("arrivals", {}).get("cv2", 1.0),
        sent=sent,
        slos=[(QUANTILES[name], float(limit.removesuffix("s"))) for name, limit in slo.get("ttft", {}).items()],
    )


def random_case(seed: int, kinds: Sequence[str] = LENGTH_KINDS) -> tuple[Spec, LatencyOracle] | None:
    """A random scenario with a TTFT that binds often, and its oracle; None where no batch decodes fast enough."""
    scenario = random_scenario(seed, "expected-time", kinds)
    rng = np.random.default_rng(seed + 10**6)
    oracle = oracle_of(scenario, 1)
    if oracle.decode_rps == 0:
        return None
    points = oracle.points
    local_s = oracle.local_s(points.lengths)
    limit_s = min(float(np.quantile(local_s, rng.uniform(0.5, 1.0)) * math.exp(rng.uniform(-0.5, 1.5))), 3600.0)
    percentile = str(rng.choice(list(QUANTILES)))
    scenario["slo"] = {**scenario["slo"], "ttft": {percentile: f"{limit_s!r}s"}}
    if rng.random() < 0.4:
        scenario["arrivals"] = {"cv2": float(rng.choice([0.0, 0.3, 2.0, 5.0]))}
    overlap, chunk = (
        str(rng.choice(["layer", "layer", "chunk", "none"])),
        int(rng.integers(1, points.lengths.max() + 2)),
    )
    scenario["transfer"] = {"overlap": overlap, "chunk_tokens": chunk}
    rtt_s, request = 0.0, math.inf
    if scenario.get("links") and rng.random() < 0.5:
        rtt_s = float(rng.uniform(0.0, 0.3) * limit_s)
        scenario["links"][0]["rtt"] = f"{rtt_s!r}s"
    if oracle.egress_bytes_per_s > 0 and rng.random() < 0.3:
        request = float(oracle.egress_bytes_per_s / rng.uniform(0.8, 20.0))
        scenario["links"][0]["request_cap"] = f"{request!r}B/s"
    return scenario, latency_oracle_of(scenario, Sent(overlap, 1.0, chunk, 0.0, rtt_s, request))
