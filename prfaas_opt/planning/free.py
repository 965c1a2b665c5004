"""Routing by any bands of length, where one threshold is not the best.

At the prices that prove the bound, the cheapest routing is the best one: where ``p*T_local - a*T_remote - b*S`` is
positive, offload. Only its edges must be rounded to whole tokens. Where many requests have one and the same length, as
in a table of few lengths, that rounding may lose much, and another combination of lengths may do better.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.numerics import bracketed_root
from prfaas_opt.planning.problem import Decision, Range
from prfaas_opt.planning.threshold import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prfaas_opt.planning.certificate import CheapestRouting, Prices
    from prfaas_opt.planning.problem import RemotePool, TwoPoolProblem

_MOST_ROUNDED = 8
"""Edges whose roundings are all tried; beyond that each is rounded to the nearest token."""


class FreeRouting(Struct, frozen=True):
    """The best routing of one split.

    Attributes:
        decision: edges in whole tokens.
        shared_rps: what it would carry with its edges anywhere inside a token length; where single lengths have a
            probability of their own, only what it carries.
    """

    decision: Decision
    shared_rps: float


def free_routing(
    problem: TwoPoolProblem, remote: RemotePool, routing: CheapestRouting, split: int, prices: Prices
) -> FreeRouting:
    """The routing that reaches a split's bound.

    Args:
        problem, remote, routing: what is planned.
        split: local prefill instances, at least one.
        prices: those that prove the split's prefill bound. Where decode binds below it, the routing that sends least
            among those that keep up with decode is taken instead.
    """
    decode_rps = problem.decode_limit_rps(split)
    offloaded = routing.offloaded(prices.remote_rps, prices.local_rps, prices.link_rps_per_byte_per_s)
    if decode_rps < _prefill_rps(problem, remote, split, offloaded):
        offloaded = _least_egress(problem, remote, routing, split, decode_rps)
    decisions = [
        Decision(each, split, min(_prefill_rps(problem, remote, split, each), decode_rps))
        for each in _rounded(problem, offloaded)
    ]
    highest = max(decision.throughput_rps for decision in decisions)
    best = [decision for decision in decisions if decision.throughput_rps >= highest * (1 - TIE)]
    decision = min(best, key=lambda each: problem.loads(each.offloaded).sent_bytes)
    shared_rps = highest
    if not problem.lengths.atoms:
        shared_rps = max(highest, min(_prefill_rps(problem, remote, split, offloaded), decode_rps))
    return FreeRouting(decision, shared_rps)


def _prefill_rps(problem: TwoPoolProblem, remote: RemotePool, split: int, offloaded: tuple[Range, ...]) -> float:
    loads = problem.loads(offloaded)
    load_s = max(
        loads.remote_s / remote.usable_instances,
        loads.sent_bytes / remote.egress_bytes_per_s,
        *(limit.load_s(loads.local_s) for limit in problem.local_limits(split)),
    )
    return 1.0 / load_s


def _least_egress(
    problem: TwoPoolProblem, remote: RemotePool, routing: CheapestRouting, split: int, rate_rps: float
) -> tuple[Range, ...]:
    """The routing that carries a rate and sends the fewest bytes: bytes have a price of 1, the pools what they need."""
    local_room_s, remote_room_s = problem.usable_prefill(split) / rate_rps, remote.usable_instances / rate_rps

    def local_price(remote_price: float) -> float:
        """The least price of local time at which what is kept fits; the lower, the less is offloaded."""

        def excess(log_price: float) -> float:
            return routing.loads(remote_price, math.exp(log_price), 1.0).local_s - local_room_s

        low = high = math.log(remote.sent.total / problem.local_time.total)
        while excess(low) <= 0:
            low -= 1.0
        while excess(high) > 0:
            high += 1.0
        return math.exp(bracketed_root(excess, low, high)[1])

    def overload(remote_price: float) -> float:
        return routing.loads(remote_price, local_price(remote_price), 1.0).remote_s - remote_room_s

    price = 0.0
    if overload(0.0) > 0:
        high = remote.sent.total / remote.time.total
        while overload(high) > 0:
            high *= 2.0
        price = bracketed_root(overload, 0.0, high)[1]
    return routing.offloaded(price, local_price(price), 1.0)


def _rounded(problem: TwoPoolProblem, offloaded: tuple[Range, ...]) -> Iterator[tuple[Range, ...]]:
    """The ranges with their edges rounded to whole tokens in every way."""
    lengths = problem.lengths
    edges = list(itertools.chain.from_iterable(offloaded))
    roundings = (math.floor, math.ceil) if len(edges) <= _MOST_ROUNDED else (round,)
    ways = [
        dict.fromkeys(lengths.shortest_equivalent(rounding(x)) for rounding in roundings) if 0 < x < math.inf else [x]
        for x in edges
    ]
    for rounded in itertools.product(*ways):
        pairs = zip(rounded[::2], rounded[1::2], strict=True)
        yield tuple((low, high) for low, high in pairs if low < high)
