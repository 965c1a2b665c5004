"""Files of benchmarks as records: JSON (several texts in one file as well), npz and CSV become mappings with lines.

What is packed with gzip is read as what is in it.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document, FieldPath
from prfaas_opt.io.json_file import LARGEST_BYTES, parse_json_document
from prfaas_opt.io.scalars import POSITIVE, Number
from prfaas_opt.io.spec import INVALID, Context
from prfaas_opt.io.wording import counted, printable, shown

if TYPE_CHECKING:
    from pathlib import Path

    from prfaas_opt.io.spec import Kind

_SPACE, _LINE = re.compile(r"\s*"), re.compile(r"[^\n]*")
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_FIX = "take the file as the tool wrote it, or leave the run out"
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"


class Fields:
    """A mapping of a file, and what was wrong with it so far."""

    def __init__(self, context: Context, path: FieldPath, mapping: Mapping[str, Any]) -> None:
        self._context, self._path, self.mapping = context, path, mapping

    @property
    def where(self) -> str:
        """File and line of the mapping."""
        return self._context.document.where(self._path)

    def place(self, name: str) -> str:
        """File, line and name of a field."""
        return self._context.document.where((*self._path, name))

    def value(self, name: str) -> Any:
        """What a field holds, unread; None where it is not there."""
        return self.mapping.get(name)

    def states(self, name: str) -> bool:
        """Whether a field says anything; ``null`` says nothing."""
        return self.mapping.get(name) is not None

    def number(self, *names: str, kind: Kind = POSITIVE) -> float | None:
        """A number, positive unless ``kind`` is another, of the first field that is stated; None where it is wrong."""
        name = next((name for name in names if self.states(name)), names[0])
        if name not in self.mapping:
            self.refuse(name, "missing-key", f"is missing, expected {kind.expected}", _FIX)
            return None
        return self._read(kind, self.mapping[name], (*self._path, name))

    def optional(self, name: str, kind: Kind = POSITIVE) -> float | None:
        """A number where the field states one."""
        return self.number(name, kind=kind) if self.states(name) else None

    def numbers(self, name: str, kind: Kind = POSITIVE) -> list[float] | None:
        """A list of numbers, one at least; None where it is missing or wrong."""
        value = self.value(name)
        if not isinstance(value, list) or not value:
            code = "wrong-type" if name in self.mapping else "missing-key"
            self.refuse(name, code, f"found {shown(value)}, expected a list of numbers", _FIX)
            return None
        read = [self._read(kind, item, (*self._path, name, i)) for i, item in enumerate(value)]
        numbers = [item for item in read if item is not None]
        return numbers if len(numbers) == len(read) else None

    def _read(self, kind: Kind, value: Any, path: FieldPath) -> float | None:
        """A number; a problem that has no fix gets one."""
        problems = self._context.problems
        before = len(problems)
        read = kind.read(self._context, value, path)
        problems[before:] = [p if p.fix else dataclasses.replace(p, fix=_FIX) for p in problems[before:]]
        return None if read is INVALID else float(read)

    def inside(self, *names: str) -> Fields:
        """The fields of a mapping inside; every field of it is missing where there is none."""
        value, path = self.mapping, self._path
        for name in names:
            inner = value.get(name)
            value, path = inner if isinstance(inner, dict) else {}, (*path, name)
        return Fields(self._context, path, value)

    def each(self, name: str) -> list[Fields]:
        """The mappings in a list; what is none is noted."""
        items = self.value(name)
        found = []
        for i, item in enumerate(items if isinstance(items, list) else []):
            path = (*self._path, name, i)
            if isinstance(item, dict):
                found.append(Fields(self._context, path, item))
            else:
                self._context.add(path, "wrong-type", f"found {shown(item)}, expected a mapping", _FIX)
        return found

    def refuse(self, name: str, code: str, message: str, fix: str = "") -> None:
        """Notes that a field is wrong, or the whole mapping where ``name`` is empty."""
        self._context.add((*self._path, name) if name else self._path, code, message, fix)


@dataclass(frozen=True)
class BenchmarkFile:
    """A file as the readers of formats get it.

    Attributes:
        path: where it is.
        name: as errors call it.
        kind: ``metrics`` is a CSV of several tables whose first heading is "Metric".
        contexts: one a text of JSON; one for any other file.
        records: the mappings of a JSON file; the arrays of an npz; the rows of a CSV; one record of metrics.
        columns: headings of a CSV.
    """

    path: Path
    name: str
    kind: Literal["json", "npz", "csv", "metrics"]
    contexts: tuple[Context, ...]
    records: tuple[Fields, ...]
    columns: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the first record."""
        return frozenset(self.records[0].mapping) if self.records else frozenset(self.columns)


