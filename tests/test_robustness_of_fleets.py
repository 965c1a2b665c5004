"""Figures of a fleet that are off, against the two-pool planner's own answer to the same question."""

from __future__ import annotations

import pytest

from prfaas_opt import load_scenario, plan, plan_fleet
from prfaas_opt.planning.fleets.network import network_of
from prfaas_opt.planning.fleets.robustness import with_figure_off
from prfaas_opt.planning.variations import FIGURES
from tests.fleets import case_study_fleet


def test_the_case_study_moves_as_its_two_pool_plan_does() -> None:
    scenario = load_scenario(overrides={"links.0.bandwidth": "12Gbps"})
    exact, fleet = plan(scenario, sensitivity=True).sensitivity, plan_fleet(scenario, sensitivity=True).sensitivity
    assert exact is not None
    assert fleet is not None
    assert [(row.figure, row.off_by_share) for row in fleet] == [(row.figure, row.off_by_share) for row in exact]
    for ours, theirs in zip(fleet, exact, strict=True):
        assert ours.deployed_rps == pytest.approx(theirs.deployed_rps, rel=1e-4)
        assert ours.replanned_rps == pytest.approx(theirs.replanned_rps, rel=1e-4)
        assert ours.counts_change == theirs.split_changes


@pytest.mark.parametrize("figure", FIGURES)
def test_only_the_figure_that_is_off_changes(figure: str) -> None:
    network = network_of(case_study_fleet())
    changed = with_figure_off(network, next(each for each in FIGURES if each == figure), 1.25)
    assert changed is not None
    moved = {
        "mean input length": changed.streams[0].lengths.mean / network.streams[0].lengths.mean,
        "link bandwidth": changed.pipes[0].bytes_per_s.most / network.pipes[0].bytes_per_s.most,
        "remote prefill latency": changed.ways[1].prefill_s(5000) / network.ways[1].prefill_s(5000),
        "local prefill latency": changed.ways[0].prefill_s(5000) / network.ways[0].prefill_s(5000),
    }
    assert moved.pop(figure) == pytest.approx(1.25, rel=1e-6)
    assert all(factor == 1.0 for factor in moved.values())
