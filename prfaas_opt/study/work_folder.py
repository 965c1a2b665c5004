"""The folder beside an output that holds what is done of a study, so that the same command goes on after any end.

It holds a lock, a manifest that says what the parts were made from, and a part for each chunk that is done. A part is
written under a temporary name, brought to disk and renamed; its name carries a digest of its bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import counted, printable

MANIFEST = "manifest.json"
LOCK = "lock"
_PART = re.compile(r"(\d{6,})-([0-9a-f]{32})\.arrow")
_TEMPORARY = ".writing-"
_OUTPUT = "output"


def digest(payload: bytes) -> str:
    """What tells whether bytes are the same."""
    return hashlib.blake2b(payload, digest_size=16).hexdigest()


def work_folder_of(output: Path) -> Path:
    """The folder of an output: ``out.parquet.parts`` beside ``out.parquet``."""
    return output.with_name(f"{output.name}.parts")


class WorkFolder:
    """What is done of a study.

    Attributes:
        path: of the folder.
        kept: parts of an earlier run that are whole, by number of their chunk.
        damaged: parts of an earlier run that were not as they were written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[int, Path] = {}
        self.damaged = 0

    @contextlib.contextmanager
    def opened(self, made_from: Mapping[str, str], fresh: bool) -> Iterator[WorkFolder]:
        """The folder, locked, with the parts that were made from the same.

        Args:
            made_from: what the result depends on, by its name in words.
            fresh: drop what is there.

        Raises:
            InputError: another run is at it, it holds parts made from something else, or it cannot be written.
        """
        with self._locked():
            with self._writing():
                self._begin(dict(made_from), fresh)
            yield self

    def store(self, number: int, payload: bytes) -> None:
        """Keeps a chunk that is done.

        Raises:
            InputError: it cannot be written.
        """
        with self._writing():
            name = f"{number:06d}-{digest(payload)}.arrow"
            self._write(name, payload)
            self.kept[number] = self.path / name

    def stored(self) -> set[int]:
        """Numbers of the chunks whose parts lie in the folder now."""
        named = (_PART.fullmatch(path.name) for path in self._own_files())
        return {int(each[1]) for each in named if each}

    def parts(self) -> Iterator[bytes]:
        """The parts in the order of their chunks."""
        for number in sorted(self.kept):
            yield self.kept[number].read_bytes()

    def output(self, suffix: str) -> Path:
        """Where the output is written before it takes its place."""
        return self.path / f"{_OUTPUT}{suffix}"

    def publish(self, written: Path, output: Path) -> None:
        """Brings the written output to disk and gives it its name.

        Raises:
            InputError: it cannot be.
        """
        with self._writing():
            with written.open("rb+") as file:
                os.fsync(file.fileno())
            written.replace(output)
            _to_disk(output.parent)

    def remove(self) -> None:
        """Removes the folder; the manifest last, so that it tells of parts as long as there are any."""
        with self._writing():
            for path in self._own_files():
                path.unlink(missing_ok=True)
            (self.path / MANIFEST).unlink(missing_ok=True)
            (self.path / LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # somebody put a file of theirs there
                self.path.rmdir()

    def _begin(self, made_from: dict[str, str], fresh: bool) -> None:
        manifest = self._manifest()
        strangers = [path for path in self.path.iterdir() if path.name not in (LOCK, MANIFEST)]
        strangers = [path for path in strangers if path not in self._own_files()]
        if strangers and manifest is None:
            message = f"is in the way: it holds {printable(strangers[0].name)}, which is no part of a study"
            raise InputError(Problem("file-exists", str(self.path), message, "move it away, or name another output"))
        if not fresh and manifest is not None and manifest != made_from:
            raise InputError(self._differs(manifest, made_from))
        if fresh or manifest is None:
            for path in self._own_files():
                path.unlink()
            self._write(MANIFEST, json.dumps(made_from, indent=1).encode())
            return
        for path in self._own_files():
            named = _PART.fullmatch(path.name)
            if named and digest(path.read_bytes()) == named[2]:
                self.kept[int(named[1])] = path
            else:
                self.damaged += named is not None
                path.unlink()

    def _manifest(self) -> dict[str, str] | None:
        """What the parts were made from; None where nobody can tell."""
        try:
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _own_files(self) -> list[Path]:
        names = sorted(path.name for path in self.path.iterdir())
        begins = (_TEMPORARY, f"{_OUTPUT}.", f".{_OUTPUT}.")
        return [self.path / name for name in names if _PART.fullmatch(name) or name.startswith(begins)]

    def _differs(self, before: Mapping[str, str], now: Mapping[str, str]) -> Problem:
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        parts = sum(1 for path in self._own_files() if _PART.fullmatch(path.name))
        few = ", ".join(printable(name) for name in names[:4]) + (", ..." if len(names) > 4 else "")
        message = f"holds {counted(parts, 'part')} of a study that was not the same: {few} differ"
        if len(names) == 1:
            message += "s"
        fix = "add --fresh to drop them and start over, name another output, or undo the change"
        return Problem("study-changed", str(self.path), message, fix)

    def _write(self, name: str, payload: bytes) -> None:
        temporary = self.path / f"{_TEMPORARY}{name}"
        try:
            with temporary.open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _to_disk(self.path)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            fix = "make room or check its rights; what is done is kept, and the same command goes on"
            raise InputError(Problem("not-writable", str(self.path), f"cannot be written: {reason}", fix)) from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock, which the system gives back when its process ends, however it does."""
        with self._writing():
            file = self._lock_file()
        with file:
            yield

    def _lock_file(self) -> IO[bytes]:
        while True:
            self.path.mkdir(exist_ok=True)
            path = self.path / LOCK
            try:
                file = path.open("a+b")
            except FileNotFoundError:  # a run that is done has just removed the folder
                continue
            if not _lock(file):
                file.seek(0)
                holder = file.read(40).decode(errors="replace").strip()
                file.close()
                message = f"is in use by another run{f' (process {printable(holder)})' if holder else ''}"
                fix = "wait for it, stop it, or name another output"
                raise InputError(Problem("in-use", str(self.path), message, fix))
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    file.truncate(0)
                    file.write(str(os.getpid()).encode())
                    file.flush()
                    return file
            file.close()  # it is that of a folder which is no more


def _lock(file: IO[bytes]) -> bool:
    """Takes the lock of an open file; whether it was free."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            file.seek(2**20)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: better unlocked than not at all
    return True


def _to_disk(folder: Path) -> None:
    """Brings the names in a folder to disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
