"""CSV files of measured prefill latencies: a column of lengths, a column of latencies with its unit in the heading."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.printed import half_of_last_digit
from prfaas_opt.io.wording import printable, shown

if TYPE_CHECKING:
    from pathlib import Path

_LENGTH = re.compile(r"(prompt_?|input_?)?lengths?([ _(\[]*tokens[)\]]?)?", re.IGNORECASE)
_LATENCY = re.compile(r"(?:(?:prefill[ _]?)?latency|prefill)(?:[ _]*[(\[]?(?P<unit>[a-z]+)[)\]]?)?", re.IGNORECASE)
_PLAUSIBLE_S = (1e-7, 1e7)
_MOST_SHOWN = 10
_LARGEST_BYTES = 64 * 2**20
_LEAST_LENGTHS = 3


@dataclass(frozen=True)
class MeasuredPoints:
    """Points as a file has them.

    Attributes:
        lengths: tokens, one a point, in the file's order.
        latencies_s: of each.
        half_widths_s: half a unit of the last digit of each latency.
        lines: of the file, one a point.
        ignored: columns that were not read.
    """

    lengths: tuple[int, ...]
    latencies_s: tuple[float, ...]
    half_widths_s: tuple[float, ...]
    lines: tuple[int, ...]
    ignored: tuple[str, ...]


def read_points(path: Path) -> MeasuredPoints:
    """Reads a CSV file; comma, semicolon or tab between the columns, ``#`` before a comment.

    Raises:
        InputError: all that is wrong with it.
    """
    name = printable(str(path))
    rows = _rows(_text(path, name))
    if not rows:
        raise InputError(Problem("empty-file", name, "is empty, expected measured points", "fill it in"))
    (line, heading), *body = rows
    length_at, latency_at, factor = _columns(heading, f"{name}:{line}")
    reader = _Reader(name, heading[length_at], heading[latency_at])
    found = [reader.point(number, cells, length_at, latency_at, factor, len(heading)) for number, cells in body]
    points = [point for point in found if point is not None]
    reader.check_lengths(points, len(body))
    reader.raise_problems()
    ignored = tuple(h for i, h in enumerate(heading) if i not in (length_at, latency_at))
    lengths, latencies, halves, lines = zip(*points, strict=True)
    return MeasuredPoints(lengths, latencies, halves, lines, ignored)


def _text(path: Path, name: str) -> str:
    try:
        if path.is_file() and path.stat().st_size > _LARGEST_BYTES:
            message = f"is larger than {_LARGEST_BYTES // 2**20} MiB, expected a CSV file of points"
            raise InputError(Problem("wrong-file", name, message, "name the file itself"))
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(Problem("missing-file", name, "there is no such CSV file", "check the path")) from None
    except IsADirectoryError:
        raise InputError(
            Problem("missing-file", name, "is a folder, expected a CSV file", "name a file in it")
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = Problem("unreadable-file", name, f"cannot be read: {reason}", "check the path and its rights")
        raise InputError(problem) from None
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            Problem("wrong-file", name, "is not text in UTF-8, expected a CSV file", "save it as CSV UTF-8")
        )
    return text


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """Lines with their cells; empty lines and comments left out."""
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"]
    if not numbered:
        return []
    delimiter = max(",;\t", key=numbered[0][1].count)
    return [(number, _cells(line, delimiter)) for number, line in numbered if line.strip(f"{delimiter} ")]


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return [line]


def _columns(heading: list[str], where: str) -> tuple[int, int, float]:
    """The columns of length and latency, and seconds of a unit of the latter."""
    problems = []
    known = " or ".join(f"latency_{unit}" for unit in units.TIME_SUFFIXES)
    matches = {"length": [i for i, h in enumerate(heading) if _LENGTH.fullmatch(h)], "latency": []}
    matches["latency"] = [i for i, h in enumerate(heading) if _LATENCY.fullmatch(h)]
    expected = {"length": "length_tokens", "latency": known}
    for what, found in matches.items():
        if len(found) != 1:
            columns = ", ".join(shown(heading[i]) for i in found) if found else "none"
            message = f"found {columns} for the {what}, expected one column {expected[what]}"
            problems.append(Problem("ambiguous" if found else "missing-column", where, message, "name it so"))
    factor = None
    if len(matches["latency"]) == 1:
        title = heading[matches["latency"][0]]
        match = _LATENCY.fullmatch(title)
        unit = (match["unit"] or "").casefold() if match else ""
        factor = units.TIME_SUFFIXES.get(unit)
        if factor is None:
            message = f"{shown(title)} has {'no unit' if not unit else 'an unknown unit'}, expected {known}"
            problems.append(Problem("bad-unit", where, message, "put the unit into the heading"))
    if problems or factor is None:
        raise InputError(problems)
    return matches["length"][0], matches["latency"][0], factor


class _Reader:
    """Reads points and notes what is wrong with them."""

    def __init__(self, name: str, length_column: str, latency_column: str) -> None:
        self._name, self._length_column, self._latency_column = (
            name,
            printable(length_column),
            printable(latency_column),
        )
        self._problems: list[Problem] = []

    def point(
        self, line: int, cells: list[str], length_at: int, latency_at: int, factor: float, width: int
    ) -> tuple[int, float, float, int] | None:
        """Length, latency, half of its last digit, and line."""
        if len(cells) != width:
            message = f"found {len(cells)} cells, expected {width}, as in the heading"
            self._add("length-mismatch", line, "", message, "give every row all columns; quote cells with commas")
            return None
        length = self._length(line, cells[length_at])
        latency = self._latency(line, cells[latency_at], factor)
        if length is None or latency is None:
            return None
        return length, latency, half_of_last_digit(cells[latency_at]) * factor, line

    def _length(self, line: int, text: str) -> int | None:
        where = self._length_column
        try:
            tokens = units.parse_tokens(text)
        except units.UnitError as error:
            self._add("bad-unit", line, where, str(error), error.fix)
            return None
        if not 1 <= tokens <= units.LONGEST_TOKENS:
            message = f"found {tokens:,}, expected 1 to {units.LONGEST_TOKENS:,} tokens"
            self._add("out-of-range", line, where, message, "check it")
            return None
        return tokens

    def _latency(self, line: int, text: str, factor: float) -> float | None:
        where = self._latency_column
        try:
            value = float(text)
        except ValueError:
            self._add("wrong-type", line, where, f"found {shown(text)}, expected a number", "write the number alone")
            return None
        if not math.isfinite(value):
            message = f"found {shown(text)}, expected a finite number"
            self._add("not-finite", line, where, message, "leave the row out if nothing was measured")
        elif value <= 0:
            message = f"found {shown(text)}, expected a positive latency"
            self._add("out-of-range", line, where, message, "leave the row out if nothing was measured")
        elif not _PLAUSIBLE_S[0] <= value * factor <= _PLAUSIBLE_S[1]:
            message = f"gives a latency of {value * factor:.3g} s, expected 0.1 us to 10 million s"
            self._add("implausible", line, where, message, "check the unit in the heading")
        else:
            return value * factor
        return None

    def check_lengths(self, points: list[tuple[int, float, float, int]], rows: int) -> None:
        """Notes that the lengths do not determine three coefficients; judged only where all rows could be read."""
        different = len({length for length, *_ in points})
        if different >= _LEAST_LENGTHS or len(points) < rows:
            return
        found = (
            f"all points are of one length, {points[0][0]:,} tokens" if different == 1 else f"found {different} lengths"
        )
        message = f"{found}, expected {_LEAST_LENGTHS} different ones or more: the curve has three coefficients"
        self._problems.append(Problem("too-short", self._name, message, "measure at more lengths"))

    def _add(self, code: str, line: int, column: str, message: str, fix: str) -> None:
        self._problems.append(Problem(code, f"{self._name}:{line} {column}".strip(), message, fix))

    def raise_problems(self) -> None:
        """Raises what was noted; of very many only the first."""
        if not self._problems:
            return
        rest = len(self._problems) - _MOST_SHOWN
        more = [Problem("more", self._name, f"{rest} more such problems", "mend these first")] if rest > 0 else []
        raise InputError([*self._problems[:_MOST_SHOWN], *more])
