"""Field specifications of a study's axes: values are checked against the field of the scenario that they are for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from prfaas_opt.io.overrides import steps_of
from prfaas_opt.io.scalars import Choice, Number
from prfaas_opt.io.spec import INVALID, Context, Field, ListOf, Record, Variants, wrong
from prfaas_opt.io.wording import counted, printable, shown
from prfaas_opt.study.axes import Grid, Listed, Sample
from prfaas_opt.study.field_kinds import UnknownFieldError, field_kind, may_have, number_of
from prfaas_opt.study.ranges import is_range, read_range, read_values, schema
from prfaas_opt.study.rows import UNSET
from prfaas_opt.study.sampling import METHODS, MOST_SOBOL_POINTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.io.spec import Kind

MOST_ROWS = 1_000_000_000
OF_THE_STUDY = ("objective", "detail")
"""What a study has once for all of its rows."""
_PLAIN = {"type": ["string", "number", "boolean", "object", "array"]}

Form = Literal["values", "value", "draw"]


def field_name(text: str) -> str:
    """A field's path in its one spelling: ``links[0].bandwidth`` is ``links.0.bandwidth``."""
    return ".".join(steps_of(text))


class FieldValues(Struct, frozen=True):
    """A mapping from field paths to values of theirs.

    Attributes:
        form: ``values``: one or several of each field, or a range of them; ``draw``: a range to draw from, or values
            to choose from; ``value``: one.
    """

    form: Form

    @property
    def expected(self) -> str:
        """A mapping, and of what."""
        what = {"values": "its values", "value": "its value", "draw": "the range or the values to draw from"}[self.form]
        return f"a mapping from fields (clusters.pd.instances) to {what}"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A dict of fields in their one spelling: tuples of plain values, ranges or plain values."""
        if not isinstance(value, dict) or not value:
            return wrong(self, context, value, path, "write {clusters.pd.instances: ...}")
        found: dict[str, Any] = {}
        for key, item in value.items():
            name, here = field_name(key), (*path, key)
            if name in found:
                context.add(here, "duplicate-key", f"stands twice in these fields, as {name}", "keep one of them")
            found[name] = self._read_field(context, name, item, here)
        return INVALID if any(item is INVALID for item in found.values()) else found

    def _read_field(self, context: Context, name: str, value: Any, path: FieldPath) -> Any:
        try:
            kind = field_kind(name.split("."))
        except UnknownFieldError as error:
            fix = "write it beside axes; it is the same for all rows" if name in OF_THE_STUDY else error.fix
            return context.add(path, "unknown-key", str(error), fix)
        if self.form == "value":
            return _plain(context, kind, value, path)
        if self.form == "draw":
            return self._draw(context, kind, value, path)
        return _values(context, kind, value if isinstance(value, list) else [value], path)

    def _draw(self, context: Context, kind: Kind | None, value: Any, path: FieldPath) -> Any:
        if isinstance(value, list):
            return _values(context, kind, value, path)
        if not is_range(value):
            fix = "write {from: ..., to: ...}, or a list of values to choose from"
            return context.add(path, "wrong-type", f"found {shown(value)}, expected a range or a list", fix)
        number = number_of(kind)
        return _no_numbers(context, kind, path) if number is None else read_range(context, number, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the mapping."""
        forms: dict[Form, list[dict[str, Any]]] = {
            "values": [_PLAIN, schema(counted=True)],
            "draw": [schema(counted=False), {"type": "array", "minItems": 1}],
            "value": [_PLAIN],
        }
        return {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": forms[self.form]}}


def _no_numbers(context: Context, kind: Kind | None, path: FieldPath) -> Any:
    holds = f"it holds {kind.expected}" if kind else "what it holds depends on what stands around it"
    message = f"found a range, but no numbers are known to be its values: {holds}"
    return context.add(path, "no-range", message, "list the values: [..., ...]")


def _values(context: Context, kind: Kind | None, items: list[Any], path: FieldPath) -> Any:
    """The plain values of a list, ranges among them spread out."""
    if not items:
        return context.add(path, "too-short", "found an empty list, expected values", "add one, or leave the field out")
    listed = isinstance(context.document.at(path), list)
    found: list[Any] = []
    for i, item in enumerate(items):
        here = (*path, i) if listed else path
        if is_range(item) and not may_have(kind, "from"):
            number = number_of(kind)
            spread = _no_numbers(context, kind, here) if number is None else read_values(context, number, item, here)
            found += [INVALID] if spread is INVALID else spread
        else:
            found.append(_plain(context, kind, item, here))
    return INVALID if any(item is INVALID for item in found) else tuple(found)


def _plain(context: Context, kind: Kind | None, value: Any, path: FieldPath) -> Any:
    """A value as it stands, if the field can hold it."""
    if value is None:
        expected = kind.expected if kind else "a value"
        return context.add(path, "wrong-type", f"found nothing, expected {expected}", "fill it in, or leave it out")
    before = len(context.problems)
    if kind is not None:
        kind.read(context, value, path)
    return INVALID if len(context.problems) > before else value


def _grid(_context: Context, _path: FieldPath, values: dict[str, Any]) -> Grid:
    fields: dict[str, tuple[Any, ...]] = values["grid"]
    # A value may be listed and at the end of a range too; every combination is planned once.
    return Grid(
        tuple(fields), tuple(tuple({repr(each): each for each in column}.values()) for column in fields.values())
    )


def _zip(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    fields: dict[str, tuple[Any, ...]] = values["zip"]
    (first, column), *others = fields.items()
    for (name, other), key in zip(others, list(context.document.at((*path, "zip")))[1:], strict=True):
        if len(other) != len(column):
            message = f"found {counted(len(other), 'value')} of {name}, expected {len(column)}, one for each of {first}"
            fix = "give all fields of a zip as many values, or use a grid for every combination"
            return context.add((*path, "zip", key), "length-mismatch", message, fix)
    return Listed(tuple(fields), tuple(zip(*fields.values(), strict=True)))


def _list(_context: Context, _path: FieldPath, values: dict[str, Any]) -> Listed:
    items: tuple[dict[str, Any], ...] = values["list"]
    fields = tuple(dict.fromkeys(name for item in items for name in item))
    return Listed(fields, tuple(tuple(item.get(name, UNSET) for name in fields) for item in items))


def _sample(_context: Context, _path: FieldPath, values: dict[str, Any]) -> Sample:
    drawn = values["sample"]
    over = drawn["over"]
    return Sample(drawn["method"], drawn["count"], drawn["seed"], tuple(over), tuple(over.values()))


_SAMPLE = Record(
    {
        "method": Field(Choice(METHODS), "sobol: spread evenly over the ranges; random: independent points", "sobol"),
        "count": Field(
            Number(
                f"a whole number, 1 to {MOST_SOBOL_POINTS:,}", minimum=1, maximum=float(MOST_SOBOL_POINTS), whole=True
            ),
            "how many rows are drawn",
        ),
        "seed": Field(
            Number("a whole number, 0 to 4,294,967,295", minimum=0, maximum=2.0**32 - 1, whole=True),
            "seed of the random numbers",
            0,
        ),
        "over": Field(FieldValues("draw"), "the range, or the values to choose from, of each field that varies"),
    }
)


def field_among(keys: Iterable[Any]) -> str:
    """The first of some keys that is a field of a scenario; empty where none is."""
    for key in keys:
        if isinstance(key, str):
            try:
                field_kind(steps_of(key))
            except UnknownFieldError:
                continue
            return key
    return ""


class _Block(Variants, frozen=True):
    """A block; of fields that stand in none it is said where they belong."""

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """What the record with the key that is there reads."""
        if isinstance(value, dict) and not value.keys() & self.by_key.keys():
            field = field_among(value)
            if field:
                message = f"found the field {printable(field)} alone, expected {self.expected}"
                return context.add(path, "missing-key", message, f"write grid: {{{printable(field)}: ...}}")
        return super().read(context, value, path)


BLOCK = _Block(
    {
        "grid": Record(
            {"grid": Field(FieldValues("values"), "fields and their values: every combination of them")}, _grid
        ),
        "zip": Record(
            {"zip": Field(FieldValues("values"), "fields and as many values of each: the first of all, and so on")},
            _zip,
        ),
        "list": Record({"list": Field(ListOf(FieldValues("value")), "rows: the fields that each one sets")}, _list),
        "sample": Record({"sample": Field(_SAMPLE, "rows drawn at random or evenly from ranges")}, _sample),
    }
)


class Axes(Struct, frozen=True):
    """The blocks of a study, which combine as a product."""

    blocks: ListOf = ListOf(BLOCK)

    @property
    def expected(self) -> str:
        """A list of blocks."""
        return "a list of blocks, each a grid, zip, list or sample"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A tuple of blocks whose fields differ."""
        if isinstance(value, dict) and value.keys() & BLOCK.by_key.keys():
            return wrong(self, context, value, path, 'put "- " before each block')
        field = field_among(value) if isinstance(value, dict) else ""
        if field:
            return wrong(self, context, value, path, f"write axes: [{{grid: {{{printable(field)}: ...}}}}]")
        blocks = self.blocks.read(context, value, path)
        if blocks is INVALID:
            return INVALID
        taken: dict[str, int] = {}
        before = len(context.problems)
        for number, block in enumerate(blocks):
            for name in block.fields:
                for other, first in taken.items():
                    if f"{other}.".startswith(f"{name}.") or f"{name}.".startswith(f"{other}."):
                        self._overlap(context, (*path, number), name, (other, first))
                taken[name] = number
        rows = math.prod(map(len, blocks))
        if rows > MOST_ROWS:
            message = f"gives {rows:,} rows, expected at most {MOST_ROWS:,}"
            return context.add(path, "too-many", message, "take fewer values, or a sample of them")
        return INVALID if len(context.problems) > before else blocks

    @staticmethod
    def _overlap(context: Context, path: FieldPath, name: str, other: tuple[str, int]) -> None:
        if name == other[0]:
            message = f"sets {printable(name)}, which axes[{other[1]}] sets too"
        else:
            message = f"sets {printable(name)}, which overlaps {printable(other[0])} of axes[{other[1]}]"
        context.add(path, "ambiguous", message, "set each field in one place")

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the list."""
        return self.blocks.schema()
