"""Field specifications: one declaration validates a file, words its errors and yields its JSON Schema.

A ``Kind`` reads a value at a path of a document. It returns what it read, in SI units, or ``INVALID`` after
it has added to the context's problems; reading goes on, so that a file's errors come all at once. Here are
the kinds that hold others; ``scalars`` has texts, numbers and quantities.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct, field

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import UNREADABLE, Document, FieldPath, dotted
from prfaas_opt.io.wording import closest, counted, did_you_mean, shown, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = [
    "INVALID",
    "REQUIRED",
    "Context",
    "Either",
    "Field",
    "Kind",
    "ListOf",
    "MapOf",
    "OneOrMore",
    "Record",
    "Tagged",
    "Variants",
    "read_whole",
    "same_length",
    "suggestion",
    "wrong",
]


class _Invalid:
    """Stands for a value that could not be read; falsy and unequal to anything else."""

    def __bool__(self) -> bool:
        return False


INVALID: Final = _Invalid()
REQUIRED: Final = object()


@dataclass
class Context:
    """The document being read and what was wrong with it so far."""

    document: Document
    problems: list[Problem] = member(default_factory=list)

    def __post_init__(self) -> None:
        self.problems += self.document.problems

    def add(self, path: FieldPath, code: str, message: str, fix: str = "") -> _Invalid:
        """Notes a problem at a field."""
        self.problems.append(Problem(code, self.document.where(path), message, fix))
        return INVALID

    def raise_problems(self) -> None:
        """Raises all that was noted, each thing once, if anything was."""
        if self.problems:
            raise InputError(sorted(dict.fromkeys(self.problems), key=self._line))

    def _line(self, problem: Problem) -> float:
        """The line of a problem in this document; what stands elsewhere comes last."""
        line = problem.where.removeprefix(f"{self.document.name}:").partition(" ")[0]
        return int(line) if line.isdecimal() else math.inf


class Kind(Protocol):
    """What a field may hold."""

    @property
    def expected(self) -> str:
        """What errors say the field should hold."""

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The value in SI units, or INVALID."""

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""


def wrong(kind: Kind, context: Context, value: Any, path: FieldPath, fix: str = "") -> _Invalid:
    """Notes that a value is not what its field holds."""
    if value is UNREADABLE:
        return INVALID
    code = "not-finite" if isinstance(value, float) and not math.isfinite(value) else "wrong-type"
    return context.add(path, code, f"found {shown(value)}, expected {kind.expected}", fix)


