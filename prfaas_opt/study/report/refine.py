"""Break-evens between two rows of a study, narrowed by planning what lies between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from prfaas_opt import results
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.planning.batch import BatchPlanner
from prfaas_opt.scenario import Scenario
from prfaas_opt.study.report.break_even import pays
from prfaas_opt.study.scenarios import ScenarioMaker

if TYPE_CHECKING:
    from prfaas_opt.study.report.answers import BreakEven, PayingLine, StudyReport
    from prfaas_opt.study.rows import Rows

MOST_LINES = 200
TOLERANCE_SHARE = 1e-3
"""Width of an interval, as a share of its end, below which it is narrow enough."""


def refined(report: StudyReport, rows: Rows) -> StudyReport:
    """A report with the break-evens of its lines narrowed, of the first 200 along each axis.

    Args:
        report: on the results of the study.
        rows: of the study.

    Raises:
        InputError: the study is not the one of the results.
    """
    maker, planner = ScenarioMaker(rows.base, rows.fields), BatchPlanner()
    alone = {axis.name for axis in report.axes if not axis.together_with}
    found = [
        _Search(each, rows, maker, planner).narrowed() if each.axis in alone else each for each in report.break_even
    ]
    return structs.replace(report, break_even=tuple(found))


class _Search:
    """All break-evens along one axis at once: each step halves every interval."""

    def __init__(self, found: BreakEven, rows: Rows, maker: ScenarioMaker, planner: BatchPlanner) -> None:
        self._found, self._rows, self._maker, self._planner = found, rows, maker, planner
        names = [field.column for field in maker.fields]
        if found.axis not in names:
            raise _other_study(rows, f"has no axis {found.axis}")
        self._at = names.index(found.axis)
        self._suffix = "Gbps" if maker.fields[self._at].form.suffix == "_gbps" else ""

    def narrowed(self) -> BreakEven:
        """The same break-evens, narrower."""
        lines = [at for at, line in enumerate(self._found.each) if line.low is not None][:MOST_LINES]
        each = list(self._found.each)
        intervals = self._intervals([each[at] for at in lines])
        for at, (low, high) in zip(lines, intervals, strict=True):
            each[at] = structs.replace(each[at], refined_low=low, refined_high=high)
        return structs.replace(self._found, each=tuple(each))

    def _intervals(self, lines: Sequence[PayingLine]) -> list[tuple[float, float]]:
        lows = [line.low or 0.0 for line in lines]
        highs = [line.high or 0.0 for line in lines]
        at_low, at_high = self._pays(lines, lows), self._pays(lines, highs)
        for line, low, high in zip(lines, at_low, at_high, strict=True):
            if low == high:
                raise _other_study(self._rows, f"gives other plans for row {line.low_row}")
        open_lines = [at for at in range(len(lines)) if not _narrow(lows[at], highs[at])]
        while open_lines:
            middles = [_middle(lows[at], highs[at]) for at in open_lines]
            at_middle = self._pays([lines[at] for at in open_lines], middles)
            for at, middle, does in zip(open_lines, middles, at_middle, strict=True):
                if does == at_low[at]:
                    lows[at] = middle
                else:
                    highs[at] = middle
            open_lines = [at for at in open_lines if not _narrow(lows[at], highs[at])]
        return list(zip(lows, highs, strict=True))

    def _pays(self, lines: Sequence[PayingLine], values: Sequence[float]) -> list[bool]:
        """Whether remote prefill pays in each line at a value of the axis."""
        rows = [self._row(line, value) for line, value in zip(lines, values, strict=True)]
        made = self._maker.make(rows, self._rows.where)
        scenarios = [each for each in made if isinstance(each, Scenario)]
        plans = iter(self._planner.planned_each(scenarios, self._rows.objective))
        return [isinstance(each, Scenario) and self._paid(next(plans)) for each in made]

    def _row(self, line: PayingLine, value: float) -> tuple[Any, ...]:
        if line.low_row is None or line.low_row >= len(self._rows):
            raise _other_study(self._rows, f"has no row {line.low_row}")
        (row,) = self._rows.values(line.low_row, line.low_row + 1)
        # Fewer digits than a float has could move an end to the other side.
        told: Any = f"{value:.17g}{self._suffix}" if self._suffix else value
        return (*row[: self._at], told, *row[self._at + 1 :])

    def _paid(self, plan: results.Plan | Exception) -> bool:
        if not isinstance(plan, results.Plan):
            return False
        cost = plan.cost.ratio if plan.cost else None
        ratio = plan.ratio if self._found.measure == "throughput" else cost
        return ratio is not None and bool(pays(ratio)) and plan.offload_share > 0


def _middle(low: float, high: float) -> float:
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def _narrow(low: float, high: float) -> bool:
    return high - low <= TOLERANCE_SHARE * high


def _other_study(rows: Rows, why: str) -> InputError:
    message = f"the study {rows.name} {why}: the results are of another"
    return InputError(Problem("wrong-file", "--refine", message, "name the study file that the results were made from"))
