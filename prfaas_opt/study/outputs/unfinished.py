"""A file that has a name of its own until it is complete."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable


class UnfinishedFile:
    """A binary file beside its final place, which it takes only when it is complete.

    Raises:
        InputError: the folder is not there, or cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with writable(path):
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        self.temporary = Path(temporary)
        self.stream: BinaryIO = os.fdopen(descriptor, "wb")

    def finish(self) -> None:
        """Gives the file its name."""
        with writable(self.path):
            self.stream.close()
            self.temporary.chmod(0o644)
            self.temporary.replace(self.path)

    def discard(self) -> None:
        """Leaves nothing of it."""
        with contextlib.suppress(OSError):
            self.stream.close()
        self.temporary.unlink(missing_ok=True)


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Words what a file system says."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        problem = Problem("not-writable", printable(str(path)), f"cannot be written: {reason}", "check the folder")
        raise InputError(problem) from None
