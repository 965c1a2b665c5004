"""Cells as the plain values that a scenario file would have, each with its unit."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.io.wording import shown
from prfaas_opt.sheets.book import NOT_AVAILABLE, cleaned
from prfaas_opt.sheets.notation import AmbiguousError, Notation, number, parsed
from prfaas_opt.sheets.unit_words import PARSERS, same_unit, unit_of
from prfaas_opt.study.rows import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prfaas_opt.sheets.catalogue import Column

MISSING = {"", "n/a", "na", "none", "-", "--", "\u2013", "\u2014", "null", "nil", "nan", NOT_AVAILABLE.casefold()}
"""What stands for nothing, in lower case."""

_RULE = re.compile(r":?[\-\u2010-\u2015]+:?")
"""A line of dashes, as a rule of a table in notes has."""
_APOSTROPHES = {"'", "\u2019"}
_ERRORS = re.compile(r"#(REF!|DIV/0!|VALUE!|NAME\?|NUM!|NULL!|ERROR!?|SPILL!|CALC!)|Err:\d{3}")
_ERROR_SIGNS = {"#", "E"}
_TELLING_SIGNS = {*_ERROR_SIGNS, ":", "-", *map(chr, range(0x2010, 0x2016))}
_WHOLE = {"count", "tokens"}
_NUMERIC = {"count", "number", "share", "tokens", "bandwidth", "duration", "size", "usd"}
_WITH_UNIT = {"bandwidth", "duration", "size"}
_DOLLARS = {"", "$", "us$", "usd"}
_LONGEST_NUMBER = 40


class Trouble(Struct, frozen=True):
    """What is wrong with a cell, wherever it stands."""

    code: str
    message: str
    fix: str = ""


class Reading(Struct, frozen=True):
    """What a cell says: a value, or what is wrong; and a remark on it."""

    value: Any = UNSET
    trouble: Trouble | None = None
    note: str = ""


NOTHING = Reading()


def is_missing(value: Any) -> bool:
    """Whether a cell says that it has no value.

    >>> is_missing(""), is_missing(" n/a"), is_missing(0)
    (True, True, False)
    """
    if value.__class__ is not str:
        return value is None
    folded = cleaned(value).casefold()
    return folded in MISSING or bool(_RULE.fullmatch(folded))


class CellReader:
    """Reads the cells of one column; what a text says is worked out once.

    Args:
        column: that they are in.
        unit: of bare numbers, from the header, as ``Meaning.unit`` has it.
        notation: of the file.
        is_text: whether all cells are texts, of which nothing says whether they show a percentage.
    """

    def __init__(self, column: Column, unit: str, notation: Notation, is_text: bool) -> None:
        self.column, self.unit, self._notation, self._is_text = column, unit, notation, is_text
        self._texts: dict[str, Reading] = {}

    @property
    def numeric(self) -> bool:
        """Whether its cells are quantities."""
        return self.column.kind in _NUMERIC

    @property
    def whole(self) -> bool:
        """Whether only whole numbers make sense."""
        return self.column.kind in _WHOLE and not self.unit

    def read(self, value: Any, percent: bool | None = None) -> Reading:
        """What a cell says.

        Args:
            value: of the cell.
            percent: whether it shows a percentage; None where nobody knows.
        """
        if value.__class__ is float or value.__class__ is int:
            return self._number(value, percent)
        if value.__class__ is str:
            found = self._texts.get(value)
            if found is None:
                found = self._texts[value] = self._text(cleaned(value))
            return found
        if value is None:
            return NOTHING
        return self._other(value)

    def read_all(self, cells: Iterable[Any]) -> dict[Any, Any] | None:
        """The values of cells that are all well, by the cell; None where something is to be said of one."""
        values: dict[Any, Any] = {}
        is_text = self.column.kind == "text"
        for cell in cells:
            if is_text and cell.__class__ is str:
                text = cleaned(cell)
                if text and text[0] not in _TELLING_SIGNS and text.casefold() not in MISSING:
                    values[cell] = text
                    continue
            found = self.read(cell)
            if found.trouble is not None or found.note:
                return None
            values[cell] = found.value
        return values

    def no_number(self, text: str) -> Trouble | None:
        """What is wrong with a text among numbers, which no field's own check will say; None where it may be well."""
        parse = PARSERS.get(self.column.kind)
        if parse is not None:
            try:
                parse(text)
            except units.UnitError as error:
                return Trouble("bad-unit", str(error), error.fix)
        elif self.numeric:
            return Trouble("wrong-type", f"found {shown(text)}, expected {_expected(self.column)}", "write a number")
        return None

    def _number(self, value: float, percent: bool | None) -> Reading:
        if not math.isfinite(value):
            message = f"holds {value}, expected {_expected(self.column)}"
            return Reading(trouble=Trouble("not-finite", message, "write a finite number"))
        plain: Any = int(value) if value.__class__ is int or value == int(value) else value
        kind = self.column.kind
        if kind in _WITH_UNIT and self.unit:
            return Reading(f"{plain!r}{self.unit}")
        if kind == "tokens" and self.unit:
            return Reading(f"{plain!r}{self.unit}")
        if kind == "share" and self.unit == "%":
            return self._percentage(plain, percent)
        if kind in ("text", "choice") and plain.__class__ is float:
            return Reading(f"{plain:.15g}")
        return Reading(plain)

    def _percentage(self, value: float, percent: bool | None) -> Reading:
        """A number under a header with "%": what shows a percentage holds the share."""
        if percent:
            return Reading(value)
        if 0 < value <= 1:
            message = f"found {shown(value)} under a header with %, which may be {value:.15g} % or {_of_share(value)}"
            fix = f'write "{value:.15g}%" or "{_of_share(value)}"'
            return Reading(trouble=Trouble("ambiguous-percentage", message, fix))
        return Reading(float(f"{value!r}e-2") if "e" not in repr(value) else value / 100)

    def _other(self, value: Any) -> Reading:
        if isinstance(value, bool):
            message = f"found {str(value).upper()}, expected {_expected(self.column)}"
            return Reading(trouble=Trouble("wrong-type", message, "write what is meant"))
        if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
            if self.column.path == "name":
                return Reading(str(value).removesuffix(" 00:00:00"))
            what = {datetime.time: "time", datetime.timedelta: "duration"}.get(type(value), "date")
            told = str(value).removesuffix(" 00:00:00")
            message = f"holds the {what} {told}, expected {_expected(self.column)}"
            fix = "a spreadsheet program has taken it for one: format the cell as text or number and type it again"
            return Reading(trouble=Trouble("date-not-number", message, fix))
        return Reading(trouble=Trouble("wrong-type", f"found {shown(str(value))}, expected {_expected(self.column)}"))

    def _text(self, text: str) -> Reading:
        kind = self.column.kind
        folded = text.casefold()
        if kind == "choice":
            word = _choice(folded, self.column.choices)
            if word:
                return Reading(word)
        if folded in MISSING or _RULE.fullmatch(folded):
            return NOTHING
        if text[:1] in _ERROR_SIGNS and _ERRORS.fullmatch(text):
            return Reading(trouble=error_cell(text))
        if kind in ("text", "choice"):
            return Reading(text)
        if kind != "plain" and text[:1] in _APOSTROPHES:
            text = text[1:]
        match = parsed(text)
        if not match or len(text) > _LONGEST_NUMBER:
            return Reading(text)
        before, unit = (cleaned(match[part] or "") for part in ("before", "unit"))
        if kind == "plain" and (before or unit):
            return Reading(text)
        if before.casefold() not in (_DOLLARS if kind == "usd" else {""}):
            return self._currency(text, before) if kind == "usd" else Reading(text)
        taken = unit_of(unit, kind, self.column) if unit else None
        try:
            digits = number(
                match["digits"], self._notation, kind in _WHOLE and not taken and not (self.unit and not unit)
            )
        except ValueError:
            return Reading(text)
        except AmbiguousError as error:
            fix = "write it as a number without separators, or say how the file writes them: --locale en or --locale de"
            return Reading(trouble=Trouble("ambiguous-number", f"{shown(text)} {error}", fix))
        if unit and taken is None:
            # The field's own check says what units it takes; it is shown what stands in the cell.
            if kind == "usd":
                return self._currency(text, unit)
            return Reading(text.replace(match["digits"], digits, 1))
        number_text = f"{match['sign']}{digits}{match['power'] or ''}"
        if not math.isfinite(float(number_text)):
            return Reading(text)
        return self._quantity(number_text, unit, taken or "")

    def _quantity(self, number_text: str, unit: str, taken: str) -> Reading:
        """A number in plain digits, with the unit that its cell states, if any."""
        kind = self.column.kind
        value = _value(number_text)
        if not unit:
            return self._number(value, None)
        note = ""
        if self.unit and kind != "share" and not same_unit(kind, taken, self.unit):
            note = f"the header says {self.unit}, the cell {unit}: the cell's unit counts"
        if kind == "share":
            return Reading(float(Decimal(number_text).scaleb(-2)) if taken == "%" else value)
        if kind in _WITH_UNIT or (kind == "tokens" and taken):
            return Reading(f"{value!r}{taken}", note=note)
        return Reading(value, note=note)

    def _currency(self, text: str, unit: str) -> Reading:
        message = f"found {shown(text)}, expected {_expected(self.column)}"
        return Reading(trouble=Trouble("bad-unit", message, f'convert it: "{unit}" is not in {self.column.unit}'))


