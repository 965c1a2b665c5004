"""``prfaas-opt plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.options import (
    EstimatorOption,
    JsonOption,
    MipGapOption,
    ScenarioArgument,
    SetOption,
    SolverOption,
    TimeLimitOption,
    overrides,
    solver_options,
)
from prfaas_opt.cli.output import answers, console, print_json, print_warnings
from prfaas_opt.cli.progress import progress_line
from prfaas_opt.scenario import Objective, Policy, Scenario

if TYPE_CHECKING:
    from prfaas_opt.fleet import Fleet
    from prfaas_opt.planning.options import SolverOptions


@answers("plan")
def plan(
    file: ScenarioArgument = None,
    assignments: SetOption = None,
    estimator: EstimatorOption = None,
    policy: Annotated[
        Policy | None,
        typer.Option(
            help="threshold: one threshold; free: any bands of length, where that is better (fleets: always).",
            show_default="threshold",
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Also show how the throughput moves where a figure is 20 % off; fleets: 10 % too, and more of each.",
        ),
    ] = False,
    objective: Annotated[
        Objective | None,
        typer.Option(
            help="throughput: capacity; goodput: the load at which slo.ttft holds; cost: dollars per request.",
            show_default="goodput with slo.ttft, else throughput",
        ),
    ] = None,
    robust: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Best worst case where latencies and bandwidth are off by up to this share, as 10%.",
            show_default=False,
        ),
    ] = None,
    failures: Annotated[
        bool,
        typer.Option("--failures", help="Fleets: also show what is served when one part is lost; two pools: always."),
    ] = False,
    solver: SolverOption = None,
    time_limit: TimeLimitOption = None,
    mip_gap: MipGapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan the deployment of largest throughput, and prove it.

    Which requests go to the remote prefill cluster, how many local instances prefill and how many decode, what limits
    them, and how far the plan is from the best possible.

    Example: prfaas-opt plan scenario.yaml --set clusters.pd.instances=10
    """
    from prfaas_opt.io.scenario_file import load_any

    loaded = load_any(file, overrides(assignments, estimator))
    if isinstance(loaded, Scenario):
        if solver is None and (time_limit is not None or mip_gap is not None):
            raise typer.BadParameter("--time-limit and --mip-gap go with --solver")
        options = None if solver is None else solver_options(solver, time_limit, mip_gap)
        asked = (policy or "threshold", sensitivity, objective, _share(robust))
        _plan_two_pools(loaded, asked, options, as_json)
        return
    if objective not in (None, "throughput") or robust is not None:
        raise typer.BadParameter("--objective and --robust are for two pools: a fleet is planned for throughput")
    if policy == "threshold":
        raise typer.BadParameter("--policy threshold is for two pools: a fleet is routed by bands of length")
    _plan_fleet(loaded, (sensitivity, failures), solver_options(solver, time_limit, mip_gap), as_json)


def _share(text: str | None) -> float | None:
    """A share from "10%" or "0.1"."""
    if text is None:
        return None
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest.strip() or not 0 < share < 1:
        raise typer.BadParameter(f'--robust: found "{text}", expected a share above 0 and below 1, as 10% or 0.1')
    return share


def _plan_two_pools(
    scenario: Scenario,
    asked: tuple[Policy, bool, Objective | None, float | None],
    options: SolverOptions | None,
    as_json: bool,
) -> None:
    from prfaas_opt import api

    best = api.plan(scenario, *asked)
    if options is not None:
        from msgspec.structs import replace

        best = replace(best, solver_check=api.check_by_solver(scenario, best, options))
    notes = api.warnings(scenario)
    if as_json:
        print_json("plan", best.status, best, notes)
        return
    from prfaas_opt.cli.render_plan import print_plan

    print_plan(console(), best, scenario)
    print_warnings(notes)


def _plan_fleet(fleet: Fleet, also: tuple[bool, bool], options: SolverOptions, as_json: bool) -> None:
    from prfaas_opt import fleet_api

    with progress_line("of the demand") as show:
        sensitivity, failures = also
        best = fleet_api.plan_fleet(fleet, options, sensitivity, show, failures)
    notes = fleet_api.fleet_warnings(fleet)
    if as_json:
        print_json("plan", best.status, best, notes)
        return
    from prfaas_opt.cli.render_fleet import print_fleet_plan

    print_fleet_plan(console(), best)
    print_warnings(notes)
