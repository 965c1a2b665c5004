"""What is left of a fleet after a failure, and a fleet in several such states at once, as one network.

In every state the streams are served by ways of their own, out of the same instances and links: a state is a copy of
the streams, with copies of the teams and links that are left. A copy has the count or the rate of what it is a copy
of, or one instance fewer, and takes no GPUs and costs nothing of its own. So all that is known of networks, bounds
included, holds for a network of states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from prfaas_opt.fleet import Limits
from prfaas_opt.planning.fleets.network import Network

if TYPE_CHECKING:
    from prfaas_opt.fleet_results import FailureKind
    from prfaas_opt.planning.fleets.network import Decoder, Demand, Pipe, Way

N = TypeVar("N", bound=Network)


@dataclass(frozen=True)
class Failure:
    """One thing that is lost.

    Attributes:
        kind: what it is.
        part: its name, as in the fleet's plan.
        pipe: the link that carries nothing.
        team: the team that has one instance fewer, if it has any.
        site: the cluster that is gone.
    """

    kind: FailureKind
    part: str
    pipe: int | None = None
    team: int | None = None
    site: str | None = None


NO_FAILURE = Failure("instance", "nothing")
"""The state before any."""


@dataclass(frozen=True, kw_only=True)
class States(Network):
    """A network whose counts have limits of their own, and some of whose teams and links are copies of others.

    Attributes:
        counts: limits of the count of each team that is no copy; these come first.
        team_of: by team, itself or that whose count it has.
        loses: by team, whether it has one instance fewer, where that has any.
        pipe_of: by link, itself or that whose rate it has.
    """

    counts: tuple[tuple[int, int], ...]
    team_of: tuple[int, ...]
    loses: tuple[bool, ...]
    pipe_of: tuple[int, ...]

    @cached_property
    def own_pipes(self) -> int:
        """How many links are no copies; these come first."""
        return len(set(self.pipe_of))

    @cached_property
    def scale_limit(self) -> float:
        """As of any network, with the counts' own limits."""
        most = [0.0] * len(self.streams)
        for decoder in self.decoders:
            instances = self.counts[self.team_of[decoder.team]][1]
            most[decoder.stream] += instances * self.teams[decoder.team].ceiling * decoder.rps_per_instance
        return min(rps / stream.rate_rps for rps, stream in zip(most, self.streams, strict=True))


def failures_of(network: Network, kinds: Iterable[FailureKind]) -> tuple[Failure, ...]:
    """All failures of some kinds, in the order of the network's parts."""
    used = {way.pipe for way in network.ways}
    links = [Failure("link", pipe.name, pipe=e) for e, pipe in enumerate(network.pipes) if e in used]
    instances = [
        Failure("instance", f"{team.site} {team.hardware} {team.role} of {team.model}", team=t)
        for t, team in enumerate(network.teams)
    ]
    sites = [Failure("site", site, site=site) for site in dict.fromkeys(team.site for team in network.teams)]
    asked = set(kinds)
    return tuple(failure for failure in (*links, *instances, *sites) if failure.kind in asked)


