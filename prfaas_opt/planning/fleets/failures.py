"""What a given fleet serves after each failure: counts as they are and requests routed anew, or roles split anew."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt.errors import CertificationError, Problem
from prfaas_opt.fleet_results import FAILURE_KINDS, FleetFailure
from prfaas_opt.planning.fleets.bins import Bins, edges_of
from prfaas_opt.planning.fleets.decision import Band, Decision, Loads
from prfaas_opt.planning.fleets.envelope import Envelope
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms
from prfaas_opt.planning.fleets.search import Found
from prfaas_opt.planning.fleets.solve import most_scale, scaled
from prfaas_opt.planning.fleets.states import after, failures_of, split_anew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.program import Solution
    from prfaas_opt.planning.fleets.solve import Solved
    from prfaas_opt.planning.fleets.states import Failure, States
    from prfaas_opt.planning.options import SolverOptions

SURVIVES = 1.0 - 1e-6
"""The part of the demand that counts as all of it: a solver's tolerances are not finer."""
_ROUTING_S = 10.0
"""The most seconds for one linear program, which takes far less unless the solver has lost its way."""
_FEW_BINS = 16
"""Bins to begin with where it is only asked whether a scale is reached."""
_ROUNDS = 8
_SETTLED = 1e-9
"""Relative gain of a scale by finer bins that is not worth more of them."""
_FAR = 0.9
"""Part of a scale that no finer bins make up for."""
_AGREEMENT = 1e-5
"""Relative difference between a solver's claim and the equations that its tolerances explain."""
_UNLIMITED = 0.99
"""Part of the most scale of a program beyond which that limits it."""
_NEGLIGIBLE = 1e-9
"""A share of a bin this small is the solver's rounding."""
_RESPLIT_GAP, _RESPLIT_S = 1e-4, 2.0
"""Gap of a search for other roles, and the least time for each."""


@dataclass(frozen=True)
class Holdings:
    """What a fleet has: instances by team, rates by link, GPUs by holding."""

    counts: tuple[int, ...]
    bytes_per_s: tuple[float, ...]
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Remains:
    """What can be served after a failure.

    Attributes:
        scale: the multiple of the demands of all streams but those.
        cut_off: the streams that nothing serves.
    """

    scale: float
    cut_off: tuple[int, ...]


def routed_best(network: States, terms: Terms, options: SolverOptions, enough: float | None = None) -> Found | None:
    """The best routing with given counts, on bins cut where its prices change ways; None where nothing is feasible.

    Args:
        network: its counts are given.
        terms: the goal.
        options: the solver.
        enough: a scale beyond which, and far below which, finer bins are not worth the time.

    Raises:
        SolverError: the solver failed.
    """
    terms = dataclasses.replace(terms, counts=tuple(most for _, most in network.counts), whole=False)
    fine = enough is None
    bins = Bins(network, [edges_of(network, s, options.bins, breaks=fine) for s in range(len(network.streams))])
    envelopes = [Envelope(network, s) for s in range(len(network.streams))]
    best: float | None = None
    for _ in range(_ROUNDS):
        program = BinnedProgram(network, bins, terms)
        if not program.solve(options, time_limit_s=_ROUTING_S).found:
            return None
        found = Found(program.solution, bins, program, program.solution.value)
        settled = best is not None and abs(found.bound - best) <= _SETTLED * abs(best)
        clear = enough is not None and not _FAR * enough < found.solution.scale < enough
        if settled or clear:
            return found
        best = found.bound
        prices = program.prices
        if not bins.cut([{each.high for each in envelope.stretches(prices)[:-1]} for envelope in envelopes]):
            return found
    return found


def attained_scale(network: States, options: SolverOptions, enough: float | None = None) -> float:
    """The largest scale with given counts, as the equations have it of the routing found; or one beyond ``enough``.

    Raises:
        SolverError: the solver failed.
        CertificationError: the equations do not give what the solver claims.
    """
    factor = 1.0
    while True:
        terms = Terms(goal="scale")
        found = routed_best(network, terms, options, enough)
        claimed = found.solution.scale if found else 0.0
        if found is None or claimed <= _NEGLIGIBLE:
            return 0.0
        if enough is not None or claimed < _UNLIMITED * terms.most_scale:
            break
        network, factor = scaled(network, terms.most_scale), factor * terms.most_scale
    scale = Loads(network, _decision(network, found.solution)).scale
    more = scale > claimed * (1 + _AGREEMENT) and claimed < _UNLIMITED * terms.most_scale
    if more or scale < claimed * (1 - _AGREEMENT):
        message = f"after a failure the solver claims a scale of {claimed!r}, the equations give {scale!r}"
        raise CertificationError(Problem("certification", "", message, "please report this with the scenario"))
    return factor * scale


def _decision(network: States, solution: Solution) -> Decision:
    """The routing of a solution, bin by bin, its rounding taken out."""
    bands, arrived = [], {(d.stream, d.destination): 0.0 for d in network.decoders}
    for s, bins in enumerate(solution.bins):
        ways = network.ways_of[s]
        served = {i: solution.served[i] / bins.weights for i in ways}
        likely = max(ways, key=lambda i: float(solution.served[i].sum()))
        rows = []
        for b, (low, high) in enumerate(bins.ranges):
            least = _NEGLIGIBLE * sum(float(served[i][b]) for i in ways)
            taken = {i: float(served[i][b]) for i in ways if served[i][b] > least} or {likely: 1.0}
            total = sum(taken.values())
            rows.append(Band(low, high, tuple((i, each / total) for i, each in taken.items())))
            for i, each in taken.items():
                arrived[s, network.ways[i].destination] += each / total * float(bins.weights[b])
        bands.append(tuple(rows))
    return Decision(
        counts=tuple(most for _, most in network.counts),
        gpus=tuple(int(each.limits.least) for each in network.gpus),
        bytes_per_s=tuple(pipe.bytes_per_s.most for pipe in network.pipes),
        bands=tuple(bands),
        decoded=_decoded(network, solution),
    )


