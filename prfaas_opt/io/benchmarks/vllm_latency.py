"""``vllm bench latency --output-json``: seconds of whole batches; what was run stands in the file's name alone."""

from __future__ import annotations

import re
import statistics

from prfaas_opt.io.benchmark_file import BenchmarkFile
from prfaas_opt.io.benchmark_runs import Findings, PrefillPoint, plausible_prefill
from prfaas_opt.io.benchmarks import BenchmarkFormat

_PARTS = {"isl": "prompt length", "osl": "output length", "bs": "batch"}
_EXAMPLE = "latency-isl8192-osl1-bs1.json"


def _matches(file: BenchmarkFile) -> bool:
    return file.kind == "json" and {"avg_latency", "latencies", "percentiles"} <= file.keys


def _read(file: BenchmarkFile, findings: Findings) -> None:
    found = {part: re.findall(rf"(?<![a-z]){part}[-_=]?([0-9]+)", file.path.name.lower()) for part in _PARTS}
    for record in file.records:
        findings.model(record.value("model_id"), record.place("model_id"))
        missing = [part for part, numbers in found.items() if len(numbers) != 1 or not 0 < int(numbers[0]) < 10**8]
        if missing:
            words = ", ".join(f"{_PARTS[part]} ({part})" for part in missing)
            message = f"does not tell the {words}, expected in its name: vllm bench latency writes it nowhere"
            record.refuse("", "missing-key", message, f"name it like {_EXAMPLE}")
        times = record.numbers("latencies")
        average = record.number("avg_latency")
        if missing or times is None or average is None:
            continue
        mean = sum(times) / len(times)
        if not 0.99 < average / mean < 1.01:
            message = f"found {average:.4g} s, expected {mean:.4g} s, the mean of latencies"
            record.refuse("avg_latency", "inconsistent", message, "check the units: all are in seconds")
            continue
        length, output, batch = (int(found[part][0]) for part in ("isl", "osl", "bs"))
        middle = statistics.median(times)
        if batch > 1:
            findings.leave(record.where, "prefill", f"a batch of {batch} prompts, expected one alone")
        elif output > 1:
            findings.leave(record.where, "prefill", f"{output} tokens were decoded in it, expected one")
        elif plausible_prefill(record, "latencies", length, middle):
            findings.prefill.append(PrefillPoint(length, middle, record.where))


FORMAT = BenchmarkFormat("vLLM bench latency", _matches, _read)
