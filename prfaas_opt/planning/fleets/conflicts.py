"""Why no fleet serves a demand: the smallest set of limits that conflict, and the smallest change of each.

A limit is dropped for a try; if the rest still conflicts it stays dropped (a deletion filter). What is left conflicts,
and would not without any one of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem, SolverError
from prfaas_opt.fleet import Limits
from prfaas_opt.planning.fleets.changes import with_connection, with_demand_times, with_holding, with_stream
from prfaas_opt.planning.fleets.network import network_of
from prfaas_opt.planning.fleets.solve import least_cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.fleet import Connection, Fleet, Holding
    from prfaas_opt.planning.options import SolverOptions

_ANY_RATE = 1e-6
"""Part of what GPUs could decode that stands for any rate at all."""
_AMPLE_INSTANCES = 10_000
_AMPLE_TIMES, _AMPLE_BYTES_PER_S = 100.0, 1e3 * units.GBPS
_BINS = 24
_TRY_S = 5.0
"""Seconds for each try."""
_ANY_GAP, _FINE_GAP = 0.9, 1e-4
_STEPS = 7
"""Halvings in the search for the largest demand or token rate that can be served."""


@dataclass(frozen=True)
class _Limit:
    """A constraint that may be dropped.

    Attributes:
        where: path of its field.
        words: what it asks for.
        drop: the fleet without it.
        change: its smallest change that makes the fleet feasible, in words; None where there is none.
    """

    where: tuple[str | int, ...]
    words: str
    drop: Callable[[Fleet], Fleet]
    change: Callable[[], str | None]


def explain(
    fleet: Fleet, options: SolverOptions, any_rate: bool = False, budget_usd_per_hour: float | None = None
) -> list[Problem]:
    """The limits that conflict, one problem each, with the smallest change of each that helps.

    Args:
        fleet: that serves nothing, or not its demands.
        options: the solver.
        any_rate: whether no rate at all can be served; else it is the demands that cannot.
        budget_usd_per_hour: what may be spent, if that is limited.

    Raises:
        SolverError: the solver failed.
    """
    return _Conflict(fleet, options, any_rate, budget_usd_per_hour).problems()


class _Conflict:
    def __init__(self, fleet: Fleet, options: SolverOptions, any_rate: bool, budget: float | None) -> None:
        limit_s = _TRY_S if options.solver == "HIGHS" else None
        self._options = dataclasses.replace(options, bins=_BINS, time_limit_s=limit_s)
        self._any_rate, self._budget = any_rate, budget
        self._fleet = _at_any_rate(fleet) if any_rate else fleet

    def problems(self) -> list[Problem]:
        limits = self._limits()
        conflicting = self._filtered(limits)
        origin = self._fleet.origin
        asked = "any traffic" if self._any_rate else f"{self._fleet.demand_rps:g} req/s"
        if not conflicting:
            message = f"no fleet serves {asked}, whatever is held: some stream has no way from prefill to decode"
            return [Problem("conflict", origin.where(("clusters",)), message, "link the clusters")]
        others = f"one of {len(conflicting)} limits that together rule out" if len(conflicting) > 1 else "rules out"
        problems = []
        for limit in conflicting:
            change = limit.change()
            message = f"{limit.words}: {others} serving {asked}"
            fix = change or "this limit alone cannot be changed so that it helps"
            problems.append(Problem("conflict", origin.where(limit.where), message, fix))
        return problems

    def _filtered(self, limits: list[_Limit]) -> list[_Limit]:
        kept, fleet = list(limits), self._fleet
        for limit in limits:
            without = limit.drop(fleet)
            # In doubt a limit stays: the set then conflicts all the same, and may be larger than it must.
            if not self._feasible(without, in_doubt=True):
                fleet = without
                kept.remove(limit)
        return [] if not self._feasible_without(kept, fleet) else kept

    def _feasible_without(self, limits: Sequence[_Limit], fleet: Fleet) -> bool:
        for limit in limits:
            fleet = limit.drop(fleet)
        return self._feasible(fleet, in_doubt=True)

    def _feasible(self, fleet: Fleet, in_doubt: bool = False) -> bool:
        """Whether something serves the demands; ``in_doubt`` where that is not found out in time."""
        if not fleet.streams:
            return True
        try:
            network = network_of(fleet)
        except (InfeasibleError, InputError):
            return False
        try:
            solved = least_cost(network, self._options, _ANY_GAP if self._budget is None else _FINE_GAP)
        except SolverError:
            return in_doubt
        return solved is not None and (self._budget is None or solved.usd_per_hour <= self._budget)

    def _limits(self) -> list[_Limit]:
        fleet = self._fleet
        limits = [self._link(e, connection) for e, connection in enumerate(fleet.connections)]
        limits += [
            self._holding(i, k, holding)
            for i, site in enumerate(fleet.sites)
            for k, holding in enumerate(site.holdings)
        ]
        if self._budget is not None:
            limits.append(self._spending(self._budget))
        limits += [self._slo(s) for s, stream in enumerate(fleet.streams) if stream.tokens_per_s is not None]
        if not self._any_rate:
            limits += [self._demand(s) for s in range(len(fleet.streams))]
        return limits

    def _holding(self, i: int, k: int, holding: Holding) -> _Limit:
        site = self._fleet.sites[i]
        largest = max(
            profile.gpus_per_instance
            for stream in self._fleet.streams
            if (profile := stream.model.profile(holding.hardware)) is not None
        )
        most = max(holding.gpus.most, float(_AMPLE_INSTANCES * largest))
        ample = dataclasses.replace(holding, gpus=Limits(holding.gpus.least, most))

        def change() -> str | None:
            priced = dataclasses.replace(ample, usd_per_gpu_hour=1.0)
            gpus = self._least(with_holding(_free_of_charge(self._fleet), i, k, priced))
            return None if gpus is None else f"allow {gpus:,.0f} {holding.hardware} GPUs in {site.name}"

        words = f"at most {holding.gpus.most:,.0f} {holding.hardware} GPUs in {site.name}"
        return _Limit(("clusters", site.name), words, lambda fleet: with_holding(fleet, i, k, ample), change)

    def _link(self, e: int, link: Connection) -> _Limit:
        rate = link.bandwidth_bytes_per_s
        ample = dataclasses.replace(
            link, bandwidth_bytes_per_s=Limits(rate.least, max(_AMPLE_TIMES * rate.most, _AMPLE_BYTES_PER_S))
        )

        def change() -> str | None:
            priced = dataclasses.replace(ample, usd_per_gbps_hour=1.0)
            gbps = self._least(with_connection(_free_of_charge(self._fleet), e, priced))
            return None if gbps is None else f"widen it to {_rounded_up(gbps):g} Gbps"

        most = units.format_gbps(units.to_gbps(link.bandwidth_bytes_per_s.most))
        words = f"at most {most} from {link.source} to {link.destination}"
        return _Limit(("links", e, "bandwidth"), words, lambda fleet: with_connection(fleet, e, ample), change)

    def _spending(self, budget: float) -> _Limit:
        def change() -> str | None:
            usd = self._least(self._fleet)
            return None if usd is None else f"allow {usd:,.2f} USD an hour"

        return _Limit((), f"at most {budget:,.2f} USD an hour", _free_of_charge, change)

    def _demand(self, s: int) -> _Limit:
        stream = self._fleet.streams[s]

        def drop(fleet: Fleet) -> Fleet:
            return dataclasses.replace(fleet, streams=tuple(x for x in fleet.streams if x.name != stream.name))

        def change() -> str | None:
            if not self._feasible(drop(self._fleet)):
                return None
            low, high = 0.0, stream.demand_rps
            for _ in range(_STEPS):
                middle = 0.5 * (low + high)
                lower = dataclasses.replace(stream, demand_rps=middle)
                if self._feasible(with_stream(self._fleet, lower)):
                    low = middle
                else:
                    high = middle
            return f"lower it to {low:.3g} req/s" if low > 0 else "leave this stream out"

        words = f"{stream.demand_rps:g} req/s of {stream.name}"
        where: tuple[str | int, ...] = ("traffic", s, "demand_rps") if len(self._fleet.streams) > 1 else ("demand_rps",)
        return _Limit(where, words, drop, change)

    def _slo(self, s: int) -> _Limit:
        stream = self._fleet.streams[s]
        assert stream.tokens_per_s is not None

        def at(fleet: Fleet, tokens_per_s: float | None) -> Fleet:
            return with_stream(fleet, dataclasses.replace(stream, tokens_per_s=tokens_per_s))

        def change() -> str | None:
            if not self._feasible(at(self._fleet, None)):
                return None
            low, high = 0.0, float(stream.tokens_per_s or 0.0)
            for _ in range(_STEPS + 3):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self._feasible(at(self._fleet, middle)) else (low, middle)
            return f"ask for {low:.3g} tokens/s" if low > 0 else None

        words = f"{stream.tokens_per_s:g} tokens/s for {stream.name}"
        return _Limit(("slo", "tokens_per_s"), words, lambda fleet: at(fleet, None), change)

    def _least(self, priced: Fleet) -> float | None:
        """The least cost of serving the demands within all limits: of what alone has a price, of 1, its amount."""
        try:
            solved = least_cost(network_of(priced), self._options, _FINE_GAP)
        except SolverError:
            return None
        return None if solved is None else solved.usd_per_hour


def _rounded_up(gbps: float) -> float:
    """To three digits, upwards."""
    digits = 2 - math.floor(math.log10(gbps)) if gbps > 0 else 0
    return math.ceil(gbps * 10.0**digits) / 10.0**digits


def _at_any_rate(fleet: Fleet) -> Fleet:
    """The fleet with demands so low that any instance serves them."""
    try:
        limit = network_of(fleet).scale_limit
    except InfeasibleError:
        limit = 0.0
    factor = _ANY_RATE * (limit or 1.0)
    return with_demand_times(fleet, factor)


def _free_of_charge(fleet: Fleet) -> Fleet:
    sites = tuple(
        dataclasses.replace(
            site, holdings=tuple(dataclasses.replace(each, usd_per_gpu_hour=None) for each in site.holdings)
        )
        for site in fleet.sites
    )
    links = tuple(dataclasses.replace(c, usd_per_gb=None, usd_per_gbps_hour=None) for c in fleet.connections)
    return dataclasses.replace(fleet, sites=sites, connections=links)
