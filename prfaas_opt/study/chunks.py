"""Some rows of a study, planned: what a worker does, the same whatever the rows before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, PrfaasOptError
from prfaas_opt.planning.batch import planned_each, planned_together
from prfaas_opt.scenario import Scenario
from prfaas_opt.study.columns import Answer, InputColumns, failed, input_fields, schema_of, table_of
from prfaas_opt.study.fields import value_in
from prfaas_opt.study.notes import Notes
from prfaas_opt.study.scenarios import ScenarioMaker

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from prfaas_opt import results
    from prfaas_opt.study.rows import Rows


def plan_chunk(rows: Rows, start: int, stop: int) -> pa.Table:
    """The plans of rows ``start`` to ``stop``, with what went in; what fails is a row with an error code."""
    return _planner(rows).table(start, min(stop, len(rows)))


def rows_at_once(rows: Rows) -> int:
    """How many rows make a chunk: many where they are planned together, few where each takes its time.

    It follows from the study alone, by its first row, as the output's last digits may depend on it.
    """
    first = ScenarioMaker(rows.base, rows.fields).make(rows.values(0, 1), rows.where, 0)[0]
    slow = rows.detail == "full" or (isinstance(first, Scenario) and not planned_together(first, rows.objective))
    return _ROWS_ONE_BY_ONE if slow else _ROWS_TOGETHER


_ROWS_TOGETHER, _ROWS_ONE_BY_ONE = 4000, 200

_last: list[_Planner] = []


def _planner(rows: Rows) -> _Planner:
    """The planner of a study, kept for its next chunk."""
    if not _last or _last[0].rows is not rows:
        _last[:] = [_Planner(rows)]
    return _last[0]


class _Planner:
    """What the chunks of one study share."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._maker = ScenarioMaker(rows.base, rows.fields)
        self._inputs = InputColumns(rows.base, self._maker.fields, input_fields(rows))
        self._notes = Notes()
        self._schema = schema_of(rows)
        self._name_at = next((i for i, field in enumerate(rows.fields) if field == "name"), None)
        named = value_in(rows.base, ("name",))
        self._base_name = named if isinstance(named, str) else None

    def table(self, start: int, stop: int) -> pa.Table:
        """The table of some rows."""
        rows = self.rows.values(start, stop)
        fields = self._maker.fields
        values = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
        reads = [field.read(column) for field, column in zip(fields, values, strict=True)]
        made = self._maker.make(rows, self.rows.where, start, reads)
        named = [self._base_name] * len(rows) if self._name_at is None else reads[self._name_at]
        answers = self._answers(made, [name if isinstance(name, str) else self._base_name for name in named], start)
        return table_of(self.rows, start, answers, self._inputs.arrays(values, reads, len(rows)), self._schema)

    def _answers(self, made: Sequence[Scenario | InputError], names: Sequence[str | None], start: int) -> list[Answer]:
        checked = [self._with_known_problems(each, start + index) for index, each in enumerate(made)]
        scenarios = [each for each in checked if isinstance(each, Scenario)]
        plans = iter(
            zip(scenarios, planned_each(scenarios, self.rows.objective, self.rows.detail == "full"), strict=True)
        )
        return [
            self._answer(*next(plans)) if isinstance(each, Scenario) else failed(name, each)
            for name, each in zip(names, checked, strict=True)
        ]

    def _with_known_problems(self, made: Scenario | InputError, row: int) -> Scenario | InputError:
        known = tuple(self.rows.problems(row))
        if not known:
            return made
        return InputError(tuple(dict.fromkeys((*known, *(made.problems if isinstance(made, InputError) else ())))))

    def _answer(self, scenario: Scenario, plan: results.Plan | PrfaasOptError) -> Answer:
        if isinstance(plan, PrfaasOptError):
            return failed(scenario.name, plan)
        return Answer(scenario.name, plan, plan.status, warnings=self._notes.of(scenario, plan))
