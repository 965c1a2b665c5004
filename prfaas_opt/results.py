"""What planning returns. The field names are the JSON contract: names may be added, never changed.

Figures are in SI units, but for those whose names say otherwise: Gbps and USD an hour are what the contract asks for.

They are msgspec structs: frozen, cheap to make, and one declaration gives the object, its JSON and its JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from prfaas_opt.scenario import Estimator, Objective
from prfaas_opt.terms import LinkLimit

SCHEMA_VERSION = 1

Status = Literal["optimal", "threshold-optimal", "feasible", "infeasible", "error"]
Kind = Literal["threshold", "bands", "all-local", "all-remote"]
Name = Literal["prfaas-pd", "homogeneous-pd", "naive-heterogeneous"]
Pool = Literal["prfaas", "pd_prefill", "pd_decode"]
Stage = Literal["prfaas", "pd_prefill", "pd_decode", "egress"]
FailureKind = Literal["instance", "link", "site"]

Used = Annotated[float, Meta(ge=0, description="share of the resource's full capacity in use")]
Rps = Annotated[float, Meta(ge=0, description="requests per second")]
Tokens = Annotated[int, Meta(ge=0, description="tokens")]
Seconds = Annotated[float, Meta(ge=0, description="seconds")]


class Band(Struct, frozen=True):
    """Requests of ``from_tokens`` to ``to_tokens`` uncached tokens, both included, prefill in ``pool``."""

    from_tokens: Tokens
    to_tokens: Tokens
    pool: Pool


class Routing(Struct, frozen=True):
    """Which lengths go where."""

    kind: Kind
    bands: tuple[Band, ...]


class Instances(Struct, frozen=True):
    """Instances by role; 0 where the deployment has none."""

    prfaas: Annotated[int, Meta(ge=0, description="remote prefill")]
    pd_prefill: Annotated[int, Meta(ge=0, description="local prefill")]
    pd_decode: Annotated[int, Meta(ge=0, description="decode")]


class Path(Struct, frozen=True, kw_only=True):
    """A stream of requests from the cluster that prefills to the one that decodes."""

    model: str
    from_: Annotated[str, Meta(description="cluster that prefills")] = field(name="from")
    to: Annotated[str, Meta(description="cluster that decodes")]
    pool: Pool
    rate_rps: Rps


class EstimatedThroughput(Struct, frozen=True, rename="kebab"):
    """Lambda_max of one decision under both estimators."""

    mean_length: Rps
    expected_time: Rps


class StageRates(Struct, frozen=True):
    """Theta of each stage (equations 3 to 5): N / E[T | class], not divided by the class's share."""

    prfaas: Rps | None
    pd_prefill: Rps | None
    pd_decode: Rps | None


class Utilization(Struct, frozen=True):
    """Share of each resource in use at the plan's throughput; null where there is no such resource."""

    prfaas: Used | None
    pd_prefill: Used | None
    pd_decode: Used | None
    egress: Used | None


class Ttft(Struct, frozen=True):
    """Prefill seconds over the lengths of all requests, without queueing or transfer."""

    mean: Seconds
    p90: Seconds


class ShadowPrices(Struct, frozen=True):
    """What one more unit of a resource is worth with the split fixed; null where there is none of it."""

    prfaas_instance_rps: Rps | None
    pd_prefill_instance_rps: Rps | None
    pd_decode_instance_rps: Rps | None
    egress_rps_per_gbps: Rps | None


class PoolProvenance(Struct, frozen=True):
    """Where the figures of one cluster come from."""

    hardware: str
    prefill: str
    kv_cache: str
    decode: str | None


class WhatIf(Struct, frozen=True):
    """What one change gives, exactly: planned anew, roles split anew."""

    resource: Annotated[str, Meta(description="what changes: a cluster's or a link's name, or slo.tokens_per_s")]
    more: Annotated[str, Meta(description="the change, in words")]
    throughput_rps: Rps
    gain_rps: Annotated[float, Meta(ge=0, description="over this plan's throughput, requests per second")]
    gain_share: Annotated[float, Meta(ge=0, description="gain_rps / throughput_rps of this plan")]
    instances: Instances
    gain_rps_per_usd_hour: Annotated[
        float | None, Meta(description="gain over the hourly cost of what is added; null without a price")
    ]
    fixed_roles_gain_rps: Annotated[
        dict[Stage, float], Meta(description="gain without a new split, by the stage that the addition joins")
    ]


