"""GenAI-Perf: ``profile_export_genai_perf.json`` and ``.csv``, a run each; the CSV tells no concurrency."""

from __future__ import annotations

from prfaas_opt.io.benchmark_file import BenchmarkFile, Fields
from prfaas_opt.io.benchmark_metrics import Metrics, Sending, run_of, sending_of
from prfaas_opt.io.benchmark_runs import Findings, take_run
from prfaas_opt.io.benchmarks import BenchmarkFormat


def _matches(file: BenchmarkFile) -> bool:
    if file.kind == "metrics":
        falls = [column for column in file.columns if column in ("p1", "p99")] == ["p99", "p1"]
        return falls and Metrics(file.records[0]).has("time_to_first_token")
    if file.kind != "json" or not isinstance(file.records and file.records[0].value("time_to_first_token"), dict):
        return False
    settings = file.records[0].value("input_config")
    ours = isinstance(settings, dict) and not ("phases" in settings or "loadgen" in settings)
    return ours and "aiperf_version" not in file.keys


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for record in file.records:
        settings = record.inside("input_config")
        for key in ("model", "model_names"):
            names = settings.value(key)
            for name in names if isinstance(names, list) else [names]:
                findings.model(name, settings.place(key))
        run = run_of(Metrics(record), _sending(settings))
        if run is not None:
            take_run(run, findings)


def _sending(settings: Fields) -> Sending:
    stimulus = settings.inside("perf_analyzer", "stimulus")
    return sending_of(stimulus if stimulus.mapping else settings)


FORMAT = BenchmarkFormat("GenAI-Perf", _matches, _read)
