"""The form in which a profile states prefill of prompts with a cached prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.io.curve_fields import Build, Points
from prfaas_opt.io.scalars import TOKENS, Choice, Number, Quantity
from prfaas_opt.io.spec import INVALID, Context, Field, ListOf, Record, Variants, same_length
from prfaas_opt.io.wording import counted
from prfaas_opt.profiles.cached import CachedPrefill
from prfaas_opt.profiles.curve import INTERPOLATIONS, Curve

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath


class CachedTables(Struct, frozen=True):
    """Latency of prompts with a cached prefix, and beside it the time that one takes an instance; None: not stated."""

    latency: CachedPrefill
    occupancy: CachedPrefill | None


_CACHED = Quantity(
    'a whole number of tokens, 1 to 16M, as "8K" or 8192 (prefill states what holds with none cached)',
    TOKENS.parse,
    TOKENS.minimum,
    TOKENS.maximum,
)


def _tables(unit: str) -> Build:
    """Builds the curves of a table, one for each cached length."""
    columns = (f"latency_{unit}", f"occupancy_{unit}")

    def build(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        latency, occupancy = (values[name] and _table(context, path, values, name) for name in columns)
        if latency is INVALID or occupancy is INVALID:
            return INVALID
        if occupancy is not None and not _within(context, (*path, columns[1]), occupancy, latency):
            return INVALID
        return CachedTables(latency, occupancy)

    return build


def _table(context: Context, path: FieldPath, values: dict[str, Any], name: str) -> Any:
    cached, uncached, rows = values["cached_tokens"], values["uncached_tokens"], values[name]
    if not same_length(context, path, [("cached_tokens", cached), (name, rows)]):
        return INVALID
    curves = [
        _row(context, (*path, name), i, Points(i, uncached, row, values["interpolation"], None))
        for i, row in enumerate(rows)
    ]
    return INVALID if any(curve is INVALID for curve in curves) else CachedPrefill(tuple(cached), tuple(curves))


def _row(context: Context, path: FieldPath, i: int, points: Points) -> Any:
    if len(points.values) == len(points.lengths):
        return points.curve(context, path, "latency")
    found, expected = counted(len(points.values), "value"), len(points.lengths)
    message = f"found {found}, expected {expected}, one for each of uncached_tokens"
    fix = "give every uncached length a value at every cached length"
    return context.add((*path, i), "length-mismatch", message, fix)


def _within(context: Context, path: FieldPath, occupancy: CachedPrefill, latency: CachedPrefill) -> bool:
    """Whether a prompt takes an instance no longer than it waits, at every measured point; notes the first of a row."""
    good = True
    for i, (occupied, waited) in enumerate(zip(occupancy.rows_s, latency.rows_s, strict=True)):
        for j, length in enumerate(latency.uncached_tokens):
            if occupied(length) > waited(length) * (1 + 1e-9):
                message = (
                    f"a prompt of {length:,.0f} uncached tokens takes an instance {occupied(length):.4g} s, expected "
                    f"at most its latency, {waited(length):.4g} s"
                )
                fix = "check both; a prompt that has the instance for itself takes it for its latency"
                context.add((*path, i, j), "implausible", message, fix)
                good = False
                break
    return good


def check_both_occupied(context: Context, here: FieldPath, stated: Curve | None, tables: CachedTables) -> None:
    """Notes an occupancy that is stated for whole prompts or for those with a cached prefix, and not for both."""
    if stated is not None and tables.occupancy is None:
        message = "states no occupancy, expected one, since prefill does"
        context.add((*here, "prefill_cached"), "missing-key", message, "add occupancy_s, a list for each cached length")
    elif stated is None and tables.occupancy is not None:
        message = "states no occupancy, expected one, since prefill_cached does"
        context.add((*here, "prefill"), "missing-key", message, "add it here, or leave it out there")


PREFILL_CACHED = Variants(
    {
        f"latency_{unit}": Record(
            {
                "cached_tokens": Field(
                    ListOf(_CACHED, ascending=True), "tokens of the prompt that a prefix cache holds, ascending"
                ),
                "uncached_tokens": Field(
                    ListOf(TOKENS, least=2, ascending=True), "tokens behind them that are prefilled, ascending"
                ),
                f"latency_{unit}": Field(
                    ListOf(ListOf(Number("a positive number", above=0, factor=factor))),
                    "prefill latency: for each of cached_tokens a list, with one value for each of uncached_tokens",
                ),
                f"occupancy_{unit}": Field(
                    ListOf(ListOf(Number("a positive number", above=0, factor=factor))),
                    "time a prompt takes an instance, likewise; stated where prefill states one",
                    None,
                ),
                "interpolation": Field(
                    Choice(tuple(INTERPOLATIONS)), "how points of one cached length are joined", "log-log"
                ),
            },
            _tables(unit),
        )
        for unit, factor in units.TIME_SUFFIXES.items()
    }
)
