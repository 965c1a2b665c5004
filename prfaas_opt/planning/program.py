"""The routing problem as a mixed-integer linear program in cvxpy, an independent check of the exact search.

Lengths are cut into bins; all requests of a bin have the bin's mean service times, so any solution is one of the
unbinned problem too and its value never exceeds the true optimum. Bins are cut where the program's own prices say that
lengths change pools, until those prices prove the value on the unbinned lengths. Rows are scaled to capacities of 1,
since a solver's tolerances are absolute.

    maximize   Lambda
    served     offloaded + kept = Lambda                                  each bin, rates per unit of its probability
    compute    sum(offloaded * remote seconds / remote instances)  <= 1
    egress     sum(offloaded * bytes / link rate)                  <= 1
    local      sum(kept * local seconds / ceiling)                 <= N_p
    decode     Lambda / decode rate of one instance                <= N - N_p
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.planning.certificate import CheapestRouting
from prfaas_opt.profiles.curve import merged_breaks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prfaas_opt.planning.options import SolverOptions
    from prfaas_opt.planning.problem import RemotePool, TwoPoolProblem
    from prfaas_opt.throughput.expectation import Expectation

_ROUNDS = 12
_SETTLED = 1e-8
_MIP_GAP = 1e-9
_MIXED_INTEGER = {"HIGHS", "SCIP", "GUROBI", "CPLEX", "MOSEK", "XPRESS", "COPT", "CBC", "GLPK_MI", "SCIPY"}


@dataclass(frozen=True)
class Binned:
    """Probability of each bin and, for a request of it, mean seconds in either pool and mean bytes."""

    weights: NDArray[np.float64]
    remote_s: NDArray[np.float64]
    local_s: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]


@dataclass(frozen=True)
class ProgramSolution:
    """An optimum of the binned program.

    Attributes:
        throughput_rps: Lambda.
        prefill_instances: N_p.
        prices: duals of compute, local and egress, for what is unbinned; None from the integer program, which has none.
    """

    throughput_rps: float
    prefill_instances: int
    prices: tuple[float, float, float] | None = None


def cut(problem: TwoPoolProblem, remote: RemotePool, bins: int) -> tuple[float, ...]:
    """Edges of bins of about equal probability, and at every break of the curves."""
    lengths = problem.lengths
    curves = (problem.local_prefill_s, remote.prefill_s, remote.kv_bytes)
    quantiles = (lengths.quantile(i / bins) for i in range(1, bins))
    inner = {x for x in (*quantiles, *merged_breaks(curves, lengths.low, lengths.high)) if x < lengths.high}
    inner |= {below for x in lengths.atom_lengths[:bins] for below in (np.nextafter(x, 0.0), x) if below < lengths.high}
    return (0.0, *sorted(inner), lengths.high)


def binned(problem: TwoPoolProblem, remote: RemotePool, edges: tuple[float, ...]) -> Binned:
    """Exact means of each bin that holds any probability."""
    ranges = list(itertools.pairwise(edges))
    weights = np.array([problem.lengths.moment(0.0, *each) for each in ranges])
    held = weights > 0

    def means(of: Expectation) -> NDArray[np.float64]:
        totals = np.array([of.between(*each) for each in ranges])
        return np.asarray(np.maximum(totals[held], 0.0) / weights[held], dtype=np.float64)

    return Binned(weights[held], means(remote.time), means(problem.local_time), means(remote.sent))


class RoutingProgram:
    """The program for one number of bins: built once, solved for any figures, its split free or fixed."""

    def __init__(self, bins: int) -> None:
        offloaded, kept = cp.Variable(bins, nonneg=True), cp.Variable(bins, nonneg=True)
        self._throughput = cp.Variable(nonneg=True)
        self._prefill = cp.Variable(integer=True)
        self._fixed_prefill = cp.Parameter(nonneg=True)
        self._compute, self._egress, self._local = (cp.Parameter(bins, nonneg=True) for _ in range(3))
        self._decode, self._instances, self._most = (cp.Parameter(nonneg=True) for _ in range(3))

        def constraints(prefill: cp.Variable | cp.Parameter) -> dict[str, cp.Constraint]:
            return {
                "served": offloaded + kept == self._throughput,
                "compute": offloaded @ self._compute <= 1,
                "egress": offloaded @ self._egress <= 1,
                "local": kept @ self._local <= prefill,
                "decode": self._throughput * self._decode <= self._instances - prefill,
            }

        split = [self._prefill >= 0, self._prefill <= self._most]
        self.integer_problem = cp.Problem(cp.Maximize(self._throughput), [*constraints(self._prefill).values(), *split])
        self._fixed_constraints = constraints(self._fixed_prefill)
        self._fixed = cp.Problem(cp.Maximize(self._throughput), list(self._fixed_constraints.values()))

    def solve(
        self, problem: TwoPoolProblem, remote: RemotePool, lengths: Binned, options: SolverOptions
    ) -> ProgramSolution:
        """The optimum over the problem's splits.

        Raises:
            SolverError: the solver is not there, fails, or stops at a limit.
        """
        scale_rps = self._set(problem, remote, lengths)
        _run(self.integer_problem, options)
        return ProgramSolution(_value(self._throughput) * scale_rps, round(_value(self._prefill)))

    def solve_split(
        self, problem: TwoPoolProblem, remote: RemotePool, lengths: Binned, options: SolverOptions, split: int
    ) -> ProgramSolution:
        """The optimum of one split, with its prices.

        Raises:
            SolverError: as ``solve``.
        """
        scale_rps = self._set(problem, remote, lengths)
        self._fixed_prefill.value = split
        _run(self._fixed, options)
        compute, local, egress = (
            max(float(self._fixed_constraints[name].dual_value), 0.0) for name in ("compute", "local", "egress")
        )
        prices = (
            compute / remote.usable_instances,
            local / problem.pd_ceiling,
            egress / remote.egress_bytes_per_s,
        )
        return ProgramSolution(_value(self._throughput) * scale_rps, split, prices)

    def _set(self, problem: TwoPoolProblem, remote: RemotePool, lengths: Binned) -> float:
        """Puts figures in place of the parameters; returns the rate that the program counts in."""
        scale_rps = problem.decode_limit_rps(0)
        self._compute.value = scale_rps * lengths.weights * lengths.remote_s / remote.usable_instances
        self._egress.value = scale_rps * lengths.weights * lengths.sent_bytes / remote.egress_bytes_per_s
        self._local.value = scale_rps * lengths.weights * lengths.local_s / problem.pd_ceiling
        self._decode.value = scale_rps / (problem.decode_rps_per_instance * problem.pd_ceiling)
        self._instances.value, self._most.value = problem.pd_instances, problem.splits[-1]
        return scale_rps


def _value(variable: cp.Variable) -> float:
    return float(np.asarray(variable.value, dtype=np.float64))


def _run(problem: cp.Problem, options: SolverOptions) -> None:
    installed = set(cp.installed_solvers()) & _MIXED_INTEGER  # type: ignore[no-untyped-call]
    if options.solver not in installed:
        message = f"there is no solver {options.solver} here, expected one of {', '.join(sorted(installed))}"
        raise SolverError(Problem("no-solver", "--solver", message, "install it, or name one of these"))
    arguments: dict[str, Any] = {"solver": options.solver}
    if options.solver == "HIGHS":
        arguments["mip_rel_gap"] = _MIP_GAP if options.mip_gap_share is None else options.mip_gap_share
        if options.time_limit_s is not None:
            arguments["time_limit"] = options.time_limit_s
    elif options.time_limit_s is not None or options.mip_gap_share is not None:
        message = f"a time limit or gap reaches HiGHS only, not {options.solver}"
        raise SolverError(Problem("not-supported", "--solver", message, "leave it out, or use HIGHS"))
    try:
        with _silent_stdout(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the status below says it better
            problem.solve(**arguments)  # type: ignore[no-untyped-call]
    except cp.error.SolverError as error:
        message = f"{options.solver} failed: {str(error).splitlines()[0]}"
        raise SolverError(Problem("solver-failed", "--solver", message, "try another solver, or none")) from None
    if problem.status != cp.OPTIMAL:
        message = f"{options.solver} stopped with status {problem.status}, expected optimal"
        raise SolverError(Problem("solver-limit", "--solver", message, "allow it more time, or a wider gap"))


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


def solve_program(problem: TwoPoolProblem, remote: RemotePool, options: SolverOptions) -> ProgramSolution:
    """The optimum over all routings and splits of the unbinned problem, to 1e-8.

    The prices of a binned optimum say where unbinned lengths would change pools. Bins are cut there, and the program is
    solved again, until those prices prove that nothing better is left for the split; then splits are chosen anew.

    Raises:
        SolverError: as ``RoutingProgram.solve``.
    """
    routing = CheapestRouting(problem, remote)
    edges = set(cut(problem, remote, options.bins))
    split = -1
    for _ in range(_ROUNDS):
        lengths = binned(problem, remote, tuple(sorted(edges)))
        program = RoutingProgram(len(lengths.weights))
        best = program.solve(problem, remote, lengths, options)
        if best.prefill_instances == split:
            break
        split = best.prefill_instances
        for _ in range(_ROUNDS):
            best = program.solve_split(problem, remote, lengths, options, split)
            borders, bound_rps = _prove(problem, remote, routing, best)
            if bound_rps <= best.throughput_rps * (1 + _SETTLED) or borders <= edges:
                break
            edges |= borders
            lengths = binned(problem, remote, tuple(sorted(edges)))
            program = RoutingProgram(len(lengths.weights))
    return best


def _prove(
    problem: TwoPoolProblem, remote: RemotePool, routing: CheapestRouting, best: ProgramSolution
) -> tuple[set[float], float]:
    """Where lengths change pools at the prices of a binned optimum, and the unbinned bound that they prove."""
    assert best.prices is not None
    a, p, b = best.prices
    decode_rps = problem.decode_limit_rps(best.prefill_instances)
    if max(a, p, b) <= 0:
        return set(), decode_rps
    offloaded = routing.offloaded(a, p, b)
    loads = problem.loads(offloaded)
    spent = a * remote.usable_instances + b * remote.egress_bytes_per_s
    spent += p * problem.usable_prefill(best.prefill_instances)
    mean = a * loads.remote_s + b * loads.sent_bytes + p * loads.local_s
    inner = [x for x in itertools.chain.from_iterable(offloaded) if 0 < x < problem.lengths.high]
    return {x for edge in inner for x in (float(np.nextafter(edge, 0.0)), edge)}, min(spent / mean, decode_rps)
