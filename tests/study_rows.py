"""Rows to test studies with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prfaas_opt.errors import Problem
from prfaas_opt.io.document import Document
from prfaas_opt.io.scenario_file import CASE_STUDY
from prfaas_opt.io.yaml_file import parse_document
from prfaas_opt.scenario import Objective
from prfaas_opt.study.rows import Detail

CASE = parse_document(CASE_STUDY.read_text(encoding="utf-8"), "case.yaml")


@dataclass
class ListedRows:
    """Rows of values over the case study."""

    fields: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    base: Document = field(default_factory=lambda: CASE)
    name: str = "test"
    objective: Objective | None = None
    extra_columns: tuple[str, ...] = ()
    cells: Sequence[tuple[Any, ...]] = ()
    wrong: Mapping[int, Sequence[Problem]] = field(default_factory=dict)
    detail: Detail = "plan"

    def __len__(self) -> int:
        return len(self.rows)

    def values(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        return self.rows[start:stop]

    def extras(self, start: int, stop: int) -> Sequence[tuple[Any, ...]]:
        return self.cells[start:stop]

    def where(self, row: int, field: str) -> str:
        return f"row {row} {field}"

    def problems(self, row: int) -> Sequence[Problem]:
        return self.wrong.get(row, ())
