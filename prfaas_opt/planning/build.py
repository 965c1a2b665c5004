"""From a scenario to the planning problems it poses: the plan's and the baselines'."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from msgspec import structs

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.planning.curves import ServiceCurves, service_curves, uses_cached_table
from prfaas_opt.planning.decoding import DecodeLimits, Decoding, decode_limits, decoding
from prfaas_opt.planning.eligibility import eligible
from prfaas_opt.planning.problem import (
    NONE_STAY,
    DecodeAtBatch,
    OnDecodeProblem,
    RemotePool,
    Staying,
    TwoPoolProblem,
)
from prfaas_opt.throughput.expectation import Expectation
from prfaas_opt.throughput.link import Carried, effective_link, request_rate

if TYPE_CHECKING:
    from prfaas_opt.planning.eligibility import Eligible
    from prfaas_opt.profiles.cached import CachedPrefill
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.model import Model, Profile
    from prfaas_opt.scenario import Cluster, Origin, Scenario
    from prfaas_opt.workload.distribution import LengthDistribution
    from prfaas_opt.workload.workload import Workload

BASELINE = "baseline"
"""Name of the homogeneous cluster, as its field in a scenario."""
_ROUNDING = 1e-12


def two_pool_problem(scenario: Scenario) -> TwoPoolProblem:
    """The problem of the plan: remote prefill, local prefill and decode.

    Raises:
        InputError: lengths outside a profile, all of them.
        InfeasibleError: the SLO, the contexts or the number of instances leave no deployment.
    """
    pd = scenario.pd
    admitted = eligible(scenario)
    problems = _range_problems(scenario, admitted)
    if problems:
        raise InputError(problems)
    local = curves_of(scenario, pd)
    remote = _remote_pool(scenario, admitted)
    choosing = admitted.served if remote is None else remote.lengths
    problem = TwoPoolProblem(
        lengths=choosing,
        remote=remote,
        local_prefill_s=local.occupancy_s,
        pd_instances=pd.instances,
        splits=range(pd.instances),
        pd_ceiling=pd.max_utilization,
        decode_rps_per_instance=decoding_of(scenario).rps_per_instance,
        estimator=scenario.estimator,
        served=admitted.served,
        local_latency_s=local.latency_s,
        staying=NONE_STAY if choosing is admitted.served else _staying(admitted, local.occupancy_s),
    )
    if scenario.service.local_prefill == "on_decode":
        return _on_decode(scenario, problem)
    _check_roles(scenario)
    return problem


def curves_of(scenario: Scenario, cluster: Cluster) -> ServiceCurves:
    """What requests of the scenario's workload cost in a cluster."""
    return service_curves(profile_of(scenario, cluster), scenario.workload, scenario.service.transfer)


def carried_by_link(scenario: Scenario) -> Carried:
    """What the link carries and what limits it; nothing where there is none."""
    link, remote = scenario.link, scenario.remote
    if link is None or remote is None:
        return Carried(0.0, "bandwidth")
    nics = (each.instances * _nic(each) for each in (remote, scenario.pd))
    return effective_link(link.bandwidth_bytes_per_s, link.max_utilization, link.route, *nics)


def carried_of_request(scenario: Scenario, link: Carried | None = None) -> Carried:
    """What one request's transfer takes on the link without others; ``link`` is what that carries, where known."""
    assert scenario.link is not None
    assert scenario.remote is not None
    nics = (_nic(each) for each in (scenario.remote, scenario.pd))
    return request_rate(link or carried_by_link(scenario), scenario.link.route, *nics)


def _nic(cluster: Cluster) -> float:
    rate = cluster.admission.nic_bytes_per_s
    return math.inf if rate is None else rate


def in_flight_byte_s(scenario: Scenario) -> float:
    """KVCache in flight to a decode instance, byte*s a request, as if all were offloaded: size * transfer time."""
    if not scenario.can_offload or scenario.remote is None or scenario.link is None:
        return 0.0
    rate = carried_of_request(scenario).bytes_per_s
    sent = curves_of(scenario, scenario.remote).sent_bytes
    lengths = eligible(scenario).served
    if lengths.high > sent.upper or rate == 0:
        return 0.0
    mean, square = Expectation(sent, lengths).total, Expectation(sent.squared(), lengths).total
    return square / rate + mean * scenario.link.route.rtt_s


