"""The forms in which a profile states prefill latency, KVCache size and decode step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from prfaas_opt import units
from prfaas_opt.io.scalars import COUNT, COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE, TOKENS, Choice, Number, Text
from prfaas_opt.io.spec import INVALID, Context, Field, ListOf, OneOrMore, Record, Tagged, Variants, same_length, wrong
from prfaas_opt.profiles.attention import families
from prfaas_opt.profiles.curve import INTERPOLATIONS, Piece, piecewise_curve, table_curve
from prfaas_opt.profiles.decode import DecodeProfile
from prfaas_opt.profiles.kv_cache import KvLayout, LayerGroup

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath

Build = Callable[[Context, "FieldPath", dict[str, Any]], Any]
Quantity = Literal["latency", "size"]

STEEPEST = 6.0
"""No curve grows or falls faster than length to this power."""
_JUMP = 10.0
_PLAUSIBLE = {
    "latency": (1e-7, 1e7, "s", "0.1 us to 10 million s"),
    "size": (1.0, 1e15, "bytes", "1 byte to 1 PB"),
    "decode step": (1e-7, 1e5, "s", "0.1 us to 100,000 s"),
}


@dataclass(frozen=True)
class Points:
    """A table as a file gives it, its values in SI units.

    Attributes:
        column: the field that holds the values.
        lengths: ascending, tokens.
        values: one a length.
        interpolation: a name of ``INTERPOLATIONS``.
        extrapolate_to_tokens: how far the last segment's law goes on; None for not at all.
    """

    column: str
    lengths: tuple[int, ...]
    values: tuple[float, ...]
    interpolation: str
    extrapolate_to_tokens: int | None

    def curve(self, context: Context, path: FieldPath, quantity: Quantity) -> Any:
        """The curve through the points, or INVALID where no such curve is plausible."""
        for i, value in enumerate(self.values):
            if not check_plausible(context, (*path, self.column, i), quantity, value):
                return INVALID
        for i in range(1, len(self.lengths)):
            if not self._plausible(i):
                factor = max(self.values[i] / self.values[i - 1], self.values[i - 1] / self.values[i])
                return context.add(
                    (*path, self.column, i),
                    "implausible",
                    f"from {self.lengths[i - 1]:,} to {self.lengths[i]:,} tokens the {quantity} changes by a factor "
                    f"of {factor:,.{0 if factor >= 10 else 2}f}, expected no faster change than length^{STEEPEST:.0f}",
                    "check both points and their unit; of two measurements of nearly one length keep one",
                )
        if not check_extrapolation(context, path, self.extrapolate_to_tokens, self.lengths[-1]):
            return INVALID
        join = INTERPOLATIONS[self.interpolation]
        curve = table_curve(self.lengths, self.values, join, quantity, self.extrapolate_to_tokens)
        if curve(curve.upper) <= 0:
            return context.add(
                (*path, "extrapolate_to_tokens"),
                "out-of-range",
                f"the {quantity} falls along the line of the last two points and would be negative at "
                f"{curve.upper:,.0f} tokens, expected a positive one",
                "check the last two points, or leave extrapolate_to_tokens out",
            )
        end = (*path, "extrapolate_to_tokens")
        return curve if check_plausible(context, end, quantity, curve(curve.upper)) else INVALID

    def _plausible(self, i: int) -> bool:
        growth = abs(math.log(self.values[i] / self.values[i - 1]))
        exponent = growth / math.log(self.lengths[i] / self.lengths[i - 1])
        steep = self.interpolation == "log-log" or growth > math.log(_JUMP)
        return exponent <= STEEPEST or not steep


@dataclass(frozen=True)
class FromKvThroughput:
    """Latency that follows from the KVCache size and these rates, bytes/s (equation 1)."""

    rates: Points


@dataclass(frozen=True)
class Scaled:
    """Latency of another of the model's profiles times another model's ratio between the two hardwares."""

    hardware: str
    by_model: str


def check_plausible(
    context: Context, path: FieldPath, quantity: Quantity | Literal["decode step"], value: float
) -> bool:
    """Notes a value that no machine could have, most likely a slip of its unit."""
    least, most, unit, expected = _PLAUSIBLE[quantity]
    if least <= value <= most:
        return True
    message = f"gives a {quantity} of {value:.3g} {unit}, expected {expected}"
    context.add(path, "implausible", message, "check its unit")
    return False


def check_extrapolation(context: Context, path: FieldPath, to_tokens: int | None, last: int) -> bool:
    """Notes an extrapolation that ends before the data do."""
    if to_tokens is None or to_tokens > last:
        return True
    context.add(
        (*path, "extrapolate_to_tokens"),
        "out-of-range",
        f"found {to_tokens:,} tokens, expected more than the last length of the data, {last:,}",
        "leave it out, or state a longer length",
    )
    return False


_LENGTHS = Field(ListOf(TOKENS, least=2, ascending=True), "prompt lengths, ascending, tokens")
_EXTRAPOLATE = Field(TOKENS, "continue the last segment's law to this length, tokens, shown as assumed", None)


def _table(column: str, factor: float, doc: str, interpolation: str, build: Build) -> Record:
    """Lengths, a column of values in one unit, and how they are joined; ``build`` gets them as ``points``."""

    def with_points(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        lengths, points = values["lengths_tokens"], values[column]
        if not same_length(context, path, [("lengths_tokens", lengths), (column, points)]):
            return INVALID
        how, end = values["interpolation"], values["extrapolate_to_tokens"]
        return build(context, path, {"points": Points(column, lengths, points, how, end)})

    numbers = ListOf(Number("a positive number", above=0, factor=factor))
    return Record(
        {
            "lengths_tokens": _LENGTHS,
            column: Field(numbers, doc),
            "interpolation": Field(Choice(tuple(INTERPOLATIONS)), "how points are joined", interpolation),
            "extrapolate_to_tokens": _EXTRAPOLATE,
        },
        with_points,
    )


def _latency(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    return values["points"].curve(context, path, "latency")


def _size(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    points: Points = values["points"]
    for i in range(1, len(points.values)):
        if points.values[i] < points.values[i - 1]:
            return context.add(
                (*path, points.column, i),
                "falling-size",
                f"the KVCache at {points.lengths[i]:,} tokens is smaller than at {points.lengths[i - 1]:,}, expected "
                "sizes that never fall as the prompt grows",
                "check the two points",
            )
    return points.curve(context, path, "size")


def _quadratic(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    low, high = values["range_tokens"]
    if not check_extrapolation(context, path, values["extrapolate_to_tokens"], high):
        return INVALID
    coefficients = values["quadratic"]
    if not any(coefficients.values()):
        message = "all coefficients are zero, expected a positive latency"
        return context.add((*path, "quadratic"), "out-of-range", message, "fill in what was fitted")
    terms = tuple((coefficients[name], power) for name, power in _COEFFICIENTS.items())
    piece = Piece(float(low), float(high), terms)
    curve = piecewise_curve((piece,), "latency", values["extrapolate_to_tokens"])
    ends = (float(low), curve.upper)
    good = all(check_plausible(context, (*path, "quadratic"), "latency", curve(end)) for end in ends)
    return curve if good else INVALID


class _Range:
    """Two lengths, the shorter first."""

    expected = "two lengths in tokens, the shorter first, as [128, 131072]"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The pair."""
        if not isinstance(value, list) or len(value) != 2:
            return wrong(self, context, value, path, "write both lengths: [shortest, longest]")
        lengths = ListOf(TOKENS).read(context, value, path)
        if lengths is INVALID or lengths[0] < lengths[1]:
            return lengths
        message = f"found [{lengths[0]}, {lengths[1]}], expected {self.expected}"
        return context.add(path, "not-ascending", message, f"write [{min(lengths)}, {max(lengths)}]")

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "array", "items": TOKENS.schema(), "minItems": 2, "maxItems": 2}