class ListOf(Struct, frozen=True):
    """A list of values of one kind."""

    item: Kind
    least: int = 1
    ascending: bool = False

    @property
    def expected(self) -> str:
        """What the list holds."""
        least = f" of {self.least} or more" if self.least else ""
        return f"a list{least}, each {self.item.expected}"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A tuple of what was read."""
        if not isinstance(value, list):
            return wrong(self, context, value, path, 'write it as a list: [..., ...], or one item a line after "- "')
        if len(value) < self.least:
            message = f"found {shown(value)}, expected {self.expected}"
            return context.add(path, "too-short", message, "add what is missing")
        before = len(context.problems)
        items = [self.item.read(context, item, (*path, i)) for i, item in enumerate(value)]
        if any(item is INVALID for item in items):
            if not any(isinstance(item, dict | list) for item in value):
                context.problems[before:] = _one_of_each_code(context.problems[before:])
            return INVALID
        if self.ascending:
            for i in range(1, len(items)):
                if items[i] <= items[i - 1]:
                    return self._not_ascending(context, (*path, i), value, items[i] == items[i - 1])
        return tuple(items)

    @staticmethod
    def _not_ascending(context: Context, path: FieldPath, value: list[Any], repeats: bool) -> _Invalid:
        index = int(path[-1])
        found = f"found {shown(value[index])} after {shown(value[index - 1])}, expected an ascending list"
        if repeats:
            return context.add(path, "not-ascending", f"{found} without repetition", "keep one of the two points")
        fix = "sort the points by this column, the other column along with it"
        return context.add(path, "not-ascending", found, fix)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "array", "items": self.item.schema(), "minItems": self.least}


def _one_of_each_code(problems: Sequence[Problem]) -> list[Problem]:
    """The first problem of each kind, which says how many more items of the list have it."""
    counts = Counter(problem.code for problem in problems)
    first = {problem.code: problem for problem in reversed(problems)}
    return [
        dataclasses.replace(first[code], message=f"{first[code].message}; {count - 1} more like it in this list")
        if count > 1
        else first[code]
        for code, count in counts.items()
    ]


class OneOrMore(Struct, frozen=True):
    """One value or a list of them; a tuple either way."""

    many: ListOf

    @property
    def expected(self) -> str:
        """Both forms."""
        return f"{self.many.item.expected}, or a list of such"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A tuple of what was read."""
        if isinstance(value, list):
            return self.many.read(context, value, path)
        item = self.many.item.read(context, value, path)
        return INVALID if item is INVALID else (item,)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of both forms."""
        return {"anyOf": [self.many.item.schema(), self.many.schema()]}


class MapOf(Struct, frozen=True):
    """A mapping from names to values of one kind."""

    item: Kind
    expected: str = "a mapping from names"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """A dict of what was read."""
        if not isinstance(value, dict) or not value:
            return wrong(self, context, value, path, "write one name a line, each with its mapping: name: {...}")
        items = {}
        for name, item in value.items():
            if name.strip() and name.isprintable():
                items[name] = self.item.read(context, item, (*path, name))
            else:
                message = f"found {shown(name)}, expected a name of printable characters"
                items[name] = context.add((*path, name), "bad-name", message, "give it a name")
        return INVALID if any(item is INVALID for item in items.values()) else items

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "object", "additionalProperties": self.item.schema(), "minProperties": 1}


class Field(Struct, frozen=True):
    """A key of a record: what it holds, what it means, and its default."""

    kind: Kind
    doc: str
    default: Any = REQUIRED


def _as_read(_context: Context, _path: FieldPath, values: dict[str, Any]) -> dict[str, Any]:
    return values


class Record(Struct, frozen=True):
    """A mapping with known keys, made into an object by ``build(context, path, values)``.

    Attributes:
        fields: the keys.
        build: makes the object; called only where all fields read well.
        expected: what errors say it is.
        not_yet: keys that a later version may take, with what to say of them until then.
        elsewhere: keys that are known, but not here, with where they are expected and how to put them there.
        instead: fields that may stand in place of others, which are then not to be given.
        keep_invalid: return the fields as they are, some of them INVALID, so that what does read well can be
            checked further.
    """

    fields: Mapping[str, Field]
    build: Callable[[Context, FieldPath, dict[str, Any]], Any] = _as_read
    expected: str = "a mapping"
    not_yet: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keep_invalid: bool = False

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """What ``build`` makes of the fields; INVALID where any is."""
        if not isinstance(value, dict):
            keys = ", ".join(f"{key}: ..." for key in self._needed(()) or self.fields)
            return wrong(self, context, value, path, f"write {{{keys}}}")
        if path in context.document.made and not value.keys() >= set(self._needed(value)):
            return self._not_there(context, path)
        strange = [key for key in value if key not in self.fields]
        meant = {field for key in strange for field in self._refuse(context, key, value, (*path, key))}
        given = meant | value.keys()
        needed = self._needed(given)
        values: dict[str, Any] = {}
        for key, known in self.fields.items():
            if key in value:
                values[key] = self._read_field(context, known, value[key], (*path, key))
            elif key in meant:
                values[key] = INVALID
            elif key in needed:
                values[key] = self._missing(context, (*path, key), given)
            else:
                values[key] = None if known.default is REQUIRED else known.default
        values |= dict.fromkeys(self._ambiguous(context, path, value), INVALID)
        if self.keep_invalid:
            return values
        if strange or any(item is INVALID for item in values.values()):
            return INVALID
        return self.build(context, path, values)

    def _needed(self, given: Collection[str]) -> list[str]:
        """The fields that must be there, where some that may stand in for others are given."""
        replaced = {other for key, others in self.instead.items() if key in given for other in others}
        return [key for key, known in self.fields.items() if known.default is REQUIRED and key not in replaced]

    def _missing(self, context: Context, here: FieldPath, given: Collection[str]) -> _Invalid:
        """Notes a field that must be there and is not, nor any that would do instead."""
        known = self.fields[str(here[-1])]
        fix = f"add it: {known.doc}"
        for key, others in self.instead.items():
            if here[-1] in others and not any(other in given for other in others):
                fix += f", or give {key} instead"
        return context.add(here, "missing-key", f"is missing, expected {known.kind.expected}", fix)

    def _ambiguous(self, context: Context, path: FieldPath, value: dict[str, Any]) -> list[str]:
        """Notes fields beside others that they would replace; returns them all."""
        found = []
        for key, others in self.instead.items():
            both = [other for other in others if other in value]
            if key in value and both:
                message = f"stands beside {' and '.join(both)}, expected one or the other"
                context.add((*path, key), "ambiguous", message, f"keep {key}, or {' and '.join(others)}")
                found += [key, *both]
        return found

    def _refuse(self, context: Context, key: str, value: dict[str, Any], here: FieldPath) -> list[str]:
        """Notes a key that is none of the fields; returns the field, not given, that it must have meant."""
        if key in self.not_yet:
            context.add(here, "not-supported", self.not_yet[key], f"leave {key} out")
            return []
        if key in self.elsewhere:
            where, fix = self.elsewhere[key]
            context.add(here, "misplaced-key", f"does not belong here, expected {where}", fix)
            return []
        absent = [name for name in self.fields if name not in value]
        meant = closest(key, absent)[:1]
        fix = did_you_mean(key, meant or self.fields)
        if not fix:
            fix = "leave it out, or use one of: " + ", ".join(absent) if absent else "leave it out"
        if ":" in key and value[key] is None:
            fix = "put a space after the colon"
        context.add(here, "unknown-key", "is not a known key", fix)
        return meant

    @staticmethod
    def _read_field(context: Context, known: Field, value: Any, here: FieldPath) -> Any:
        if value is not None:
            return known.kind.read(context, value, here)
        fix = f"fill it in: {known.doc}" if known.default is REQUIRED else "fill it in, or leave the key out"
        return context.add(here, "wrong-type", f"found nothing, expected {known.kind.expected}", fix)

    def _not_there(self, context: Context, path: FieldPath) -> _Invalid:
        """Notes an override of a field inside a mapping that is not in the document."""
        beside = [key for key in context.document.at(path[:-1]) if (*path[:-1], key) not in context.document.made]
        near = closest(str(path[-1]), beside)
        given = context.document.at(path)
        needed = ", ".join(key for key in self._needed(given) if key not in given)
        fix = f"did you mean {' or '.join(near)}?" if near else f"to add it, set {needed} as well"
        return context.add(path, "unknown-name", f"there is no {dotted(path)} to change", fix)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the record."""
        form = {
            "type": "object",
            "properties": {key: f.kind.schema() | {"description": f.doc} for key, f in self.fields.items()},
            "required": self._needed(self.instead),
            "additionalProperties": False,
        }
        if self.instead:
            form["allOf"] = [{"oneOf": self._either(key, others)} for key, others in self.instead.items()]
        return form

    def _either(self, key: str, others: tuple[str, ...]) -> list[dict[str, Any]]:
        """JSON Schemas of a record without a field and with it instead of others."""
        needed = [other for other in others if other in self._needed(())]
        return [
            {"required": needed, "properties": {key: False}},
            {"required": [key], "properties": dict.fromkeys(others, False)},
        ]


