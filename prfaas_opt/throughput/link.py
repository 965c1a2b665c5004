"""What a link really carries, and what limits it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from prfaas_opt.terms import LinkLimit, Route


class Carried(Struct, frozen=True):
    """A rate and the least of the limits, which gives it.

    Attributes:
        bytes_per_s: what is carried.
        limited_by: the first of the limits that are that low.
    """

    bytes_per_s: float
    limited_by: LinkLimit


def effective_link(
    bandwidth_bytes_per_s: float,
    max_utilization: float,
    route: Route,
    sender_nics_bytes_per_s: float = math.inf,
    receiver_nics_bytes_per_s: float = math.inf,
) -> Carried:
    """What all transfers over a link may take together.

    ``min(utilization * bandwidth, instances * NIC rate at either end, flows * min(flow cap, window / RTT))``; a window
    limits a TCP flow to one window a round trip (RFC 7323, section 1).

    Args:
        bandwidth_bytes_per_s: nominal rate.
        max_utilization: share of it that may be used.
        route: flows, their caps and windows, and the round-trip time.
        sender_nics_bytes_per_s, receiver_nics_bytes_per_s: of all instances at that end.

    >>> from prfaas_opt.terms import Route
    >>> carried = effective_link(12.5e9, 1.0, Route(rtt_s=0.08, flows=4, window_bytes=16 * 2**20))
    >>> round(carried.bytes_per_s * 8 / 1e9, 1), carried.limited_by
    (6.7, 'window / RTT')
    """
    return _least(
        ("bandwidth", max_utilization * bandwidth_bytes_per_s),
        ("sender NICs", sender_nics_bytes_per_s),
        ("receiver NICs", receiver_nics_bytes_per_s),
        *_flows(route, route.flows),
    )


def request_rate(
    link: Carried,
    route: Route,
    sender_nic_bytes_per_s: float = math.inf,
    receiver_nic_bytes_per_s: float = math.inf,
) -> Carried:
    """What one request's transfer may take on a link without others.

    The link's own limits, one NIC, the request's share of the flows, and a cap on requests.

    Args:
        link: what the link carries.
        route: flows, their caps and windows, and the round-trip time.
        sender_nic_bytes_per_s, receiver_nic_bytes_per_s: of one instance at that end.

    >>> from prfaas_opt.terms import Route
    >>> request_rate(Carried(1e9, "bandwidth"), Route(request_bytes_per_s=2e8)).limited_by
    'request rate'
    """
    flows = route.flows if route.request_flows is None else route.request_flows
    return _least(
        (link.limited_by, link.bytes_per_s),
        ("sender NICs", sender_nic_bytes_per_s),
        ("receiver NICs", receiver_nic_bytes_per_s),
        *_flows(route, flows),
        ("request rate", math.inf if route.request_bytes_per_s is None else route.request_bytes_per_s),
    )


def _flows(route: Route, flows: int | None) -> tuple[tuple[LinkLimit, float], ...]:
    """The limits of so many flows; none where flows are not counted."""
    if flows is None:
        return ()
    cap = math.inf if route.flow_bytes_per_s is None else route.flow_bytes_per_s
    window = math.inf if route.window_bytes is None or not route.rtt_s else route.window_bytes / route.rtt_s
    return ("flow caps", flows * cap), ("window / RTT", flows * window)


def _least(*limits: tuple[LinkLimit, float]) -> Carried:
    name, rate = min(limits, key=lambda limit: limit[1])
    return Carried(rate, name)
