"""From a scenario to the planning problems it poses: the plan's and the baselines'."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.planning.decoding import Decoding, decoding
from prfaas_opt.planning.problem import RemotePool, TwoPoolProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.model import Profile
    from prfaas_opt.scenario import Cluster, Scenario
    from prfaas_opt.workload.workload import Workload

BASELINE = "baseline"
"""Name of the homogeneous cluster, as its field in a scenario."""


def two_pool_problem(scenario: Scenario) -> TwoPoolProblem:
    """The problem of the plan: remote prefill, local prefill and decode.

    Raises:
        InputError: lengths outside a profile, all of them.
        InfeasibleError: the SLO or the number of instances leaves no deployment.
    """
    pd, local_profile = scenario.pd, profile_of(scenario, scenario.pd)
    problems = _range_problems(scenario, [(c, profile_of(scenario, c)) for c in (scenario.remote, pd) if c])
    if problems:
        raise InputError(problems)
    return TwoPoolProblem(
        lengths=scenario.workload.input_tokens,
        remote=_remote_pool(scenario),
        local_prefill_s=local_profile.prefill_s,
        pd_instances=pd.instances,
        splits=range(pd.instances),
        pd_ceiling=pd.max_utilization,
        decode_rps_per_instance=_decode_rps_per_instance(scenario, pd, local_profile),
        estimator=scenario.estimator,
    )


def _remote_pool(scenario: Scenario) -> RemotePool | None:
    """The remote pool; None where there is none or its link carries nothing, so that nothing can be offloaded."""
    remote, link = scenario.remote, scenario.link
    if remote is None or link is None or not scenario.can_offload:
        return None
    profile = profile_of(scenario, remote)
    return RemotePool(
        lengths=scenario.workload.input_tokens,
        usable_instances=remote.instances * remote.max_utilization,
        prefill_s=profile.prefill_s,
        kv_bytes=profile.kv_bytes,
        egress_bytes_per_s=link.bandwidth_bytes_per_s * link.max_utilization,
    )


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
    return dataclasses.replace(two_pool_problem(scenario), splits=range(1))


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


def decode_batch(scenario: Scenario, profile: Profile) -> int:
    """BS_max on a profile under the scenario's token rate.

    Raises:
        InputError: the profile has no decode figures.
        InfeasibleError: no measured batch is fast enough.
    """
    return _decoding(scenario, profile).batch


def _decoding(scenario: Scenario, profile: Profile) -> Decoding:
    return decoding(scenario.model, profile, scenario.workload, scenario.tokens_per_s, scenario.origin)


def _decode_rps_per_instance(scenario: Scenario, cluster: Cluster, profile: Profile) -> float:
    rps = _decoding(scenario, profile).rps_per_instance
    if cluster.instances == 1 and not scenario.can_offload:
        raise InfeasibleError(
            Problem(
                "split",
                _place(scenario, cluster, "instances"),
                "1 instance cannot both prefill and decode, and no link carries prefilled requests to it",
                "give it 2 instances, or a prefill cluster behind a link with some bandwidth",
            )
        )
    return rps


def _range_problems(scenario: Scenario, clusters: Sequence[tuple[Cluster, Profile]]) -> list[Problem]:
    """Lengths of the workload that the figures of the clusters' profiles do not cover."""
    lengths = scenario.workload.input_tokens
    short = [
        (curve.upper, f"{name} on {profile.hardware}")
        for cluster, profile in clusters
        for name, curve in _curves(profile, cluster.role == "prefill")
        if lengths.high > curve.upper
    ]
    if short:
        least = min(upper for upper, _ in short)
        known = ", ".join(f"{what} up to {units.format_tokens(upper)}" for upper, what in short)
        message = (
            f"{scenario.workload.name} has requests of up to {units.format_tokens(lengths.high)} tokens, but of "
            f"{scenario.model.name} is known: {known}"
        )
        fix = (
            f"lower the workload's longest length to {units.format_tokens(least)}, measure the model further, or state "
            "extrapolate_to_tokens in its profile"
        )
        return [Problem("length-above-range", scenario.origin.where(("workload",)), message, fix)]
    return [
        Problem(
            "negative-size",
            _place(scenario, cluster),
            f"below its first point the KVCache size of {scenario.model.name} on {profile.hardware} follows the first "
            f"segment's slope and would be negative at {units.format_tokens(lengths.low)} tokens",
            "add a point at a shorter length",
        )
        for cluster, profile in clusters
        if cluster.role == "prefill" and profile.kv_bytes(lengths.low) < 0
    ]


def _curves(profile: Profile, sends: bool) -> list[tuple[str, Curve]]:
    """The curves of a profile that matter in a cluster, which may send KVCache or not."""
    latency = ("prefill latency", profile.prefill_s)
    return [latency, ("KVCache size", profile.kv_bytes)] if sends else [latency]


def assumptions(scenario: Scenario) -> tuple[str, ...]:
    """What a reader of this scenario's results should know: warnings of the model, lengths outside the data."""
    notes = list(scenario.model.warnings)
    try:
        two_pool_problem(homogeneous_scenario(scenario))
    except (InputError, InfeasibleError) as error:
        notes.append(f"there is no homogeneous cluster to compare with: {error.problems[0].message}")
    for cluster in (scenario.remote, scenario.pd):
        if cluster is not None:
            sends = cluster.role == "prefill"
            notes += lengths_outside(scenario.workload, profile_of(scenario, cluster), sends)
    return tuple(notes)


def lengths_outside(workload: Workload, profile: Profile, sends: bool) -> list[str]:
    """Notes on the requests whose lengths lie outside the data of a profile; ``sends``: it sends KVCache too."""
    lengths, notes = workload.input_tokens, []
    curves = [curve for _, curve in _curves(profile, sends)]
    first = max(curve.measured_low_tokens for curve in curves)
    last = min(curve.measured_high_tokens for curve in curves)
    below, above = lengths.share_at_most(first) if lengths.low < first else 0.0, lengths.share_above(last)
    assumed = "the first latency and the first slope in size are" if sends else "the first latency is"
    if below > 0:
        notes.append(
            f"{units.format_some_share(below)} of requests are shorter than {units.format_tokens(first)} tokens, where "
            f"the {profile.hardware} figures begin; {assumed} assumed there"
        )
    if above > 0:
        notes.append(
            f"{units.format_some_share(above)} of requests are longer than {units.format_tokens(last)} tokens, where "
            f"the {profile.hardware} figures end; beyond, the profile's extrapolation is assumed"
        )
    return notes


def share_outside(workload: Workload, profile: Profile) -> float:
    """The share of requests whose lengths lie outside the data of a profile."""
    lengths, curves = workload.input_tokens, (profile.prefill_s, profile.kv_bytes)
    first = max(curve.measured_low_tokens for curve in curves)
    last = min(curve.measured_high_tokens for curve in curves)
    return (lengths.share_at_most(first) if lengths.low < first else 0.0) + lengths.share_above(last)