class Deviation(Struct, frozen=True):
    """One figure off by a share: what the plan as deployed then carries, and what a new plan would."""

    figure: str
    off_by_share: Annotated[float, Meta(description="-0.1: the figure is 10 % lower than assumed")]
    deployed_rps: Annotated[float | None, Meta(description="threshold and counts unchanged; null: outside a profile")]
    replanned_rps: Annotated[float | None, Meta(description="planned anew; null: lengths outside a profile")]
    replanned_instances: Instances | None
    split_changes: bool | None


class Failure(Struct, frozen=True):
    """What is served when one part is lost; thresholds are chosen anew."""

    lost: str
    kind: FailureKind
    fixed_roles_rps: Annotated[float, Meta(ge=0, description="roles of the other instances as they are")]
    resplit_rps: Annotated[float, Meta(ge=0, description="after a new split of the pd cluster")]
    fixed_roles_served_share: Annotated[float, Meta(ge=0, le=1, description="of what the plan serves")]
    resplit_served_share: Annotated[float, Meta(ge=0, le=1, description="of what the plan serves")]
    resplit_instances: Annotated[Instances | None, Meta(description="null where nothing is served")]


class Percentile(Struct, frozen=True):
    """A percentile of the time to first token that must hold."""

    name: Annotated[str, Meta(description="P90")]
    limit_s: Seconds
    attained_s: Seconds


class MeanWaits(Struct, frozen=True):
    """Mean waits in queue; null where the deployment has no such stage."""

    prfaas_s: Seconds | None
    pd_prefill_s: Seconds | None
    decode_slot_s: Seconds


class TtftAtLoad(Struct, frozen=True):
    """The time to first token at a load, queues and transfers included."""

    load_share: Annotated[float, Meta(ge=0, description="rate over capacity")]
    rate_rps: Rps
    mean_s: Seconds
    p50_s: Seconds
    p90_s: Seconds
    p99_s: Seconds
    mean_waits: MeanWaits


class CapacityChoice(Struct, frozen=True):
    """The deployment of largest capacity, and what it serves within the same percentiles."""

    instances: Instances
    threshold_tokens: int | None
    capacity_rps: Rps
    rate_rps: Rps
    mean_waits: Annotated[MeanWaits | None, Meta(description="at the plan's rate; null where a queue has no end there")]


class OperatingPoint(Struct, frozen=True):
    """The largest load at which the time to first token holds: found by search over all splits, not proven."""

    rate_rps: Rps
    percentiles: tuple[Percentile, ...]
    ttft: TtftAtLoad
    utilization: Utilization
    largest_capacity: CapacityChoice


class CarriedBy(Struct, frozen=True):
    """What the link carries, and what limits it."""

    gbps: Annotated[float, Meta(ge=0, description="1e9 bit/s for all transfers together")]
    limited_by: LinkLimit
    request_gbps: Annotated[float, Meta(ge=0, description="for one transfer alone")]
    request_limited_by: LinkLimit


class DecodePoint(Struct, frozen=True):
    """How a decode instance runs."""

    batch: Annotated[int, Meta(ge=1)]
    step_s: Seconds
    context_tokens: Annotated[float, Meta(ge=0, description="mean context of a request that decodes")]
    limited_by: Annotated[
        Literal["slo", "memory", "profile", "prefill"],
        Meta(description="what rules out a larger batch; profile: none measured; prefill: less time for it beside"),
    ]
    prefill_most_share: Annotated[
        float | None, Meta(description="of its time that the token rate leaves for prefill; null if none is done there")
    ]


class Robust(Struct, frozen=True):
    """The choice with the best worst case."""

    off_by_share: Annotated[float, Meta(gt=0, lt=1, description="latencies up and bandwidth down by up to this share")]
    worst_rps: Annotated[float, Meta(ge=0, description="what this plan serves in the worst case")]
    nominal_worst_rps: Annotated[
        float, Meta(ge=0, description="what the plan that is best by the figures serves there")
    ]
    nominal_rps: Annotated[float, Meta(ge=0, description="what that plan serves if the figures hold")]
    nominal_instances: Instances
    nominal_threshold_tokens: int | None


class Term(Struct, frozen=True):
    """A term of the model: its value in words, and whether it was stated or assumed."""

    name: str
    value: str
    source: Literal["given", "assumed"]


class SolverCheck(Struct, frozen=True):
    """The optimum of the mixed-integer program, to compare with ``bound_rps``."""

    solver: str
    throughput_rps: Rps
    relative_difference: Annotated[float, Meta(description="throughput_rps / bound_rps - 1; must vanish")]