def error_cell(text: str) -> Trouble:
    """What is wrong with a cell that holds an error of a spreadsheet program."""
    return Trouble("error-cell", f"holds the error {text}, expected a value", "mend the formula, or clear the cell")


def uncalculated_cell() -> Trouble:
    """What is wrong with a formula without a value."""
    message = "holds a formula that was never calculated, so the file does not have its value"
    return Trouble("uncalculated-formula", message, "open and save it in a spreadsheet program")


def _value(text: str) -> float:
    number_value = float(text)
    return int(number_value) if number_value == int(number_value) and abs(number_value) < 2**53 else number_value


def _of_share(share: float) -> str:
    return f"{share * 100:.15g}%"


def _choice(folded: str, choices: tuple[str, ...]) -> str:
    """The choice that a text is, whatever its case and what joins its words."""
    joined = re.sub(r"[\s_\-]+", "-", folded)
    return next((choice for choice in choices if choice.replace("_", "-") == joined), "")


def _expected(column: Column) -> str:
    words = {
        "count": "a whole number",
        "number": "a number",
        "usd": "a price in US dollars",
        "share": "a share",
        "tokens": "a length in tokens",
        "bandwidth": 'a rate, as "100 Gbps"',
        "duration": 'a duration, as "80 ms"',
        "size": 'a size, as "16 MiB"',
        "text": "a text",
        "plain": "a value",
    }
    return "one of " + ", ".join(column.choices) if column.choices else words.get(column.kind, "a value")
