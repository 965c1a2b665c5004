"""Plans and sizes of fleets as text, at 80 columns: the verdict first, then who does what, then how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.cli.output import new_table
from prfaas_opt.cli.render_plan import moved, off_by, per_cost
from prfaas_opt.units import format_gbps, format_rps, format_share, format_some_share, format_tokens

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from prfaas_opt.fleet_results import FleetDeviation, FleetFailure, FleetPlan, Group, SizePoint, Sizing, StreamPlan

_NOTICED = 0.0005
_WHOLE = 0.9995
_PRICED_RPS = 1e-6
_A_CENT_USD = 0.005
_MOST_BANDS = 12
_CLOSE = 1e-5
_KINDS_OF_FAILURE = {"link": "a link", "instance": "an instance", "site": "a cluster"}
_STOPPED = {"time limit": "stopped at the time limit", "interrupted": "interrupted: the best so far"}


def print_fleet_plan(out: Console, plan: FleetPlan) -> None:
    """The whole answer of ``plan`` for a fleet."""
    out.print(_plan_verdict(plan), style="bold", soft_wrap=True)
    _print_tables(out, plan)
    if plan.what_ifs is not None:
        gains = [
            f"{each.more} more ({each.resource}): +{format_rps(each.gain_rps)} "
            f"(+{format_share(each.gain_share)}{per_cost(each.gain_rps_per_usd_hour)})"
            for each in plan.what_ifs
            if each.gain_share >= _NOTICED
        ]
        out.print("Planned anew with " + "; with ".join(gains) + "." if gains else "No single addition helps.")
    if plan.cost is not None and plan.cost.requests_per_usd is not None:
        out.print(f"Cost: {plan.cost.usd_per_hour:,.2f} USD/h, {plan.cost.requests_per_usd:,.0f} requests per USD.")
    out.print(_plan_proof(plan))
    _print_sources(out, plan)
    if plan.sensitivity is not None:
        out.print(_sensitivity_table(plan, plan.sensitivity))
    if plan.failures is not None:
        out.print(_failure_table(plan, plan.failures))
        _print_cut_off(out, plan.failures)


def print_sizing(out: Console, sizing: Sizing) -> None:
    """The whole answer of ``size``."""
    plan = sizing.plan
    gpus = sum(each.gpus for each in plan.gpus)
    gbps = sum(link.bandwidth_gbps for link in plan.links)
    links = f" and {format_gbps(gbps)} of links" if gbps > 0 else ""
    per_million = ""
    if sizing.usd_per_million_requests is not None:
        per_million = f", {sizing.usd_per_million_requests:,.2f} USD per million requests"
    out.print(
        f"{gpus:,} GPUs{links} for {sizing.usd_per_hour:,.2f} USD/h serve {format_rps(sizing.demand_rps)}{per_million}",
        style="bold",
        soft_wrap=True,
    )
    out.print(_gpu_table(plan))
    _print_tables(out, plan)
    if sizing.failures is not None:
        out.print(_survived_table(sizing.failures))
        out.print(_survival(sizing))
    out.print(_sizing_proof(sizing))
    _print_sources(out, plan)
    if sizing.curve is not None:
        out.print(_curve_table(sizing.curve))


def _plan_verdict(plan: FleetPlan) -> str:
    streams = f"{len(plan.streams)} streams" if len(plan.streams) > 1 else plan.streams[0].name
    limits = ", ".join(plan.bottlenecks[:2]) or "what one token length more or less would move"
    more = f" and {len(plan.bottlenecks) - 2} more" if len(plan.bottlenecks) > 2 else ""
    share = format_share(plan.offload_share)
    return f"{streams}: {format_rps(plan.throughput_rps)}, {share} offloaded, limited by {limits}{more}"


def _print_tables(out: Console, plan: FleetPlan) -> None:
    if len(plan.streams) > 1:
        out.print(_stream_table(plan))
    for stream in plan.streams:
        out.print(_band_table(stream))
    out.print(_group_table(plan))
    if plan.links:
        out.print(_link_table(plan))


def _stream_table(plan: FleetPlan) -> Table:
    table = new_table("Stream", "Serves", "Offloaded", "TTFT mean", "TTFT P90")
    for stream in plan.streams:
        table.add_row(
            stream.name,
            format_rps(stream.rate_rps),
            format_share(stream.offload_share),
            f"{stream.ttft_s.mean:.2f} s",
            f"{stream.ttft_s.p90:.2f} s",
        )
    return table


def _band_table(stream: StreamPlan) -> Table:
    table = new_table("Tokens", "Prefill", "Decode", "Share", left=3, title=f"Routing of {stream.name}")
    for band in stream.bands[:_MOST_BANDS]:
        tokens = f"{format_tokens(band.from_tokens)} to {format_tokens(band.to_tokens)}"
        for way in band.ways:
            share = "all" if way.share >= _WHOLE else format_some_share(way.share, "< ")
            table.add_row(tokens, f"{way.hardware} in {way.from_}", way.to, share)
            tokens = ""
    if len(stream.bands) > _MOST_BANDS:
        table.add_row(f"and {len(stream.bands) - _MOST_BANDS} bands more (--json)", "", "", "")
    return table


def _group_table(plan: FleetPlan) -> Table:
    priced = plan.bound_rps is not None
    headings = ["Cluster", "Hardware", "Model", "Role", "Count", "In use", *(["One more"] if priced else [])]
    table = new_table(*headings, left=4)
    last = ("", "")
    for group in sorted(plan.groups, key=lambda each: (each.cluster, each.hardware, each.model, each.role)):
        if not group.instances and not group.instance_rps:
            continue
        place = (group.cluster, group.hardware)
        cells = place if place != last else ("", "")
        last = place
        table.add_row(*cells, group.model, group.role, str(group.instances), *_group_cells(group)[: 2 if priced else 1])
    return table


def _group_cells(group: Group) -> tuple[str, str]:
    used = "-" if group.utilization is None else format_share(group.utilization)
    worth = group.instance_rps
    return used, format_rps(worth) if worth and worth >= _PRICED_RPS else "-"


def _link_table(plan: FleetPlan) -> Table:
    priced = plan.bound_rps is not None
    table = new_table("Link", "Bandwidth", "Carries", "In use", *(["One Gbps more"] if priced else []))
    for link in plan.links:
        worth = link.egress_rps_per_gbps
        cells = [
            f"{link.from_} to {link.to}",
            format_gbps(link.bandwidth_gbps),
            format_gbps(link.egress_gbps),
            "-" if link.utilization is None else format_share(link.utilization),
        ]
        if priced:
            cells.append(format_rps(worth) if worth and worth >= _PRICED_RPS else "-")
        if link.bandwidth_gbps > 0:
            table.add_row(*cells)
    return table


def _gpu_table(plan: FleetPlan) -> Table:
    table = new_table("Cluster", "Hardware", "GPUs", "USD/h", left=2)
    for each in plan.gpus:
        if each.gpus:
            usd = "-" if each.usd_per_hour is None else f"{each.usd_per_hour:,.2f}"
            table.add_row(each.cluster, each.hardware, f"{each.gpus:,}", usd)
    for link in plan.links:
        if link.usd_per_hour and link.usd_per_hour >= _A_CENT_USD:
            table.add_row(f"{link.from_} to {link.to}", "link", "", f"{link.usd_per_hour:,.2f}")
    return table


def _curve_table(points: tuple[SizePoint, ...]) -> Table:
    table = new_table("Demand", "USD/h", "USD per million", "Gap", "GPUs", title="Cheapest fleet by demand")
    for point in points:
        if point.usd_per_hour is None:
            table.add_row(format_rps(point.demand_rps), "none within the limits", "-", "-", "-")
            continue
        per_million = point.usd_per_million_requests
        table.add_row(
            format_rps(point.demand_rps),
            f"{point.usd_per_hour:,.2f}",
            "-" if per_million is None else f"{per_million:,.2f}",
            "-" if point.gap_share is None else format_share(point.gap_share),
            f"{sum(point.gpus.values()):,}",
        )
    return table


def _sensitivity_table(plan: FleetPlan, rows: tuple[FleetDeviation, ...]) -> Table:
    title = f"Throughput where a figure is off (now {format_rps(plan.throughput_rps)})"
    table = new_table("Figure, everywhere", "Off by", "As deployed", "Planned anew", "Counts then", title=title)
    for row in rows:
        cells = ["outside a profile", "-", "-"]
        if row.deployed_rps is not None and row.replanned_rps is not None:
            moves = (moved(rps, plan.throughput_rps) for rps in (row.deployed_rps, row.replanned_rps))
            cells = [*moves, "others" if row.counts_change else "same"]
        table.add_row(row.figure, off_by(row.off_by_share), *cells)
    return table


def _failure_table(plan: FleetPlan, rows: tuple[FleetFailure, ...]) -> Table:
    """What a planned fleet serves after each failure."""
    title = f"Throughput after a failure (now {format_rps(plan.throughput_rps)})"
    demand = f"Of {format_rps(plan.demand_rps)}"
    table = new_table("Lost", "Roles as they are", "Split anew", demand, title=title)
    for row in rows:
        split = "-" if row.resplit_rps is None else moved(row.resplit_rps, plan.throughput_rps)
        now = moved(row.throughput_rps, plan.throughput_rps)
        table.add_row(_lost(row), now, split, format_share(row.served_share))
    return table


def _lost(row: FleetFailure) -> str:
    if row.kind == "link":
        return f"link {row.part}"
    return f"cluster {row.part}" if row.kind == "site" else f"1 {row.part}"


def _print_cut_off(out: Console, rows: tuple[FleetFailure, ...]) -> None:
    for row in rows:
        if row.cut_off:
            others = "; what is shown are the others" if row.throughput_rps > 0 else ""
            again = ""
            if row.resplit_cut_off != row.cut_off:
                left = ", ".join(row.resplit_cut_off or ()) or "no stream"
                again = f" (roles split anew, {left})"
            out.print(f"Without {_lost(row)} nothing serves {', '.join(row.cut_off)}{again}{others}.")


def _survived_table(rows: tuple[FleetFailure, ...]) -> Table:
    """What a sized fleet serves after each failure that it is sized for."""
    table = new_table("Lost, one at a time", "Could serve", "Of the demand", title="After a failure")
    for row in rows:
        table.add_row(_lost(row), format_rps(row.throughput_rps), format_share(row.served_share))
    return table


def _survival(sizing: Sizing) -> str:
    kinds = [_KINDS_OF_FAILURE[kind] for kind in sizing.survives]
    usd = sizing.unprotected_usd_per_hour or 0.0
    more = sizing.usd_per_hour - usd
    cost = f"{more:,.2f} USD/h" + (f" ({format_share(more / usd)})" if usd > 0 else "")
    return (
        f"After the loss of any one of these, {' or '.join(kinds)}, the whole demand is still served within the "
        "ceilings: roles as they are, requests routed anew. That costs "
        f"{cost} more than the cheapest fleet found that survives nothing."
    )


def _plan_proof(plan: FleetPlan) -> str:
    assert plan.bound_rps is not None
    assert plan.gap_share is not None
    bound = f"no routing by length and no counts exceed {plan.bound_rps:.6g} req/s"
    if plan.status == "optimal":
        tie = ", from borders at whole tokens" if (plan.tie_loss_share or 0.0) > 0.5 * plan.gap_share > 0.0 else ""
        asked = "" if plan.mip_gap_share <= _CLOSE else f", a gap of {format_share(plan.mip_gap_share)} was asked for"
        proven = "Proven" if asked else "Proven optimal"
        return f"{proven} for this model and these profiles: {bound} (gap {plan.gap_share:.1e}{tie}{asked})."
    gap = f"at most {format_share(plan.bound_rps / plan.throughput_rps - 1)} more could be had"
    stopped = _STOPPED.get(plan.stopped, "the best found")
    return f"Not proven optimal ({stopped}): {gap}; {bound}."


def _sizing_proof(sizing: Sizing) -> str:
    asked = f"a gap of {format_share(sizing.mip_gap_share)} was asked for"
    if sizing.bound_usd_per_hour is not None:
        survives = " and survives these" if sizing.survives else ""
        bound = (
            f"no fleet within these limits serves this{survives} for less than {sizing.bound_usd_per_hour:,.2f} USD/h"
        )
    else:
        bound = f"no fleet within these limits serves more than {sizing.bound_rps or 0.0:.6g} req/s for that"
    gap = f"gap {format_share(sizing.gap_share)}" if sizing.gap_share >= _NOTICED else f"gap {sizing.gap_share:.1e}"
    if sizing.status == "optimal":
        return f"Proven for this model and these profiles: {bound} ({gap}, {asked})."
    return f"Not proven that far ({_STOPPED.get(sizing.stopped, 'the best found')}): {bound} ({gap}, {asked})."


def _print_sources(out: Console, plan: FleetPlan) -> None:
    for name, source in plan.provenance.items():
        parts = [f"prefill {source.prefill}", f"KVCache {source.kv_cache}"]
        parts += [f"decode {source.decode}"] if source.decode else []
        out.print(f"{name}: " + "; ".join(parts) + ".", style="dim")
