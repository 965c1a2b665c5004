"""Bounds and counts for a fleet in so many states that bins fine enough for all of them at once would take too long.

The search of ``search`` with little of everything: on few bins in each state two rounds of prices, which prove what
they prove on the unbinned lengths; then the program of cuts, with integer counts. Its optimum is a bound, as always,
and its counts are near the best, though not all of the states need be served by them.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.planning.fleets.bins import Bins, edges_of
from prfaas_opt.planning.fleets.envelope import Envelope
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms
from prfaas_opt.planning.fleets.relaxation import Cut, Relaxation
from prfaas_opt.planning.fleets.states import in_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.states import Failure
    from prfaas_opt.planning.options import SolverOptions

_TERMS = Terms(goal="cost", least_scale=1.0)
_BINS = 4
_ROUNDS = 2
_PRICING_S = 15.0
"""The most seconds for one linear program."""
_TRIES = 2
"""Programs of cuts, each with the prices of the counts that the one before liked."""
_RELAXING, _NEAR = 0.2, 0.6
"""Parts of the time left for one program of cuts, and for the counts that differ from its own by one at most."""
_NEAR_GAP = 2e-3
_FIRST_GAP = 5e-3
"""Gap of the first program of cuts; each further one is solved to half of the one before."""


class ManyStates:
    """A fleet's state before any failure and after each of some."""

    def __init__(self, network: Network, failures: Sequence[Failure], options: SolverOptions) -> None:
        self.failures = tuple(failures)
        self.bound = 0.0
        self._network, self._options = network, options
        self._states = states = in_states(network, failures)
        edges = [edges_of(network, s, _BINS, breaks=False) for s in range(len(network.streams))]
        self._few = edges * (1 + len(self.failures))
        self._bins = Bins(states, self._few)
        self._envelopes = [Envelope(states, s) for s in range(len(states.streams))]
        self._cuts: list[Cut] = []
        self._gap = _FIRST_GAP

    def next(self, gap: float, time_limit_s: float | None) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
        """Counts and rates of links that serve all states, or nearly; none may, the bound is infinite then.

        Args:
            gap: that is asked for in the end.
            time_limit_s: about what it may take.

        Raises:
            SolverError: the solver failed, or found nothing in time.
        """
        started = time.monotonic()

        def slice_s(part: float) -> float | None:
            return None if time_limit_s is None else max(part * (time_limit_s - time.monotonic() + started), 1.0)

        if not self._cuts:
            for _ in range(_ROUNDS):
                self._priced(_TERMS)
        teams, pipes = len(self._network.teams), len(self._network.pipes)
        counts: tuple[int, ...] | None = None
        program = None
        for _ in range(_TRIES):
            counts = self._relaxed(gap, slice_s(_RELAXING))
            if counts is None:
                return None
            program = self._priced(dataclasses.replace(_TERMS, counts=counts))
        assert counts is not None
        least = tuple(pipe.bytes_per_s.least for pipe in self._network.pipes)
        found: tuple[tuple[int, ...], tuple[float, ...]] = (
            counts,
            least if program is None else program.solution.bytes_per_s,
        )
        near = BinnedProgram(
            self._states, Bins(self._states, self._few), dataclasses.replace(_TERMS, whole=True, near=counts)
        )
        if near.solve(self._options, _NEAR_GAP, slice_s(_NEAR)).found:
            point = near.solution
            if program is None or point.usd_per_hour < program.solution.usd_per_hour:
                found = tuple(round(n) for n in point.counts), point.bytes_per_s
        return found[0][:teams], found[1][:pipes]

    def _relaxed(self, gap: float, time_limit_s: float | None) -> tuple[int, ...] | None:
        """The counts that cuts like best; None where they allow none."""
        relaxation = Relaxation(self._states, dataclasses.replace(_TERMS, whole=True), self._cuts)
        outcome = relaxation.solve(self._options, max(self._gap, gap / 4), time_limit_s)
        self._gap /= 2
        if not outcome.found and outcome.complete:
            self.bound = math.inf
            return None
        self.bound = max(self.bound, outcome.bound)
        if not outcome.found:
            raise SolverError(Problem("solver-limit", "--time-limit", "no counts were found in time", "allow it more"))
        return relaxation.counts

    def _priced(self, terms: Terms) -> BinnedProgram | None:
        """A linear program on the bins, its prices made into cuts; None where it is infeasible."""
        program = BinnedProgram(self._states, self._bins, terms)
        feasible = program.solve(self._options, time_limit_s=_PRICING_S).found
        if not feasible:
            # The largest scale has prices too: they say which allotments are too small.
            program = BinnedProgram(self._states, self._bins, dataclasses.replace(terms, goal="scale", least_scale=0.0))
            if not program.solve(self._options, time_limit_s=_PRICING_S).found:
                return None
        prices, borders = program.prices, []
        for s, envelope in enumerate(self._envelopes):
            stretches = envelope.stretches(prices)
            self._cuts.append(Cut(s, prices, envelope.mean_cost(prices, stretches)))
            borders.append({each.high for each in stretches[:-1]})
        self._bins.cut(borders)
        return program if feasible else None