class Variants(Struct, frozen=True):
    """Records told apart by which of some keys is there."""

    by_key: Mapping[str, Record]

    @property
    def expected(self) -> str:
        """The keys that tell the forms apart."""
        return "a mapping with one of " + ", ".join(self.by_key)

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """What the record with the key that is there reads."""
        if not isinstance(value, dict):
            return wrong(self, context, value, path)
        present = [key for key in self.by_key if key in value]
        if len(present) == 1:
            return self.by_key[present[0]].read(context, value, path)
        if present:
            message = f"found {' and '.join(present)}, expected one of them"
            return context.add(path, "ambiguous", message, "keep one, with the fields that belong to it")
        known = {name for record in self.by_key.values() for name in record.fields}
        for key in value:
            near = closest(key, self.by_key, cutoff=0.75) if key not in known else []
            if near:
                return context.add(
                    (*path, key), "unknown-key", "is not a known key", f"did you mean {' or '.join(near)}?"
                )
        found = "only " + ", ".join(map(shown, value)) if value else "nothing in it"
        return context.add(path, "missing-key", f"found {found}, expected {self.expected}", "add one of these")

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the forms."""
        return {"oneOf": [record.schema() for record in self.by_key.values()]}


class Tagged(Struct, frozen=True):
    """Records told apart by the word one key holds."""

    key: str
    by_word: Mapping[str, Record]

    @property
    def expected(self) -> str:
        """The words."""
        return f"a mapping with {self.key}: " + ", ".join(self.by_word)

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """What the record of the word reads."""
        if not isinstance(value, dict):
            return wrong(self, context, value, path, f"write {{{self.key}: ..., ...}}")
        here = (*path, self.key)
        word = value.get(self.key)
        if word is UNREADABLE:
            return INVALID
        if isinstance(word, str) and word in self.by_word:
            rest = {key: item for key, item in value.items() if key != self.key}
            return self.by_word[word].read(context, rest, path)
        misspelt = [key for key in value if closest(self.key, [key])]
        if self.key not in value and misspelt:
            fix = f"did you mean {self.key}?"
            return context.add((*path, misspelt[0]), "unknown-key", "is not a known key", fix)
        words = "one of " + ", ".join(self.by_word)
        if word is None:
            return context.add(here, "missing-key", f"is missing, expected {words}", "say which one it is")
        fix = did_you_mean(word, self.by_word) if isinstance(word, str) else ""
        return context.add(here, "unknown-word", f"found {shown(word)}, expected {words}", fix)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the forms."""
        forms = []
        for word, record in self.by_word.items():
            form = record.schema()
            properties = {self.key: {"const": word}} | form["properties"]
            forms.append(form | {"properties": properties, "required": [self.key, *form["required"]]})
        return {"oneOf": forms}


