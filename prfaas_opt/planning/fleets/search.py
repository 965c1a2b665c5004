"""The best counts and routing of a fleet, with a bound on all others.

Two programs close in on the optimum. ``program`` on bins of length is a restriction: its solutions are attained.
``relaxation`` knows the unbinned lengths through cuts: nothing does better than its optimum. Each set of prices that
the first finds cuts bins where lengths change ways, and gives the second one cut a stream; the counts that the second
likes best are tried in the first. With counts given, both have the same value once bins and cuts are fine enough, so
no counts are tried twice, and the gap closes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.planning.fleets.bins import Bins, edges_of
from prfaas_opt.planning.fleets.envelope import Envelope
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms
from prfaas_opt.planning.fleets.relaxation import Cut, Relaxation
from prfaas_opt.planning.fleets.separation import prices_of_shortage

if TYPE_CHECKING:
    from prfaas_opt.planning.fleets.envelope import Prices
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.program import Solution, SupplyPrices
    from prfaas_opt.planning.options import SolverOptions

Stopped = Literal["", "time limit", "interrupted"]

_ROUNDS = 12
_SETTLED = 1e-9
"""Relative difference of binned and unbinned mean costs at which bins are fine enough."""
_COARSE_BINS = 4
"""Bins, beside those that prices make, on which counts are searched for."""
_ROUNDS_BETWEEN_LOOKS = 4
"""Rounds of the relaxation after which counts near its own are searched."""
_FIRST_LOOK, _LOOK, _PROOF = 0.05, 0.1, 0.2
"""Parts of the time that searches for counts, and a proof, may take where time is limited."""
_TIED, _WORTH_SENDING_LESS = 1e-9, 1e-3
"""Relative difference of scales that are the same, and of bytes sent that is worth other counts."""
_SEARCHING = 0.9
"""Part of the time limit for the search; the rest is for the decision that people read."""
_OF_THE_GAP = 0.05
"""Part of the present gap to which a relaxation is solved: its cuts are not worth more yet."""
_WHOLE = 1e-6
"""A count this little above a whole one is that one."""


@dataclass(frozen=True)
class Progress:
    """How far a search has come: the best value found and the bound proven, in the goal's unit; infinite at first."""

    elapsed_s: float
    value: float
    bound: float

    @property
    def gap_share(self) -> float:
        """Distance of value and bound over the larger."""
        return gap_share(self.value, self.bound)


def gap_share(value: float, bound: float) -> float:
    """``|value - bound|`` over the larger of them; 1 where either is infinite.

    >>> gap_share(3.0, 4.0), gap_share(4.0, 3.0), gap_share(0.0, 0.0)
    (0.25, 0.25, 0.0)
    """
    largest = max(abs(value), abs(bound))
    return 1.0 if not math.isfinite(largest) else abs(value - bound) / largest if largest else 0.0


@dataclass(frozen=True)
class Found:
    """The outcome of a search.

    Attributes:
        solution: the best point found, on ``bins``.
        bins: of the search; those of the point are among them, or coarser.
        program: whose optimum it is, its counts given.
        bound: nothing does better.
        stopped: what ended the search before the gap was closed, if anything did.
    """

    solution: Solution
    bins: Bins
    program: BinnedProgram
    bound: float
    stopped: Stopped = ""

    @property
    def counts(self) -> tuple[int, ...]:
        """Instances of each team."""
        return tuple(round(n) for n in self.solution.counts)

    @property
    def prices(self) -> SupplyPrices:
        """What more of the supply is worth in the goal's unit, the other counts as they are."""
        return self.program.supply_prices


class _OutOfTimeError(Exception):
    """The time limit came before the gap was closed."""


