"""``vllm bench serve --save-result``: a JSON object a run, or several in a file; prompt lengths by their mean."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from prfaas_opt.io.benchmark_file import NOT_NEGATIVE_COUNT, BenchmarkFile, Fields
from prfaas_opt.io.benchmark_runs import MILLISECONDS, MILLISECONDS_OR_ZERO, Findings, Run, is_whole, take_run
from prfaas_opt.io.benchmark_totals import Times, run_by_totals
from prfaas_opt.io.benchmarks import BenchmarkFormat
from prfaas_opt.io.scalars import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence


_NOISE_SHARE = 0.3
"""Standard deviation of TTFT over its mean that prompts of one length rarely reach."""


def _matches(file: BenchmarkFile) -> bool:
    of_tool = {"model_id", "num_prompts", "request_rate", "completed"} <= file.keys
    return file.kind == "json" and of_tool and any(key.endswith("_ttft_ms") for key in file.keys)


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for record in file.records:
        findings.model(record.value("model_id"), record.place("model_id"))
        run = _run(record)
        if run is not None:
            take_run(run, findings)


def _run(record: Fields) -> Run | None:
    if not _all_completed(record):
        return None
    times = Times(
        record.number("median_ttft_ms", "p50_ttft_ms", "mean_ttft_ms", kind=MILLISECONDS),
        record.optional("mean_ttft_ms", MILLISECONDS),
        _optional(record, ("median_tpot_ms", "p50_tpot_ms", "mean_tpot_ms")),
        _latency(record),
    )
    run = run_by_totals(record, record.number("completed", kind=COUNT), times)
    lengths = record.numbers("input_lens") if record.states("input_lens") else None
    accepted_tokens = record.optional("spec_decode_acceptance_length")
    if run is None:
        return None
    spread_share = _spread(lengths) if lengths else _spread_of_times(record, run.input_tokens)
    return dataclasses.replace(run, spread_share=spread_share, accepted_tokens=accepted_tokens)


def _latency(record: Fields) -> float | None:
    """Mean time of a request: it is in the summary only where that was asked for."""
    times = record.numbers("latencies") if record.value("latencies") else None
    return record.optional("mean_e2el_ms", MILLISECONDS) or (sum(times) / len(times) if times else None)


def _all_completed(record: Fields) -> bool:
    completed = record.number("completed", kind=NOT_NEGATIVE_COUNT)
    failed = record.optional("failed", NOT_NEGATIVE_COUNT)
    asked = record.number("num_prompts", kind=COUNT)
    if completed is None or asked is None:
        return False
    if completed == 0:
        record.refuse("completed", "empty-run", "found 0, expected at least one request", "run it again")
        return False
    if failed or completed < asked:
        message = f"found {completed:.0f} of {asked:.0f} requests, expected all: the others failed"
        record.refuse("completed", "failed-requests", message, "see why they failed, and run it again")
        return False
    return True


def _optional(record: Fields, names: Sequence[str]) -> float | None:
    stated = [name for name in names if record.states(name)]
    return record.number(*stated, kind=MILLISECONDS_OR_ZERO) if stated else None


def _spread(lengths: Sequence[float]) -> float:
    mean = sum(lengths) / len(lengths)
    return (max(lengths) - min(lengths)) / mean


def _spread_of_times(record: Fields, mean_tokens: float) -> float | None:
    """Of prompts that are known to differ in length by their mean alone, how much: about as much as TTFT does."""
    deviation, mean = (
        record.optional("std_ttft_ms", MILLISECONDS_OR_ZERO),
        record.optional("mean_ttft_ms", MILLISECONDS),
    )
    if is_whole(mean_tokens) or not deviation or not mean or deviation / mean < _NOISE_SHARE:
        return None
    return deviation / mean


FORMAT = BenchmarkFormat("vLLM bench serve", _matches, _read)
