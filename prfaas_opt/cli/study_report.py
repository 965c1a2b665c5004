"""``prfaas-opt study report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.options import JsonOption, overrides
from prfaas_opt.cli.output import answers, console, new_table, print_json

if TYPE_CHECKING:
    from prfaas_opt.study_report_api import StudyReport


@answers("study report")
def study_report(
    file: Annotated[Path, typer.Argument(metavar="OUT", help="What study -o wrote: .parquet, .csv or .jsonl.")],
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="What Pareto-optimal is meant in: some of throughput, cost, ttft, egress, with commas between.",
            show_default="all that OUT has",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE",
            help="Only rows with this value, for example links.0.bandwidth=10Gbps. May be repeated.",
            show_default=False,
        ),
    ] = None,
    refine: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY",
            help="Study file of OUT: narrow break-evens to 0.1 % by planning between rows.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of each table on the terminal.")] = 12,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to a .md or .csv file.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw conclusions from a study's rows.

    Which rows are Pareto-optimal, what limits the plans and between which values of an axis that changes, what each
    axis does to throughput and cost and how much of their variance it explains, and at which bandwidth or price the
    plan begins or stops to beat the homogeneous cluster. Rows without a plan are left out and counted.

    Example: prfaas-opt study report out.parquet --pareto throughput,cost
    """
    from prfaas_opt.study_report_api import check_report_output, report_study, write_report

    if output is not None:
        check_report_output(file, output)
    names = None if pareto is None else [name.strip() for name in pareto.split(",") if name.strip()]
    report = report_study(file, names, overrides(where, option="--where"), refine)
    if output is not None:
        write_report(report, output)
    if as_json:
        print_json("study report", "ok", report)
    else:
        _print(report, top)
        if output is not None:
            typer.echo(f"Wrote {output}.", err=True)


def _print(report: StudyReport, top: int) -> None:
    from rich.markup import escape

    from prfaas_opt.study.report.tables import axis_lines, headline, tables_of

    out = console()
    out.print(escape(headline(report)), style="bold")
    for line in axis_lines(report):
        out.print(escape(line))
    spaced = False
    for each in tables_of(report, top):
        if not spaced:
            out.print()
        if each.title:
            out.print(escape(each.title), style="bold")
        if each.rows:
            table = new_table(*each.headings, left=each.left)
            if each.text_last:
                table.columns[-1].justify = "left"
            for row in each.rows:
                table.add_row(*map(escape, row))
            out.print(table)
        for line in each.after:
            out.print(escape(line))
        # A table ends with an empty line of its own.
        spaced = bool(each.rows) and not each.after
    for note in report.notes:
        if not spaced:
            out.print()
        out.print(escape(note))
        spaced = False
