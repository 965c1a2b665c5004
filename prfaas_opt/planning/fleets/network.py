"""The planning problem of a fleet: streams of requests, ways through it, teams of instances, GPUs and links.

Named constraints, with the rate of stream s being ``scale * d_s`` (DESIGN, as a linear program):

    served     sum over ways of s            = scale              every length; rates per unit of d_s * probability
    prefill    sum of prefill seconds       <= ceiling * count    every prefill team
    egress     sum of bytes                 <= ceiling * rate     every link
    arrivals   sum over ways of s into a site = decoded there     every stream and site
    decode     sum of rate / rate of one    <= ceiling * count    every decode team
    gpus       sum of count * GPUs of one   <= GPUs               every holding; counts are integers
    limits     least <= GPUs, rate          <= most               every holding, every link
    cost       GPUs, link rates and bytes at their prices
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.fleet import Limits
from prfaas_opt.planning.curves import ServiceCurves, service_curves
from prfaas_opt.planning.decoding import DecodeLimits, decode_limits, no_batch
from prfaas_opt.terms import same_format
from prfaas_opt.throughput.expectation import Expectation
from prfaas_opt.throughput.link import Carried, effective_link, request_rate

if TYPE_CHECKING:
    from prfaas_opt.fleet import Connection, Fleet, Holding, Site, Stream
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.model import Profile
    from prfaas_opt.workload.distribution import LengthDistribution


_INFEASIBLE = ("slo", "memory")


@dataclass(frozen=True)
class Demand:
    """Requests of one stream: ``rate_rps`` at scale 1, and their uncached prompt length L."""

    name: str
    lengths: LengthDistribution
    rate_rps: float


@dataclass(frozen=True)
class Gpus:
    """GPUs of one kind in one place, between limits, at a price per GPU-hour."""

    name: str
    limits: Limits
    usd_per_hour: float = 0.0


@dataclass(frozen=True)
class Pipe:
    """A link between limits of its rate.

    Attributes:
        name: for errors and reports.
        bytes_per_s: limits of its nominal rate.
        ceiling: share of the rate that may be used.
        usd_per_byte_per_s_hour: price of capacity.
        usd_per_byte: price of what is sent.
        flows_limit: its flows, not its rate, limit what it carries: a wider one would carry no more.
    """

    name: str
    bytes_per_s: Limits
    ceiling: float = 1.0
    usd_per_byte_per_s_hour: float = 0.0
    usd_per_byte: float = 0.0
    flows_limit: bool = False


@dataclass(frozen=True)
class Team:
    """Instances of one model in one role on one holding; their count is decided.

    Attributes:
        site, hardware, model, role: whose they are.
        gpus: index of the holding they take GPUs from.
        gpus_per_instance: how many each takes.
        ceiling: share of its time that an instance may be busy.
    """

    site: str
    hardware: str
    model: str
    role: Literal["prefill", "decode"]
    gpus: int
    gpus_per_instance: int
    ceiling: float = 1.0


@dataclass(frozen=True)
class Way:
    """How requests of a stream may be served: prefilled by a team, sent over a link or not, decoded in a site."""

    stream: int
    team: int
    destination: int
    prefill_s: Curve
    pipe: int | None = None
    kv_bytes: Curve | None = None


@dataclass(frozen=True)
class Decoder:
    """A team that may decode a stream in a site, at so many requests/s an instance."""

    stream: int
    team: int
    destination: int
    rps_per_instance: float


@dataclass(frozen=True)
class Network:
    """All that is decided about and all that limits it; the indices of its parts refer to each other."""

    streams: tuple[Demand, ...]
    sites: tuple[str, ...]
    gpus: tuple[Gpus, ...]
    pipes: tuple[Pipe, ...]
    teams: tuple[Team, ...]
    ways: tuple[Way, ...]
    decoders: tuple[Decoder, ...]

    @cached_property
    def ways_of(self) -> tuple[tuple[int, ...], ...]:
        """The ways of each stream."""
        return tuple(tuple(i for i, way in enumerate(self.ways) if way.stream == s) for s in range(len(self.streams)))

    @cached_property
    def _expectations(self) -> dict[tuple[int, int], Expectation]:
        return {}

    def mean(self, curve: Curve, stream: int) -> Expectation:
        """``E[f(L)]`` of a curve on any range of a stream's lengths, made once."""
        lengths = self.streams[stream].lengths
        key = (id(curve), id(lengths))
        if key not in self._expectations:
            self._expectations[key] = Expectation(curve, lengths)
        return self._expectations[key]

    @cached_property
    def scale_limit(self) -> float:
        """A scale that decode alone would not let any stream pass; infinite where nothing is decoded."""
        most = [0.0] * len(self.streams)
        for decoder in self.decoders:
            team = self.teams[decoder.team]
            instances = self.gpus[team.gpus].limits.most // team.gpus_per_instance
            most[decoder.stream] += instances * team.ceiling * decoder.rps_per_instance
        return min(rps / stream.rate_rps for rps, stream in zip(most, self.streams, strict=True))