class Either(Struct, frozen=True):
    """One kind for texts and numbers, another for mappings."""

    scalar: Kind
    mapping: Kind

    @property
    def expected(self) -> str:
        """Both forms."""
        return f"{self.scalar.expected}, or {self.mapping.expected}"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """What the kind for this form of value reads."""
        if isinstance(value, bool) or not isinstance(value, str | int | float | dict):
            return wrong(self, context, value, path)
        return (self.mapping if isinstance(value, dict) else self.scalar).read(context, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of both forms."""
        return {"anyOf": [self.scalar.schema(), self.mapping.schema()]}


def same_length(context: Context, path: FieldPath, columns: Sequence[tuple[str, Sequence[Any]]]) -> bool:
    """Notes columns that are not as long as the first."""
    (first_name, first), *others = columns
    good = True
    for name, column in others:
        if len(column) != len(first):
            message = f"found {counted(len(column), 'value')}, expected {len(first)}, one for each of {first_name}"
            context.add((*path, name), "length-mismatch", message, "give every point a value in both columns")
            good = False
    return good


_TELLING_KEY = {"scenario": "clusters", "model": "profiles", "workload": "input_tokens", "study": "axes"}


def read_whole(context: Context, record: Record, kind: Literal["scenario", "model", "workload", "study"]) -> Any:
    """What a record reads from a whole document, which must not be empty or a file of another kind."""
    data = context.document.data
    if data is None:
        return context.add((), "empty-file", f"is empty, expected a {kind}", "fill it in, or name another file")
    if isinstance(data, dict) and _TELLING_KEY[kind] not in data:
        other = next((name for name, key in _TELLING_KEY.items() if key in data), None)
        if other:
            fix = f"name a {kind} file instead: one with the key {_TELLING_KEY[kind]}"
            return context.add((), "wrong-file", f"is a {other} file, expected a {kind}", fix)
    return record.read(context, data, ())
