"""Dollars per request, and the counts, the split and the threshold that make them least.

A request costs its share of the instances, which are paid for by the hour, busy or not, and the bytes that it sends:

    usd = (instances * price + link capacity * price) / Lambda + E[S(L); offloaded] * price per byte

For given counts and a given split the first term grows with the load per request, the second falls with the
threshold. Below the crossing of the loads both fall, so that the best threshold is the crossing, or lies beyond it, at
an end of a plateau or where ``cost * T_local(t) / usable = price * S(t)``, which is solved, not sampled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.numerics import sign_changes
from prfaas_opt.planning.build import instance_usd_per_hour, two_pool_problem
from prfaas_opt.planning.certificate import CheapestRouting
from prfaas_opt.planning.evaluate import evaluate
from prfaas_opt.planning.problem import Decision, OnDecodeProblem
from prfaas_opt.planning.split import solve
from prfaas_opt.planning.threshold import Bisection
from prfaas_opt.profiles.curve import merged_breaks, terms_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prfaas_opt.planning.problem import TwoPoolProblem
    from prfaas_opt.scenario import Origin, Scenario

_MOST_PER_CLUSTER = 48
"""Counts that are looked at in each cluster; of more, so many, evenly apart."""
_SAME = 1e-12
_ROUNDING = 1e-12


class Deployed(Struct, frozen=True):
    """A deployment and what a request costs in it.

    Attributes:
        scenario: with the counts that are deployed.
        decision: routing and split; its throughput is the rate at which the cost is reached.
        usd_per_request: at that rate.
    """

    scenario: Scenario
    decision: Decision
    usd_per_request: float


def usd_per_hour(scenario: Scenario) -> float | None:
    """What instances and link capacity cost an hour; None where a cluster has no price."""
    total = 0.0
    for cluster in (scenario.remote, scenario.pd):
        if cluster is not None:
            price = instance_usd_per_hour(scenario, cluster)
            if price is None:
                return None
            total += cluster.instances * price
    return total + _link_usd_per_hour(scenario)


def _link_usd_per_hour(scenario: Scenario) -> float:
    link = scenario.link
    if link is None or scenario.remote is None:
        return 0.0
    return units.to_gbps(link.bandwidth_bytes_per_s) * (link.price_per_gbps_hour or 0.0)


def usd_per_byte(scenario: Scenario) -> float:
    """What a byte that is sent costs; nothing on a flat line."""
    return (scenario.link.price_per_gb or 0.0) / units.GB if scenario.link else 0.0


def require_prices(scenario: Scenario) -> None:
    """Refuses a scenario whose clusters have no price.

    Raises:
        InputError: all that have none.
    """
    missing = [
        missing_price(scenario.origin, cluster.name, cluster.hardware)
        for cluster in (scenario.remote, scenario.pd)
        if cluster is not None and cluster.price_per_gpu_hour is None
    ]
    if missing:
        raise InputError(missing)


def missing_price(origin: Origin, cluster: str, hardware: str) -> Problem:
    """That a kind of hardware in a cluster has no price."""
    message = f"{hardware} in {cluster} has no price_per_gpu_hour; without it these GPUs would cost nothing"
    fix = "add price_per_gpu_hour: 0 where they are paid for already"
    return Problem("missing-price", origin.where(("clusters", cluster)), message, fix)


def cheapest(scenario: Scenario, remote: bool = True) -> Deployed | None:
    """The counts up to the scenario's, the split and the threshold with the least dollars per request.

    Args:
        scenario: with prices, under expected-time; where it has a TTFT objective, the rate is the load at which that
            holds, at the threshold where it is largest.
        remote: whether remote prefill may be used.

    Returns:
        Of deployments that cost the same the one that serves most; None where none serves anything.
    """
    return _cheapest(_candidates(scenario, remote), usd_per_byte(scenario))


def _cheapest(candidates: Sequence[_Candidate], usd_per_byte: float) -> Deployed | None:
    """The cheapest deployment of the candidates, which stand in the order of the least that each could cost."""
    best: Deployed | None = None
    for candidate in candidates:
        if best is not None and candidate.least_usd_per_request > best.usd_per_request * (1 + _SAME):
            break
        found = candidate.cheapest(usd_per_byte, math.inf if best is None else best.usd_per_request)
        if found is not None and (best is None or _beats(found, best)):
            best = found
    return best


def least_usd_per_request(scenario: Scenario) -> float | None:
    """No counts, no split and no routing cost less, by weak duality; None where decode shares its instances.

    As if no instance were ever idle: ``E[min(c_remote * T_remote + price * S, c_pd * T_local)] + c_pd / decode rate``.
    The link's rent is shared by no more requests than all instances could serve. Without a remote instance no KVCache
    is in flight, so that decode may be cheaper: the lower of the two is the bound.
    """
    alone = dataclasses.replace(scenario, remote=None, link=None)
    bounds = [_as_if_never_idle(each) for each in ([scenario, alone] if scenario.remote else [scenario])]
    return min((bound for bound in bounds if bound is not None), default=None)


def _as_if_never_idle(scenario: Scenario) -> float | None:
    try:
        problem = two_pool_problem(scenario)
    except (InputError, InfeasibleError):
        return None
    pd = (instance_usd_per_hour(scenario, scenario.pd) or 0.0) / units.HOUR_S / problem.pd_ceiling
    if isinstance(problem, OnDecodeProblem):
        return None
    decode = pd / problem.decode_rps_per_instance
    pool, cluster = problem.remote, scenario.remote
    if pool is None or cluster is None:
        return (pd * problem.local_total_s + decode) * (1 - _ROUNDING)
    hourly = instance_usd_per_hour(scenario, cluster) or 0.0
    a, b = hourly / units.HOUR_S / cluster.max_utilization, usd_per_byte(scenario)
    loads = CheapestRouting(problem, pool).loads(a, pd, b)
    solution = solve(problem)
    rent = _link_usd_per_hour(scenario) / units.HOUR_S
    if solution is not None and solution.bound_rps is not None:
        rent /= solution.bound_rps
    return (a * loads.remote_s + b * loads.sent_bytes + pd * loads.local_s + decode + rent) * (1 - _ROUNDING)


def break_even_usd_per_gb(scenario: Scenario) -> float | None:
    """The price of a GB sent at which the cheapest deployment with remote prefill costs what the cheapest without does.

    The least cost is a minimum of lines in this price, so that the line of the cheapest deployment at one price gives
    the next to try, and the last is exact. None where remote prefill does not pay even if nothing is paid for bytes,
    or where there is no deployment without it.
    """
    if scenario.remote is None or scenario.link is None:
        return None
    candidates = _candidates(scenario, remote=True)
    alone = _cheapest([each for each in candidates if each.scenario.remote is None], 0.0)
    price: float | None = None
    while alone is not None:
        found = _cheapest(candidates, (price or 0.0) / units.GB)
        sent = 0.0 if found is None else _sent_bytes(found)
        if found is None or sent <= 0 or found.usd_per_request >= alone.usd_per_request * (1 - _SAME):
            return price
        without_bytes = found.usd_per_request - sent * (price or 0.0) / units.GB
        price = (alone.usd_per_request - without_bytes) / sent * units.GB
    return None


def _sent_bytes(deployed: Deployed) -> float:
    return two_pool_problem(deployed.scenario).loads(deployed.decision.offloaded).sent_bytes


def _beats(one: Deployed, other: Deployed) -> bool:
    if one.usd_per_request < other.usd_per_request * (1 - _SAME):
        return True
    same = one.usd_per_request <= other.usd_per_request * (1 + _SAME)
    return same and one.decision.throughput_rps > other.decision.throughput_rps * (1 + _SAME)


def _candidates(scenario: Scenario, remote: bool) -> list[_Candidate]:
    """What of ``_counts`` serves anything, that which could cost least first."""
    found = []
    for counts in _counts(scenario, remote):
        with contextlib.suppress(InputError, InfeasibleError):
            found.append(_Candidate(counts))
    return sorted(
        (each for each in found if each.least_usd_per_request < math.inf), key=lambda each: each.least_usd_per_request
    )


def _counts(scenario: Scenario, remote: bool) -> Iterator[Scenario]:
    """The scenario with each choice of counts up to its own; without a remote instance the link is not paid for."""
    alone = dataclasses.replace(scenario, remote=None, link=None)
    cluster = scenario.remote
    choices: list[tuple[int, Scenario]] = [(0, alone)]
    if cluster is not None and remote:
        choices += [
            (n, dataclasses.replace(scenario, remote=dataclasses.replace(cluster, instances=n)))
            for n in _up_to(cluster.instances)
        ]
    for (_, each), n in itertools.product(choices, _up_to(scenario.pd.instances)):
        yield dataclasses.replace(each, pd=dataclasses.replace(scenario.pd, instances=n))


def _up_to(count: int) -> list[int]:
    step = max(count / _MOST_PER_CLUSTER, 1.0)
    return sorted({round(count - i * step) for i in range(min(count, _MOST_PER_CLUSTER))} - {0})


def _splits(problem: TwoPoolProblem) -> list[int]:
    return list(problem.at_batch) if isinstance(problem, OnDecodeProblem) else list(problem.splits)


class _Candidate:
    """Counts that may be deployed, with what is the same of them at any price of bytes.

    Attributes:
        scenario: with the counts.
        least_usd_per_request: no deployment of them costs less: at its best throughput, all bytes for nothing.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self._problem = scenario, two_pool_problem(scenario)
        self._thresholds = Bisection(self._problem)
        self._usd_per_s = (usd_per_hour(scenario) or 0.0) / units.HOUR_S
        self._best = {split: self._thresholds.best(split) for split in _splits(self._problem)}
        highest = max(map(self._capacity_rps, self._best))
        self.least_usd_per_request = self._usd_per_s / highest if highest > 0 else math.inf

    def _capacity_rps(self, split: int) -> float:
        load_s = self._best[split].load_s
        return min(1.0 / load_s if load_s > 0 else math.inf, self._problem.decode_limit_rps(split))

    def cheapest(self, usd_per_byte: float, limit_usd: float) -> Deployed | None:
        """The cheapest deployment of these counts; None where none costs as little as a limit."""
        if self.scenario.service.ttft:
            return self._at_objective(usd_per_byte)
        best: Deployed | None = None
        for split in self._best:
            capacity_rps = self._capacity_rps(split)
            if capacity_rps <= 0 or self._usd_per_s / capacity_rps > limit_usd * (1 + _SAME):
                continue
            for threshold in self._of_split(split, usd_per_byte):
                found = self._deployed(Decision.at_threshold(self._problem.lengths, threshold, split), usd_per_byte)
                if found is not None and (best is None or _beats(found, best)):
                    best = found
        return best

    def _deployed(self, decision: Decision, usd_per_byte: float) -> Deployed | None:
        rate_rps = evaluate(self._problem, decision, "expected-time").throughput_rps
        if rate_rps <= 0:
            return None
        cost = self._usd_per_s / rate_rps + usd_per_byte * self._problem.loads(decision.offloaded).sent_bytes
        return Deployed(self.scenario, structs.replace(decision, throughput_rps=rate_rps), cost)

    def _at_objective(self, usd_per_byte: float) -> Deployed | None:
        from prfaas_opt.planning.operating import best_operating_point

        point = best_operating_point(self.scenario, self._problem)
        if point is None:
            return None
        sent = self._problem.loads(point.decision.offloaded).sent_bytes
        decision = structs.replace(point.decision, throughput_rps=point.rate_rps)
        return Deployed(self.scenario, decision, self._usd_per_s / point.rate_rps + usd_per_byte * sent)

    def _of_split(self, split: int, usd_per_byte: float) -> set[int]:
        """Thresholds of which one is the cheapest of a split."""
        problem, thresholds, best = self._problem, self._thresholds, self._best[split]
        first, last = problem.lengths.first_threshold, problem.lengths.last_threshold
        if problem.remote is None:
            return {last}
        found = {best.threshold_tokens, best.threshold_tokens + 1, last}
        decode_rps = problem.decode_limit_rps(split)
        if decode_rps * best.load_s < 1:
            kink = thresholds.least_egress(split, 1.0 / decode_rps)
            found |= {kink, kink + 1}
        limits = [limit for limit in problem.local_limits(split) if limit.usable_instances > 0]
        for one, other in itertools.combinations(limits, 2):
            # Where another limit of local prefill takes over, the load bends upwards.
            steeper = other.usable_instances - one.usable_instances
            if steeper != 0:
                local_s = (other.overhead_s * one.usable_instances - one.overhead_s * other.usable_instances) / steeper
                if local_s > 0:
                    kink = thresholds.least_egress(split, one.load_s(local_s))
                    found |= {kink, kink + 1}
        if usd_per_byte > 0 and limits:
            local, sent = problem.local_prefill_s, problem.remote.kv_bytes
            breaks = merged_breaks((local, sent), max(best.threshold_tokens, first, 1), last)
            for limit, (low, high) in itertools.product(limits, itertools.pairwise(breaks)):
                price = self._usd_per_s / limit.usable_instances
                excess = [(price * c, e) for c, e in terms_at(local, high)]
                excess += [(-usd_per_byte * c, e) for c, e in terms_at(sent, high)]
                for x in [low, *sign_changes(excess, low, high)]:
                    found |= {math.floor(x), math.ceil(x)}
        return {threshold for threshold in found if first <= threshold <= last}
