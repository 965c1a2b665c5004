"""The fields of a scenario that go beyond the paper's model, and the terms they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt.io.scalars import (
    BANDWIDTH,
    COUNT,
    DURATION,
    FLOW_RATE,
    SHARE_OR_ZERO,
    SIZE,
    TOKENS,
    Choice,
    Number,
    Text,
)
from prfaas_opt.io.spec import Context, Field, ListOf, Record
from prfaas_opt.terms import Admission, Route, Service, Transfer, TtftSlo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prfaas_opt.io.document import FieldPath

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def _ttft(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
    slos = tuple(TtftSlo(_QUANTILES[key], limit_s) for key, limit_s in values.items() if limit_s is not None)
    if not slos:
        message = f"is empty, expected one of {', '.join(_QUANTILES)}"
        return context.add(path, "missing-key", message, "write {p90: 7s}, or leave ttft out")
    for slo in slos:
        if slo.limit_s == 0:
            message = "found 0, expected a positive duration"
            return context.add((*path, slo.name.lower()), "out-of-range", message, 'write it as "7s"')
    return slos


TTFT = Record(
    {key: Field(DURATION, f"{key.upper()} of the time to first token", None) for key in _QUANTILES},
    _ttft,
    "a mapping from percentiles to durations, {p90: 7s}",
)

ARRIVALS = Record(
    {
        "cv2": Field(
            Number("a number from 0 to 1000", minimum=0, maximum=1000),
            "squared coefficient of variation of the time between arrivals: 0 evenly spaced, 1 Poisson, more: bursts",
            1.0,
        )
    }
)

TRANSFER = Record(
    {
        "bytes": Field(
            Choice(("missing_at_destination", "full_prompt")),
            "what is sent: KVCache of the uncached tokens, or of the whole prompt; states of fixed size are always",
            "missing_at_destination",
        ),
        "overlap": Field(
            Choice(("layer", "chunk", "none")),
            "what hides a transfer: the prefill of later layers, that of later chunks, nothing",
            "layer",
        ),
        "compression": Field(
            Number("a number from 1 to 100", minimum=1, maximum=100),
            "how many times smaller the growing part of the KVCache is sent; states of fixed size are not compressed",
            1.0,
        ),
        "chunk_tokens": Field(TOKENS, "prompt tokens of a chunk, for overlap: chunk", 8192),
    }
)

LOCAL_PREFILL = Choice(("dedicated", "on_decode"))

RESIDENCY = Record(
    {"stay_share": Field(SHARE_OR_ZERO, "share of the requests that may not leave the pd cluster, of any length")}
)

ADMISSION_FIELDS = {
    "max_context": Field(TOKENS, "longest prompt and output together that its instances take", None),
    "kv_format": Field(Text(), "format of its KVCache; offloading needs the same at both ends", None),
    "nic": Field(FLOW_RATE, "rate of one instance's network to the links", None),
}

ROUTE_FIELDS = {
    "rtt": Field(DURATION, "round-trip time", 0.0),
    "flows": Field(COUNT, "connections in parallel; default: not counted", None),
    "flow_cap": Field(FLOW_RATE, "what one flow carries at most", None),
    "window": Field(SIZE, "what one flow may have in flight; it carries a window a round trip", None),
    "request_flows": Field(COUNT, "flows that one request's transfer uses; default: all", None),
    "request_cap": Field(FLOW_RATE, "what one request's transfer takes at most", None),
}


class MeasuredBandwidth(Struct, frozen=True):
    """A percentile of measured rates, bytes/s."""

    bytes_per_s: float
    percentile: float


def _measured(_context: Context, _path: FieldPath, values: dict[str, Any]) -> MeasuredBandwidth:
    rates = sorted(values["measured"])
    percentile = values["percentile"]
    return MeasuredBandwidth(rates[int(percentile * (len(rates) - 1) / 100)], percentile)


MEASURED = Record(
    {
        "measured": Field(ListOf(BANDWIDTH), "rates that were measured, each with its unit"),
        "percentile": Field(
            Number("a number from 0 to 100", minimum=0, maximum=100),
            "percentile of them to plan with: at 5, 95 % of the measurements were at least as fast",
            5.0,
        ),
    },
    _measured,
    "a mapping with measured and percentile",
)


def admission_of(fields: Mapping[str, Any]) -> Admission:
    """What a cluster takes."""
    nic = fields["nic"]
    most = fields["max_context"]
    return Admission(None if most is None else int(most), fields["kv_format"], nic)


def route_of(fields: Mapping[str, Any]) -> Route:
    """What a link's packets meet."""
    return Route(
        rtt_s=fields["rtt"],
        flows=fields["flows"],
        flow_bytes_per_s=fields["flow_cap"],
        window_bytes=fields["window"],
        request_flows=fields["request_flows"],
        request_bytes_per_s=fields["request_cap"],
        measured_percentile=fields["bandwidth"].percentile
        if isinstance(fields["bandwidth"], MeasuredBandwidth)
        else None,
    )


def service_of(values: Mapping[str, Any], slo: Mapping[str, Any], data: Mapping[str, Any]) -> Service:
    """How requests come and are served.

    Args:
        values: the scenario's fields as they were read.
        slo: the objectives that hold for its traffic.
        data: the scenario as it was written, which tells what was stated and what assumed.
    """
    transfer = values["transfer"]
    given = {key for key in ("arrivals", "local_prefill", "residency") if key in data}
    given |= {f"transfer.{key}" for key in data.get("transfer") or ()}
    given |= {f"links.{key}" for link in data.get("links") or () for key in link if key in ROUTE_FIELDS}
    return Service(
        arrival_cv2=values["arrivals"]["cv2"],
        local_prefill=values["local_prefill"],
        ttft=slo["ttft"],
        transfer=Transfer(
            transfer["bytes"], transfer["overlap"], transfer["compression"], int(transfer["chunk_tokens"])
        ),
        stay_share=values["residency"]["stay_share"],
        given=frozenset(given),
    )