def most_counts(network: Network) -> tuple[int, ...]:
    """The most instances that each team can have."""
    return tuple(int(network.gpus[team.gpus].limits.most // team.gpus_per_instance) for team in network.teams)


@dataclass(frozen=True)
class Left:
    """What serves after a failure.

    Attributes:
        ways, decoders: those left, whose requests still can be prefilled and decoded.
        cut_off: the streams that have none.
    """

    ways: tuple[Way, ...]
    decoders: tuple[Decoder, ...]
    cut_off: tuple[int, ...]


def left_of(network: Network, failure: Failure, idle: Iterable[int] = ()) -> Left:
    """What serves after a failure.

    Args:
        network: before it.
        failure: what is lost.
        idle: teams without an instance.
    """
    gone = set(idle)
    if failure.site is not None:
        gone |= {t for t, team in enumerate(network.teams) if team.site == failure.site}
    decoders = tuple(each for each in network.decoders if each.team not in gone)
    decodes = {(each.stream, each.destination) for each in decoders}
    ways = tuple(
        way
        for way in network.ways
        if way.team not in gone
        and (way.stream, way.destination) in decodes
        and (way.pipe is None or (way.pipe != failure.pipe and network.pipes[way.pipe].bytes_per_s.most > 0))
    )
    served = {way.stream for way in ways}
    return Left(ways, decoders, tuple(s for s in range(len(network.streams)) if s not in served))


def held(network: Network, counts: Sequence[int], bytes_per_s: Sequence[float]) -> States:
    """The network with given counts and rates of links."""
    counts = [int(n) for n in counts]
    pipes = tuple(
        dataclasses.replace(pipe, bytes_per_s=Limits(rate, rate))
        for pipe, rate in zip(network.pipes, bytes_per_s, strict=True)
    )
    return _as_states(network, network.streams, pipes, network.ways, network.decoders, [(n, n) for n in counts])


def after(
    network: Network, failure: Failure, counts: Sequence[int], bytes_per_s: Sequence[float]
) -> tuple[States | None, tuple[int, ...]]:
    """The network after a failure, its counts as they are, and the streams that are cut off.

    It has all the other streams; None where there is no other.
    """
    now = [n - (t == failure.team and n > 0) for t, n in enumerate(counts)]
    fixed = held(network, now, bytes_per_s)
    left = left_of(fixed, failure, [t for t, n in enumerate(now) if not n])
    return _of_streams(fixed, left), left.cut_off


def split_anew(
    network: Network, failure: Failure, counts: Sequence[int], bytes_per_s: Sequence[float], gpus: Sequence[int]
) -> tuple[Network | None, tuple[int, ...]]:
    """The network after a failure, its roles free to be split anew among the GPUs left, and the streams cut off.

    It has all the other streams; None where there is no other.
    """
    lost = [0] * len(gpus)
    if failure.team is not None and counts[failure.team]:
        team = network.teams[failure.team]
        lost[team.gpus] = team.gpus_per_instance
    holdings = tuple(
        dataclasses.replace(each, limits=Limits(has - less, has - less))
        for each, has, less in zip(network.gpus, gpus, lost, strict=True)
    )
    pipes = tuple(
        dataclasses.replace(pipe, bytes_per_s=Limits(rate, rate))
        for pipe, rate in zip(network.pipes, bytes_per_s, strict=True)
    )
    now = dataclasses.replace(network, gpus=holdings, pipes=pipes)
    none = [t for t, most in enumerate(most_counts(now)) if not most]
    left = left_of(now, failure, none)
    return _of_streams(now, left), left.cut_off


def _of_streams(network: N, left: Left) -> N | None:
    """The network of the streams that are not cut off."""
    kept = [s for s in range(len(network.streams)) if s not in left.cut_off]
    if not kept:
        return None
    return dataclasses.replace(
        network,
        streams=tuple(network.streams[s] for s in kept),
        ways=tuple(dataclasses.replace(way, stream=kept.index(way.stream)) for way in left.ways if way.stream in kept),
        decoders=tuple(
            dataclasses.replace(each, stream=kept.index(each.stream)) for each in left.decoders if each.stream in kept
        ),
    )


def _as_states(
    network: Network,
    streams: tuple[Demand, ...],
    pipes: tuple[Pipe, ...],
    ways: tuple[Way, ...],
    decoders: tuple[Decoder, ...],
    counts: Sequence[tuple[int, int]],
) -> States:
    return States(
        streams=streams,
        sites=network.sites,
        gpus=network.gpus,
        pipes=pipes,
        teams=network.teams,
        ways=ways,
        decoders=decoders,
        counts=tuple(counts),
        team_of=tuple(range(len(network.teams))),
        loses=(False,) * len(network.teams),
        pipe_of=tuple(range(len(pipes))),
    )


def in_states(
    network: Network,
    failures: Iterable[Failure],
    counts: Sequence[tuple[int, int]] | None = None,
    before: bool = True,
) -> States:
    """The network before any failure and after each of some, at once.

    Args:
        network: before any; no failure may cut off a stream of it.
        failures: the states beside.
        counts: limits of each team's; None sets none but the GPUs'.
        before: whether it must serve before any failure too.
    """
    counts = [(0, most) for most in most_counts(network)] if counts is None else counts
    states = _as_states(network, (), network.pipes, (), (), counts)
    if before:
        states = _as_states(network, network.streams, network.pipes, network.ways, network.decoders, counts)
    for failure in failures:
        states = _with_state(states, network, failure)
    return states


def _with_state(states: States, network: Network, failure: Failure) -> States:
    left = left_of(network, failure)
    serving = sorted({way.team for way in left.ways} | {each.team for each in left.decoders})
    teams = {t: len(states.teams) + i for i, t in enumerate(serving)}
    used = sorted({way.pipe for way in left.ways if way.pipe is not None})
    pipes = {e: len(states.pipes) + i for i, e in enumerate(used)}
    first = len(states.streams)
    ways = (
        dataclasses.replace(
            way,
            stream=first + way.stream,
            team=teams[way.team],
            pipe=None if way.pipe is None else pipes[way.pipe],
        )
        for way in left.ways
    )
    decoders = (dataclasses.replace(each, stream=first + each.stream, team=teams[each.team]) for each in left.decoders)
    return dataclasses.replace(
        states,
        streams=(*states.streams, *network.streams),
        teams=(*states.teams, *(dataclasses.replace(network.teams[t], gpus_per_instance=0) for t in teams)),
        pipes=(
            *states.pipes,
            *(dataclasses.replace(network.pipes[e], usd_per_byte_per_s_hour=0.0, usd_per_byte=0.0) for e in pipes),
        ),
        ways=(*states.ways, *ways),
        decoders=(*states.decoders, *decoders),
        team_of=(*states.team_of, *teams),
        loses=(*states.loses, *(t == failure.team for t in teams)),
        pipe_of=(*states.pipe_of, *pipes),
    )
