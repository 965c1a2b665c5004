"""The operating point: the load at which the time to first token holds, over threshold and split together.

What is found is the best of a search, not proven: thresholds on a grid over all lengths, then ever nearer ones around
the best, to the token. A candidate costs one look where it cannot beat the best so far, since the time to first token
never falls with load.
"""

from __future__ import annotations

import bisect
import itertools
import math
from functools import cache, cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from prfaas_opt.latency.first_token import Cells, Class, FirstToken, Queue, Sending, TtftAtLoad
from prfaas_opt.numerics import bracketed_root
from prfaas_opt.planning.build import carried_by_link, carried_of_request, decoding_of, limits_of_decode
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.problem import Decision, OnDecodeProblem
from prfaas_opt.planning.threshold import Bisection
from prfaas_opt.throughput.expectation import Expectation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.planning.problem import Range, TwoPoolProblem
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.scenario import Scenario
    from prfaas_opt.terms import TtftSlo
    from prfaas_opt.workload.distribution import LengthDistribution

_GRID = 48
_FINER = 8
_FAR = 0.8
"""A split whose best threshold of the grid is this far behind another split's best is looked at no nearer."""
_BETTER = 1e-9


class OperatingPoint(Struct, frozen=True):
    """A decision and the largest load at which its time to first token holds.

    Attributes:
        decision: its throughput is its capacity.
        rate_rps: the load.
        at_rate: the time to first token there.
    """

    decision: Decision
    rate_rps: float
    at_rate: TtftAtLoad


class Latency:
    """The time to first token of the decisions of one scenario."""

    def __init__(self, scenario: Scenario, problem: TwoPoolProblem) -> None:
        self._scenario, self._problem = scenario, problem
        remote, served = problem.remote, problem.served
        self._cells = Cells(served)
        self._local_moments = _Moments(problem.local_prefill_s, served)
        self._remote_moments = _Moments(remote.prefill_s, served) if remote else None
        self._limits, self._largest = limits_of_decode(scenario), decoding_of(scenario)
        output = scenario.workload.output_tokens
        self._output_cv2 = max(output.moment(2.0) / output.mean**2 - 1.0, 0.0)
        self._classes = cache(self._make_classes)

    def of(self, decision: Decision) -> FirstToken:
        """The time to first token of a decision, at any load."""
        prefilling, decoding = self._problem.roles(decision.split)
        on_decode = isinstance(self._problem, OnDecodeProblem)
        batch = decision.split if on_decode else self._largest.batch
        local, remote = self._classes(decision.offloaded)
        classes = [] if remote is None else [remote]
        if local is not None:
            queue = structs.replace(local.queue, servers=decoding if on_decode else prefilling)
            classes.append(structs.replace(local, queue=queue))
        held_s = batch / self._limits.rps(batch)
        slots = Queue(decoding * batch, held_s, self._output_cv2)
        memory, room_bytes = self._limits.memory, math.inf
        if memory is not None:
            room_bytes = decoding * (memory.usable_bytes - self._limits.held_bytes(batch))
        cv2 = self._scenario.service.arrival_cv2
        return FirstToken(tuple(classes), slots, cv2, on_decode, self._limits.kv_bytes, room_bytes)

    def _make_classes(self, offloaded: tuple[Range, ...]) -> tuple[Class | None, Class | None]:
        """The requests that prefill in the PD cluster, on servers yet to be counted, and those that do remotely."""
        problem, cluster, remote = self._problem, self._scenario.remote, self._problem.remote
        decision = Decision(offloaded, 0, 0.0)
        local = self._class(self._local_moments, problem.local_shares(decision), problem.local_latency_s)
        if remote is None or cluster is None or self._remote_moments is None:
            return local, None
        sent = self._class(self._remote_moments, problem.remote_shares(decision), remote.latency_s)
        if sent is None:
            return local, None
        return local, structs.replace(
            sent,
            queue=structs.replace(sent.queue, servers=cluster.instances),
            sent_bytes=remote.kv_bytes,
            sending=structs.replace(self._sending, bytes_per_request=problem.loads(offloaded).sent_bytes),
        )

    def _class(self, moments: _Moments, shares: Sequence[tuple[Range, float]], prefill_s: Curve) -> Class | None:
        """The requests of some ranges of length, or a share of each, on no server yet; None where there are none."""
        chains = tuple(chain.times(share) for each, share in shares if share > 0 for chain in self._cells.chains(*each))
        total = math.fsum(itertools.chain.from_iterable(chain.weights for chain in chains))
        return Class(total, Queue(0, *moments.of(shares, total)), chains, prefill_s) if total > 0 else None

    @cached_property
    def _sending(self) -> Sending:
        scenario = self._scenario
        return Sending(
            link_bytes_per_s=carried_by_link(scenario).bytes_per_s,
            request_bytes_per_s=carried_of_request(scenario).bytes_per_s,
            rtt_s=scenario.link.route.rtt_s if scenario.link else 0.0,
            transfer=scenario.service.transfer,
            bytes_per_request=0.0,
            sent_per_uncached=scenario.workload.prompt_per_uncached
            if scenario.service.transfer.sent == "full_prompt"
            else 1.0,
        )


class _Moments:
    """Mean and variability of a service time over some of the requests."""

    def __init__(self, seconds: Curve, served: LengthDistribution) -> None:
        self._first, self._second = (Expectation(curve, served) for curve in (seconds, seconds.squared()))

    def of(self, shares: Sequence[tuple[Range, float]], total: float) -> tuple[float, float]:
        """Mean seconds and squared coefficient of variation of requests that are ``total`` of all."""
        mean, square = (
            math.fsum(share * moment.between(*each) for each, share in shares) / total
            for moment in (self._first, self._second)
        )
        return mean, max(square / mean**2 - 1.0, 0.0) if mean**2 > 0 else 0.0


