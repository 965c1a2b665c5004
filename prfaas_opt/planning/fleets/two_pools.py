"""The problem of two pools as a network: the linear program is an independent check of the exact search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.fleet import Limits
from prfaas_opt.planning.fleets.network import Decoder, Demand, Gpus, Network, Pipe, Team, Way
from prfaas_opt.planning.fleets.solve import most_scale
from prfaas_opt.profiles.curve import Curve, Piece
from prfaas_opt.workload.distribution import constant

if TYPE_CHECKING:
    from prfaas_opt.planning.options import SolverOptions
    from prfaas_opt.planning.problem import TwoPoolProblem

_GAP_SHARE = 1e-9


def network_of_two_pools(problem: TwoPoolProblem) -> Network:
    """The plan's problem or a baseline's: the splits that it allows, and its remote pool if it has one.

    The remote pool is one instance with a ceiling of all that may be used of them. Requests that have no choice are a
    stream of their own, all of one length, which takes what they take on average.
    """
    held = Limits(problem.pd_instances, problem.pd_instances)
    gpus = [Gpus("pd", held)]
    teams = [Team("pd", "", "", "decode", 0, 1, problem.pd_ceiling)]
    pipes, ways = [], []
    if len(problem.splits) > 1:
        ways.append(Way(0, len(teams), 0, problem.local_prefill_s))
        teams.append(Team("pd", "", "", "prefill", 0, 1, problem.pd_ceiling))
    remote = problem.remote
    if remote is not None:
        rate = Limits(remote.egress_bytes_per_s, remote.egress_bytes_per_s)
        pipes.append(Pipe("prfaas to pd", rate))
        ways.append(Way(0, len(teams), 0, remote.prefill_s, 0, remote.kv_bytes))
        gpus.append(Gpus("prfaas", Limits(1, 1)))
        teams.append(Team("prfaas", "", "", "prefill", 1, 1, remote.usable_instances))
    streams: list[Demand] = [Demand("", problem.lengths, 1.0)]
    staying = problem.staying
    if staying.share > 0:
        choosing = problem.lengths.moment(0.0)
        lengths = problem.lengths.up_to(problem.lengths.high, 1.0 / choosing) or problem.lengths
        streams = [Demand("", lengths, choosing), Demand("staying", constant(1.0), staying.share)]
        seconds = Curve((Piece(0.0, 1.0, ((staying.local_s / staying.share, 0.0),)),), 0.0, 1.0)
        ways += [Way(1, 1, 0, seconds)] if len(problem.splits) > 1 else []
    return Network(
        streams=tuple(streams),
        sites=("pd",),
        gpus=tuple(gpus),
        pipes=tuple(pipes),
        teams=tuple(teams),
        ways=tuple(ways),
        decoders=tuple(Decoder(s, 0, 0, problem.decode_rps_per_instance) for s in range(len(streams))),
    )


def solve_program(problem: TwoPoolProblem, options: SolverOptions) -> float:
    """The optimum over all routings and splits of the unbinned problem, in requests/s.

    Raises:
        SolverError: the solver is missing, fails or stops at a limit.
    """
    gap = _GAP_SHARE if options.mip_gap_share is None else options.mip_gap_share
    solved = most_scale(network_of_two_pools(problem), options, gap)
    if solved is None or solved.found.stopped:
        message = f"{options.solver} stopped before it proved an optimum"
        raise SolverError(Problem("solver-limit", "--solver", message, "allow it more time, or a wider gap"))
    return solved.shared_scale * solved.demand_rps
