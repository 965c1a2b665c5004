"""The mixed-integer program, free routing and the proof against each other on random scenarios."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import optimize

from prfaas_opt import api, load_scenario, units
from prfaas_opt.errors import InfeasibleError, InputError, SolverError
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.fleets.bins import Bins, edges_of
from prfaas_opt.planning.fleets.two_pools import network_of_two_pools, solve_program
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.planning.problem import TwoPoolProblem
from prfaas_opt.planning.split import Solution, solve
from tests.scenarios import random_scenario

QUICK = SolverOptions(bins=64)


def problems(first_seed: int, count: int) -> Iterator[tuple[int, TwoPoolProblem]]:
    """Random expected-time problems that have a plan and a remote pool."""
    for seed in range(first_seed, first_seed + count):
        with contextlib.suppress(InfeasibleError):
            problem = two_pool_problem(load_scenario(random_scenario(seed, "expected-time")))
            if problem.remote is not None and solve(problem) is not None:
                yield seed, problem


def solved(problem: TwoPoolProblem, policy: str = "threshold") -> Solution:
    solution = solve(problem, "free" if policy == "free" else "threshold")
    assert solution is not None
    return solution


def test_the_program_s_optimum_is_the_bound_of_the_exact_search() -> None:
    wrong = []
    for seed, problem in problems(500_000, 60):
        bound = solved(problem).bound_rps
        optimum = solve_program(problem, QUICK)
        assert bound is not None
        if abs(optimum / bound - 1) > 1e-6:
            wrong.append(f"seed {seed}: program {optimum!r}, bound {bound!r}")
    assert wrong == []


def test_free_routing_is_between_the_best_threshold_and_the_bound() -> None:
    with_bands = 0
    for seed, problem in problems(600_000, 600):
        threshold, free = solved(problem), solved(problem, "free")
        assert threshold.bound_rps == free.bound_rps
        assert free.bound_rps is not None
        assert free.shared_rps is not None
        rps = free.decision.throughput_rps
        assert threshold.decision.throughput_rps <= rps <= free.bound_rps * (1 + 1e-9), seed
        assert rps <= free.shared_rps * (1 + 1e-9), seed
        with_bands += not free.best_threshold
    assert with_bands > 20


def test_free_routing_of_densities_reaches_the_bound_but_for_its_last_tokens() -> None:
    model = "minimax-m2.5"
    for gbps in (1, 3, 7, 20, 45, 80):
        scenario = load_scenario(overrides={"model": model, "links.0.bandwidth": f"{gbps}Gbps"})
        best, free = api.plan(scenario), api.plan(scenario, "free")
        assert free.status == "optimal"
        assert free.bound_rps == best.bound_rps
        assert free.throughput_rps >= best.throughput_rps
        if best.status == "threshold-optimal":
            assert free.routing.kind == "bands"
            assert free.threshold_tokens is None


def test_bands_send_the_short_and_the_very_long_requests_of_a_dense_model() -> None:
    scenario = load_scenario(overrides={"model": "minimax-m2.5", "links.0.bandwidth": "20Gbps"})
    free = api.plan(scenario, "free")
    assert [band.pool for band in free.routing.bands] == ["prfaas", "pd_prefill", "prfaas"]
    edges = [(band.from_tokens, band.to_tokens) for band in free.routing.bands]
    assert edges[0][0] == 128
    assert edges[-1][1] == 131072
    assert all(high + 1 == low for (_, high), (low, _) in itertools.pairwise(edges))


def test_free_routing_of_few_lengths_claims_no_optimum_that_it_does_not_reach() -> None:
    lengths = "{distribution: table, lengths: [17294, 48690, 71533, 79357, 120254], weights: [2, 4, 4, 15, 2]}"
    scenario = load_scenario(
        overrides={
            "model": "minimax-m2.5",
            "workload": f"{{input_tokens: {lengths}, output_tokens: 64}}",
            "clusters.prfaas": "{role: prefill, hardware: H20, instances: 5}",
        }
    )
    free = api.plan(scenario, "free")
    assert free.gap_share is not None
    assert free.gap_share > 0.1
    assert free.status != "optimal"


@pytest.mark.parametrize(("gbps", "instances"), [(32, 8), (52, 7), (96, 8), (140, 9)])
def test_where_decode_binds_bands_send_no_more_than_a_linear_program(gbps: int, instances: int) -> None:
    settings = {"links.0.bandwidth": f"{gbps}Gbps", "clusters.pd.instances": str(instances)}
    scenario = load_scenario(overrides={"model": "minimax-m2.5", **settings})
    free = api.plan(scenario, "free")
    assert free.routing.kind == "bands"
    problem = two_pool_problem(scenario)
    assert problem.remote is not None
    assert free.throughput_rps == pytest.approx(problem.decode_limit_rps(free.instances.pd_prefill), rel=1e-4)
    network, rate = network_of_two_pools(problem), free.throughput_rps
    (lengths,) = Bins(network, [edges_of(network, 0, 2048)]).streams
    (local, remote), gbits = lengths.seconds.values(), units.to_gbps(1.0) * lengths.bytes[1]
    # Shares offloaded: what stays fits the local pool, what goes fits the remote one.
    least = optimize.linprog(
        gbits,
        A_ub=np.vstack([-local, remote]),
        b_ub=[free.instances.pd_prefill / rate - local.sum(), 4 / rate],
        bounds=(0, 1),
    )
    assert least.x is not None, least.message
    assert free.egress_gbps == pytest.approx(rate * float(gbits @ least.x), rel=1e-3)


@pytest.mark.parametrize("bins", [4, 64, 512])
def test_however_few_bins_it_begins_with_the_program_reaches_the_bound(bins: int) -> None:
    problem = two_pool_problem(load_scenario())
    bound = solved(problem).bound_rps
    assert bound is not None
    assert solve_program(problem, SolverOptions(bins=bins)) == pytest.approx(bound, rel=1e-8)


@pytest.mark.parametrize("bins", [4, 64, 512])
def test_bins_hold_all_requests_and_their_exact_means(bins: int) -> None:
    problem = two_pool_problem(load_scenario())
    assert problem.remote is not None
    network = network_of_two_pools(problem)
    (lengths,) = Bins(network, [edges_of(network, 0, bins)]).streams
    local, remote = lengths.seconds.values()
    assert lengths.weights.sum() == pytest.approx(1.0)
    assert local.sum() == pytest.approx(problem.local_time.total)
    assert remote.sum() == pytest.approx(problem.remote.time.total)
    assert lengths.bytes[1].sum() == pytest.approx(problem.remote.sent.total)


def test_the_baselines_are_the_same_program_with_less_in_it() -> None:
    from prfaas_opt.planning.build import homogeneous_scenario, naive_problem

    scenario = load_scenario()
    naive = naive_problem(scenario)
    assert naive is not None
    baselines = {"homogeneous-pd": two_pool_problem(homogeneous_scenario(scenario)), "naive-heterogeneous": naive}
    exact: dict[str, float] = {each.name: each.throughput_rps for each in api.compare(scenario).deployments}
    for name, problem in baselines.items():
        assert solve_program(problem, QUICK) == pytest.approx(exact[name], rel=1e-7)


def test_a_check_by_another_solver_agrees() -> None:
    best = api.plan()
    check = api.check_by_solver(None, best, SolverOptions(solver="SCIPY", bins=64))
    assert abs(check.relative_difference) < 1e-6


def test_a_plan_that_claims_too_much_is_caught() -> None:
    import msgspec

    from prfaas_opt.errors import CertificationError

    best = api.plan()
    assert best.bound_rps is not None
    claiming = msgspec.structs.replace(best, bound_rps=best.bound_rps * 1.001)
    with pytest.raises(CertificationError, match="HIGHS finds"):
        api.check_by_solver(None, claiming, QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SolverOptions(solver="GLOP"), "there is no solver GLOP here"),
        (SolverOptions(time_limit_s=1e-6), "stopped (before it proved an optimum|.time limit. before it found)"),
        (SolverOptions(solver="SCIPY", time_limit_s=1.0), "reaches HiGHS only"),
    ],
)
def test_a_solver_that_cannot_is_an_error(options: SolverOptions, message: str) -> None:
    with pytest.raises(SolverError, match=message):
        api.check_by_solver(None, api.plan(), options)


def test_without_a_program_a_check_is_an_error() -> None:
    paper = load_scenario(overrides={"estimator": "mean-length"})
    with pytest.raises(InputError, match="mean-length is not additive"):
        api.check_by_solver(paper, api.plan(paper), QUICK)
