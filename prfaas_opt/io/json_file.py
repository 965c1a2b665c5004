"""JSON files as documents: plain data that knows the line of each field; a key that stands twice is an error.

``Infinity`` and ``NaN`` are read, since Python's own writer, and so many a published config, puts them there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import DEEPEST, Document, FieldPath
from prfaas_opt.io.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_BYTES = 64 * 2**20
"""No file of this kind comes near; one of weights does not fill the memory."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')


def read_json_document(path: Path, kind: str) -> Document:
    """Reads a JSON file.

    Raises:
        InputError: the file is missing, unreadable, or not JSON.
    """
    name, text = read_text(path, kind, "JSON", LARGEST_BYTES)
    return parse_json_document(text, name, path.parent)


def parse_json_document(text: str, name: str, folder: Path | None = None) -> Document:
    """Parses JSON text.

    Raises:
        InputError: it is not JSON.
    """
    if not text.strip():
        raise InputError(Problem("empty-file", name, "is empty, expected JSON", "fill it in, or name another file"))
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{name}:{error.lineno}"
        at_the_end = not text[error.pos :].strip()
        what = "ends too early" if at_the_end else f"column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        fix = "fetch the file again" if at_the_end else "check commas, quotes and brackets near this line"
        raise InputError(Problem("not-json", where, f"is not JSON: {what}", fix)) from None
    except RecursionError:
        raise InputError(_too_deep(name)) from None
    except ValueError:  # more digits than Python reads
        message = "holds a number of thousands of digits, expected JSON"
        raise InputError(Problem("not-json", name, message, "write a number of ordinary size")) from None
    places = _Places(text, name)
    return Document(name, data, places.lines, folder, tuple(places.problems))


def _too_deep(where: str) -> Problem:
    return Problem("not-json", where, f"is nested deeper than {DEEPEST} levels", "check the brackets")


class _Places:
    """The line of each field of a text that is JSON, and the keys that stand twice."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens = _TOKEN.finditer(text)
        self._line = 1
        self.lines: dict[FieldPath, int] = {}
        self.problems: list[Problem] = []
        self._value(self._next(), ())

    def _next(self) -> str:
        for match in self._tokens:
            if match[0] != "\n":
                return match[0]
            self._line += 1
        return ""

    def _value(self, token: str, path: FieldPath) -> None:
        self.lines.setdefault(path, self._line)
        if len(path) > DEEPEST:
            raise InputError(_too_deep(f"{self._name}:{self._line}"))
        if token == "{":
            self._mapping(path)
        elif token == "[":
            self._list(path)

    def _mapping(self, path: FieldPath) -> None:
        first: dict[str, int] = {}
        token = self._next()
        while token != "}":
            if token != ",":
                key = json.loads(token)
                here = (*path, key)
                if key in first:
                    where = Document(self._name, None, {here: self._line}).where(here)
                    message = f"stands twice, first on line {first[key]}"
                    self.problems.append(Problem("duplicate-key", where, message, "keep one of them"))
                first.setdefault(key, self._line)
                self.lines[here] = self._line
                self._next()  # the colon
                self._value(self._next(), here)
            token = self._next()

    def _list(self, path: FieldPath) -> None:
        index, token = 0, self._next()
        while token != "]":
            if token != ",":
                self._value(token, (*path, index))
                index += 1
            token = self._next()
