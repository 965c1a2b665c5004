"""Errors that many rows share: those of names, worded once, with the place of each row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem

if TYPE_CHECKING:
    from prfaas_opt.study.fields import StudyField

_OF_NAMES = frozenset(
    {"unknown-name", "missing-file", "unknown-hardware", "missing-decode", "unknown-word", "missing-key"}
)
"""Codes of problems that no number has a part in."""

_MARK = "\0"
_MARKED = re.compile(f"{_MARK}([^{_MARK}]*){_MARK}")


def marked(_row: int, field: str) -> str:
    """A place that a row's own can be put in for."""
    return f"{_MARK}{field}{_MARK}"


def may_depend_on_its_number(field: StudyField) -> bool:
    """Whether problems elsewhere may depend on a field's number, though it reads well."""
    return field.steps[-1] in ("gpus", "stay_share") or field.steps[:2] == ("slo", "ttft")


def is_of_names(error: InputError) -> bool:
    """Whether rows that differ in numbers alone have the same error."""
    return all(problem.code in _OF_NAMES for problem in error.problems)


class SharedFailure:
    """What is wrong with rows that differ in numbers alone.

    Args:
        error: of one of them, read with ``marked`` places.
    """

    def __init__(self, error: InputError) -> None:
        self._problems: Sequence[Problem] = error.problems

    @property
    def is_sound(self) -> bool:
        """Whether places stand nowhere but where they belong."""
        return not any(_MARK in problem.message + problem.fix for problem in self._problems)

    def of(self, row: int, where: Callable[[int, str], str]) -> InputError:
        """The error of a row."""
        return InputError(
            [
                Problem(each.code, _MARKED.sub(lambda found: where(row, found[1]), each.where), each.message, each.fix)
                for each in self._problems
            ]
        )
