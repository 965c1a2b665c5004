"""Some rows of a study, planned: what a worker does, the same whatever the rows before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, PrfaasOptError
from prfaas_opt.planning.batch import planned_each
from prfaas_opt.scenario import Scenario
from prfaas_opt.study.columns import Answer, InputColumns, failed, schema_of, table_of
from prfaas_opt.study.fields import value_in
from prfaas_opt.study.notes import Notes
from prfaas_opt.study.scenarios import ScenarioMaker

if TYPE_CHECKING:
    import pyarrow as pa

    from prfaas_opt import results
    from prfaas_opt.study.rows import Rows


def plan_chunk(rows: Rows, start: int, stop: int) -> pa.Table:
    """The plans of rows ``start`` to ``stop``, with what went in; what fails is a row with an error code."""
    return _planner(rows).table(start, min(stop, len(rows)))


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
        self._inputs = InputColumns(rows.base, self._maker.fields)
        self._notes = Notes()
        self._schema = schema_of(rows)
        self._name_at = next((i for i, field in enumerate(rows.fields) if field == "name"), None)
        named = value_in(rows.base, ("name",))
        self._base_name = named if isinstance(named, str) else None

    def table(self, start: int, stop: int) -> pa.Table:
        """The table of some rows."""
        rows = self.rows.values(start, stop)
        values = list(zip(*rows, strict=True)) if rows else [()] * len(self._maker.fields)
        reads = [field.read(column) for field, column in zip(self._maker.fields, values, strict=True)]
        answers = self._answers(self._maker.make(rows, self.rows.where, start, reads), start)
        return table_of(self.rows, start, answers, self._inputs.arrays(values, reads), self._schema)

    def _answers(self, made: list[Scenario | InputError], start: int) -> list[Answer]:
        checked = [self._with_known_problems(each, start + index) for index, each in enumerate(made)]
        scenarios = [each for each in checked if isinstance(each, Scenario)]
        plans = iter(zip(scenarios, planned_each(scenarios, self.rows.objective), strict=True))
        return [self._answer(*next(plans)) if isinstance(each, Scenario) else failed(None, each) for each in checked]

    def _with_known_problems(self, made: Scenario | InputError, row: int) -> Scenario | InputError:
        known = tuple(self.rows.problems(row))
        if not known:
            return made
        return InputError((*known, *(made.problems if isinstance(made, InputError) else ())))

    def _answer(self, scenario: Scenario, plan: results.Plan | PrfaasOptError) -> Answer:
        if isinstance(plan, PrfaasOptError):
            return failed(scenario.name, plan)
        return Answer(scenario.name, plan, plan.status, warnings=self._notes.of(scenario, plan))