def read_benchmark_file(path: Path) -> BenchmarkFile:
    """Reads a file whatever its format.

    Raises:
        InputError: it is missing, unreadable, or neither JSON, npz nor CSV.
    """
    name = printable(str(path))
    raw = _bytes(path, name)
    if raw.startswith(_GZIP):
        raw = _unpacked(raw, name)
    if raw.startswith(_ZIP):
        return _of_documents(path, name, "npz", [_npz(raw, name)])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"holds the byte 0x{raw[error.start]:02x}, expected UTF-8 text or an npz"
        raise InputError(Problem("unreadable-file", f"{name}:{line}", what, "name the benchmark's output")) from None
    if not text.strip():
        raise InputError(Problem("empty-file", name, "is empty, expected a benchmark's output", "run it again"))
    if text.lstrip()[0] in "{[" or _titled_json(text):
        return _of_documents(path, name, "json", _json_documents(text, name))
    return _csv(path, name, text)


def _bytes(path: Path, name: str) -> bytes:
    try:
        if path.is_file() and path.stat().st_size > LARGEST_BYTES:
            raise InputError(_too_large(name))
        return path.read_bytes()
    except FileNotFoundError:
        problem = Problem("missing-file", name, "there is no such file", "check the path")
    except IsADirectoryError:
        problem = Problem("missing-file", name, "is a folder, expected a benchmark's output", "name the files in it")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = Problem("unreadable-file", name, f"cannot be read: {reason}", "check the path and its rights")
    raise InputError(problem)


def _unpacked(raw: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            unpacked = file.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        message = f"cannot be unpacked as gzip: {error}"
        raise InputError(Problem("unreadable-file", name, message, "fetch the file again")) from None
    if len(unpacked) > LARGEST_BYTES:
        raise InputError(_too_large(name))
    return unpacked


def _too_large(name: str) -> Problem:
    message = f"is larger than {LARGEST_BYTES // 2**20} MiB, expected a benchmark's summary"
    return Problem("wrong-file", name, message, "name the summary, not the records of each request")


def _of_documents(
    path: Path, name: str, kind: Literal["json", "npz", "csv", "metrics"], documents: list[Document]
) -> BenchmarkFile:
    contexts = tuple(Context(document) for document in documents)
    records = []
    for context in contexts:
        data = context.document.data
        items: list[tuple[Any, Any]] = list(enumerate(data)) if isinstance(data, list) else [((), data)]
        for key, item in items:
            place: FieldPath = () if isinstance(key, tuple) else (key,)
            if isinstance(item, dict):
                records.append(Fields(context, place, item))
            elif item is not None or place:
                context.add(place, "wrong-type", f"found {shown(item)}, expected the mapping of a run", _FIX)
    return BenchmarkFile(path, name, kind, contexts, tuple(records))


def _titled_json(text: str) -> bool:
    """Whether lines that end in a colon stand before and between texts of JSON."""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("{"):
            return True
        if line and not line.endswith(":"):
            return False
    return False


def _json_documents(text: str, name: str) -> list[Document]:
    """The texts of JSON that follow each other, on a line each or not; lines that end in a colon are titles."""
    documents: list[Document] = []
    decoder, position, line = json.JSONDecoder(), 0, 0
    while True:
        start = _end_of(_SPACE, text, position)
        line += text.count("\n", position, start)
        if start == len(text):
            return documents
        if text[start] not in "{[":
            position = _end_of(_LINE, text, start)
            if text[start:position].rstrip().endswith(":"):
                continue
            message = f"found {shown(text[start:position].strip())}, expected JSON"
            raise InputError(Problem("not-json", f"{name}:{line + 1}", message, "take the line out"))
        try:
            _, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = len(text)
        documents.append(_parsed(text[start:position], name, line))
        line += text.count("\n", start, position)


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _parsed(text: str, name: str, lines_before: int) -> Document:
    try:
        document = parse_json_document(text, name)
    except InputError:
        return parse_json_document("\n" * lines_before + text, name)  # raises, with the line in the file
    if document.problems:
        return parse_json_document("\n" * lines_before + text, name)
    lines = {path: line + lines_before for path, line in document.lines.items()}
    return Document(name, document.data, lines)


def _npz(raw: bytes, name: str) -> Document:
    import numpy as np

    fix = "name the .npz that the profiler wrote"
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST_BYTES:
            message = f"unpacks to more than {LARGEST_BYTES // 2**20} MiB, expected a few arrays"
            raise InputError(Problem("wrong-file", name, message, fix))
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            data = {key: arrays[key].tolist() for key in arrays.files if hasattr(arrays[key], "tolist")}
    except (ValueError, OSError, EOFError, KeyError, MemoryError, NotImplementedError, zipfile.BadZipFile) as error:
        what = printable(str(error)) or type(error).__name__
        raise InputError(Problem("not-npz", name, f"cannot be read as arrays: {what}", fix)) from None
    except Exception as error:  # zlib and the parser of array headers have errors of their own
        what = f"cannot be read as arrays: {type(error).__name__}"
        raise InputError(Problem("not-npz", name, what, fix)) from None
    return Document(name, data)


def _csv(path: Path, name: str, text: str) -> BenchmarkFile:
    sample = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=sample.count)
    try:
        reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        message = f"is neither JSON nor CSV: {error}"
        raise InputError(Problem("not-csv", name, message, "name the benchmark's output")) from None
    rows = [(line, row) for line, row in rows if any(row) and not row[0].startswith("#")]
    if not rows:
        raise InputError(Problem("empty-file", name, "has no rows, expected a benchmark's output", "run it again"))
    columns = tuple(rows[0][1])
    if columns[0] == "Metric":
        document = _metrics(name, rows)
        found = _of_documents(path, name, "metrics", [document])
    else:
        found = _of_documents(path, name, "csv", _table(name, columns, rows[1:]))
    return BenchmarkFile(path, name, found.kind, found.contexts, found.records, columns)


