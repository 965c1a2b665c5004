"""The tables of a report in words, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.io.wording import counted
from prfaas_opt.study.report.measures import BREAK_EVEN, MEASURES
from prfaas_opt.study.report.words import Names, field_of, figure, listed_in_words, shown
from prfaas_opt.units import format_share

if TYPE_CHECKING:
    from prfaas_opt.study.report.answers import (
        AxisChanges,
        BreakEven,
        Change,
        Effect,
        Level,
        ParetoFront,
        PayingLines,
        PayingShares,
        PayingStretch,
        StudyReport,
    )

_TITLES = {each.name: (each.title, each.unit) for each in (*MEASURES.values(), BREAK_EVEN)}
_NOTHING = 1e-9
_PAYS = {
    "always": "all along",
    "never": "nowhere",
    "from": "from there on",
    "until": "up to there",
    "in between": "changes more than once",
}


class TextTable(Struct, frozen=True, kw_only=True):
    """A table of texts.

    Attributes:
        title: above it.
        headings: of its columns.
        left: so many columns from the left hold text; and so does the last if ``text_last``.
        rows: the cells.
        text_last: whether the last column is text.
        after: lines below it.
    """

    title: str
    headings: tuple[str, ...] = ()
    left: int = 1
    rows: tuple[tuple[str, ...], ...] = ()
    text_last: bool = False
    after: tuple[str, ...] = ()


def names_in(report: StudyReport) -> Names:
    """Short names of a report's axes."""
    return Names([axis.name for axis in report.axes], [axis.unit for axis in report.axes])


def headline(report: StudyReport) -> str:
    """What the report is of."""
    named = f"{report.study}: " if report.study else ""
    limits = ", ".join(f"{field} {value}" for field, value in report.where.items())
    of = f"rows with {limits}" if limits else "rows"
    if report.planned == report.rows:
        return f"{named}all {report.rows:,} {of} have a plan"
    others = ", ".join(f"{status} {n:,}" for status, n in report.by_status.items() if status in ("error", "infeasible"))
    told = f" ({others})" if others else ""
    return f"{named}{report.planned:,} of {report.rows:,} {of} have a plan; the others{told} are left out"


def axis_lines(report: StudyReport) -> list[str]:
    """A line for each axis."""
    lines = []
    for axis in report.axes:
        name = field_of(axis.name)
        values = counted(axis.count, "value")
        if axis.low is not None and axis.high is not None:
            values += f", {shown(axis.low)} to {shown(axis.high)} {axis.unit}".rstrip()
        with_it = f"; with it changes {', '.join(axis.together_with)}" if axis.together_with else ""
        lines.append(f"{name}: {values}{with_it}")
    return lines or ["No field differs between rows."]


def tables_of(report: StudyReport, most: int) -> Iterator[TextTable]:
    """The tables of a report.

    Args:
        report: of which.
        most: rows of a table; of more, the others are counted.
    """
    names = names_in(report)
    if report.pareto.count:
        yield _pareto_table(report.pareto, names, most)
    if report.bottlenecks:
        yield _bottleneck_table(report, most)
    for changes in report.changes:
        if changes.count:
            yield _changes_table(changes, names, most)
    fixed = [names.short(each.axis) for each in report.changes if not each.count]
    if fixed:
        yield TextTable(title="", after=(f"Nowhere does the bottleneck change along {listed_in_words(fixed)} alone.",))
    for measure in dict.fromkeys(effect.measure for effect in report.effects):
        yield _effects_table([each for each in report.effects if each.measure == measure], names, most)
    for each in report.break_even:
        yield _break_even_table(each, names, most)
    for shares in report.paying_shares:
        yield _shares_table(shares, names)
    for each in report.break_even:
        if any(line.refined_low is not None for line in each.each):
            yield _refined_table(each, names, most)
    lines = [line for each in report.break_even for line in each.each if line.low is not None]
    if lines and all(line.refined_low is None for line in lines):
        after = "Break-evens lie between two rows; where between them, --refine STUDY finds."
        yield TextTable(title="", after=(after,))
    if report.gb_prices:
        yield _gb_price_table(report)


