"""The cheapest fleet for a demand and the most for a budget, against the oracle, brute force and themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import pytest

from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.fleet import Connection, Fleet, Holding, Limits
from prfaas_opt.planning.fleets.network import network_of
from prfaas_opt.planning.fleets.solve import Solved, least_cost, most_scale
from prfaas_opt.planning.options import SolverOptions
from tests import fleet_oracle
from tests.fleet_bins import gpus_used
from tests.fleet_check import evaluated
from tests.fleets import ATOMS, LENGTH_KINDS, case_study_fleet, random_fleet

GAP = 1e-6
QUICK = SolverOptions(bins=64)
A_TOKEN = 1e-3
"""Relative cost of whole tokens at the borders of bands."""
NOTHING = 1e-9
"""USD an hour."""
DENSITIES = tuple(kind for kind in LENGTH_KINDS if kind not in ATOMS)


def fleet(seed: int, *, tiny: bool = False, kinds: tuple[str, ...] = LENGTH_KINDS) -> Fleet:
    return random_fleet(np.random.default_rng(seed), sized=True, tiny=tiny, kinds=kinds)


def sized(of: Fleet, options: SolverOptions = QUICK) -> Solved | None:
    """The cheapest fleet; None where the limits allow none."""
    with contextlib.suppress(InputError, InfeasibleError):
        return least_cost(network_of(of), options, GAP)
    return None


@functools.cache
def sized_whole(seed: int) -> Solved | None:
    """The cheapest fleet of a seed, made once."""
    return sized(fleet(seed))


def search_usd(found: Solved) -> float:
    """USD an hour of the search's own point, before borders are rounded to whole tokens."""
    return found.found.solution.usd_per_hour


def factor_within(of: Fleet, budget_usd_per_hour: float) -> tuple[Solved, float]:
    """The most for a budget, and how many times the demands that is."""
    found = most_scale(network_of(of), QUICK, GAP, budget_usd_per_hour=budget_usd_per_hour)
    assert found is not None
    return found, found.found.solution.scale * found.demand_rps / of.demand_rps


def demanding(of: Fleet, factor: float) -> Fleet:
    """The fleet with every demand multiplied."""
    streams = (dataclasses.replace(stream, demand_rps=factor * stream.demand_rps) for stream in of.streams)
    return dataclasses.replace(of, streams=tuple(streams))


def priced(of: Fleet, factor: float) -> Fleet:
    """The fleet with every price multiplied."""

    def times(price: float | None) -> float | None:
        return None if price is None else factor * price

    def holding(each: Holding) -> Holding:
        return dataclasses.replace(each, usd_per_gpu_hour=times(each.usd_per_gpu_hour))

    def link(each: Connection) -> Connection:
        prices = times(each.usd_per_gbps_hour), times(each.usd_per_gb)
        return dataclasses.replace(each, usd_per_gbps_hour=prices[0], usd_per_gb=prices[1])

    sites = (dataclasses.replace(site, holdings=tuple(map(holding, site.holdings))) for site in of.sites)
    return dataclasses.replace(of, sites=tuple(sites), connections=tuple(map(link, of.connections)))


@pytest.mark.parametrize("seed", range(40))
def test_cost_and_bound_against_the_oracle(seed: int) -> None:
    """Every fourth fleet has single lengths only, on which the oracle is exact."""
    exact = seed % 4 == 0
    asked = fleet(seed, kinds=ATOMS if exact else LENGTH_KINDS)
    expected = fleet_oracle.least_cost(asked, 40)
    found = sized(asked) if exact else sized_whole(seed)
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return
    assert found.bound <= expected.usd_per_hour * (1 + GAP) + NOTHING
    assert found.bound <= search_usd(found) * (1 + 1e-9) + NOTHING
    assert search_usd(found) == pytest.approx(found.bound, rel=GAP, abs=NOTHING)
    assert search_usd(found) <= expected.usd_per_hour * (1 + 2 * GAP) + NOTHING
    assert found.usd_per_hour == pytest.approx(found.bound, rel=1e-5 if exact else A_TOKEN, abs=NOTHING)
    if exact:
        assert found.bound == pytest.approx(expected.usd_per_hour, rel=1e-5, abs=NOTHING)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_bought_serves_the_demands(seed: int) -> None:
    asked, found = fleet(seed), sized_whole(seed)
    if found is None:
        assert fleet_oracle.relaxed_least_cost(asked, 8) is None or fleet_oracle.least_cost(asked, 40) is None
        return
    assert found.scale == 1.0
    evaluation = evaluated(asked, found.network, found.decision)
    evaluation.check_limits()
    assert evaluation.throughput_rps >= asked.demand_rps * (1 - GAP)
    assert evaluation.usd_per_hour(asked.demand_rps) == pytest.approx(found.usd_per_hour, rel=1e-6, abs=NOTHING)
    used = gpus_used(asked, evaluation.counts)
    holdings = [(site.name, holding) for site in asked.sites for holding in site.holdings]
    for (site, holding), gpus in zip(holdings, evaluation.gpus, strict=True):
        needed = max(holding.gpus.least, used.get((site, holding.hardware), 0))
        assert gpus == pytest.approx(needed, abs=1e-6), (site, holding.hardware)
    for link, bandwidth, sent in zip(asked.connections, evaluation.bandwidths, evaluation.sent_bytes, strict=True):
        needed = max(link.bandwidth_bytes_per_s.least, asked.demand_rps * sent / link.max_utilization)
        assert bandwidth == pytest.approx(needed, rel=1e-6, abs=1e-6), link


