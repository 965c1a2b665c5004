"""The public Python API of fitting: a prefill latency curve from measured points or from published aggregates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from prfaas_opt.fitting.points import LOOKS_WRONG_Z, fit_points
from prfaas_opt.fitting.quadratic import powers
from prfaas_opt.fitting.targets import Target, calibrate
from prfaas_opt.io.lengths import TABLE_LENGTHS_TOKENS
from prfaas_opt.io.points_file import read_points
from prfaas_opt.io.targets_file import read_targets
from prfaas_opt.units import format_length, format_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.fitting.quadratic import Quadratic
    from prfaas_opt.io.targets_file import TargetsFile

_COEFFICIENTS = {"a_s": "s", "b_s_per_token": "s/token", "c_s_per_token2": "s/token^2"}
_WITHIN = 1e-9
_SAME_LENGTH_POINTS = 5

Tokens = Annotated[int, Meta(ge=1, description="tokens")]
Seconds = Annotated[float, Meta(ge=0, description="s")]
Share = Annotated[float, Meta(description="share: 0.01 is 1 %")]


class Coefficients(Struct, frozen=True):
    """``T(l) = a + b*l + c*l^2``, seconds at a length in tokens."""

    a_s: Seconds
    b_s_per_token: Annotated[float, Meta(ge=0, description="s/token")]
    c_s_per_token2: Annotated[float, Meta(ge=0, description="s/token^2")]


class PointRow(Struct, frozen=True):
    """A measured point beside the fit."""

    line: Annotated[int, Meta(ge=1, description="of the file")]
    length_tokens: Tokens
    latency_s: Seconds
    fitted_s: Seconds
    residual_share: Annotated[float, Meta(description="measured over fitted, less 1")]
    robust_z: Annotated[float, Meta(description="robust standard deviations from a fit by least absolute residuals")]
    looks_wrong: bool


class TargetRow(Struct, frozen=True):
    """A published figure beside the fit."""

    what: Annotated[str, Meta(description="the figure in words")]
    kind: Literal["throughput", "ttft-mean", "ttft-percentile", "latency"]
    unit: Literal["requests/s", "s"]
    published: float
    half_width: Annotated[float, Meta(description="half a unit of the last digit published")]
    fitted: float
    off_by_share: Annotated[float, Meta(description="fitted over published, less 1")]
    evidence: Annotated[Literal["fitted", "held out"], Meta(description="held out: not used in the fit")]
    fitted_range: Annotated[
        tuple[float, float] | None,
        Meta(description="over all curves that meet the digits of the figures fitted to; null where none does"),
    ] = None


class Interval(Struct, frozen=True):
    """How far the rounding of the input's last digits, and the noise of points, may move a result."""

    what: str
    unit: str
    fitted: float
    least: float
    most: float
    off_by_share: Annotated[float | None, Meta(description="the larger distance over the fitted; null at zero")]
    noise_share: Annotated[
        float | None, Meta(description="standard deviation by the noise of points, over the fitted; else null")
    ] = None


class ModelFit(Struct, frozen=True):
    """A fitted latency curve."""

    file: str
    source: Literal["points", "targets"]
    loss: Annotated[Literal["least-squares", "huber"], Meta(description="of the relative residuals")]
    coefficients: Coefficients
    range_tokens: Annotated[tuple[int, int], Meta(description="lengths that the curve is good for")]
    prefill: Annotated[dict[str, Any], Meta(description="prefill of a profile in a model file")]
    prefill_yaml: Annotated[str, Meta(description="the same as text, with its provenance")]
    points: tuple[PointRow, ...]
    scale_share: Annotated[float | None, Meta(description="robust standard deviation of the points, relative")]
    rule: Annotated[str, Meta(description="which points look wrong; empty for targets")]
    targets: tuple[TargetRow, ...]
    agreement: Annotated[
        float | None,
        Meta(description="least stretch of the rounding by which one curve meets all targets; 1 or less: one does"),
    ]
    intervals: Annotated[tuple[Interval, ...], Meta(description="by rounding; empty where no curve meets all targets")]
    warnings: tuple[str, ...]


def fit_curve(points: str | os.PathLike[str], robust: bool = False) -> ModelFit:
    """A curve ``a + b*l + c*l^2``, no coefficient negative, through measured points.

    Args:
        points: a CSV file with a column of lengths and one of latencies, its unit in the heading.
        robust: Huber's loss in place of squares, so that no single point pulls hard.

    Raises:
        InputError: the file is wrong, all problems at once.
        SolverError: the solver failed.
    """
    read = read_points(Path(points))
    ends = (min(read.lengths), max(read.lengths))
    functions = _functions(ends)
    fit = fit_points(read.lengths, read.latencies_s, read.half_widths_s, robust, list(functions.values()))
    rows = tuple(
        PointRow(line, length, latency, fit.curve(length), residual, z, abs(z) > LOOKS_WRONG_Z)
        for line, length, latency, residual, z in zip(
            read.lines, read.lengths, read.latencies_s, fit.residuals_share, fit.robust_z, strict=True
        )
    )
    warnings = []
    if read.ignored:
        warnings.append(f"columns not read: {', '.join(read.ignored)}")
    if len(rows) < _SAME_LENGTH_POINTS:
        warnings.append(
            f"{len(rows)} points hardly overdetermine three coefficients: none of them can be told to look wrong"
        )
    if not robust and any(row.looks_wrong for row in rows):
        warnings.append("points that look wrong pull this fit; measure them again, or add --robust")
    warnings += _at_zero(fit.curve)
    values = [float(function @ np.array(fit.curve)) for function in functions.values()]
    intervals = (
        _interval(what, value, value - move, value + move, noise)
        for what, value, move, noise in zip(functions, values, fit.rounding, fit.noise, strict=True)
    )
    return ModelFit(
        str(points),
        "points",
        "huber" if robust else "least-squares",
        Coefficients(*fit.curve),
        ends,
        *_prefill(fit.curve, ends, f"{len(rows)} points", points),
        rows,
        fit.scale_share,
        f"|z| above {LOOKS_WRONG_Z}: z is the distance from a fit by least absolute residuals, in robust standard "
        f"deviations of {fit.scale_share:.2%}".replace("%", " %"),
        (),
        None,
        tuple(intervals),
        tuple(warnings),
    )