def _more(count: int, most: int) -> tuple[str, ...]:
    return (f"and {count - most:,} more: --json, or -o FILE",) if count > most else ()


def _pareto_table(front: ParetoFront, names: Names, most: int) -> TextTable:
    titles = [_TITLES[name][0] for name in front.objectives]
    groups: dict[tuple[float, ...], list[int]] = {}
    for number, each in enumerate(front.rows):
        groups.setdefault(tuple(each.figures.values()), []).append(number)
    rows = []
    for figures, members in groups.items():
        first = front.rows[members[0]]
        fields = ", ".join(filter(None, [first.name, names.values(first.values)]))
        alike = f" (and {len(members) - 1:,} alike)" if len(members) > 1 else ""
        rows.append((str(first.row), fields + alike, *map(figure, figures)))
    # In two lines each, so that a terminal of 80 columns has room for the fields.
    short = {
        "throughput": "Serves\n(req/s)",
        "cost": "USD /\n1,000",
        "ttft": "TTFT\nP90 (s)",
        "egress": "Egress\n(Gbps)",
    }
    left_out = [f"{front.without_plan:,} without a plan"] if front.without_plan else []
    left_out += [f"{front.without_figure:,} without one of these figures"] if front.without_figure else []
    missing = f"; left out: {', '.join(left_out)}" if left_out else ""
    are = "is" if front.count == 1 else "are"
    kept = f"{front.count:,} of {front.compared:,} rows {are} beaten by none in {listed_in_words(titles)}"
    return TextTable(
        title="Pareto-optimal",
        headings=("Row", "Fields", *(short[name] for name in front.objectives)),
        left=2,
        rows=tuple(rows[:most]),
        after=(*_more(len(rows), most), f"{kept}{missing}."),
    )


def _bottleneck_table(report: StudyReport, most: int) -> TextTable:
    pairs = list(report.bottlenecks.items())
    rows = [(name, f"{count:,}", format_share(count / report.planned)) for name, count in pairs]
    return TextTable(
        title="What limits the plans",
        headings=("Bottlenecks", "Rows", "Share"),
        rows=tuple(rows[:most]),
        after=_more(len(rows), most),
    )


def _changes_table(changes: AxisChanges, names: Names, most: int) -> TextTable:
    # Of many, those that most lines have, in the order of the axis.
    kept = sorted(range(len(changes.changes)), key=lambda at: -changes.changes[at].lines)[:most]
    rows = [
        (_between(each), each.before, each.after, f"{each.lines:,}", names.limits(each.where))
        for each in (changes.changes[at] for at in sorted(kept))
    ]
    name = names.with_unit(changes.axis)
    lines = f"{counted(changes.lines, 'line')} of rows that differ in it alone, {changes.unchanged:,} without a change"
    return TextTable(
        title=f"Where the bottleneck changes along {name}",
        headings=("Between", "From", "To", "Lines", "Only for"),
        left=3,
        text_last=True,
        rows=tuple(rows),
        after=(*_more(changes.count, most), f"{lines}."),
    )


def _effects_table(effects: Sequence[Effect], names: Names, most: int) -> TextTable:
    title, unit = _TITLES[effects[0].measure]
    rows = []
    some: list[str] = []
    for effect in effects:
        if not effect.variance_share or effect.variance_share < _NOTHING:
            continue
        levels = _spread(effect.levels, max(most, 2))
        if len(levels) < effect.count:
            told = f"Shown: {len(levels)} of {effect.count:,} values of {names.short(effect.axis)}"
            all_of_them = (
                "shows all"
                if len(effect.levels) == effect.count
                else f"shows the {len(effect.levels)} that most rows have"
            )
            some.append(f"{told}; --top {len(effect.levels)} {all_of_them}.")
        for number, level in enumerate(levels):
            cells = map(figure, (level.mean, level.least, level.most))
            first = names.with_unit(effect.axis) if number == 0 else ""
            rows.append((first, _level(level, effect.by), f"{level.figures:,}", *cells))
    shares = [f"{names.short(each.axis)} {_variance(each)}" for each in effects]
    told = "Share of its variance that each explains alone: " + ", ".join(shares) + "."
    if not rows and all(each.variance_share is None for each in effects):
        same = next(level.mean for level in effects[0].levels if level.mean is not None)
        return TextTable(title=f"Main effects on {title} ({unit})", after=(f"None: it is {figure(same)} in all rows.",))
    return TextTable(
        title=f"Main effects on {title} ({unit})",
        headings=("Axis", "Value", "Rows", "Mean", "Least", "Most"),
        left=2,
        rows=tuple(rows),
        after=(*some, told),
    )


