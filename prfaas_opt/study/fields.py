"""The fields that a study varies: what each may hold, read once per distinct value, and the column that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.io.document import Document
from prfaas_opt.io.overrides import steps_of
from prfaas_opt.io.scalars import Choice, Number, Quantity, Text
from prfaas_opt.io.spec import INVALID, Context
from prfaas_opt.study.field_kinds import UnknownFieldError, field_kind, number_of
from prfaas_opt.study.plan_columns import ColumnType
from prfaas_opt.study.rows import UNSET

if TYPE_CHECKING:
    from prfaas_opt.io.spec import Kind

_MOST_KEPT = 50_000
"""Distinct values of a field that are remembered: a random axis has no value twice."""


class Form(Struct, frozen=True):
    """How the values of a field stand in a column.

    Attributes:
        type: of the column.
        suffix: its unit, as the end of its name; empty where the field's own name tells it.
        unit: in words; empty for counts and texts.
        factor: the column's numbers are the SI values divided by it.
    """

    type: ColumnType
    suffix: str = ""
    unit: str = ""
    factor: float = 1.0


_TEXT = Form("string")
_OF_QUANTITIES: dict[Callable[[Any], float], Form] = {
    units.parse_tokens: Form("int64", "_tokens", "tokens"),
    units.parse_bandwidth: Form("float64", "_gbps", "Gbps", units.GBPS),
    units.parse_duration: Form("float64", "_s", "s"),
    units.parse_size: Form("float64", "_bytes", "bytes"),
}
SUFFIXES = tuple(form.suffix for form in _OF_QUANTITIES.values())
"""What may end a column's name beyond its field's."""


class StudyField:
    """A field of a scenario by its path.

    Attributes:
        text: the path as it was given.
        steps: its keys.
        kind: of a single value in it; None where that is not known before a scenario is read.
    """

    def __init__(self, text: str) -> None:
        self.text, self.steps = text, tuple(steps_of(text))
        self.kind = _kind_at(self.steps)
        self._context = Context(Document("", {}))
        self._kept: dict[tuple[type, Any], Any] = {}

    @cached_property
    def form(self) -> Form:
        """How its values stand in a column."""
        return _TEXT if self.kind is None else _form(self.kind)

    @property
    def column(self) -> str:
        """Name of its column: the path with the unit of a quantity.

        >>> StudyField("links.0.bandwidth").column, StudyField("slo.ttft.p90").column
        ('links.0.bandwidth_gbps', 'slo.ttft.p90_s')
        """
        suffix = self.form.suffix
        return self.text if self.text.endswith(suffix) else self.text + suffix

    @property
    def is_known(self) -> bool:
        """Whether what it holds is known before a scenario is read."""
        return self.kind is not None

    @property
    def is_number(self) -> bool:
        """Whether its column holds numbers."""
        return self.form.type != "string"

    def read(self, values: Sequence[Any]) -> list[Any]:
        """Values in SI units; INVALID where one is none of the field's, UNSET where there is none."""
        kind, kept = self.kind, self._kept
        if kind is None:
            return [UNSET if value is UNSET else INVALID for value in values]
        if len(kept) > _MOST_KEPT:
            kept.clear()
        found = []
        for value in values:
            if value.__class__ not in (str, int, float):
                found.append(UNSET if value is UNSET else INVALID)
                continue
            key = (value.__class__, value)
            read = kept.get(key)
            if read is None:
                read = kept[key] = kind.read(self._context, value, ())
            found.append(read)
        self._context.problems.clear()
        return found

    def all_shown(self, values: Sequence[Any], reads: Sequence[Any]) -> Sequence[Any] | None:
        """What the column says of values that are all of the field's kind; None where some are not."""
        if not self.is_number:
            return values if all(value.__class__ is str for value in values) else None
        if INVALID in reads or UNSET in reads:
            return None
        if self.form.factor != 1.0:
            return [_in_units(read, self.form.factor) for read in reads]
        if isinstance(self.kind, Number) and self.kind.factor != 1.0:
            return [self.shown(value, read) for value, read in zip(values, reads, strict=True)]
        return reads

    def shown(self, value: Any, read: Any) -> Any:
        """What the column says of a value; None where it is not of the field's kind."""
        if not self.is_number:
            return value if isinstance(value, str) else None
        if read is INVALID or read is UNSET:
            return None
        if isinstance(self.kind, Number):
            # The number as given: in the unit of the field's name, whatever the SI value.
            return int(value) if self.form.type == "int64" else float(value)
        return read if self.form.factor == 1.0 else _in_units(read, self.form.factor)


def _in_units(si: float, factor: float) -> float:
    """An SI value in a unit: the shortest number that stands for exactly this value.

    >>> _in_units(units.parse_bandwidth("33.3Gbps"), units.GBPS)
    33.3
    """
    number = si / factor
    short = float(f"{number:.15g}")
    return short if short * factor == si else number


def _form(kind: Kind) -> Form:
    if isinstance(kind, Quantity):
        return _OF_QUANTITIES.get(kind.parse, _TEXT)
    if isinstance(kind, Number):
        return Form("int64" if kind.whole else "float64")
    return _TEXT


def _kind_at(steps: Sequence[str]) -> Kind | None:
    """The kind of a single value in a field."""
    try:
        kind = field_kind(steps)
    except UnknownFieldError:
        return None
    kind = number_of(kind) or kind
    return kind if isinstance(kind, Number | Quantity | Text | Choice) else None


def value_in(document: Document, steps: Sequence[str]) -> Any:
    """What a document has at a path; UNSET where it has nothing there."""
    value = document.data
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return UNSET
    return value
