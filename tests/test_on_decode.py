"""Local prefill on the decode instances, against trying every threshold at every batch.

A failure names the seed: ``on_decode(seed)`` makes its scenario again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prfaas_opt.api import plan
from prfaas_opt.errors import InfeasibleError
from tests.scenarios import LENGTH_KINDS, case_like, random_scenario
from tests.terms_check import POINTS, index_of_split, solved, wrong_optimum
from tests.terms_oracle import assert_none_wrong, differ, terms_oracle_of
from tests.test_oracle import case_study


def on_decode(seed: int, kinds: tuple[str, ...] = LENGTH_KINDS) -> dict[str, Any]:
    """A random scenario whose token rate mostly leaves decode some time to prefill."""
    scenario = random_scenario(seed, "expected-time", kinds) | {"local_prefill": "on_decode"}
    rng = np.random.default_rng(900_000 + seed)
    decode = scenario["model"]["profiles"][0]["decode"]
    if isinstance(decode["batch"], list):
        # Fewer batches than the planner may face: each is a problem of its own.
        decode["batch"] = np.cumsum(rng.integers(1, 6, size=len(decode["batch"]))).tolist()
    if rng.random() < 0.3:
        decode["accepted_tokens"] = float(rng.uniform(1.0, 3.0))
    if rng.random() < 0.6 and "tokens_per_s" in scenario["slo"]:
        scenario["slo"]["tokens_per_s"] *= float(rng.uniform(0.2, 1.0))
    return scenario


def wrong_report(scenario: dict[str, Any]) -> Iterator[str]:
    """What the plan says of its decision is what plain sums say."""
    found = solved(scenario)
    if found is None:
        return
    oracle = terms_oracle_of(scenario)
    batch, pd, rate = index_of_split(oracle, found), oracle.given.pd, found.throughput_rps
    share = oracle.remote_share_of(found.routing.bands)
    loads = oracle.loads_of(share)
    local_s, decode_s = float(loads.local_s[0]), float(oracle.decode_s[batch])
    if (found.instances.pd_prefill, found.instances.pd_decode) != (0, pd):
        yield f"{found.instances} of {pd}"
    if {band.pool for band in found.routing.bands} - {"prfaas", "pd_decode"}:
        yield f"pools {found.routing.bands}"
    if {path.pool for path in found.paths} - {"prfaas", "pd_decode"}:
        yield f"paths {found.paths}"
    if differ(found.offload_share, float(oracle.points.probabilities @ share)):
        yield f"offload share {found.offload_share!r}"
    expected = {
        "pd_prefill": rate * local_s / pd,
        "pd_decode": rate * (local_s + decode_s) / pd,
        "prfaas": rate * float(loads.remote_s[0]) / oracle.given.remote if oracle.given.remote else None,
    }
    for stage, used in expected.items():
        said = getattr(found.utilization, stage)
        if (said is None) != (used is None) or (used is not None and differ(said, used)):
            yield f"utilization of {stage} {said!r}, expected {used!r}"
    if not found.bottlenecks:
        yield "nothing binds"
    ceilings = {"pd_prefill": float(oracle.prefill_share[batch]), "pd_decode": oracle.pd_ceiling}
    for stage in set(found.bottlenecks) & set(ceilings):
        used = expected[stage]
        if used is None or used < 0.99 * ceilings[stage]:
            yield f"{stage} is said to bind at {used!r} of {ceilings[stage]!r}"
    if differ(found.decode.step_s, float(oracle.steps_s[batch])):
        yield f"a step of {found.decode.step_s!r}"


def wrong_bound(scenario: dict[str, Any]) -> Iterator[str]:
    """throughput <= best free routing of any batch <= bound; the bound is tight; "optimal" keeps its word."""
    found = solved(scenario)
    if found is None:
        return
    assert found.bound_rps is not None
    assert found.tie_loss_share is not None
    oracle = terms_oracle_of(scenario)
    free = [oracle.free_routing(batch) for batch in oracle.splits()]
    attained, proven = (max(each[i] for each in free) for i in (0, 1))
    if found.throughput_rps > found.bound_rps * (1 + 1e-12):
        yield f"throughput {found.throughput_rps!r} above its bound {found.bound_rps!r}"
    if found.throughput_rps > proven * (1 + 1e-9):
        yield f"throughput {found.throughput_rps!r} above what free routing can: {proven!r}"
    if attained > found.bound_rps * (1 + 1e-9):
        yield f"a free routing attains {attained!r}, above the bound {found.bound_rps!r}"
    if found.bound_rps > proven * (1 + 1e-6):
        yield f"the bound {found.bound_rps!r} is loose: free routing is proven to stay below {proven!r}"
    kept = found.bound_rps * (1 - found.tie_loss_share - 1e-6)
    if found.status == "optimal" and found.throughput_rps < kept * (1 - 1e-12):
        yield f"optimal at {found.throughput_rps!r}, but bound less tie loss is {kept!r}"


def wrong_prices(scenario: dict[str, Any]) -> Iterator[str]:
    """What all capacity is worth at the plan's batch is the best free routing of that batch."""
    found = solved(scenario)
    if found is None:
        return
    oracle, prices = terms_oracle_of(scenario), found.shadow_prices
    assert prices is not None
    worth = (prices.pd_decode_instance_rps or 0.0) * oracle.given.pd
    if prices.pd_prefill_instance_rps is not None:
        yield "a price of instances that prefill only"
    if oracle.given.remote:
        gbps = oracle.given.egress_bytes_per_s * 8e-9 / scenario["links"][0].get("max_utilization", 1.0)
        worth += (prices.prfaas_instance_rps or 0.0) * oracle.given.remote
        worth += (prices.egress_rps_per_gbps or 0.0) * gbps
    attained, proven = oracle.free_routing(index_of_split(oracle, found))
    if not attained * (1 - 1e-6) <= worth <= proven * (1 + 1e-6):
        yield f"prices are worth {worth!r} in all, free routing of the batch {proven!r}: {prices}"