def _table(name: str, columns: tuple[str, ...], rows: list[tuple[int, list[str]]]) -> list[Document]:
    """A document a row, and one that holds what is wrong with the table."""
    documents, problems = [], []
    for line, row in rows:
        if len(row) != len(columns):
            message = f"found {counted(len(row), 'cell')}, expected {len(columns)}, one for each heading"
            fix = "write numbers without thousands separators" if len(row) > len(columns) else "fill in what is missing"
            problems.append(Problem("length-mismatch", f"{name}:{line}", message, fix))
            continue
        data = {column: _value(cell) for column, cell in zip(columns, row, strict=False)}
        documents.append(Document(name, data, {(): line}))
    twice = {column for column in columns if columns.count(column) > 1}
    problems += [
        Problem("duplicate-key", f"{name}:1 {printable(column)}", "stands twice, expected one such column", "keep one")
        for column in sorted(twice)
    ]
    return [*documents, Document(name, None, problems=tuple(problems))]


def _metrics(name: str, rows: list[tuple[int, list[str]]]) -> Document:
    """Stacked tables, each with a heading that begins with "Metric", as one mapping of metrics."""
    data: dict[str, dict[str, Any]] = {}
    lines: dict[FieldPath, int] = {(): rows[0][0]}
    heading: list[str] = []
    for line, row in rows:
        if row[0] == "Metric":
            heading = row[1:]
        elif row[0] == "Endpoint":
            break  # tables of GPU telemetry follow
        else:
            cells = [cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell for cell in row[1:]]
            data[row[0]] = {column: _value(cell) for column, cell in zip(heading, cells, strict=False) if cell}
            lines[(row[0],)] = line
    return Document(name, data, lines)


def _value(cell: str) -> float | int | str | None:
    """The number in a cell, or its text; nothing where it is empty."""
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell) if "_" not in cell else cell
        except ValueError:
            continue
    return cell


NOT_NEGATIVE_COUNT = Number("a whole number, 0 or more", minimum=0, whole=True)
