"""Commands of two words beside commands of their first: ``study FILE`` and ``study report FILE``."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class TwoWords(TyperGroup):
    """A group whose commands may have two words; those are looked for first."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command that arguments begin with, the command, and the arguments after it."""
        both = " ".join(args[:2])
        command = self.get_command(ctx, both) if len(args) > 1 else None
        return super().resolve_command(ctx, args) if command is None else (both, command, args[2:])
