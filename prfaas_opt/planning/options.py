"""What is asked of a solver, apart from it, so that asking imports none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SolverOptions:
    """What is asked of the solver.

    Attributes:
        solver: name of an installed cvxpy solver for mixed-integer programs.
        bins: length bins to begin with.
        time_limit_s: for the whole search; None leaves it to the caller's default. HiGHS only.
        mip_gap_share: relative gap at which a solution counts as optimal; None likewise. HiGHS only.
    """

    solver: str = "HIGHS"
    bins: int = 64
    time_limit_s: float | None = None
    mip_gap_share: float | None = None