def _remote_pool(scenario: Scenario, admitted: Eligible) -> RemotePool | None:
    """The remote pool; None where there is none, or nothing can be offloaded to it."""
    remote, link = scenario.remote, scenario.link
    if remote is None or link is None or admitted.choosing is None:
        return None
    carried = carried_by_link(scenario)
    if carried.bytes_per_s <= 0:
        return None
    curves = curves_of(scenario, remote)
    return RemotePool(
        lengths=admitted.choosing,
        usable_instances=remote.instances * remote.max_utilization,
        prefill_s=curves.occupancy_s,
        kv_bytes=curves.sent_bytes,
        egress_bytes_per_s=carried.bytes_per_s,
        latency_s=curves.latency_s,
    )


def _staying(admitted: Eligible, local_prefill_s: Curve) -> Staying:
    """The requests that must prefill in the PD cluster."""
    time, longest, stay = (
        Expectation(local_prefill_s, admitted.served),
        admitted.longest_remote_tokens,
        admitted.stay_share,
    )
    return Staying(
        share=admitted.served.share_above(longest) + stay * admitted.served.share_at_most(longest),
        local_s=time.above(longest) + stay * time.at_most(longest),
        longest_remote_tokens=longest,
        stay_share=stay,
    )


def _on_decode(scenario: Scenario, dedicated: TwoPoolProblem) -> OnDecodeProblem:
    """Local prefill on the decode instances: each batch that the token rate and memory allow is a split."""
    limits, wanted = limits_of_decode(scenario), scenario.tokens_per_s
    at_batch = {}
    for batch in itertools.chain.from_iterable(limits.spans):
        share = 1.0 - limits.step_s(batch) * wanted / limits.steps.accepted_tokens if wanted else 1.0
        at_batch[batch] = DecodeAtBatch(1.0 / limits.rps(batch), 0.0 if share < _ROUNDING else share)
    fields = {field.name: getattr(dedicated, field.name) for field in dataclasses.fields(dedicated)}
    splits = range(min(at_batch), max(at_batch) + 1)
    return OnDecodeProblem(**(fields | {"splits": splits, "at_batch": at_batch}))


def homogeneous_scenario(scenario: Scenario) -> Scenario:
    """The homogeneous baseline as a scenario of its own: one PD cluster, nothing remote."""
    baseline, pd, remote = scenario.baseline, scenario.pd, scenario.remote
    clusters = [pd, *([remote] if remote else [])]
    hardware = baseline.hardware or pd.hardware
    price = baseline.price_per_gpu_hour
    if price is None:
        same = (c.price_per_gpu_hour for c in clusters if c.hardware.casefold() == hardware.casefold())
        price = next((each for each in same if each is not None), None)
    instances = baseline.instances or sum(cluster.instances for cluster in clusters)
    cluster = dataclasses.replace(pd, name=BASELINE, hardware=hardware, instances=instances, price_per_gpu_hour=price)
    return dataclasses.replace(scenario, pd=cluster, remote=None, link=None)


def naive_problem(scenario: Scenario) -> TwoPoolProblem | None:
    """The naive heterogeneous split: all prefill remote, all PD instances decode; None without a remote cluster."""
    if scenario.remote is None:
        return None
    dedicated = structs.replace(scenario.service, local_prefill="dedicated")
    return dataclasses.replace(two_pool_problem(dataclasses.replace(scenario, service=dedicated)), splits=range(1))


def profile_of(scenario: Scenario, cluster: Cluster) -> Profile:
    """The model's profile on a cluster's hardware.

    Raises:
        InputError: the model has none.
    """
    profile = scenario.model.profile(cluster.hardware)
    if profile is None:
        known = ", ".join(scenario.model.hardware)
        where = _place(scenario, cluster, "hardware")
        message = f"{scenario.model.name} has no profile for {cluster.hardware}, expected one of {known}"
        raise InputError(Problem("unknown-hardware", where, message, "add a profile to the model"))
    return profile


def instance_usd_per_hour(scenario: Scenario, cluster: Cluster) -> float | None:
    """What one instance of a cluster costs an hour; None without a price."""
    if cluster.price_per_gpu_hour is None:
        return None
    return cluster.price_per_gpu_hour * profile_of(scenario, cluster).gpus_per_instance


def _place(scenario: Scenario, cluster: Cluster, *field: str) -> str:
    """Where a field of a cluster stands, for an error; the baseline has a place of its own."""
    path = (BASELINE,) if cluster.name == BASELINE else ("clusters", cluster.name)
    return scenario.origin.where((*path, *field))


def limits_of_decode(scenario: Scenario) -> DecodeLimits:
    """What bounds the batch of a decode instance, with the requests that are served.

    Raises:
        InputError: the profile has no decode figures, or none at the workload's mean context.
    """
    return decode_limits(*_decoded(scenario))