def test_small_fleets_against_brute_force() -> None:
    checked = 0
    for seed in range(24):
        asked = fleet(seed, tiny=True, kinds=ATOMS)
        try:
            expected = fleet_oracle.brute_force_cost(asked, 1)
        except ValueError:
            continue
        found = sized(asked)
        assert (found is None) == (expected is None), seed
        if found is not None and expected is not None:
            assert found.usd_per_hour == pytest.approx(expected, rel=1e-5, abs=NOTHING), seed
            assert found.bound == pytest.approx(expected, rel=1e-5, abs=NOTHING), seed
            checked += 1
    assert checked > 8


@pytest.mark.parametrize("bins", [8, 16])
@pytest.mark.parametrize("seed", [9, 27, 61, 62, 110])
def test_bound_is_no_artefact_of_bins(seed: int, bins: int) -> None:
    """On fleets whose cost so few bins overstate, ten times as many do not undercut what the search began with."""
    asked = fleet(seed, tiny=True, kinds=DENSITIES)
    found = sized(asked, SolverOptions(bins=bins))
    coarse, fine = fleet_oracle.least_cost(asked, bins), fleet_oracle.least_cost(asked, 160)
    assert found is not None
    assert coarse is not None
    assert fine is not None
    assert coarse.usd_per_hour > fine.usd_per_hour * (1 + GAP)
    assert found.bound <= fine.usd_per_hour * (1 + 1e-9)
    assert found.bound == pytest.approx(fine.usd_per_hour, rel=1e-4)


def test_more_demand_is_never_cheaper() -> None:
    for seed in range(16):
        asked = fleet(seed, tiny=seed >= 4)
        costs = []
        for factor in (0.5, 1.0, 2.0):
            found = sized(demanding(asked, factor))
            costs.append((found.bound, search_usd(found)) if found else (np.inf, np.inf))
        for less, more in itertools.pairwise(costs):
            assert less[0] <= more[1] * (1 + 1e-9) + NOTHING, seed
            assert less[1] <= more[1] * (1 + 1.1 * GAP) + NOTHING, seed


def test_prices_are_a_unit() -> None:
    checked = 0
    for seed in range(12):
        once, twice = sized_whole(seed), sized(priced(fleet(seed), 2.0))
        assert (once is None) == (twice is None), seed
        if once is not None and twice is not None:
            assert search_usd(twice) == pytest.approx(2 * search_usd(once), rel=1.1 * GAP, abs=NOTHING), seed
            assert twice.bound == pytest.approx(2 * once.bound, rel=1.1 * GAP, abs=NOTHING), seed
            checked += once.usd_per_hour > 0
    assert checked > 6


@pytest.mark.parametrize("exact", [False, True])
def test_a_budget_is_spent_for_the_most(exact: bool) -> None:
    """What the demand costs buys the demand, more buys no less, and all is within the budget."""
    checked = 0
    for seed in range(16):
        asked = fleet(seed, tiny=True, kinds=ATOMS if exact else LENGTH_KINDS)
        cheapest = sized(asked)
        if cheapest is None or search_usd(cheapest) <= NOTHING:
            continue
        factors = []
        for share in (1.0, 1.3, 2.0):
            budget = share * search_usd(cheapest)
            most, factor = factor_within(asked, budget)
            evaluation = evaluated(asked, most.network, most.decision)
            evaluation.check_limits()
            rate_rps = most.scale * most.demand_rps
            assert evaluation.throughput_rps >= rate_rps * (1 - GAP), seed
            assert evaluation.usd_per_hour(rate_rps) == pytest.approx(most.usd_per_hour, rel=1e-6), seed
            assert most.usd_per_hour <= budget * (1 + 2e-6), seed
            bound = most.bound * most.demand_rps / asked.demand_rps
            assert bound * (1 - GAP) <= factor <= bound * (1 + 1e-9), seed
            other = fleet_oracle.least_cost(asked, 20, budget=budget)
            assert other is not None
            assert other.demand_factor <= bound * (1 + GAP), seed
            if exact:
                assert other.demand_factor == pytest.approx(factor, rel=1e-5), seed
            factors.append(factor)
        assert factors[0] >= 1 - 1.1 * GAP, seed
        assert all(a <= b * (1 + 1.1 * GAP) for a, b in itertools.pairwise(factors)), seed
        checked += 1
    assert checked > 8


@pytest.mark.parametrize("budget", [10.0, 50.0])
def test_a_budget_that_only_bytes_use_is_kept(budget: float) -> None:
    """Everything is sent, at 0.05 USD a gigabyte: what instances could serve beyond that is not paid for."""
    asked = case_study_fleet()
    sites = tuple(
        dataclasses.replace(site, holdings=(dataclasses.replace(site.holdings[0], gpus=Limits(8, 8)),))
        if site.role == "pd"
        else site
        for site in asked.sites
    )
    links = tuple(dataclasses.replace(link, usd_per_gb=0.05) for link in asked.connections)
    asked = dataclasses.replace(asked, sites=sites, connections=links)
    found, factor = factor_within(asked, budget)
    other = fleet_oracle.least_cost(asked, 160, budget=budget)
    assert other is not None
    assert factor == pytest.approx(other.demand_factor, rel=1e-4)
    assert found.scale <= found.bound * (1 + 1e-9)
    assert found.usd_per_hour == pytest.approx(budget, rel=2e-6)
    assert found.loads.scale > 1.5 * found.scale
