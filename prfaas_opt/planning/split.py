"""The best split and threshold together, and the proof."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from prfaas_opt.planning.certificate import PrefillBound, Prices, bound_over_splits
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.free import free_routing
from prfaas_opt.planning.problem import Decision, OnDecodeProblem
from prfaas_opt.planning.threshold import TIE, search

if TYPE_CHECKING:
    from prfaas_opt.planning.problem import TwoPoolProblem
    from prfaas_opt.scenario import Policy

WORTH_BANDS_SHARE = 1e-6
"""Gap from which on bands are looked for."""
NEAR_OPTIMAL_SHARE = 0.01
"""Loss of throughput that still counts as near-optimal."""


class Solution(Struct, frozen=True):
    """A decision and what is proven of it; the proof is None under mean-length, which is not additive.

    Attributes:
        decision: routing and split.
        near_optimal_tokens: thresholds within 1 % of its throughput, for its split; None where none were looked for.
        bound_rps: no routing and no split carries more.
        shared_rps: what it would carry if the one token length at each of its edges could be shared.
        prices: duals of its split.
        best_threshold: it is the best of all thresholds; else nothing is claimed of it but the bound.
    """

    decision: Decision
    near_optimal_tokens: tuple[int, int] | None
    bound_rps: float | None = None
    shared_rps: float | None = None
    prices: Prices | None = None
    best_threshold: bool = True


def _rate(load_s: float) -> float:
    return 1.0 / load_s if load_s > 0 else math.inf


def solve(problem: TwoPoolProblem, policy: Policy = "threshold", prove: bool = True) -> Solution | None:
    """The routing and the split of largest throughput; None where no split serves the traffic.

    Under the policy ``free`` the routing may be any bands of length, where that is better than the best threshold; the
    mean-length estimator, which is not additive over lengths, knows thresholds only.

    What prefill carries never falls with N_p, what decode carries always falls: the best split is where they cross.
    Ties (within 1e-12, relatively): least egress, then more decode instances, then the shortest threshold. Where no
    proof is asked for, a threshold comes without bound, prices and its near-optimal range.
    """
    if isinstance(problem, OnDecodeProblem) and len(problem.splits) > 1:
        return _best_batch(problem, policy, prove)
    thresholds = search(problem)
    best = cache(thresholds.best)
    splits = problem.splits

    def first_decode_bound(rate: Callable[[int], float]) -> int:
        return splits.start + bisect.bisect_left(splits, True, key=lambda n: rate(n) >= problem.decode_limit_rps(n))

    def prefill_rps(split: int) -> float:
        return _rate(best(split).load_s)

    def shared_rps(split: int) -> float:
        return _rate(best(split).shared_load_s)

    def throughput(split: int) -> float:
        return min(prefill_rps(split), problem.decode_limit_rps(split))

    @cache
    def decide(split: int) -> Decision:
        threshold = best(split).threshold_tokens
        if throughput(split) < prefill_rps(split):
            threshold = thresholds.least_egress(split, 1.0 / throughput(split))
        threshold = problem.lengths.shortest_equivalent(threshold)
        return Decision.at_threshold(problem.lengths, threshold, split, throughput(split))

    def sent_bytes(split: int) -> float:
        return problem.loads(decide(split).offloaded).sent_bytes

    crossing = first_decode_bound(prefill_rps)
    highest = max(throughput(split) for split in (crossing, crossing - 1) if split in splits)
    if highest <= 0:
        return None
    last = max(n for n in (crossing, crossing - 1) if n in splits and throughput(n) >= highest * (1 - TIE))
    before = range(splits.start, last)
    first = splits.start + bisect.bisect_left(before, True, key=lambda n: throughput(n) >= highest * (1 - TIE))
    tied = range(first, last + 1)
    # Of tied splits, more prefill instances let more stay local; the fewest that send as little as the last are best.
    decision = decide(tied[bisect.bisect_left(tied, True, key=lambda n: sent_bytes(n) <= sent_bytes(last) * (1 + TIE))])
    if not prove and policy == "threshold":
        return Solution(decision, None)
    near = thresholds.within(decision.split, (1 + TIE) / ((1 - NEAR_OPTIMAL_SHARE) * decision.throughput_rps))
    if problem.estimator == "mean-length":
        return Solution(decision, near)
    prefill = PrefillBound(problem)
    prefill_bound = cache(lambda split: prefill.of(split, best(split)))

    def prices(split: int) -> Prices:
        decode_rps = problem.decode_limit_rps(split)
        if decode_rps <= shared_rps(split) or decode_rps <= prefill_bound(split).bound_rps:
            return Prices(decode_rps, decode_rps=problem.decode_rps_per_instance)
        return prefill_bound(split)

    shared_crossing = first_decode_bound(shared_rps)
    shared = max(
        min(shared_rps(n), problem.decode_limit_rps(n)) for n in (shared_crossing, shared_crossing - 1) if n in splits
    )
    bound, split = bound_over_splits(problem, shared_crossing, prefill_bound)
    loses = decision.throughput_rps < bound * (1 - WORTH_BANDS_SHARE)
    if policy == "free" and loses and problem.remote and prefill.routing and split:
        free = free_routing(problem, problem.remote, prefill.routing, split, prefill_bound(split))
        if free.decision.throughput_rps > decision.throughput_rps:
            return Solution(free.decision, None, bound, free.shared_rps, prices(split), best_threshold=False)
        if problem.lengths.atoms:
            # Other combinations of single lengths may do better than any threshold: no credit for what is not shared.
            shared = decision.throughput_rps
    return Solution(decision, near, bound, shared, prices(decision.split))


def _best_batch(problem: OnDecodeProblem, policy: Policy, prove: bool) -> Solution | None:
    """The best of all batches, which follow no order; of ties the one that sends least, then the largest."""
    found = [
        solve(dataclasses.replace(problem, splits=range(batch, batch + 1)), policy, prove) for batch in problem.at_batch
    ]
    solutions = [solution for solution in found if solution is not None]
    if not solutions:
        return None
    highest = max(each.decision.throughput_rps for each in solutions)
    tied = [each for each in solutions if each.decision.throughput_rps >= highest * (1 - TIE)]
    best = min(tied, key=lambda each: (problem.loads(each.decision.offloaded).sent_bytes, -each.decision.split))
    if best.bound_rps is None:
        return best
    bound_rps, shared_rps = (max(getattr(each, name) for each in solutions) for name in ("bound_rps", "shared_rps"))
    return structs.replace(best, bound_rps=bound_rps, shared_rps=shared_rps)


def given(problem: TwoPoolProblem, decision: Decision) -> Solution:
    """A decision that was made otherwise, as a solution of which nothing is claimed."""
    throughput_rps = evaluate(problem, decision, problem.estimator).throughput_rps
    return Solution(structs.replace(decision, throughput_rps=throughput_rps), None, best_threshold=False)
