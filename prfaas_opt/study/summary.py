"""What a study comes to: how many rows have a plan, why others have none, and the best of them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from prfaas_opt.scenario import Objective
from prfaas_opt.study.engines.chunk import INTERNAL, WORKER_DIED
from prfaas_opt.study.rows import UNSET, told_fields

if TYPE_CHECKING:
    import pyarrow as pa

    from prfaas_opt.study.rows import Rows

BEST = 5
"""Rows that are named as the best."""

_COST = "cost.usd_per_thousand_requests"


class FailedRows(Struct, frozen=True):
    """Rows without a plan for the same reason, and the first of them."""

    code: str
    rows: Annotated[int, Meta(ge=1)]
    row: Annotated[int, Meta(ge=0, description="the first of these rows, counted from 0")]
    where: str
    message: str


class BestRow(Struct, frozen=True):
    """A row whose plan is among the best."""

    row: Annotated[int, Meta(ge=0, description="counted from 0")]
    values: Annotated[dict[str, Any], Meta(description="the fields that the row sets")]
    served_rps: Annotated[float, Meta(ge=0, description="requests per second")]
    usd_per_thousand_requests: float | None


class Drawn(Struct, frozen=True):
    """A sample of the study; the same seed draws the same rows."""

    method: Literal["sobol", "random"]
    count: int
    seed: int


class StudyRun(Struct, frozen=True, kw_only=True):
    """What became of a study."""

    name: str
    rows: Annotated[int, Meta(ge=0, description="scenarios of the study")]
    planned: Annotated[int, Meta(ge=0, description="rows with a plan")]
    kept: Annotated[int, Meta(ge=0, description="rows that an earlier run had done")]
    by_status: dict[str, int]
    failures: Annotated[tuple[FailedRows, ...], Meta(description="rows without a plan, by error code")]
    objective: Annotated[Objective | None, Meta(description="null: goodput where slo.ttft is given, else throughput")]
    best: Annotated[
        tuple[BestRow, ...],
        Meta(description="rows that serve most, or at least cost, best first; of equal ones the cheaper"),
    ]
    samples: tuple[Drawn, ...]
    output: Annotated[str | None, Meta(description="where the rows were written; null: nowhere")]

    @property
    def bugs(self) -> int:
        """Rows that a bug of this program kept from being planned."""
        return sum(each.rows for each in self.failures if each.code in (INTERNAL, WORKER_DIED))


class Tally:
    """Counts rows, in whatever order their chunks come."""

    def __init__(self, objective: Objective | None) -> None:
        self._cheapest = objective == "cost"
        self._statuses: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()
        self._firsts: dict[str, FailedRows] = {}
        self._best: list[tuple[float, float, int, float, float | None]] = []
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Counts the rows of a chunk."""
        head = table.select(["row", "status", "error_code", "served_rps", _COST]).to_pydict()
        self.rows += table.num_rows
        self._statuses.update(head["status"])
        failed = [i for i, code in enumerate(head["error_code"]) if code is not None]
        for i in failed:
            self._fail(table, i, head["error_code"][i], head["row"][i])
        found = []
        for row, served, cost in zip(head["row"], head["served_rps"], head[_COST], strict=True):
            if served is not None and not (self._cheapest and cost is None):
                # Of rows that serve alike, as where decode limits them all, the cheaper is the better one.
                dear = math.inf if cost is None else cost
                found.append(
                    (-dear, served, -row, served, cost) if self._cheapest else (served, -dear, -row, served, cost)
                )
        self._best = heapq.nlargest(BEST, [*self._best, *found], key=lambda each: each[:3])

    def _fail(self, table: pa.Table, index: int, code: str, row: int) -> None:
        self._codes[code] += 1
        first = self._firsts.get(code)
        if first is None or row < first.row:
            where, message = (table[name][index].as_py() or "" for name in ("error_where", "error"))
            self._firsts[code] = FailedRows(code, 0, row, where, message)

    def run(self, rows: Rows, kept: int, output: str | None) -> StudyRun:
        """What the rows come to."""
        counts = sorted(self._codes.items(), key=lambda item: (-item[1], item[0]))
        failures = (
            FailedRows(code, count, first.row, first.where, first.message)
            for code, count in counts
            for first in [self._firsts[code]]
        )
        return StudyRun(
            name=rows.name,
            rows=self.rows,
            planned=self.rows - self._codes.total(),
            kept=kept,
            by_status=dict(sorted(self._statuses.items())),
            failures=tuple(failures),
            objective=rows.objective,
            best=tuple(BestRow(-row, _values(rows, -row), served, cost) for _, _, row, served, cost in self._best),
            samples=_samples(rows),
            output=output,
        )


def _values(rows: Rows, row: int) -> dict[str, Any]:
    (values,) = rows.values(row, row + 1)
    told = told_fields(rows)
    return {
        field: value for field, value in zip(rows.fields, values, strict=True) if value is not UNSET and field in told
    }


def _samples(rows: Rows) -> tuple[Drawn, ...]:
    from prfaas_opt.study.axes import Sample, StudyRows

    blocks = rows.blocks if isinstance(rows, StudyRows) else ()
    return tuple(Drawn(each.method, each.count, each.seed) for each in blocks if isinstance(each, Sample))
