"""From a network and a goal to a decision, its equations and the bound on all others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prfaas_opt.planning.fleets.bins import Bins, edges_of
from prfaas_opt.planning.fleets.decision import Loads, decide
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms
from prfaas_opt.planning.fleets.search import Search, gap_share
from prfaas_opt.planning.solver import check_solver

if TYPE_CHECKING:
    from prfaas_opt.planning.fleets.decision import Decision
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.program import Goal
    from prfaas_opt.planning.fleets.search import Found, Progress
    from prfaas_opt.planning.options import SolverOptions

N = TypeVar("N", bound="Network")

_COARSE_BINS = 8
_CARRIES_NOTHING = 1e-6
_FAR_BELOW = 0.99


@dataclass(frozen=True)
class Solved:
    """The outcome for one network.

    Attributes:
        network: with its demands in the unit that ``scale`` counts in.
        decision: what is proposed.
        loads: its equations.
        scale: the multiple of the network's demands that it serves.
        shared_scale: that scale, were single lengths shared between ways.
        bound: on the goal: the scale, or USD an hour.
        usd_per_hour: what it costs at that scale.
        found: the search's own point.
        goal: what was best.
    """

    network: Network
    decision: Decision
    loads: Loads
    scale: float
    shared_scale: float
    bound: float
    usd_per_hour: float
    found: Found
    goal: Goal

    @property
    def demand_rps(self) -> float:
        """All streams together at scale 1."""
        return sum(stream.rate_rps for stream in self.network.streams)

    @property
    def gap_share(self) -> float:
        """Distance of the goal's value, single lengths shared, from the bound."""
        return gap_share(self.shared_scale if self.goal == "scale" else self.usd_per_hour, self.bound)


def most_scale(
    network: Network,
    options: SolverOptions,
    gap_share: float,
    on_progress: Callable[[Progress], None] = lambda _: None,
    budget_usd_per_hour: float | None = None,
) -> Solved | None:
    """The fleet that serves the largest multiple of the demands; None where some stream cannot be served at all.

    Raises:
        SolverError: the solver is missing or failed, or was stopped before it found anything.
        CertificationError: the equations do not give what the solver claims.
    """
    check_solver(options)
    terms = Terms(goal="scale", budget_usd_per_hour=budget_usd_per_hour)
    for unit in (network.scale_limit, None):
        factor = unit if unit is not None else _coarse_scale(network, terms, options)
        if not factor > _CARRIES_NOTHING:
            return None
        network = scaled(network, factor)
    solved = _solved(network, terms, options, gap_share, on_progress)
    if solved is not None and solved.bound >= terms.most_scale * _FAR_BELOW:
        # Few bins saw less than half of it: the bound may be that of the unit, so take a larger one.
        return _solved(scaled(network, terms.most_scale), terms, options, gap_share, on_progress)
    return solved


def least_cost(
    network: Network,
    options: SolverOptions,
    gap_share: float,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Solved | None:
    """The cheapest fleet that serves the demands; None where the limits allow none.

    Raises:
        SolverError: as ``most_scale``.
        CertificationError: as ``most_scale``.
    """
    check_solver(options)
    return _solved(network, Terms(goal="cost", least_scale=1.0), options, gap_share, on_progress)


def scaled(network: N, factor: float) -> N:
    """The network with every demand multiplied."""
    streams = tuple(dataclasses.replace(each, rate_rps=each.rate_rps * factor) for each in network.streams)
    return dataclasses.replace(network, streams=streams)


def _coarse_scale(network: Network, terms: Terms, options: SolverOptions) -> float:
    """About how much can be served, from a few bins and fractions of instances."""
    bins = Bins(network, [edges_of(network, s, _COARSE_BINS) for s in range(len(network.streams))])
    program = BinnedProgram(network, bins, terms)
    return program.solution.scale if program.solve(options).found else 0.0


def _solved(
    network: Network,
    terms: Terms,
    options: SolverOptions,
    gap_share: float,
    on_progress: Callable[[Progress], None],
) -> Solved | None:
    if any(not network.ways_of[s] for s in range(len(network.streams))):
        return None
    found = Search(network, terms, options, gap_share, on_progress).run()
    return (
        None if found is None or found.solution.scale <= _CARRIES_NOTHING else decided(network, terms, found, options)
    )


def decided(network: Network, terms: Terms, found: Found, options: SolverOptions) -> Solved:
    """What has been found for a network, decided and certified.

    Raises:
        SolverError: the solver failed.
        CertificationError: the equations do not give what the solver claims.
    """
    decision, shared_scale = decide(network, terms, found, options)
    loads = Loads(network, decision)
    scale = loads.scale if terms.goal == "scale" else 1.0
    if terms.budget_usd_per_hour is not None:
        scale = min(scale, found.solution.scale)  # there may be room that the budget has no bytes for
    return Solved(
        network=network,
        decision=decision,
        loads=loads,
        scale=scale,
        shared_scale=shared_scale,
        bound=found.bound,
        usd_per_hour=loads.usd_per_hour(scale),
        found=found,
        goal=terms.goal,
    )
