"""A plan as text: the verdict in words first, then the figures, then how sure they are."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from prfaas_opt.cli.output import new_table
from prfaas_opt.units import (
    format_gbps,
    format_ms,
    format_rps,
    format_share,
    format_some_share,
    format_tokens,
    round_tokens,
    to_gbps,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from prfaas_opt.results import Deviation, OperatingPoint, Plan, Pool, Stage, TtftAtLoad, WhatIf
    from prfaas_opt.scenario import Scenario


_SAME = 1e-9
_NOTICED = 0.0005
_MATERIAL = 0.001
_LONG_S = 10_000.0
_BAR = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PRICES = {
    "prfaas": "prfaas_instance_rps",
    "pd_prefill": "pd_prefill_instance_rps",
    "pd_decode": "pd_decode_instance_rps",
    "egress": "egress_rps_per_gbps",
}
_BASELINES = {"homogeneous-pd": "the homogeneous cluster", "naive-heterogeneous": "the naive split"}
_LARGER = {
    "slo": "a larger batch would miss the token rate",
    "memory": "a larger batch would not fit in memory",
    "profile": "no larger batch is known",
    "prefill": "a larger batch would leave prefill beside it less time",
}
_NOT_MODELLED = (
    "demand that varies over the day, requests that depend on each other, priorities, batching of prefill beyond a "
    "profile's occupancy, KVCache moved inside a cluster, start-up and recovery time"
)


def verdict(plan: Plan, scenario: Scenario) -> str:
    """What to deploy and what it gives, in one sentence."""
    kind = plan.routing.kind
    if kind == "threshold" and plan.threshold_tokens is not None:
        share = format_share(plan.offload_share)
        what = f"Offload requests longer than {_rounded(plan, plan.threshold_tokens)} tokens ({share})"
    elif kind == "bands":
        what = f"Offload requests of {_bands(plan, 'prfaas')} tokens ({format_share(plan.offload_share)})"
    else:
        every = "Offload every request" + (" that may leave" if plan.stay_share > 0 else "")
        what = every if kind == "all-remote" else "Offload nothing"
    what += f", {format_some_share(plan.unservable_share)} unservable" if plan.unservable_share > 0 else ""
    compared = plan.ratio is not None and (scenario.remote is not None or abs(plan.ratio - 1) > _SAME)
    ratio = f", {plan.ratio:.2f}x the homogeneous cluster" if compared else ""
    point = plan.operating_point
    if plan.objective == "throughput" or point is None:
        return f"{what}: capacity {format_rps(plan.throughput_rps)}{ratio}, limited by {_limits(plan, scenario)}"
    slos = " and ".join(f"TTFT {each.name} of {each.limit_s:g} s" for each in point.percentiles)
    return (
        f"{what}: {format_rps(plan.served_rps)} within a {slos}{ratio}; capacity {format_rps(plan.throughput_rps)}, "
        f"limited by {_limits(plan, scenario)}"
    )


def _rounded(plan: Plan, tokens: int) -> str:
    """A threshold in K where that is as good, else to the token."""
    low, high = plan.near_optimal_threshold_tokens or (tokens * 0.97, tokens * 1.03)
    return round_tokens(tokens, low, high)


def _bands(plan: Plan, pool: Pool) -> str:
    bands = [band for band in plan.routing.bands if band.pool == pool]
    return " and of ".join(f"{format_tokens(band.from_tokens)} to {format_tokens(band.to_tokens)}" for band in bands)


def _limits(plan: Plan, scenario: Scenario) -> str:
    """The stages that bind; of those that are full, the ones of which more would help, where that is known."""
    priced = {stage for stage, name in _PRICES.items() if _price(plan, name)}
    if scenario.service.local_prefill == "on_decode" and "pd_decode" in priced:
        priced.add("pd_prefill")
    narrowed = plan.link is not None and plan.link.limited_by != "bandwidth"
    if narrowed and "egress" in plan.bottlenecks:
        priced.add("egress")
    limits = set(plan.bottlenecks) & priced or set(plan.bottlenecks)
    words = []
    on_decode = scenario.service.local_prefill == "on_decode"
    if on_decode and "pd_prefill" in limits:
        words += [f"prefill in {scenario.remote.name}"] if "prfaas" in limits and scenario.remote else []
        words.append("the token rate beside prefill")
    elif {"prfaas", "pd_prefill"} <= limits:
        words.append("prefill in both clusters")
    elif "prfaas" in limits and scenario.remote:
        words.append(f"prefill in {scenario.remote.name}")
    elif "pd_prefill" in limits:
        words.append(f"prefill in {scenario.pd.name}")
    if "egress" in limits:
        words.append(f"the link ({plan.link.limited_by})" if narrowed and plan.link else "the link")
    if "pd_decode" in limits:
        words.append("decode")
    return " and ".join(words) or "what one token length more or less would move"


def print_plan(out: Console, plan: Plan, scenario: Scenario) -> None:
    """The whole answer of ``plan``, at 80 columns."""
    out.print(verdict(plan, scenario), style="bold", soft_wrap=True)
    for line in _beside_the_verdict(plan, scenario):
        out.print(line)
    out.print(_resources(plan, scenario))
    if plan.link is not None and plan.link.limited_by != "bandwidth" and scenario.link is not None:
        nominal = format_gbps(to_gbps(scenario.link.bandwidth_bytes_per_s))
        out.print(
            f"The link carries {format_gbps(plan.link.gbps)} of {nominal}, limited by {plan.link.limited_by}: more "
            "bandwidth gives nothing."
        )
    if plan.ttft_by_load:
        out.print(_ttft_table(plan))
    if plan.operating_point is not None:
        for line in _why(plan, plan.operating_point):
            out.print(line)
    out.print(_failures_table(plan))
    if plan.sensitivity is not None:
        out.print(_sensitivity_table(plan, plan.sensitivity))
    for line in _facts(plan, scenario):
        out.print(line)


def _beside_the_verdict(plan: Plan, scenario: Scenario) -> list[str]:
    other = "mean-length" if plan.estimator == "expected-time" else "expected-time"
    rates = plan.throughput_rps_by_estimator
    other_rps = rates.mean_length if other == "mean-length" else rates.expected_time
    whose = "the paper's estimator" if other == "mean-length" else "mean service times"
    lines = [f"By {whose} ({other}) this deployment's capacity is {format_rps(other_rps)}."]
    beside = [
        f"{_BASELINES[each.name]} {format_rps(each.served_rps)} ({each.ratio:.2f}x"
        + (f", {each.cost_ratio:.2f}x per USD)" if each.cost_ratio else ")")
        for each in plan.baselines
    ]
    if plan.operating_point is not None and all(each.name != "homogeneous-pd" for each in plan.baselines):
        beside.append(f"{_BASELINES['homogeneous-pd']} holds this TTFT at no load")
    if beside and scenario.remote is not None:
        lines.append(f"Baselines: {', '.join(beside)}.")
    if plan.robust is not None:
        robust, split = plan.robust, plan.robust.nominal_instances
        lines.append(
            f"With latencies up and bandwidth down by {format_share(robust.off_by_share)} it serves "
            f"{format_rps(robust.worst_rps)}, the best worst case. The plan that is best by the figures "
            f"({split.pd_prefill}/{split.pd_decode}, {format_rps(robust.nominal_rps)}) would serve "
            f"{format_rps(robust.nominal_worst_rps)} there."
        )
    return lines


def _resources(plan: Plan, scenario: Scenario) -> Table:
    title = "What is in use, and what one more adds (req/s)"
    table = new_table("Resource", "Count", "In use", "", "+1, new split", "+1, roles kept", title=title)
    table.columns[0].no_wrap = True
    table.columns[2].justify = "left"
    point = plan.operating_point if plan.objective != "throughput" else None
    used, counts = point.utilization if point else plan.utilization, plan.instances
    remote, link, pd = scenario.remote, scenario.link, scenario.pd
    alike = remote is not None and remote.hardware.casefold() == pd.hardware.casefold()
    if remote is not None:
        name = f"{remote.hardware} prefill" + (f" ({remote.name})" if alike else "")
        table.add_row(name, str(counts.prfaas), *_used(used.prfaas), *_gains(plan, remote.name, "prfaas"))
    on_decode = scenario.service.local_prefill == "on_decode"
    if not on_decode:
        name = f"{pd.hardware} prefill" + (f" ({pd.name})" if alike else "")
        table.add_row(name, str(counts.pd_prefill), *_used(used.pd_prefill), *_gains(plan, pd.name, "pd_prefill"))
    name = f"{pd.hardware} decode" + ("+prefill" if on_decode else "")
    table.add_row(name, str(counts.pd_decode), *_used(used.pd_decode), *_gains(plan, pd.name, "pd_decode"))
    if on_decode:
        table.add_row(
            "  of it prefill",
            f"max {format_share(plan.decode.prefill_most_share or 0.0)}",
            *_used(used.pd_prefill),
            "",
            "",
        )
    if link is not None:
        resource = f"{link.source} to {link.destination}"
        bandwidth = format_gbps(to_gbps(link.bandwidth_bytes_per_s))
        share = used.egress
        if plan.link is not None and share is not None and plan.link.gbps > 0:
            bandwidth = format_gbps(plan.link.gbps)
            share *= to_gbps(link.bandwidth_bytes_per_s) / plan.link.gbps
        table.add_row("link, +10 %", bandwidth, *_used(share), *_gains(plan, resource, "egress"))
    return table


def _used(share: float | None) -> tuple[str, str]:
    """A bar, and the share in figures."""
    if share is None:
        return "", "-"
    eighths = round(min(share, 1.0) * _BAR * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else ""), format_share(share)


def _gains(plan: Plan, resource: str, stage: Stage) -> tuple[str, str]:
    """What one more gives with the roles split anew, and with roles as they are."""
    what_if = next((each for each in plan.what_ifs if each.resource == resource), None)
    if what_if is None:
        return "-", "-"
    return _gain(plan, what_if.gain_rps), _gain(plan, what_if.fixed_roles_gain_rps.get(stage))


def _gain(plan: Plan, rps: float | None) -> str:
    if rps is None:
        return "-"
    return f"+{format_rps(rps).removesuffix(' req/s')}" if rps >= _NOTICED * plan.served_rps else "0"


def _ttft_table(plan: Plan) -> Table:
    title = "Time to first token, queues and transfers included (s)"
    table = new_table("Load", "Rate", "P50", "P90", "P99", "Wait remote / local", title=title)
    rows = [(f"{round(100 * each.load_share)} % of capacity", each) for each in plan.ttft_by_load]
    if plan.operating_point is not None:
        here = plan.operating_point.ttft
        rows = [(f"SLO: {format_share(here.load_share)}", here), *rows]
    for name, each in rows:
        percentiles = (_seconds(seconds) for seconds in (each.p50_s, each.p90_s, each.p99_s))
        table.add_row(name, format_rps(each.rate_rps), *percentiles, _waits(each))
    return table


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < _LONG_S else f"{seconds:.2g}"


def _waits(each: TtftAtLoad) -> str:
    waits = (each.mean_waits.prfaas_s, each.mean_waits.pd_prefill_s)
    return " / ".join("-" if wait is None else _seconds(wait) for wait in waits)


def _why(plan: Plan, point: OperatingPoint) -> list[str]:
    """Why the deployment of largest capacity is another."""
    other, here = point.largest_capacity, plan.instances
    if plan.objective != "goodput" or other.rate_rps >= plan.served_rps * (1 - _NOTICED):
        return []
    choice = [f"threshold {format_tokens(other.threshold_tokens)}"] if other.threshold_tokens is not None else []
    if other.instances != here:
        choice = [f"split {other.instances.pd_prefill}/{other.instances.pd_decode}", *choice]
    line = (
        f"The largest capacity ({', '.join(choice) or 'another routing'}: {format_rps(other.capacity_rps)}, "
        f"{format_share(other.capacity_rps / plan.throughput_rps - 1, signed=True)}) serves only "
        f"{format_rps(other.rate_rps)} within this TTFT"
    )
    waits, now = other.mean_waits, point.ttft.mean_waits
    if waits is None:
        return [f"{line}: at the rate planned here one of its queues has no end."]
    longer = [
        f"{name} {theirs:.2f} s instead of {ours:.2f} s"
        for name, theirs, ours in (
            ("remote prefill", waits.prfaas_s, now.prfaas_s),
            ("local prefill", waits.pd_prefill_s, now.pd_prefill_s),
        )
        if theirs is not None and ours is not None and theirs > ours
    ]
    why = f": its queues are longer (mean wait here: {', '.join(longer)})" if longer else ""
    return [f"{line}{why}."]


def _failures_table(plan: Plan) -> Table:
    table = new_table("Lost", "Roles kept", "Served", "New split", "Served", title="Failures, threshold chosen anew")
    for each in plan.failures:
        split = each.resplit_instances
        anew = format_rps(each.resplit_rps)
        if split is not None and each.resplit_rps > each.fixed_roles_rps * (1 + _NOTICED):
            anew = f"{split.pd_prefill}/{split.pd_decode}: {anew}"
        kept, resplit = map(format_share, (each.fixed_roles_served_share, each.resplit_served_share))
        table.add_row(each.lost, format_rps(each.fixed_roles_rps), kept, anew, resplit)
    return table


def _price(plan: Plan, name: str) -> float | None:
    return getattr(plan.shadow_prices, name, None)


def _facts(plan: Plan, scenario: Scenario) -> list[str]:
    facts = []
    if plan.near_optimal_threshold_tokens and plan.threshold_tokens is not None:
        low, high = map(format_tokens, plan.near_optimal_threshold_tokens)
        exact = format_tokens(plan.threshold_tokens)
        facts.append(f"Threshold {exact}; any from {low} to {high} tokens is within 1 % of this throughput.")
    elif plan.threshold_tokens is not None:
        facts.append(f"Threshold {format_tokens(plan.threshold_tokens)} tokens.")
    decode = plan.decode
    facts.append(
        f"Decode: {decode.batch} requests an instance, {format_ms(decode.step_s)} a step; {_LARGER[decode.limited_by]}."
    )
    facts += _shares(plan) + _cost(plan)
    gains = [
        f"{_change(each)}: +{format_rps(each.gain_rps)} "
        f"(+{format_share(each.gain_share)}{per_cost(each.gain_rps_per_usd_hour)})"
        for each in plan.what_ifs
        if each.gain_share >= _NOTICED and (each.gain_rps_per_usd_hour or each.resource.startswith("slo."))
    ]
    facts += [f"Planned anew with {'; with '.join(gains)}."] if gains else []
    facts.append(_proof(plan))
    if plan.solver_check is not None:
        check = plan.solver_check
        facts.append(
            f"{check.solver} solves the mixed-integer program to {check.throughput_rps:.6f} req/s, "
            f"{abs(check.relative_difference):.1e} from that bound."
        )
    facts.append(_sources(plan, scenario))
    for source in ("given", "assumed"):
        values = [term.value for term in plan.terms if term.source == source]
        facts += [f"{source.capitalize()}: {', '.join(values)}."] if values else []
    facts.append(f"Not modelled: {_NOT_MODELLED}.")
    return facts


def _shares(plan: Plan) -> list[str]:
    """Requests without a choice, and those that nothing can take."""
    lines = []
    if plan.stay_share > 0:
        lines.append(f"{format_some_share(plan.stay_share)} of requests must prefill locally whatever their length.")
    if plan.unservable_share > 0:
        lines.append(
            f"{format_some_share(plan.unservable_share)} of requests fit no cluster: unservable, and not counted."
        )
    return lines


def _cost(plan: Plan) -> list[str]:
    cost = plan.cost
    if cost is None:
        return []
    ratio = f", {cost.ratio:.2f}x the homogeneous cluster" if cost.ratio else ""
    lines = [
        f"Cost: {cost.usd_per_hour:,.2f} USD/h, {cost.usd_per_thousand_requests:,.4g} USD per thousand requests "
        f"({cost.requests_per_usd:,.0f} requests per USD{ratio})."
    ]
    if plan.operating_point is not None or plan.estimator == "mean-length":
        return lines
    if cost.least_usd_per_thousand_requests is not None:
        lines.append(
            f"No counts, split or routing cost less than {cost.least_usd_per_thousand_requests:,.4g} USD per thousand."
        )
    if cost.break_even_usd_per_gb is not None:
        lines.append(f"Remote prefill pays up to {cost.break_even_usd_per_gb:.4g} USD per GB sent.")
    else:
        lines.append("Remote prefill does not pay, at whatever price per GB.")
    return lines


def _proof(plan: Plan) -> str:
    above = "" if plan.bound_rps is None else f"; capacity cannot exceed {plan.bound_rps:.6f} req/s"
    if plan.objective == "goodput":
        best = "Best" if plan.robust is None else "Best worst case"
        return f"{best} of all splits and of the thresholds searched (not proven){above}."
    if plan.objective == "cost":
        return f"Cheapest of all counts, splits and thresholds{above} with these counts."
    if plan.robust is not None:
        return f"Best worst case of all splits and thresholds{above}."
    if plan.bound_rps is None or plan.gap_share is None or plan.tie_loss_share is None:
        return (
            "Best of all thresholds and splits; the mean-length estimator allows no proof against other routings "
            "(expected-time does)."
        )
    bound = f"no routing by length and no split exceeds {plan.bound_rps:.6f} req/s"
    gain = plan.bound_rps / plan.throughput_rps - 1
    at_most = f"at most {format_share(gain)}" if gain >= _MATERIAL else f"less than {format_share(_MATERIAL)}"
    if plan.status == "optimal" and plan.tie_loss_share <= _MATERIAL:
        return f"Proven optimal for this model and these profiles: {bound} (gap {plan.gap_share:.1e}{_tie(plan)})."
    if plan.status == "optimal":
        return (
            "No threshold and no split does better. To share the requests of the one length at the threshold between "
            f"the pools, or bands of length, could gain {at_most}: {bound}. "
            "Shadow prices are those of the shared optimum."
        )
    if plan.routing.kind == "bands":
        return f"Bands that are better than any threshold; {bound}: other routings could gain {at_most}."
    return f"Best of all thresholds and splits; {bound}: routing by more than one threshold could gain {at_most}."


def _tie(plan: Plan) -> str:
    return ", from the one token length at the threshold" if (plan.tie_loss_share or 0) > 1e-9 else ""


def per_cost(per_usd: float | None) -> str:
    """What a dollar an hour more gives, to follow a gain; empty without a price."""
    return f", {format_rps(per_usd)} for 1 USD/h" if per_usd else ""


def _change(what_if: WhatIf) -> str:
    more = "" if what_if.resource.startswith("slo.") else " more"
    return f"{what_if.more}{more} ({what_if.resource})"


def _sensitivity_table(plan: Plan, deviations: tuple[Deviation, ...]) -> Table:
    title = "A figure off: as deployed / planned anew (new split)"
    shares = sorted({abs(row.off_by_share) for row in deviations})
    table = new_table("Figure", "Lower", "Higher", title=title)
    table.columns[0].no_wrap = True
    for share in shares:
        for lower, higher in itertools.pairwise(row for row in deviations if abs(row.off_by_share) == share):
            if lower.figure == higher.figure:
                name = f"{lower.figure}, {share:.0%}".replace("%", " %")
                table.add_row(name, _deviation(plan, lower), _deviation(plan, higher))
    return table


def _deviation(plan: Plan, row: Deviation) -> str:
    if row.deployed_rps is None or row.replanned_rps is None or row.replanned_instances is None:
        return "outside a profile"
    kept, anew = (format_share(rps / plan.served_rps - 1, signed=True) for rps in (row.deployed_rps, row.replanned_rps))
    split = ""
    if row.split_changes and row.replanned_rps > row.deployed_rps * (1 + _NOTICED):
        split = f" ({row.replanned_instances.pd_prefill}/{row.replanned_instances.pd_decode})"
    return f"{kept} / {anew}{split}"


def off_by(share: float) -> str:
    """A signed share."""
    return f"{share:+.0%}".replace("%", " %")


def moved(rps: float, now_rps: float) -> str:
    """A throughput beside the present one."""
    return f"{rps:.2f} ({format_share(rps / now_rps - 1, signed=True)})"


def _sources(plan: Plan, scenario: Scenario) -> str:
    """Where the figures come from, in a word each."""
    parts = []
    for cluster in (scenario.remote, scenario.pd):
        if cluster is not None and cluster.name in plan.provenance:
            source = plan.provenance[cluster.name]
            kinds = [("prefill", source.prefill), ("KVCache", source.kv_cache), ("decode", source.decode)]
            words = ", ".join(f"{what} {kind.split(',')[0]}" for what, kind in kinds if kind)
            parts.append(f"{source.hardware} {words}")
    return f"Figures: {'; '.join(parts)} (sources: models show {scenario.model.name})."
