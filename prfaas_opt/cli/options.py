"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.scenario import Estimator

ScenarioArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Scenario file; without one, the paper's case study.", show_default=False),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a field of the scenario, for example clusters.pd.instances=10. May be repeated.",
        show_default=False,
    ),
]
EstimatorOption = Annotated[
    Estimator | None,
    typer.Option(
        help="How service times are averaged; default: the scenario's. mean-length is the paper's.",
        show_default=False,
    ),
]
SolverOption = Annotated[
    str | None,
    typer.Option(
        metavar="cvxpy|NAME",
        help="Solver of the mixed-integer program, default HiGHS. Two pools: also solve it, and it must agree.",
        show_default=False,
    ),
]
TimeLimitOption = Annotated[
    float | None,
    typer.Option(min=0.0, help="Seconds for the whole search; the answer then carries its gap.", show_default="60"),
]
MipGapOption = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Relative gap that counts as proven.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def solver_options(solver: str | None, time_limit_s: float | None, mip_gap_share: float | None) -> SolverOptions:
    """What the options ask of the solver; ``cvxpy`` means its default, HiGHS."""
    name = "HIGHS" if solver is None or solver.casefold() == "cvxpy" else solver.upper()
    return SolverOptions(solver=name, time_limit_s=time_limit_s, mip_gap_share=mip_gap_share)


def overrides(assignments: list[str] | None, estimator: str | None = None, option: str = "--set") -> dict[str, str]:
    """``PATH=VALUE`` texts as a mapping.

    Raises:
        InputError: a text without ``=``; all of them.
    """
    pairs = [text.partition("=") for text in assignments or []]
    problems = [
        Problem(
            "bad-override",
            f"{option} {path}",
            "found no value, expected PATH=VALUE",
            f"write {option} {path}=VALUE",
        )
        for path, equals, _ in pairs
        if not equals
    ]
    if problems:
        raise InputError(problems)
    found = {path.strip(): value for path, _, value in pairs}
    return found | ({"estimator": estimator} if estimator else {})
