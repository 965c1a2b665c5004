"""The scenarios of a sheet, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prfaas_opt.errors import Problem
    from prfaas_opt.io.document import Document
    from prfaas_opt.scenario import Objective
    from prfaas_opt.sheets.explanation import Explanation


@dataclass(frozen=True)
class SheetRows:
    """The scenarios of a sheet, as ``study.rows.Rows`` has them, and what else the sheet holds.

    Where some rows have no remote cluster and others do, the first fields are ``clusters`` and ``links``: those rows
    replace both by a PD cluster alone, and the fields after them fill it.

    Attributes:
        name: of the file.
        base: the document that every row changes: the one given, or the outline of two pools.
        fields: field paths, one a column that fills one.
        objective: what is planned for; None: as ``plan`` chooses.
        extra_columns: headers of columns that are no fields, to be written beside the results.
        explanation: what was understood of the file.
    """

    name: str
    base: Document
    fields: tuple[str, ...]
    objective: Objective | None
    extra_columns: tuple[str, ...]
    explanation: Explanation

    def __len__(self) -> int:
        """How many scenarios there are."""
        return 0

    def values(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        """Rows ``start`` to ``stop``: a plain value a field, as a YAML file would have it; ``UNSET`` where none is."""
        raise NotImplementedError

    def extras(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        """Rows ``start`` to ``stop``: the cells of ``extra_columns``, as the sheet has them; None where empty."""
        raise NotImplementedError

    def where(self, row: int, field: str) -> str:
        """The place of a row's field, ``Scenarios!D7``; that of the row, ``Scenarios!7``, for a field without column.

        Any path is taken, one inside a field included: ``links[0].bandwidth``, ``model.profiles[0]``.
        """
        raise NotImplementedError

    def place(self, row: int) -> str:
        """The place of a row: ``Scenarios!7``, or ``plan.csv:7``."""
        raise NotImplementedError

    def problems(self, row: int) -> Sequence[Problem]:
        """What is wrong with the cells of a row."""
        raise NotImplementedError