class _Builder:
    """Puts a network together from a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._problems: list[Problem] = []
        self._teams: dict[tuple[str, str, str, Literal["prefill", "decode"]], int] = {}
        self._made: list[Team] = []
        self._made_curves: dict[tuple[int, int], ServiceCurves] = {}
        self._holdings = [(site, holding) for site in fleet.sites for holding in site.holdings]

    def network(self) -> Network:
        fleet = self._fleet
        pds = [site for site in fleet.sites if site.role == "pd"]
        ways: list[Way] = []
        decoders: list[Decoder] = []
        for s, stream in enumerate(fleet.streams):
            for d, pd in enumerate(pds):
                if stream.destination in (None, pd.name):
                    here = self._decoders(s, stream, d, pd)
                    decoders += here
                    if here:
                        ways += self._ways(s, stream, d, pd)
            if not any(decoder.stream == s for decoder in decoders):
                self._problems += self._undecodable(s, pds)
        self._check_lengths(ways)
        infeasible = [p for p in self._problems if p.code in _INFEASIBLE]
        if len(self._problems) > len(infeasible):
            raise InputError([p for p in self._problems if p.code not in _INFEASIBLE])
        if infeasible:
            raise InfeasibleError(list(dict.fromkeys(infeasible)))
        return Network(
            streams=tuple(Demand(s.name, s.workload.input_tokens, s.demand_rps) for s in fleet.streams),
            sites=tuple(pd.name for pd in pds),
            gpus=tuple(
                Gpus(f"{site.name} {holding.hardware}", holding.gpus, holding.usd_per_gpu_hour or 0.0)
                for site, holding in self._holdings
            ),
            pipes=tuple(_pipe(connection) for connection in fleet.connections),
            teams=tuple(self._made),
            ways=tuple(ways),
            decoders=tuple(decoders),
        )

    def _team(
        self, site: Site, holding: Holding, profile: Profile, model: str, role: Literal["prefill", "decode"]
    ) -> int:
        key = (site.name, holding.hardware, model, role)
        if key not in self._teams:
            self._teams[key] = len(self._made)
            gpus = self._holdings.index((site, holding))
            self._made.append(Team(*key, gpus, profile.gpus_per_instance, holding.max_utilization))
        return self._teams[key]

    def _decoders(self, s: int, stream: Stream, d: int, pd: Site) -> list[Decoder]:
        decoders = []
        for holding in pd.holdings:
            profile = stream.model.profile(holding.hardware)
            if profile is None or profile.decode is None or holding.gpus.most < profile.gpus_per_instance:
                continue
            try:
                limits = self._limits(stream, profile, pd)
            except InputError as error:
                self._problems += [dataclasses.replace(p, where=_where(self._fleet, s)) for p in error.problems]
                rps = math.nan  # Stands in, so that what else is wrong is found too.
            else:
                if limits.largest is None:
                    continue
                rps = limits.largest.rps_per_instance
            decoders.append(Decoder(s, self._team(pd, holding, profile, stream.model.name, "decode"), d, rps))
        return decoders

    def _ways(self, s: int, stream: Stream, d: int, pd: Site) -> list[Way]:
        ways = []
        sources = [(pd, None), *((self._fleet.site(c.source), e) for e, c in self._open_pipes(pd))]
        for site, pipe in sources:
            for holding in site.holdings:
                profile = stream.model.profile(holding.hardware)
                if profile is None or holding.gpus.most < profile.gpus_per_instance:
                    continue
                team = self._team(site, holding, profile, stream.model.name, "prefill")
                curves = self._curves(stream, profile)
                sent = None if pipe is None else curves.sent_bytes
                ways.append(Way(s, team, d, curves.occupancy_s, pipe, sent))
        return ways

    def _limits(self, stream: Stream, profile: Profile, pd: Site) -> DecodeLimits:
        flight = self._in_flight_byte_s(stream, pd) if profile.memory else 0.0
        origin = self._fleet.origin
        return decode_limits(stream.model, profile, stream.workload, stream.tokens_per_s, origin, flight)

    def _undecodable(self, s: int, pds: list[Site]) -> list[Problem]:
        """Why nothing decodes a stream."""
        fleet, stream = self._fleet, self._fleet.streams[s]
        candidates = {}
        for pd in pds:
            for holding in pd.holdings if stream.destination in (None, pd.name) else ():
                profile = stream.model.profile(holding.hardware)
                if profile and profile.decode and holding.gpus.most >= profile.gpus_per_instance:
                    candidates[profile.hardware] = self._limits(stream, profile, pd)
        if not candidates:
            message = f"{stream.name} has nowhere to decode: no cluster it may go to can hold an instance that decodes"
            fix = "give a pd cluster more GPUs, or its model decode figures on that hardware"
            return [Problem("no-decode", _where(fleet, s), message, fix)]
        full = {hardware: limits for hardware, limits in candidates.items() if limits.fast_spans}
        if full:
            reasons = [no_batch(each, f"{stream.model.name} on {name}", fleet.origin) for name, each in full.items()]
            return [dataclasses.replace(reason, where=_where(fleet, s)) for reason in reasons]
        fastest = max(limits.steps.fastest_tokens_per_s for limits in candidates.values())
        where = fleet.origin.where(("slo", "tokens_per_s"))
        message = (
            f"{stream.model.name} cannot give {stream.tokens_per_s:g} tokens/s to a request here, "
            f"no decode batch gives more than {fastest:.4g}"
        )
        return [Problem("slo", where, message, f"ask for {math.floor(fastest * 10) / 10:g} tokens/s at most")]

    def _curves(self, stream: Stream, profile: Profile) -> ServiceCurves:
        """What requests of a stream cost, made once: ways share the curves."""
        key = (id(stream.workload), id(profile))
        if key not in self._made_curves:
            self._made_curves[key] = service_curves(profile, stream.workload, self._fleet.service.transfer)
        return self._made_curves[key]

    def _in_flight_byte_s(self, stream: Stream, pd: Site) -> float:
        """KVCache in flight to a decode instance, byte*s a request, as if all came the way on which that is most."""
        most = 0.0
        for e, connection in self._open_pipes(pd):
            pipe = _pipe(self._fleet.connections[e])
            carried = Carried(pipe.bytes_per_s.most * pipe.ceiling, "bandwidth")
            rate = request_rate(carried, connection.route).bytes_per_s
            for holding in self._fleet.site(connection.source).holdings:
                profile = stream.model.profile(holding.hardware)
                if profile is not None:
                    sent = self._curves(stream, profile).sent_bytes
                    lengths = stream.workload.input_tokens
                    if lengths.high <= sent.upper:
                        square = Expectation(sent.squared(), lengths).total
                        mean = Expectation(sent, lengths).total
                        most = max(most, square / rate + mean * connection.route.rtt_s)
        return most

    def _open_pipes(self, pd: Site) -> list[tuple[int, Connection]]:
        return [
            (e, connection)
            for e, connection in enumerate(self._fleet.connections)
            if connection.destination == pd.name
            and connection.bandwidth_bytes_per_s.most > 0
            and same_format(self._fleet.site(connection.source).admission, pd.admission)
        ]

    def _check_lengths(self, ways: list[Way]) -> None:
        """Notes streams whose lengths leave every curve, and drops no way silently: all of a stream's must hold."""
        for s, stream in enumerate(self._fleet.streams):
            high = stream.workload.input_tokens.high
            short: dict[str, float] = {}
            for way in ways:
                if way.stream == s:
                    upper = min(curve.upper for curve in (way.prefill_s, way.kv_bytes) if curve is not None)
                    if upper < high:
                        short[self._made[way.team].hardware] = upper
            for hardware, upper in short.items():
                message = (
                    f"{stream.workload.name} has requests of {high:,.0f} tokens, "
                    f"the profile of {stream.model.name} on {hardware} ends at {upper:,.0f}"
                )
                fix = "cut the workload, measure longer prompts, or state in the profile how it extrapolates"
                self._problems.append(Problem("length-above-range", _where(self._fleet, s), message, fix))


