"""What planning and sizing of fleets return; field names are the JSON contract, as in ``results``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from prfaas_opt.results import Kind, Pool, PoolProvenance, Rps, Status, Tokens, Ttft, Used
from prfaas_opt.scenario import Estimator

Usd = Annotated[float, Meta(ge=0, description="USD an hour")]
Share = Annotated[float, Meta(ge=0, le=1, description="share of requests")]
Stopped = Annotated[
    Literal["", "time limit", "interrupted"], Meta(description="what ended the search before the gap was closed")
]


FailureKind = Literal["link", "instance", "site"]
"""What may be lost: any one link, one instance of any group, or any one cluster."""
FAILURE_KINDS: tuple[FailureKind, ...] = ("link", "instance", "site")


class WayShare(Struct, frozen=True, kw_only=True):
    """The share of a band's requests that one kind of hardware prefills for one cluster."""

    from_: Annotated[str, Meta(description="cluster that prefills")] = field(name="from")
    hardware: str
    to: Annotated[str, Meta(description="cluster that decodes")]
    pool: Pool
    share: Share


class FleetBand(Struct, frozen=True):
    """Requests of ``from_tokens`` to ``to_tokens`` uncached tokens, both included, and where they go."""

    from_tokens: Tokens
    to_tokens: Tokens
    ways: tuple[WayShare, ...]


class StreamPlan(Struct, frozen=True):
    """One stream of traffic and its routing."""

    name: str
    model: str
    demand_rps: Rps
    rate_rps: Annotated[float, Meta(ge=0, description="what the plan serves of it, requests per second")]
    kind: Kind
    threshold_tokens: Annotated[
        int | None, Meta(description="longest length kept local; null unless kind is threshold")
    ]
    offload_share: Share
    bands: tuple[FleetBand, ...]
    ttft_s: Ttft


class Group(Struct, frozen=True):
    """Instances of one model in one role on one kind of hardware in one cluster."""

    cluster: str
    hardware: str
    model: str
    role: Literal["prefill", "decode"]
    instances: Annotated[int, Meta(ge=0)]
    gpus_per_instance: Annotated[int, Meta(ge=1)]
    utilization: Annotated[Used | None, Meta(description="null without instances")]
    instance_rps: Annotated[
        float | None, Meta(description="shadow price: req/s that one more instance is worth, counts fixed")
    ]


class GpuPlan(Struct, frozen=True):
    """GPUs of one kind in one cluster."""

    cluster: str
    role: Literal["prefill", "pd"]
    hardware: str
    gpus: Annotated[int, Meta(ge=0, description="in the fleet")]
    gpus_used: Annotated[int, Meta(ge=0, description="that instances take")]
    usd_per_hour: Annotated[float | None, Meta(description="of these GPUs; null without a price")]


class LinkPlan(Struct, frozen=True, kw_only=True):
    """A link, what it carries, and what more of it is worth."""

    from_: str = field(name="from")
    to: str
    bandwidth_gbps: Annotated[float, Meta(ge=0, description="1e9 bit/s; in a sized fleet, what it must have")]
    egress_gbps: Annotated[float, Meta(ge=0, description="mean rate, 1e9 bit/s")]
    utilization: Used | None
    egress_rps_per_gbps: Annotated[float | None, Meta(description="shadow price, counts fixed")]
    usd_per_hour: Annotated[float | None, Meta(description="of its rate and what it carries; null without a price")]


class FleetPath(Struct, frozen=True, kw_only=True):
    """A stream of requests from the hardware that prefills to the cluster that decodes."""

    stream: str
    model: str
    from_: str = field(name="from")
    hardware: str
    to: str
    pool: Pool
    rate_rps: Rps


class FleetCost(Struct, frozen=True):
    """What the fleet costs, as far as prices are given."""

    usd_per_hour: Usd
    requests_per_usd: Annotated[float | None, Meta(description="null where it costs nothing")]


class FleetWhatIf(Struct, frozen=True):
    """What one more of a resource gives, planned anew with roles split anew."""

    resource: str
    more: str
    throughput_rps: Rps
    gain_rps: Annotated[float, Meta(ge=0)]
    gain_share: Annotated[float, Meta(ge=0)]
    gain_rps_per_usd_hour: float | None


class FleetDeviation(Struct, frozen=True):
    """One figure off by a share, in all clusters: what the fleet as deployed then carries, and a new plan would."""

    figure: str
    off_by_share: Annotated[float, Meta(description="-0.1: the figure is 10 % lower than assumed")]
    deployed_rps: Annotated[float | None, Meta(description="bands and counts unchanged; null: outside a profile")]
    replanned_rps: Annotated[float | None, Meta(description="planned anew; null: lengths outside a profile")]
    counts_change: Annotated[bool | None, Meta(description="whether the new plan has other counts")]


