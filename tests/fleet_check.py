"""A decision about a fleet, evaluated again: its shares summed over nodes of the lengths, none of the planner's means.

It reads the decision and what its indices refer to; whatever is asked of whom comes from the fleet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prfaas_opt.fleet import Connection, Fleet, Holding, Stream
from prfaas_opt.planning.fleets.decision import Band, Decision
from prfaas_opt.planning.fleets.network import Network
from tests.fleet_bins import Array, Count, Counts, binned, decode_s, gpus_used

BINS = 64
"""Of each stream, beside the edges of its bands and the breaks of its curves."""
_BYTES_PER_GBPS = 1e9 / 8
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Evaluation:
    """What a decision needs for one request/s of all streams together, in proportion to their demands.

    Attributes:
        fleet: whose.
        counts: instances.
        gpus: by holding, in the fleet's order.
        busy_s: seconds a second of each kind of instances.
        bandwidths: of each connection, bytes/s.
        sent_bytes: over each connection, a second.
    """

    fleet: Fleet
    counts: Counts
    gpus: tuple[float, ...]
    busy_s: dict[Count, float]
    bandwidths: tuple[float, ...]
    sent_bytes: tuple[float, ...]

    @property
    def throughput_rps(self) -> float:
        """The most requests/s before something is used beyond its ceiling."""
        limits = [
            _holding(self.fleet, key).max_utilization * self.counts[key] / busy
            for key, busy in self.busy_s.items()
            if busy > 0
        ]
        limits += [
            link.max_utilization * bandwidth / sent
            for link, bandwidth, sent in zip(self.fleet.connections, self.bandwidths, self.sent_bytes, strict=True)
            if sent > 0
        ]
        return min(limits)

    def usd_per_hour(self, rate_rps: float) -> float:
        """What it costs to serve so many requests/s."""
        usd = sum(
            gpus * (holding.usd_per_gpu_hour or 0.0)
            for gpus, holding in zip(self.gpus, _holdings(self.fleet), strict=True)
        )
        for link, bandwidth, sent in zip(self.fleet.connections, self.bandwidths, self.sent_bytes, strict=True):
            usd += bandwidth / _BYTES_PER_GBPS * (link.usd_per_gbps_hour or 0.0)
            usd += rate_rps * sent * 3600.0 / 1e9 * (link.usd_per_gb or 0.0)
        return usd

    def check_limits(self) -> None:
        """There are no more GPUs and no more bandwidth than the fleet allows, and none less."""
        used = gpus_used(self.fleet, self.counts)
        sites = [(site.name, holding.hardware) for site in self.fleet.sites for holding in site.holdings]
        for key, gpus, holding in zip(sites, self.gpus, _holdings(self.fleet), strict=True):
            assert holding.gpus.least - _ROUNDING <= gpus <= holding.gpus.most + _ROUNDING, key
            assert used.get(key, 0) <= gpus + _ROUNDING, key
        for link, bandwidth in zip(self.fleet.connections, self.bandwidths, strict=True):
            limits = link.bandwidth_bytes_per_s
            assert limits.least * (1 - _ROUNDING) <= bandwidth <= limits.most * (1 + _ROUNDING), link


def evaluated(fleet: Fleet, network: Network, decision: Decision) -> Evaluation:
    """What a decision needs; it fails where some requests are not served, or by nothing that could.

    Args:
        fleet: that was asked about.
        network: what the decision's indices refer to; its rates are not read.
        decision: to evaluate.
    """
    keys = [Count(team.model, team.site, team.hardware, team.role) for team in network.teams]
    assert len(set(keys)) == len(keys)
    busy = dict.fromkeys(keys, 0.0)
    sent = [0.0] * len(fleet.connections)
    for s, (stream, bands) in enumerate(zip(fleet.streams, decision.bands, strict=True)):
        rate_rps = stream.demand_rps / fleet.demand_rps
        arrivals: dict[str, float] = {}
        for i, share_of_band, lengths, masses in _parts(network, s, stream, bands):
            way = network.ways[i]
            assert way.stream == s
            key, destination = keys[way.team], network.sites[way.destination]
            assert (key.model, key.role) == (stream.model.name, "prefill")
            assert stream.destination in (None, destination)
            profile = stream.model.profile(key.hardware)
            assert profile is not None
            rates = rate_rps * share_of_band * masses
            busy[key] += float(rates @ profile.prefill_s(lengths))
            arrivals[destination] = arrivals.get(destination, 0.0) + float(rates.sum())
            if way.pipe is None:
                assert key.site == destination
            else:
                assert _ends(fleet.connections[way.pipe]) == (key.site, destination)
                sent[way.pipe] += float(rates @ profile.kv_bytes(lengths))
        assert abs(sum(arrivals.values()) / rate_rps - 1) < _ROUNDING, stream.name
        decoded = dict.fromkeys(arrivals, 0.0)
        for decoder, share in zip(network.decoders, decision.decoded, strict=True):
            key, destination = keys[decoder.team], network.sites[decoder.destination]
            if decoder.stream != s or share == 0:
                continue
            assert share > 0
            assert (key.model, key.site, key.role) == (stream.model.name, destination, "decode")
            profile = stream.model.profile(key.hardware)
            seconds = decode_s(stream, profile) if profile else None
            assert seconds is not None
            if destination in arrivals:
                busy[key] += share * arrivals[destination] * seconds
                decoded[destination] += share
        assert all(abs(total - 1) < _ROUNDING for total in decoded.values()), stream.name
    counts = dict(zip(keys, decision.counts, strict=True))
    return Evaluation(fleet, counts, decision.gpus, busy, decision.bytes_per_s, tuple(sent))


def _parts(
    network: Network, s: int, stream: Stream, bands: Sequence[Band]
) -> Iterator[tuple[int, float, Array, Array]]:
    """Way, share of the band, lengths and their probabilities, of every band and its ways."""
    curves = [network.ways[i].prefill_s for i in network.ways_of[s]]
    curves += [curve for i in network.ways_of[s] if (curve := network.ways[i].kv_bytes) is not None]
    breaks = [piece.high for curve in curves for piece in curve.pieces]
    lengths = binned(
        stream.workload.input_tokens, BINS, [*breaks, *(x for band in bands for x in (band.low, band.high))]
    )
    assert all(a.low < a.high <= b.low < b.high for a, b in itertools.pairwise(bands)), stream.name
    for band in bands:
        shares = [share for _, share in band.shares]
        assert min(shares) > 0
        assert abs(sum(shares) - 1) < _ROUNDING
        inside = (lengths.lengths > band.low) & (lengths.lengths <= band.high)
        for i, share in band.shares:
            yield i, share, lengths.lengths[inside], lengths.masses[inside]


def _holdings(fleet: Fleet) -> list[Holding]:
    return [holding for site in fleet.sites for holding in site.holdings]


def _holding(fleet: Fleet, key: Count) -> Holding:
    return next(holding for holding in fleet.site(key.site).holdings if holding.hardware == key.hardware)


def _ends(connection: Connection) -> tuple[str, str]:
    return connection.source, connection.destination
