"""What was understood of a study file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from prfaas_opt.study.axes import Block, Grid, Sample, StudyRows
from prfaas_opt.study.ranges import Range
from prfaas_opt.study.rows import UNSET

FIRST_ROWS = 5
_SHOWN = 4


class ExplainedField(Struct, frozen=True):
    """A field that varies, and along which block of the study."""

    block: Annotated[int, Meta(ge=0, description="place among the axes, from 0")]
    kind: Literal["grid", "rows", "sobol", "random"]
    field: str
    values: Annotated[str, Meta(description="in words")]
    count: Annotated[int, Meta(ge=1, description="values of this field in the block")]


class StudyExplanation(Struct, frozen=True):
    """The rows that a study file gives."""

    name: str
    base: Annotated[str, Meta(description="name of the scenario that rows change")]
    rows: int
    objective: str | None
    fields: tuple[ExplainedField, ...]
    first_rows: Annotated[tuple[dict[str, Any], ...], Meta(description="fields that the first rows set")]


def explained(rows: StudyRows) -> StudyExplanation:
    """What was understood of a study."""
    first = rows.values(0, min(FIRST_ROWS, len(rows)))
    return StudyExplanation(
        name=rows.name,
        base=rows.base.name,
        rows=len(rows),
        objective=rows.objective,
        fields=tuple(each for number, block in enumerate(rows.blocks) for each in _fields(number, block)),
        first_rows=tuple(
            {field: value for field, value in zip(rows.fields, row, strict=True) if value is not UNSET} for row in first
        ),
    )


def _fields(number: int, block: Block) -> list[ExplainedField]:
    if isinstance(block, Sample):
        drawn = zip(block.fields, block.over, strict=True)
        return [ExplainedField(number, block.method, field, _drawn(over), block.count) for field, over in drawn]
    kind: Literal["grid", "rows"] = "grid" if isinstance(block, Grid) else "rows"
    found = []
    for at, field in enumerate(block.fields):
        values = [value for value in block.values_of(at) if value is not UNSET]
        found.append(ExplainedField(number, kind, field, _listed(values), len(values)))
    return found


def _drawn(over: Range | tuple[Any, ...]) -> str:
    if isinstance(over, Range):
        spacing = "log" if over.log else "linear"
        return f"{over.plain(over.low)} to {over.plain(over.high)}, {spacing}"
    return f"one of {_listed(list(over))}"


def _listed(values: list[Any]) -> str:
    """The values in words, the middle of many left out."""
    texts = [_short(value) for value in values]
    return ", ".join(texts if len(texts) <= _SHOWN else [*texts[: _SHOWN - 1], "...", texts[-1]])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."
