"""The choice with the best worst case, against trying every decision in every corner of what may be off.

A failure names the seed: ``scenario_of(seed)`` makes its scenario again.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prfaas_opt import results
from prfaas_opt.api import plan
from prfaas_opt.errors import InfeasibleError, InputError
from tests.scenarios import case_like, random_scenario
from tests.terms_oracle import Loads, TermsOracle, assert_none_wrong, differ, terms_oracle_of
from tests.test_oracle import case_study

OFF = 0.1


def scenario_of(seed: int) -> dict[str, Any]:
    """A random scenario, some with requests that must stay or with prefill on the decode instances."""
    scenario = random_scenario(seed, "expected-time")
    rng = np.random.default_rng(400_000 + seed)
    if rng.random() < 0.2 and "there" in scenario["clusters"]:
        scenario["residency"] = {"stay_share": float(rng.uniform(0, 0.5))}
    if rng.random() < 0.15:
        scenario["local_prefill"] = "on_decode"
        decode = scenario["model"]["profiles"][0]["decode"]
        if isinstance(decode["batch"], list):
            decode["batch"] = np.cumsum(rng.integers(1, 4, size=len(decode["batch"]))).tolist()
        scenario["slo"] = {key: 0.6 * value for key, value in scenario["slo"].items()}
    return scenario


def scaled(loads: Loads, remote: float, local: float) -> Loads:
    return Loads(remote * loads.remote_s, loads.sent_bytes, local * loads.local_s)


def off(oracle: TermsOracle, split: int, loads: Loads, corner: tuple[float, float, float]) -> Any:
    """Rates where remote latency, local latency and bandwidth are off by factors."""
    remote, local, bandwidth = corner
    have = dataclasses.replace(oracle.given, egress_bytes_per_s=bandwidth * oracle.given.egress_bytes_per_s)
    return oracle.rates(split, scaled(loads, remote, local), have)


def worst(oracle: TermsOracle, split: int, loads: Loads | None = None, share: float = OFF) -> Any:
    """The least rate over all corners and the middle, at each threshold or of one routing."""
    factors = (1 - share, 1.0, 1 + share)
    corners = itertools.product(factors, factors, factors)
    return np.min([off(oracle, split, loads or oracle.loads, corner) for corner in corners], axis=0)


def index_of_split(oracle: TermsOracle, found: results.Plan) -> int:
    if oracle.on_decode:
        return int(np.flatnonzero(oracle.batches == found.decode.batch)[0])
    return found.instances.pd_prefill


def wrong_choice(scenario: dict[str, Any]) -> Iterator[str]:
    oracle = terms_oracle_of(scenario)
    best = max((float(worst(oracle, split).max()) for split in oracle.splits()), default=0.0)
    try:
        found = plan(scenario, robust_share=OFF)
    except InfeasibleError:
        if best > 0:
            yield f"infeasible, but {best!r} can be had for certain"
        return
    robust = found.robust
    assert robust is not None
    if differ(robust.worst_rps, best):
        yield f"worst case {robust.worst_rps!r}, the best is {best!r}"
    loads = oracle.loads_of(oracle.remote_share_of(found.routing.bands))
    split = index_of_split(oracle, found)
    own = float(worst(oracle, split, loads)[0])
    if differ(robust.worst_rps, own):
        yield f"worst case {robust.worst_rps!r}, its decision's is {own!r}"
    if differ(found.throughput_rps, float(oracle.rates(split, loads)[0])):
        yield f"throughput {found.throughput_rps!r} by the figures"
    if differ(robust.nominal_rps, oracle.best()):
        yield f"nominal {robust.nominal_rps!r}, expected {oracle.best()!r}"
    if robust.nominal_worst_rps > robust.worst_rps * (1 + 1e-9) or robust.nominal_rps < found.throughput_rps * (
        1 - 1e-9
    ):
        yield f"{robust}"
    if not oracle.on_decode:
        threshold = robust.nominal_threshold_tokens
        row = len(oracle.thresholds) - 1 if threshold is None else oracle.row(threshold)
        nominal_worst = float(worst(oracle, robust.nominal_instances.pd_prefill)[row])
        if differ(robust.nominal_worst_rps, nominal_worst):
            yield f"the nominal plan's worst case {robust.nominal_worst_rps!r}, expected {nominal_worst!r}"


def wrong_deviations(scenario: dict[str, Any]) -> Iterator[str]:
    """Each figure off by a tenth, in every plan: the deployed decision, and the best there is then."""
    try:
        found = plan(scenario)
    except InfeasibleError:
        return
    oracle = terms_oracle_of(scenario)
    loads = oracle.loads_of(oracle.remote_share_of(found.routing.bands))
    split = index_of_split(oracle, found)
    assert found.sensitivity is not None
    rows = {(row.figure, row.off_by_share): row for row in found.sensitivity}
    position = {"remote prefill latency": 0, "local prefill latency": 1, "link bandwidth": 2}
    offers_choice = bool((oracle.leaving > 0).any())
    figures = position if offers_choice else {"local prefill latency": 1}
    if set(rows) != {(figure, share) for figure in (*figures, "mean input length") for share in (-0.1, 0.1)}:
        yield f"{sorted(rows)}"
    for (figure, share), row in rows.items():
        if figure not in position:
            continue
        factors = [1.0, 1.0, 1.0]
        factors[position[figure]] += share
        corner = (factors[0], factors[1], factors[2])
        deployed = float(off(oracle, split, loads, corner)[0])
        anew = max(float(off(oracle, each, oracle.loads, corner).max()) for each in oracle.splits())
        if row.deployed_rps is None or row.replanned_rps is None:
            yield f"{row}"
        elif differ(row.deployed_rps, deployed) or differ(row.replanned_rps, anew):
            yield f"{row}, expected {deployed!r} and {anew!r}"


def test_the_choice_has_the_best_worst_case_of_all_decisions() -> None:
    assert_none_wrong(wrong_choice, scenario_of, range(160))


def test_every_plan_tells_how_a_tenth_moves_it() -> None:
    assert_none_wrong(wrong_deviations, scenario_of, range(1000, 1080))


def test_the_robust_choice_is_often_another_one() -> None:
    gains = []
    for seed in range(60):
        try:
            robust = plan(scenario_of(seed), robust_share=OFF).robust
        except InfeasibleError:
            continue
        assert robust is not None
        gains.append(robust.worst_rps / robust.nominal_worst_rps - 1)
    assert sum(gain > 1e-3 for gain in gains) > 10


def test_case_study() -> None:
    study = case_study()
    found, nominal = plan(study, robust_share=OFF), plan(study)
    oracle = terms_oracle_of(study, 2)
    assert found.robust is not None
    assert found.robust.worst_rps == pytest.approx(
        max(float(worst(oracle, split).max()) for split in oracle.splits()), rel=1e-7
    )
    assert found.robust.nominal_rps == pytest.approx(nominal.throughput_rps, rel=1e-14)
    assert found.robust.nominal_threshold_tokens == nominal.threshold_tokens
    assert found.robust.worst_rps >= found.robust.nominal_worst_rps


def test_more_doubt_never_raises_the_worst_case() -> None:
    robust = [plan(case_like(), robust_share=share).robust for share in (0.01, 0.05, 0.1, 0.3, 0.6)]
    rates = [each.worst_rps for each in robust if each is not None]
    assert len(rates) == 5
    assert rates == sorted(rates, reverse=True)
    assert rates[0] < plan(case_like()).throughput_rps


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 10.0])
def test_a_share_is_between_none_and_all(share: float) -> None:
    with pytest.raises(InputError, match="share above 0 and below 1"):
        plan(case_like(), robust_share=share)
