"""A routing that people can deploy: few bands of whole tokens, and what the equations make of it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.errors import CertificationError, Problem
from prfaas_opt.planning.fleets.bins import Bins, around, edges_of
from prfaas_opt.planning.fleets.envelope import Envelope
from prfaas_opt.planning.fleets.program import BinnedProgram, Terms

if TYPE_CHECKING:
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.program import Solution
    from prfaas_opt.planning.fleets.search import Found
    from prfaas_opt.planning.options import SolverOptions

_SLACK = 1e-9
"""Relative loss of the goal that a second goal may cost."""
_AGREEMENT = 1e-5
"""Relative difference between a solver's claim and the equations that its tolerances explain."""
_WORTH_FEWER_BANDS = (5e-7, 1e-5)
"""Relative losses of the goals that fewer bands may cost, the first that is enough."""
_FEW_BINS = (1, 4, 16)
"""Bins beside those that prices make, where these alone cannot share what must be shared."""
_ROUNDS = 6
_WORTH_A_WHOLE_TOKEN = 1e-4
"""Relative loss up to which a length that must be shared goes to one side instead."""
_NEGLIGIBLE = 1e-6
"""A share this small is the solver's rounding."""
_SMALL_SHARE = 1e-3
"""A share of a band below this is left out where that costs no more than rounding to whole tokens may."""
_UNSERVED = 1e-5
"""Part of the demand that a sized fleet may fall short of, and of its cost that may be added, by such roundings."""

Shares = tuple[tuple[int, float], ...]
"""Ways and the share of requests each takes."""


@dataclass(frozen=True)
class Band:
    """Requests above ``low`` up to ``high`` whole tokens take their ways in these shares, at random."""

    low: float
    high: float
    shares: Shares


@dataclass(frozen=True)
class Decision:
    """What is proposed: instances of each team, bands of each stream, and who decodes how much.

    Attributes:
        counts: by team.
        gpus: by holding, at least those that instances take.
        bytes_per_s: of each link.
        bands: by stream, ascending.
        decoded: by decoder, the share of what its stream sends to its site.
    """

    counts: tuple[int, ...]
    gpus: tuple[int, ...]
    bytes_per_s: tuple[float, ...]
    bands: tuple[tuple[Band, ...], ...]
    decoded: tuple[float, ...]


class Loads:
    """What a decision asks of each resource at scale 1, from exact means of the unbinned lengths."""

    def __init__(self, network: Network, decision: Decision) -> None:
        self._network, self._decision = network, decision
        self.rates_rps = [0.0] * len(network.ways)
        self.seconds = [0.0] * len(network.teams)
        self.bytes_per_s = [0.0] * len(network.pipes)
        arrivals: dict[tuple[int, int], float] = {}
        for s, bands in enumerate(decision.bands):
            demand = network.streams[s]
            for band in bands:
                weight = demand.rate_rps * demand.lengths.moment(0.0, band.low, band.high)
                for i, share in band.shares:
                    way = network.ways[i]
                    self.rates_rps[i] += share * weight
                    pair = (s, way.destination)
                    arrivals[pair] = arrivals.get(pair, 0.0) + share * weight
                    seconds = network.mean(way.prefill_s, s).between(band.low, band.high)
                    self.seconds[way.team] += share * demand.rate_rps * seconds
                    if way.pipe is not None and way.kv_bytes is not None:
                        sent = network.mean(way.kv_bytes, s).between(band.low, band.high)
                        self.bytes_per_s[way.pipe] += share * demand.rate_rps * sent
        for decoder, share in zip(network.decoders, decision.decoded, strict=True):
            rate = share * arrivals.get((decoder.stream, decoder.destination), 0.0)
            self.seconds[decoder.team] += rate / decoder.rps_per_instance

    @cached_property
    def scale(self) -> float:
        """The largest scale at which no team and no link is used beyond its ceiling."""
        network, decision = self._network, self._decision
        limits = [
            team.ceiling * count / busy
            for team, count, busy in zip(network.teams, decision.counts, self.seconds, strict=True)
            if busy > 0
        ]
        limits += [
            pipe.ceiling * rate / sent
            for pipe, rate, sent in zip(network.pipes, decision.bytes_per_s, self.bytes_per_s, strict=True)
            if sent > 0
        ]
        return min(limits, default=0.0)

    def usd_per_hour(self, scale: float) -> float:
        """What the decision costs at a scale: its GPUs, the rates of its links, and what they carry."""
        network, decision = self._network, self._decision
        cost = sum(gpus * each.usd_per_hour for gpus, each in zip(decision.gpus, network.gpus, strict=True))
        for pipe, rate, sent in zip(network.pipes, decision.bytes_per_s, self.bytes_per_s, strict=True):
            cost += rate * pipe.usd_per_byte_per_s_hour + scale * sent * pipe.usd_per_byte * units.HOUR_S
        return cost