def largest_load(latency: FirstToken, slos: Sequence[TtftSlo], capacity_rps: float, least_rps: float = 0.0) -> float:
    """The largest rate up to a capacity at which every percentile holds; zero where none above ``least_rps`` does.

    Args:
        latency: of a deployment.
        slos: what must hold.
        capacity_rps: what the deployment carries at most.
        least_rps: rates up to this are of no interest.
    """

    def excess(rate_rps: float) -> float:
        """How many more requests than allowed are late, as a share; of the percentile that is missed by most."""
        at_rate = latency.at(rate_rps)
        if at_rate is None:
            return 1.0
        return max(at_rate.share_longer(slo.limit_s) - (1.0 - slo.quantile) for slo in slos)

    if excess(least_rps) > 0:
        return 0.0
    if excess(capacity_rps) <= 0:
        return capacity_rps
    return bracketed_root(excess, least_rps, capacity_rps)[0]


def best_operating_point(scenario: Scenario, problem: TwoPoolProblem) -> OperatingPoint | None:
    """The threshold and the split with the largest load at which the scenario's percentiles hold; None where none does.

    Args:
        scenario, problem: what is planned, under expected-time.
    """
    return _Search(scenario, problem).best()


class _Search:
    """Looks for the largest load, over thresholds and splits."""

    def __init__(self, scenario: Scenario, problem: TwoPoolProblem) -> None:
        self._problem, self._slos = problem, scenario.service.ttft
        self._latency = Latency(scenario, problem)
        self._best: OperatingPoint | None = None

    def best(self) -> OperatingPoint | None:
        """Split by split, the one of largest capacity first."""
        problem = self._problem
        bisection = Bisection(problem)
        splits = problem.at_batch if isinstance(problem, OnDecodeProblem) else problem.splits
        of_capacity = {split: bisection.best(split) for split in splits}

        def capacity_rps(split: int) -> float:
            load_s = of_capacity[split].load_s
            return min(1.0 / load_s if load_s > 0 else math.inf, problem.decode_limit_rps(split))

        for split in sorted(splits, key=lambda each: -capacity_rps(each)):
            if self._best is None or capacity_rps(split) > self._best.rate_rps:
                self._look_at(split, of_capacity[split].threshold_tokens)
        return self._best

    @cached_property
    def _options(self) -> Sequence[int]:
        """Every threshold that differs, ascending; where all lengths are single ones, these and one below them."""
        lengths = self._problem.lengths
        if self._problem.remote is None:
            return [lengths.last_threshold]
        if not lengths.parts:
            return [lengths.first_threshold, *map(math.ceil, lengths.atom_lengths)]
        return range(lengths.first_threshold, lengths.last_threshold + 1)

    @cached_property
    def _grid(self) -> list[int]:
        """Which of the options to look at first: all of few, else some apart, ends of densities and single ones."""
        lengths, options = self._problem.lengths, self._options
        if len(options) <= 2 * _GRID:
            return list(range(len(options)))
        if not lengths.parts:
            return _evenly(range(len(options)))
        ends = [end for _, part in lengths.parts for end in (math.ceil(part.low), math.ceil(part.high))]
        single = [math.ceil(lengths.atom_lengths[i]) for i in _evenly(range(len(lengths.atoms)))]
        first, last = options[0], options[-1]
        return sorted({min(max(t, first), last) - first for t in (*_spread(first, last), *ends, *single)})

    def _look_at(self, split: int, first: int) -> None:
        """A grid of thresholds, a good one first, then ever finer ones between the neighbours of the best."""
        options = self._options
        at = bisect.bisect_left(options, first)
        grid = sorted({at, *self._grid})
        indices = [at, *grid]
        floor_rps = _FAR * self._best.rate_rps if self._best else 0.0
        best: OperatingPoint | None = None
        while indices:
            for index in indices:
                better = self._better(best, options[index], split, floor_rps)
                at = at if better is best else index
                best = better
            if best is None:
                return
            low = max((i for i in grid if i < at), default=at)
            high = min((i for i in grid if i > at), default=at)
            indices = sorted({round(low + (high - low) * i / _FINER) for i in range(1, _FINER)} - {low, at, high})
            grid = [low, *indices, at, high]
        if best is not None and (self._best is None or best.rate_rps > self._best.rate_rps):
            self._best = best

    def _better(
        self, best: OperatingPoint | None, threshold: int, split: int, floor_rps: float
    ) -> OperatingPoint | None:
        """The better of a point and a threshold; None where neither reaches the floor."""
        decision = Decision.at_threshold(self._problem.lengths, threshold, split)
        capacity_rps = evaluate(self._problem, decision, "expected-time").throughput_rps
        least_rps = best.rate_rps * (1 + _BETTER) if best else floor_rps
        if capacity_rps <= least_rps:
            return best
        latency = self._latency.of(decision)
        rate_rps = largest_load(latency, self._slos, capacity_rps, least_rps)
        at_rate = latency.at(rate_rps) if rate_rps > 0 else None
        if at_rate is None:
            return best
        return OperatingPoint(structs.replace(decision, throughput_rps=capacity_rps), rate_rps, at_rate)


def _evenly(whole: range) -> list[int]:
    """At most so many of some whole numbers, the last one included."""
    return sorted({whole[(len(whole) - 1) * i // _GRID] for i in range(_GRID + 1)}) if whole else []


def _spread(first: int, last: int) -> list[int]:
    """Whole numbers from first to last, evenly apart in their logarithm."""
    low = max(first, 1)
    ratio = (last / low) ** (1.0 / _GRID)
    return sorted({first, last, *(min(max(round(low * ratio**i), first), last) for i in range(_GRID + 1))})
