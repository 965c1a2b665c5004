"""The command line: one file a command, each parses, makes one call of the API and renders the answer."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Annotated

import typer

from prfaas_opt import __version__
from prfaas_opt.cli.commands import Commands

app = typer.Typer(
    name="prfaas-opt",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prfaas-opt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Plan cross-datacenter LLM serving: which requests to prefill remotely, and how to split the instances.

    Start with: prfaas-opt plan
    """


def main() -> None:
    """The entry point of ``prfaas-opt``."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end as other programs do when nobody reads on
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="prfaas-opt")
    finally:
        _end_at_once_if_a_solver_was_interrupted()


def _end_at_once_if_a_solver_was_interrupted() -> None:
    solver = sys.modules.get("prfaas_opt.planning.solver")
    if solver is None or not solver.was_left_running():
        return
    ended = sys.exc_info()[1]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended.code if isinstance(ended, SystemExit) and isinstance(ended.code, int) else 0)
