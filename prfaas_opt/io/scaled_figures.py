"""Latency and decode steps times a ratio, in the form of a model file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prfaas_opt.fitting.plausibility import stated_lengths
from prfaas_opt.profiles.curve import terms_at

if TYPE_CHECKING:
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.decode import DecodeProfile

_DIGITS = 6


def _formula(curve: Curve) -> tuple[float, float, float] | None:
    """The coefficients of a curve that is ``a + b*l + c*l^2``; None for a table."""
    terms = terms_at(curve, curve.measured_high_tokens)
    if tuple(exponent for _, exponent in terms) != (0.0, 1.0, 2.0):
        return None
    (a, _), (b, _), (c, _) = terms
    return a, b, c


def data_lengths(curve: Curve) -> list[float]:
    """The lengths that a profile states its latency at, tokens."""
    return [length for length in stated_lengths(curve) if length <= curve.measured_high_tokens]


def fixed_s(curve: Curve) -> float:
    """The part of a latency that no prompt is too short for.

    A formula states it. In a table it is where the line through the first two points meets length zero: at most what
    the true convex curve has there.
    """
    formula = _formula(curve)
    if formula is not None:
        return formula[0]
    lengths = data_lengths(curve)
    x0, x1 = lengths[:2]
    y0, y1 = curve(x0), curve(x1)
    return max(0.0, min(y0 - x0 * (y1 - y0) / (x1 - x0), *(curve(length) for length in lengths)))


def scaled_latency(curve: Curve, fixed: float, ratio: float) -> Callable[[float], float]:
    """Seconds by length: the fixed part as it is, the rest times a ratio."""
    return lambda length: fixed + (curve(length) - fixed) * ratio


def prefill_mapping(curve: Curve, raw: dict[str, Any], fixed: float, ratio: float) -> dict[str, Any]:
    """The scaled latency in the form of a model file, as the profile it comes from states its own."""
    formula, lengths = _formula(curve), data_lengths(curve)
    if formula is not None:
        a, b, c = formula
        names = ("a_s", "b_s_per_token", "c_s_per_token2")
        coefficients = dict(zip(names, map(_rounded, (a, b * ratio, c * ratio)), strict=True))
        mapping: dict[str, Any] = {"quadratic": coefficients, "range_tokens": [round(lengths[0]), round(lengths[-1])]}
    else:
        scaled = scaled_latency(curve, fixed, ratio)
        mapping = {
            "lengths_tokens": [round(length) for length in lengths],
            "latency_s": [_rounded(scaled(length)) for length in lengths],
            "interpolation": raw.get("interpolation", "log-log"),
        }
    if curve.upper > curve.measured_high_tokens:
        mapping["extrapolate_to_tokens"] = round(curve.upper)
    return mapping


def decode_mapping(decode: DecodeProfile, ratio: float) -> dict[str, Any]:
    """The scaled decode step in the form of a model file."""
    mapping: dict[str, Any] = {"batch": list(decode.batches)}
    if decode.contexts_tokens:
        mapping["context_tokens"] = [round(context) for context in decode.contexts_tokens]
        mapping["step_s"] = [[_rounded(s * ratio) for s in row] for row in zip(*decode.columns_s, strict=True)]
    else:
        mapping["step_s"] = [_rounded(step * ratio) for step in decode.steps_s]
    if decode.accepted_tokens != 1:
        mapping["accepted_tokens"] = decode.accepted_tokens
    return mapping


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
