"""What one more of each resource of a fleet gives, planned anew."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.fleet import Limits
from prfaas_opt.fleet_results import FleetWhatIf
from prfaas_opt.planning.fleets.changes import with_connection, with_holding
from prfaas_opt.planning.fleets.network import network_of
from prfaas_opt.planning.fleets.solve import most_scale
from prfaas_opt.planning.robustness import MORE_LINK_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prfaas_opt.fleet import Fleet
    from prfaas_opt.planning.options import SolverOptions


@dataclasses.dataclass(frozen=True)
class _Change:
    resource: str
    more: str
    fleet: Fleet
    usd_per_hour: float | None


def fleet_what_ifs(fleet: Fleet, throughput_rps: float, options: SolverOptions) -> tuple[FleetWhatIf, ...]:
    """The GPUs of one more instance of each kind, and a tenth more of each link, each planned anew; best first.

    Raises:
        SolverError: the solver failed, or a time limit came before any plan was found.
    """
    found = []
    for change in _changes(fleet):
        solved = most_scale(network_of(change.fleet), options, options.mip_gap_share or 0.0)
        if solved is None:
            continue
        rps = solved.scale * solved.demand_rps
        gain = max(rps - throughput_rps, 0.0)
        per_usd = gain / change.usd_per_hour if change.usd_per_hour else None
        found.append(FleetWhatIf(change.resource, change.more, rps, gain, gain / throughput_rps, per_usd))
    return tuple(sorted(found, key=lambda each: -each.gain_rps))


def _changes(fleet: Fleet) -> Iterator[_Change]:
    for i, site in enumerate(fleet.sites):
        for k, holding in enumerate(site.holdings):
            profiles = (stream.model.profile(holding.hardware) for stream in fleet.streams)
            gpus = max(profile.gpus_per_instance for profile in profiles if profile is not None)
            limits = Limits(holding.gpus.least + gpus, holding.gpus.most + gpus)
            grown = with_holding(fleet, i, k, dataclasses.replace(holding, gpus=limits))
            price = None if holding.usd_per_gpu_hour is None else holding.usd_per_gpu_hour * gpus
            more = f"{gpus} {holding.hardware} GPU{'s' if gpus > 1 else ''}"
            yield _Change(site.name, more, grown, price)
    for e, link in enumerate(fleet.connections):
        rate = link.bandwidth_bytes_per_s.most
        limits = Limits(rate * (1 + MORE_LINK_SHARE), rate * (1 + MORE_LINK_SHARE))
        wider = with_connection(fleet, e, dataclasses.replace(link, bandwidth_bytes_per_s=limits))
        gbps = units.to_gbps(rate * MORE_LINK_SHARE)
        price = None if link.usd_per_gbps_hour is None else link.usd_per_gbps_hour * gbps
        yield _Change(f"{link.source} to {link.destination}", units.format_gbps(gbps), wider, price)
