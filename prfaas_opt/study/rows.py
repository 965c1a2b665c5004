"""What a study plans: rows of field values over a base document, whatever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from prfaas_opt.errors import Problem
    from prfaas_opt.io.document import Document
    from prfaas_opt.scenario import Objective


Detail = Literal["plan", "full"]
"""The plan, or also what takes plans of other scenarios: what-ifs, failures, figures that are off, cost elsewhere."""


class Rows(Protocol):
    """The scenarios of a study. It can be pickled: workers get a copy."""

    @property
    def name(self) -> str:
        """Of the study, for people."""

    @property
    def base(self) -> Document:
        """The document that every row changes."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Field paths as ``--set`` takes them, ``clusters.pd.instances``, one a column."""

    @property
    def objective(self) -> Objective | None:
        """What is planned for; None: as ``plan`` chooses."""

    @property
    def detail(self) -> Detail:
        """What is told of each."""

    def __len__(self) -> int:
        """How many scenarios there are."""

    def values(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        """Rows ``start`` to ``stop``: a plain value a field, as a YAML file would have it; ``UNSET`` where none is.

        The same whatever the range that it is asked for in.
        """

    def where(self, row: int, field: str) -> str:
        """What an error calls the place of a row's field: ``Scenarios!D7``, or ``row 12 clusters.pd.instances``."""

    def problems(self, row: int) -> Sequence[Problem]:
        """What is known to be wrong with a row before it is planned."""


def told_fields(rows: Rows) -> tuple[str, ...]:
    """The fields that somebody gave: all but those of ``rows.outline``, if it has one, which only hold the others."""
    outline = getattr(rows, "outline", ())
    return tuple(field for field in rows.fields if field not in outline)


class _Unset:
    """Stands for a field that a row leaves as the base has it."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"


UNSET = _Unset()
