"""The forms in which a profile states prefill latency and KVCache size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.io.scalars import COUNT, COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE, TOKENS, Choice, Number, Text
from prfaas_opt.io.spec import (
    INVALID,
    Context,
    Field,
    Kind,
    ListOf,
    Record,
    Tagged,
    Variants,
    same_length,
    wrong,
)
from prfaas_opt.profiles.attention import families
from prfaas_opt.profiles.curve import INTERPOLATIONS, Curve, Piece, piecewise_curve, table_curve
from prfaas_opt.profiles.kv_cache import KvLayout, LayerGroup

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.profiles.attention import AttentionFamily

Build = Callable[[Context, "FieldPath", dict[str, Any]], Any]
Quantity = Literal["latency", "size"]

STEEPEST = 6.0
"""No curve grows or falls faster than length to this power."""
_JUMP = 10.0
_PLAUSIBLE = {
    "latency": (1e-7, 1e7, "s", "0.1 us to 10 million s"),
    "size": (1.0, 1e15, "bytes", "1 byte to 1 PB"),
    "decode step": (1e-7, 1e5, "s", "0.1 us to 100,000 s"),
    "memory": (1e6, 1e15, "bytes", "1 MB to 1 PB"),
}


class Points(Struct, frozen=True):
    """A table as a file gives it, its values in SI units.

    Attributes:
        column: the field that holds the values, or the place in it.
        lengths: ascending, tokens.
        values: one a length.
        interpolation: a name of ``INTERPOLATIONS``.
        extrapolate_to_tokens: how far the last segment's law goes on; None for not at all.
    """

    column: str | int
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


class WithOccupancy(Struct, frozen=True):
    """Latency, and beside it the time that a prompt takes an instance."""

    latency: Curve
    occupancy: Curve


class FromKvThroughput(Struct, frozen=True):
    """Latency that follows from the KVCache size and these rates, bytes/s (equation 1)."""

    rates: Points


class Scaled(Struct, frozen=True):
    """Latency of another of the model's profiles times another model's ratio between the two hardwares."""

    hardware: str
    by_model: str


def check_plausible(
    context: Context, path: FieldPath, quantity: Quantity | Literal["decode step", "memory"], value: float
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


def _table(
    column: str,
    factor: float,
    doc: str,
    interpolation: str,
    build: Build,
    beside: Mapping[str, str] = MappingProxyType({}),
) -> Record:
    """Lengths, a column of values in one unit, and how they are joined; ``build`` gets them as ``points``.

    ``beside``: columns that may be given besides, with what they mean; ``build`` gets them by their names.
    """

    def with_points(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        columns = {name: values[name] for name in (column, *beside) if values[name] is not None}
        lengths = values["lengths_tokens"]
        if not same_length(context, path, [("lengths_tokens", lengths), *columns.items()]):
            return INVALID
        how, end = values["interpolation"], values["extrapolate_to_tokens"]
        points = {name: Points(name, lengths, each, how, end) for name, each in columns.items()}
        return build(context, path, {"points": points.pop(column), **points})

    numbers = ListOf(Number("a positive number", above=0, factor=factor))
    return Record(
        {
            "lengths_tokens": _LENGTHS,
            column: Field(numbers, doc),
            **{name: Field(numbers, meaning, None) for name, meaning in beside.items()},
            "interpolation": Field(Choice(tuple(INTERPOLATIONS)), "how points are joined", interpolation),
            "extrapolate_to_tokens": _EXTRAPOLATE,
        },
        with_points,
    )


def _with_occupancy(
    context: Context, path: FieldPath, latency: Curve, occupancy: Curve, at: Iterable[tuple[FieldPath, float]]
) -> Any:
    """Both curves, unless a prompt takes an instance longer than it waits at one of some places and lengths."""
    for where, length in at:
        if occupancy(length) > latency(length) * (1 + 1e-9):
            message = (
                f"a prompt of {length:,.0f} tokens takes an instance {occupancy(length):.4g} s, expected at most its "
                f"latency, {latency(length):.4g} s"
            )
            fix = "check both; a prompt that has the instance for itself takes it for its latency"
            return context.add((*path, *where), "implausible", message, fix)
    return WithOccupancy(latency, occupancy)


def _latency(occupancy_column: str) -> Build:
    """Builds the latency of a table, with the occupancy where it has such a column."""

    def build(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        latency = values["points"].curve(context, path, "latency")
        if occupancy_column not in values:
            return latency
        points: Points = values[occupancy_column]
        occupancy = points.curve(context, path, "latency")
        if latency is INVALID or occupancy is INVALID:
            return INVALID
        at: list[tuple[FieldPath, float]] = [((occupancy_column, i), float(x)) for i, x in enumerate(points.lengths)]
        return _with_occupancy(context, path, latency, occupancy, [*at, (("extrapolate_to_tokens",), latency.upper)])

    return build


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
    latency = _formula(context, path, values, "quadratic")
    if values["occupancy_quadratic"] is None:
        return latency
    occupancy = _formula(context, path, values, "occupancy_quadratic")
    if latency is INVALID or occupancy is INVALID:
        return INVALID
    b, c = (values["quadratic"][x] - values["occupancy_quadratic"][x] for x in ("b_s_per_token", "c_s_per_token2"))
    lowest = -b / (2 * c) if c else low
    at: list[tuple[FieldPath, float]] = [
        (("occupancy_quadratic",), x) for x in (low, lowest, latency.upper) if low <= x <= latency.upper
    ]
    return _with_occupancy(context, path, latency, occupancy, at)


def _formula(context: Context, path: FieldPath, values: dict[str, Any], name: str) -> Any:
    coefficients, (low, high) = values[name], values["range_tokens"]
    if not any(coefficients.values()):
        message = "all coefficients are zero, expected a positive latency"
        return context.add((*path, name), "out-of-range", message, "fill in what was fitted")
    terms = tuple((coefficients[term], power) for term, power in _COEFFICIENTS.items())
    piece = Piece(float(low), float(high), terms)
    curve = piecewise_curve((piece,), "latency", values["extrapolate_to_tokens"])
    ends = (float(low), curve.upper)
    good = all(check_plausible(context, (*path, name), "latency", curve(end)) for end in ends)
    return curve if good else INVALID


class Range(Struct, frozen=True):
    """The ends of a range, the smaller first."""

    item: Kind
    expected: str
    both: str

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The pair."""
        if not isinstance(value, list) or len(value) != 2:
            return wrong(self, context, value, path, f"write both {self.both}")
        ends = ListOf(self.item).read(context, value, path)
        if ends is INVALID or ends[0] < ends[1]:
            return ends
        message = f"found [{ends[0]}, {ends[1]}], expected {self.expected}"
        return context.add(path, "not-ascending", message, f"write [{min(ends)}, {max(ends)}]")

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "array", "items": self.item.schema(), "minItems": 2, "maxItems": 2}


