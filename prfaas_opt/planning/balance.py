"""Prices at which the cheapest routing loads every limit alike, by Newton's method.

Give each limit of prefill a weight, none negative, 1 in all, and let a request cost the weighted sum of the shares of
a second that it takes of each limit it needs. Sent the cheaper way, requests cost

    F(w) = E[min(w_remote * T_remote(L) / N_remote + w_link * S(L) / B, w_local * T_local(L) / N_p)]

on average, and no routing carries more than ``1 / F(w)`` (see ``certificate``). F is concave; its gradient is the load
of each limit under that routing, its curvature comes from the lengths at which the routing turns, and it is largest,
the bound hence least, where the loads of all limits with a weight are equal and no other's is larger.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from prfaas_opt.numerics import evaluate_terms, slope_of

if TYPE_CHECKING:
    from prfaas_opt.planning.certificate import CheapestRouting
    from prfaas_opt.planning.problem import LocalLimit, Range, RemotePool, TwoPoolProblem

_BALANCED = 1e-10
"""How much busier than the average limit one may be; the bound is flat there, and off by the square of that."""
_MOST_STEPS, _MOST_CUTS = 25, 8
_LEAST_RISE, _SHORTEST_CUT = 0.1, 0.05
"""A step is cut where F rises by less than this share of what its slope promised, and to no less than this share."""
_ROUNDING = 1e-13
_KEPT = 0.1
"""The share of its weight that local prefill keeps in a step at least: without any, all would stay."""
_RIDGE = 1e-10
"""What is added to the curvature, which may be none in some direction: a share of it, or of the slope."""
_NEAR = 1e-6
"""Half of the range, as a share of a length, in which the density of lengths is taken to be the same."""

Pair = tuple[float, float]
"""Of remote compute and of the link."""


class Costs(NamedTuple):
    """What a second of a remote instance, a second of a local one, and a byte on the link cost."""

    remote: float
    local: float
    link: float


class _Point(NamedTuple):
    """The cheapest routing at some weights.

    Attributes:
        weights: of the remote side; local prefill has the rest.
        offloaded: the lengths that it offloads.
        loads_s: of the remote side, ``1 / Lambda`` where each limits.
        local_load_s: of local prefill.
    """

    weights: Pair
    offloaded: tuple[Range, ...]
    loads_s: Pair
    local_load_s: float

    @property
    def local_weight(self) -> float:
        return max(1.0 - sum(self.weights), 0.0)

    @property
    def cost_s(self) -> float:
        """F."""
        remote = self.weights[0] * self.loads_s[0] + self.weights[1] * self.loads_s[1]
        return remote + self.local_weight * self.local_load_s

    @property
    def gap(self) -> float:
        """How far, relatively, the bound may be above what some mix of routings carries: this one carries so little."""
        cost_s = self.cost_s
        return max(*self.loads_s, self.local_load_s) / cost_s - 1.0 if cost_s > 0 else math.inf

    @property
    def gradient(self) -> Pair:
        """Of F, by the weights of the remote side."""
        return self.loads_s[0] - self.local_load_s, self.loads_s[1] - self.local_load_s


class Balance:
    """Looks for the weights at which F is largest."""

    def __init__(
        self, problem: TwoPoolProblem, remote: RemotePool, routing: CheapestRouting, limit: LocalLimit
    ) -> None:
        self._problem, self._routing, self._limit = problem, routing, limit
        self._capacities: Pair = remote.usable_instances, remote.egress_bytes_per_s

    def costs(self, link_share: float, local_price: float, enough_s: float = math.inf) -> Costs | None:
        """The prices at the largest F; None where Newton's method finds no way there, as where loads jump.

        Args:
            link_share: of the price of the remote side, where to start.
            local_price: of a local instance where to start, the remote side costing 1 in all.
            enough_s: prices at which F is as large will do.
        """
        if self._problem.lengths.atoms:
            return None
        total = 1.0 + local_price * self._limit.usable_instances
        point: _Point | None = self._at(((1.0 - link_share) / total, link_share / total))
        for _ in range(_MOST_STEPS):
            if point is None or point.gap <= _BALANCED or point.cost_s >= enough_s:
                return self._costs(point.weights) if point else None
            point = self._after(point, self._step(point))
        return None

    def _costs(self, weights: Pair) -> Costs:
        (remote, link), (instances, egress) = weights, self._capacities
        local = max(1.0 - remote - link, 0.0)
        return Costs(remote / instances, local / self._limit.usable_instances, link / egress)

    def _at(self, weights: Pair) -> _Point:
        offloaded = self._routing.offloaded(*self._costs(weights))
        loads = self._problem.loads(offloaded)
        instances, egress = self._capacities
        remote = loads.remote_s / instances, loads.sent_bytes / egress
        return _Point(weights, offloaded, remote, self._limit.load_s(loads.local_s))

    def _after(self, point: _Point, step: Pair) -> _Point | None:
        """A point along a step where F is larger, or, where rounding hides that, loads are nearer to each other."""
        share, rise = _inside(point, step), _along(point, step)
        for _ in range(_MOST_CUTS):
            moved = (weight + share * change for weight, change in zip(point.weights, step, strict=True))
            remote, link = (weight if weight > _ROUNDING else 0.0 for weight in moved)
            found = self._at((remote, link))
            if found.cost_s >= point.cost_s + _LEAST_RISE * share * rise:
                return found
            if found.cost_s >= point.cost_s * (1 - _ROUNDING) and found.gap < 0.5 * point.gap:
                return found
            turn = rise - _along(found, step)
            if turn <= 0:
                break
            # F is concave, and about a parabola along the step: the slopes at both ends tell where its top is.
            share *= min(max(rise / turn, _SHORTEST_CUT), 0.5)
        return None

    def _step(self, point: _Point) -> Pair:
        """Newton's step; a weight that is zero and would fall stays."""
        gradient, curvature = point.gradient, self._curvature(point)
        free = [point.weights[i] > 0 or gradient[i] > 0 for i in range(2)]
        step = _newton(gradient, curvature, free)
        falls = [point.weights[i] == 0 and step[i] < 0 for i in range(2)]
        if any(falls):
            step = _newton(gradient, curvature, [free[i] and not falls[i] for i in range(2)])
        return step

    def _curvature(self, point: _Point) -> tuple[float, float, float]:
        """Of F, sign turned: by the first weight of the remote side, by both, and by the second."""
        costs, (instances, egress) = self._costs(point.weights), self._capacities
        first = mixed = second = 0.0
        for length, segment in self._routing.turns(point.offloaded):
            curves = segment.local, segment.remote, segment.sent
            local_s, remote_s, sent_bytes = (evaluate_terms(terms, length) for terms in curves)
            rises = [evaluate_terms(slope_of(terms), length) for terms in curves]
            steepness = abs(costs.local * rises[0] - costs.remote * rises[1] - costs.link * rises[2])
            if steepness == 0:
                continue
            near = _NEAR * length
            density = self._problem.lengths.moment(0.0, length - near, length + near) / (2.0 * near)
            local = local_s / self._limit.usable_instances
            by_remote, by_link = local + remote_s / instances, local + sent_bytes / egress
            first += density / steepness * by_remote**2
            mixed += density / steepness * by_remote * by_link
            second += density / steepness * by_link**2
        return first, mixed, second


def _along(point: _Point, step: Pair) -> float:
    """How fast F rises along a step."""
    return point.gradient[0] * step[0] + point.gradient[1] * step[1]


def _inside(point: _Point, step: Pair) -> float:
    """The share of a step that no weight forbids."""
    share = 1.0
    for weight, change in zip(point.weights, step, strict=True):
        if weight + change < 0:
            share = min(share, weight / -change)
    if point.local_weight - sum(step) < _KEPT * point.local_weight:
        share = min(share, (1.0 - _KEPT) * point.local_weight / sum(step))
    return share


def _newton(gradient: Pair, curvature: tuple[float, float, float], free: list[bool]) -> Pair:
    """The step to where the gradient is zero, of the weights that are free."""
    first, mixed, second = curvature
    ridge = _RIDGE * max(first + second, abs(gradient[0]) + abs(gradient[1]))
    first, second = first + ridge, second + ridge
    if not all(free):
        return gradient[0] / first * free[0], gradient[1] / second * free[1]
    determinant = first * second - mixed * mixed
    return (
        (second * gradient[0] - mixed * gradient[1]) / determinant,
        (first * gradient[1] - mixed * gradient[0]) / determinant,
    )