class Cost(Struct, frozen=True):
    """What the deployment costs at the rate that it serves, where every cluster has a price."""

    usd_per_hour: Annotated[float, Meta(ge=0, description="instances, link capacity and bytes sent")]
    requests_per_usd: Annotated[float, Meta(ge=0)]
    ratio: Annotated[float | None, Meta(description="requests per USD over the homogeneous cluster's")]
    usd_per_thousand_requests: Annotated[float, Meta(ge=0)]
    egress_usd_per_hour: Annotated[float, Meta(ge=0, description="the part of the bytes sent")]
    least_usd_per_thousand_requests: Annotated[
        float | None,
        Meta(description="no counts within these, no split and no routing cost less; null without a bound"),
    ]
    break_even_usd_per_gb: Annotated[
        float | None,
        Meta(description="price of a GB sent from which on remote prefill costs more; null where it never pays"),
    ]


class BaselineRatio(Struct, frozen=True):
    """What a baseline of table 6 serves, at its own optimum."""

    name: Name
    served_rps: Rps
    ratio: Annotated[float, Meta(ge=0, description="what the plan serves over it")]
    cost_ratio: Annotated[float | None, Meta(description="the plan's requests per USD over its; null without prices")]


class Plan(Struct, frozen=True):
    """A deployment: its decision, what the equations make of it, and how good it is proven to be."""

    name: Name
    ratio: Annotated[float | None, Meta(description="throughput over the homogeneous cluster's")]
    status: Status
    routing: Routing
    threshold_tokens: Annotated[
        int | None, Meta(description="longest length kept local; null unless routing.kind is threshold")
    ]
    offload_share: Annotated[float, Meta(ge=0, le=1, description="p: share of requests prefilled remotely")]
    instances: Instances
    paths: tuple[Path, ...]
    throughput_rps: Annotated[float, Meta(ge=0, description="Lambda_max under the estimator")]
    estimator: Estimator
    throughput_rps_by_estimator: EstimatedThroughput
    stages_rps: StageRates
    utilization: Utilization
    bottlenecks: Annotated[tuple[Stage, ...], Meta(description="stages used to 0.995 of their ceiling or more")]
    egress_gbps: Annotated[float, Meta(ge=0, description="mean rate on the link, 1e9 bit/s")]
    ttft_s: Ttft
    bound_rps: Annotated[
        float | None,
        Meta(description="no routing by length and no split does better than this; null under mean-length"),
    ]
    gap_share: Annotated[float | None, Meta(description="1 - throughput_rps / bound_rps")]
    tie_loss_share: Annotated[
        float | None,
        Meta(description="the part of the gap lost by not sharing the one length at the threshold"),
    ]
    shadow_prices: ShadowPrices | None
    near_optimal_threshold_tokens: Annotated[
        tuple[int, int] | None,
        Meta(description="shortest and longest threshold within 1 % of the throughput, counts unchanged"),
    ]
    what_ifs: Annotated[
        tuple[WhatIf, ...], Meta(description="one more of each resource, and a slower SLO, largest gain first")
    ]
    sensitivity: Annotated[tuple[Deviation, ...] | None, Meta(description="null unless asked for")]
    solver_check: Annotated[SolverCheck | None, Meta(description="null unless a solver was asked for")]
    decode_batch: Annotated[int, Meta(ge=1, description="requests decoded together")]
    cost: Cost | None
    objective: Objective
    served_rps: Annotated[
        float, Meta(ge=0, description="the rate that the plan serves: throughput_rps, or less where ttft must hold")
    ]
    operating_point: Annotated[OperatingPoint | None, Meta(description="null unless slo.ttft is given")]
    ttft_by_load: Annotated[tuple[TtftAtLoad, ...], Meta(description="at 70, 80 and 90 % of capacity")]
    link: Annotated[CarriedBy | None, Meta(description="null where there is no link")]
    decode: DecodePoint
    failures: tuple[Failure, ...]
    robust: Annotated[Robust | None, Meta(description="null unless asked for")]
    terms: Annotated[tuple[Term, ...], Meta(description="what goes beyond the paper's model")]
    stay_share: Annotated[float, Meta(ge=0, le=1, description="share of the requests that have no choice but to stay")]
    unservable_share: Annotated[
        float, Meta(ge=0, le=1, description="share of the requests that no cluster can take; rates are of the others")
    ]
    baselines: Annotated[tuple[BaselineRatio, ...], Meta(description="those that are possible here")]
    provenance: dict[str, PoolProvenance]


class Unavailable(Struct, frozen=True):
    """A baseline that cannot be deployed in this scenario, and why."""

    name: Name
    problem: str


class Comparison(Struct, frozen=True):
    """The deployments of table 6, the plan first."""

    deployments: tuple[Plan, ...]
    unavailable: tuple[Unavailable, ...]