LENGTH_RANGE = Range(
    TOKENS, "two lengths in tokens, the shorter first, as [128, 131072]", "lengths: [shortest, longest]"
)
_COEFFICIENTS = {"a_s": 0.0, "b_s_per_token": 1.0, "c_s_per_token2": 2.0}
_QUADRATIC = Record(
    {
        "a_s": Field(NOT_NEGATIVE, "constant, s"),
        "b_s_per_token": Field(NOT_NEGATIVE, "linear coefficient, s/token"),
        "c_s_per_token2": Field(NOT_NEGATIVE, "quadratic coefficient, s/token^2"),
    }
)

PREFILL = Variants(
    {
        **{
            f"latency_{unit}": _table(
                f"latency_{unit}",
                factor,
                "prefill latency at each length",
                "log-log",
                _latency(f"occupancy_{unit}"),
                {f"occupancy_{unit}": "time a prompt takes an instance at each length; default: its latency"},
            )
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
                "quadratic": Field(_QUADRATIC, "latency = a + b*l + c*l^2"),
                "occupancy_quadratic": Field(
                    _QUADRATIC, "time a prompt takes an instance, by such a formula; default: its latency", None
                ),
                "range_tokens": Field(LENGTH_RANGE, "lengths the formula holds for: [shortest, longest]"),
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


def _layer_record(family: type[AttentionFamily]) -> Record:
    """The fields of an attention family's struct, with the number of its layers."""
    dimensions = {
        name: Field(COUNT_OR_ZERO if name == "conv_kernel" else COUNT, name.replace("_", " "))
        for name in family.__struct_fields__
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
