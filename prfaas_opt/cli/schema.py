"""``prfaas-opt schema``."""

from __future__ import annotations

from typing import Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, print_json, print_raw_json


@answers("schema")
def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A command or a kind of file; without one, their names.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the JSON Schema of an answer or a file.

    The answer of a command with --json, or a scenario, model or workload file.

    Example: prfaas-opt schema plan
    """
    from prfaas_opt import schemas

    if name is not None:
        print_raw_json(schemas.schema(name))
    elif as_json:
        print_json("schema", "ok", {"schemas": schemas.descriptions()})
    else:
        described = schemas.descriptions()
        width = max(map(len, described))
        for key, description in described.items():
            typer.echo(f"{key:<{width}} {description}")