class FleetFailure(Struct, frozen=True):
    """What a fleet serves after one failure: requests are routed anew at once, roles are not."""

    kind: Annotated[
        FailureKind,
        Meta(
            description="link: it carries nothing; instance: its group has one fewer; "
            "site: the cluster is gone with its GPUs and links"
        ),
    ]
    part: Annotated[str, Meta(description="what is lost: the link, group or cluster")]
    throughput_rps: Annotated[
        float,
        Meta(ge=0, description="roles as they are: all streams not cut off, in proportion; of a sized fleet at least"),
    ]
    served_share: Annotated[Share, Meta(description="of the demand, roles as they are")]
    cut_off: Annotated[tuple[str, ...], Meta(description="streams that nothing serves any more, roles as they are")]
    resplit_rps: Annotated[
        float | None, Meta(description="roles split anew among the GPUs left; null for a sized fleet")
    ]
    resplit_served_share: Annotated[
        Used | None, Meta(description="of the demand, roles split anew; null for a sized fleet")
    ]
    resplit_cut_off: Annotated[
        tuple[str, ...] | None, Meta(description="streams that nothing could serve; null for a sized fleet")
    ]


class FleetPlan(Struct, frozen=True):
    """A deployment of many clusters: what is decided, what the equations make of it, how good it is proven to be."""

    name: Literal["fleet"]
    status: Status
    stopped: Stopped
    throughput_rps: Annotated[float, Meta(ge=0, description="all streams together, in proportion to their demands")]
    demand_rps: Rps
    estimator: Estimator
    offload_share: Share
    streams: tuple[StreamPlan, ...]
    groups: tuple[Group, ...]
    gpus: tuple[GpuPlan, ...]
    links: tuple[LinkPlan, ...]
    paths: tuple[FleetPath, ...]
    egress_gbps: Annotated[float, Meta(ge=0, description="over all links, 1e9 bit/s")]
    bottlenecks: Annotated[tuple[str, ...], Meta(description="groups and links used to 0.995 of their ceiling or more")]
    bound_rps: Annotated[
        float | None, Meta(description="no routing by length and no counts do better; null in a sized fleet")
    ]
    gap_share: Annotated[float | None, Meta(description="1 - throughput_rps / bound_rps")]
    tie_loss_share: Annotated[
        float | None, Meta(description="the part of the gap lost to borders between bands at whole tokens")
    ]
    mip_gap_share: Annotated[float, Meta(description="the gap, but for that part, that was asked for")]
    what_ifs: Annotated[tuple[FleetWhatIf, ...] | None, Meta(description="largest gain first; null unless asked for")]
    sensitivity: Annotated[tuple[FleetDeviation, ...] | None, Meta(description="null unless asked for")]
    cost: FleetCost | None
    provenance: Annotated[
        dict[str, PoolProvenance], Meta(description="by model and hardware: where the figures come from")
    ]
    failures: Annotated[
        tuple[FleetFailure, ...] | None, Meta(description="each link, instance and cluster lost; null unless asked for")
    ] = None


class SizePoint(Struct, frozen=True):
    """The cheapest fleet for one demand."""

    demand_rps: Rps
    status: Status
    stopped: Stopped
    usd_per_hour: Annotated[float | None, Meta(description="null where no fleet within the limits serves it")]
    bound_usd_per_hour: Annotated[float | None, Meta(description="no fleet that serves it costs less")]
    gap_share: float | None
    usd_per_million_requests: float | None
    gpus: Annotated[dict[str, int], Meta(description="by cluster and hardware; those that hold any")]


class Sizing(Struct, frozen=True):
    """The cheapest fleet for the demand, or the fleet that serves most for a budget."""

    goal: Annotated[Literal["least-cost", "budget"], Meta(description="what was asked")]
    status: Annotated[Status, Meta(description="optimal: gap_share is at most mip_gap_share")]
    stopped: Stopped
    demand_rps: Annotated[float, Meta(ge=0, description="served by this fleet")]
    budget_usd_per_hour: float | None
    usd_per_hour: Usd
    bound_usd_per_hour: Annotated[float | None, Meta(description="no fleet costs less; null for a budget")]
    bound_rps: Annotated[float | None, Meta(description="no fleet serves more for the budget; null for least cost")]
    gap_share: float
    mip_gap_share: Annotated[float, Meta(description="the gap that was asked for")]
    usd_per_million_requests: float | None
    plan: FleetPlan
    curve: Annotated[tuple[SizePoint, ...] | None, Meta(description="cost over demands; null unless asked for")]
    survives: Annotated[
        tuple[FailureKind, ...],
        Meta(
            description="kinds of failure: after the loss of any single one the whole demand is still served within "
            "the ceilings, counts as they are and requests routed anew; empty unless asked for"
        ),
    ] = ()
    failures: Annotated[
        tuple[FleetFailure, ...] | None, Meta(description="every failure of these kinds; null unless asked for")
    ] = None
    unprotected_usd_per_hour: Annotated[
        float | None, Meta(description="of the cheapest fleet found that survives nothing; null unless asked for")
    ] = None
