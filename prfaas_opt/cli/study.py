"""``prfaas-opt study``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prfaas_opt.cli.options import JsonOption, SetOption, overrides
from prfaas_opt.cli.output import answers, print_json

if TYPE_CHECKING:
    from prfaas_opt.study_api import Progress, StudyRun


_ONE_BUG = "row met a bug in prfaas-opt; its error code says"


class EngineChoice(StrEnum):
    """Where a study runs."""

    LOCAL = "local"
    DASK = "dask"


class DetailChoice(StrEnum):
    """What is told of each scenario."""

    PLAN = "plan"
    FULL = "full"


@answers("study")
def study(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Study file, or a spreadsheet with a scenario a row.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="File to write, a row a scenario: .parquet, .csv, .jsonl, .md or .xlsx; without it: a summary.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that plan.")] = 1,
    engine: Annotated[
        EngineChoice, typer.Option(help="local: this machine; dask: the workers of a Dask scheduler.")
    ] = EngineChoice.LOCAL,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a Dask scheduler: tcp://HOST:8786.", show_default=False),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: replace an output that is there, done or half done.")
    ] = False,
    detail: Annotated[
        DetailChoice | None,
        typer.Option(
            help="full: also what-ifs, failures, figures that are off and costs elsewhere, far slower.",
            show_default="as the study says, else plan",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 6 if a row has no plan.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show what was understood of FILE; plan nothing.")] = False,
    base: Annotated[
        Path | None,
        typer.Option(metavar="SCENARIO", help="Scenario that rows change, in place of FILE's.", show_default=False),
    ] = None,
    assignments: SetOption = None,
    sheet: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Sheet of a workbook that has the scenarios, if not found.", show_default=False
        ),
    ] = None,
    locale: Annotated[
        str | None,
        typer.Option(
            help="How texts of a spreadsheet write numbers, if not as found: en, de, or a sample, 1.234,5.",
            show_default=False,
        ),
    ] = None,
    include_hidden: Annotated[
        bool, typer.Option("--include-hidden", help="Take hidden rows and sheets of a spreadsheet too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Plan every scenario of a study, and write a row for each.

    FILE is a study (a base scenario, and axes along which its fields vary) or a spreadsheet. Rows that cannot be
    planned say why and end nothing. What is done is kept beside OUT: after Ctrl-C, a kill or a power cut the same
    command goes on from there.

    Exit codes beside the usual: 3 or 4 if no row at all has a plan (3: all are infeasible), 6 with --strict.

    See also: prfaas-opt study report OUT, which draws conclusions from the rows.

    Example: prfaas-opt study study.yaml -o out.parquet --workers 4
    """
    from prfaas_opt import study_api

    given: dict[str, Any] = {"base": base, "overrides": overrides(assignments)}
    given["sheet"] = study_api.SheetOptions(sheet, locale, include_hidden)
    if explain:
        _explain(file, given, as_json)
        return
    if engine is EngineChoice.DASK:
        from prfaas_opt.study.engines.dask import quiet

        quiet()
    try:
        with _progress() as show:
            begun = time.monotonic()
            done = study_api.run_study(
                file,
                output,
                workers=workers,
                engine=engine.value,
                scheduler=scheduler,
                fresh=fresh,
                detail=detail.value if detail else None,
                show=show,
                **given,
            )
            seconds = time.monotonic() - begun
    except study_api.StudyInterrupted as interrupt:
        typer.echo(f"Stopped: {interrupt.message}.", err=True)
        raise
    if as_json:
        print_json("study", "ok" if done.planned else "failed", done)
    else:
        from prfaas_opt.cli.render_study import print_study

        print_study(done)
    planned_now = done.rows - done.kept
    rate = f", {planned_now / seconds:,.0f} rows/s" if planned_now and seconds > 0 else ""
    typer.echo(
        f"Planned {planned_now:,} {'row' if planned_now == 1 else 'rows'} in {_duration(seconds)}{rate}.", err=True
    )
    _end_as(done, strict)


def _explain(file: Path, given: dict[str, Any], as_json: bool) -> None:
    from prfaas_opt import study_api

    explained = study_api.explain(file, **given)
    if as_json:
        print_json("study", "ok", explained)
        return
    from prfaas_opt.cli.render_study import print_explanation, print_sheet_explanation

    if isinstance(explained, study_api.StudyExplanation):
        print_explanation(explained)
    else:
        print_sheet_explanation(explained)


def _end_as(done: StudyRun, strict: bool) -> None:
    """Raises the exit code of a study that is not as wanted."""
    from prfaas_opt.errors import CheckFailedError, InfeasibleError, InputError, PrfaasOptError

    code = 0
    if strict and done.planned < done.rows:
        code = CheckFailedError.exit_code
    if not done.planned:
        code = InfeasibleError.exit_code if set(done.by_status) == {"infeasible"} else InputError.exit_code
    if done.bugs:
        whose = "rows met a bug in prfaas-opt; their error codes say" if done.bugs > 1 else _ONE_BUG
        typer.echo(f"error: {done.bugs:,} {whose} which", err=True)
        code = PrfaasOptError.exit_code
    if code:
        raise typer.Exit(code)


def _duration(seconds: float) -> str:
    """A time for people.

    >>> _duration(3.14), _duration(75), _duration(3700)
    ('3.1 s', '1:15 min', '1:01:40 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr with rate and time left, only on a terminal."""
    from rich.console import Console

    out = Console(stderr=True)
    if not out.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
    bars = Bars(*columns, TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=out, transient=True)
    stages: dict[str, Any] = {}
    with bars:

        def show(progress: Progress) -> None:
            stage = progress.stage
            if stage not in stages:
                begun_at = progress.done
                stages[stage] = (bars.add_task(stage, total=progress.rows, completed=begun_at, rate=""), begun_at)
                return
            task, begun_at = stages[stage]
            elapsed = bars.tasks[task].elapsed or 0.0
            rate = f"{(progress.done - begun_at) / elapsed:,.0f} rows/s" if elapsed > 0 else ""
            bars.update(task, completed=progress.done, rate=rate)

        yield show