class Search:
    """One search; ``run`` it once."""

    def __init__(
        self,
        network: Network,
        terms: Terms,
        options: SolverOptions,
        gap_share: float,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._network, self._terms, self._options, self._gap_share = network, terms, options, gap_share
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._worst = -math.inf if terms.goal == "scale" else math.inf
        self._bins = Bins(network, [edges_of(network, s, options.bins) for s in range(len(network.streams))])
        self._envelopes = [Envelope(network, s) for s in range(len(network.streams))]
        self._borders: list[set[float]] = [set() for _ in network.streams]
        self._cuts: list[Cut] = []
        self._best: tuple[Solution, BinnedProgram] | None = None
        self._bound = network.scale_limit if terms.goal == "scale" else 0.0
        self._tried: set[tuple[int, ...]] = set()
        self._looked_near: set[tuple[int, ...]] = set()

    def run(self) -> Found | None:
        """The best found; None where nothing meets the constraints.

        Raises:
            SolverError: the solver failed, or the time was over before anything was found.
            KeyboardInterrupt: it was interrupted before anything was found.
        """
        stopped: Stopped = ""
        try:
            self._close()
        except _OutOfTimeError:
            stopped = "time limit"
        except KeyboardInterrupt:
            stopped = "interrupted"
        else:
            with contextlib.suppress(_OutOfTimeError, KeyboardInterrupt):
                self._send_less()
        if self._best is None:
            if not stopped:
                return None
            if stopped == "interrupted":
                raise KeyboardInterrupt
            message = f"the search was stopped ({stopped}) before it found a fleet"
            raise SolverError(Problem("solver-limit", "--time-limit", message, "allow it more time"))
        solution, program = self._best
        return Found(solution, self._bins, program, self._bound, stopped)

    def _close(self) -> None:
        """Closes the gap, as far as it can."""
        if not self._begin():
            return
        enough, exact = self._gap_share / 4, False
        for rounds in itertools.count(1):
            if self._closed:
                return
            self._check_time()
            relaxation = Relaxation(self._network, dataclasses.replace(self._terms, whole=True), self._cuts)
            tolerance = enough if exact else max(enough, _OF_THE_GAP * gap_share(self._value, self._bound))
            outcome = relaxation.solve(self._options, tolerance, self._slice_s(_PROOF))
            if not outcome.found and outcome.complete:
                return
            self._bound = self._better_bound(outcome.bound)
            self._report()
            if self._closed or not outcome.found:
                continue
            counts = relaxation.counts
            short = self._separate(relaxation)
            if self._terms.goal == "scale" or not short:
                if counts in self._tried and outcome.complete:
                    if tolerance <= enough:
                        return
                    exact = True
                self._try(counts)
            elif rounds % _ROUNDS_BETWEEN_LOOKS == 0:
                self._look_near(counts)
            self._report()

    def _begin(self) -> bool:
        """Finds first cuts and first counts; False where not even fractions of instances serve the demand."""
        terms = dataclasses.replace(self._terms, counts=None, whole=False)
        relaxed = self._refine(terms)
        if relaxed is None and terms.goal == "cost":
            # Bins that are too coarse ask for a little more than lengths do; the largest scale says where to cut them.
            self._refine(dataclasses.replace(terms, goal="scale", least_scale=0.0))
            relaxed = self._refine(terms)
        if relaxed is None:
            return False
        self._rounded_up(relaxed.solution.counts)
        self._restricted()
        return True

    def _send_less(self) -> None:
        """Among counts of the same scale takes those that send the fewest bytes; counts may tie where decode binds."""
        if self._terms.goal != "scale" or self._best is None or not self._network.pipes or not self._closed:
            return
        best = self._best[0]
        least_scale = best.value * (1 - _TIED)
        terms = dataclasses.replace(self._terms, goal="egress", least_scale=least_scale, whole=True)
        given = self._egress(dataclasses.replace(terms, whole=False, counts=self._counts(best)))
        program = BinnedProgram(self._network, self._bins, terms)
        outcome = program.solve(self._options, _WORTH_SENDING_LESS, self._slice_s(_LOOK))
        if not outcome.found or given is None or program.solution.value >= given * (1 - _WORTH_SENDING_LESS):
            return
        counts = self._counts(program.solution)
        other = self._refine(dataclasses.replace(self._terms, counts=counts, whole=False))
        if other is not None and other.solution.value >= least_scale:
            self._best = other.solution, other

    def _egress(self, terms: Terms) -> float | None:
        program = BinnedProgram(self._network, self._bins, terms)
        return program.solution.value if program.solve(self._options, time_limit_s=self._left_s).found else None

    @staticmethod
    def _counts(solution: Solution) -> tuple[int, ...]:
        return tuple(round(n) for n in solution.counts)

    def _separate(self, relaxation: Relaxation) -> int:
        """Adds cuts for the streams that their allotments do not serve; how many."""
        short = 0
        for s, envelope in enumerate(self._envelopes):
            bins, allotted = self._bins.streams[s], relaxation.allotted(s)
            prices = prices_of_shortage(self._network, s, bins, allotted, relaxation.scale, self._options)
            if prices is not None:
                stretches = envelope.stretches(prices)
                self._cuts.append(Cut(s, prices, envelope.mean_cost(prices, stretches)))
                short += 1
        return short

    def _rounded_up(self, counts: tuple[float, ...]) -> None:
        """Tries the next whole counts, if there are GPUs for them: a first answer, soon."""
        whole = tuple(math.ceil(n - _WHOLE) for n in counts)
        taken = [0] * len(self._network.gpus)
        for team, count in zip(self._network.teams, whole, strict=True):
            taken[team.gpus] += count * team.gpus_per_instance
        if all(used <= each.limits.most for used, each in zip(taken, self._network.gpus, strict=True)):
            self._try(whole)

    def _look_near(self, counts: tuple[int, ...]) -> None:
        """Looks around the best point where that is new, else around what the relaxation likes."""
        best = self._best and self._counts(self._best[0])
        if best and best not in self._looked_near:
            self._looked_near.add(best)
            counts = best
        self._restricted(counts)

    def _restricted(self, near: tuple[int, ...] | None = None) -> None:
        """Tries the counts that are best, or best near some counts, on a few bins."""
        edges = [
            edges_of(self._network, s, _COARSE_BINS, breaks=False) | borders for s, borders in enumerate(self._borders)
        ]
        terms = dataclasses.replace(self._terms, whole=True, near=near)
        program = BinnedProgram(self._network, Bins(self._network, edges), terms)
        outcome = program.solve(
            self._options, self._gap_share / 2, self._slice_s(_FIRST_LOOK if near is None else _LOOK)
        )
        if outcome.found:
            self._try(self._counts(program.solution))

    def _try(self, counts: tuple[int, ...]) -> None:
        """The best routing with some counts; cuts that tell the relaxation about it."""
        if counts in self._tried:
            return
        self._tried.add(counts)
        terms = dataclasses.replace(self._terms, counts=counts, whole=False)
        program = self._refine(terms)
        if program is None:
            # What they cannot carry says which allotments are too small.
            if terms.goal == "cost":
                self._refine(dataclasses.replace(terms, goal="scale", least_scale=0.0))
            return
        solution = program.solution
        if self._best is None or self._improves(solution.value, self._best[0].value):
            self._best = solution, program

    def _refine(self, terms: Terms) -> BinnedProgram | None:
        """Solves a linear program on bins cut where its prices change ways, until they are fine enough."""
        for _ in range(_ROUNDS):
            program = BinnedProgram(self._network, self._bins, terms)
            outcome = program.solve(self._options, time_limit_s=self._left_s)
            if not outcome.found:
                if not outcome.complete:
                    raise _OutOfTimeError
                return None
            if not self._cut(program.prices):
                break
        return program

    def _cut(self, prices: Prices) -> bool:
        """Adds the cuts of some prices; whether they cut any bin that matters."""
        borders: list[set[float]] = []
        for s, envelope in enumerate(self._envelopes):
            stretches = envelope.stretches(prices)
            cost = envelope.mean_cost(prices, stretches)
            self._cuts.append(Cut(s, prices, cost))
            self._borders[s] = {stretch.high for stretch in stretches[:-1]}
            settled = self._binned_cost(s, prices) <= cost * (1 + _SETTLED)
            borders.append(set() if settled else self._borders[s])
        return self._bins.cut(borders)

    def _binned_cost(self, stream: int, prices: Prices) -> float:
        """The mean cost of the cheapest ways where a bin's requests all cost its mean."""
        bins = self._bins.streams[stream]
        least = None
        for i in self._network.ways_of[stream]:
            team, pipe, site = prices.of(self._network.ways[i])
            cost = team * bins.seconds[i] + pipe * bins.bytes[i] + site * bins.weights
            least = cost if least is None else cost.clip(max=least)
        return 0.0 if least is None else float(least.sum())

    def _improves(self, value: float, other: float) -> bool:
        return value > other if self._terms.goal == "scale" else value < other

    def _better_bound(self, bound: float) -> float:
        return min(bound, self._bound) if self._terms.goal == "scale" else max(bound, self._bound)

    @property
    def _value(self) -> float:
        return self._best[0].value if self._best else self._worst

    @property
    def _closed(self) -> bool:
        return gap_share(self._value, self._bound) <= self._gap_share or self._improves(self._value, self._bound)

    def _report(self) -> None:
        self._on_progress(Progress(time.monotonic() - self._started, self._value, self._bound))

    @property
    def _left_s(self) -> float | None:
        limit = self._options.time_limit_s
        return None if limit is None else _SEARCHING * limit - (time.monotonic() - self._started)

    def _slice_s(self, share: float) -> float | None:
        """Seconds that one integer program may take."""
        limit, left = self._options.time_limit_s, self._left_s
        return None if limit is None or left is None else min(left, max(share * limit, 1.0))

    def _check_time(self) -> None:
        left = self._left_s
        if left is not None and left <= 0:
            raise _OutOfTimeError
