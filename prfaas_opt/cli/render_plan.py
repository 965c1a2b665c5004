"""A plan as text: the verdict in words first, then the figures, then how sure they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.cli.output import new_table
from prfaas_opt.units import format_gbps, format_rps, format_share, format_tokens, to_gbps

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from prfaas_opt.results import Deviation, Plan, Pool, WhatIf
    from prfaas_opt.scenario import Scenario


_SAME = 1e-9
_NOTICED = 0.0005
_MATERIAL = 0.001
_PRICES = {
    "prfaas": "prfaas_instance_rps",
    "pd_prefill": "pd_prefill_instance_rps",
    "pd_decode": "pd_decode_instance_rps",
    "egress": "egress_rps_per_gbps",
}


def verdict(plan: Plan, scenario: Scenario) -> str:
    """What to deploy and what it gives, in one sentence."""
    kind = plan.routing.kind
    if kind == "threshold" and plan.threshold_tokens is not None:
        share = format_share(plan.offload_share)
        what = f"Offload requests longer than {format_tokens(plan.threshold_tokens)} tokens ({share})"
    elif kind == "bands":
        what = f"Offload requests of {_bands(plan, 'prfaas')} tokens ({format_share(plan.offload_share)})"
    else:
        what = "Offload every request" if kind == "all-remote" else "Offload nothing"
    compared = plan.ratio is not None and (scenario.remote is not None or abs(plan.ratio - 1) > _SAME)
    ratio = f", {plan.ratio:.2f}x the homogeneous cluster" if compared else ""
    return f"{what}: {format_rps(plan.throughput_rps)}{ratio}, limited by {_limits(plan, scenario)}"


def _bands(plan: Plan, pool: Pool) -> str:
    bands = [band for band in plan.routing.bands if band.pool == pool]
    return " and of ".join(f"{format_tokens(band.from_tokens)} to {format_tokens(band.to_tokens)}" for band in bands)


def _limits(plan: Plan, scenario: Scenario) -> str:
    """The stages that bind; of those that are full, the ones of which more would help, where that is known."""
    priced = {stage for stage, name in _PRICES.items() if _price(plan, name)}
    limits = set(plan.bottlenecks) & priced or set(plan.bottlenecks)
    words = []
    if {"prfaas", "pd_prefill"} <= limits:
        words.append("prefill in both clusters")
    elif "prfaas" in limits and scenario.remote:
        words.append(f"prefill in {scenario.remote.name}")
    elif "pd_prefill" in limits:
        words.append(f"prefill in {scenario.pd.name}")
    if "egress" in limits:
        words.append("the link")
    if "pd_decode" in limits:
        words.append("decode")
    return " and ".join(words) or "what one token length more or less would move"


def print_plan(out: Console, plan: Plan, scenario: Scenario) -> None:
    """The whole answer of ``plan``, at 80 columns."""
    out.print(verdict(plan, scenario), style="bold", soft_wrap=True)
    other = "mean-length" if plan.estimator == "expected-time" else "expected-time"
    rates = plan.throughput_rps_by_estimator
    other_rps = rates.mean_length if other == "mean-length" else rates.expected_time
    whose = "the paper's estimator" if other == "mean-length" else "mean service times"
    out.print(f"By {whose} ({other}) this deployment gives {format_rps(other_rps)}.")
    out.print(_stage_table(plan, scenario))
    for line in _facts(plan, scenario):
        out.print(line)
    if plan.sensitivity is not None:
        out.print(_sensitivity_table(plan, plan.sensitivity))


def _stage_table(plan: Plan, scenario: Scenario) -> Table:
    table = new_table("Resource", "Count", "Carries", "In use", "Shadow price")
    used, stages, counts = plan.utilization, plan.stages_rps, plan.instances
    remote, link, pd = scenario.remote, scenario.link, scenario.pd
    if remote is not None:
        name, gain = f"{remote.hardware} prefill ({remote.name})", _price(plan, _PRICES["prfaas"])
        table.add_row(name, str(counts.prfaas), *_rate_cells(stages.prfaas, used.prfaas, gain))
    name, gain = f"{pd.hardware} prefill ({pd.name})", _price(plan, _PRICES["pd_prefill"])
    table.add_row(name, str(counts.pd_prefill), *_rate_cells(stages.pd_prefill, used.pd_prefill, gain))
    name, gain = f"{pd.hardware} decode ({pd.name})", _price(plan, _PRICES["pd_decode"])
    table.add_row(name, str(counts.pd_decode), *_rate_cells(stages.pd_decode, used.pd_decode, gain))
    if link is not None:
        gain = _price(plan, _PRICES["egress"])
        table.add_row(
            f"link {link.source} to {link.destination}",
            format_gbps(to_gbps(link.bandwidth_bytes_per_s)),
            format_gbps(plan.egress_gbps),
            format_share(used.egress) if used.egress is not None else "-",
            f"{format_rps(gain)} per Gbps" if gain else "-",
        )
    return table


def _price(plan: Plan, name: str) -> float | None:
    return getattr(plan.shadow_prices, name, None)


def _rate_cells(theta: float | None, used: float | None, gain: float | None) -> tuple[str, str, str]:
    return (
        format_rps(theta) if theta is not None else "-",
        format_share(used) if used is not None else "-",
        format_rps(gain) if gain else "-",
    )


def _facts(plan: Plan, scenario: Scenario) -> list[str]:
    facts = [f"TTFT without queueing: mean {plan.ttft_s.mean:.2f} s, P90 {plan.ttft_s.p90:.2f} s."]
    if plan.near_optimal_threshold_tokens:
        low, high = map(format_tokens, plan.near_optimal_threshold_tokens)
        facts.append(f"Any threshold from {low} to {high} tokens is within 1 % of this throughput.")
    if plan.cost is not None:
        ratio = f", {plan.cost.ratio:.2f}x the homogeneous cluster" if plan.cost.ratio else ""
        facts.append(
            f"Cost: {plan.cost.usd_per_hour:,.2f} USD/h, {plan.cost.requests_per_usd:,.0f} requests per USD{ratio}."
        )
    gains = [
        f"{_change(each)}: +{format_rps(each.gain_rps)} "
        f"(+{format_share(each.gain_share)}{per_cost(each.gain_rps_per_usd_hour)})"
        for each in plan.what_ifs
        if each.gain_share >= _NOTICED
    ]
    facts.append("Planned anew with " + "; with ".join(gains) + "." if gains else "No single addition helps.")
    facts.append(_proof(plan))
    if plan.solver_check is not None:
        check = plan.solver_check
        facts.append(
            f"{check.solver} solves the mixed-integer program to {check.throughput_rps:.6f} req/s, "
            f"{abs(check.relative_difference):.1e} from that bound."
        )
    facts += _sources(plan, scenario)
    return facts


def _proof(plan: Plan) -> str:
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
    title = f"Throughput where a figure is off (now {format_rps(plan.throughput_rps)})"
    table = new_table("Figure", "Off by", "As deployed", "Planned anew", "Split then", title=title)
    for row in deviations:
        cells = ["outside a profile", "-", "-"]
        if row.deployed_rps is not None and row.replanned_rps is not None and row.replanned_instances is not None:
            split = f"{row.replanned_instances.pd_prefill} / {row.replanned_instances.pd_decode}"
            cells = [
                moved(row.deployed_rps, plan.throughput_rps),
                moved(row.replanned_rps, plan.throughput_rps),
                split if row.split_changes else "same",
            ]
        table.add_row(row.figure, off_by(row.off_by_share), *cells)
    return table


def off_by(share: float) -> str:
    """A signed share."""
    return f"{share:+.0%}".replace("%", " %")


def moved(rps: float, now_rps: float) -> str:
    """A throughput beside the present one."""
    return f"{rps:.2f} ({format_share(rps / now_rps - 1, signed=True)})"


def _sources(plan: Plan, scenario: Scenario) -> list[str]:
    lines = []
    for cluster in (scenario.remote, scenario.pd):
        if cluster is None:
            continue
        source = plan.provenance[cluster.name]
        parts = [f"prefill {source.prefill}", f"KVCache {source.kv_cache}"]
        parts += [f"decode {source.decode}"] if source.decode else []
        lines.append(f"{source.hardware} figures: " + "; ".join(parts) + ".")
    return lines
