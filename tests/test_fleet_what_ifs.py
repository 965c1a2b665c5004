"""What one more of a resource gives a fleet, against the changed fleet planned by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from prfaas_opt import fleet_api
from prfaas_opt.fleet import Fleet, Limits
from tests.fleets import random_fleet
from tests.test_fleet_api import close

GAP = 1e-6
PLANNED = (1, 2, 4, 7, 12, 13, 14, 15, 17, 20, 21, 22, 27, 28, 31)
SIZED = (1, 3, 5, 7, 9, 12, 13, 15, 21, 22)
"""Seeds of fleets that can be served, and soon planned."""


def with_more_gpus(fleet: Fleet, site: str, hardware: str, gpus: int) -> Fleet:
    sites = []
    for each in fleet.sites:
        held = tuple(
            dataclasses.replace(h, gpus=Limits(h.gpus.least + gpus, h.gpus.most + gpus))
            if (each.name, h.hardware) == (site, hardware)
            else h
            for h in each.holdings
        )
        sites.append(dataclasses.replace(each, holdings=held))
    return dataclasses.replace(fleet, sites=tuple(sites))


def with_wider_link(fleet: Fleet, name: str) -> Fleet:
    links = []
    for link in fleet.connections:
        rate = link.bandwidth_bytes_per_s.most * (1.1 if f"{link.source} to {link.destination}" == name else 1.0)
        links.append(dataclasses.replace(link, bandwidth_bytes_per_s=Limits(rate, rate)))
    return dataclasses.replace(fleet, connections=tuple(links))


@pytest.mark.parametrize("seed", [12, 25])
def test_what_ifs_are_what_planning_the_changed_fleet_gives(seed: int) -> None:
    fleet = random_fleet(np.random.default_rng(seed))
    prices = {site.name: 1.5 + i for i, site in enumerate(fleet.sites)}
    sites = []
    for site in fleet.sites:
        held = tuple(dataclasses.replace(h, usd_per_gpu_hour=prices[site.name]) for h in site.holdings)
        sites.append(dataclasses.replace(site, holdings=held))
    fleet = dataclasses.replace(fleet, sites=tuple(sites))
    plan = fleet_api.plan_fleet(fleet, sensitivity=True)
    assert plan.what_ifs is not None
    assert len(plan.what_ifs) >= sum(len(site.holdings) for site in fleet.sites)
    assert [w.gain_rps for w in plan.what_ifs] == sorted((w.gain_rps for w in plan.what_ifs), reverse=True)
    for what_if in plan.what_ifs:
        gain = max(what_if.throughput_rps - plan.throughput_rps, 0.0)
        assert close(what_if.gain_rps, gain)
        assert close(what_if.gain_share, gain / plan.throughput_rps)
        if what_if.resource in prices:
            gpus, hardware, _ = what_if.more.split(" ", 2)
            changed = with_more_gpus(fleet, what_if.resource, hardware, int(gpus))
            assert close(what_if.gain_rps_per_usd_hour, gain / (int(gpus) * prices[what_if.resource]))
        else:
            changed = with_wider_link(fleet, what_if.resource)
            assert what_if.gain_rps_per_usd_hour is None
        anew = fleet_api.plan_fleet(changed)
        assert close(anew.throughput_rps, what_if.throughput_rps, 5e-6), what_if


# What is refused, and how a search may be limited