def _spread(levels: Sequence[Level], most: int) -> list[Level]:
    """Levels evenly apart, first and last among them."""
    if len(levels) <= most:
        return list(levels)
    return [levels[round(i * (len(levels) - 1) / (most - 1))] for i in range(most)]


def _level(level: Level, by: str) -> str:
    if by == "value" or level.low is None or level.low == level.high:
        return shown(level.value if level.low is None else level.low)
    return _between(level)


def _stretch(stretch: PayingStretch) -> str:
    return shown(stretch.low) if stretch.low == stretch.high else _between(stretch)


def _between(interval: Change | PayingLines | PayingStretch | Level) -> str:
    return f"{shown(interval.low)} to {shown(interval.high)}"


def _variance(effect: Effect) -> str:
    share, chance = effect.variance_share, effect.chance_share
    if share is None:
        return "nothing varies"
    doubtful = chance is not None and share <= 2 * chance and chance > 0.005
    if share < _NOTHING:
        return "nothing"
    return format_share(share) + (f" (chance alone: {format_share(chance)})" if doubtful and chance else "")


def _break_even_table(found: BreakEven, names: Names, most: int) -> TextTable:
    kept = sorted(range(len(found.alike)), key=lambda at: -found.alike[at].lines)[:most]
    rows = []
    for each in (found.alike[at] for at in sorted(kept)):
        between = _between(each) if each.low is not None else "-"
        rows.append((between, _PAYS[each.pays], f"{each.lines:,}", names.limits(each.where)))
    return TextTable(
        title=_where_it_pays(found, names),
        headings=("Between", "Pays", "Lines", "Only for"),
        left=2,
        text_last=True,
        rows=tuple(rows),
        after=_more(len(found.alike), most),
    )


def _where_it_pays(found: BreakEven | PayingShares, names: Names) -> str:
    what = "serves more" if found.measure == "throughput" else "costs less a request"
    return f"Where remote prefill pays along {names.with_unit(found.axis)}: {what} than the homogeneous cluster"


def _shares_table(found: PayingShares, names: Names) -> TextTable:
    rows = [(_stretch(each), f"{each.rows:,}", format_share(each.paying / each.rows)) for each in found.stretches]
    return TextTable(title=_where_it_pays(found, names), headings=("Value", "Rows", "Pays in"), rows=tuple(rows))


def _refined_table(found: BreakEven, names: Names, most: int) -> TextTable:
    lines = [line for line in found.each if line.refined_low is not None]
    rows = [
        (f"{figure(line.refined_low)} to {figure(line.refined_high)}", _PAYS[line.pays], names.values(line.values))
        for line in lines[:most]
    ]
    what = "throughput" if found.measure == "throughput" else "cost"
    return TextTable(
        title=f"Break-evens along {names.with_unit(found.axis)} by {what}, planned between the rows",
        headings=("Between", "Pays", "Fields"),
        left=2,
        text_last=True,
        rows=tuple(rows),
        after=_more(len(lines), most),
    )


def _gb_price_table(report: StudyReport) -> TextTable:
    prices = report.gb_prices
    assert prices is not None
    never = f"; in {prices.never:,} of {prices.rows:,} rows it pays at no price" if prices.never else ""
    if prices.least is None:
        text = f"Remote prefill pays at no price of a GB, in {prices.rows:,} rows."
    elif prices.least == prices.most:
        text = f"Remote prefill pays up to {figure(prices.least)} USD per GB sent{never}."
    else:
        least, median, most = map(figure, (prices.least, prices.median, prices.most))
        text = f"Remote prefill pays up to {least} to {most} USD per GB sent, median {median}{never}."
    return TextTable(title="Price of a GB", after=(text,))
