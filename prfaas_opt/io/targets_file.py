"""Target files: published aggregates that a latency curve is calibrated to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_opt.errors import InputError
from prfaas_opt.fitting.quadratic import tell_apart
from prfaas_opt.fitting.targets import Target, target_row
from prfaas_opt.io.curve_fields import LENGTH_RANGE
from prfaas_opt.io.loading import load_workload
from prfaas_opt.io.printed import PrintedNumber
from prfaas_opt.io.scalars import COUNT, TOKENS, Choice, Number, Text
from prfaas_opt.io.spec import INVALID, Context, Either, Field, ListOf, Record, Tagged, wrong
from prfaas_opt.io.wording import counted
from prfaas_opt.io.workload_file import WORKLOAD
from prfaas_opt.io.yaml_file import read_document
from prfaas_opt.workload.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prfaas_opt.io.document import FieldPath

_LEAST_TARGETS = 3
_ESTIMATORS = ("mean-length", "expected-time")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    expected: str = "true or false"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """Whether it is set."""
        return value if isinstance(value, bool) else wrong(self, context, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "boolean"}


_HELD_OUT = Field(Flag(), "compare it with the fit, do not use it", False)
_CLASS = {
    "above": Field(TOKENS, "it is about requests longer than this, tokens", 0.0),
    "up_to": Field(TOKENS, "it is about requests of at most this length, tokens", float("inf")),
}
_TTFT = Field(PrintedNumber("a positive time in s, as published"), "time to first token without queueing, s")
_PERCENTILE = Number("a percentile, above 0 and below 100", above=0, maximum=99.999, factor=0.01)

TARGET = Tagged(
    "kind",
    {
        "throughput": Record(
            {
                "rps": Field(PrintedNumber("a positive rate in requests/s, as published"), "requests/s of this class"),
                "instances": Field(COUNT, "instances that prefill them"),
                **_CLASS,
                "estimator": Field(Choice(_ESTIMATORS), "how service times were averaged; default: the file's", None),
                "held_out": _HELD_OUT,
            }
        ),
        "ttft-mean": Record({"ttft_s": _TTFT, **_CLASS, "held_out": _HELD_OUT}),
        "ttft-percentile": Record(
            {"ttft_s": _TTFT, "percentile": Field(_PERCENTILE, "which one: 90"), **_CLASS, "held_out": _HELD_OUT}
        ),
        "latency": Record(
            {
                "latency_s": Field(PrintedNumber("a positive time in s, as published"), "latency of one prompt, s"),
                "length": Field(TOKENS, "its length, tokens"),
                "held_out": _HELD_OUT,
            }
        ),
    },
)
_VALUES = {"throughput": "rps", "latency": "latency_s", "ttft-mean": "ttft_s", "ttft-percentile": "ttft_s"}


class _KeepKind:
    """A target with the word that says its kind."""

    expected = TARGET.expected

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The fields, and ``kind``."""
        fields = TARGET.read(context, value, path)
        return INVALID if fields is INVALID else fields | {"kind": value["kind"]}

    def schema(self) -> dict[str, Any]:
        """JSON Schema of a target."""
        return TARGET.schema()


TARGETS = Record(
    {
        "workload": Field(Either(Text(), WORKLOAD), "lengths of the requests: a name, a path, or the mapping"),
        "estimator": Field(Choice(_ESTIMATORS), "how the throughputs' service times were averaged", "mean-length"),
        "range_tokens": Field(LENGTH_RANGE, "range of the curve: [shortest, longest]; default: the workload's", None),
        "targets": Field(ListOf(_KeepKind()), "published figures"),
    },
    keep_invalid=True,
)


@dataclass(frozen=True)
class TargetsFile:
    """What a target file says; ``rows[i]`` times the coefficients is the service time of ``targets[i]``."""

    workload: Workload
    range_tokens: tuple[int, int]
    targets: tuple[Target, ...]
    rows: NDArray[np.float64]


def read_targets(path: Path) -> TargetsFile:
    """Reads a target file and the workload that it names.

    Raises:
        InputError: all that is wrong with it.
    """
    context = Context(read_document(path, "targets"))
    if context.document.data is None:
        context.add((), "empty-file", "is empty, expected targets", "fill it in, or name another file")
        context.raise_problems()
    values = TARGETS.read(context, context.document.data, ())
    if values is INVALID:
        context.raise_problems()
    workload = _workload(context, values["workload"])
    if values["targets"] is INVALID or values["estimator"] is INVALID or workload is None:
        context.raise_problems()
        raise AssertionError("what is invalid has a problem")
    targets = [_target(each, values["estimator"]) for each in values["targets"]]
    good = [_occurs(context, ("targets", i), target, workload) for i, target in enumerate(targets)]
    if not all(good):
        context.raise_problems()
    rows = np.array([target_row(target, workload.input_tokens) for target in targets])
    _check_determined(context, targets, rows)
    context.raise_problems()
    lengths = workload.input_tokens
    ends = values["range_tokens"] or (max(1, int(lengths.low)), int(np.ceil(lengths.high)))
    if ends[0] >= ends[1]:
        message = f"the workload has the one length {ends[0]:,}, so that no range follows from it"
        context.add(("range_tokens",), "missing-key", message, "add range_tokens: [shortest, longest]")
    context.raise_problems()
    return TargetsFile(workload, (int(ends[0]), int(ends[1])), tuple(targets), rows)


def _workload(context: Context, value: Any) -> Workload | None:
    if isinstance(value, Workload):
        return value
    if value is INVALID:
        return None
    try:
        return load_workload(value, context.document.where(("workload",)), context.document.folder)
    except InputError as error:
        context.problems += error.problems
        return None


def _target(fields: dict[str, Any], estimator: str) -> Target:
    kind = fields["kind"]
    value, half_width = fields[_VALUES[kind]]
    return Target(
        kind,
        value,
        half_width,
        fields["held_out"],
        float(fields.get("instances", 1)),
        fields.get("estimator") or estimator,  # type: ignore[arg-type]  # one of the words
        fields.get("percentile", 0.5),
        float(fields.get("length", 0.0)),
        float(fields.get("above", 0.0)),
        float(fields.get("up_to", np.inf)),
    )


def _occurs(context: Context, path: FieldPath, target: Target, workload: Workload) -> bool:
    """Notes a target about requests that do not occur."""
    lengths, low, high = workload.input_tokens, target.above_tokens, target.up_to_tokens
    if target.kind == "latency" or (low < high and lengths.moment(0.0, low, high) > 0):
        return True
    ends = f"{lengths.low:,.0f} to {lengths.high:,.0f}"
    message = f"no request is of these lengths, expected some of {ends} tokens"
    context.add(path, "empty-range", message, "check above and up_to")
    return False


def _check_determined(context: Context, targets: list[Target], rows: NDArray[np.float64]) -> None:
    used = [i for i, target in enumerate(targets) if not target.held_out]
    if len(used) < _LEAST_TARGETS:
        found = f"found {counted(len(used), 'target')} to fit to"
        message = f"{found}, expected {_LEAST_TARGETS} or more: the curve has three coefficients"
        context.add(("targets",), "too-short", message, "add published figures, or hold fewer out")
    elif not tell_apart(rows[used]):
        message = "the targets state the same thing more than once and do not tell three coefficients apart"
        context.add(("targets",), "not-determined", message, "add figures about other lengths or percentiles")
