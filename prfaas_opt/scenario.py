"""What is planned: clusters, links, objectives and prices around a model and a workload. All in SI units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from prfaas_opt.terms import AS_IN_THE_PAPER, NO_LIMITS, PLAIN_ROUTE, Admission, Route, Service, same_format

if TYPE_CHECKING:
    from prfaas_opt.profiles.model import Model
    from prfaas_opt.workload.workload import Workload

Estimator = Literal["expected-time", "mean-length"]
Policy = Literal["threshold", "free"]
Objective = Literal["throughput", "goodput", "cost"]
ESTIMATORS: tuple[Estimator, ...] = ("expected-time", "mean-length")


class Origin(Protocol):
    """Where the fields of a scenario stand: a file with its lines, or nothing but names."""

    def where(self, path: tuple[str | int, ...] = ()) -> str:
        """What an error calls the place of a field."""


@dataclass(frozen=True)
class Nowhere:
    """The origin of a scenario that was made in Python."""

    def where(self, path: tuple[str | int, ...] = ()) -> str:
        """The field's path alone.

        >>> Nowhere().where(("clusters", "pd", "instances"))
        'clusters.pd.instances'
        """
        return ".".join(map(str, path))


@dataclass(frozen=True)
class Cluster:
    """Instances of one hardware in one place.

    Attributes:
        name: as links name it.
        role: ``prefill`` (remote prefill only) or ``pd`` (prefill and decode, split by the plan).
        hardware: accelerator name; the model's profile of that name applies.
        instances: model instances (not GPUs).
        max_utilization: share of its time that an instance may be busy.
        price_per_gpu_hour: USD; None where not given.
        admission: what it takes, and its network cards.
    """

    name: str
    role: Literal["prefill", "pd"]
    hardware: str
    instances: int
    max_utilization: float = 1.0
    price_per_gpu_hour: float | None = None
    admission: Admission = NO_LIMITS


@dataclass(frozen=True)
class Link:
    """A directed connection that all offloaded requests share.

    Attributes:
        source: cluster that sends.
        destination: cluster that receives.
        bandwidth_bytes_per_s: nominal rate.
        max_utilization: share of the rate that may be used.
        route: flows and round trips.
        price_per_gbps_hour: USD of capacity; None where not given.
        price_per_gb: USD of each 1e9 bytes sent; None where not given.
    """

    source: str
    destination: str
    bandwidth_bytes_per_s: float
    max_utilization: float = 1.0
    route: Route = PLAIN_ROUTE
    price_per_gbps_hour: float | None = None
    price_per_gb: float | None = None


@dataclass(frozen=True)
class Baseline:
    """The homogeneous cluster a plan is compared with; None means the default of each field.

    Attributes:
        hardware: default the PD cluster's.
        instances: default the whole fleet's number.
        price_per_gpu_hour: USD; default that of a cluster with this hardware, the remote cluster's last.
    """

    hardware: str | None = None
    instances: int | None = None
    price_per_gpu_hour: float | None = None


@dataclass(frozen=True)
class Scenario:
    """One planning question.

    Attributes:
        name: for people.
        model: with a profile for each cluster's hardware.
        workload: the traffic.
        pd: the cluster that decodes.
        remote: the remote prefill cluster, if there is one.
        link: from remote to pd, if there is one.
        tokens_per_s: decode SLO of one request; None asks none.
        baseline: what to compare with.
        estimator: how service times are averaged.
        service: how requests come and are served, beyond the paper's model.
        origin: where its fields stand, for errors.
    """

    name: str
    model: Model
    workload: Workload
    pd: Cluster
    remote: Cluster | None = None
    link: Link | None = None
    tokens_per_s: float | None = None
    baseline: Baseline = Baseline()
    estimator: Estimator = "expected-time"
    service: Service = AS_IN_THE_PAPER
    origin: Origin = field(default=Nowhere(), compare=False, repr=False)

    @property
    def can_offload(self) -> bool:
        """Whether there is remote prefill of the same KVCache format behind a link with some bandwidth."""
        return (
            self.remote is not None
            and self.link is not None
            and self.link.bandwidth_bytes_per_s > 0
            and self.formats_match
        )

    @property
    def formats_match(self) -> bool:
        """Whether the PD cluster can use the remote cluster's KVCache, as far as is stated."""
        return self.remote is None or same_format(self.remote.admission, self.pd.admission)