@pytest.mark.parametrize("kind", LENGTH_KINDS)
def test_the_plan_is_the_best_of_all_thresholds_and_batches(kind: str) -> None:
    first = 1000 * LENGTH_KINDS.index(kind)
    assert_none_wrong(wrong_optimum, lambda seed: on_decode(seed, (kind,)), range(first, first + 62))


def test_its_figures_are_those_of_its_decision() -> None:
    assert_none_wrong(wrong_report, on_decode, range(10_000, 10_045))


def test_the_bound_is_the_free_routing_optimum_over_all_batches() -> None:
    assert_none_wrong(wrong_bound, lambda seed: on_decode(seed, POINTS), range(20_000, 20_050))


def test_shadow_prices_are_duals_of_the_batch() -> None:
    assert_none_wrong(wrong_prices, lambda seed: on_decode(seed, POINTS), range(30_000, 30_050))


def test_random_scenarios_cover_every_regime() -> None:
    """Each routing, each stage that may bind, more than one batch, and batches below the largest that are best."""
    seen: set[str] = set()
    for seed in range(80):
        scenario = on_decode(seed)
        found = solved(scenario)
        if found is None:
            continue
        oracle = terms_oracle_of(scenario, 1)
        seen |= {found.routing.kind, *found.bottlenecks}
        seen |= {"smaller batch"} if found.decode.batch < oracle.batches[-1] else set()
        seen |= {"no remote"} if not oracle.given.remote else set()
        seen |= {"no slo"} if oracle.tokens_per_s is None else set()
    stages = {"prfaas", "pd_prefill", "pd_decode", "egress"}
    assert seen == stages | {"all-local", "all-remote", "threshold", "smaller batch", "no remote", "no slo"}


# By hand


def two_lengths() -> dict[str, Any]:
    """Half of the requests have 100 tokens, 1 s of local prefill, half 200 tokens, 3 s; 10 tokens out."""
    scenario = case_like(remote=2, pd=4, gbps=1000) | {"local_prefill": "on_decode", "slo": {"tokens_per_s": 50}}
    remote, local = scenario["model"]["profiles"]
    remote["prefill"] = {"lengths_tokens": [100, 200], "latency_s": [4.0, 4.0]}
    local["prefill"] = {"lengths_tokens": [100, 200], "latency_s": [1.0, 3.0]}
    local["decode"] = {"batch": [1, 2, 3], "step_s": [0.010, 0.015, 0.020]}
    lengths = {"distribution": "table", "lengths": [100, 200], "weights": [1, 1]}
    scenario["workload"] = {"input_tokens": lengths, "output_tokens": 10}
    return scenario


