"""``prfaas-opt sheet``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, print_json

sheet = typer.Typer(
    add_completion=False, help="Spreadsheets to start from.", no_args_is_help=True, rich_markup_mode=None
)


@sheet.callback()
def _root() -> None:
    """Spreadsheets to start from."""


@sheet.command("template")
@answers("sheet template")
def template(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The workbook to write, .xlsx.")
    ] = Path("plan.xlsx"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a workbook with example scenarios, one a row, to be filled in and planned by `study`.

    Headers carry their units and a note each; cells of models, workloads and GPUs offer what is known.

    Example: prfaas-opt sheet template -o plan.xlsx
    """
    from prfaas_opt import study_api

    written = study_api.write_sheet_template(output, force)
    if as_json:
        print_json("sheet template", "ok", {"path": str(written)})
    else:
        typer.echo(f"Wrote {written}. Fill in its rows, then run: prfaas-opt study {written} -o results.xlsx")
