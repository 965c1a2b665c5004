"""``prfaas-opt compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.cli.options import EstimatorOption, JsonOption, ScenarioArgument, SetOption, overrides
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from prfaas_opt.results import Comparison, Plan

_TITLES = {
    "prfaas-pd": "PrfaaS-PD",
    "homogeneous-pd": "Homogeneous",
    "naive-heterogeneous": "Naive heterogeneous",
}


@answers("compare")
def compare(
    file: ScenarioArgument = None,
    assignments: SetOption = None,
    estimator: EstimatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the plan with its baselines (table 6).

    The baselines are a homogeneous cluster and the naive heterogeneous split. Each deployment is at its own optimum.
    With a price on every cluster, throughput per cost is shown too.

    Example: prfaas-opt compare --set clusters.prfaas.price_per_gpu_hour=4 --set clusters.pd.price_per_gpu_hour=2
    """
    from prfaas_opt import api

    scenario = api.load_scenario(file, overrides(assignments, estimator))
    comparison = api.compare(scenario)
    notes = api.warnings(scenario)
    if as_json:
        print_json("compare", comparison.deployments[0].status, comparison, notes)
        return
    out = console()
    best = comparison.deployments[0]
    out.print(
        f"{scenario.name}, {scenario.model.name}, {scenario.workload.name}; estimator {best.estimator}",
        style="bold",
    )
    out.print(_table(comparison))
    for missing in comparison.unavailable:
        out.print(f"{_TITLES[missing.name]}: not possible here, {missing.problem}")
    print_warnings(notes)


def _table(comparison: Comparison) -> Table:
    table = new_table("", *(_TITLES[deployment.name] for deployment in comparison.deployments))
    for label, cell in _ROWS.items():
        cells = [cell(deployment) for deployment in comparison.deployments]
        if any(text != "-" for text in cells):
            table.add_row(label, *cells)
    return table


def _or_dash(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def _cost(plan: Plan, figure: str) -> float | None:
    return getattr(plan.cost, figure, None)


def _percent(share: float | None) -> str:
    return "-" if share is None else format_share(share)


_ROWS: dict[str, Callable[[Plan], str]] = {
    "Threshold (tokens)": lambda d: _or_dash(d.threshold_tokens, ","),
    "Instances, remote prefill": lambda d: str(d.instances.prfaas),
    "Instances, local prefill": lambda d: str(d.instances.pd_prefill),
    "Instances, decode": lambda d: str(d.instances.pd_decode),
    "Theta, remote prefill (req/s)": lambda d: _or_dash(d.stages_rps.prfaas, ".2f"),
    "Theta, local prefill (req/s)": lambda d: _or_dash(d.stages_rps.pd_prefill, ".2f"),
    "Theta, decode (req/s)": lambda d: _or_dash(d.stages_rps.pd_decode, ".2f"),
    "Lambda (req/s)": lambda d: f"{d.throughput_rps:.2f}",
    "Within the TTFT (req/s)": lambda d: f"{d.served_rps:.2f}" if d.objective == "goodput" else "-",
    "Ratio to homogeneous": lambda d: _or_dash(d.ratio, ".2f"),
    "TTFT mean, no queueing (s)": lambda d: f"{d.ttft_s.mean:.2f}",
    "TTFT P90, no queueing (s)": lambda d: f"{d.ttft_s.p90:.2f}",
    "Unservable": lambda d: _percent(d.unservable_share) if d.unservable_share > 0 else "-",
    "Offloaded": lambda d: _percent(d.offload_share),
    "Egress (Gbps)": lambda d: f"{d.egress_gbps:.1f}",
    "Link in use": lambda d: _percent(d.utilization.egress),
    "Proven bound (req/s)": lambda d: _or_dash(d.bound_rps, ".4f"),
    "Cost (USD/h)": lambda d: _or_dash(_cost(d, "usd_per_hour"), ",.2f"),
    "Requests per USD": lambda d: _or_dash(_cost(d, "requests_per_usd"), ",.0f"),
    "Ratio at equal cost": lambda d: _or_dash(_cost(d, "ratio"), ".3f"),
}