def test_two_lengths_by_hand() -> None:
    """Of an instance's time batch 1 leaves half to prefill, batch 2 a quarter, batch 3 nothing.

    Offloading the long ones takes 0.5 * 4 s on 2 instances: 1 req/s. So does keeping all at batch 1: 2 s on half of 4
    instances, of which decode takes 0.1 s a request. That sends nothing.
    """
    found = solved(two_lengths())
    assert found is not None
    assert found.throughput_rps == pytest.approx(1.0, rel=1e-12)
    assert (found.routing.kind, found.decode.batch) == ("all-local", 1)
    assert found.utilization.pd_prefill == pytest.approx(0.5)
    assert found.utilization.pd_decode == pytest.approx((2 + 0.1) / 4)
    assert found.bottlenecks == ("pd_prefill",)


def test_the_paper_s_token_rate_leaves_no_time_to_prefill_beside_decode() -> None:
    """A step of the case study takes 25 ms, which is all that 40 tokens/s allow: nothing can stay."""
    study = case_study() | {"local_prefill": "on_decode"}
    found = solved(study)
    assert found is not None
    assert (found.routing.kind, found.offload_share) == ("all-remote", 1.0)
    assert found.throughput_rps == pytest.approx(terms_oracle_of(study, 2).best(), rel=1e-7)
    assert found.status == "optimal"
    slower = solved(study | {"slo": {"tokens_per_s": 30}})
    assert slower is not None
    assert slower.routing.kind == "threshold"
    assert slower.throughput_rps > found.throughput_rps
    del study["links"], study["clusters"]["prfaas"]
    assert solved(study) is None, "and alone the cluster serves nothing"


# The whole plan


def test_the_whole_plan_of_random_scenarios() -> None:
    def check(scenario: dict[str, Any]) -> Iterator[str]:
        oracle, best = terms_oracle_of(scenario), solved(scenario)
        try:
            found = plan(scenario)
        except InfeasibleError:
            if best is not None:
                yield "infeasible"
            return
        if best is None or differ(found.throughput_rps, best.throughput_rps, 1e-12):
            yield f"{found.throughput_rps!r} {best and best.throughput_rps!r}"
        for what_if in found.what_ifs:
            have = oracle.given
            if what_if.resource == "here":
                have = dataclasses.replace(have, pd=have.pd + 1)
            elif what_if.resource == "there":
                have = dataclasses.replace(have, remote=have.remote + 1)
            elif what_if.resource == "there to here":
                have = dataclasses.replace(have, egress_bytes_per_s=1.1 * have.egress_bytes_per_s)
            else:
                continue
            if differ(what_if.throughput_rps, oracle.best(have)):
                yield f"{what_if.resource}: {what_if.throughput_rps!r}, expected {oracle.best(have)!r}"
            if what_if.instances.pd_prefill or what_if.instances.pd_decode != have.pd:
                yield f"{what_if.instances}"
        for lost in found.failures:
            have = oracle.given
            if lost.kind == "link" or lost.lost == "site there":
                have = dataclasses.replace(have, remote=0)
            elif lost.lost == "site here":
                have = dataclasses.replace(have, pd=0)
            elif lost.lost.endswith("decode instance"):
                have = dataclasses.replace(have, pd=have.pd - 1)
            else:
                have = dataclasses.replace(have, remote=have.remote - 1)
            expected = oracle.best(have) if have.pd else 0.0
            if differ(lost.resplit_rps, expected) or differ(lost.fixed_roles_rps, expected):
                yield f"{lost}, expected {expected!r}"
        if any("prefill instance" in lost.lost for lost in found.failures):
            yield "no instance prefills only"

    assert_none_wrong(check, on_decode, range(40_000, 40_025))
