"""The public Python API of studies: many scenarios planned, and what they answer."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.overrides import apply_overrides
from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.explanation import Explanation
from prfaas_opt.sheets.reading import SUFFIXES
from prfaas_opt.sheets.rows import SheetRows
from prfaas_opt.study.axes import StudyRows
from prfaas_opt.study.definition import base_document, read_study
from prfaas_opt.study.explanation import StudyExplanation, explained
from prfaas_opt.study.run import Progress, StudyInterrupted, run_rows
from prfaas_opt.study.summary import StudyRun
from prfaas_opt.study.two_pools import refuse_a_fleet
from prfaas_opt.study.work_folder import digest

if TYPE_CHECKING:
    from prfaas_opt.study.engines import Engine
    from prfaas_opt.study.rows import Detail
    from prfaas_opt.study.run import Show

__all__ = [
    "Progress",
    "SheetOptions",
    "StudyExplanation",
    "StudyInterrupted",
    "StudyRun",
    "explain",
    "read_rows",
    "run_study",
    "write_sheet_template",
]

EngineName = Literal["local", "dask"]

Source = str | Path | Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class SheetOptions:
    """How a spreadsheet is read.

    Attributes:
        name: of the sheet with the scenarios; None: the one that has them.
        locale: how texts write numbers: ``en``, ``de``, or a sample, ``1.234,5``; None: by evidence.
        include_hidden: take hidden rows and sheets too.
    """

    name: str | None = None
    locale: str | None = None
    include_hidden: bool = False


_AS_FOUND = SheetOptions()


def run_study(
    source: Source,
    output: str | Path | None = None,
    *,
    workers: int = 1,
    engine: EngineName = "local",
    scheduler: str | None = None,
    fresh: bool = False,
    base: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    sheet: SheetOptions = _AS_FOUND,
    show: Show = lambda _: None,
    chunk_rows: int | None = None,
    detail: Detail | None = None,
) -> StudyRun:
    """Plans every scenario of a study and writes a row for each; what was begun before is gone on with.

    Args:
        source: a study file, a spreadsheet with a scenario a row, or a mapping of a study file's form.
        output: file to write, in the format that its ending says; None: only the summary is wanted.
        workers: processes that plan, for the local engine.
        engine: ``local``: this machine; ``dask``: the workers of a Dask scheduler.
        scheduler: its address, ``tcp://HOST:8786``.
        fresh: replace an output that is there, done or half done.
        base: scenario file to use as the base.
        overrides: fields of the base, over those of the study: ``{"estimator": "mean-length"}``.
        sheet: how a spreadsheet is read.
        show: is told how far it is.
        chunk_rows: rows that are planned and kept together; None: as the study suggests.
        detail: what is told of each, ``plan`` or ``full``; None: as the study says.

    Returns:
        How many rows have a plan, why others have none, and the best.

    Raises:
        InputError: the study is wrong, all problems at once; or the output cannot be written or holds something else.
        SolverError: worker processes keep ending, or the Dask scheduler is gone. What is done is kept.
        StudyInterrupted: Ctrl-C; what is done is kept.

    >>> run = run_study({"axes": [{"grid": {"links.0.bandwidth": ["1Gbps", "10Gbps", "100Gbps"]}}]})
    >>> run.rows, run.planned, run.best[0].values, round(run.best[0].served_rps, 2)
    (3, 3, {'links.0.bandwidth': '100Gbps'}, 3.15)
    """
    planner = _engine(engine, workers, scheduler)
    rows, inputs = read_rows(source, base=base, overrides=overrides, sheet=sheet)
    if detail is not None:
        rows = dataclasses.replace(rows, detail=detail)
    target = None if output is None else Path(output)
    if target is not None and not isinstance(source, Mapping):
        _refuse_to_overwrite(Path(source), target)
    return run_rows(rows, planner, target, inputs=inputs, fresh=fresh, chunk_rows=chunk_rows, show=show)


def read_rows(
    source: Source,
    *,
    base: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    sheet: SheetOptions = _AS_FOUND,
) -> tuple[StudyRows | SheetRows, dict[str, str]]:
    """The rows of a study or a spreadsheet, and what they were read from.

    Args:
        source: as for ``run_study``.
        base: as for ``run_study``.
        overrides: as for ``run_study``.
        sheet: as for ``run_study``.

    Returns:
        The rows, and digests of the files by their name in words.

    Raises:
        InputError: all that is wrong.
    """
    rows, inputs = _rows_of(source, None if base is None else Path(base), overrides, sheet)
    refuse_a_fleet(rows)
    return rows, inputs


def _rows_of(
    source: Source, base: Path | None, overrides: Mapping[str, str] | None, sheet: SheetOptions
) -> tuple[StudyRows | SheetRows, dict[str, str]]:
    settings = {"the options": json.dumps([*dataclasses.astuple(sheet), dict(overrides or {})])}
    if isinstance(source, Mapping):
        return read_study(dict(source), base, overrides), {
            "the study": digest(json.dumps(source, default=str).encode())
        } | settings
    path = Path(source)
    rows: StudyRows | SheetRows
    if _is_table(path):
        rows = _read_sheet(path, base, overrides, sheet)
    elif sheet != _AS_FOUND:
        names = ("--sheet", "--locale", "--include-hidden")
        name = next(name for name, given in zip(names, dataclasses.astuple(sheet), strict=True) if given)
        message = f"is for spreadsheets, but {printable(path.name)} is read as a study file"
        raise InputError(Problem("not-supported", name, message, "leave it out"))
    else:
        rows = read_study(path, base, overrides)
    return rows, {f"the file {printable(path.name)}": digest(path.read_bytes())} | settings


def explain(
    source: Source,
    *,
    base: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    sheet: SheetOptions = _AS_FOUND,
) -> StudyExplanation | Explanation:
    """What is understood of a study or a spreadsheet, nothing planned.

    Args:
        source: as for ``run_study``.
        base: as for ``run_study``.
        overrides: as for ``run_study``.
        sheet: as for ``run_study``.

    Raises:
        InputError: all that is wrong.
    """
    rows, _ = read_rows(source, base=base, overrides=overrides, sheet=sheet)
    if isinstance(rows, StudyRows):
        return explained(rows)
    return rows.explanation


def write_sheet_template(path: str | Path, replace: bool = False) -> Path:
    """Writes a workbook with example scenarios, one a row, for ``run_study`` to plan.

    Args:
        path: the file, .xlsx.
        replace: a file that is there.

    Raises:
        InputError: the file is there and is not to be replaced, or cannot be written.
    """
    from prfaas_opt.sheets.template import write_template

    return write_template(Path(path), replace)


def _read_sheet(path: Path, base: Path | None, overrides: Mapping[str, str] | None, options: SheetOptions) -> SheetRows:
    from prfaas_opt.sheets.reading import read_scenarios

    document = None if base is None else base_document(str(base))
    rows = read_scenarios(
        path, sheet=options.name, base=document, locale=options.locale, include_hidden=options.include_hidden
    )
    return dataclasses.replace(rows, base=apply_overrides(rows.base, overrides)) if overrides else rows


def _is_table(path: Path) -> bool:
    """Whether a file is a spreadsheet: by its ending, else by how it begins."""
    suffix = path.suffix.casefold()
    if suffix in SUFFIXES:
        return True
    if suffix in (".yaml", ".yml", ".json"):
        return False
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0"))
    except OSError:
        return False


def _engine(name: str, workers: int, scheduler: str | None) -> Engine:
    if workers < 1:
        raise InputError(Problem("out-of-range", "workers", f"found {workers}, expected 1 or more"))
    if name == "dask":
        if scheduler is None:
            fix = "add --scheduler tcp://HOST:8786; one starts with: dask scheduler"
            raise InputError(Problem("missing-key", "--engine dask", "found no address of a scheduler", fix))
        from prfaas_opt.study.engines.dask import Dask

        return Dask(scheduler)
    if scheduler is not None:
        raise InputError(Problem("ambiguous", "--scheduler", "is for a Dask cluster", "add --engine dask"))
    from prfaas_opt.study.engines.local import InProcess, Processes

    return InProcess() if workers == 1 else Processes(workers)


def _refuse_to_overwrite(source: Path, output: Path) -> None:
    if output.exists() and source.exists() and output.samefile(source):
        message = "is the study itself, expected another file to write"
        raise InputError(Problem("file-exists", str(output), message, "name another file"))
