"""Ranges of a field's values: ``{from: 1Gbps, to: 400Gbps, count: 9, spacing: log}``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt.io.scalars import Choice, Number
from prfaas_opt.io.spec import INVALID, Context, Field, Record
from prfaas_opt.io.wording import shown
from prfaas_opt.study.field_kinds import is_whole
from prfaas_opt.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.study.field_kinds import Numeric

SPACINGS = ("linear", "log")
MOST_POINTS = 1_000_000
DIGITS = 6
"""Significant digits that values between the ends of a range are rounded to."""

_COUNT = Number("a whole number, 2 to 1,000,000", minimum=2, maximum=MOST_POINTS, whole=True)
_KEYS = {"from", "to", "count", "step", "spacing"}


class Range(Struct, frozen=True):
    """A field's values from one to another, both included.

    Attributes:
        low: first, in the unit that values are written in.
        high: last.
        unit: that values are written with; "" for plain numbers.
        log: whether equal ratios are spread evenly, rather than equal differences.
        whole: whether only whole numbers are values.
    """

    low: float
    high: float
    unit: str
    log: bool
    whole: bool

    def plain(self, number: float) -> Any:
        """A number of this range as a file would have it."""
        if self.whole:
            return round(number)
        rounded = float(f"{number:.{DIGITS}g}")
        if not self.unit:
            return rounded
        return f"{rounded:.{DIGITS}g}{self.unit}"

    def at(self, shares: Sequence[float]) -> list[Any]:
        """The values at shares of the way from one end to the other; whole numbers all take the same share of it."""
        widen = 1 if self.whole else 0
        low, high = (math.log(self.low), math.log(self.high + widen)) if self.log else (self.low, self.high + widen)
        numbers = [low + share * (high - low) for share in shares]
        if self.log:
            numbers = [math.exp(number) for number in numbers]
        if self.whole:
            return [min(max(math.floor(number + 1e-9), round(self.low)), round(self.high)) for number in numbers]
        return [self.plain(number) for number in numbers]

    def spread(self, count: int) -> list[Any]:
        """So many values, the ends among them; whole numbers that fall together stand once."""
        steps = [i / (count - 1) for i in range(count)]
        if self.log:
            ratio = math.log(self.high / self.low)
            numbers = [self.low * math.exp(step * ratio) for step in steps]
        else:
            numbers = [self.low + step * (self.high - self.low) for step in steps]
        numbers[0], numbers[-1] = self.low, self.high
        if self.whole:
            return list(dict.fromkeys(math.floor(number + 0.5) for number in numbers))
        return list(dict.fromkeys(self.plain(number) for number in numbers))


def is_range(value: Any) -> bool:
    """Whether a mapping is written as a range."""
    return isinstance(value, dict) and bool(value.keys() & {"from", "to"})


def _ends(kind: Numeric) -> dict[str, Field]:
    return {
        "from": Field(kind, "first value"),
        "to": Field(kind, "last value"),
        "spacing": Field(Choice(SPACINGS), "linear: equal differences; log: equal ratios", "linear"),
    }


def read_range(context: Context, kind: Numeric, value: dict[str, Any], path: FieldPath) -> Any:
    """A range to draw from; INVALID where it is wrong."""
    aside = dict.fromkeys(("count", "step"), ("it beside over", "write it as sample: {count: ..., over: ...}"))
    fields = Record(_ends(kind), elsewhere=aside).read(context, value, path)
    return INVALID if fields is INVALID else _range(context, kind, value, path, fields)


def read_values(context: Context, kind: Numeric, value: dict[str, Any], path: FieldPath) -> Any:
    """The values of a range, as a file would have them; INVALID where it is wrong."""
    fields = Record(
        _ends(kind)
        | {
            "count": Field(_COUNT, "how many values, both ends among them"),
            "step": Field(kind, "difference of neighbours, instead of count", None),
        },
        instead={"step": ("count",)},
    ).read(context, value, path)
    if fields is INVALID:
        return INVALID
    found = _range(context, kind, value, path, fields)
    if found is INVALID:
        return INVALID
    if fields["step"] is None:
        return found.spread(fields["count"])
    return _stepped(context, kind, value, path, (found, fields["step"]))


def _stepped(
    context: Context, kind: Numeric, value: dict[str, Any], path: FieldPath, asked: tuple[Range, float]
) -> Any:
    found, step_si = asked
    here = (*path, "step")
    if found.log:
        message = "stands beside spacing: log, expected count with it"
        return context.add(here, "ambiguous", message, "give count, or leave spacing out")
    step = _written(kind, value["step"], step_si, found.unit)
    if step <= 0:
        return context.add(here, "out-of-range", f"found {shown(value['step'])}, expected a positive step")
    count = math.floor((found.high - found.low) / step + 1e-9) + 1
    if count > MOST_POINTS:
        message = f"gives {count:,} values, expected at most {MOST_POINTS:,}"
        return context.add(here, "out-of-range", message, "take a larger step")
    return [found.plain(found.low + i * step) for i in range(count)]


def _range(context: Context, kind: Numeric, value: dict[str, Any], path: FieldPath, fields: dict[str, Any]) -> Any:
    unit = "" if is_whole(kind) or isinstance(kind, Number) else unit_of(value["from"]) or unit_of(value["to"])
    low, high = (_written(kind, value[key], fields[key], unit) for key in ("from", "to"))
    log = fields["spacing"] == "log"
    if low >= high:
        message = f"found {shown(value['to'])}, expected more than from, which is {shown(value['from'])}"
        return context.add((*path, "to"), "out-of-range", message, "swap the two" if low > high else "")
    if log and low <= 0:
        message = f"found {shown(value['from'])}, expected a positive value with spacing: log"
        return context.add((*path, "from"), "out-of-range", message, "start above 0, or use spacing: linear")
    return Range(low, high, unit, log, is_whole(kind))


def _written(kind: Numeric, raw: Any, si: float, unit: str) -> float:
    """A value as a number in the unit that the range is written in."""
    if is_whole(kind):
        return float(si)
    if isinstance(kind, Number):
        return float(raw)
    return float(raw) if not unit else _number_in(kind, raw, si, unit)


def _number_in(kind: Numeric, raw: Any, si: float, unit: str) -> float:
    if isinstance(raw, str) and unit_of(raw) == unit:
        return float(raw.strip().removesuffix(unit).replace(",", "").strip())
    assert not isinstance(kind, Number)
    return si / kind.parse(f"1{unit}")


def schema(counted: bool) -> dict[str, Any]:
    """JSON Schema of a range, of values or to draw from."""
    number = {"type": ["string", "number"]}
    properties: dict[str, Any] = {"from": number, "to": number, "spacing": {"enum": list(SPACINGS)}}
    form = {"type": "object", "required": ["from", "to"], "additionalProperties": False}
    if not counted:
        return form | {"properties": properties}
    properties |= {"count": _COUNT.schema(), "step": number}
    return form | {"properties": properties, "oneOf": [{"required": ["count"]}, {"required": ["step"]}]}
