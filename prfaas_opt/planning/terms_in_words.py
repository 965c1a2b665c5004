"""The terms of a scenario that go beyond the paper's model, in words, and which of them were stated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt import results, units
from prfaas_opt.planning.build import profile_of
from prfaas_opt.planning.curves import uses_cached_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prfaas_opt.scenario import Scenario
    from prfaas_opt.terms import Route

_SENT = {"missing_at_destination": "only missing KVCache is sent", "full_prompt": "KVCache of whole prompts is sent"}
_LOCAL = {"dedicated": "local prefill on its own instances", "on_decode": "local prefill on the decode instances"}


def terms_in_words(scenario: Scenario) -> tuple[results.Term, ...]:
    """Every term with its value, and whether it was given or assumed."""
    return tuple(results.Term(name, value, "given" if given else "assumed") for name, value, given in _terms(scenario))


def _terms(scenario: Scenario) -> Iterator[tuple[str, str, bool]]:
    service, pd = scenario.service, scenario.pd
    given, transfer, profile = service.given, service.transfer, profile_of(scenario, pd)
    poisson = service.arrival_cv2 == 1
    yield "arrivals", "Poisson arrivals" if poisson else f"arrivals of cv2 {service.arrival_cv2:g}", "arrivals" in given
    yield "local prefill", _LOCAL[service.local_prefill], "local_prefill" in given
    cached = scenario.workload.cached_share
    yield (
        "cached prefix",
        f"{units.format_share(cached)} of prompts cached{_tables(scenario)}" if cached else "no cached prefix",
        cached > 0,
    )
    if scenario.remote is not None and scenario.link is not None:
        overlap = {
            "layer": "transfers hide behind later layers",
            "chunk": f"transfers hide behind later chunks of {transfer.chunk_tokens:,} tokens",
            "none": "transfers follow prefill",
        }
        compressed = (
            f"growing KVCache compressed {transfer.compression:g}x" if transfer.compression > 1 else "no compression"
        )
        yield "what is sent", _SENT[transfer.sent], "transfer.bytes" in given
        yield "transfer", overlap[transfer.overlap], "transfer.overlap" in given
        yield "compression", compressed, "transfer.compression" in given
        route = scenario.link.route
        yield (
            "round trip",
            f"round trip {units.format_ms(route.rtt_s)}" if route.rtt_s else "no round trip",
            "links.rtt" in given,
        )
        if route.measured_percentile is not None:
            yield "bandwidth", f"bandwidth at P{route.measured_percentile:g} of what was measured", True
        flows = _flows(route)
        yield "flows", flows or "flows unlimited", bool(flows)
        nics = [each for each in (scenario.remote, pd) if each.admission.nic_bytes_per_s is not None]
        words = [
            f"{each.name} {units.format_gbps(units.to_gbps(each.admission.nic_bytes_per_s or 0))}" for each in nics
        ]
        yield "network of an instance", "NICs " + (" and ".join(words) or "unlimited"), bool(nics)
        formats = [each.admission.kv_format for each in (scenario.remote, pd) if each.admission.kv_format]
        yield (
            "KVCache format",
            "KVCache format " + " and ".join(formats) if formats else "same KVCache format",
            bool(formats),
        )
        price = scenario.link.price_per_gb
        yield "price per GB", "no price per GB" if price is None else f"{price:g} USD per GB", price is not None
        stay = service.stay_share
        yield (
            "residency",
            f"{units.format_share(stay)} must stay" if stay else "every request may leave",
            "residency" in given,
        )
    contexts = [each for each in (scenario.remote, pd) if each and each.admission.max_context_tokens is not None]
    words = [f"{each.name} {units.format_tokens(each.admission.max_context_tokens or 0)}" for each in contexts]
    yield "longest context", "contexts up to " + " and ".join(words) if contexts else "any context", bool(contexts)
    occupied = [p for p in (profile_of(scenario, c) for c in (scenario.remote, pd) if c) if p.stated_occupancy_s]
    yield (
        "occupancy",
        "occupancy of " + " and ".join(p.hardware for p in occupied) if occupied else "occupancy equal to latency",
        bool(occupied),
    )
    yield (
        "memory of decode",
        "decode within memory" if profile.memory else "memory unlimited",
        profile.memory is not None,
    )
    accepted = profile.decode.accepted_tokens if profile.decode else 1.0
    yield "tokens per decode step", f"{accepted:g} token{'s' if accepted > 1 else ''} a decode step", accepted > 1


def _tables(scenario: Scenario) -> str:
    """Whose prefill with a cached prefix is by a table, and of what kind its figures are."""
    profiles = dict.fromkeys(profile_of(scenario, c).hardware for c in (scenario.remote, scenario.pd) if c)
    tables = [
        f"{hardware} {profile.provenance['prefill_cached'].kind}"
        for hardware in profiles
        if (profile := scenario.model.profile(hardware)) and uses_cached_table(profile, scenario.workload)
    ]
    return f" (prefill by table: {' and '.join(tables)})" if tables else ""


def _flows(route: Route) -> str:
    """The limits of a link besides its bandwidth."""
    words = [f"{route.flows} flows"] if route.flows else []
    if route.flow_bytes_per_s is not None:
        words.append(f"{units.format_gbps(units.to_gbps(route.flow_bytes_per_s))} each")
    if route.window_bytes is not None:
        words.append(f"windows of {units.format_size(route.window_bytes)}")
    if route.request_flows is not None:
        words.append(f"{route.request_flows} a request")
    if route.request_bytes_per_s is not None:
        words.append(f"{units.format_gbps(units.to_gbps(route.request_bytes_per_s))} a request")
    return ", ".join(words)