_COEFFICIENTS = {"a_s": 0.0, "b_s_per_token": 1.0, "c_s_per_token2": 2.0}

PREFILL = Variants(
    {
        **{
            f"latency_{unit}": _table(f"latency_{unit}", factor, "prefill latency at each length", "log-log", _latency)
            for unit, factor in units.TIME_SUFFIXES.items()
        },
        "kv_throughput_gbps": _table(
            "kv_throughput_gbps",
            units.GBPS,
            "KV throughput at each length; latency follows by equation 1",
            "log-log",
            lambda _context, _path, values: FromKvThroughput(values["points"]),
        ),
        "quadratic": Record(
            {
                "quadratic": Field(
                    Record(
                        {
                            "a_s": Field(NOT_NEGATIVE, "constant, s"),
                            "b_s_per_token": Field(NOT_NEGATIVE, "linear coefficient, s/token"),
                            "c_s_per_token2": Field(NOT_NEGATIVE, "quadratic coefficient, s/token^2"),
                        }
                    ),
                    "latency = a + b*l + c*l^2",
                ),
                "range_tokens": Field(_Range(), "lengths the formula holds for: [shortest, longest]"),
                "extrapolate_to_tokens": _EXTRAPOLATE,
            },
            _quadratic,
        ),
        "scaled_from": Record(
            {
                "scaled_from": Field(Text(), "hardware of this model's profile that is scaled"),
                "by_model": Field(Text(), "model whose latency ratio between the two hardwares scales it"),
            },
            lambda _context, _path, values: Scaled(values["scaled_from"], values["by_model"]),
        ),
    }
)


