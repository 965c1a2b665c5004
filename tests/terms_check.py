"""The decision of a scenario with terms, and whether the oracle of terms finds a better one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from prfaas_opt import load_scenario, results
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.planning.build import two_pool_problem
from prfaas_opt.planning.describe import describe
from prfaas_opt.planning.split import solve
from tests.terms_oracle import TermsOracle, differ, terms_oracle_of

POINTS = ("table", "constant")
"""Kinds of lengths under which the oracle's free routing is exact."""


def solved(scenario: dict[str, Any]) -> results.Plan | None:
    """The best decision, without baselines and what may happen to it; None where nothing is served."""
    loaded = load_scenario(scenario)
    try:
        problem = two_pool_problem(loaded)
    except InfeasibleError:
        return None
    solution = solve(problem)
    return None if solution is None else describe(loaded, problem, solution, "prfaas-pd")


def index_of_split(oracle: TermsOracle, found: results.Plan) -> int:
    """The oracle's index of a plan's batch where local prefill is on the decode instances, else of its split."""
    if oracle.on_decode:
        return int(np.flatnonzero(oracle.batches == found.decode.batch)[0])
    return found.instances.pd_prefill


def wrong_optimum(scenario: dict[str, Any]) -> Iterator[str]:
    """The throughput is the best of all thresholds and splits or batches, and that of the plan's own decision."""
    oracle, found = terms_oracle_of(scenario), solved(scenario)
    # A tail so thin that its share of all is rounding is called nothing.
    best = oracle.best() if oracle.unservable_share < 1 - 1e-12 else 0.0
    if found is None:
        if best > 0:
            yield f"called infeasible, but {best!r} req/s are possible"
        return
    if differ(found.throughput_rps, best):
        yield f"throughput {found.throughput_rps!r}, the best is {best!r}"
    share = oracle.remote_share_of(found.routing.bands)
    own = float(oracle.rates(index_of_split(oracle, found), oracle.loads_of(share))[0])
    if differ(found.throughput_rps, own):
        yield f"throughput {found.throughput_rps!r}, its own decision carries {own!r}"
