"""From decisions to figures, many at once: the equations on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prfaas_opt.throughput.equations import pd_prefill_throughput, prfaas_throughput

if TYPE_CHECKING:
    from prfaas_opt.planning.batch.decisions import Found
    from prfaas_opt.planning.batch.group import Group
    from prfaas_opt.planning.batch.tables import Floats, Ints, LoadTables
    from prfaas_opt.planning.batch.thresholds import Capacities


class Rates(NamedTuple):
    """What the equations give, an entry a scenario; nan where a class is empty, as None in ``evaluate.Rates``."""

    offload_share: Floats
    remote_s: Floats
    sent_bytes: Floats
    local_s: Floats
    theta_prfaas: Floats
    theta_pd_prefill: Floats
    theta_pd_decode: Floats
    throughput_rps: Floats


class Figures(NamedTuple):
    """All figures of the decisions, an entry a scenario.

    Attributes:
        threshold_tokens: longest length kept.
        near_tokens: shortest and longest threshold within 1 % of the throughput.
        rates: under expected-time.
        mean_length_rps: throughput under mean-length.
        ttft_mean_s, ttft_p90_s: prefill time.
        homogeneous_rps, naive_rps: what the baselines serve; nan where there is none.
    """

    threshold_tokens: Ints
    near_tokens: tuple[Ints, Ints]
    rates: Rates
    mean_length_rps: Floats
    ttft_mean_s: Floats
    ttft_p90_s: Floats
    homogeneous_rps: Floats
    naive_rps: Floats


def figures(group: Group, given: Capacities, found: Found, baseline: tuple[Ints, Floats]) -> Figures:
    """The figures of decisions.

    Args:
        group: of the scenarios.
        given: what they differ in.
        found: their decisions.
        baseline: instances of the homogeneous cluster, and requests/s that one of them finishes.
    """
    tables = group.tables
    thresholds = found.threshold + tables.first
    if not tables.lengths.parts or tables.lengths.atoms:
        equivalent = {t: tables.lengths.shortest_equivalent(t) for t in set(thresholds.tolist())}
        thresholds = np.array([equivalent[t] for t in thresholds.tolist()], dtype=np.int64)
    else:
        thresholds = _equivalent(tables, thresholds)
    with np.errstate(divide="ignore", invalid="ignore"):
        above, kept = tables.shares(thresholds)
        rates = _rates(tables, given, found.split, thresholds, (above, kept))
        mean_length_rps = _mean_length(tables, given, found.split, thresholds, rates, (above, kept))
        homogeneous_rps = _homogeneous(group.baseline_local_s, given.pd_ceiling, baseline)
    naive_rps = np.minimum(
        np.minimum(given.remote / tables.remote_total_s, given.egress_bytes_per_s / tables.sent_total_bytes),
        given.decode_limit_rps(np.zeros_like(found.split)),
    )
    return Figures(
        thresholds,
        (found.near[0] + tables.first, found.near[1] + tables.first),
        rates,
        mean_length_rps,
        group.prefill_times.means_s(thresholds),
        group.prefill_times.p90s_s(thresholds),
        homogeneous_rps,
        naive_rps,
    )


def _equivalent(tables: LoadTables, thresholds: Ints) -> Ints:
    """The shortest thresholds that split the requests alike, where all lengths between some have a density."""
    return np.where(thresholds <= tables.low, tables.first, thresholds)


def _rates(
    tables: LoadTables, given: Capacities, split: Ints, thresholds: Ints, shares: tuple[Floats, Floats]
) -> Rates:
    """Equations 3 to 6 under expected-time, classes as ``evaluate.class_means`` takes them."""
    index = np.clip(thresholds - tables.first, 0, len(tables.local_s) - 1)
    above, kept = shares
    remote_total, sent_total, local_total = tables.remote_s[index], tables.sent_bytes[index], tables.local_s[index]
    offloads, keeps = (remote_total > 0) & (above > 0), (local_total > 0) & (kept > 0)
    share = np.where(keeps, np.where(offloads, above, 0.0), 1.0)
    remote_s, sent_bytes = (
        np.where(offloads, remote_total / above, np.nan),
        np.where(offloads, sent_total / above, np.nan),
    )
    local_s = np.where(keeps, local_total / kept, np.nan)
    return _through(given, split, share, remote_s, sent_bytes, local_s)


def _mean_length(
    tables: LoadTables, given: Capacities, split: Ints, thresholds: Ints, rates: Rates, shares: tuple[Floats, Floats]
) -> Floats:
    """The throughput under mean-length of the same decisions."""
    long, short = tables.mean_lengths(thresholds, *shares)
    offloads, keeps = ~np.isnan(rates.remote_s), ~np.isnan(rates.local_s)
    long, short = np.where(offloads, long, tables.high), np.where(keeps, short, tables.low)
    remote_s, sent_bytes = tables.remote.prefill_s(long), tables.remote.kv_bytes(long)
    local_s = tables.local_prefill_s(short)
    nan = np.nan
    means = (
        np.where(offloads, remote_s, nan),
        np.where(offloads, sent_bytes, nan),
        np.where(keeps, local_s, nan),
    )
    return _through(given, split, rates.offload_share, *means).throughput_rps


def _through(
    given: Capacities, split: Ints, share: Floats, remote_s: Floats, sent_bytes: Floats, local_s: Floats
) -> Rates:
    theta_prfaas = prfaas_throughput(given.remote, remote_s, given.egress_bytes_per_s, sent_bytes)
    theta_pd_prefill = pd_prefill_throughput(given.pd_ceiling * split, local_s)
    decode = given.decode_limit_rps(split)
    by_remote = np.where(share > 0, np.nan_to_num(theta_prfaas, nan=0.0) / share, np.inf)
    by_local = np.where(share < 1, np.nan_to_num(theta_pd_prefill, nan=0.0) / (1 - share), np.inf)
    throughput = np.minimum(np.minimum(by_remote, by_local), decode)
    return Rates(share, remote_s, sent_bytes, local_s, theta_prfaas, theta_pd_prefill, decode, throughput)


def _homogeneous(local_s: float | None, pd_ceiling: Floats, baseline: tuple[Ints, Floats]) -> Floats:
    """What the best split of a cluster that does all itself serves: prefill rises, decode falls with its split."""
    instances, decode_rps = baseline
    if local_s is None:
        return np.full(len(instances), np.nan)
    meeting = instances * decode_rps * local_s / (1.0 + decode_rps * local_s)
    served = np.zeros(len(instances))
    for split in (np.floor(meeting), np.ceil(meeting)):
        inside = np.clip(split, 1, instances - 1)
        prefill, decode = pd_ceiling * inside / local_s, decode_rps * pd_ceiling * (instances - inside)
        served = np.maximum(served, np.minimum(prefill, decode))
    return np.where(instances > 1, served, np.nan)
