"""The oracle of fleets against brute force, the two-pool planner, and what must hold of any fleet."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from prfaas_opt.api import load_scenario, plan
from prfaas_opt.errors import InfeasibleError
from prfaas_opt.fleet import Fleet, Limits, Role, fleet_of
from prfaas_opt.io.scenario_file import load_fleet
from tests.fleet_oracle import (
    Count,
    best_throughput,
    best_throughput_of,
    binned,
    brute_force_cost,
    brute_force_throughput,
    gpus_used,
    least_cost,
    relaxed_least_cost,
    relaxed_throughput,
)
from tests.fleets import ATOMS, ROLES, case_study_fleet, doubled, random_fleet, split_in_two
from tests.oracle import oracle_of
from tests.scenarios import case_like, random_scenario

INSTANCE = Path(__file__).parents[1] / "scripts" / "instances" / "sizing.yaml"
SAME = 1e-6
"""Relative difference of two solutions: the integer solver calls 1e-6 of an instance none."""


def fleet(seed: int, *, sized: bool = False, tiny: bool = False) -> Fleet:
    return random_fleet(np.random.default_rng(seed), sized=sized, tiny=tiny)


def test_bins_integrate_as_closed_forms_do() -> None:
    """Whatever the number of bins, the mean of a curve over all of them is the mean over the lengths."""
    for seed in range(40):
        for stream in fleet(seed).streams:
            lengths = stream.workload.input_tokens
            for profile in stream.model.profiles:
                edges = [piece.high for piece in profile.kv_bytes.pieces]
                coarse, fine = binned(lengths, 5, edges), binned(lengths, 100, edges)
                assert coarse.masses.sum() == pytest.approx(1.0, rel=1e-12)
                assert coarse.masses @ coarse.lengths == pytest.approx(lengths.mean, rel=1e-7)
                means = [b.weights @ b.means(profile.kv_bytes) for b in (coarse, fine)]
                assert means[0] == pytest.approx(means[1], rel=1e-7)


def test_case_study_is_approached_from_below() -> None:
    bound_rps = plan().bound_rps
    assert bound_rps is not None
    assert bound_rps == pytest.approx(3.149482, abs=1e-6)
    found = [best_throughput(case_study_fleet(), bins) for bins in (10, 40, 160, 640)]
    rates = [rate for rate, _ in found]
    assert all(a < b for a, b in itertools.pairwise(rates))
    assert bound_rps * (1 - 1e-6) < rates[-1] <= bound_rps * (1 + 1e-12)
    assert {tuple(key)[1:]: n for key, n in found[-1][1].items()} == {
        ("prfaas", "H200", "prefill"): 4,
        ("pd", "H20", "prefill"): 3,
        ("pd", "H20", "decode"): 5,
    }


def test_two_pools_agree_with_the_other_oracle() -> None:
    """Its best free routing is proven by prices, so that it bounds every number of bins, and many bins come near."""
    checked = 0
    scenarios = [random_scenario(seed, "expected-time") for seed in range(20)]
    scenarios += [case_like(gbps=gbps, remote=remote) for gbps in (0.5, 4.0, 20.0) for remote in (1, 3)]
    for scenario in scenarios:
        try:
            loaded = load_scenario(scenario)
        except InfeasibleError:
            continue
        other = oracle_of(scenario).best_free_routing()
        rate = best_throughput(fleet_of(loaded), 300)[0]
        assert rate <= other.proven_rps * (1 + 1e-9)
        assert rate >= other.proven_rps * (1 - 1e-3)
        checked += rate > 0
    assert checked > 15


def test_integer_program_against_brute_force() -> None:
    served = 0
    for seed in range(30):
        tiny = fleet(seed, tiny=True)
        try:
            expected, _ = brute_force_throughput(tiny, 8)
        except ValueError:
            continue
        rate, counts = best_throughput(tiny, 8)
        assert rate == pytest.approx(expected, rel=SAME), seed
        assert best_throughput_of(tiny, counts, 8) == pytest.approx(rate, rel=SAME), seed
        assert rate <= relaxed_throughput(tiny, 8) * (1 + SAME), seed
        served += rate > 0
    assert served > 15


def test_sizing_against_brute_force() -> None:
    served = 0
    for seed in range(30):
        tiny = fleet(seed, tiny=True, sized=True)
        try:
            expected = brute_force_cost(tiny, 6)
        except ValueError:
            continue
        found = least_cost(tiny, 6)
        assert (found is None) == (expected is None), seed
        if found is not None and expected is not None:
            relaxed = relaxed_least_cost(tiny, 6)
            assert relaxed is not None
            assert found.usd_per_hour == pytest.approx(expected, rel=SAME, abs=1e-9), seed
            assert relaxed.usd_per_hour <= found.usd_per_hour * (1 + SAME) + 1e-9, seed
            served += 1
    assert served > 10


def test_cost_adds_up_and_respects_limits() -> None:
    for seed in range(40):
        sized = fleet(seed, sized=True)
        found = least_cost(sized, 12)
        if found is None:
            continue
        used = gpus_used(sized, {key: round(n) for key, n in found.counts.items()})
        usd = 0.0
        for site in sized.sites:
            for holding in site.holdings:
                paid = found.gpus[site.name, holding.hardware]
                assert holding.gpus.least - 1e-6 <= paid <= holding.gpus.most + 1e-6
                assert paid >= used.get((site.name, holding.hardware), 0) - 1e-6
                usd += paid * (holding.usd_per_gpu_hour or 0.0)
        for link, bandwidth in zip(sized.connections, found.bandwidths, strict=True):
            assert bandwidth <= link.bandwidth_bytes_per_s.most * (1 + 1e-9)
            usd += bandwidth * 8e-9 * (link.usd_per_gbps_hour or 0.0)
        assert usd <= found.usd_per_hour * (1 + SAME) + 1e-6, "the rest is for bytes sent"
        assert found.bound_usd_per_hour <= found.usd_per_hour * (1 + SAME) + 1e-6


def test_sized_fleet_carries_its_demand() -> None:
    """Given what was bought, the plan serves the demands."""
    for seed in range(40):
        sized = fleet(seed, sized=True)
        found = least_cost(sized, 12)
        if found is None:
            continue
        sites = tuple(
            dataclasses.replace(
                site,
                holdings=tuple(
                    dataclasses.replace(h, gpus=Limits(gpus, gpus))
                    for h in site.holdings
                    for gpus in [float(round(found.gpus[site.name, h.hardware]))]
                ),
            )
            for site in sized.sites
        )
        links = tuple(
            dataclasses.replace(link, bandwidth_bytes_per_s=Limits(rate, rate))
            for link, rate in zip(sized.connections, found.bandwidths, strict=True)
        )
        bought = dataclasses.replace(sized, sites=sites, connections=links)
        assert best_throughput(bought, 12)[0] >= sized.demand_rps * (1 - 1e-5), seed


def test_budget_is_sizing_turned_round() -> None:
    """What the least cost buys is the demand, at least; a larger factor costs more than the budget."""
    checked = 0
    for seed in range(20):
        sized = fleet(seed, sized=True)
        cheapest = least_cost(sized, 8)
        if cheapest is None or cheapest.usd_per_hour == 0:
            continue
        most = least_cost(sized, 8, budget=cheapest.usd_per_hour)
        assert most is not None
        assert most.demand_factor >= 1 - 1e-5, seed
        assert most.usd_per_hour <= cheapest.usd_per_hour * (1 + 1e-5), seed
        more = least_cost(sized, 8, demand_factor=most.demand_factor * 1.01)
        assert more is None or more.usd_per_hour >= cheapest.usd_per_hour * (1 - 1e-5), seed
        checked += 1
    assert checked > 10


def test_bins_change_nothing_where_lengths_are_atoms() -> None:
    for seed in range(20):
        atoms = random_fleet(np.random.default_rng(seed), kinds=ATOMS)
        assert best_throughput(atoms, 1)[0] == best_throughput(atoms, 300)[0], seed


def test_more_bins_are_never_worse() -> None:
    """Here each number of bins divides the next one, so that the coarser routing is still possible."""
    for seed in range(12):
        each = fleet(seed, tiny=True)
        rates = [best_throughput(each, bins)[0] for bins in (4, 16, 64)]
        assert all(a <= b * (1 + SAME) for a, b in itertools.pairwise(rates)), seed


@pytest.mark.parametrize("roles", [("prefill",), ("pd",), ROLES])
def test_twins_carry_what_one_of_twice_the_size_does(roles: tuple[Role, ...]) -> None:
    for seed in range(20):
        whole = doubled(fleet(seed), roles)
        halves = split_in_two(whole, roles)
        assert relaxed_throughput(halves, 8) == pytest.approx(relaxed_throughput(whole, 8), rel=SAME), seed


def test_remote_halves_of_the_case_study() -> None:
    """Four remote instances are two and two."""
    whole = case_study_fleet()
    halves = split_in_two(whole, ("prefill",))
    assert best_throughput(halves, 60)[0] == pytest.approx(best_throughput(whole, 60)[0], rel=SAME)


def test_halves_carry_no_more_than_the_whole() -> None:
    for seed in range(15):
        whole = doubled(fleet(seed, tiny=True))
        carried, most = best_throughput(split_in_two(whole), 6)[0], best_throughput(whole, 6)[0]
        assert carried <= most * (1 + SAME), seed


def test_odd_sites_are_not_split() -> None:
    quarters = split_in_two(split_in_two(case_study_fleet(), ("prefill",)), ("prefill",))
    eighths = split_in_two(split_in_two(quarters, ("prefill",)), ("prefill",))
    with pytest.raises(ValueError, match="not even"):
        split_in_two(split_in_two(eighths, ("prefill",)), ("prefill",))


def test_given_counts() -> None:
    whole = case_study_fleet()
    remote, prefill, decode = (
        Count("internal-1t", *rest)
        for rest in (("prfaas", "H200", "prefill"), ("pd", "H20", "prefill"), ("pd", "H20", "decode"))
    )
    assert best_throughput_of(whole, {remote: 4, prefill: 3, decode: 5}) == pytest.approx(3.149482, abs=1e-6)
    assert best_throughput_of(whole, {remote: 4, prefill: 3}) == 0.0
    with pytest.raises(ValueError, match="GPUs used"):
        best_throughput_of(whole, {decode: 9})
    with pytest.raises(ValueError, match="no use"):
        best_throughput_of(whole, {remote._replace(role="decode"): 1})


def test_sizing_instance_is_what_it_was() -> None:
    """Its relaxation, so that times and gaps measured on it stay comparable; its integers take too long here."""
    instance = load_fleet(INSTANCE)
    assert (len(instance.streams), len(instance.sites), len(instance.connections)) == (12, 6, 9)
    relaxed = relaxed_least_cost(instance, 64)
    assert relaxed is not None
    assert relaxed.usd_per_hour == pytest.approx(2027.979, abs=1e-3)
