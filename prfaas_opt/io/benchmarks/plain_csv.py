"""A table of your own: ``length_tokens`` beside ``prefill_s`` or ``_ms``, ``batch`` beside ``step_s`` or ``_ms``."""

from __future__ import annotations

from prfaas_opt.io.benchmark_file import BenchmarkFile, Fields
from prfaas_opt.io.benchmark_runs import DecodePoint, Findings, PrefillPoint, plausible_prefill, plausible_step
from prfaas_opt.io.benchmarks import BenchmarkFormat
from prfaas_opt.io.scalars import COUNT, TOKENS, Number
from prfaas_opt.io.wording import printable

_PREFILL = {"prefill_s": 1.0, "prefill_ms": 1e-3}
_STEP = {"step_s": 1.0, "step_ms": 1e-3}
_KNOWN = {"model", "length_tokens", "batch", "context_tokens", "concurrency", *_PREFILL, *_STEP}


def _matches(file: BenchmarkFile) -> bool:
    has = set(file.columns)
    prefill = "length_tokens" in has and has & _PREFILL.keys()
    decode = "batch" in has and has & _STEP.keys()
    return file.kind == "csv" and bool(prefill or decode)


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for column in file.columns:
        if column not in _KNOWN:
            findings.leave(f"{file.name}:1", "column", f'"{printable(column)}" is none of {", ".join(sorted(_KNOWN))}')
    for record in file.records:
        findings.model(record.value("model"), record.place("model"))
        prefill = _time(record, _PREFILL)
        step = _time(record, _STEP)
        if prefill is not None:
            _prefill(record, *prefill, findings)
        if step is not None:
            batch = record.number("batch", kind=COUNT)
            context = record.optional("context_tokens", TOKENS)
            if batch is not None and plausible_step(record, *step):
                findings.decode.append(DecodePoint(int(batch), context, step[1], record.where))
        if not any(record.states(name) for name in (*_PREFILL, *_STEP)):
            record.refuse("", "missing-key", "has no time, expected prefill or step", "fill it in, or take the row out")


def _time(record: Fields, columns: dict[str, float]) -> tuple[str, float] | None:
    """The column that states a time, and the time in seconds."""
    stated = [name for name in columns if record.states(name)]
    if len(stated) > 1:
        record.refuse(stated[1], "duplicate-key", f"stands beside {stated[0]}, expected one of them", "keep one")
    if len(stated) != 1:
        return None
    kind = Number("a positive number", above=0, factor=columns[stated[0]])
    seconds = record.number(stated[0], kind=kind)
    return None if seconds is None else (stated[0], seconds)


def _prefill(record: Fields, name: str, seconds: float, findings: Findings) -> None:
    length = record.number("length_tokens", kind=TOKENS)
    concurrency = record.optional("concurrency", COUNT)
    if concurrency is not None and concurrency > 1:
        reason = f"latency at concurrency {concurrency:.0f}: prompts waited for each other"
        findings.leave(record.where, "prefill", reason)
    elif length is not None and plausible_prefill(record, name, length, seconds):
        findings.prefill.append(PrefillPoint(int(length), seconds, record.where))


FORMAT = BenchmarkFormat("CSV", _matches, _read)
