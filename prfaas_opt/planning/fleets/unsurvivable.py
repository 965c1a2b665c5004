"""Why no fleet survives some failures: which of them, and what would help."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.fleet import Limits
from prfaas_opt.planning.fleets.changes import with_connection, with_holding
from prfaas_opt.planning.fleets.network import network_of
from prfaas_opt.planning.fleets.program import Terms
from prfaas_opt.planning.fleets.search import Search
from prfaas_opt.planning.fleets.states import failures_of, in_states, left_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prfaas_opt.fleet import Fleet
    from prfaas_opt.fleet_results import FailureKind
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.search import Found
    from prfaas_opt.planning.fleets.states import Failure
    from prfaas_opt.planning.options import SolverOptions

_COST = Terms(goal="cost", least_scale=1.0)
_AMPLE_GPUS, _AMPLE_TIMES, _AMPLE_BYTES_PER_S = 80_000.0, 100.0, 1e3 * units.GBPS
_ANY_GAP, _FINE_GAP = 0.9, 1e-4
_BINS = 16
_TRY_S = 5.0
"""Seconds for each try."""
_MOST_PROBLEMS = 4
"""Failures that are explained one by one."""


def named(failure: Failure) -> str:
    """A failure in words."""
    words = {"link": "link", "instance": "one instance of", "site": "cluster"}
    return f"{words[failure.kind]} {failure.part}"


def why_none_survives(
    fleet: Fleet, failures: Sequence[Failure], kinds: Sequence[FailureKind], options: SolverOptions
) -> list[Problem]:
    """The failures that no fleet within the limits survives, a problem each; or those not survived together.

    Args:
        fleet: with its limits.
        failures: that are not survived together.
        kinds: of failures that were asked to be survived; changes are enough for all of them.
        options: the solver.

    Raises:
        SolverError: the solver failed.
    """
    return _Why(fleet, failures, kinds, options).problems()


class _Why:
    def __init__(
        self, fleet: Fleet, failures: Sequence[Failure], kinds: Sequence[FailureKind], options: SolverOptions
    ) -> None:
        limit_s = _TRY_S if options.solver == "HIGHS" else None
        self._options = dataclasses.replace(options, bins=_BINS, time_limit_s=limit_s)
        self._fleet, self._failures, self._network = fleet, tuple(failures), network_of(fleet)
        self._asked = failures_of(self._network, kinds)
        self._demand = f"{fleet.demand_rps:.6g} req/s"

    def problems(self) -> list[Problem]:
        cut_off = [each for each in self._failures if left_of(self._network, each).cut_off]
        if cut_off:
            return [self._cut_off(each) for each in cut_off]
        alone = [each for each in self._failures if not self._feasible([each])]
        if alone:
            return [
                Problem(
                    "survive",
                    self._where(each),
                    f"no fleet within the limits serves {self._demand} after the loss of {named(each)}",
                    self._fix([each]),
                )
                for each in alone[:_MOST_PROBLEMS]
            ]
        together = list(self._failures)
        for each in self._failures:
            rest = [other for other in together if other is not each]
            if not self._feasible(rest):
                together = rest
        words = ", or ".join(map(named, together))
        message = f"no fleet within the limits serves {self._demand} after the loss of any of these: {words}"
        return [Problem("survive", self._where(together[0]), message, self._fix(together))]

    def _cut_off(self, failure: Failure) -> Problem:
        left = left_of(self._network, failure)
        streams = ", ".join(self._fleet.streams[s].name for s in left.cut_off)
        decoded = all(any(each.stream == s for each in left.decoders) for s in left.cut_off)
        what = "has no other way to a cluster that decodes it" if decoded else "may be decoded nowhere else"
        message = f"the loss of {named(failure)} cannot be survived, with any number of GPUs: {streams} {what}"
        other = "another way" if decoded else "another pd cluster that it may use"
        return Problem(
            "survive", self._where(failure), message, f"give it {other}, or leave {failure.kind} out of --survive"
        )

    def _where(self, failure: Failure) -> str:
        origin = self._fleet.origin
        if failure.pipe is not None:
            return origin.where(("links", failure.pipe))
        site = failure.site if failure.team is None else self._network.teams[failure.team].site
        return origin.where(("clusters", site or ""))

    def _feasible(self, failures: Sequence[Failure]) -> bool:
        """Whether some fleet survives them; so in doubt."""
        try:
            return self._found(self._network, failures, _ANY_GAP) is not None
        except SolverError:
            return True

    def _found(self, network: Network, failures: Sequence[Failure], gap: float, terms: Terms = _COST) -> Found | None:
        return Search(in_states(network, failures), terms, self._options, gap).run()

    def _fix(self, failures: Sequence[Failure]) -> str:
        fixes = list(self._changes(self._asked))
        kinds = " and ".join(dict.fromkeys(each.kind for each in failures))
        return "; or ".join([*fixes, f"leave {kinds} out of --survive"])

    def _changes(self, failures: Sequence[Failure]) -> Iterator[str]:
        """The smallest change of each limit that alone is enough, all others as they are."""
        free = _free_of_charge(self._fleet)
        for i, site in enumerate(free.sites):
            for k, holding in enumerate(site.holdings):
                limits = Limits(holding.gpus.least, max(holding.gpus.most, _AMPLE_GPUS))
                ample = dataclasses.replace(holding, gpus=limits, usd_per_gpu_hour=1.0)
                gpus = self._least(with_holding(free, i, k, ample), failures)
                if gpus is not None:
                    yield f"allow {gpus:,.0f} {holding.hardware} GPUs in {site.name}"
        for e, link in enumerate(free.connections):
            rate = link.bandwidth_bytes_per_s
            most = max(_AMPLE_TIMES * rate.most, _AMPLE_BYTES_PER_S)
            wide = dataclasses.replace(link, bandwidth_bytes_per_s=Limits(rate.least, most), usd_per_gbps_hour=1.0)
            gbps = self._least(with_connection(free, e, wide), failures)
            if gbps is not None:
                digits = 2 - math.floor(math.log10(gbps)) if gbps > 0 else 0
                wider = math.ceil(gbps * 10.0**digits) / 10.0**digits
                yield f"widen the link {link.source} to {link.destination} to {wider:g} Gbps"
        lower = self._most_scale(failures) * self._fleet.demand_rps
        if lower > 0:
            digits = 2 - math.floor(math.log10(lower))
            yield f"lower the demand to {math.floor(lower * 10.0**digits) / 10.0**digits:g} req/s"

    def _least(self, priced: Fleet, failures: Sequence[Failure]) -> float | None:
        """The least cost of surviving: of what alone has a price, of 1, its amount."""
        network = network_of(priced)
        wanted = {(each.kind, each.part) for each in failures}
        same = [each for each in failures_of(network, {f.kind for f in failures}) if (each.kind, each.part) in wanted]
        try:
            found = self._found(network, same, _FINE_GAP)
        except SolverError:
            return None
        return None if found is None else found.solution.usd_per_hour

    def _most_scale(self, failures: Sequence[Failure]) -> float:
        """The part of the demand that some fleet serves in all these states, about; zero where that is not found."""
        try:
            found = self._found(self._network, failures, _FINE_GAP, Terms(goal="scale"))
        except SolverError:
            return 0.0
        return 0.0 if found is None else found.solution.scale


def _free_of_charge(fleet: Fleet) -> Fleet:
    sites = tuple(
        dataclasses.replace(
            site, holdings=tuple(dataclasses.replace(each, usd_per_gpu_hour=None) for each in site.holdings)
        )
        for site in fleet.sites
    )
    links = tuple(dataclasses.replace(c, usd_per_gb=None, usd_per_gbps_hour=None) for c in fleet.connections)
    return dataclasses.replace(fleet, sites=sites, connections=links)
