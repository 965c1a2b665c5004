"""Workload files: ``workloads/*.yaml`` and the same mapping inside a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from prfaas_opt.io.scalars import POSITIVE, TOKENS, Number, Text
from prfaas_opt.io.spec import INVALID, Context, Either, Field, ListOf, Record, Tagged, read_whole, same_length
from prfaas_opt.workload import distribution
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution
from prfaas_opt.workload.workload import Workload

if TYPE_CHECKING:
    from prfaas_opt.io.document import Document, FieldPath

_LEAST_PROBABILITY = 1e-9
_MU_HINT = "mu is the mean of ln(tokens): 9.9 means about 20,000 tokens"


def _check_range(context: Context, path: FieldPath, values: dict[str, Any]) -> bool:
    if values["low"] < values["high"]:
        return True
    fix = "swap the two"
    if values["low"] == values["high"]:
        fix = f"for a single length write {{distribution: constant, value: {values['low']}}}"
    message = f"found {values['high']:,}, expected more than low, {values['low']:,}"
    context.add((*path, "high"), "out-of-range", message, fix)
    return False


def _lognormal(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    if not _check_range(context, path, values):
        return INVALID
    part = TruncatedLognormal(values["mu"], values["sigma"], float(values["low"]), float(values["high"]))
    if part.probability_of_range < _LEAST_PROBABILITY:
        return context.add(
            path,
            "empty-range",
            f"the log-normal puts {part.probability_of_range:.1g} of its probability on {values['low']:,} to "
            f"{values['high']:,} tokens, expected at least {_LEAST_PROBABILITY:g}",
            _MU_HINT,
        )
    return LengthDistribution(((1.0, part),))


def _uniform(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    if not _check_range(context, path, values):
        return INVALID
    return LengthDistribution(((1.0, Uniform(float(values["low"]), float(values["high"]))),))


def _constant(_context: Context, _path: FieldPath, values: dict[str, Any]) -> LengthDistribution:
    return distribution.constant(float(values["value"]))


def _table(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    if not same_length(context, path, [("lengths", values["lengths"]), ("weights", values["weights"])]):
        return INVALID
    if sum(values["weights"]) <= 0:
        return context.add(
            (*path, "weights"), "out-of-range", "all are zero, expected a positive sum", "give one a weight"
        )
    points = zip(values["lengths"], values["weights"], strict=True)
    return distribution.table((float(length), weight) for length, weight in points)


class _MixturePart:
    """A distribution with the weight it has in a mixture; it may be a mixture itself."""

    expected = "a mapping with weight and distribution"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A pair of weight and distribution."""
        return _PART.read(context, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of a part; its distribution is any but a mixture, to keep the schema finite."""
        simple = {word: record for word, record in _PART.by_word.items() if word != "mixture"}
        return Tagged("distribution", simple).schema()


def _mixture(_context: Context, _path: FieldPath, values: dict[str, Any]) -> LengthDistribution:
    return distribution.mixture(values["parts"])


def _weighted(record: Record) -> Record:
    """A distribution's record with the weight it has as part of a mixture."""

    def build(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        weight = values.pop("weight")
        part = record.build(context, path, values)
        return INVALID if part is INVALID else (weight, part)

    weight = Field(POSITIVE, "share of requests, relative to the other parts'")
    return structs.replace(record, fields={"weight": weight, **record.fields}, build=build)


_LOW = Field(TOKENS, "shortest length, tokens")
_HIGH = Field(TOKENS, "longest length, tokens")

LENGTHS = Tagged(
    "distribution",
    {
        "truncated-lognormal": Record(
            {
                "mu": Field(
                    Number("a number from 0 to 20", minimum=0, maximum=20, hint=_MU_HINT), "mean of ln(tokens)"
                ),
                "sigma": Field(
                    Number("a number from 0.01 to 5", minimum=0.01, maximum=5),
                    "standard deviation of ln(tokens)",
                ),
                "low": _LOW,
                "high": _HIGH,
            },
            _lognormal,
        ),
        "uniform": Record({"low": _LOW, "high": _HIGH}, _uniform),
        "constant": Record({"value": Field(TOKENS, "the one length, tokens")}, _constant),
        "table": Record(
            {
                "lengths": Field(ListOf(TOKENS, ascending=True), "lengths, ascending, tokens"),
                "weights": Field(
                    ListOf(Number("a weight, 0 or more", minimum=0), least=0),
                    "weight of each length; any positive sum",
                ),
            },
            _table,
        ),
        "mixture": Record({"parts": Field(ListOf(_MixturePart()), "distributions, each with its weight")}, _mixture),
    },
)


_PART = Tagged("distribution", {word: _weighted(record) for word, record in LENGTHS.by_word.items()})


class _ConstantLength:
    """A plain length: every request has it."""

    expected = TOKENS.expected
    quantity = TOKENS

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A constant distribution."""
        length = TOKENS.read(context, value, path)
        return INVALID if length is INVALID else distribution.constant(float(length))

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return TOKENS.schema()


_LENGTHS = Either(_ConstantLength(), LENGTHS)


_CACHED = Number("a share from 0 to 0.99", minimum=0, maximum=0.99)


def _workload(_context: Context, _path: FieldPath, values: dict[str, Any]) -> Workload:
    return Workload(**values)


WORKLOAD = Record(
    {
        "name": Field(Text(), "name of the workload", "inline workload"),
        "description": Field(Text(), "one line for people", ""),
        "source": Field(Text(), "where the figures come from", ""),
        "input_tokens": Field(_LENGTHS, "uncached prompt length: a number or a distribution"),
        "output_tokens": Field(_LENGTHS, "generated length: a number or a distribution"),
        "cached_share": Field(_CACHED, "share of every whole prompt found in a prefix cache, beside input_tokens", 0.0),
    },
    _workload,
)


def read_workload(document: Document) -> Workload:
    """The workload of a document.

    Raises:
        InputError: all that is wrong with it.
    """
    context = Context(document)
    workload = read_whole(context, WORKLOAD, "workload")
    context.raise_problems()
    assert isinstance(workload, Workload)
    return workload
