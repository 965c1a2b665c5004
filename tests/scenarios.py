"""Scenario mappings to test with: random ones from a seed, and one of the case study's kind with dials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Spec = dict[str, Any]
ESTIMATORS = ("expected-time", "mean-length")
LENGTH_KINDS = ("uniform", "truncated-lognormal", "constant", "table", "mixture")

LOCAL, REMOTE = "LOCAL", "REMOTE"
_TYPICAL_BYTES = 1e8


def random_scenario(seed: int, estimator: str | None = None, kinds: Sequence[str] = LENGTH_KINDS) -> Spec:
    """A two-pool scenario of at most 3,000 tokens; the same seed gives the same one.

    Rates are drawn around each other, so that compute, link and decode each bind often, and all-local, all-remote
    and infeasible scenarios occur. ``kinds`` limits the input's length distribution.
    """
    rng = np.random.default_rng(seed)
    longest = int(rng.integers(40, 3000))
    typical_s = _log_uniform(rng, 1e-2, 10.0)
    lengths = _lengths(rng, longest, str(rng.choice(kinds)))
    model, slo = _model(rng, longest, typical_s)
    scenario: Spec = {
        "name": f"random {seed}",
        "model": model,
        "workload": {"input_tokens": lengths, "output_tokens": 1},
        "clusters": {"here": _cluster(rng, "pd", LOCAL)},
        "slo": slo,
        "estimator": estimator or str(rng.choice(ESTIMATORS)),
    }
    _set_output(rng, scenario, typical_s)
    if rng.random() < 0.93:
        scenario["clusters"]["there"] = _cluster(rng, "prefill", LOCAL if rng.random() < 0.1 else REMOTE)
        link: Spec = {"from": "there", "to": "here", "bandwidth": _bandwidth(rng, typical_s)}
        _maybe_ceiling(rng, link)
        scenario["links"] = [link]
    return scenario


def case_like(
    *,
    mu: float = 6.5,
    sigma: float = 0.8,
    remote: int = 3,
    pd: int = 6,
    gbps: float = 4.0,
    decode_batch: int = 60,
    kv_mib: Sequence[float] = (25.0, 110.0),
    estimator: str = "expected-time",
) -> Spec:
    """The paper's case study in small: log-normal lengths of 16 to 3,000 tokens, a table and a quadratic.

    T_local grows faster, relatively, than T_remote and than any size whose slope leaves it 2 MiB at length 0 or
    more: T_local / T_remote and T_local / S never fall, so a threshold is the best of all routings.
    """
    return {
        "model": {
            "kv_cache": {"lengths_tokens": [16, 3000], "mib": list(kv_mib)},
            "kv_cache_provenance": "assumed, case-like",
            "profiles": [
                {
                    "hardware": REMOTE,
                    "gpus_per_instance": 8,
                    "prefill": {"lengths_tokens": [16, 400, 3000], "latency_s": [0.4, 0.7, 2.0]},
                    "provenance": {"prefill": "assumed, case-like"},
                },
                {
                    "hardware": LOCAL,
                    "gpus_per_instance": 8,
                    "prefill": {
                        "quadratic": {"a_s": 0.05, "b_s_per_token": 2e-3, "c_s_per_token2": 3e-7},
                        "range_tokens": [16, 3000],
                    },
                    "decode": {"batch": decode_batch, "step_s": 0.025},
                    "provenance": {"prefill": "assumed, case-like", "decode": "assumed, case-like"},
                },
            ],
        },
        "workload": {
            "input_tokens": {"distribution": "truncated-lognormal", "mu": mu, "sigma": sigma, "low": 16, "high": 3000},
            "output_tokens": 1024,
        },
        "clusters": {
            "there": {"role": "prefill", "hardware": REMOTE, "instances": remote},
            "here": {"role": "pd", "hardware": LOCAL, "instances": pd},
        },
        "links": [{"from": "there", "to": "here", "bandwidth": f"{gbps}Gbps"}],
        "estimator": estimator,
    }


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _pick(rng: np.random.Generator, options: Sequence[Callable[[], Any]]) -> Any:
    return options[int(rng.integers(len(options)))]()


def _ascending(rng: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    """``count`` whole numbers (fewer where there are not so many) from low to high, both included."""
    inner = rng.integers(low, high + 1, size=max(count - 2, 0)).tolist()
    return sorted({low, high, *inner})


def _lengths(rng: np.random.Generator, longest: int, kind: str) -> Spec:
    if kind == "mixture":
        kinds = rng.choice(["uniform", "truncated-lognormal", "constant", "table"], size=int(rng.integers(1, 4)))
        parts = [_lengths(rng, int(rng.integers(20, longest + 1)), str(k)) for k in kinds]
        return {"distribution": kind, "parts": [p | {"weight": _log_uniform(rng, 0.01, 10.0)} for p in parts]}
    if kind == "constant":
        return {"distribution": kind, "value": longest}
    if kind == "table":
        lengths = _ascending(rng, int(rng.integers(1, longest)), longest, int(rng.integers(2, 30)))
        weights = rng.exponential(size=len(lengths)) * (rng.random(len(lengths)) > 0.1)
        weights[int(rng.integers(len(lengths)))] = 1.0
        return {"distribution": kind, "lengths": lengths, "weights": weights.tolist()}
    low = int(rng.integers(8, max(9, longest // 2)))
    bounds = {"low": low, "high": max(longest, low + 1)}
    if kind == "uniform":
        return {"distribution": kind, **bounds}
    # From deep in the upper tail of the density over well inside to deep in its lower tail, narrow and wide.
    sigma = _log_uniform(rng, 0.05, 2.0)
    inside = rng.uniform(math.log(low), math.log(bounds["high"]))
    mu = float(inside + rng.choice([0.0, 0.0, -4.0, 4.0]) * sigma)
    return {"distribution": kind, "mu": min(max(mu, 0.0), 20.0), "sigma": max(sigma, 2.0 / low), **bounds}


def _powers(rng: np.random.Generator, x: list[int], first: float, least: float, most: float) -> list[float]:
    """Values from ``first`` on that grow between neighbours like a power from ``least`` to ``most``."""
    y = [first]
    for x0, x1 in itertools.pairwise(x):
        y.append(y[-1] * (x1 / x0) ** float(rng.uniform(least, most)))
    return y


def _table_ends(rng: np.random.Generator, longest: int) -> tuple[int, int, Spec]:
    """First and last length of a curve's table and, where it ends too early, how far it is extrapolated."""
    first = int(rng.integers(1, max(2, longest // 3)))
    if rng.random() < 0.15:
        return first, int(rng.integers(first + 1, longest)), {"extrapolate_to_tokens": longest}
    return first, longest + int(rng.integers(0, 500)), {}


def _latency(rng: np.random.Generator, longest: int, typical_s: float) -> Spec:
    first, last, extra = _table_ends(rng, longest)
    if rng.random() < 0.35:
        a, b, c = rng.dirichlet([0.5, 1.0, 1.0]).tolist()
        coefficients = {"a_s": a * typical_s, "b_s_per_token": b * typical_s / longest}
        coefficients["c_s_per_token2"] = c * typical_s / longest**2
        return {"quadratic": coefficients, "range_tokens": [first, last], **extra}
    x = _ascending(rng, first, last, int(rng.integers(2, 7)))
    # One table in ten falls here and there, as noisy measurements do.
    least = -0.3 if rng.random() < 0.1 else 0.02
    y = _powers(rng, x, typical_s * _log_uniform(rng, 0.05, 0.5), least, float(rng.choice([0.5, 1.2, 2.2])))
    column: tuple[str, list[float]] = _pick(
        rng, [lambda: ("latency_s", y), lambda: ("latency_ms", [1e3 * v for v in y])]
    )
    table = {"lengths_tokens": x, column[0]: column[1], **extra}
    # A line with a positive slope cannot turn negative where it is extrapolated; a falling one might.
    return table if rng.random() < 0.5 or (least < 0 and extra) else table | {"interpolation": "linear"}


def _kv_cache(rng: np.random.Generator, longest: int) -> Spec:
    first, last, extra = _table_ends(rng, longest)
    if rng.random() < 0.5:
        constant, slope = _TYPICAL_BYTES * _log_uniform(rng, 0.1, 1.0), _log_uniform(rng, 1e-3, 1.0)
    else:
        constant, slope = 0.0, 1.0
    x = _ascending(rng, first, last, int(rng.integers(2, 6)))
    y = [constant + slope * _TYPICAL_BYTES * length / longest for length in x]
    if len(x) > 2 and rng.random() < 0.3:
        # A bend after the first segment, whose slope alone is continued below the table.
        y = [y[0], *_powers(rng, x[1:], y[1], 0.0, 1.5)]
    unit: tuple[str, float] = _pick(rng, [lambda: ("mib", 2.0**20), lambda: ("bytes", 1.0), lambda: ("mb", 1e6)])
    table = {"lengths_tokens": x, unit[0]: [v / unit[1] for v in y], **extra}
    return table | {"interpolation": "log-log"} if rng.random() < 0.15 else table


def _decode(rng: np.random.Generator) -> tuple[Spec, Spec]:
    """Decode figures, and an SLO that mostly leaves a batch."""
    column, unit = ("step_s", 1.0) if rng.random() < 0.5 else ("step_ms", 1e3)
    step_s = _log_uniform(rng, 5e-3, 5e-2)
    if rng.random() < 0.5:
        batches, steps = [int(rng.integers(1, 65))], [step_s]
        decode: Spec = {"batch": batches[0], column: step_s * unit}
    else:
        batches = _ascending(rng, int(rng.integers(1, 8)), int(rng.integers(16, 129)), int(rng.integers(2, 6)))
        steps = _powers(rng, batches, step_s, 0.0, 1.0)
        decode = {"batch": batches, column: [s * unit for s in steps]}
    if rng.random() < 0.4:
        return decode, {}
    allowed_s = float(rng.uniform(0.99 * steps[0], 1.2 * steps[-1]))
    return decode, {"tokens_per_s": 1.0 / allowed_s}


def _model(rng: np.random.Generator, longest: int, typical_s: float) -> tuple[Spec, Spec]:
    """A model with profiles for both hardwares, and the SLO."""
    decode, slo = _decode(rng)
    speedup = _log_uniform(rng, 0.5, 8.0)
    profiles: list[Spec] = [
        {"hardware": LOCAL, "prefill": _latency(rng, longest, typical_s), "decode": decode},
        {"hardware": REMOTE, "prefill": _latency(rng, longest, typical_s / speedup)},
    ]
    model: Spec = {"profiles": profiles, "kv_cache": _kv_cache(rng, longest)}
    model["kv_cache_provenance"] = "assumed, random"
    if rng.random() < 0.2:
        profiles[1]["kv_cache"] = _kv_cache(rng, longest)
    if rng.random() < 0.1:
        _give_kv_throughput(rng, profiles[1], model)
    for profile in profiles:
        profile["provenance"] = {k: "assumed, random" for k in ("prefill", "kv_cache", "decode") if k in profile}
        profile["gpus_per_instance"] = int(rng.integers(1, 9))
    return model, slo


def _give_kv_throughput(rng: np.random.Generator, profile: Spec, model: Spec) -> None:
    """Replaces a latency by KV throughput at the lengths of the size table."""
    size: Spec = profile.get("kv_cache") or model["kv_cache"]
    x = size["lengths_tokens"]
    extra = {key: size[key] for key in ("extrapolate_to_tokens",) if key in size}
    gbps = _powers(rng, x, _log_uniform(rng, 0.1, 10.0), -0.8, 0.5)
    profile["prefill"] = {"lengths_tokens": x, "kv_throughput_gbps": gbps, **extra}


def _set_output(rng: np.random.Generator, scenario: Spec, typical_s: float) -> None:
    """Output lengths for which decode is from much slower to much faster than prefill."""
    decode = scenario["model"]["profiles"][0]["decode"]
    step = np.atleast_1d(decode.get("step_s", np.atleast_1d(decode.get("step_ms", 0.0)) * 1e-3))[-1]
    batch = np.atleast_1d(decode["batch"])[-1]
    wanted_rps = _log_uniform(rng, 0.5, 200.0) / typical_s
    mean = min(max(int(batch / (step * wanted_rps)), 4), 4000)
    scenario["workload"]["output_tokens"] = _pick(
        rng,
        [
            lambda: mean,
            lambda: {"distribution": "constant", "value": mean},
            lambda: {"distribution": "uniform", "low": mean // 2, "high": mean + mean // 2},
            lambda: {
                "distribution": "truncated-lognormal",
                "mu": math.log(mean),
                "sigma": 0.6,
                "low": max(1, mean // 4),
                "high": 2 * mean,
            },
            lambda: {"distribution": "table", "lengths": [mean // 2, mean, 3 * mean], "weights": [1, 2, 0.5]},
        ],
    )


def _cluster(rng: np.random.Generator, role: str, hardware: str) -> Spec:
    # A single pd instance can only decode, which leaves nothing to split: rarely.
    fewest = 1 if role == "prefill" or rng.random() < 0.05 else 2
    cluster: Spec = {"role": role, "hardware": hardware, "instances": int(rng.integers(fewest, 11))}
    _maybe_ceiling(rng, cluster)
    return cluster


def _maybe_ceiling(rng: np.random.Generator, resource: Spec) -> None:
    if rng.random() < 0.3:
        resource["max_utilization"] = float(rng.uniform(0.3, 1.0))


def _bandwidth(rng: np.random.Generator, typical_s: float) -> str | int:
    if rng.random() < 0.06:
        return 0
    bytes_per_s = _TYPICAL_BYTES / typical_s * _log_uniform(rng, 1e-2, 1e2)
    unit: tuple[str, float] = _pick(
        rng,
        [
            lambda: ("Gbps", 1.25e8),
            lambda: ("MB/s", 1e6),
            lambda: ("GiB/s", 2.0**30),
            lambda: ("Mbps", 1.25e5),
        ],
    )
    return f"{bytes_per_s / unit[1]!r}{unit[0]}"
