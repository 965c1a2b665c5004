"""The commands by name, each loaded when it is asked for: starting one does not pay for the others."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

_COMMANDS = {
    "plan": "plan:plan",
    "size": "size:size",
    "compare": "compare:compare",
    "kv": "kv:kv",
    "study": "study:study",
    "study report": "study_report:study_report",
    "init": "init:init",
    "reproduce": "reproduce:reproduce",
    "schema": "schema:schema",
    "models": "models:models",
    "workloads": "workloads:workloads",
    "sheet": "sheet:sheet",
}
"""Module and attribute: a function is a command, a Typer a group of them."""


class Commands(TyperGroup):
    """Commands of one word or two: ``study FILE`` and ``study report FILE``; the longer name is looked for first."""

    known: ClassVar[dict[str, str]] = _COMMANDS
    loaded: ClassVar[dict[str, Any]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(self.known)  # type: ignore[assignment]  # whose names are offered for a misspelt one

    def list_commands(self, _context: Any) -> list[str]:
        """Their names, as help lists them."""
        return list(self.known)

    def get_command(self, _context: Any, name: str) -> Any:
        """The command of a name; None where there is none."""
        if name not in self.known:
            return None
        if name not in self.loaded:
            module, _, attribute = self.known[name].partition(":")
            found = getattr(importlib.import_module(f"prfaas_opt.cli.{module}"), attribute)
            self.loaded[name] = typer.main.get_command(_as_typer(found))
            self.loaded[name].name = name
        return self.loaded[name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command that arguments begin with, the command, and the arguments after it."""
        both = " ".join(args[:2])
        command = self.get_command(ctx, both) if len(args) > 1 else None
        return super().resolve_command(ctx, args) if command is None else (both, command, args[2:])


def _as_typer(found: Any) -> typer.Typer:
    if isinstance(found, typer.Typer):
        return found
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command()(found)
    return alone
