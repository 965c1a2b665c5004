"""Text files: read with what is wrong in words, written so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable


def read_text(path: Path, what: str, form: str, most_bytes: int | None = None) -> tuple[str, str]:
    """A file's name for errors, and its text.

    Args:
        path: the file.
        what: it should be, in words.
        form: of its text: YAML, JSON.
        most_bytes: beyond which it is none; None sets no limit.

    Raises:
        InputError: the file is missing, unreadable, too large, or no UTF-8 text.
    """
    name = printable(str(path))
    try:
        if most_bytes is not None and path.is_file() and path.stat().st_size > most_bytes:
            message = f"is larger than {most_bytes // 2**20} MiB, expected a {what}"
            raise InputError(Problem("wrong-file", name, message, f"name the {what} itself"))
        return name, _decoded(path.read_bytes(), name, form)
    except FileNotFoundError:
        problem = Problem("missing-file", name, f"there is no such {what}", "check the path")
    except IsADirectoryError:
        problem = Problem("missing-file", name, f"is a folder, expected a {what}", "name a file in it")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = Problem("unreadable-file", name, f"cannot be read: {reason}", "check the path and its rights")
    raise InputError(problem)


def _decoded(raw: bytes, name: str, form: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            line, what = 1, "is UTF-16 text, expected UTF-8"
        elif b"\0" in raw:
            line, what = 1, f"is not a text file, expected {form}"
        else:
            what = f"holds the byte 0x{raw[error.start]:02x}, expected UTF-8 text"
        raise InputError(Problem("unreadable-file", f"{name}:{line}", what, "save it as UTF-8 text")) from None


def write_text(path: Path, text: str, replace: bool = False) -> Path:
    """Writes a text file under a temporary name, then renames it.

    Raises:
        InputError: the file is there and ``replace`` is false, or it cannot be written.
    """
    return write_bytes(path, text.encode("utf-8"), replace)


def write_bytes(path: Path, content: bytes, replace: bool = False) -> Path:
    """Writes a file under a temporary name, then renames it.

    Raises:
        InputError: the file is there and ``replace`` is false, or it cannot be written.
    """
    if path.exists() and not replace:
        raise InputError(Problem("file-exists", str(path), "is there already", "name another file, or add --force"))
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            Problem("not-writable", str(path), f"cannot be written: {reason}", "check the folder")
        ) from None
    return path
