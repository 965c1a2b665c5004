"""The forms in which a profile states its decode step and the memory of an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.io.curve_fields import LENGTH_RANGE, Build, Range, check_plausible
from prfaas_opt.io.scalars import COUNT, NOT_NEGATIVE, TOKENS, Number
from prfaas_opt.io.spec import INVALID, Context, Field, ListOf, OneOrMore, Record, Variants, same_length
from prfaas_opt.io.wording import counted
from prfaas_opt.profiles.decode import DecodeProfile
from prfaas_opt.profiles.memory import InstanceMemory

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath


class _Steps(Struct, frozen=True):
    """Times of a step: one, one for each batch, or, where contexts are given, for each batch a list of one each."""

    number: Number
    expected = "a positive number, or a list of such, with context_tokens a list of them for each batch"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A tuple of times, or of such tuples."""
        times = ListOf(self.number)
        rows = isinstance(value, list) and any(isinstance(item, list) for item in value)
        return (ListOf(times) if rows else OneOrMore(times)).read(context, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        times = ListOf(self.number)
        return {"anyOf": [*OneOrMore(times).schema()["anyOf"], ListOf(times).schema()]}


def _decode_table(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    column = next(name for name in ("step_s", "step_ms") if name in values)
    batches, steps, contexts = values["batch"], values[column], values["context_tokens"]
    if not same_length(context, path, [("batch", batches), (column, steps)]):
        return INVALID
    by_context = isinstance(steps[0], tuple)
    if by_context and contexts is None:
        message = "found a list for each batch, expected a time for each, since context_tokens is not given"
        fix = "add context_tokens: the context of each time in a list"
        return context.add((*path, column), "wrong-type", message, fix)
    if contexts and not by_context:
        message = "found a time for each batch, expected a list for each, with one time for each of context_tokens"
        fix = "write a list for each batch: [[..., ...], [..., ...]], or leave context_tokens out"
        return context.add((*path, column), "wrong-type", message, fix)
    rows = steps if by_context else tuple((step,) for step in steps)
    for i, row in enumerate(rows):
        if contexts and len(row) != len(contexts):
            message = f"found {counted(len(row), 'value')}, expected {len(contexts)}, one for each of context_tokens"
            fix = "give every context a time at every batch"
            return context.add((*path, column, i), "length-mismatch", message, fix)
    if not all(check_plausible(context, (*path, column), "decode step", step) for row in rows for step in row):
        return INVALID
    if by_context:
        return DecodeProfile.by_context(batches, contexts, rows, values["accepted_tokens"])
    return DecodeProfile(batches, steps, values["accepted_tokens"])


def _decode_fitted(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    batches, contexts = values["batch_range"], values["context_range_tokens"]
    decode = DecodeProfile.fitted(values["fitted"], batches, contexts, values["accepted_tokens"])
    corners = (step for column in decode.columns_s for step in column)
    good = all(check_plausible(context, (*path, "fitted"), "decode step", step) for step in corners)
    return decode if good else INVALID


_BATCH_RANGE = Range(COUNT, "two batches, the smaller first, as [1, 256]", "batches: [smallest, largest]")
_ACCEPTED = Field(
    Number("a number, 1 to 100", minimum=1, maximum=100, hint="leave it out where a step gives one token"),
    "tokens a request gains in a step, on average: more than 1 with multi-token prediction",
    1.0,
)

DECODE = Variants(
    {
        **{
            f"step_{suffix}": Record(
                {
                    "batch": Field(
                        OneOrMore(ListOf(COUNT, ascending=True)),
                        "requests decoded together: one number, or an ascending list",
                    ),
                    "context_tokens": Field(
                        ListOf(TOKENS, least=2, ascending=True),
                        "mean contexts of the requests in a batch, where the step was measured at several",
                        None,
                    ),
                    f"step_{suffix}": Field(
                        _Steps(Number("a positive number", above=0, factor=units.TIME_SUFFIXES[suffix])),
                        "time of one decode step at each batch",
                    ),
                    "accepted_tokens": _ACCEPTED,
                },
                _decode_table,
            )
            for suffix in ("s", "ms")
        },
        "fitted": Record(
            {
                "fitted": Field(
                    Record(
                        {
                            "base_s": Field(NOT_NEGATIVE, "time of a step whatever the batch, s"),
                            "per_request_s": Field(NOT_NEGATIVE, "time that each request adds, s"),
                            "per_context_token_s": Field(
                                NOT_NEGATIVE, "time that each token of a request's context adds, s"
                            ),
                        },
                        lambda _context, _path, values: tuple(values.values()),
                    ),
                    "step = base + batch * (per request + per context token * context)",
                ),
                "batch_range": Field(_BATCH_RANGE, "batches the formula holds for: [smallest, largest]"),
                "context_range_tokens": Field(LENGTH_RANGE, "contexts the formula holds for: [shortest, longest]"),
                "accepted_tokens": _ACCEPTED,
            },
            _decode_fitted,
        ),
    }
)


def _memory(unit: str) -> Build:
    def build(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        usable, weights = values[f"usable_{unit}"], values[f"weights_{unit}"]
        if not check_plausible(context, (*path, f"usable_{unit}"), "memory", usable):
            return INVALID
        if weights < usable:
            return InstanceMemory(usable, weights)
        scale = units.SIZE_SUFFIXES[unit]
        message = f"found {weights / scale:g}, expected less than usable_{unit}, {usable / scale:g}"
        fix = "check both: they are of one instance, all its GPUs together"
        return context.add((*path, f"weights_{unit}"), "out-of-range", message, fix)

    return build


MEMORY = Variants(
    {
        f"usable_{unit}": Record(
            {
                f"usable_{unit}": Field(
                    Number("a positive number", above=0, factor=factor),
                    "memory of an instance, all its GPUs together, that weights and KVCache may take",
                ),
                f"weights_{unit}": Field(
                    Number("a positive number", above=0, factor=factor), "what the weights take of it"
                ),
            },
            _memory(unit),
        )
        for unit, factor in units.SIZE_SUFFIXES.items()
    }
)
