"""Results read back from their file, in parts, some columns or all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable, suggestion
from prfaas_opt.study.columns import MissingColumnError
from prfaas_opt.study.outputs import formats

if TYPE_CHECKING:
    import pyarrow as pa


def read_in_parts(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows of a file of results, a part at a time.

    Args:
        path: a file that ``study`` wrote: Parquet, CSV, JSON Lines.
        columns: names of those to read, in this order; None: all.

    Raises:
        InputError: the file is not there, is not of results, or has no such column.
    """
    import pyarrow as pa

    name, suffix = printable(str(path)), path.suffix.lower()
    readable = {each.suffix: (each, each.read) for each in formats().values() if each.read is not None}
    if suffix not in readable:
        known = ", ".join(f"{each.suffix} ({each.name})" for each, _ in readable.values())
        ending = f'ends in "{printable(path.suffix)}"' if suffix else "has no suffix"
        message = f"{ending}, which cannot be read back, expected one of {known}"
        raise InputError(Problem("unknown-format", name, message, "write the study to one of these"))
    found, read = readable[suffix]
    if not path.is_file():
        raise InputError(Problem("missing-file", name, "there is no such file of results", "check the path"))
    try:
        yield from read(path, columns)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"cannot be read as {found.name}: {reason}"
        raise InputError(Problem("unreadable-file", name, message, "name a file that study wrote")) from None
    except MissingColumnError as error:
        message = f'has no column "{printable(error.column)}"'
        raise InputError(Problem("unknown-name", name, message, suggestion(error.column, error.known))) from None


def read_results(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a file of results as one table.

    Args:
        path: as for ``read_in_parts``.
        columns: as for ``read_in_parts``.

    Raises:
        InputError: as ``read_in_parts``; or it has no rows.
    """
    import pyarrow as pa

    parts = list(read_in_parts(path, columns))
    if not parts:
        raise InputError(Problem("empty-file", printable(str(path)), "holds no rows", "run the study again"))
    return pa.concat_tables(parts)
