"""Plain data that remembers where each value stands, so that an error can name file, line and field."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from prfaas_opt.errors import Problem
from prfaas_opt.io.wording import printable

if TYPE_CHECKING:
    from pathlib import Path

Key = str | int
FieldPath = tuple[Key, ...]

DEEPEST = 40
"""Levels of nesting that are read; no file of this program needs ten."""


class _Unreadable:
    """Stands for a value that its document has complained about already."""

    def __str__(self) -> str:
        return "an unreadable value"


UNREADABLE: Final = _Unreadable()


def dotted(path: FieldPath) -> str:
    """A field path as people write it.

    >>> dotted(("profiles", 0, "decode", "batch"))
    'profiles[0].decode.batch'
    """
    text = ""
    for key in path:
        name = printable(key) or '""' if isinstance(key, str) else f"[{key}]"
        text += f".{name}" if text and isinstance(key, str) else name
    return text


def _after(field_path: str) -> str:
    """A field path as it goes on after a place."""
    return f".{field_path}" if field_path and not field_path.startswith("[") else field_path


@dataclass
class Document:
    """Plain data with the line of every field.

    Attributes:
        name: as errors call it: a file's name, or what stands for one.
        data: mappings with text keys, lists, texts, numbers, booleans, None and ``UNREADABLE``.
        lines: the line of each field, where it has one; 0 for fields that an override put there.
        folder: where relative paths in it start; None for data without a file.
        problems: what is wrong with it whatever its fields mean, such as a key that stands twice.
        made: mappings that exist only because an override names a field inside them.
        places: where fields that were put there from elsewhere stand, for errors; without one: in ``--set``.
    """

    name: str
    data: Any
    lines: dict[FieldPath, int] = field(default_factory=dict)
    folder: Path | None = None
    problems: tuple[Problem, ...] = ()
    made: frozenset[FieldPath] = frozenset()
    places: dict[FieldPath, str] = field(default_factory=dict)

    def where(self, path: FieldPath = ()) -> str:
        """File, line and field of a value, for an error.

        A field that an override put there is said to stand in the override, or where ``places`` has it.
        """
        for end in range(len(path), -1, -1):
            place = self.places.get(path[:end])
            if place is not None:
                return f"{place}{_after(dotted(path[end:]))}"
            line = self.lines.get(path[:end])
            if line is not None:
                return f"{self.name}:{line} {dotted(path)}".strip() if line else f"--set {dotted(path)}"
        return f"{self.name} {dotted(path)}".strip()

    def at(self, path: FieldPath) -> Any:
        """The value at a path that exists."""
        value = self.data
        for key in path:
            value = value[key]
        return value


def plain_document(data: Any, name: str) -> Document:
    """A document from Python objects: mappings, lists, tuples, paths, and numpy's numbers and arrays.

    >>> plain_document({"lengths": (1, 2)}, "scenario").data
    {'lengths': [1, 2]}
    """
    reader = _PlainReader(name)
    value = reader.value(data, (), ())
    return Document(name, value, problems=tuple(reader.problems))


class _PlainReader:
    """Copies Python objects into plain data and notes what is none."""

    def __init__(self, name: str) -> None:
        self._document = Document(name, None)
        self.problems: list[Problem] = []

    def value(self, value: Any, path: FieldPath, inside: tuple[int, ...]) -> Any:
        """The plain form of a value that stands inside the objects with these ids."""
        if hasattr(value, "tolist"):
            value = value.tolist()
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, PurePath):
            return str(value)
        if not isinstance(value, Mapping | list | tuple):
            return self._refuse(path, f"found a Python {type(value).__name__}, expected plain data")
        if id(value) in inside:
            return self._refuse(path, "is part of itself, expected plain data")
        if len(inside) >= DEEPEST:
            return self._refuse(path, f"is nested deeper than {DEEPEST} levels, expected plain data")
        inside = (*inside, id(value))
        if isinstance(value, Mapping):
            return self._mapping(value, path, inside)
        return [self.value(item, (*path, i), inside) for i, item in enumerate(value)]

    def _mapping(self, mapping: Mapping[Any, Any], path: FieldPath, inside: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in mapping.items():
            name = str(key)
            if isinstance(key, bool) or not isinstance(key, str | int):
                self._refuse(path, f"has the key {key!r}, expected keys that are texts")
            elif name in data:
                self._refuse((*path, name), "stands twice, as a text and as a number", "duplicate-key")
            else:
                data[name] = self.value(value, (*path, name), inside)
        return data

    def _refuse(self, path: FieldPath, message: str, code: str = "wrong-type") -> _Unreadable:
        fix = "give mappings, lists, texts and numbers as a YAML file would"
        self.problems.append(Problem(code, self._document.where(path), message, fix))
        return UNREADABLE
