"""Files written so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from prfaas_opt.errors import InputError, Problem


def write_text(path: Path, text: str, replace: bool = False) -> Path:
    """Writes a text file under a temporary name, then renames it.

    Raises:
        InputError: the file is there and ``replace`` is false, or it cannot be written.
    """
    if path.exists() and not replace:
        raise InputError(Problem("file-exists", str(path), "is there already", "name another file, or add --force"))
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            Problem("not-writable", str(path), f"cannot be written: {reason}", "check the folder")
        ) from None
    return path
