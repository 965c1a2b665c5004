"""Terms beyond the paper's model in fleets: a fleet that is two pools is planned as those are."""

from __future__ import annotations

from typing import Any

import pytest

from prfaas_opt import load_scenario, plan
from prfaas_opt.errors import InputError
from prfaas_opt.fleet_api import load_fleet, plan_fleet
from tests.scenarios import LOCAL, REMOTE, Spec, case_like

AGREEMENT = 1e-6


def changed(**dials: Any) -> Spec:
    """A small case study with some fields set, the name of each its path with two underscores for a dot."""
    scenario = case_like(gbps=4.0)
    for path, value in dials.items():
        *parents, key = path.split("__")
        place: Any = scenario
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place.setdefault(parent, {})
        place[key] = value
    return scenario


PD: str = next(name for name, cluster in case_like()["clusters"].items() if cluster["role"] == "pd")
SLOW_ROUTE = {"rtt": "80ms", "flows": 1, "window": "2MiB"}


def with_route(**fields: Any) -> Spec:
    scenario = case_like(gbps=4.0)
    scenario["links"][0] |= fields
    return scenario


def with_decode(decode: Spec, **more: Any) -> Spec:
    scenario = case_like(gbps=4.0)
    for profile in scenario["model"]["profiles"]:
        if "decode" in profile:
            profile["decode"] = decode
            for key, value in more.items():
                profile[key] = value
                profile["provenance"][key] = "assumed, here"
    return scenario


@pytest.mark.parametrize(
    "scenario",
    [
        with_route(**SLOW_ROUTE),
        with_route(flows=2, flow_cap="500Mbps"),
        with_route(bandwidth={"measured": ["3Gbps", "2Gbps", "1Gbps"], "percentile": 0}),
        changed(transfer={"compression": 4}, links__0__bandwidth="500Mbps"),
        changed(workload__cached_share=0.3, transfer={"bytes": "full_prompt"}, links__0__bandwidth="1Gbps"),
        with_decode({"batch": [1, 60, 90], "step_s": [0.01, 0.025, 0.03], "accepted_tokens": 1.5}),
        with_decode(
            {"batch": [1, 90], "context_tokens": [16, 4000], "step_s": [[0.01, 0.012], [0.02, 0.05]]},
            memory={"usable_gib": 2, "weights_gib": 1},
        ),
    ],
    ids=["window", "flow-cap", "measured", "compression", "cached", "accepted", "context-and-memory"],
)
def test_a_fleet_of_two_pools_is_planned_as_two_pools_are(scenario: Spec) -> None:
    if scenario["workload"].get("cached_share"):
        scenario["workload"]["input_tokens"] |= {"high": 2000}
    loaded = load_scenario(scenario)
    two_pools, fleet = plan(loaded), plan_fleet(loaded)
    plain = plan(changed(links__0__bandwidth="500Mbps") if "transfer" in scenario else case_like(gbps=4.0))
    assert fleet.throughput_rps == pytest.approx(two_pools.bound_rps, rel=AGREEMENT, abs=0) or (
        fleet.throughput_rps == pytest.approx(two_pools.throughput_rps, rel=1e-4)
    )
    assert two_pools.throughput_rps != pytest.approx(plain.throughput_rps, rel=1e-6)


def test_more_bandwidth_gives_nothing_where_flows_limit() -> None:
    narrow, wide = (with_route(**SLOW_ROUTE, bandwidth=each) for each in ("4Gbps", "40Gbps"))
    found = [plan_fleet(load_scenario(each)) for each in (narrow, wide)]
    assert found[0].throughput_rps == pytest.approx(found[1].throughput_rps, rel=AGREEMENT)
    assert found[0].links[0].egress_rps_per_gbps == 0.0
    assert found[0].links[0].egress_gbps == pytest.approx(8 * 2 * 2**20 / 0.08 / 1e9, rel=1e-3)


def test_occupancy_is_what_a_fleet_pays_for() -> None:
    scenario = case_like(gbps=4.0)
    for profile in scenario["model"]["profiles"]:
        if profile["hardware"] == REMOTE:
            profile["prefill"]["occupancy_s"] = [0.5 * seconds for seconds in profile["prefill"]["latency_s"]]
            profile["provenance"]["occupancy"] = "assumed, half"
    halved, doubled = load_scenario(scenario), load_scenario(case_like(gbps=4.0, remote=6))
    assert plan_fleet(halved).throughput_rps == pytest.approx(plan_fleet(doubled).throughput_rps, rel=AGREEMENT)


def test_kvcache_of_another_format_takes_no_way() -> None:
    scenario = case_like(gbps=4.0)
    for name, cluster in scenario["clusters"].items():
        cluster["kv_format"] = "fp8" if name == PD else "bf16"
    found = plan_fleet(load_scenario(scenario))
    assert all(link.egress_gbps == 0 for link in found.links)
    assert found.throughput_rps == pytest.approx(plan(scenario).throughput_rps, rel=AGREEMENT)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("slo.ttft", {"p90": "7s"}),
        ("local_prefill", "on_decode"),
        ("residency", {"stay_share": 0.1}),
        (f"clusters.{PD}.max_context", "128K"),
        (f"clusters.{PD}.nic", "100Gbps"),
    ],
)
def test_two_pools_planned_as_a_fleet_ignore_nothing(path: str, value: Any) -> None:
    scenario = changed(**{path.replace(".", "__"): value})
    assert plan(scenario).throughput_rps > 0
    with pytest.raises(InputError) as caught:
        plan_fleet(scenario)
    assert [(problem.code, problem.where.removeprefix("scenario ")) for problem in caught.value.problems] == [
        ("not-supported", path)
    ]


@pytest.mark.parametrize(
    "path", ["slo.ttft", "arrivals", "local_prefill", "residency", f"clusters.{PD}.max_context", f"clusters.{PD}.nic"]
)
def test_what_a_fleet_does_not_know_is_refused(path: str) -> None:
    value: dict[str, Any] = {
        "ttft": {"p90": "7s"},
        "arrivals": {"cv2": 1},
        "local_prefill": "on_decode",
        "residency": {"stay_share": 0.1},
        "max_context": "128K",
        "nic": "100Gbps",
    }
    scenario = case_like(gbps=4.0)
    scenario["clusters"]["second"] = {"role": "pd", "hardware": LOCAL, "instances": 2}
    *parents, key = path.split(".")
    place = scenario
    for parent in parents:
        place = place.setdefault(parent, {})
    place[key] = value[key]
    with pytest.raises(InputError) as caught:
        load_fleet(scenario)
    assert [(problem.code, problem.where.removeprefix("scenario ")) for problem in caught.value.problems] == [
        ("not-supported", path)
    ]
