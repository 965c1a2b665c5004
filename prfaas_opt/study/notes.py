"""What a reader of each row's figures should know, worked out once for rows that differ in numbers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prfaas_opt.planning.notes import about_figures, without_homogeneous

if TYPE_CHECKING:
    from prfaas_opt import results
    from prfaas_opt.scenario import Scenario

_MOST_KEPT = 1000


class Notes:
    """The warnings of ``api.warnings`` as one text, for planned scenarios."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[Scenario, tuple[str, ...], str | None]] = {}

    def of(self, scenario: Scenario, plan: results.Plan) -> str | None:
        """The warnings of a scenario that a plan was found of; None where there are none."""
        _, figures, text = self._about_figures(scenario)
        if plan.ratio is not None:
            return text
        # Why there is no homogeneous cluster may depend on every number.
        missing = without_homogeneous(scenario)
        return _joined((*scenario.model.warnings, *missing, *figures)) if missing else text

    def _about_figures(self, scenario: Scenario) -> tuple[Scenario, tuple[str, ...], str | None]:
        remote, pd = scenario.remote, scenario.pd
        key = (
            id(scenario.model),
            id(scenario.workload),
            scenario.service.transfer,
            *((remote.name, remote.hardware, remote.admission.kv_format) if remote else ()),
            *(pd.name, pd.hardware, pd.admission.kv_format),
        )
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            figures = about_figures(scenario)
            text = _joined((*scenario.model.warnings, *figures))
            # The scenario is kept with the text, so that no other model gets the identity of its model.
            kept = self._kept[key] = (scenario, figures, text)
        return kept


def _joined(notes: tuple[str, ...]) -> str | None:
    return "; ".join(notes) or None
