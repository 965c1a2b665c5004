"""SGLang ``bench_serving --output-file``: JSONL, a run a line."""

from __future__ import annotations

import dataclasses

from prfaas_opt.io.benchmark_file import NOT_NEGATIVE_COUNT, BenchmarkFile, Fields
from prfaas_opt.io.benchmark_runs import (
    MILLISECONDS,
    MILLISECONDS_OR_ZERO,
    WIDEST_SHARE,
    Findings,
    Run,
    take_run,
)
from prfaas_opt.io.benchmark_totals import Times, run_by_totals
from prfaas_opt.io.benchmarks import BenchmarkFormat
from prfaas_opt.io.scalars import NOT_NEGATIVE


def _matches(file: BenchmarkFile) -> bool:
    of_tool = {"dataset_name", "random_range_ratio", "completed", "total_output_tokens_retokenized"} <= file.keys
    return file.kind == "json" and of_tool and any(key.endswith("_ttft_ms") for key in file.keys)


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for record in file.records:
        server = record.inside("server_info")
        version = server.value("version")
        findings.version = findings.version or (version if isinstance(version, str) else "")
        findings.model(server.value("model_path"), record.where)
        run = _run(record)
        if run is not None:
            take_run(run, findings)


def _run(record: Fields) -> Run | None:
    completed = record.number("completed", kind=NOT_NEGATIVE_COUNT)
    if completed == 0:
        record.refuse("completed", "empty-run", "found 0, expected at least one request", "run it again")
    if not completed:
        return None
    times = Times(
        record.number("median_ttft_ms", "mean_ttft_ms", kind=MILLISECONDS),
        record.optional("mean_ttft_ms", MILLISECONDS),
        record.optional("median_tpot_ms", MILLISECONDS_OR_ZERO),
        record.number("mean_e2e_latency_ms", kind=MILLISECONDS),
    )
    run = run_by_totals(record, completed, times)
    if run is None or times.latency_s is None:
        return None
    accepted_tokens = record.optional("accept_length", NOT_NEGATIVE)
    return dataclasses.replace(run, spread_share=_spread(record), accepted_tokens=accepted_tokens)


def _spread(record: Fields) -> float | None:
    """How much prompt lengths may differ: random ones are drawn from the ratio times the maximum to the maximum."""
    if not str(record.value("dataset_name")).startswith("random"):
        return 2 * WIDEST_SHARE
    ratio = record.optional("random_range_ratio", NOT_NEGATIVE)
    return None if ratio is None else abs(1 - ratio) * 2 / (1 + ratio)


FORMAT = BenchmarkFormat("SGLang bench_serving", _matches, _read)
