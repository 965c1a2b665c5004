"""The answers that a report holds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Where = Annotated[
    dict[str, tuple[Any, ...]],
    Meta(description="values of other axes that these lines are limited to; axes of which they have all are left out"),
]
Pays = Literal["always", "never", "from", "until", "in between"]
MeasureName = Literal["throughput", "cost", "ttft", "egress", "break_even"]


class Measure(Struct, frozen=True):
    """A figure of a plan that scenarios are compared by.

    Attributes:
        name: as options have it.
        column: of the results.
        unit: in words.
        title: for people.
        more_is_better: whether the larger figure is.
    """

    name: MeasureName
    column: str
    unit: str
    title: str
    more_is_better: bool = False


class AxisFound(Struct, frozen=True, kw_only=True):
    """A field that differs between rows."""

    name: Annotated[str, Meta(description="its path, with the unit of a quantity")]
    unit: str
    numeric: bool
    count: Annotated[int, Meta(ge=2, description="distinct values")]
    values: Annotated[tuple[Any, ...], Meta(description="all of them, where they are few; null: as the base has it")]
    low: Annotated[float | None, Meta(description="least number")]
    high: Annotated[float | None, Meta(description="largest number")]
    together_with: Annotated[tuple[str, ...], Meta(description="fields that change with it, value for value")]
    has_neighbours: Annotated[bool, Meta(description="whether rows differ in it alone")]


class ParetoRow(Struct, frozen=True):
    """A row that no other beats."""

    row: Annotated[int, Meta(ge=0, description="counted from 0")]
    name: Annotated[str | None, Meta(description="of its scenario, where the study names them")]
    values: dict[str, Any]
    figures: dict[str, float]


class ParetoFront(Struct, frozen=True, kw_only=True):
    """Rows to which none is better in one objective without being worse in another."""

    objectives: tuple[MeasureName, ...]
    compared: Annotated[Count, Meta(description="rows with a figure for every objective")]
    without_plan: Count
    without_figure: Annotated[Count, Meta(description="rows with a plan that lacks a figure")]
    count: Annotated[Count, Meta(description="rows of the front; rows of equal figures are all in it or all out")]
    rows: Annotated[tuple[ParetoRow, ...], Meta(description="best first objective first; the first 10,000")]


class Change(Struct, frozen=True, kw_only=True):
    """What limits a plan is another on two neighbouring values of an axis, all else being equal."""

    before: Annotated[str, Meta(description="bottlenecks at the lower value")]
    after: str
    low: float
    high: float
    lines: Annotated[int, Meta(ge=1, description="combinations of the other axes with this change")]
    where: Where


class AxisChanges(Struct, frozen=True, kw_only=True):
    """Where along an axis the bottleneck changes."""

    axis: str
    lines: Annotated[Count, Meta(description="combinations of the other axes with two rows or more along this one")]
    unchanged: Annotated[Count, Meta(description="lines whose bottleneck is one all along")]
    count: Annotated[Count, Meta(description="distinct changes")]
    changes: Annotated[tuple[Change, ...], Meta(description="by value, the first 1,000")]


class Level(Struct, frozen=True, kw_only=True):
    """A value of an axis, or a stretch of values, and the figures of the rows there."""

    value: Annotated[Any, Meta(description="null where it is a stretch, or as the base has it")]
    low: Annotated[float | None, Meta(description="of a stretch of values")]
    high: float | None
    rows: Annotated[Count, Meta(description="rows there")]
    figures: Annotated[Count, Meta(description="of them have the figure")]
    mean: float | None
    least: float | None
    most: float | None


class Effect(Struct, frozen=True, kw_only=True):
    """What an axis does to a figure, averaged over all else that varies."""

    axis: str
    measure: MeasureName
    by: Literal["value", "quantile"]
    variance_share: Annotated[
        Share | None,
        Meta(description="variance of the levels' means, weighted by figures, over that of all; null where all equal"),
    ]
    chance_share: Annotated[
        Share | None,
        Meta(
            description="what that share would be on average if the axis did nothing; null where every combination of "
            "values has a figure, once: then chance has no part"
        ),
    ]
    count: Annotated[Count, Meta(description="levels")]
    levels: Annotated[tuple[Level, ...], Meta(description="in order; of texts the 50 with most rows")]


class PayingLine(Struct, frozen=True, kw_only=True):
    """Where along an axis remote prefill pays, for one combination of the others."""

    values: Annotated[dict[str, Any], Meta(description="of the other axes")]
    pays: Annotated[
        Pays, Meta(description="from: beyond the interval; until: before it; in between: it changes more than once")
    ]
    low: Annotated[float | None, Meta(description="the break-even lies between these neighbours; the first of several")]
    high: float | None
    low_row: Annotated[int | None, Meta(description="the row at the lower of them")]
    refined_low: Annotated[float | None, Meta(description="with --refine: it lies between these, planned anew")] = None
    refined_high: float | None = None


class PayingLines(Struct, frozen=True, kw_only=True):
    """Lines that turn alike."""

    pays: Pays
    low: float | None
    high: float | None
    lines: Annotated[int, Meta(ge=1)]
    where: Where


class BreakEven(Struct, frozen=True, kw_only=True):
    """Where along a bandwidth or a price the plan begins or stops to send requests and beat the homogeneous cluster."""

    axis: str
    measure: Literal["throughput", "cost"]
    lines: Count
    alike: Annotated[tuple[PayingLines, ...], Meta(description="by interval")]
    each: Annotated[tuple[PayingLine, ...], Meta(description="every combination of the other axes; the first 1,000")]


class PayingStretch(Struct, frozen=True, kw_only=True):
    """A stretch of an axis's values, and in how many of its rows remote prefill pays."""

    low: float
    high: float
    rows: Annotated[Count, Meta(description="rows there that can be compared with a homogeneous cluster")]
    paying: Annotated[Count, Meta(description="of them, remote prefill pays")]


class PayingShares(Struct, frozen=True, kw_only=True):
    """How often remote prefill pays along a bandwidth or a price that no rows differ in alone, as in a sample."""

    axis: str
    measure: Literal["throughput", "cost"]
    stretches: Annotated[tuple[PayingStretch, ...], Meta(description="in order, with about as many rows each")]


class GbPrices(Struct, frozen=True, kw_only=True):
    """The price of a GB up to which remote prefill pays, over the rows that have one."""

    rows: Annotated[Count, Meta(description="priced rows with a link")]
    never: Annotated[Count, Meta(description="of them, remote prefill pays at no price")]
    least: float | None
    median: float | None
    most: float | None


class StudyReport(Struct, frozen=True, kw_only=True):
    """What a study's rows answer."""

    source: str
    study: Annotated[str | None, Meta(description="its name, where the file has it")]
    where: Annotated[dict[str, str], Meta(description="what the rows were limited to")]
    rows: Count
    planned: Annotated[Count, Meta(description="rows with a plan")]
    by_status: dict[str, int]
    repeated: Annotated[Count, Meta(description="rows with a plan whose inputs an earlier row has")]
    axes: tuple[AxisFound, ...]
    pareto: ParetoFront
    bottlenecks: Annotated[dict[str, int], Meta(description="rows by what limits them, most first")]
    changes: Annotated[tuple[AxisChanges, ...], Meta(description="along each numeric axis with neighbours")]
    effects: tuple[Effect, ...]
    break_even: tuple[BreakEven, ...]
    paying_shares: Annotated[tuple[PayingShares, ...], Meta(description="where there is no break_even")]
    gb_prices: GbPrices | None
    notes: Annotated[tuple[str, ...], Meta(description="what could not be answered, and why")]
