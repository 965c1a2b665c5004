"""Failures and what-ifs against trying every threshold in every split of what is left or added.

A failure names the seed: ``scenario_of(seed)`` makes its scenario again.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prfaas_opt import results
from prfaas_opt.api import plan
from prfaas_opt.errors import InfeasibleError
from tests.oracle import Oracle, oracle_of
from tests.scenarios import case_like, random_scenario
from tests.terms_oracle import assert_none_wrong, differ, terms_oracle_of


def scenario_of(seed: int) -> dict[str, Any]:
    """A random scenario of few instances, so that one of them matters, under either estimator."""
    scenario = random_scenario(seed)
    rng = np.random.default_rng(500_000 + seed)
    for cluster in scenario["clusters"].values():
        cluster["instances"] = int(rng.integers(1, 7))
    return scenario


def planned(scenario: dict[str, Any]) -> results.Plan | None:
    try:
        return plan(scenario)
    except InfeasibleError:
        return None


def best_of(oracle: Oracle, split: int | None = None) -> float:
    """Over all thresholds, of one split or of all; a split that the cluster has not serves nothing."""
    rates = oracle.throughput_rps if oracle.pd_instances else np.zeros((1, 1))
    if split is None:
        return float(rates.max())
    return float(rates[:, split].max()) if 0 <= split < rates.shape[1] else 0.0


def with_counts(oracle: Oracle, scenario: dict[str, Any], remote: int = 0, pd: int = 0) -> Oracle:
    """The oracle with more or fewer instances."""
    there = scenario["clusters"].get("there")
    ceiling = there.get("max_utilization", 1.0) if there else 1.0
    left = (there["instances"] if there else 0) + remote
    return dataclasses.replace(
        oracle,
        remote_instances=left * ceiling,
        egress_bytes_per_s=oracle.egress_bytes_per_s if left else 0.0,
        pd_instances=oracle.pd_instances + pd,
    )


def without_remote(oracle: Oracle) -> Oracle:
    return dataclasses.replace(oracle, remote_instances=0.0, egress_bytes_per_s=0.0)


def expected_failures(scenario: dict[str, Any], split: int) -> dict[str, tuple[float, float]]:
    """What is served with fixed roles and after a new split, by what is lost."""
    oracle = oracle_of(scenario)
    pd, there = scenario["clusters"]["here"], scenario["clusters"].get("there")
    fewer = with_counts(oracle, scenario, pd=-1)
    expected = {"site here": (0.0, 0.0)}
    expected[f"one {pd['hardware']} decode instance"] = best_of(fewer, split), best_of(fewer)
    if split:
        expected[f"one {pd['hardware']} prefill instance"] = best_of(fewer, split - 1), best_of(fewer)
    if there is not None and oracle.egress_bytes_per_s > 0:
        alone, one_less = without_remote(oracle), with_counts(oracle, scenario, remote=-1)
        for lost in ("link there to here", "site there"):
            expected[lost] = best_of(alone, split), best_of(alone)
        expected[f"one {there['hardware']} instance"] = best_of(one_less, split), best_of(one_less)
    return expected


def wrong_failures(scenario: dict[str, Any]) -> Iterator[str]:
    found = planned(scenario)
    if found is None:
        return
    expected = expected_failures(scenario, found.instances.pd_prefill)
    rows = {lost.lost: lost for lost in found.failures}
    if set(rows) != set(expected) or len(rows) != len(found.failures):
        yield f"{sorted(rows)}, expected {sorted(expected)}"
    for name, (fixed, anew) in expected.items():
        row = rows[name]
        if differ(row.fixed_roles_rps, fixed) or differ(row.resplit_rps, anew):
            yield f"{row}, expected {fixed!r} and {anew!r}"
        if row.fixed_roles_rps > row.resplit_rps:
            yield f"{row} serves less when split anew"
        for said, rate in (
            (row.fixed_roles_served_share, row.fixed_roles_rps),
            (row.resplit_served_share, row.resplit_rps),
        ):
            if differ(said, min(rate / found.throughput_rps, 1.0)) or said > 1:
                yield f"{row}: share {said!r}"
        if (row.resplit_instances is None) != (row.resplit_rps == 0):
            yield f"{row}: instances"


def wrong_what_ifs(scenario: dict[str, Any]) -> Iterator[str]:
    found = planned(scenario)
    if found is None:
        return
    oracle, split, rate = oracle_of(scenario), found.instances.pd_prefill, found.throughput_rps
    more_pd = with_counts(oracle, scenario, pd=1)
    expected = {"here": (more_pd, {"pd_decode": split} | ({"pd_prefill": split + 1} if split else {}))}
    if "there" in scenario["clusters"] and oracle.egress_bytes_per_s > 0:
        expected["there"] = with_counts(oracle, scenario, remote=1), {"prfaas": split}
        wider = dataclasses.replace(oracle, egress_bytes_per_s=1.1 * oracle.egress_bytes_per_s)
        expected["there to here"] = wider, {"egress": split}
    rows = {row.resource: row for row in found.what_ifs}
    slower = rows.pop("slo.tokens_per_s", None)
    if set(rows) != set(expected):
        yield f"{sorted(rows)}, expected {sorted(expected)}"
    for name, (changed, fixed) in expected.items():
        row = rows[name]
        if differ(row.throughput_rps, best_of(changed)):
            yield f"{row}, expected {best_of(changed)!r}"
        if differ(rate + row.gain_rps, max(best_of(changed), rate)) or differ(row.gain_share, row.gain_rps / rate):
            yield f"{row}: gain"
        gains = {stage: max(best_of(changed, each) - rate, 0.0) for stage, each in fixed.items()}
        if set(gains) != set(row.fixed_roles_gain_rps):
            yield f"{row}, expected {gains}"
        for stage, said in row.fixed_roles_gain_rps.items():
            gain = gains[stage]
            if differ(rate + said, rate + gain) or said > row.gain_rps * (1 + 1e-9):
                yield f"{row}: {stage} {said!r}, expected {gain!r}"
    if slower is not None:
        less = copy.deepcopy(scenario)
        less["slo"]["tokens_per_s"] -= 1
        if differ(slower.throughput_rps, oracle_of(less).best_rps):
            yield f"{slower}"
    gains_in_order = [row.gain_rps for row in found.what_ifs]
    if gains_in_order != sorted(gains_in_order, reverse=True):
        yield "not by gain"


def test_failures_are_what_planning_anew_leaves() -> None:
    assert_none_wrong(wrong_failures, scenario_of, range(150))


def test_what_ifs_are_what_planning_anew_gives() -> None:
    assert_none_wrong(wrong_what_ifs, scenario_of, range(1000, 1150))


def test_roles_as_they_are_and_split_anew_differ_often_enough_to_test_them() -> None:
    plans = [each for each in map(planned, map(scenario_of, range(60))) if each is not None]
    rows = [row for each in plans for row in each.failures]
    assert sum(row.fixed_roles_rps < 0.99 * row.resplit_rps for row in rows) > 20
    assert sum(0 < row.resplit_served_share < 1 for row in rows) > 40
    gains = [row for each in plans for row in each.what_ifs if row.fixed_roles_gain_rps]
    assert sum(max(row.fixed_roles_gain_rps.values()) < 0.9 * row.gain_rps for row in gains) > 5


def with_classes(seed: int) -> dict[str, Any]:
    """A scenario where some requests must stay, and some fit nowhere."""
    scenario = scenario_of(seed) | {"estimator": "expected-time"}
    rng = np.random.default_rng(600_000 + seed)
    if "there" in scenario["clusters"]:
        scenario["residency"] = {"stay_share": float(rng.uniform(0, 0.5))}
        scenario["clusters"]["there"]["max_context"] = int(rng.integers(100, 3000))
    return scenario


def wrong_failures_with_classes(scenario: dict[str, Any]) -> Iterator[str]:
    found = planned(scenario)
    if found is None:
        return
    oracle, split = terms_oracle_of(scenario), found.instances.pd_prefill
    given = oracle.given
    for row in found.failures:
        have, at = given, split
        if row.kind == "link" or row.lost == "site there":
            have = dataclasses.replace(given, remote=0)
        elif "decode" in row.lost or "prefill" in row.lost:
            have, at = dataclasses.replace(given, pd=given.pd - 1), split - ("prefill" in row.lost)
        elif row.kind == "instance":
            have = dataclasses.replace(given, remote=given.remote - 1)
        else:
            have = dataclasses.replace(given, pd=0)
        splits = oracle.splits(have)
        fixed = oracle.best_of_split(at, have) if at in splits else 0.0
        if differ(row.fixed_roles_rps, fixed) or differ(row.resplit_rps, oracle.best(have)):
            yield f"{row}, expected {fixed!r} and {oracle.best(have)!r}"


def test_failures_where_some_have_no_choice() -> None:
    assert_none_wrong(wrong_failures_with_classes, with_classes, range(2000, 2070))


# By hand


def test_the_loss_of_a_site_leaves_what_the_other_serves_alone() -> None:
    scenario = case_like()
    found = plan(scenario)
    alone = copy.deepcopy(scenario)
    del alone["clusters"]["there"], alone["links"]
    left = plan(alone)
    rows = {row.lost: row for row in found.failures}
    for lost in ("link there to here", "site there"):
        assert rows[lost].resplit_rps == pytest.approx(left.throughput_rps, rel=1e-12)
        assert rows[lost].resplit_served_share == pytest.approx(left.throughput_rps / found.throughput_rps, rel=1e-12)
        instances = rows[lost].resplit_instances
        assert instances is not None
        assert (instances.pd_prefill, instances.pd_decode) == (left.instances.pd_prefill, left.instances.pd_decode)
    assert rows["site here"].resplit_rps == 0.0
    assert rows["site here"].resplit_instances is None


def test_of_two_instances_here_one_lost_leaves_remote_prefill() -> None:
    scenario = case_like(pd=2, remote=2)
    found = plan(scenario)
    lost = {row.lost: row for row in found.failures}["one LOCAL prefill instance"]
    expected = plan(case_like(pd=1, remote=2)).throughput_rps
    assert lost.fixed_roles_rps == pytest.approx(expected, rel=1e-12)
    assert not math.isclose(expected, found.throughput_rps)
