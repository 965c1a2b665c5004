"""What a request costs by its uncached length, with what the workload and the transfer make of a profile's curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.profiles.curve import combined, larger_of

if TYPE_CHECKING:
    from prfaas_opt.profiles.cached import CachedPrefill
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.model import Profile
    from prfaas_opt.terms import Transfer
    from prfaas_opt.workload.workload import Workload


class ServiceCurves(Struct, frozen=True):
    """A profile's curves as the requests of a workload meet them, by uncached length.

    Attributes:
        latency_s: from the start of prefill to its end.
        occupancy_s: what an instance is taken for.
        sent_bytes: what offloading sends.
    """

    latency_s: Curve
    occupancy_s: Curve
    sent_bytes: Curve


def service_curves(profile: Profile, workload: Workload, transfer: Transfer) -> ServiceCurves:
    """The curves of a profile for a workload whose prompts have a cached part, and for what is sent of them.

    Prefill with a cached prefix c of a prompt l takes what the profile measured of such prompts or, where it has no
    table of them, ``max(T(u), T(l) - T(c) + T(0+))``, with u = l - c (DESIGN 2.1). The curve of a table ends where the
    table does: the rule does not go on from measurements that it need not agree with. What is sent is the KVCache of u
    or of l; its growing part may be compressed, states of fixed size are not.
    """
    latency_s = _with_prefix(profile.prefill_s, profile.cached_prefill_s, workload)
    same = profile.occupancy_s is profile.prefill_s
    occupancy_s = latency_s if same else _with_prefix(profile.occupancy_s, profile.cached_occupancy_s, workload)
    return ServiceCurves(latency_s, occupancy_s, _sent(profile.kv_bytes, workload, transfer))


def uses_cached_table(profile: Profile, workload: Workload) -> bool:
    """Whether prefill of a workload is by a profile's table of prompts with a cached prefix."""
    return profile.cached_prefill_s is not None and workload.cached_share > 0


def _with_prefix(prefill_s: Curve, measured: CachedPrefill | None, workload: Workload) -> Curve:
    if workload.cached_share == 0:
        return prefill_s
    if measured is not None:
        return measured.along(prefill_s, workload.prompt_per_uncached * workload.cached_share)
    whole = prefill_s.stretched(workload.prompt_per_uncached)
    prefix = prefill_s.stretched(workload.prompt_per_uncached * workload.cached_share)
    return larger_of(prefill_s, combined([(1.0, whole), (-1.0, prefix)], prefill_s.at_zero))


def _sent(kv_bytes: Curve, workload: Workload, transfer: Transfer) -> Curve:
    sent = kv_bytes
    if transfer.sent == "full_prompt" and workload.cached_share > 0:
        sent = kv_bytes.stretched(workload.prompt_per_uncached)
    if transfer.compression == 1:
        return sent
    ratio = 1.0 / transfer.compression
    return combined([(ratio, sent)], (1.0 - ratio) * max(kv_bytes.at_zero, 0.0))
