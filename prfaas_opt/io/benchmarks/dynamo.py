"""Raw data of Dynamo's SLA profiler, ``raw_data.npz`` or its twin in JSON: times in ms, throughput of a GPU."""

from __future__ import annotations

import statistics

from prfaas_opt.io.benchmark_file import BenchmarkFile, Fields
from prfaas_opt.io.benchmark_runs import (
    MILLISECONDS,
    DecodePoint,
    Findings,
    PrefillPoint,
    plausible_prefill,
    plausible_step,
)
from prfaas_opt.io.benchmarks import BenchmarkFormat
from prfaas_opt.io.scalars import POSITIVE, Number
from prfaas_opt.io.wording import counted

_PREFILL = ("prefill_isl", "prefill_ttft", "prefill_thpt_per_gpu")
_DECODE = ("x_kv_usage", "y_context_length", "z_itl", "z_thpt_per_gpu")
_SHARE = Number("a share, above 0, 1 at most", above=0, maximum=1)


def _matches(file: BenchmarkFile) -> bool:
    has = file.keys
    return file.kind in ("npz", "json") and ({*_PREFILL[:2]} <= has or {*_DECODE[:3], "max_kv_tokens"} <= has)


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for record in file.records:
        if "prefill_isl" in record.mapping:
            _prefill(record, findings)
        if "x_kv_usage" in record.mapping:
            _decode(record, findings)


def _columns(record: Fields, names: tuple[str, ...], kinds: tuple[Number, ...]) -> list[list[float]] | None:
    found = [record.numbers(name, kind) for name, kind in zip(names, kinds, strict=True)]
    columns = [column for column in found if column is not None]
    if len(columns) < len(found):
        return None
    for name, column in zip(names, columns, strict=True):
        if len(column) != len(columns[0]):
            message = f"found {counted(len(column), 'value')}, expected {len(columns[0])}, as many as {names[0]}"
            record.refuse(name, "length-mismatch", message, "name the file as the profiler wrote it")
            return None
    return columns


def _prefill(record: Fields, findings: Findings) -> None:
    columns = _columns(record, _PREFILL, (POSITIVE, MILLISECONDS, POSITIVE))
    if columns is None:
        return
    where = record.place("prefill_ttft")
    gpus = []
    for length, seconds, rate in zip(*columns, strict=True):
        if plausible_prefill(record, "prefill_ttft", length, seconds):
            findings.prefill.append(PrefillPoint(max(round(length), 1), seconds, where))
            gpus.append(length / (seconds * rate))
    if gpus:
        findings.gpus.append((where, statistics.median(gpus), 1.05))


def _decode(record: Fields, findings: Findings) -> None:
    columns = _columns(record, _DECODE, (_SHARE, POSITIVE, MILLISECONDS, POSITIVE))
    whole = record.value("max_kv_tokens")
    most = record.numbers("max_kv_tokens") if isinstance(whole, list) else [record.number("max_kv_tokens") or 0.0]
    if columns is None or not most or not most[0]:
        return
    where = record.place("z_itl")
    gpus = []
    for usage, context, step, rate in zip(*columns, strict=True):
        batch = usage * most[0] / context
        if batch < 0.5:
            findings.leave(where, "decode", f"a batch of {batch:.2g} at a context of {context:,.0f} tokens")
            continue
        if not plausible_step(record, "z_itl", step):
            continue
        findings.decode.append(DecodePoint(max(round(batch), 1), context, step, where))
        gpus.append(batch / (step * rate))
    if gpus:
        findings.gpus.append((where, statistics.median(gpus), 1.5))


FORMAT = BenchmarkFormat("Dynamo SLA profiler", _matches, _read)
