"""The public Python API of reports: what the rows of a study answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.study.definition import read_study
from prfaas_opt.study.report.answers import StudyReport
from prfaas_opt.study.report.files import check_report_file
from prfaas_opt.study.report.files import write_report as _write
from prfaas_opt.study.report.make import report_of
from prfaas_opt.study.report.refine import refined

__all__ = ["StudyReport", "report_study", "write_report"]


def report_study(
    path: str | Path,
    objectives: Sequence[str] | None = None,
    where: Mapping[str, str] | None = None,
    study: str | Path | None = None,
) -> StudyReport:
    """What the rows of a study answer: the best, where limits change, what each axis does, and where it pays.

    Args:
        path: a file that ``study`` wrote: Parquet, CSV or JSON Lines. Only the columns needed are read.
        objectives: what Pareto-optimal is meant in: some of ``throughput``, ``cost``, ``ttft``, ``egress``; None: all
            that the file has figures of.
        where: only rows with these values: ``{"links.0.bandwidth": "10Gbps"}``.
        study: the study file that the results were made from: break-evens are narrowed to 0.1 % by planning anew.

    Raises:
        InputError: the file is missing, broken, of another version or holds no results of a study; an objective is
            unknown or has no figure in any row; no row has the values; or the study is wrong or another.

    >>> import tempfile
    >>> from prfaas_opt.study_api import run_study
    >>> axes = [{"grid": {"links.0.bandwidth": ["1Gbps", "4Gbps", "10Gbps", "100Gbps"]}}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_study({"axes": axes}, f"{folder}/out.parquet")
    ...     report = report_study(f"{folder}/out.parquet")
    >>> [(line.low, line.high, line.pays) for line in report.break_even[0].alike]
    [(1.0, 4.0, 'from')]
    >>> [(each.low, each.high, each.after) for each in report.changes[0].changes][-1]
    (10.0, 100.0, 'prfaas, pd_prefill')
    """
    rows = None if study is None else read_study(study)
    report = report_of(Path(path), objectives, where)
    return report if rows is None else refined(report, rows)


def write_report(report: StudyReport, path: str | Path) -> Path:
    """Writes a report as a Markdown page (``.md``) or a CSV table (``.csv``), in place of an older one.

    Raises:
        InputError: another ending, or the file cannot be written.
    """
    return _write(report, Path(path))


def check_report_output(source: str | Path, output: str | Path) -> None:
    """Raises what can be told of a report's file before anything is read.

    Raises:
        InputError: another ending than those of reports, or the file is that of the results.
    """
    check_report_file(Path(output))
    if Path(output).exists() and Path(source).exists() and Path(output).samefile(source):
        message = "is the file of results itself, expected another file to write"
        raise InputError(Problem("file-exists", printable(str(output)), message, "name another file"))
