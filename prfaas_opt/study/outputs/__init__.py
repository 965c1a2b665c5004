"""Files of results: each module of this package writes one format; a new file is a new format.

A module's ``FORMAT`` tells its suffix. A format that lives elsewhere, as that of workbooks does, is added by
``register``. All formats hold the same table, ``columns`` says which; a file is written under a temporary name and
renamed when it is complete, and the same table gives the same bytes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import closest, printable

if TYPE_CHECKING:
    import pyarrow as pa


class Writer(Protocol):
    """Takes a table in parts."""

    def write(self, table: pa.Table) -> None:
        """Adds rows."""

    def close(self) -> None:
        """Completes the file and gives it its name."""

    def abort(self) -> None:
        """Leaves nothing of the file."""


Read = Callable[[Path, Sequence[str] | None], "Iterator[pa.Table]"]


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        suffix: of their names, with its dot.
        name: for people.
        open: a writer of a file with a schema.
        read: gives a file's rows back in parts, of all columns or some; None where they cannot be had back.
        most_rows: that a file can hold; None where there is no limit.
    """

    suffix: str
    name: str
    open: Callable[[Path, pa.Schema], Writer]
    read: Read | None = None
    most_rows: int | None = None


_registered: dict[str, Format] = {}


def register(found: Format) -> None:
    """Adds a format that is not of this package."""
    _registered[found.suffix] = found


@cache
def _own_formats() -> dict[str, Format]:
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    found = (getattr(module, "FORMAT", None) for module in modules)
    return {each.suffix: each for each in found if each is not None}


def formats() -> dict[str, Format]:
    """Every format by its suffix."""
    return dict(sorted((_own_formats() | _registered).items()))


def format_of(path: Path) -> Format:
    """The format that a file's name tells.

    Raises:
        InputError: it tells none.
    """
    known, suffix = formats(), path.suffix.lower()
    if suffix in known:
        return known[suffix]
    listed = ", ".join(f"{each.suffix} ({each.name})" for each in known.values())
    found = f'ends in "{printable(path.suffix)}"' if path.suffix else "has no suffix"
    near = closest(suffix, known) if suffix else []
    fix = f"did you mean {near[0]}?" if near else "name a file that ends in one of these"
    raise InputError(Problem("unknown-format", printable(str(path)), f"{found}, expected one of {listed}", fix))


def check_output(path: Path, rows: int | None = None) -> None:
    """Raises what can be told of an output before anything is planned.

    Args:
        path: the file.
        rows: how many it will have, where that is known.

    Raises:
        InputError: there is no format of its suffix, or the format cannot hold so many rows.
    """
    found = format_of(path)
    if rows is not None and found.most_rows is not None and rows > found.most_rows:
        message = f"{found.name} holds at most {found.most_rows:,} rows, and the study has {rows:,}"
        raise InputError(Problem("too-many", printable(str(path)), message, "write it as .parquet or .csv"))


def writer_for(path: Path, schema: pa.Schema) -> Writer:
    """A writer of the format that a file's name tells; a file of that name is replaced when it is closed.

    Raises:
        InputError: there is no such format, or the file cannot be written.
    """
    return format_of(path).open(path, schema)
