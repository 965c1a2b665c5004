"""Figures as they are printed: their digits say how exact they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from prfaas_opt.io.document import UNREADABLE
from prfaas_opt.io.spec import INVALID, Context, wrong
from prfaas_opt.io.wording import shown

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath

_LEAST, _MOST = 1e-7, 1e7


def half_of_last_digit(text: str) -> float:
    """Half a unit of the last digit of a number as text.

    >>> half_of_last_digit("2.10"), half_of_last_digit("9.73"), half_of_last_digit("12"), half_of_last_digit("1.5e-3")
    (0.005, 0.005, 0.5, 5e-05)
    """
    exponent = Decimal(text.strip().replace("_", "")).as_tuple().exponent
    assert isinstance(exponent, int)
    return float(Decimal((0, (5,), exponent - 1)))


@dataclass(frozen=True)
class PrintedNumber:
    """A positive number as published; in quotes it keeps its last zeros ("2.10")."""

    expected: str

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The number and half a unit of its last digit."""
        if value is UNREADABLE:
            return INVALID
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return wrong(self, context, value, path)
        try:
            text = value.strip() if isinstance(value, str) else repr(value)
            number = float(Decimal(text))
        except (InvalidOperation, ValueError, OverflowError):
            return wrong(self, context, value, path, "write the number alone, in the unit that the field is in")
        if not math.isfinite(number):
            message = f"found {shown(value)}, expected {self.expected}"
            return context.add(path, "not-finite", message, "write a finite number")
        if not _LEAST <= number <= _MOST:
            message = f"found {shown(value)}, expected {self.expected}, {_LEAST:g} to {_MOST:,.0f}"
            return context.add(path, "out-of-range", message, "check its unit")
        return number, half_of_last_digit(text)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": ["number", "string"]}