def _layers(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    element = values["element_bytes"]
    layout = KvLayout(values["layers"], element["kv"], element["state"], element["convolution"], values["max_tokens"])
    curve = layout.curve()
    if curve(float(values["max_tokens"])) <= 0:
        message = "no layer caches anything, expected at least one that does"
        return context.add((*path, "layers"), "out-of-range", message, "check the dimensions")
    good = check_plausible(context, (*path, "layers"), "size", curve(float(values["max_tokens"])))
    return curve if good else INVALID


def _layer_record(family: type) -> Record:
    """The fields of an attention family's dataclass, with the number of its layers."""
    dimensions = {
        f.name: Field(COUNT_OR_ZERO if f.name == "conv_kernel" else COUNT, f.name.replace("_", " "))
        for f in dataclasses.fields(family)
    }

    def build(_context: Context, _path: FieldPath, values: dict[str, Any]) -> LayerGroup:
        return LayerGroup(values.pop("count"), family(**values))

    return Record({"count": Field(COUNT, "number of such layers"), **dimensions}, build)


KV_CACHE = Variants(
    {
        **{
            unit: _table(unit, factor, "KVCache size at each length", "linear", _size)
            for unit, factor in units.SIZE_SUFFIXES.items()
        },
        "layers": Record(
            {
                "layers": Field(
                    ListOf(Tagged("attention", {name: _layer_record(f) for name, f in families().items()})),
                    "groups of equal layers",
                ),
                "element_bytes": Field(
                    Record(
                        {
                            "kv": Field(POSITIVE, "bytes of a key or value element (bf16: 2)"),
                            "state": Field(POSITIVE, "bytes of a recurrent state's element (fp32: 4)", 4.0),
                            "convolution": Field(POSITIVE, "bytes of a convolution state's element", 2.0),
                        }
                    ),
                    "bytes of one element of each kind",
                ),
                "max_tokens": Field(TOKENS, "longest prompt, tokens"),
            },
            _layers,
        ),
    }
)


def _decode(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    column = next(name for name in ("step_s", "step_ms") if name in values)
    batches, steps = values["batch"], values[column]
    if not same_length(context, path, [("batch", batches), (column, steps)]):
        return INVALID
    good = all(check_plausible(context, (*path, column), "decode step", step) for step in steps)
    return DecodeProfile(batches, steps) if good else INVALID


DECODE = Variants(
    {
        f"step_{suffix}": Record(
            {
                "batch": Field(
                    OneOrMore(ListOf(COUNT, ascending=True)),
                    "requests decoded together: one number, or an ascending list",
                ),
                f"step_{suffix}": Field(
                    OneOrMore(ListOf(Number("a positive number", above=0, factor=units.TIME_SUFFIXES[suffix]))),
                    "time of one decode step at each batch",
                ),
            },
            _decode,
        )
        for suffix in ("s", "ms")
    }
)
