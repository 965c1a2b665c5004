"""Field specifications of single values: texts, words, numbers and quantities with a unit."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.io.spec import Context, wrong
from prfaas_opt.io.wording import did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from prfaas_opt.io.document import FieldPath

SMALLEST, LARGEST = 1e-15, 1e15
"""No number in a file is nearer to zero (unless it is zero) or further from it."""

_NUMBER_IN_TEXT = re.compile(r"[$€£]?([+-]?[0-9][0-9,_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(%|[^0-9:]*)")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,(?:[0-9]{1,2}|[0-9]{4,})")


def _number_fix(value: Any) -> str:
    """How to write the number that a text seems to mean."""
    match = _NUMBER_IN_TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return ""
    comma = _DECIMAL_COMMA.fullmatch(match[1])
    number = match[1].replace(",", "." if comma else "").replace("_", "")
    if match[2] == "%":
        return f"write {float(number) / 100:g}"
    if match[2]:
        return "write the number alone, in the unit that the field is in"
    return f"write {number}, without quotes or separators"


class Text(Struct, frozen=True):
    """A non-empty text; a plain whole number is taken as its text (a model may be called 70)."""

    expected: str = "a text"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The text."""
        if isinstance(value, bool | float):
            return wrong(self, context, value, path, f'put it in quotes: "{shown(value)}"')
        if not isinstance(value, str | int) or not str(value).strip():
            return wrong(self, context, value, path)
        text = str(value).strip()
        if not all(ch.isprintable() or ch in "\n\t" for ch in text):
            return context.add(path, "bad-text", f"found {shown(text)}, expected no control characters", "type it anew")
        return text

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": ["string", "integer"], "minLength": 1}


class Choice(Struct, frozen=True):
    """One of a few words."""

    choices: tuple[str, ...]

    @property
    def expected(self) -> str:
        """The words."""
        return "one of " + ", ".join(self.choices)

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The word."""
        if not isinstance(value, str):
            return wrong(self, context, value, path)
        if value in self.choices:
            return value
        message = f"found {shown(value)}, expected {self.expected}"
        return context.add(path, "unknown-word", message, did_you_mean(value, self.choices))

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"enum": list(self.choices)}


class Number(Struct, frozen=True):
    """A finite number within limits, multiplied by ``factor`` into SI units; ``hint`` mends one beyond them."""

    expected: str
    minimum: float = -math.inf
    maximum: float = LARGEST
    above: float = -math.inf
    whole: bool = False
    factor: float = 1.0
    hint: str = ""

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The number in SI units."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return wrong(self, context, value, path, _number_fix(value))
        if isinstance(value, float) and not math.isfinite(value):
            return wrong(self, context, value, path, "write a finite number")
        if self.whole and value != int(value):
            return wrong(self, context, value, path, f"write {math.floor(value)} or {math.ceil(value)}")
        if not (self.minimum <= value <= self.maximum and value > self.above):
            return context.add(path, "out-of-range", f"found {shown(value)}, expected {self._limits(value)}", self.hint)
        if value and abs(value) < SMALLEST:
            message = f"found {shown(value)}, expected {self.expected}, not that near to 0"
            return context.add(path, "out-of-range", message)
        return int(value) if self.whole else value * self.factor

    def _limits(self, value: float) -> str:
        """What is expected, with the limit that goes without saying where that is the one exceeded."""
        if value > self.maximum and f"{self.maximum:,.0f}" not in self.expected:
            return f"{self.expected}, at most {self.maximum:,.0f}"
        return self.expected

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        limits = {"minimum": self.minimum, "maximum": self.maximum, "exclusiveMinimum": self.above}
        return {"type": "integer" if self.whole else "number"} | {
            key: limit for key, limit in limits.items() if math.isfinite(limit)
        }


class Quantity(Struct, frozen=True):
    """A text with a unit (or what ``parse`` takes besides), as SI, within limits; zero beyond them if ``or_zero``."""

    expected: str
    parse: Callable[[Any], float]
    minimum: float
    maximum: float
    or_zero: bool = False

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The quantity in SI units."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return wrong(self, context, value, path)
        if isinstance(value, float) and not math.isfinite(value):
            return wrong(self, context, value, path, "write a finite number")
        if isinstance(value, str) and (len(value) > 40 or not value.isprintable()):
            return wrong(self, context, value, path)
        try:
            parsed = self.parse(value)
        except units.UnitError as error:
            return context.add(path, "bad-unit", f"{error}, expected {self.expected}", error.fix)
        if not (self.minimum <= parsed <= self.maximum or (self.or_zero and parsed == 0)):
            return context.add(path, "out-of-range", f"found {shown(value)}, expected {self.expected}")
        return parsed

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": ["string", "number"]}


TOKENS = Quantity(
    'a whole number of tokens, 1 to 16M, as "32K" or 32768',
    units.parse_tokens,
    1.0,
    float(units.LONGEST_TOKENS),
)
BANDWIDTH = Quantity(
    'a bandwidth such as "100Gbps" or "12.5GB/s", 0 or 1bps to 1,000TB/s',
    units.parse_bandwidth,
    units.parse_bandwidth("1bps"),
    units.parse_bandwidth("1,000TB/s"),
    or_zero=True,
)
DURATION = Quantity(
    'a duration such as "80ms" or "7s", 0 or 1us to 1 hour', units.parse_duration, 1e-6, units.HOUR_S, or_zero=True
)
SIZE = Quantity('a size such as "16MiB", 1B to 1TB', units.parse_size, 1.0, units.parse_size("1TB"))
FLOW_RATE = Quantity(
    'a bandwidth such as "10Gbps", 1bps to 1,000TB/s',
    units.parse_bandwidth,
    units.parse_bandwidth("1bps"),
    units.parse_bandwidth("1,000TB/s"),
)
COUNT = Number("a whole number, 1 or more", minimum=1, maximum=10_000_000, whole=True)
COUNT_OR_ZERO = Number("a whole number, 0 or more", minimum=0, maximum=10_000_000, whole=True)
POSITIVE = Number("a positive number", above=0)
NOT_NEGATIVE = Number("a number, 0 or more", minimum=0)


class _Share(Number, frozen=True):
    """A share of a whole; a percentage is no share."""

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The share."""
        if not isinstance(value, bool) and isinstance(value, int | float) and 1 < value <= 100:
            message = f"found {shown(value)}, expected {self.expected}"
            return context.add(path, "out-of-range", message, f"write {value / 100:g} for {value:g} %")
        return super().read(context, value, path)


SHARE_OR_ZERO = _Share("a share from 0 to 1", minimum=0, maximum=1)
CEILING = _Share("a share from 0.0001 to 1", minimum=0.0001, maximum=1)
