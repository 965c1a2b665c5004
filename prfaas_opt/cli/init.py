"""``prfaas-opt init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, print_json


@answers("init")
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("scenario.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a commented scenario file to start from.

    Example: prfaas-opt init scenario.yaml
    """
    from prfaas_opt import api

    written = api.write_starter_scenario(file, force)
    if as_json:
        print_json("init", "ok", {"path": str(written)})
    else:
        typer.echo(f"Wrote {written}. Edit it, then run: prfaas-opt plan {written}")
