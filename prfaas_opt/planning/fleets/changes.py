"""The same fleet with something changed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from prfaas_opt.fleet import Connection, Fleet, Holding, Stream

T = TypeVar("T")


def with_holding(fleet: Fleet, site: int, index: int, holding: Holding) -> Fleet:
    """With other GPUs in place of some of a site's."""
    changed = dataclasses.replace(fleet.sites[site], holdings=_with(fleet.sites[site].holdings, index, holding))
    return dataclasses.replace(fleet, sites=_with(fleet.sites, site, changed))


def with_connection(fleet: Fleet, index: int, link: Connection) -> Fleet:
    """With another link in place of one."""
    return dataclasses.replace(fleet, connections=_with(fleet.connections, index, link))


def with_stream(fleet: Fleet, stream: Stream) -> Fleet:
    """With other traffic in place of the stream of the same name, if that is there."""
    streams = tuple(stream if each.name == stream.name else each for each in fleet.streams)
    return dataclasses.replace(fleet, streams=streams)


def with_demand_times(fleet: Fleet, factor: float) -> Fleet:
    """With every demand multiplied."""
    streams = tuple(dataclasses.replace(each, demand_rps=each.demand_rps * factor) for each in fleet.streams)
    return dataclasses.replace(fleet, streams=streams)


def _with(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])
