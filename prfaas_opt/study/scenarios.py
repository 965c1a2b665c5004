"""From the values of a row to the scenario that its document describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document, FieldPath, dotted
from prfaas_opt.io.overrides import RefusedError, copied, put
from prfaas_opt.io.scenario_file import read_scenario
from prfaas_opt.io.spec import INVALID
from prfaas_opt.scenario import Scenario
from prfaas_opt.study.failures import SharedFailure, is_of_names, marked, may_depend_on_its_number
from prfaas_opt.study.fields import StudyField
from prfaas_opt.study.lenses import Replacement, lens_of, may_be_simple, seen_through
from prfaas_opt.study.rows import UNSET

_MOST_SHAPES = 10_000
"""Shapes that are remembered: where every row has one of its own, none is of use."""
_MOST_NAMES, _MOST_ALIKE = 1000, 20
"""Models or workloads that are remembered, by name and of one name."""

Where = Callable[[int, str], str]
"""The place of a row's field: that of ``Rows``."""


@dataclass(slots=True)
class RowPlace:
    """Where the fields of a row's scenario stand: in the row, where it has them, else in the base document.

    Attributes:
        base: the document that the row changes.
        given: the row's fields by path, and those inside the mappings that the base does not have.
        where_in: what errors call the place of a row's field.
        row: its number.
    """

    base: Document
    given: Mapping[FieldPath, str]
    where_in: Where
    row: int

    def where(self, path: tuple[str | int, ...] = ()) -> str:
        """What an error calls the place of a field."""
        for end in range(len(path), 0, -1):
            field = self.given.get(path[:end])
            if field is not None:
                return f"{self.where_in(self.row, field)} {dotted(path[end:])}".strip()
        return self.base.where(path)


@dataclass
class _RowDocument(Document):
    """A document with a row's values in it."""

    place: RowPlace = field(kw_only=True)

    def where(self, path: FieldPath = ()) -> str:
        """The place in the row or in the base."""
        return self.place.where(path)


class _Shape:
    """Rows that differ in numbers alone, by the first of them that was read well.

    Attributes:
        given: fields of the rows by their path.
        columns: which of the maker's simple fields the rows give.
    """

    def __init__(self, scenario: Scenario, fields: Sequence[StudyField], numbers: Sequence[Any]) -> None:
        assert isinstance(scenario.origin, RowPlace)
        self.given = scenario.origin.given
        self.columns = [index for index, number in enumerate(numbers) if number is not UNSET]
        lenses = [lens_of(fields[index], scenario) for index in self.columns]
        known = [lens for lens in lenses if lens is not None]
        # What the full reader made of this row must be what the lenses would have made of it.
        self.is_simple = len(known) == len(lenses) and all(
            lens.holds(numbers[index]) and (not lens.target or seen_through(lens, scenario) == numbers[index])
            for lens, index in zip(known, self.columns, strict=True)
        )
        self._checked = [(index, lens) for index, lens in zip(self.columns, known, strict=False) if lens.is_picky]
        self._replacement = Replacement(scenario, known, self.columns) if self.is_simple else None

    def scenario(self, numbers: Sequence[Any], origin: RowPlace) -> Scenario | None:
        """The scenario with a row's numbers; None where it takes the full reader."""
        if self._replacement is None or INVALID in numbers:
            return None
        for index, lens in self._checked:
            if not lens.holds(numbers[index]):
                return None
        return self._replacement.made(numbers, origin)


