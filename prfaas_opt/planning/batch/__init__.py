"""Many plans at once: the same answers as one at a time, sooner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prfaas_opt.errors import PrfaasOptError
from prfaas_opt.planning.plan import planned_alone

if TYPE_CHECKING:
    from prfaas_opt import results
    from prfaas_opt.scenario import Objective, Scenario


def planned_each(
    scenarios: Sequence[Scenario], objective: Objective | None = None
) -> list[results.Plan | PrfaasOptError]:
    """The plan of each scenario, as ``planned_alone`` gives it, or the error that it ends with."""
    return [_planned(scenario, objective) for scenario in scenarios]


def _planned(scenario: Scenario, objective: Objective | None) -> results.Plan | PrfaasOptError:
    try:
        return planned_alone(scenario, objective)
    except PrfaasOptError as error:
        return error
