"""Which requests a deployment can take, and which of them have a choice of where to prefill."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.errors import InfeasibleError, Problem

if TYPE_CHECKING:
    from prfaas_opt.scenario import Cluster, Scenario
    from prfaas_opt.workload.distribution import LengthDistribution


class Eligible(Struct, frozen=True):
    """The requests of a scenario by what may be done with them.

    Attributes:
        served: uncached lengths of those that decode can take.
        unservable_share: share of the requests that it cannot.
        choosing: those of ``served`` that may prefill in either cluster; their share of it is the total. None: none.
        longest_remote_tokens: longer requests must prefill in the PD cluster.
        stay_share: and so must this share of the others.
    """

    served: LengthDistribution
    unservable_share: float
    choosing: LengthDistribution | None
    longest_remote_tokens: float
    stay_share: float

    @property
    def share_without_choice(self) -> float:
        """The share of the requests served that must prefill in the PD cluster."""
        if self.choosing is self.served:
            return 0.0
        if self.choosing is None:
            return 1.0
        longest, stay = self.longest_remote_tokens, self.stay_share
        return self.served.share_above(longest) + stay * self.served.share_at_most(longest)


_ROUNDING = 1.0 + 1e-12


def eligible(scenario: Scenario) -> Eligible:
    """The requests that the clusters' contexts admit, and that may leave.

    A PD instance must hold prompt and output, a remote one the prompt.

    Raises:
        InfeasibleError: no request fits into the PD cluster.
    """
    lengths = scenario.workload.input_tokens
    longest = _longest_uncached(scenario, scenario.pd, scenario.workload.output_tokens.high)
    served, unservable = lengths, 0.0
    if longest < lengths.high:
        unservable = lengths.share_above(longest)
        fitting = lengths.up_to(longest)
        if fitting is None or unservable >= 1:
            where = scenario.origin.where(("clusters", scenario.pd.name, "max_context"))
            message = (
                f"no request fits: the shortest has {lengths.low:,.0f} uncached tokens, at most {max(longest, 0):,.0f} "
                "leave room for its output"
            )
            raise InfeasibleError(Problem("max-context", where, message, "raise max_context"))
        served = fitting.up_to(longest, 1.0 / fitting.moment(0.0)) or fitting
    if scenario.remote is None or not scenario.can_offload:
        return Eligible(served, unservable, None, math.inf, 0.0)
    stay = scenario.service.stay_share
    most = _longest_uncached(scenario, scenario.remote, 0.0)
    if most >= served.high and stay == 0:
        return Eligible(served, unservable, served, math.inf, 0.0)
    choosing = served.up_to(most, 1.0 - stay) if stay < 1 else None
    return Eligible(served, unservable, choosing, most if most < served.high else math.inf, stay)


def _longest_uncached(scenario: Scenario, cluster: Cluster, output_tokens: float) -> float:
    """The longest uncached prompt that fits a cluster's context beside an output."""
    context = cluster.admission.max_context_tokens
    if context is None:
        return math.inf
    return math.floor((context - output_tokens) / scenario.workload.prompt_per_uncached * _ROUNDING)