def decoding_of(scenario: Scenario) -> Decoding:
    """How an instance decodes at the largest batch.

    Raises:
        InputError: the profile has no decode figures, or none at the workload's mean context.
        InfeasibleError: no batch is fast enough, or none fits in memory.
    """
    return decoding(*_decoded(scenario))


def _decoded(scenario: Scenario) -> tuple[Model, Profile, Workload, float | None, Origin, float]:
    profile, workload, served = profile_of(scenario, scenario.pd), scenario.workload, eligible(scenario).served
    if served is not workload.input_tokens:
        workload = dataclasses.replace(workload, input_tokens=served)
    flight = in_flight_byte_s(scenario) if profile.memory else 0.0
    return scenario.model, profile, workload, scenario.tokens_per_s, scenario.origin, flight


def _check_roles(scenario: Scenario) -> None:
    pd = scenario.pd
    if pd.instances == 1 and not scenario.can_offload:
        raise InfeasibleError(
            Problem(
                "split",
                _place(scenario, pd, "instances"),
                "1 instance cannot both prefill and decode, and no link carries prefilled requests to it",
                "give it 2 instances, a prefill cluster behind a link with some bandwidth, or local_prefill: on_decode",
            )
        )


def _range_problems(scenario: Scenario, admitted: Eligible) -> list[Problem]:
    """Lengths that the clusters would take and the figures of their profiles do not cover."""
    taken = [(cluster, lengths) for cluster, lengths in _taken(scenario, admitted) if cluster and lengths]
    short = [
        (curve.upper, f"{name} on {cluster.hardware}", lengths)
        for cluster, lengths in taken
        for name, curve in curves_used(scenario, cluster)
        if lengths.high > curve.upper
    ]
    if short:
        least = min(upper for upper, _, _ in short)
        whole = scenario.workload.prompt_per_uncached
        known = ", ".join(f"{what} up to {units.format_tokens(upper * whole)}" for upper, what, _ in short)
        longest = max(lengths.high for _, _, lengths in short) * whole
        cached = ", cached prefix included" if whole > 1 else ""
        message = (
            f"{scenario.workload.name} has requests of up to {units.format_tokens(longest)} tokens{cached}, but of "
            f"{scenario.model.name} is known: {known}"
        )
        fix = (
            f"lower the workload's longest length to {units.format_tokens(least)}, measure the model further, or state "
            "extrapolate_to_tokens in its profile"
        )
        fix += "".join(
            f"; prefill_cached of {cluster.hardware} ends at {units.format_tokens(table.cached_tokens[-1])} cached and "
            f"{units.format_tokens(table.uncached_tokens[-1])} uncached tokens, and without it a rule holds"
            for cluster, lengths in taken
            if (table := _cached_table(scenario, cluster))
            and lengths.high > curves_of(scenario, cluster).latency_s.upper
        )
        return [Problem("length-above-range", scenario.origin.where(("workload",)), message, fix)]
    return [
        Problem(
            "negative-size",
            _place(scenario, cluster),
            f"below its first point the KVCache size of {scenario.model.name} on {cluster.hardware} follows the first "
            f"segment's slope and would be negative at {units.format_tokens(lengths.low)} tokens",
            "add a point at a shorter length",
        )
        for cluster, lengths in taken
        if cluster.role == "prefill" and curves_of(scenario, cluster).sent_bytes(lengths.low) < 0
    ]


def _taken(scenario: Scenario, admitted: Eligible) -> list[tuple[Cluster | None, LengthDistribution | None]]:
    """The lengths that each cluster may prefill; the remote one's are checked even behind a link of no bandwidth."""
    remote = admitted.served if admitted.choosing is None else admitted.choosing
    return [(scenario.remote, remote), (scenario.pd, admitted.served)]


def curves_used(scenario: Scenario, cluster: Cluster) -> list[tuple[str, Curve]]:
    """The curves that matter in a cluster, which sends KVCache or does not, named."""
    curves = curves_of(scenario, cluster)
    cached = " with a cached prefix" if _cached_table(scenario, cluster) else ""
    used = [(f"prefill latency{cached}", curves.latency_s)]
    if curves.occupancy_s is not curves.latency_s:
        used.append((f"prefill occupancy{cached}", curves.occupancy_s))
    return [*used, ("KVCache size", curves.sent_bytes)] if cluster.role == "prefill" else used


def _cached_table(scenario: Scenario, cluster: Cluster) -> CachedPrefill | None:
    """The table by which prompts with a cached prefix prefill in a cluster; None where it is not by one."""
    profile = profile_of(scenario, cluster)
    return profile.cached_prefill_s if uses_cached_table(profile, scenario.workload) else None
