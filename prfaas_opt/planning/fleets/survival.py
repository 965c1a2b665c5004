"""The cheapest fleet that serves its demand after the loss of any one part, and a bound on all such fleets.

Counts and rates are chosen once, routing anew in every state: a network of ``states``, which the search of any network
solves and bounds. Few failures matter, so they are added as they are needed: with those that the cheapest fleet so far
does not survive it is searched anew. Fewer states ask for less, so each of these bounds holds for all. A fleet is also
mended, one failure after another, which takes little time and gives an answer at any time limit.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt.errors import CertificationError, Problem, SolverError
from prfaas_opt.fleet import Limits
from prfaas_opt.planning.fleets.bins import Bins, edges_of
from prfaas_opt.planning.fleets.failures import Holdings, failure_rows, is_survived, routed_best
from prfaas_opt.planning.fleets.many_states import ManyStates
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms
from prfaas_opt.planning.fleets.search import Progress, Search, gap_share
from prfaas_opt.planning.fleets.solve import decided
from prfaas_opt.planning.fleets.states import NO_FAILURE, in_states, left_of, most_counts
from prfaas_opt.planning.fleets.states import held as held_network
from prfaas_opt.planning.solver import check_solver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.fleet_results import FleetFailure
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.search import Stopped
    from prfaas_opt.planning.fleets.solve import Solved
    from prfaas_opt.planning.fleets.states import Failure
    from prfaas_opt.planning.options import SolverOptions

_TERMS = Terms(goal="cost", least_scale=1.0)
_FIRST = 0.15
"""Part of the time for the fleet that survives nothing, where that takes so long."""
_SLICE = 0.8
"""Part of what is left for the next fleet that might survive many failures."""
_SEARCHING = 0.7
"""Part of the time for all searches; the rest is for the plan and the check of every failure."""
_MOST_WAYS = 600
"""Ways in all states together, beyond which these are not searched on fine bins."""
_FEW_BINS = 8
"""Bins to begin with in each of many states; prices cut more."""
_MENDING_BINS = 16
_MENDING_GAP, _MENDING_S = 1e-3, 5.0
_ROUNDING = 1e-6
"""Part of the most rate of a link by which its rate exceeds what a solver found, whose tolerances are of that size."""


@dataclass(frozen=True)
class Surviving:
    """The outcome.

    Attributes:
        solved: before any failure; its bound is on all fleets that survive.
        rows: every failure.
        unprotected_usd_per_hour: of the cheapest fleet found that survives nothing.
    """

    solved: Solved
    rows: tuple[FleetFailure, ...]
    unprotected_usd_per_hour: float


class NoneSurvivesError(Exception):
    """No fleet within the limits serves the demand before any failure and after each of some.

    Attributes:
        failures: which; none where the demand cannot be served at all.
    """

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        super().__init__(", ".join(each.part for each in failures))
        self.failures = failures


def least_cost_surviving(
    network: Network,
    failures: Sequence[Failure],
    options: SolverOptions,
    gap: float,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Surviving:
    """The cheapest fleet that serves the demands, whichever one of these failures happens.

    Args:
        network: before any.
        failures: which.
        options: the solver; its time limit is for all of it.
        gap: relative distance of cost and bound that is small enough.
        on_progress: told how far the search has come.

    Raises:
        NoneSurvivesError: the limits allow none.
        SolverError: the solver is missing or failed, or was stopped before it found anything.
        CertificationError: the equations do not give what the solver claims.
    """
    check_solver(options)
    if any(not ways for ways in network.ways_of):
        raise NoneSurvivesError(())
    fatal = tuple(each for each in failures if left_of(network, each).cut_off)
    if fatal:
        raise NoneSurvivesError(fatal)
    return _Survival(network, failures, options, gap, on_progress).run()


class _Survival:
    def __init__(
        self,
        network: Network,
        failures: Sequence[Failure],
        options: SolverOptions,
        gap: float,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._network, self._failures, self._options, self._gap = network, tuple(failures), options, gap
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._best: tuple[float, Holdings] | None = None
        self._bound = 0.0
        self._unprotected = math.inf
        self._stopped: Stopped = ""
        self._last_stopped: Stopped = ""

    def run(self) -> Surviving:
        try:
            self._close(_MOST_WAYS)
            if self._best is None and not self._stopped:
                # Mending one failure after another may come to a limit that all together do not.
                self._close(math.inf)
        except KeyboardInterrupt:
            if self._best is None:
                raise
            self._stopped = "interrupted"
        if self._best is None:
            message = "the search was stopped before it found a fleet that survives these failures"
            raise SolverError(Problem("solver-limit", "--time-limit", message, "allow it more time"))
        return self._answer(self._best[1])

    def _close(self, most_ways: float) -> None:
        """Closes the gap, as far as it can.

        Args:
            most_ways: in all states together, that are searched on fine bins.
        """
        active: tuple[Failure, ...] = ()
        many: ManyStates | None = None
        tried: set[Holdings] = set()
        while not self._stopped:
            held = self._searched(active) if many is None else self._related(many)
            if held is None or held in tried:
                break
            tried.add(held)
            failing = tuple(each for each in (NO_FAILURE, *self._failures) if not self._survives(each, held))
            new = tuple(each for each in failing if each not in (NO_FAILURE, *active))
            active += new
            self._take(self._mended(held, failing))
            if new and len(self._network.ways) * (1 + len(active)) > most_ways:
                many = ManyStates(self._network, active, self._options)
            self._report(self._bound)
            if self._closed or not (new or many):
                self._stopped = "" if self._closed else self._last_stopped
                break
            if self._left_s is not None and self._left_s <= 0:
                self._stopped = "time limit"

    def _searched(self, active: tuple[Failure, ...]) -> Holdings | None:
        """The cheapest fleet that survives some failures; None where the time is over, and something is known."""
        left = self._left_s
        options = self._options
        if left is not None:
            options = dataclasses.replace(options, time_limit_s=left if active or not self._failures else _FIRST * left)
        if active:
            options = dataclasses.replace(options, bins=min(options.bins, _FEW_BINS))
        try:
            found = Search(in_states(self._network, active), _TERMS, options, self._gap, self._during).run()
        except SolverError:
            if not active:
                raise
            self._stopped = "time limit"
            return None
        if found is None:
            raise NoneSurvivesError(active)
        self._bound = max(self._bound, found.bound)
        if not active:
            self._unprotected = found.solution.usd_per_hour
        self._last_stopped = found.stopped
        if found.stopped == "interrupted" or active:
            self._stopped = found.stopped
        return self._held(found.counts, found.solution.bytes_per_s)

    def _related(self, many: ManyStates) -> Holdings | None:
        """A fleet that might survive many failures; None where the time is over, or none survives."""
        left = self._left_s
        try:
            point = many.next(self._gap, None if left is None else _SLICE * left)
        except SolverError:
            point = None
        self._bound = max(self._bound, many.bound)
        if point is None:
            if math.isinf(many.bound):
                raise NoneSurvivesError(many.failures)
            self._stopped = "time limit"
            return None
        return self._held(*point)

    def _held(self, counts: Sequence[int], bytes_per_s: Sequence[float]) -> Holdings:
        """What a fleet of the first of these counts and rates holds; a little more rate than a solver found."""
        network = self._network
        counts = tuple(round(n) for n in counts[: len(network.teams)])
        gpus = [0] * len(network.gpus)
        for team, count in zip(network.teams, counts, strict=True):
            gpus[team.gpus] += count * team.gpus_per_instance
        rates = []
        for pipe, rate in zip(network.pipes, bytes_per_s, strict=False):
            slack = _ROUNDING * pipe.bytes_per_s.most
            least = pipe.bytes_per_s.least
            rates.append(least if rate <= max(least, slack) else min(rate + slack, pipe.bytes_per_s.most))
        held = (max(used, int(each.limits.least)) for used, each in zip(gpus, network.gpus, strict=True))
        return Holdings(counts, tuple(rates), tuple(held))

    def _survives(self, failure: Failure, held: Holdings) -> bool:
        return is_survived(self._network, failure, held, self._options)

    def _take(self, held: Holdings | None) -> None:
        """A fleet that survives, if it is the cheapest yet."""
        if held is not None:
            usd = self._usd(held)
            if self._best is None or usd < self._best[0]:
                self._best = usd, held

    def _mended(self, held: Holdings, failing: Sequence[Failure]) -> Holdings | None:
        """What is held, and the cheapest that must be had beside to survive each failure in turn; None where that
        cannot be, or takes too long while another answer is known.
        """
        network, options = self._network, self._options
        mended = held
        # What a mended fleet has in its new teams can be lost too; all else is never the worse for more.
        idle = (each for each in self._failures if each.team is not None and not held.counts[each.team])
        for failure in (*failing, *idle):
            if mended is not held and self._survives(failure, mended):
                continue
            left = self._left_s
            if left is not None and left <= 0 and self._best is not None:
                return None
            limits = list(zip(mended.counts, most_counts(network), strict=True))
            pipes = tuple(
                dataclasses.replace(pipe, bytes_per_s=Limits(rate, pipe.bytes_per_s.most))
                for pipe, rate in zip(network.pipes, mended.bytes_per_s, strict=True)
            )
            states = in_states(dataclasses.replace(network, pipes=pipes), [failure], limits, before=False)
            bins = Bins(states, [edges_of(states, s, _MENDING_BINS, breaks=False) for s in range(len(states.streams))])
            program = BinnedProgram(states, bins, dataclasses.replace(_TERMS, whole=True))
            seconds = None if left is None else _MENDING_S
            try:
                if not program.solve(options, _MENDING_GAP, seconds).found:
                    return None
            except SolverError:
                return None
            solution = program.solution
            mended = self._held([round(n) for n in solution.counts], solution.bytes_per_s)
            if not self._survives(failure, mended):
                return None
        return mended

    def _usd(self, held: Holdings) -> float:
        """What a fleet costs, with the fewest bytes that it may send before any failure."""
        found = routed_best(held_network(self._network, held.counts, held.bytes_per_s), _TERMS, self._options)
        return math.inf if found is None else found.solution.usd_per_hour

    def _answer(self, held: Holdings) -> Surviving:
        network = held_network(self._network, held.counts, held.bytes_per_s)
        found = routed_best(network, _TERMS, self._options)
        if found is None:
            raise self._contradiction("the demand is not served before any failure")
        solved = decided(network, _TERMS, found, self._options)
        demand_rps = solved.demand_rps
        there = [each for each in self._failures if each.team is None or held.counts[each.team]]
        rows = failure_rows(self._network, there, held, demand_rps, self._options)
        lost = [row.part for row in rows if row.served_share < 1.0 or row.cut_off]
        if lost:
            raise self._contradiction(f"the loss of {lost[0]} is not survived")
        closed = dataclasses.replace(found, bound=self._bound, stopped=self._stopped)
        return Surviving(
            dataclasses.replace(solved, bound=self._bound, found=closed),
            rows,
            min(self._unprotected, solved.usd_per_hour),
        )

    @staticmethod
    def _contradiction(what: str) -> CertificationError:
        return CertificationError(Problem("certification", "", what, "please report this with the scenario"))

    @property
    def _closed(self) -> bool:
        return self._best is not None and gap_share(self._best[0], self._bound) <= self._gap

    @property
    def _left_s(self) -> float | None:
        limit = self._options.time_limit_s
        return None if limit is None else _SEARCHING * limit - (time.monotonic() - self._started)

    def _during(self, progress: Progress) -> None:
        self._report(max(self._bound, progress.bound))

    def _report(self, bound: float) -> None:
        value = self._best[0] if self._best else math.inf
        self._on_progress(Progress(time.monotonic() - self._started, value, bound))
