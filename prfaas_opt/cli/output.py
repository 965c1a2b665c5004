"""What every command does with its answer: JSON or text on stdout, errors as people or programs read them."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import typer

from prfaas_opt.envelope import Envelope, ErrorEnvelope
from prfaas_opt.errors import PrfaasOptError, Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., None])

INTERRUPTED = 130
_NO_ROOM = Problem("not-writable", "", "the answer cannot be written: no space left", "make room, or write elsewhere")


def print_json(command: str, status: str, data: Any, warnings: tuple[str, ...] = ()) -> None:
    """The answer in the versioned envelope, alone on stdout."""
    _write_json(Envelope(command=command, status=status, warnings=warnings, data=data))


def print_raw_json(document: Any) -> None:
    """A JSON document that is the answer itself, such as a JSON Schema."""
    _write_json(document)


def _write_json(document: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))  # bytes: UTF-8 whatever the locale


def console() -> Console:
    """Where answers for people go."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def new_table(*headings: str, left: int = 1, title: str | None = None) -> Table:
    """A table as all commands draw it; the first ``left`` columns hold text, the others numbers."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right", overflow="fold")
    return table


def print_warnings(warnings: tuple[str, ...]) -> None:
    """Notes on stderr, one a line, so that stdout holds the answer only."""
    width = min(shutil.get_terminal_size().columns, 100)
    for warning in warnings:
        typer.echo(textwrap.fill(f"note: {warning}", width, subsequent_indent="      "), err=True)


def answers(command: str) -> Callable[[F], F]:
    """Makes a command end as the exit codes say, whatever happens in it.

    The command's ``as_json`` parameter decides how errors are worded: for programs on stdout, else for people on
    stderr. A bug of ours never shows a traceback; it says how to get one.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            as_json = bool(kwargs.get("as_json"))
            try:
                function(*args, **kwargs)
            except PrfaasOptError as error:
                _report(command, as_json, error.status, error.problems)
                raise typer.Exit(error.exit_code) from None
            except KeyboardInterrupt:
                raise typer.Exit(INTERRUPTED) from None
            except typer.Exit:
                raise
            except Exception as error:
                if os.environ.get("PRFAAS_OPT_DEBUG") or isinstance(error, typer.BadParameter):
                    raise
                full = isinstance(error, OSError) and error.errno == errno.ENOSPC
                _report(command, as_json and not full, "error", (_NO_ROOM if full else _bug(error),))
                raise typer.Exit(PrfaasOptError.exit_code) from None

        return wrapped  # type: ignore[return-value]

    return decorate


def _report(command: str, as_json: bool, status: str, problems: tuple[Problem, ...]) -> None:
    if as_json:
        _write_json(ErrorEnvelope(command=command, status=status, errors=problems))
        return
    for problem in problems:
        typer.echo(f"{status}: {problem}", err=True)


def _bug(error: Exception) -> Problem:
    return Problem(
        "internal",
        "",
        f"{type(error).__name__}: {error}. This is a bug in prfaas-opt",
        "run the command again with PRFAAS_OPT_DEBUG=1 and report the traceback with your input",
    )
