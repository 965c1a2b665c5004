"""From the values of a row to the scenario that its document describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document, FieldPath, dotted
from prfaas_opt.io.overrides import RefusedError, copied, put
from prfaas_opt.io.scenario_file import read_scenario
from prfaas_opt.scenario import Scenario
from prfaas_opt.study.fields import StudyField
from prfaas_opt.study.rows import UNSET

Where = Callable[[int, str], str]
"""The place of a row's field: that of ``Rows``."""


@dataclass(frozen=True)
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

    place: RowPlace | None = None

    def where(self, path: FieldPath = ()) -> str:
        """The place in the row or in the base."""
        assert self.place is not None
        return self.place.where(path)


class ScenarioMaker:
    """Makes the scenarios of rows, each as the full reader makes it of the base with the row's values put in.

    Args:
        base: the document that every row changes.
        fields: paths of the fields that the rows give, in their order.
    """

    def __init__(self, base: Document, fields: Sequence[str]) -> None:
        self._base = base
        self.fields = [StudyField(each) for each in fields]

    def make(self, rows: Sequence[tuple[Any, ...]], where: Where, start: int = 0) -> list[Scenario | InputError]:
        """The scenario of each row, or what is wrong with it.

        Args:
            rows: a value a field each.
            where: the place of a row's field, for errors.
            start: number of the first row.
        """
        made: list[Scenario | InputError] = []
        for row, values in enumerate(rows, start):
            try:
                made.append(self.read(values, where, row))
            except InputError as error:
                made.append(error)
        return made

    def read(self, values: tuple[Any, ...], where: Where, row: int) -> Scenario:
        """The scenario of one row by the full reader.

        Raises:
            InputError: all that is wrong with it; or that it is a fleet.
        """
        return read_scenario(self._document(values, where, row))

    def _document(self, values: tuple[Any, ...], where: Where, row: int) -> Document:
        changed = copied(self._base)
        if not isinstance(changed.data, dict):
            return changed
        given: dict[FieldPath, str] = {}
        problems = []
        for field, value in zip(self.fields, values, strict=True):
            if value is UNSET:
                continue
            try:
                path, made = put(changed, field.text, value)
            except RefusedError as error:
                problems.append(Problem("bad-override", where(row, field.text), str(error), error.fix))
                continue
            given |= dict.fromkeys([*made, path], field.text)
        if problems:
            raise InputError(problems)
        place = RowPlace(self._base, given, where, row)
        return _RowDocument(**{f.name: getattr(changed, f.name) for f in fields(Document)}, place=place)
