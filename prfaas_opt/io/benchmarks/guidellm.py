"""GuideLLM ``benchmarks.json``: a run of each strategy; TTFT and steps in ms, whole requests in seconds."""

from __future__ import annotations

from prfaas_opt.io.benchmark_file import NOT_NEGATIVE_COUNT, BenchmarkFile, Fields
from prfaas_opt.io.benchmark_metrics import Sending
from prfaas_opt.io.benchmark_runs import MILLISECONDS, MILLISECONDS_OR_ZERO, Findings, Run, take_run
from prfaas_opt.io.benchmarks import BenchmarkFormat
from prfaas_opt.io.scalars import COUNT


def _matches(file: BenchmarkFile) -> bool:
    return file.kind == "json" and {"benchmarks", "metadata"} <= file.keys


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for report in file.records:
        findings.version = findings.version or str(report.inside("metadata").value("guidellm_version") or "")
        benchmarks = report.each("benchmarks")
        if not benchmarks:
            report.refuse("benchmarks", "empty-run", "holds no benchmark, expected one at least", "run it again")
        for benchmark in benchmarks:
            for backend in (benchmark.inside("config", "backend"), report.inside("config", "spec", "backend")):
                findings.model(backend.value("model"), backend.place("model"))
            findings.model(report.inside("args").value("model"), report.where)
            run = _run(benchmark)
            if run is not None:
                take_run(run, findings)


def _run(benchmark: Fields) -> Run | None:
    metrics = benchmark.inside("metrics")
    totals = metrics.inside("request_totals")
    requests = totals.number("successful", kind=NOT_NEGATIVE_COUNT)
    errored = totals.optional("errored", NOT_NEGATIVE_COUNT)
    if errored:
        message = f"found {errored:.0f} requests, expected none"
        totals.refuse("errored", "failed-requests", message, "see why they failed, and run it again")
        return None
    if requests == 0:
        totals.refuse("successful", "empty-run", "found 0, expected at least one request", "run it again")
    if not requests:
        return None
    lengths = metrics.inside("prompt_token_count", "successful")
    length, shortest, longest = (lengths.number(name) for name in ("mean", "min", "max"))
    output = metrics.inside("output_token_count", "successful").number("mean")
    first = metrics.inside("time_to_first_token_ms", "successful")
    ttft, ttft_mean = first.number("median", kind=MILLISECONDS), first.number("mean", kind=MILLISECONDS)
    step = metrics.inside("inter_token_latency_ms", "successful").optional("median", MILLISECONDS_OR_ZERO)
    latency = metrics.inside("request_latency", "successful").number("mean")
    duration = benchmark.number("duration")
    sending = _sending(benchmark)
    if length is None or shortest is None or longest is None or output is None or ttft is None:
        return None
    if latency is None or duration is None:
        return None
    return Run(
        benchmark,
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
        latency * requests / duration,
        (longest - shortest) / length,
    )


def _sending(benchmark: Fields) -> Sending:
    places = (("config", "strategy"), ("args", "strategy"), ("scheduler", "strategy"))
    strategy = next((found for found in (benchmark.inside(*place) for place in places) if found.mapping), None)
    if strategy is None:
        return Sending(None, known=False)
    if strategy.value("type_") == "synchronous":
        return Sending(1)
    limit = strategy.optional("max_concurrency", COUNT) or strategy.optional("streams", COUNT)
    rate = strategy.optional("rate")
    return Sending(int(limit) if limit else None, f"{rate:g} req/s" if rate else "")


FORMAT = BenchmarkFormat("GuideLLM", _matches, _read)