def _where(fleet: Fleet, stream: int) -> str:
    return fleet.origin.where(("traffic", stream) if len(fleet.streams) > 1 else ("workload",))


def _pipe(connection: Connection) -> Pipe:
    """A link; where its flows carry less than its bandwidth, no more of it is of use than they carry."""
    rate, ceiling = connection.bandwidth_bytes_per_s, connection.max_utilization
    flows = effective_link(math.inf, 1.0, connection.route).bytes_per_s
    flows_limit = flows < rate.most * ceiling
    if flows_limit:
        rate = Limits(rate.least, max(rate.least, flows / ceiling))
        ceiling = min(ceiling, flows / rate.most)
    return Pipe(
        name=f"{connection.source} to {connection.destination}",
        bytes_per_s=rate,
        ceiling=ceiling,
        usd_per_byte_per_s_hour=(connection.usd_per_gbps_hour or 0.0) / units.GBPS,
        usd_per_byte=(connection.usd_per_gb or 0.0) / units.GB,
        flows_limit=flows_limit and rate.given,
    )


def network_of(fleet: Fleet) -> Network:
    """The problem that a fleet poses.

    Raises:
        InputError: lengths outside a profile, a stream that nothing decodes; all of them.
        InfeasibleError: an SLO that no batch meets; all of them.
    """
    return _Builder(fleet).network()