class ScenarioMaker:
    """Makes the scenarios of rows, each as the full reader makes it of the base with the row's values put in.

    Rows that differ in plain numbers alone are read in full once; the others get their numbers put in.

    Args:
        base: the document that every row changes.
        fields: paths of the fields that the rows give, in their order.

    Attributes:
        fields: those fields.
    """

    def __init__(self, base: Document, fields: Sequence[str]) -> None:
        self._base = base
        self.fields = [StudyField(each) for each in fields]
        simple = self._simple()
        self._simple_at = [index for index, each in enumerate(simple) if each]
        self._structural_at = [index for index, each in enumerate(simple) if not each]
        self._simple_fields = [self.fields[index] for index in self._simple_at]
        self._shapes: dict[tuple[Any, ...], _Shape] = {}
        self._failures: dict[tuple[Any, ...], SharedFailure] = {}
        self._shares_failures = not any(map(may_depend_on_its_number, self._simple_fields))
        self._models: dict[str, list[Any]] = {}
        self._workloads: dict[str, list[Any]] = {}

    def _simple(self) -> list[bool]:
        """Which fields are plain numbers that nothing after them replaces."""
        data = self._base.data
        steps = [field.steps for field in self.fields]
        if not isinstance(data, dict) or "traffic" in data or any(each[:1] == ("traffic",) for each in steps):
            return [False] * len(steps)
        return [
            may_be_simple(field)
            and not any(after == field.steps[: len(after)] for after in steps[index + 1 :])
            and field.steps not in steps[:index]
            for index, field in enumerate(self.fields)
        ]

    def make(
        self,
        rows: Sequence[tuple[Any, ...]],
        where: Where,
        start: int = 0,
        reads: Sequence[Sequence[Any]] | None = None,
    ) -> list[Scenario | InputError]:
        """The scenario of each row, or what is wrong with it.

        Args:
            rows: a value a field each.
            where: the place of a row's field, for errors.
            start: number of the first row.
            reads: the values by field, as its ``StudyField.read`` gives them, where that is done already.
        """
        if reads is None:
            reads = [field.read([row[index] for row in rows]) for index, field in enumerate(self.fields)]
        numbers = [reads[index] for index in self._simple_at]
        # Which numbers are given matters as much as the values of the other fields.
        codes = [list(map(_code, [row[index] for row in rows])) for index in self._structural_at]
        codes += [[value is UNSET for value in column] for column in numbers]
        count = len(rows)
        keys = zip(*codes, strict=True) if codes else [()] * count
        columns = zip(*numbers, strict=True) if numbers else [()] * count
        made: list[Scenario | InputError] = []
        for row, values, key, each in zip(range(start, start + count), rows, keys, columns, strict=True):
            made.append(self._made(key, each, values, where, row))
        return made

    def _made(
        self, key: tuple[Any, ...], numbers: tuple[Any, ...], values: tuple[Any, ...], where: Where, row: int
    ) -> Scenario | InputError:
        shape = self._shapes.get(key)
        if shape is not None:
            scenario = shape.scenario(numbers, RowPlace(self._base, shape.given, where, row))
            if scenario is not None:
                return scenario
        failure = self._failures.get(key)
        if failure is not None and INVALID not in numbers:
            return failure.of(row, where)
        try:
            scenario = self._shared(self.read(values, where, row))
        except InputError as error:
            if self._shares_failures and INVALID not in numbers and is_of_names(error):
                self._remember_failure(key, values)
            return error
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = _Shape(scenario, self._simple_fields, numbers)
        return scenario

    def _remember_failure(self, key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Keeps what is wrong with a row for those that differ from it in numbers alone."""
        try:
            self.read(values, marked, 0)
        except InputError as error:
            failure = SharedFailure(error)
            if failure.is_sound:
                if len(self._failures) >= _MOST_SHAPES:
                    self._failures.clear()
                self._failures[key] = failure

    def _shared(self, scenario: Scenario) -> Scenario:
        """The scenario with models and workloads that equal ones share: the planner tells them apart sooner."""
        model = _same(self._models, scenario.model)
        workload = _same(self._workloads, scenario.workload)
        return replace(scenario, model=model, workload=workload)

    def read(self, values: tuple[Any, ...], where: Where, row: int) -> Scenario:
        """The scenario of one row by the full reader.

        Raises:
            InputError: all that is wrong with it; or that it is a fleet.
        """
        document = self._document(values, where, row)
        scenario = read_scenario(document)
        # The document itself, which holds every value, need not be kept.
        return replace(scenario, origin=document.place) if isinstance(document, _RowDocument) else scenario

    def _document(self, values: tuple[Any, ...], where: Where, row: int) -> Document:
        changed = copied(self._base)
        if not isinstance(changed.data, dict):
            return changed
        given: dict[FieldPath, str] = {}
        problems = []
        for each, value in zip(self.fields, values, strict=True):
            if value is UNSET:
                continue
            try:
                path, made = put(changed, each.text, value)
            except RefusedError as error:
                problems.append(Problem("bad-override", where(row, each.text), str(error), error.fix))
                continue
            given |= dict.fromkeys([*made, path], each.text)
        if problems:
            raise InputError(problems)
        place = RowPlace(self._base, given, where, row)
        return _RowDocument(**{f.name: getattr(changed, f.name) for f in fields(Document)}, place=place)


def _code(value: Any) -> Any:
    """What tells a value from all others, 1 and true included."""
    if value.__class__ is str or value is UNSET:
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, enc_hook=repr)
    return value.__class__, value


def _same(known: dict[str, list[Any]], found: Any) -> Any:
    """The first object that equals one."""
    if len(known) > _MOST_NAMES:
        known.clear()
    alike = known.setdefault(found.name, [])
    for each in alike:
        if each is found or each == found:
            return each
    if len(alike) < _MOST_ALIKE:
        alike.append(found)
    return found
