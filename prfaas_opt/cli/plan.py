"""``prfaas-opt plan``."""

from __future__ import annotations

from typing import Annotated

import typer

from prfaas_opt.cli.options import EstimatorOption, JsonOption, ScenarioArgument, SetOption, overrides
from prfaas_opt.cli.output import answers, console, print_json, print_warnings
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.scenario import Policy


@answers("plan")
def plan(
    file: ScenarioArgument = None,
    assignments: SetOption = None,
    estimator: EstimatorOption = None,
    policy: Annotated[
        Policy, typer.Option(help="threshold: one threshold; free: any bands of length, where that is better.")
    ] = "threshold",
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also show how the throughput moves where a figure is 10 or 20 % off.")
    ] = False,
    solver: Annotated[
        str | None,
        typer.Option(
            metavar="cvxpy|NAME",
            help="Also solve the mixed-integer program, with HiGHS or another cvxpy solver; it must agree.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds for each solve, with --solver.", show_default=False)
    ] = None,
    mip_gap: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Relative gap, with --solver.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan the deployment of largest throughput, and prove it.

    Which requests go to the remote prefill cluster, how many local instances prefill and how many decode, what limits
    them, and how far the plan is from the best possible.

    Example: prfaas-opt plan scenario.yaml --set clusters.pd.instances=10
    """
    from prfaas_opt import api

    if solver is None and (time_limit is not None or mip_gap is not None):
        raise typer.BadParameter("--time-limit and --mip-gap go with --solver")
    scenario = api.load_scenario(file, overrides(assignments, estimator))
    best = api.plan(scenario, policy, sensitivity)
    if solver is not None:
        from msgspec.structs import replace

        name = "HIGHS" if solver.casefold() == "cvxpy" else solver.upper()
        options = SolverOptions(solver=name, time_limit_s=time_limit, mip_gap_share=mip_gap)
        best = replace(best, solver_check=api.check_by_solver(scenario, best, options))
    notes = api.warnings(scenario)
    if as_json:
        print_json("plan", best.status, best, notes)
        return
    from prfaas_opt.cli.render_plan import print_plan

    print_plan(console(), best, scenario)
    print_warnings(notes)
