"""Files of tables, opened by what they hold, not by what they are called."""

from __future__ import annotations

from pathlib import Path

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.archive import encrypted, read_names, refused
from prfaas_opt.sheets.book import MOST_FILE_BYTES, Book
from prfaas_opt.sheets.text_file import read_text_table

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def open_book(path: str | Path) -> Book:
    """The sheets of a file.

    Raises:
        InputError: it is missing, unreadable, hostile, or no file of tables.
    """
    path = Path(path)
    name = printable(str(path))
    data = _read(path, name)
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _archive(data, path.name if path.name.isprintable() else name)
    if data.startswith(_OLE):
        from prfaas_opt.sheets.xls import read_xls

        return read_xls(data, printable(path.name))
    if not data.strip():
        raise refused(name, "is empty, expected a table of scenarios", "fill it in, or name another file", "empty-file")
    return read_text_table(data, printable(path.name))


def _read(path: Path, name: str) -> bytes:
    try:
        if path.is_file() and path.stat().st_size > MOST_FILE_BYTES:
            message = f"is larger than {MOST_FILE_BYTES // 2**20} MiB, the most that is read"
            raise refused(name, message, "keep only the scenarios", "too-large")
        return path.read_bytes()
    except FileNotFoundError:
        problem = Problem("missing-file", name, "there is no such spreadsheet", "check the path")
    except IsADirectoryError:
        problem = Problem("missing-file", name, "is a folder, expected a spreadsheet", "name a file in it")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = Problem("unreadable-file", name, f"cannot be read: {reason}", "check the path and its rights")
    raise InputError(problem)


def _archive(data: bytes, name: str) -> Book:
    names = read_names(data, name)
    if "xl/workbook.xml" in names:
        from prfaas_opt.sheets.xlsx import read_xlsx

        return read_xlsx(data, name, names)
    if "encrypted-package" in names:
        raise encrypted(name)
    if "content.xml" in names:
        from prfaas_opt.sheets.ods import read_ods

        return read_ods(data, name, names)
    if "xl/workbook.bin" in names:
        message = "is a binary workbook (.xlsb), which does not show hidden rows and formulas"
        raise refused(name, message, "save it as .xlsx", "wrong-file")
    raise refused(name, "is an archive without a workbook", "save the table as .xlsx", "wrong-file")