def fit_targets(targets: str | os.PathLike[str]) -> ModelFit:
    """A curve ``a + b*l + c*l^2``, no coefficient negative, from published aggregates.

    Args:
        targets: a YAML file of a workload and figures: throughputs, means and percentiles of the time to first token,
            latencies of single lengths. Those with ``held_out: true`` are compared and not used.

    Raises:
        InputError: the file is wrong, all problems at once.
        SolverError: the solver failed.
    """
    read = read_targets(Path(targets))
    functions = _functions(read.range_tokens)
    asked = [*functions.values(), *read.rows]
    used = sum(not target.held_out for target in read.targets)
    found = calibrate(read.targets, read.rows, asked)
    values = [float(function @ np.array(found.curve)) for function in functions.values()]
    intervals = tuple(
        _interval(what, value, *ends) for what, value, ends in zip(functions, values, found.extremes, strict=False)
    )
    return ModelFit(
        str(targets),
        "targets",
        "least-squares",
        Coefficients(*found.curve),
        read.range_tokens,
        *_prefill(found.curve, read.range_tokens, f"{used} figures", targets),
        (),
        None,
        "",
        _target_rows(read, found.fitted, found.extremes[len(functions) :]),
        found.stretch,
        intervals,
        tuple(_target_warnings(found.stretch) + _at_zero(found.curve)),
    )


def _functions(ends: tuple[int, int]) -> dict[str, NDArray[np.float64]]:
    """What is asked of a curve: its coefficients and its value at some lengths."""
    inner = [length for length in TABLE_LENGTHS_TOKENS if ends[0] <= length <= ends[1]]
    lengths = sorted({ends[0], *inner, ends[1]})
    return {
        **dict(zip(_COEFFICIENTS, np.eye(3), strict=True)),
        **{f"T({format_length(length)})": powers([length])[0] for length in lengths},
    }


def _interval(what: str, fitted: float, least: float, most: float, noise: float | None = None) -> Interval:
    least, most = max(0.0, min(least, fitted)), max(most, fitted)
    off_by = max(fitted - least, most - fitted) / fitted if fitted > 0 else None
    noise_share = noise / fitted if noise is not None and fitted > 0 else None
    return Interval(what, _COEFFICIENTS.get(what, "s"), fitted, least, most, off_by, noise_share)


def _prefill(
    curve: Quadratic, ends: tuple[int, int], what: str, file: str | os.PathLike[str]
) -> tuple[dict[str, Any], str]:
    """``prefill`` of a profile, as data and as text; six digits are more than any measurement has."""
    plain_name = "".join(ch if ch.isalnum() or ch in "._-" else "_" for ch in Path(file).name)
    numbers = {name: f"{value:.6g}" for name, value in curve._asdict().items()}
    mapping = {"quadratic": {name: float(text) for name, text in numbers.items()}, "range_tokens": list(ends)}
    lines = [f"    {name}: {text}" for name, text in numbers.items()]
    lines = ["prefill:", "  quadratic:", *lines, f"  range_tokens: [{ends[0]}, {ends[1]}]"]
    text = "\n".join([*lines, "provenance:", f"  prefill: fitted, to {what} of {plain_name}", ""])
    return mapping, text


def _at_zero(curve: Quadratic) -> list[str]:
    zero = [name for name, value in curve._asdict().items() if value == 0]
    if not zero:
        return []
    return [f"the best curve has {' and '.join(zero)} at zero, the least it may be; shorter or longer lengths may tell"]


def _target_warnings(stretch: float) -> list[str]:
    if stretch <= 1.0 + 1e-6:
        return []
    return [
        f"no curve meets the digits of all targets: the nearest misses them by {stretch:.3g} times their rounding, so "
        "that no interval follows; check the figures, their estimator and the workload"
    ]


def _target_rows(
    read: TargetsFile, fitted: Sequence[float], extremes: Sequence[tuple[float, float]]
) -> tuple[TargetRow, ...]:
    rows = []
    for i, (target, value) in enumerate(zip(read.targets, fitted, strict=True)):
        ends = None
        if extremes:
            one, other = (target.stated(seconds) for seconds in extremes[i])
            ends = (min(one, other), max(one, other))
        rows.append(
            TargetRow(
                _in_words(target),
                target.kind,
                "requests/s" if target.kind == "throughput" else "s",
                target.value,
                target.half_width,
                value,
                value / target.value - 1.0,
                "held out" if target.held_out else "fitted",
                ends,
            )
        )
    return tuple(rows)


def _in_words(target: Target) -> str:
    if target.kind == "latency":
        return f"latency of {format_tokens(target.length_tokens)} tokens"
    low, high = target.above_tokens, target.up_to_tokens
    of = f" above {format_tokens(low)}" if low else ""
    of += f" up to {format_tokens(high)}" if np.isfinite(high) else ""
    of = f", tokens{of}" if of else ""
    if target.kind == "throughput":
        return f"throughput of {target.instances:.0f}{of}, {target.estimator}"
    if target.kind == "ttft-mean":
        return f"mean TTFT{of}"
    return f"P{100 * target.percentile:g} TTFT{of}"
