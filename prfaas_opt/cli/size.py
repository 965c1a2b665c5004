"""``prfaas-opt size``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.options import (
    JsonOption,
    MipGapOption,
    SetOption,
    SolverOption,
    TimeLimitOption,
    overrides,
    solver_options,
)
from prfaas_opt.cli.output import answers, console, print_json, print_warnings
from prfaas_opt.cli.progress import progress_line

if TYPE_CHECKING:
    from prfaas_opt.fleet_results import FailureKind


@answers("size")
def size(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, with ranges of counts and prices.")],
    assignments: SetOption = None,
    demand: Annotated[
        float | None,
        typer.Option(min=1e-9, help="Requests/s to serve, all streams together.", show_default="the scenario's"),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=1e-9, help="USD an hour that may be spent; serves as much as it can.", show_default=False),
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(
            metavar="RPS,RPS,...", help="Also the cheapest fleet for each of these demands.", show_default=False
        ),
    ] = None,
    survive: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Of link, instance, site: after the loss of any single one of each kind the whole demand is still "
            "served, within the ceilings, roles as they are and requests routed anew. link: a link carries nothing; "
            "instance: a group has one fewer; site: a cluster is gone with its GPUs and links.",
            show_default=False,
        ),
    ] = None,
    solver: SolverOption = None,
    time_limit: TimeLimitOption = None,
    mip_gap: MipGapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Size the cheapest fleet that serves the demand, or the fleet that serves most for a budget.

    Counts and bandwidths that the scenario gives as ranges ({min: 0, max: 64}) are chosen. Every kind of GPU needs a
    price. The answer is a fleet, its plan, and a bound that no other fleet within the limits can beat.

    With --survive it is the cheapest fleet that still serves the demand after any one such failure. Its plan is the one
    before any failure; what is sent after one is not paid for.

    Example: prfaas-opt size fleet.yaml --demand 40 --curve 10,20,40,80

    Example: prfaas-opt size fleet.yaml --demand 40 --survive link,instance
    """
    from prfaas_opt import fleet_api

    if demand is not None and budget is not None:
        raise typer.BadParameter(
            "--demand and --budget exclude each other: one gives what is served, one what is spent"
        )
    kinds = _kinds(survive)
    if kinds and budget is not None:
        raise typer.BadParameter("--survive and --budget exclude each other: what survives is sized for a demand")
    demands = _demands(curve)
    fleet = fleet_api.load_fleet(file, overrides(assignments))
    with progress_line("req/s" if budget else "USD/h") as show:
        options = solver_options(solver, time_limit, mip_gap)
        sizing = fleet_api.size(fleet, demand, budget, demands, options, show, kinds)
    notes = fleet_api.fleet_warnings(fleet)
    if as_json:
        print_json("size", sizing.status, sizing, notes)
        return
    from prfaas_opt.cli.render_fleet import print_sizing

    print_sizing(console(), sizing)
    print_warnings(notes)


def _demands(curve: str | None) -> list[float]:
    try:
        demands = [float(each) for each in curve.split(",")] if curve else []
    except ValueError:
        demands = [-1.0]
    if any(not 0 < each < float("inf") for each in demands):
        raise typer.BadParameter(f"--curve: found {curve}, expected numbers above 0 with commas between, 10,20,40")
    return demands


def _kinds(survive: str | None) -> list[FailureKind]:
    from prfaas_opt.fleet_results import FAILURE_KINDS

    asked = [each.strip() for each in survive.split(",")] if survive is not None else []
    unknown = [each for each in asked if each not in FAILURE_KINDS]
    if unknown:
        raise typer.BadParameter(f"--survive: found {survive}, expected some of {','.join(FAILURE_KINDS)}")
    return [kind for kind in FAILURE_KINDS if kind in asked]
