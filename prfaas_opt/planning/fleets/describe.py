"""From a solved network to a fleet's plan: every figure from the equations, in the words of the fleet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.fleet_results import (
    FleetBand,
    FleetCost,
    FleetPath,
    FleetPlan,
    GpuPlan,
    Group,
    LinkPlan,
    StreamPlan,
    WayShare,
)
from prfaas_opt.latency.ttft import LatencyBand, Ttft
from prfaas_opt.results import PoolProvenance
from prfaas_opt.results import Ttft as TtftResult

if TYPE_CHECKING:
    from prfaas_opt.fleet import Fleet
    from prfaas_opt.planning.fleets.decision import Band
    from prfaas_opt.planning.fleets.network import Team, Way
    from prfaas_opt.planning.fleets.solve import Solved
    from prfaas_opt.results import Kind, Pool, Status

_BINDS = 0.995
_KINDS: dict[tuple[Pool | None, ...], Kind] = {
    ("pd_prefill",): "all-local",
    ("prfaas",): "all-remote",
    ("pd_prefill", "prfaas"): "threshold",
}


def describe(fleet: Fleet, solved: Solved, gap_share: float) -> FleetPlan:
    """The plan that a solved fleet amounts to.

    Args:
        fleet: what was planned.
        solved: its outcome.
        gap_share: the gap at which it counts as optimal.
    """
    return _Description(fleet, solved).plan(gap_share)


def is_sized(fleet: Fleet) -> bool:
    """Whether there are counts or bandwidths to choose."""
    return not all(holding.gpus.given for site in fleet.sites for holding in site.holdings) or not all(
        link.bandwidth_bytes_per_s.given for link in fleet.connections
    )


class _Description:
    def __init__(self, fleet: Fleet, solved: Solved) -> None:
        self._fleet, self._solved = fleet, solved
        self._network, self._decision, self._loads = solved.network, solved.decision, solved.loads
        self._sized = solved.goal == "cost" or is_sized(fleet)

    def plan(self, gap_share: float) -> FleetPlan:
        solved, fleet = self._solved, self._fleet
        total = solved.scale * solved.demand_rps
        gap = tie = bound = None
        if not self._sized:
            bound = max(solved.bound, solved.scale) * solved.demand_rps
            gap = 1.0 - total / bound
            tie = max(0.0, 1.0 - solved.scale / solved.shared_scale)
        paths = self._paths()
        offloaded = sum(path.rate_rps for path in paths if path.pool == "prfaas")
        groups, links = self._groups(), self._links()
        status: Status = "optimal" if solved.gap_share <= gap_share else "feasible"
        return FleetPlan(
            name="fleet",
            status=status,
            stopped=solved.found.stopped,
            throughput_rps=total,
            demand_rps=fleet.demand_rps,
            estimator=fleet.estimator,
            offload_share=min(offloaded / total, 1.0),
            streams=tuple(self._stream(s) for s in range(len(fleet.streams))),
            groups=groups,
            gpus=self._gpus(),
            links=links,
            paths=paths,
            egress_gbps=sum(link.egress_gbps for link in links),
            bottlenecks=self._bottlenecks(groups, links),
            bound_rps=bound,
            gap_share=gap,
            tie_loss_share=tie,
            mip_gap_share=gap_share,
            what_ifs=None,
            sensitivity=None,
            cost=self._cost(total),
            provenance=self._provenance(),
        )

    def _pool(self, way: Way) -> Pool:
        return "pd_prefill" if way.pipe is None else "prfaas"

    def _team(self, way: Way) -> Team:
        return self._network.teams[way.team]

    def _paths(self) -> tuple[FleetPath, ...]:
        fleet, network = self._fleet, self._network
        return tuple(
            FleetPath(
                stream=fleet.streams[way.stream].name,
                model=fleet.streams[way.stream].model.name,
                from_=self._team(way).site,
                hardware=self._team(way).hardware,
                to=network.sites[way.destination],
                pool=self._pool(way),
                rate_rps=rate * self._solved.scale,
            )
            for way, rate in zip(network.ways, self._loads.rates_rps, strict=True)
            if rate > 0
        )

    def _stream(self, s: int) -> StreamPlan:
        stream, network = self._fleet.streams[s], self._network
        bands = self._decision.bands[s]
        rates = [(network.ways[i], self._loads.rates_rps[i]) for i in network.ways_of[s]]
        total = sum(rate for _, rate in rates)
        remote = sum(rate for way, rate in rates if way.pipe is not None)
        pools: list[Pool | None] = []
        for band in bands:
            of_band = {self._pool(network.ways[i]) for i, _ in band.shares}
            pool = of_band.pop() if len(of_band) == 1 else None
            if not pools or pools[-1] != pool:
                pools.append(pool)
        kind = _KINDS.get(tuple(pools), "bands")
        threshold = None
        if kind == "threshold":
            last_local = max(b.high for b in bands if self._pool(network.ways[b.shares[0][0]]) == "pd_prefill")
            threshold = int(last_local)
        return StreamPlan(
            name=stream.name,
            model=stream.model.name,
            demand_rps=stream.demand_rps,
            rate_rps=network.streams[s].rate_rps * self._solved.scale,
            kind=kind,
            threshold_tokens=threshold,
            offload_share=min(remote / total, 1.0) if total else 0.0,
            bands=self._bands(s, bands),
            ttft_s=self._ttft(s, bands),
        )

    def _bands(self, s: int, bands: tuple[Band, ...]) -> tuple[FleetBand, ...]:
        """Bands without holes: lengths that no request of a table has go with the next longer band."""
        lengths = self._network.streams[s].lengths
        firsts = [math.ceil(lengths.low), *(int(band.high) + 1 for band in bands[:-1])]
        lasts = [*(int(band.high) for band in bands[:-1]), lengths.last_threshold]
        return tuple(
            FleetBand(first, last, self._ways(band)) for first, last, band in zip(firsts, lasts, bands, strict=True)
        )

    def _ways(self, band: Band) -> tuple[WayShare, ...]:
        shares = []
        for i, share in sorted(band.shares, key=lambda each: -each[1]):
            way = self._network.ways[i]
            team = self._team(way)
            shares.append(
                WayShare(
                    from_=team.site,
                    hardware=team.hardware,
                    to=self._network.sites[way.destination],
                    pool=self._pool(way),
                    share=min(share, 1.0),
                )
            )
        return tuple(shares)

    def _ttft(self, s: int, bands: tuple[Band, ...]) -> TtftResult:
        latencies = [
            LatencyBand(band.low, band.high, self._network.ways[i].prefill_s, share)
            for band in bands
            for i, share in band.shares
        ]
        ttft = Ttft(self._network.streams[s].lengths, latencies)
        return TtftResult(ttft.mean_s, ttft.quantile_s(0.9))

    def _groups(self) -> tuple[Group, ...]:
        network, solved = self._network, self._solved
        groups = []
        for t, team in enumerate(network.teams):
            count = self._decision.counts[t]
            worth = None
            if not self._sized:
                worth = solved.found.prices.instances[t] * solved.demand_rps
            busy = self._loads.seconds[t] * solved.scale / count if count else None
            groups.append(
                Group(team.site, team.hardware, team.model, team.role, count, team.gpus_per_instance, busy, worth)
            )
        return tuple(groups)

    def _gpus(self) -> tuple[GpuPlan, ...]:
        fleet, network = self._fleet, self._network
        used = [0] * len(network.gpus)
        for team, count in zip(network.teams, self._decision.counts, strict=True):
            used[team.gpus] += count * team.gpus_per_instance
        found = []
        holdings = [(site, holding) for site in fleet.sites for holding in site.holdings]
        for (site, holding), taken, gpus in zip(holdings, used, self._decision.gpus, strict=True):
            price = holding.usd_per_gpu_hour
            found.append(
                GpuPlan(site.name, site.role, holding.hardware, gpus, taken, None if price is None else price * gpus)
            )
        return tuple(found)

    def _links(self) -> tuple[LinkPlan, ...]:
        solved, found = self._solved, []
        for e, link in enumerate(self._fleet.connections):
            rate, sent = self._decision.bytes_per_s[e], self._loads.bytes_per_s[e] * solved.scale
            usd = None
            if link.usd_per_gb is not None or link.usd_per_gbps_hour is not None:
                usd = units.to_gbps(rate) * (link.usd_per_gbps_hour or 0.0)
                usd += sent * units.HOUR_S / units.GB * (link.usd_per_gb or 0.0)
            worth = None
            if not self._sized:
                price = 0.0 if self._network.pipes[e].flows_limit else solved.found.prices.bytes_per_s[e]
                worth = price * units.GBPS * solved.demand_rps
            found.append(
                LinkPlan(
                    from_=link.source,
                    to=link.destination,
                    bandwidth_gbps=units.to_gbps(rate),
                    egress_gbps=units.to_gbps(sent),
                    utilization=sent / rate if rate > 0 else None,
                    egress_rps_per_gbps=worth,
                    usd_per_hour=usd,
                )
            )
        return tuple(found)

    def _bottlenecks(self, groups: tuple[Group, ...], links: tuple[LinkPlan, ...]) -> tuple[str, ...]:
        names = [
            f"{group.cluster} {group.hardware} {group.role} of {group.model}"
            for group, team in zip(groups, self._network.teams, strict=True)
            if (group.utilization or 0.0) >= _BINDS * team.ceiling
        ]
        names += [
            f"link {link.from_} to {link.to}"
            for link, pipe in zip(links, self._network.pipes, strict=True)
            if (link.utilization or 0.0) >= _BINDS * pipe.ceiling
        ]
        return tuple(names)

    def _cost(self, total_rps: float) -> FleetCost | None:
        fleet = self._fleet
        prices = [holding.usd_per_gpu_hour for site in fleet.sites for holding in site.holdings]
        if any(price is None for price in prices):
            return None
        usd = self._loads.usd_per_hour(self._solved.scale)
        return FleetCost(usd, total_rps * units.HOUR_S / usd if usd > 0 else None)

    def _provenance(self) -> dict[str, PoolProvenance]:
        found = {}
        for stream in self._fleet.streams:
            for site in self._fleet.sites:
                for holding in site.holdings:
                    profile = stream.model.profile(holding.hardware)
                    if profile is not None:
                        words = {key: str(source) for key, source in profile.provenance.items()}
                        decode = words.get("decode") if site.role == "pd" and profile.decode else None
                        key = f"{stream.model.name} on {profile.hardware}"
                        if key not in found or decode is not None:
                            found[key] = PoolProvenance(profile.hardware, words["prefill"], words["kv_cache"], decode)
        return found
