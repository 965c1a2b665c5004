"""Zip archives that hold a workbook, opened with care: what they hold is bounded before anything else reads it."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_ENTRIES = 2_000
"""Of an archive."""
MOST_INFLATED_BYTES = 96 * 2**20
"""Of all parts that are read."""

_CHUNK_BYTES = 2**18
_NESTED = (".zip", ".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".7z", ".rar", ".gz", ".bz2", ".xz", ".tar", ".jar")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DECLARED_TYPE = re.compile(rb"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
_ENCODING = re.compile(rb"""^<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']{1,40})["']""")


class Parts(dict[str, bytes]):
    """The parts of an archive by name."""

    def packed(self) -> io.BytesIO:
        """A plain archive of these parts: what is read from it is what was looked at."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, part in self.items():
                archive.writestr(zipfile.ZipInfo(name), part)
        file.seek(0)
        return file


def refused(name: str, found: str, fix: str, code: str = "hostile-file") -> InputError:
    """The error of a file that is not read for what it holds."""
    return InputError(Problem(code, name, found, fix))


def read_names(data: bytes, name: str) -> list[str]:
    """The names of an archive's entries, none of them a trick.

    Raises:
        InputError: the archive is damaged, or no workbook would look like it.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error, OSError) as error:
        raise _damaged(name, error) from None
    fix = "open it in a spreadsheet program and save it as .xlsx"
    if len(entries) > MOST_ENTRIES:
        raise refused(name, f"holds {len(entries):,} parts, at most {MOST_ENTRIES:,} are read", fix)
    seen: set[str] = set()
    for entry in entries:
        shown = printable(entry.filename)
        parts = entry.orig_filename.replace("\\", "/").split("/")
        if ".." in parts or entry.orig_filename[:1] in ("/", "\\") or ":" in parts[0] or "\0" in entry.orig_filename:
            raise refused(name, f'holds a part named "{shown}", expected names inside the workbook', fix)
        if entry.filename in seen:
            raise refused(name, f'holds "{shown}" twice, expected each part once', fix)
        if entry.filename.lower().endswith(_NESTED) and "/embeddings/" not in entry.filename:
            raise refused(name, f'holds the archive "{shown}", expected the parts of a workbook', fix)
        if entry.flag_bits & 0x1:
            raise encrypted(name)
        seen.add(entry.filename)
    return [entry.filename for entry in entries]


def encrypted(name: str) -> InputError:
    """The error of a workbook with a password."""
    message = "is encrypted, expected a workbook without a password"
    return refused(name, message, "open it, remove the password and save it", "encrypted-file")


def _damaged(name: str, error: Exception) -> InputError:
    reason = printable(str(error)) or type(error).__name__
    message = f"is no complete workbook: {reason}"
    return refused(
        name, message, "open it in a spreadsheet program and save it anew, or fetch it again", "damaged-file"
    )


def read_parts(data: bytes, name: str, wanted: Callable[[str], bool]) -> Parts:
    """The XML parts of an archive that are wanted.

    Raises:
        InputError: they are larger than any workbook of scenarios, damaged, or do what only an attack does.
    """
    parts, total = Parts(), 0
    most = f"{MOST_INFLATED_BYTES // 2**20} MiB"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if wanted(entry.filename)]
            declared = sum(entry.file_size for entry in entries)
            if declared > MOST_INFLATED_BYTES:
                message = f"holds {declared / 2**20:,.0f} MiB of tables, at most {most} are read"
                raise refused(name, message, "keep only the sheets and rows that are scenarios", "too-large")
            for entry in entries:
                if entry.compress_type not in _METHODS:
                    raise refused(name, "is packed in a way that no workbook is", "save it anew as .xlsx", "wrong-file")
                part = _inflated(archive, entry)
                total += len(part)
                if total > MOST_INFLATED_BYTES:
                    raise refused(name, f"holds more than {most} of tables", "keep only the scenarios", "too-large")
                check_xml(part, f"{name} ({printable(entry.filename)})")
                parts[entry.filename] = part
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, struct.error, OSError) as error:
        raise _damaged(name, error) from None
    except RuntimeError:
        raise encrypted(name) from None
    return parts


def _inflated(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A part of at most the size that it declares: what packs more is not unpacked any further."""
    with archive.open(entry) as file:
        return b"".join(iter(lambda: file.read(_CHUNK_BYTES), b""))


def check_xml(part: bytes, name: str) -> None:
    """Refuses XML that declares a document type or entities, or is not UTF-8."""
    encoding = _ENCODING.match(part.removeprefix(b"\xef\xbb\xbf"))
    utf8 = not encoding or encoding[1].lower() in (b"utf-8", b"utf8", b"us-ascii", b"ascii")
    if part[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in part[:4] or not utf8:
        raise refused(name, "is not UTF-8, expected the XML of a workbook", "save it anew as .xlsx", "wrong-file")
    declared = _DECLARED_TYPE.search(part)
    if declared:
        message = f"declares a {declared[1].decode()}, which no workbook needs and attacks use"
        raise refused(name, message, "open it in a spreadsheet program and save it as .xlsx")
