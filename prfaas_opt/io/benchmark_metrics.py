"""Summaries of AIPerf and of GenAI-Perf: a mapping of metrics, each with its unit and statistics, in JSON or CSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt.io.benchmark_file import NOT_NEGATIVE_COUNT, Fields
from prfaas_opt.io.benchmark_runs import Run
from prfaas_opt.io.scalars import COUNT, NOT_NEGATIVE, POSITIVE, Number
from prfaas_opt.io.wording import shown

if TYPE_CHECKING:
    from prfaas_opt.io.spec import Kind

_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
IN_CSV = {
    "time_to_first_token": "time to first token",
    "inter_token_latency": "inter token latency",
    "request_latency": "request latency",
    "input_sequence_length": "input sequence length",
    "output_sequence_length": "output sequence length",
    "request_throughput": "request throughput",
    "request_count": "request count",
    "effective_concurrency": "effective concurrency",
    "error_rate": "request error rate",
    "error_request_count": "error request count",
}
"""Names of metrics in JSON, and how the headings of their rows begin in CSV."""


@dataclass(frozen=True)
class Sending:
    """How requests were sent: the limit of concurrency, a rate in words, and whether the file tells at all."""

    concurrency: int | None
    rate: str = ""
    known: bool = True


class Metrics:
    """The metrics of a record."""

    def __init__(self, record: Fields) -> None:
        self.record = record
        self._in_csv = {}
        for heading in record.mapping:
            label, _, unit = heading.partition(" (")
            self._in_csv[label.casefold()] = (heading, unit.removesuffix(")"))

    def _find(self, name: str) -> tuple[Fields, str] | None:
        """The statistics of a metric and its unit."""
        if isinstance(self.record.value(name), dict):
            metric = self.record.inside(name)
            return metric, str(metric.value("unit"))
        if IN_CSV[name] in self._in_csv:
            heading, unit = self._in_csv[IN_CSV[name]]
            return self.record.inside(heading), unit
        return None

    def has(self, name: str) -> bool:
        """Whether there is such a metric."""
        return self._find(name) is not None

    def number(self, name: str, *statistics: str, kind: Kind = POSITIVE) -> float | None:
        """A statistic of a metric that must be there: the first that is stated; "Value" stands for "avg"."""
        found = self._find(name)
        if found is None:
            self.record.refuse(
                name, "missing-key", f"is missing, expected {kind.expected}", "take the file as the tool wrote it"
            )
            return None
        fields, _ = found
        return fields.number(*statistics, *(["Value"] if "avg" in statistics else []), kind=kind)

    def seconds(self, name: str, *statistics: str, least: float = 0.0) -> float | None:
        """A time, in the unit that the file gives it in; zero only where ``least`` is below it."""
        found = self._find(name)
        unit = found[1] if found else "ms"
        if unit not in _SECONDS:
            message = f"is in {shown(unit)}, expected one of {', '.join(_SECONDS)}"
            self.record.refuse(name, "bad-unit", message, "name the file as the tool wrote it")
            return None
        return self.number(
            name, *statistics, kind=Number(f"a positive number, {unit}", above=least, factor=_SECONDS[unit])
        )


def run_of(metrics: Metrics, sending: Sending) -> Run | None:
    """The run that a summary is of; None where its figures are wrong."""
    errors = metrics.has("error_request_count") and metrics.number("error_request_count", "avg", kind=NOT_NEGATIVE)
    rate = metrics.has("error_rate") and metrics.number("error_rate", "avg", kind=NOT_NEGATIVE)
    if errors or rate:
        found = f"{errors:.0f} requests" if errors else f"{rate:g} % of the requests"
        message = f"{found} failed, expected none"
        metrics.record.refuse("", "failed-requests", message, "see why they failed, and run it again")
        return None
    requests = metrics.number("request_count", "avg", kind=NOT_NEGATIVE_COUNT)
    if requests == 0:
        metrics.record.refuse("", "empty-run", "no request completed, expected one at least", "run it again")
    if not requests:
        return None
    length = metrics.number("input_sequence_length", "avg")
    output = metrics.number("output_sequence_length", "avg") if metrics.has("output_sequence_length") else 1.0
    ttft = metrics.seconds("time_to_first_token", "p50", "avg")
    ttft_mean = metrics.seconds("time_to_first_token", "avg")
    step = (
        metrics.seconds("inter_token_latency", "p50", "avg", least=-1e-9)
        if metrics.has("inter_token_latency")
        else None
    )
    latency = metrics.seconds("request_latency", "avg")
    per_s = metrics.number("request_throughput", "avg") if metrics.has("request_throughput") else None
    ends = [metrics.number("input_sequence_length", end) for end in ("min", "max")]
    if length is None or output is None or ttft is None or latency is None or ends[0] is None or ends[1] is None:
        return None
    return Run(
        metrics.record,
        requests,
        length,
        output,
        ttft,
        ttft_mean,
        step,
        latency,
        sending.concurrency,
        sending.known,
        sending.rate,
        latency * per_s if per_s else None,
        (ends[1] - ends[0]) / length,
    )


def sending_of(load: Fields, rate: str = "request_rate") -> Sending:
    """How requests were sent, from a mapping that states ``concurrency`` or a rate or both."""
    limit = load.optional("concurrency", COUNT)
    per_s = load.optional(rate)
    return Sending(int(limit) if limit else None, f"{per_s:g} req/s" if per_s else "", bool(limit or per_s))
