"""AIPerf: ``profile_export_aiperf.json`` and ``.csv``, one run each."""

from __future__ import annotations

from prfaas_opt.io.benchmark_file import BenchmarkFile, Fields
from prfaas_opt.io.benchmark_metrics import Metrics, Sending, run_of, sending_of
from prfaas_opt.io.benchmark_runs import Findings, take_run
from prfaas_opt.io.benchmarks import BenchmarkFormat


def _matches(file: BenchmarkFile) -> bool:
    if file.kind == "metrics":
        ascends = [column for column in file.columns if column in ("p1", "p99")] == ["p1", "p99"]
        return ascends and Metrics(file.records[0]).has("time_to_first_token")
    if file.kind != "json" or not isinstance(file.records and file.records[0].value("time_to_first_token"), dict):
        return False
    settings = file.records[0].inside("input_config")
    return "aiperf_version" in file.keys or any(name in settings.mapping for name in ("phases", "loadgen"))


def _read(file: BenchmarkFile, findings: Findings) -> None:
    for record in file.records:
        findings.version = findings.version or str(record.value("aiperf_version") or "")
        settings = record.inside("input_config")
        for item in settings.inside("models").each("items"):
            findings.model(item.value("name"), item.place("name"))
        names = settings.inside("endpoint").value("model_names")
        for name in names if isinstance(names, list) else []:
            findings.model(name, settings.where)
        if record.value("was_cancelled") is True:
            record.refuse("was_cancelled", "failed-requests", "the run was cancelled before its end", "run it again")
        elif record.value("error_summary"):
            message = "requests failed, expected none"
            record.refuse("error_summary", "failed-requests", message, "see why they failed, and run it again")
        else:
            metrics = Metrics(record)
            run = run_of(metrics, _sending(settings, metrics))
            if run is not None:
                take_run(run, findings)


def _sending(settings: Fields, metrics: Metrics) -> Sending:
    phases = [phase for phase in settings.each("phases") if phase.value("kind") != "warmup"]
    if len(phases) == 1:
        return sending_of(phases[0], "rate" if phases[0].states("rate") else "request_rate")
    if settings.states("loadgen"):
        return sending_of(settings.inside("loadgen"))
    if metrics.has("effective_concurrency"):  # of a CSV, which has no settings
        most = metrics.number("effective_concurrency", "max")
        return Sending(round(most) if most else None, known=most is not None)
    return Sending(None, known=False)


FORMAT = BenchmarkFormat("AIPerf", _matches, _read)