def _decoded(network: States, solution: Solution) -> tuple[float, ...]:
    """Each decoder's share of what its stream sends to its site."""
    rates = list(solution.decoded)
    for pair in {(d.stream, d.destination) for d in network.decoders}:
        those = [i for i, d in enumerate(network.decoders) if (d.stream, d.destination) == pair]
        total = sum(rates[i] for i in those)
        if total <= 0:
            able = [network.counts[network.decoders[i].team][1] * network.decoders[i].rps_per_instance for i in those]
            rates[those[able.index(max(able))]] = total = 1.0
        for i in those:
            rates[i] /= total
    return tuple(rates)


def remains_after(
    network: Network, failure: Failure, held: Holdings, options: SolverOptions, enough: float | None = None
) -> Remains:
    """What is served after a failure, roles as they are; at least that, where it is beyond ``enough``.

    Raises:
        SolverError: the solver failed.
        CertificationError: as ``attained_scale``.
    """
    left, cut_off = after(network, failure, held.counts, held.bytes_per_s)
    return Remains(0.0 if left is None else attained_scale(left, options, enough), cut_off)


def is_survived(network: Network, failure: Failure, held: Holdings, options: SolverOptions) -> bool:
    """Whether the whole demand is served after a failure, roles as they are.

    Raises:
        SolverError: the solver failed.
        CertificationError: as ``attained_scale``.
    """
    if failure.team is not None and not held.counts[failure.team]:
        return True
    left, cut_off = after(network, failure, held.counts, held.bytes_per_s)
    options = dataclasses.replace(options, bins=min(options.bins, _FEW_BINS))
    return left is not None and not cut_off and attained_scale(left, options, enough=1.0) >= SURVIVES


def failures_of_plan(solved: Solved, demand_rps: float, options: SolverOptions) -> tuple[FleetFailure, ...]:
    """Every failure of a planned fleet.

    Args:
        solved: the plan.
        demand_rps: that shares are of, all streams together.
        options: the solver; its time limit is for all searches for other roles together.

    Raises:
        SolverError: the solver failed.
        CertificationError: as ``attained_scale``.
    """
    decision = solved.decision
    network = scaled(solved.network, solved.scale)
    held = Holdings(decision.counts, decision.bytes_per_s, decision.gpus)
    failures = [
        each for each in failures_of(network, FAILURE_KINDS) if each.team is None or decision.counts[each.team] > 0
    ]
    return failure_rows(network, failures, held, demand_rps, options, resplit=True, most_scale_then=1.0)


def failure_rows(
    network: Network,
    failures: Sequence[Failure],
    held: Holdings,
    demand_rps: float,
    options: SolverOptions,
    resplit: bool = False,
    most_scale_then: float | None = None,
) -> tuple[FleetFailure, ...]:
    """What a fleet serves after each of some failures.

    Args:
        network: its demands are the scale that 1 stands for.
        failures: one row each.
        held: what the fleet has.
        demand_rps: that shares are of, all streams together.
        options: the solver; its time limit is for all searches for other roles together.
        resplit: whether to search for other roles too; if not, a throughput beyond the demand is one that is attained,
            not the most.
        most_scale_then: what is served before any failure, which a failure cannot add to; None leaves it open.

    Raises:
        SolverError: the solver failed.
        CertificationError: as ``attained_scale``.
    """
    limit = options.time_limit_s
    each_s = None if limit is None else max(limit / max(len(failures), 1), _RESPLIT_S)
    quick = dataclasses.replace(options, time_limit_s=each_s)
    names = [stream.name for stream in network.streams]
    rates = [stream.rate_rps for stream in network.streams]
    known: dict[tuple[object, ...], Remains] = {}

    def capped(remains: Remains) -> Remains:
        if most_scale_then is None or remains.cut_off:
            return remains
        return dataclasses.replace(remains, scale=min(remains.scale, most_scale_then))

    def served(remains: Remains) -> tuple[float, float, tuple[str, ...]]:
        """Requests/s, their share of the demand, and who is cut off."""
        rest = sum(rate for s, rate in enumerate(rates) if s not in remains.cut_off)
        rps = remains.scale * rest
        fraction = rest / sum(rates)
        part = rps / (demand_rps * fraction) if fraction > 0 else 0.0
        share = fraction if part >= SURVIVES else part * fraction
        return rps, share, tuple(names[s] for s in remains.cut_off)

    def anew(failure: Failure, as_they_are: Remains) -> Remains:
        other, cut_off = split_anew(network, failure, held.counts, held.bytes_per_s, held.gpus)
        if other is None:
            return as_they_are
        team = None if failure.team is None else network.teams[failure.team]
        key = (failure.pipe, failure.site, team and (team.gpus, team.gpus_per_instance))
        if key not in known:
            found = most_scale(other, quick, _RESPLIT_GAP)
            scale = 0.0 if found is None else found.scale * found.demand_rps / sum(s.rate_rps for s in other.streams)
            known[key] = Remains(scale, cut_off)
        split = capped(known[key])
        # Roles may also stay as they are, and a stream be left out.
        return max(as_they_are, split, key=lambda each: (served(each)[1], served(each)[0]))

    rows = []
    for failure in failures:
        now = capped(remains_after(network, failure, held, options, None if resplit else 1.0))
        later = anew(failure, now) if resplit else None
        again = (None, None, None) if later is None else served(later)
        rows.append(FleetFailure(failure.kind, failure.part, *served(now), *again))
    return tuple(rows)
