"""SGLang ``bench_one_batch --result-filename``: JSON objects that follow each other, a batch each, in seconds."""

from __future__ import annotations

from prfaas_opt.io.benchmark_file import BenchmarkFile
from prfaas_opt.io.benchmark_runs import DecodePoint, Findings, PrefillPoint, plausible_prefill, plausible_step
from prfaas_opt.io.benchmarks import BenchmarkFormat
from prfaas_opt.io.scalars import COUNT

_ROUNDING = 0.05


def _matches(file: BenchmarkFile) -> bool:
    return file.kind == "json" and {"batch_size", "input_len", "output_len", "prefill_latency"} <= file.keys


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for record in file.records:
        batch, length, output = (record.number(name, kind=COUNT) for name in ("batch_size", "input_len", "output_len"))
        latency = record.number("prefill_latency")
        rate = record.optional("prefill_throughput")
        step = record.optional("median_decode_latency")
        step_rate = record.optional("median_decode_throughput")
        if batch is None or length is None or output is None or latency is None:
            continue
        tokens = batch * length
        checks = (("prefill_latency", latency, rate, tokens), ("median_decode_latency", step, step_rate, batch))
        wrong = False
        for name, seconds, per_s, expected in checks:
            if seconds and per_s and abs(seconds * per_s / expected - 1) > _ROUNDING:
                message = f"found {seconds:.4g} s, expected {expected / per_s:.4g} s by the throughput beside it"
                record.refuse(name, "inconsistent", message, "check the units: all are in seconds")
                wrong = True
        if wrong or not plausible_prefill(record, "prefill_latency", tokens, latency):
            continue
        if batch == 1:
            findings.prefill.append(PrefillPoint(int(length), latency, record.where))
        else:
            findings.leave(record.where, "prefill", f"a batch of {batch:.0f} prompts, expected one alone")
        if step and plausible_step(record, "median_decode_latency", step):
            findings.decode.append(DecodePoint(int(batch), length + output / 2, step, record.where))


FORMAT = BenchmarkFormat("SGLang bench_one_batch", _matches, _read)
