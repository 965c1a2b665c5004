"""Tables in text files: comma, semicolon or tab between cells, in whatever encoding programs write."""

from __future__ import annotations

import csv
import io
import re
from itertools import islice

from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.archive import refused
from prfaas_opt.sheets.book import MOST_CELLS, MOST_CHARACTERS, Book, Sheet, cleaned
from prfaas_opt.sheets.extent import check_size
from prfaas_opt.sheets.headers import topics

MOST_BYTES = 32 * 2**20
"""Of a text file."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""First bytes of texts by encoding, longer ones before those that they begin with."""
_SAMPLE_RECORDS = 200
_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
_ELSE = (
    (re.compile(rb"\s*(<!doctype html|<html|<table|<head|<body|<meta)", re.IGNORECASE), "a web page"),
    (re.compile(rb"\s*<\?xml|\s*<"), "XML"),
    (re.compile(rb"%PDF-"), "a PDF"),
    (re.compile(rb"\x1f\x8b|BZh|\xfd7zXZ|7z\xbc\xaf|Rar!"), "a packed file"),
    (re.compile(rb"\s*[{\[]"), "JSON"),
)


def read_text_table(data: bytes, name: str) -> Book:
    """The table in a text file.

    Raises:
        InputError: it is no text, or no table.
    """
    check_kind(data, name)
    if len(data) > MOST_BYTES:
        message = f"is larger than {MOST_BYTES // 2**20} MiB, the most that is read of text"
        raise refused(name, message, "keep only the scenarios", "too-large")
    text, encoding = _decoded(data, name)
    notes = []
    if encoding == "cp1252":
        notes.append("is not UTF-8; read as Windows-1252, check letters with accents")
    stated = _SEPARATOR.match(text)
    body = text[stated.end() :] if stated else text
    delimiter = stated[1] if stated else _delimiter(body)
    cells = body.count(delimiter) + body.count("\n") + body.count("\r\r")
    if cells > MOST_CELLS:
        message = f"has about {cells:,} cells, at most {MOST_CELLS:,} cells are read"
        raise refused(name, message, "keep only the scenarios", "too-large")
    previous = csv.field_size_limit(MOST_CHARACTERS)
    try:
        rows = [
            [cleaned(cell) for cell in record]
            for record in csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, skipinitialspace=True)
        ]
    except csv.Error as error:
        too_long = "field larger" in str(error)
        found = f"holds a cell of more than {MOST_CHARACTERS:,} characters" if too_long else f"is no table: {error}"
        fix = "look for a quotation mark that is never closed" if too_long else "save it anew as CSV, or as .xlsx"
        raise refused(name, found, fix, "too-large" if too_long else "wrong-file") from None
    finally:
        csv.field_size_limit(previous)
    if stated:
        rows.insert(0, [])
    check_size(name, len(rows), max(map(len, rows), default=0))
    short = printable(re.split(r"[/\\]", name)[-1])
    kind = "tsv" if delimiter == "\t" else "csv"
    return Book(name, kind, [Sheet(short, rows, is_text=True)], notes, encoding, DELIMITERS.get(delimiter, delimiter))


def check_kind(data: bytes, name: str) -> None:
    """Refuses what is plainly no table."""
    head = data[:4096].removeprefix(b"\xef\xbb\xbf")
    for pattern, what in _ELSE:
        if pattern.match(head):
            message = f"is {what}, expected a spreadsheet or a table in text"
            fix = "open it in a spreadsheet program and save it as .xlsx" if what in ("a web page", "XML") else ""
            raise refused(name, message, fix or "name the table itself", "wrong-file")


def _decoded(data: bytes, name: str) -> tuple[str, str]:
    """The text and its encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding.upper().removesuffix("-SIG")
            except UnicodeDecodeError:
                raise _no_text(name) from None
    if b"\0" in data:
        # UTF-16 without a mark: every other byte of plain letters is zero.
        half = data[:2000]
        even, odd = half[0::2].count(0), half[1::2].count(0)
        if max(even, odd) < 0.6 * len(half) / 2 or min(even, odd) > 0.1 * len(half) / 2:
            raise _no_text(name)
        try:
            text = data.decode("utf-16-le" if odd > even else "utf-16-be")
        except UnicodeDecodeError:
            raise _no_text(name) from None
        return text, "UTF-16"
    try:
        return data.decode("utf-8"), "UTF-8"
    except UnicodeDecodeError:
        pass
    controls = sum(1 for byte in data[:4096] if byte < 32 and byte not in (9, 10, 12, 13))
    if controls:
        raise _no_text(name)
    return data.decode("cp1252", errors="replace"), "cp1252"


def _no_text(name: str) -> Exception:
    return refused(name, "is neither a spreadsheet nor text", "save it as .xlsx, or as CSV in UTF-8", "wrong-file")


def _delimiter(text: str) -> str:
    """What stands between cells: that with which most headers are known, then most records have as many cells."""
    best, best_score = ",", (0, 0.0, 0)
    sample = text[:200_000]
    for candidate in DELIMITERS:
        try:
            lines = csv.reader(io.StringIO(sample, newline=""), delimiter=candidate, skipinitialspace=True)
            records = list(islice(lines, _SAMPLE_RECORDS))
        except csv.Error:
            continue
        widths = [len(record) for record in records if any(cell.strip() for cell in record)]
        several = [width for width in widths if width > 1]
        if several:
            usual = max(set(several), key=several.count)
            known = max(sum(1 for cell in record if topics(cleaned(cell))) for record in records)
            score = (known, several.count(usual) / len(widths), usual)
            if score > best_score:
                best, best_score = candidate, score
    return best
