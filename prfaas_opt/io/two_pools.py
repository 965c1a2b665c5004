"""A fleet of two pools, one prefill and one PD cluster of one kind of hardware each, as the scenario it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.scenario import Cluster, Link, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prfaas_opt.fleet import Fleet, Site
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.profiles.model import Model
    from prfaas_opt.scenario import Baseline


def beyond_two_pools(fleet: Fleet) -> list[tuple[FieldPath, str]]:
    """What a fleet has that a scenario of two pools has not: where it stands, and what it is in words."""
    found: list[tuple[FieldPath, str]] = []
    if len(fleet.streams) > 1:
        found.append((("traffic",), f"{len(fleet.streams)} streams of traffic"))
    for role in ("pd", "prefill"):
        names = [site.name for site in fleet.sites if site.role == role]
        if len(names) > 1:
            found.append((("clusters", names[1]), f"{len(names)} {role} clusters"))
    for site in fleet.sites:
        found += [(("clusters", site.name), text) for text in _in_cluster(site, [s.model for s in fleet.streams])]
    for index, connection in enumerate(fleet.connections):
        if not connection.bandwidth_bytes_per_s.given:
            found.append((("links", index, "bandwidth"), "a range of bandwidth"))
    return found


def _in_cluster(site: Site, models: list[Model]) -> Iterator[str]:
    if len(site.holdings) > 1:
        yield f"{len(site.holdings)} kinds of hardware in {site.name}"
    for holding in site.holdings:
        if not holding.gpus.given:
            yield f"a range of {holding.hardware} in {site.name}"
        for profile in [model.profile(holding.hardware) for model in models] if len(models) == 1 else []:
            if profile is not None and holding.gpus.given and holding.gpus.most % profile.gpus_per_instance:
                per = profile.gpus_per_instance
                yield f"{holding.gpus.most} GPUs in {site.name}, no whole number of instances of {per}"


def scenario_of(fleet: Fleet, baseline: Baseline) -> Scenario:
    """The scenario of a fleet that has nothing beyond two pools."""
    (stream,) = fleet.streams
    pools = {site.role: _cluster(site, stream.model) for site in fleet.sites}
    links = [
        Link(
            source=each.source,
            destination=each.destination,
            bandwidth_bytes_per_s=each.bandwidth_bytes_per_s.most,
            max_utilization=each.max_utilization,
            route=each.route,
            price_per_gbps_hour=each.usd_per_gbps_hour,
            price_per_gb=each.usd_per_gb,
        )
        for each in fleet.connections
    ]
    return Scenario(
        name=fleet.name,
        model=stream.model,
        workload=stream.workload,
        pd=pools["pd"],
        remote=pools.get("prefill"),
        link=links[0] if links else None,
        tokens_per_s=stream.tokens_per_s,
        baseline=baseline,
        estimator=fleet.estimator,
        service=fleet.service,
        origin=fleet.origin,
    )


def _cluster(site: Site, model: Model) -> Cluster:
    (holding,) = site.holdings
    profile = model.profile(holding.hardware)
    assert profile is not None
    instances = int(holding.gpus.most) // profile.gpus_per_instance
    return Cluster(
        name=site.name,
        role=site.role,
        hardware=holding.hardware,
        instances=instances,
        max_utilization=holding.max_utilization,
        price_per_gpu_hour=holding.usd_per_gpu_hour,
        admission=site.admission,
    )
