"""``prfaas-opt size``."""

from __future__ import annotations

from typing import Annotated

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
    solver: SolverOption = None,
    time_limit: TimeLimitOption = None,
    mip_gap: MipGapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Size the cheapest fleet that serves the demand, or the fleet that serves most for a budget.

    Counts and bandwidths that the scenario gives as ranges ({min: 0, max: 64}) are chosen. Every kind of GPU needs a
    price. The answer is a fleet, its plan, and a bound that no other fleet within the limits can beat.

    Example: prfaas-opt size fleet.yaml --demand 40 --curve 10,20,40,80
    """
    from prfaas_opt import fleet_api

    if demand is not None and budget is not None:
        raise typer.BadParameter(
            "--demand and --budget exclude each other: one gives what is served, one what is spent"
        )
    demands = _demands(curve)
    fleet = fleet_api.load_fleet(file, overrides(assignments))
    with progress_line("req/s" if budget else "USD/h") as show:
        sizing = fleet_api.size(fleet, demand, budget, demands, solver_options(solver, time_limit, mip_gap), show)
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
