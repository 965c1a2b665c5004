"""The public Python API of planning; ``listings`` has that of models, workloads and KV throughput."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt import results
from prfaas_opt.errors import CertificationError, InputError, Problem
from prfaas_opt.io.files import write_text
from prfaas_opt.io.scenario_file import CASE_STUDY, load_scenario
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.describe import describe
from prfaas_opt.planning.notes import assumptions
from prfaas_opt.planning.plan import compared, planned
from prfaas_opt.planning.problem import Decision, OnDecodeProblem
from prfaas_opt.planning.split import given
from prfaas_opt.scenario import Objective, Policy, Scenario

if TYPE_CHECKING:
    from prfaas_opt.planning.options import SolverOptions

__all__ = ["check_by_solver", "compare", "evaluate", "load_scenario", "plan", "warnings", "write_starter_scenario"]

_SOLVER_AGREEMENT = 1e-6

Source = Scenario | str | Path | Mapping[str, Any] | None


def plan(
    scenario: Source = None,
    policy: Policy = "threshold",
    sensitivity: bool = False,
    objective: Objective | None = None,
    robust_share: float | None = None,
) -> results.Plan:
    """The best deployment, with its proof.

    Args:
        scenario: a loaded scenario, a file, a mapping of a file's form, or None for the paper's case study.
        policy: ``threshold`` routes by one threshold; ``free`` by any bands of length, where that is better.
        sensitivity: also tell how the throughput moves where a figure is off by 20 %, beside 10 %.
        objective: ``throughput``: the largest capacity; ``goodput``: the largest load at which the scenario's
            ``slo.ttft`` holds, the default where it has one; ``cost``: the least dollars per request, over counts up
            to the scenario's too.
        robust_share: choose threshold and split for the best worst case where latencies and bandwidth may be off by
            up to this share.

    Returns:
        The plan. Its ``ratio`` is over the homogeneous cluster, null where there can be none.

    Raises:
        InputError: the scenario is wrong, all problems at once; or the objective is none that can be asked of it.
        InfeasibleError: no deployment meets the constraints.

    >>> best = plan()
    >>> best.threshold_tokens, best.instances.pd_prefill, round(best.throughput_rps, 2), best.status
    (19805, 3, 3.15, 'optimal')
    """
    return planned(_scenario(scenario), policy, sensitivity, objective, robust_share)


def check_by_solver(scenario: Source, best: results.Plan, options: SolverOptions) -> results.SolverCheck:
    """Solves the mixed-integer program of a plan with a cvxpy solver; its optimum must be the plan's bound.

    Args:
        scenario: what was planned.
        best: its plan, under expected-time.
        options: the solver and its limits.

    Raises:
        InputError: there is no such program under mean-length.
        SolverError: the solver is missing, fails or stops at a limit.
        CertificationError: the two differ.
    """
    from prfaas_opt.planning.fleets.two_pools import solve_program

    scenario = _scenario(scenario)
    problem = two_pool_problem(scenario)
    if best.bound_rps is None or isinstance(problem, OnDecodeProblem):
        why = (
            "mean-length is not additive over lengths"
            if best.bound_rps is None
            else "prefill shares decode's instances"
        )
        message = f"there is no program to solve: {why}"
        raise InputError(Problem("no-program", "--solver", message, "leave it out"))
    optimum_rps = solve_program(problem, options)
    difference = optimum_rps / best.bound_rps - 1
    if not -max(_SOLVER_AGREEMENT, options.mip_gap_share or 0.0) <= difference <= _SOLVER_AGREEMENT:
        message = f"{options.solver} finds {optimum_rps!r} req/s, the exact search proves {best.bound_rps!r}"
        raise CertificationError(Problem("solver-differs", "--solver", message, "please report this with the scenario"))
    return results.SolverCheck(options.solver, optimum_rps, difference)


def compare(scenario: Source = None) -> results.Comparison:
    """The plan beside the homogeneous cluster and the naive heterogeneous split (table 6), each at its own optimum.

    Args:
        scenario: as for ``plan``.

    Raises:
        InputError: the scenario is wrong; all problems at once.
        InfeasibleError: no deployment meets the constraints.

    >>> [(d.name, round(d.throughput_rps, 2)) for d in compare().deployments]
    [('prfaas-pd', 3.15), ('homogeneous-pd', 2.02), ('naive-heterogeneous', 2.33)]
    """
    return compared(_scenario(scenario))


def warnings(scenario: Scenario) -> tuple[str, ...]:
    """What a reader of this scenario's results should know, in sentences."""
    return assumptions(scenario)


def evaluate(scenario: Source, threshold_tokens: int, prefill_instances: int) -> results.Plan:
    """The figures of a decision that somebody else made; its status is ``feasible``.

    Args:
        scenario: as for ``plan``.
        threshold_tokens: longest length kept local.
        prefill_instances: PD instances that prefill.

    Raises:
        InputError: the split is none of this cluster, or the threshold none that can be.
        InfeasibleError: no deployment meets the constraints.

    >>> round(evaluate(None, threshold_tokens=19400, prefill_instances=3).throughput_rps, 3)
    3.122
    """
    scenario = _scenario(scenario)
    problem = two_pool_problem(scenario)
    problems = []
    if isinstance(problem, OnDecodeProblem):
        message = "prefill shares the decode instances here, so that there is no split to evaluate"
        where = scenario.origin.where(("local_prefill",))
        raise InputError(Problem("not-supported", where, message, "write local_prefill: dedicated"))
    if prefill_instances not in problem.splits:
        message = f"found {prefill_instances}, expected 0 to {problem.splits[-1]}: one instance at least must decode"
        problems.append(Problem("out-of-range", "prefill_instances", message, "choose a split of the pd cluster"))
    if threshold_tokens < 0:
        message = f"found {threshold_tokens}, expected 0 tokens or more"
        problems.append(Problem("out-of-range", "threshold_tokens", message, "0 offloads everything"))
    if problem.remote is None and threshold_tokens < problem.lengths.last_threshold:
        message = f"found {threshold_tokens}, but nothing can be offloaded: there is no link with bandwidth"
        fix = f"name {problem.lengths.last_threshold}, which keeps everything, or add a link"
        problems.append(Problem("out-of-range", "threshold_tokens", message, fix))
    if problems:
        raise InputError(problems)
    decision = Decision.at_threshold(problem.lengths, threshold_tokens, prefill_instances)
    return describe(scenario, problem, given(problem, decision), "prfaas-pd")


def write_starter_scenario(path: Path, replace: bool = False) -> Path:
    """Writes the commented scenario file of the case study.

    Raises:
        InputError: the file is there and is not to be replaced, or its folder is not there.
    """
    return write_text(path, CASE_STUDY.read_text(encoding="utf-8"), replace)


def _scenario(source: Source) -> Scenario:
    return source if isinstance(source, Scenario) else load_scenario(source)