def decide(network: Network, terms: Terms, found: Found, options: SolverOptions) -> tuple[Decision, float]:
    """The decision of a search in few bands, and the scale it reached while single lengths could be shared.

    Where the goal leaves a choice, the fewest bytes are sent, in as few bands as their prices make. Borders between
    bands are rounded to whole tokens where the demand is still served.

    Raises:
        CertificationError: the equations do not give what the solver claims.
    """
    return _Decider(network, terms, found, options).decide()


class _Decider:
    def __init__(self, network: Network, terms: Terms, found: Found, options: SolverOptions) -> None:
        self._network, self._terms, self._found, self._options = network, terms, found, options
        self._sized = terms.goal == "cost"
        self._bins = Bins(network, [set(map(around, edges)) for edges in found.bins.edges])

    def decide(self) -> tuple[Decision, float]:
        best, _ = self._refined(dataclasses.replace(self._terms, counts=self._found.counts))
        best = best or self._found.solution
        self._certify(best)
        shared = self._with_fewest_bands(best)
        return self._tidied(shared), self._found.solution.scale

    def _certify(self, best: Solution) -> None:
        """Recomputes from the equations that a point serves its scale; a sized fleet may have room for more.

        Raises:
            CertificationError: it does not, by more than the solver's tolerances.
        """
        scale = Loads(self._network, self._decision(best)).scale
        may_have_room = self._sized or self._terms.budget_usd_per_hour is not None
        if scale < best.scale * (1 - _AGREEMENT) or (scale > best.scale * (1 + _AGREEMENT) and not may_have_room):
            message = f"the solver claims a scale of {best.scale!r}, the equations give {scale!r}"
            raise CertificationError(Problem("certification", "", message, "please report this with the scenario"))

    def _with_fewest_bands(self, best: Solution) -> Decision:
        """The routing of least egress, then of least work, on bins between the borders its prices set if those do."""
        budget = best.usd_per_hour * (1 + _SLACK) if self._sized else self._terms.budget_usd_per_hour
        terms = Terms(
            goal="egress",
            least_scale=best.scale if self._sized else best.scale * (1 - _SLACK),
            budget_usd_per_hour=budget or None,
            counts=self._found.counts,
        )
        least_egress, _ = self._refined(terms)
        if least_egress is None:
            return self._decision(best)
        terms = dataclasses.replace(terms, goal="work", most_egress=least_egress.value * (1 + _SLACK) + _SLACK)
        least_work, borders = self._refined(terms)
        if least_work is None:
            return self._decision(least_egress)
        return self._decision(self._on_few_bins(terms, borders) or least_work)

    def _on_few_bins(self, terms: Terms, borders: list[set[float]]) -> Solution | None:
        """About the same on bins between these borders, or with a few more; None where that costs too much."""
        for more, loss in itertools.product(_FEW_BINS, _WORTH_FEWER_BANDS):
            edges = [edges_of(self._network, s, more, breaks=False) | each for s, each in enumerate(borders)]
            program = BinnedProgram(self._network, Bins(self._network, edges), self._loosened(terms, loss))
            if program.solve(self._options).found:
                return program.solution
        return None

    def _loosened(self, terms: Terms, loss: float) -> Terms:
        sent, budget = terms.most_egress, terms.budget_usd_per_hour
        return dataclasses.replace(
            terms,
            least_scale=terms.least_scale * (1 - min(loss, _UNSERVED / 2)),
            most_egress=None if sent is None else sent * (1 + loss),
            budget_usd_per_hour=budget * (1 + loss) if budget is not None and self._sized else budget,
        )

    def _refined(self, terms: Terms) -> tuple[Solution | None, list[set[float]]]:
        """The optimum on bins of whole tokens, cut at the borders of its own prices, and these."""
        solution, borders = None, []
        for _ in range(_ROUNDS):
            program = BinnedProgram(self._network, self._bins, terms)
            if not program.solve(self._options).found:
                break
            solution, borders = program.solution, self._borders(program)
            if not self._bins.cut(borders):
                break
        return solution, borders

    def _borders(self, program: BinnedProgram) -> list[set[float]]:
        prices = program.prices
        borders = []
        for s in range(len(self._network.streams)):
            ends = [around(each.high) for each in Envelope(self._network, s).stretches(prices)[:-1]]
            borders.append({x for end in ends for x in (end - 1.0, end) if x > 0})
        return borders

    def _decision(self, solution: Solution) -> Decision:
        network = self._network
        counts = tuple(round(n) for n in solution.counts)
        bands = []
        for s, each in enumerate(solution.bins):
            found = []
            for b, (low, high) in enumerate(each.ranges):
                served = {i: float(solution.served[i][b]) for i in network.ways_of[s] if counts[network.ways[i].team]}
                found.append((low, high, _normalized(served)))
            # A bin of next to no requests may be left out by the solver; it goes with its neighbour.
            first = next((shares for _, _, shares in found if shares), ())
            rows: list[Band] = []
            for low, high, shares in found:
                own = shares or (rows[-1].shares if rows else first)
                start = rows.pop().low if rows and _alike(rows[-1].shares, own) else low
                rows.append(Band(start, high, own))
            bands.append(tuple(rows))
        arrived: dict[tuple[int, int], float] = {}
        for decoder, rate in zip(network.decoders, solution.decoded, strict=True):
            pair = (decoder.stream, decoder.destination)
            arrived[pair] = arrived.get(pair, 0.0) + rate
        decoded = tuple(
            rate / arrived[d.stream, d.destination] if rate > 0 else 0.0
            for d, rate in zip(network.decoders, solution.decoded, strict=True)
        )
        decision = Decision(counts, self._gpus(counts), solution.bytes_per_s, tuple(bands), decoded)
        return self._sized_links(decision)

    def _gpus(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """What is held where that is given; else what instances take, or the least there may be."""
        taken = [0] * len(self._network.gpus)
        for team, count in zip(self._network.teams, counts, strict=True):
            taken[team.gpus] += count * team.gpus_per_instance
        return tuple(max(used, int(each.limits.least)) for used, each in zip(taken, self._network.gpus, strict=True))

    def _sized_links(self, decision: Decision) -> Decision:
        """Links whose size is free are as wide as what they carry needs."""
        scale = 1.0 if self._sized else self._found.solution.scale
        sent = Loads(self._network, decision).bytes_per_s
        rates = tuple(
            min(max(pipe.bytes_per_s.least, scale * load / pipe.ceiling), pipe.bytes_per_s.most)
            for pipe, load in zip(self._network.pipes, sent, strict=True)
        )
        return dataclasses.replace(decision, bytes_per_s=rates)

    def _tidied(self, decision: Decision) -> Decision:
        """Without shares and bands of one token that only balance the rest, as far as that costs next to nothing."""
        loads = Loads(self._network, decision)
        least_scale = 1.0 - _UNSERVED if self._sized else loads.scale * (1 - _WORTH_A_WHOLE_TOKEN)
        most_usd = self._terms.budget_usd_per_hour or loads.usd_per_hour(1.0) * (1 + _UNSERVED)
        for s, bands in enumerate(decision.bands):
            for band in bands:
                candidates = [self._with_shares(decision, s, band, shares) for shares in self._simpler(s, band, bands)]
                tried = [(Loads(self._network, each), each) for each in candidates]
                good = [(loads, each) for loads, each in tried if self._usd(loads) <= most_usd]
                if good:
                    loads, best = max(good, key=lambda each: each[0].scale)
                    if loads.scale >= least_scale:
                        decision = best
        return decision

    def _usd(self, loads: Loads) -> float:
        """What a decision costs; nothing where neither costs nor a budget matter."""
        if self._sized:
            return loads.usd_per_hour(1.0)
        if self._terms.budget_usd_per_hour is None:
            return 0.0
        return loads.usd_per_hour(min(loads.scale, self._found.solution.scale))

    def _simpler(self, s: int, band: Band, bands: tuple[Band, ...]) -> list[Shares]:
        """Shares that could take the place of a band's: its neighbours', or its own without the smallest."""
        place = bands.index(band)
        if band.high - band.low <= 1.0 and not self._is_atom(s, band):
            return [each.shares for each in (*bands[max(place - 1, 0) : place], *bands[place + 1 : place + 2])]
        large = {i: share for i, share in band.shares if share >= _SMALL_SHARE}
        return [_normalized(large)] if len(large) < len(band.shares) else []

    def _is_atom(self, s: int, band: Band) -> bool:
        return any(band.low < x <= band.high for x in self._network.streams[s].lengths.atom_lengths)

    def _with_shares(self, decision: Decision, s: int, changed: Band, shares: Shares) -> Decision:
        rows: list[Band] = []
        for band in decision.bands[s]:
            # Bands joined by an earlier change have other edges; what was asked for lies inside one of them.
            if band.low <= changed.low and changed.high <= band.high:
                pieces = [(band.low, changed.low, band.shares), (changed.low, changed.high, shares)]
                pieces.append((changed.high, band.high, band.shares))
            else:
                pieces = [(band.low, band.high, band.shares)]
            for low, high, own in pieces:
                if low < high:
                    start = rows.pop().low if rows and _alike(rows[-1].shares, own) else low
                    rows.append(Band(start, high, own))
        bands = (*decision.bands[:s], tuple(rows), *decision.bands[s + 1 :])
        return self._sized_links(dataclasses.replace(decision, bands=bands))


def _normalized(shares: dict[int, float]) -> Shares:
    total = math.fsum(shares.values())
    kept = {i: share / total for i, share in shares.items() if share > max(_NEGLIGIBLE * total, 0.0)}
    total = math.fsum(kept.values())
    return tuple((i, share / total) for i, share in kept.items())


def _alike(one: Shares, other: Shares) -> bool:
    a, b = dict(one), dict(other)
    return all(abs(a.get(i, 0.0) - b.get(i, 0.0)) <= _NEGLIGIBLE for i in a.keys() | b.keys())
