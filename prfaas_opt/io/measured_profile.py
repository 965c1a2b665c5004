"""A model file with one measured profile, from points that benchmarks gave."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from prfaas_opt.io.benchmark_runs import DecodePoint, LeftOut, PrefillPoint
from prfaas_opt.io.wording import counted
from prfaas_opt.units import format_tokens

SCATTER = 1.25
"""Factor between repeated measurements of one point that is worth a note."""
_LEAST_FITTED = 4
_DIGITS = 9


@dataclass(frozen=True)
class LatencyPoint:
    """Median of what was measured at a length."""

    length_tokens: int
    latency_s: float
    runs: int


@dataclass(frozen=True)
class StepPoint:
    """Median of what was measured at a batch and mean context; None where the context is not known."""

    batch: int
    context_tokens: int | None
    step_s: float
    runs: int


@dataclass(frozen=True)
class StepFit:
    """``base_s + batch * (per_request_s + per_context_token_s * context)``, and how far the points are from it."""

    base_s: float
    per_request_s: float
    per_context_token_s: float
    worst_share: float
    mean_share: float


@dataclass(frozen=True)
class DecodeTable:
    """Decode of a profile: the field of a model file, the points in it, and the fit where it is one."""

    mapping: dict[str, Any]
    points: tuple[StepPoint, ...]
    form: str
    fit: StepFit | None = None


def latency_points(points: Iterable[PrefillPoint], warnings: list[str]) -> tuple[LatencyPoint, ...]:
    """The points by length, repeated ones as their median."""
    found = []
    for length, group in _groups(points, lambda point: point.length_tokens):
        times = [point.latency_s for point in group]
        _note_scatter(times, f"prefill of {format_tokens(length)} tokens", warnings)
        found.append(LatencyPoint(length, _rounded(statistics.median(times)), len(times)))
    return tuple(found)


def prefill_mapping(points: Sequence[LatencyPoint]) -> dict[str, Any]:
    """``prefill`` of a model file."""
    return {"lengths_tokens": [p.length_tokens for p in points], "latency_s": [p.latency_s for p in points]}


def decode_table(points: Sequence[DecodePoint], warnings: list[str], left_out: list[LeftOut]) -> DecodeTable | None:
    """``decode`` of a model file: by batch, by batch and context, or where neither holds the points, a formula."""

    def key(point: DecodePoint) -> tuple[int, int]:
        return (point.batch, -1 if point.context_tokens is None else _whole(point.context_tokens))

    steps = []
    for (batch, context), group in _groups(points, key):
        times = [point.step_s for point in group]
        _note_scatter(times, f"decode step at batch {batch}", warnings)
        steps.append(StepPoint(batch, None if context < 0 else context, _rounded(statistics.median(times)), len(times)))
    if not steps:
        return None
    contexts = {step.context_tokens for step in steps}
    if None in contexts and len(contexts) > 1:
        reason = "its context is not known, while that of others is"
        left_out += [LeftOut(p.where, "decode", reason) for p in points if p.context_tokens is None]
        steps = [step for step in steps if step.context_tokens is not None]
        contexts.discard(None)
    batches = sorted({step.batch for step in steps})
    if len(contexts) == 1:
        return _by_batch(steps, warnings)
    if len(steps) == len(batches) * len(contexts):
        return _by_context(steps, batches)
    if len(steps) >= _LEAST_FITTED and len(batches) > 1:
        return _fitted(steps, warnings)
    most = max(contexts, key=lambda c: (sum(step.context_tokens == c for step in steps), c or 0))
    reason = f"too few batches and contexts for a table of both: those at {format_tokens(most or 0)} tokens are taken"
    left_out += [
        LeftOut(p.where, "decode", reason)
        for p in points
        if p.context_tokens is not None and _whole(p.context_tokens) != most
    ]
    return _by_batch([step for step in steps if step.context_tokens == most], warnings)


def _by_batch(steps: list[StepPoint], warnings: list[str]) -> DecodeTable:
    context = steps[0].context_tokens
    if context is not None:
        warnings.append(
            f"decode was measured at a mean context of {format_tokens(context)} tokens only; a step takes longer at "
            "longer ones"
        )
    mapping = {"batch": [step.batch for step in steps], "step_s": [step.step_s for step in steps]}
    return DecodeTable(mapping, tuple(steps), "by batch")


def _by_context(steps: list[StepPoint], batches: list[int]) -> DecodeTable:
    contexts = sorted({step.context_tokens for step in steps if step.context_tokens is not None})
    at = {(step.batch, step.context_tokens): step.step_s for step in steps}
    rows = [[at[batch, context] for context in contexts] for batch in batches]
    mapping = {"batch": batches, "context_tokens": contexts, "step_s": rows}
    return DecodeTable(mapping, tuple(steps), "by batch and context")


def _fitted(steps: list[StepPoint], warnings: list[str]) -> DecodeTable:
    """Least squares of relative errors, no coefficient negative: the best of all sets of terms that may be there."""
    import numpy as np

    contexts = [float(step.context_tokens or 0) for step in steps]
    measured = np.array([step.step_s for step in steps])
    batches = np.array([float(step.batch) for step in steps])
    terms = np.stack([np.ones_like(batches), batches, batches * np.array(contexts)], axis=1) / measured[:, None]
    best, coefficients = np.inf, np.zeros(3)
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(3), size):
            solved = np.linalg.lstsq(terms[:, chosen], np.ones_like(measured), rcond=None)[0]
            error = float(np.square(terms[:, chosen] @ solved - 1).sum())
            if (solved >= 0).all() and error < best:
                best, coefficients = error, np.zeros(3)
                coefficients[list(chosen)] = solved
    residual = np.abs(terms @ coefficients - 1)
    base, request, token = (_rounded(float(c)) for c in coefficients)
    fit = StepFit(base, request, token, float(residual.max()), float(residual.mean()))
    warnings.append(
        f"decode is a formula fitted to {counted(len(steps), 'point')}, since no table of batches and contexts holds "
        f"them: on average {fit.mean_share:.0%} from them, at most {fit.worst_share:.0%}"
    )
    longest = max(contexts)
    most = max(step.batch for step in steps if step.context_tokens == longest)
    if most < batches.max():
        warnings.append(
            f"the formula holds up to batch {batches.max():,.0f}, though at a context of {format_tokens(longest)} "
            f"tokens at most {most:,} were measured: add memory to the profile, so that no batch is planned that does "
            "not fit"
        )
    mapping = {
        "fitted": {"base_s": base, "per_request_s": request, "per_context_token_s": token},
        "batch_range": [int(batches.min()), int(batches.max())],
        "context_range_tokens": [int(min(contexts)), int(max(contexts))],
    }
    return DecodeTable(mapping, tuple(steps), "fitted", fit)


class _Block(dict[str, Any]):
    """A mapping that is written a key a line."""


class _Dumper(yaml.SafeDumper):
    """Writes lists of numbers and small mappings on a line, but what holds texts a key a line."""


_Dumper.add_representer(
    _Block, lambda dumper, block: dumper.represent_mapping("tag:yaml.org,2002:map", block.items(), flow_style=False)
)


def yaml_text(mapping: dict[str, Any]) -> str:
    """A model file as text, lists of numbers on a line."""
    profiles = [profile | {"provenance": _Block(profile["provenance"])} for profile in mapping["profiles"]]
    mapping = mapping | {"profiles": profiles}
    return yaml.dump(mapping, None, _Dumper, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True)


def _groups(points: Iterable[Any], key: Any) -> Iterable[tuple[Any, list[Any]]]:
    return ((k, list(group)) for k, group in itertools.groupby(sorted(points, key=key), key=key))


def _note_scatter(times: Sequence[float], what: str, warnings: list[str]) -> None:
    if max(times) > SCATTER * min(times):
        warnings.append(
            f"{what}: {len(times)} measurements from {min(times):.4g} to {max(times):.4g} s; their median is taken"
        )


def _whole(tokens: float) -> int:
    return max(round(tokens), 1)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
