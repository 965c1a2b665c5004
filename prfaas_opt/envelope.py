"""The versioned JSON envelope that every command's answer comes in."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct

from prfaas_opt.errors import Problem
from prfaas_opt.results import SCHEMA_VERSION

T = TypeVar("T")

Command = Annotated[str, Meta(description="the command that answered")]


class Envelope(Struct, Generic[T], frozen=True, kw_only=True):
    """An answer. ``status`` is a plan's own; ``ok`` or ``failed`` for commands that plan nothing."""

    schema_version: int = SCHEMA_VERSION
    command: Command
    status: str
    warnings: tuple[str, ...] = ()
    data: T


class ErrorEnvelope(Struct, frozen=True, kw_only=True):
    """What went wrong, all of it; the exit code says which kind it is."""

    schema_version: int = SCHEMA_VERSION
    command: Command
    status: str
    errors: tuple[Problem, ...]
