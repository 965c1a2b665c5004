"""Any number of clusters, links, models and streams of traffic: what is planned where two pools are not enough.

A cluster holds GPUs of one or several kinds. Each model instance takes the GPUs its profile states, and serves one
model in one role. Counts and bandwidths are limits: a plan needs them fixed, sizing chooses within them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from prfaas_opt.scenario import Nowhere
from prfaas_opt.terms import AS_IN_THE_PAPER, NO_LIMITS, PLAIN_ROUTE, Admission, Route, Service

if TYPE_CHECKING:
    from prfaas_opt.profiles.model import Model
    from prfaas_opt.scenario import Estimator, Origin, Scenario
    from prfaas_opt.workload.workload import Workload

Role = Literal["prefill", "pd"]


@dataclass(frozen=True)
class Limits:
    """The least and the most of something there may be; equal where its amount is given.

    >>> Limits(4, 4).given, Limits(0, 4).given
    (True, False)
    """

    least: float
    most: float

    @property
    def given(self) -> bool:
        """Whether there is nothing to choose."""
        return self.least == self.most


@dataclass(frozen=True)
class Stream:
    """Traffic of one model: a plan serves all streams in proportion to their demands, sizing serves the demands.

    Attributes:
        name: for people, unique in a fleet.
        model: what is served.
        workload: its lengths.
        demand_rps: requests/s to serve.
        destination: the PD cluster that must decode it; None leaves the choice to the plan.
        tokens_per_s: decode SLO of one request; None asks none.
    """

    name: str
    model: Model
    workload: Workload
    demand_rps: float
    destination: str | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True)
class Holding:
    """GPUs of one kind in a cluster.

    Attributes:
        hardware: accelerator name; the profiles of that name apply.
        gpus: how many.
        max_utilization: share of its time that an instance may be busy.
        usd_per_gpu_hour: price; None where not given.
    """

    hardware: str
    gpus: Limits
    max_utilization: float = 1.0
    usd_per_gpu_hour: float | None = None


@dataclass(frozen=True)
class Site:
    """A cluster: GPUs in one place, between which KVCache moves without a limit.

    Attributes:
        name: as links and streams name it.
        role: ``prefill`` (remote prefill only) or ``pd`` (prefill and decode, split by the plan).
        holdings: its GPUs, by hardware.
        admission: what it takes, and its network cards.
    """

    name: str
    role: Role
    holdings: tuple[Holding, ...]
    admission: Admission = NO_LIMITS


@dataclass(frozen=True)
class Connection:
    """A directed link from a prefill cluster to a PD cluster, shared by all that is sent over it.

    Attributes:
        source: cluster that sends.
        destination: cluster that receives.
        bandwidth_bytes_per_s: nominal rate.
        max_utilization: share of the rate that may be used.
        usd_per_gbps_hour: price of capacity; None where not given.
        usd_per_gb: price of each 1e9 bytes sent; None where not given.
        route: flows and round trips.
    """

    source: str
    destination: str
    bandwidth_bytes_per_s: Limits
    max_utilization: float = 1.0
    usd_per_gbps_hour: float | None = None
    usd_per_gb: float | None = None
    route: Route = PLAIN_ROUTE


@dataclass(frozen=True)
class Fleet:
    """One planning or sizing question about many clusters.

    Attributes:
        name: for people.
        streams: the traffic, one entry at least.
        sites: the clusters.
        connections: the links.
        estimator: how service times are averaged; fleets are planned under expected-time.
        service: how requests come and are served, beyond the paper's model.
        origin: where its fields stand, for errors.
    """

    name: str
    streams: tuple[Stream, ...]
    sites: tuple[Site, ...]
    connections: tuple[Connection, ...] = ()
    estimator: Estimator = "expected-time"
    service: Service = AS_IN_THE_PAPER
    origin: Origin = field(default=Nowhere(), compare=False, repr=False)

    @property
    def demand_rps(self) -> float:
        """Requests/s of all streams together."""
        return sum(stream.demand_rps for stream in self.streams)

    def site(self, name: str) -> Site:
        """The cluster of a name."""
        return next(site for site in self.sites if site.name == name)


def fleet_of(scenario: Scenario) -> Fleet:
    """The fleet that a scenario of two pools is, with a demand of one request/s."""
    model = scenario.model
    sites = []
    for cluster in (scenario.remote, scenario.pd):
        profile = model.profile(cluster.hardware) if cluster else None
        if cluster is not None and profile is not None:
            gpus = cluster.instances * profile.gpus_per_instance
            holding = Holding(cluster.hardware, Limits(gpus, gpus), cluster.max_utilization, cluster.price_per_gpu_hour)
            sites.append(Site(cluster.name, cluster.role, (holding,), cluster.admission))
    link = scenario.link
    connections = []
    if link is not None:
        rate = Limits(link.bandwidth_bytes_per_s, link.bandwidth_bytes_per_s)
        prices = link.price_per_gbps_hour, link.price_per_gb
        connections.append(Connection(link.source, link.destination, rate, link.max_utilization, *prices, link.route))
    stream = Stream(model.name, model, scenario.workload, 1.0, tokens_per_s=scenario.tokens_per_s)
    return Fleet(
        name=scenario.name,
        streams=(stream,),
        sites=tuple(sites),
        connections=tuple(connections),
        estimator=scenario.estimator,
        service=scenario.service,
        origin=scenario.origin,
    )
