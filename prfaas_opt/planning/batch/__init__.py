"""Many plans at once: the same answers as one at a time, sooner.

Scenarios of one model, workload and kind of hardware share the loads of every threshold, which are tabled; what they
differ in are a few capacities, and their splits and thresholds are searched together, on arrays. The others, and the
uncommon cases, are planned by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.errors import PrfaasOptError
from prfaas_opt.planning.batch.decisions import decide
from prfaas_opt.planning.batch.figures import figures
from prfaas_opt.planning.batch.group import Group, capacities, group_of, key_of
from prfaas_opt.planning.batch.plans import plans
from prfaas_opt.planning.plan import planned, planned_alone

if TYPE_CHECKING:
    from prfaas_opt import results
    from prfaas_opt.planning.batch.group import Key
    from prfaas_opt.planning.decoding import Decoding
    from prfaas_opt.scenario import Objective, Scenario

_OBJECTIVES = (None, "throughput")
_MOST_THRESHOLDS = 2**22
"""Thresholds that are kept tabled, of all groups: about 160 MB."""
_LEAST_TOGETHER = 20
"""Fewer scenarios of a kind are planned by themselves: tables cost as much as so many plans."""


class BatchPlanner:
    """Plans scenarios, and keeps what those of one kind share for the next of them."""

    def __init__(self) -> None:
        # With a scenario each, which keeps alive what the key is the identities of.
        self._groups: dict[Key, tuple[Scenario, Group | None]] = {}

    def planned_each(
        self, scenarios: Sequence[Scenario], objective: Objective | None = None
    ) -> list[results.Plan | PrfaasOptError]:
        """The plan of each scenario, as ``planned_alone`` gives it, or the error that it ends with."""
        answers: list[results.Plan | PrfaasOptError | None] = [None] * len(scenarios)
        if objective in _OBJECTIVES:
            for group, numbers in self._by_group(scenarios):
                for number, plan in _planned_together(group, scenarios, numbers):
                    answers[number] = plan
        return [
            _planned_by_itself(scenario, objective) if answer is None else answer
            for scenario, answer in zip(scenarios, answers, strict=True)
        ]

    def _by_group(self, scenarios: Sequence[Scenario]) -> list[tuple[Group, list[int]]]:
        members: dict[Key, list[int]] = {}
        for number, scenario in enumerate(scenarios):
            key = key_of(scenario)
            if key is not None:
                members.setdefault(key, []).append(number)
        grouped = []
        for key, numbers in members.items():
            # Tables that are there already make no difference: the same scenarios give the same bytes.
            if len(numbers) < _LEAST_TOGETHER:
                continue
            group = self._group(key, [scenarios[number] for number in numbers])
            if group is not None:
                grouped.append((group, numbers))
        return grouped

    def _group(self, key: Key, scenarios: Sequence[Scenario]) -> Group | None:
        if key not in self._groups:
            for scenario in scenarios:
                try:
                    self._groups[key] = scenario, group_of(scenario)
                    break
                except PrfaasOptError:
                    continue
        _, group = self._groups.get(key, (None, None))
        while sum(each.thresholds for _, each in self._groups.values() if each) > _MOST_THRESHOLDS:
            del self._groups[next(iter(self._groups))]
        return group


def _planned_together(
    group: Group, scenarios: Sequence[Scenario], numbers: Sequence[int]
) -> list[tuple[int, results.Plan]]:
    """The plans of those scenarios whose case is a common one."""
    kept: list[tuple[int, Scenario, Decoding]] = []
    for number in numbers:
        decoding = group.decoding(scenarios[number])
        if decoding is not None:
            kept.append((number, scenarios[number], decoding))
    if not kept:
        return []
    given = capacities([scenario for _, scenario, _ in kept], [decoding for _, _, decoding in kept])
    found = decide(group.tables, given)
    (ordinary,) = np.nonzero(found.ordinary)
    kept = [kept[index] for index in ordinary.tolist()]
    given, found = given.of(ordinary), found.of(ordinary)
    numbers, scenarios, decoded = zip(*kept, strict=True) if kept else ((), (), ())
    figured = figures(group, given, found, group.baselines(scenarios))
    return list(zip(numbers, plans(group, scenarios, decoded, given, found, figured), strict=True))


def planned_together(scenario: Scenario, objective: Objective | None = None) -> bool:
    """Whether a scenario is of a kind that is planned together with others."""
    return objective in _OBJECTIVES and key_of(scenario) is not None


def _planned_by_itself(scenario: Scenario, objective: Objective | None) -> results.Plan | PrfaasOptError:
    try:
        return planned_alone(scenario, objective)
    except PrfaasOptError as error:
        return error


def planned_each(
    scenarios: Sequence[Scenario], objective: Objective | None = None, in_full: bool = False
) -> list[results.Plan | PrfaasOptError]:
    """The plan of each scenario, or the error that it ends with.

    Args:
        scenarios: what is planned.
        objective: as for ``plan``.
        in_full: with all that ``plan`` tells, what-ifs and the like, which takes plans of other scenarios, one by one;
            else as ``planned_alone``.
    """
    if in_full:
        return [_planned_in_full(scenario, objective) for scenario in scenarios]
    return _PLANNER.planned_each(scenarios, objective)


def _planned_in_full(scenario: Scenario, objective: Objective | None) -> results.Plan | PrfaasOptError:
    try:
        return planned(scenario, "threshold", False, objective, None)
    except PrfaasOptError as error:
        return error


_PLANNER = BatchPlanner()
