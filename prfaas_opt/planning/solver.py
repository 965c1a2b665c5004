"""Running a cvxpy problem with a solver that may be missing, fail, or stop at a limit."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.modelling import cp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prfaas_opt.planning.options import SolverOptions

_MIXED_INTEGER = {"HIGHS", "SCIP", "GUROBI", "CPLEX", "MOSEK", "XPRESS", "COPT", "CBC", "GLPK_MI", "SCIPY"}


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        found: whether the variables hold a feasible point.
        bound: no feasible point has a better objective.
        complete: whether that was proven within the gap, or the problem proven infeasible; no limit was met.
    """

    found: bool
    bound: float
    complete: bool


def check_solver(options: SolverOptions) -> None:
    """Whether the solver asked for can be used as it is asked.

    Raises:
        SolverError: it is not installed, or takes no limits.
    """
    installed = set(cp.installed_solvers()) & _MIXED_INTEGER  # type: ignore[no-untyped-call]
    if options.solver not in installed:
        message = f"there is no solver {options.solver} here, expected one of {', '.join(sorted(installed))}"
        raise SolverError(Problem("no-solver", "--solver", message, "install it, or name one of these"))
    if options.solver != "HIGHS" and (options.time_limit_s is not None or options.mip_gap_share is not None):
        message = f"a time limit or gap reaches HiGHS only, not {options.solver}"
        raise SolverError(Problem("not-supported", "--solver", message, "leave it out, or use HIGHS"))


def run(
    problem: cp.Problem, options: SolverOptions, gap_share: float = 1e-9, time_limit_s: float | None = None
) -> Outcome:
    """Solves a problem in place.

    Args:
        problem: its variables take the values found.
        options: names the solver.
        gap_share: relative gap at which an integer solution counts as optimal; HiGHS only.
        time_limit_s: when to stop; HiGHS only.

    Raises:
        SolverError: the solver failed.
    """
    arguments: dict[str, Any] = {"solver": options.solver}
    if options.solver == "HIGHS":
        arguments["mip_rel_gap"] = gap_share
        if time_limit_s is not None:
            arguments["time_limit"] = max(time_limit_s, 0.01)
    # HiGHS may lose its way in what presolve made of a nearly infeasible program; unpresolved, or by the primal
    # simplex method, it finds it.
    attempts = [arguments]
    if options.solver == "HIGHS":
        attempts += [arguments | {"presolve": "off"}, arguments | {"simplex_strategy": _PRIMAL}]
    for attempt in attempts:
        try:
            with _silent_stdout(), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the status below says it better
                _interruptible(functools.partial(problem.solve, **attempt))
            break
        except (cp.error.SolverError, ValueError) as error:
            failure = str(error).splitlines()[0]
    else:
        message = f"{options.solver} failed: {failure.partition(': Solution(')[0]}"
        raise SolverError(Problem("solver-failed", "--solver", message, "try another solver, or none"))
    maximizes = isinstance(problem.objective, cp.Maximize)
    worst = -math.inf if maximizes else math.inf
    if problem.status in (cp.INFEASIBLE, "infeasible_or_unbounded"):
        return Outcome(False, worst, True)
    info: Any = problem.solver_stats.extra_stats if problem.solver_stats else None
    if problem.status == cp.OPTIMAL:
        value = float(np.asarray(problem.value, dtype=np.float64))
        return Outcome(True, _dual_bound(problem, info, value), True)
    if problem.status == cp.USER_LIMIT:
        found = info is not None and info.primal_solution_status == _FEASIBLE
        return Outcome(found, _dual_bound(problem, info, -worst), False)
    message = f"{options.solver} stopped with status {problem.status}, expected optimal"
    raise SolverError(Problem("solver-limit", "--solver", message, "allow it more time, or a wider gap"))


_PRIMAL = 4
"""HiGHS's number of the primal simplex method."""
_LISTENING_S = 0.2
_left_running: list[threading.Thread] = []


def was_left_running() -> bool:
    """Whether a solver was interrupted: while its threads end, Python must not end in the usual way, C++ aborts."""
    return bool(_left_running)


_FEASIBLE = 2
"""HiGHS's word for a primal solution that satisfies the constraints."""


def _dual_bound(problem: cp.Problem, info: Any, value: float) -> float:
    """The bound that the solver proved on the objective, in the problem's own sense."""
    bound = float(getattr(info, "mip_dual_bound", math.nan))
    if not problem.is_mixed_integer() or not math.isfinite(bound):
        return value
    return -bound if isinstance(problem.objective, cp.Maximize) else bound


def _interruptible(work: Callable[[], object]) -> None:
    """Works in a thread of its own, so that Ctrl-C is heard while the solver runs; it is then left to its limits."""
    failures: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=watched, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LISTENING_S)
    except BaseException:
        _left_running.append(thread)
        raise
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _silent_stdout() -> Iterator[None]:
    """HiGHS greets on stdout from C, whatever it is told; stdout is for the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
