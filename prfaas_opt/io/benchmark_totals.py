"""Runs of tools that write totals: of tokens, of time, and how requests were sent (vLLM, SGLang)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt.io.benchmark_file import NOT_NEGATIVE_COUNT
from prfaas_opt.io.benchmark_runs import Run
from prfaas_opt.io.scalars import COUNT

if TYPE_CHECKING:
    from prfaas_opt.io.benchmark_file import Fields


@dataclass(frozen=True)
class Times:
    """Times of the requests of a run, in seconds, as ``Run`` has them; None where the file does not tell."""

    ttft_s: float | None
    ttft_mean_s: float | None
    step_s: float | None
    latency_s: float | None


def run_by_totals(record: Fields, requests: float | None, times: Times) -> Run | None:
    """The run of a record, without what only its tool tells; None where anything it needs is wrong, which is noted.

    Args:
        record: states totals of tokens, a duration, a rate, and a limit of concurrency where there is one.
        requests: those that completed, one or more.
        times: of the requests. Without the time of a whole request it follows from those of its tokens.
    """
    prompt = record.number("total_input_tokens")
    output = record.number("total_output_tokens", kind=NOT_NEGATIVE_COUNT)
    duration = record.number("duration")
    limit = record.optional("max_concurrency", COUNT)
    unlimited = record.value("request_rate") in ("inf", math.inf)
    rate = None if unlimited else record.number("request_rate")
    if prompt is None or output is None or duration is None or not requests or times.ttft_s is None:
        return None
    if rate is None and not unlimited:
        return None
    latency_s = times.latency_s
    if latency_s is None and times.step_s is not None:
        latency_s = (times.ttft_mean_s or times.ttft_s) + times.step_s * max(output / requests - 1, 0)
    return Run(
        record,
        requests,
        prompt / requests,
        output / requests,
        times.ttft_s,
        times.ttft_mean_s,
        times.step_s,
        latency_s,
        int(limit) if limit else None,
        rate=f"{rate:g} req/s" if rate else "",
        in_flight=latency_s * requests / duration if latency_s else None,
    )
