"""What a link carries and what limits it: by hand, and what it makes of a plan."""

from __future__ import annotations

import math
from functools import cache

import pytest

from prfaas_opt import load_scenario, plan
from prfaas_opt.errors import InputError
from prfaas_opt.planning.build import carried_by_link, carried_of_request
from prfaas_opt.results import CarriedBy, Plan
from prfaas_opt.scenario import Scenario
from prfaas_opt.terms import Route
from prfaas_opt.throughput.link import Carried, effective_link, request_rate
from prfaas_opt.units import UnitError, format_size, parse_duration, parse_size

GBPS = 1e9 / 8
MIB = 2.0**20
WINDOWS = {"links__0__rtt": "80ms", "links__0__flows": "4", "links__0__window": "16MiB"}


def scenario(**overrides: str) -> Scenario:
    return load_scenario(overrides={key.replace("__", "."): value for key, value in overrides.items()})


@cache
def planned(**overrides: str) -> Plan:
    return plan(scenario(**overrides))


def link_of(**overrides: str) -> CarriedBy:
    link = planned(**overrides).link
    assert link is not None
    return link


def test_the_least_limit_is_what_a_link_carries() -> None:
    route = Route(rtt_s=0.08, flows=4, window_bytes=16 * MIB)
    windows = 4 * 16 * MIB / 0.08
    assert effective_link(100 * GBPS, 1.0, route) == Carried(windows, "window / RTT")
    assert round(windows / GBPS, 1) == 6.7
    assert effective_link(5 * GBPS, 1.0, route) == Carried(5 * GBPS, "bandwidth")
    assert effective_link(10 * GBPS, 0.5, route) == Carried(5 * GBPS, "bandwidth")
    assert effective_link(10 * GBPS, 0.5, Route()) == Carried(5 * GBPS, "bandwidth")
    assert effective_link(100 * GBPS, 1.0, route, 3 * GBPS, 4 * GBPS) == Carried(3 * GBPS, "sender NICs")
    assert effective_link(100 * GBPS, 1.0, route, 4 * GBPS, 3 * GBPS) == Carried(3 * GBPS, "receiver NICs")
    capped = Route(rtt_s=0.08, flows=4, window_bytes=16 * MIB, flow_bytes_per_s=1.5 * GBPS)
    assert effective_link(100 * GBPS, 1.0, capped) == Carried(6 * GBPS, "flow caps")
    assert effective_link(100 * GBPS, 1.0, Route(flows=4, flow_bytes_per_s=2 * GBPS)) == Carried(8 * GBPS, "flow caps")


def test_a_window_limits_nothing_without_a_round_trip() -> None:
    assert effective_link(100 * GBPS, 1.0, Route(flows=1, window_bytes=1.0)).limited_by == "bandwidth"
    assert effective_link(100 * GBPS, 1.0, Route(flows=1, rtt_s=0.5)).limited_by == "bandwidth"


def test_the_first_of_equal_limits_is_named() -> None:
    route = Route(rtt_s=0.5, flows=2, window_bytes=1e9, flow_bytes_per_s=2e9)
    assert effective_link(4e9, 1.0, route, 4e9, 4e9) == Carried(4e9, "bandwidth")
    assert effective_link(9e9, 1.0, route, math.inf, 4e9) == Carried(4e9, "receiver NICs")
    assert effective_link(9e9, 1.0, route) == Carried(4e9, "flow caps")


def test_a_request_takes_its_flows_and_its_cap() -> None:
    link = Carried(8 * GBPS, "bandwidth")
    assert request_rate(link, Route()) == link
    assert request_rate(link, Route(flows=8, flow_bytes_per_s=GBPS, request_flows=2)) == Carried(2 * GBPS, "flow caps")
    assert request_rate(link, Route(request_bytes_per_s=3 * GBPS)) == Carried(3 * GBPS, "request rate")
    assert request_rate(link, Route(), 5 * GBPS).bytes_per_s == 5 * GBPS
    windows = Route(rtt_s=0.1, flows=8, window_bytes=1e7, request_flows=3)
    assert request_rate(link, windows) == Carried(3e8, "window / RTT")


def test_a_request_takes_no_more_than_the_link_has() -> None:
    four = {"links__0__flows": "4", "links__0__flow_cap": "1Gbps", "links__0__request_flows": "8"}
    assert carried_of_request(scenario(**four)).bytes_per_s == pytest.approx(4 * GBPS)
    assert carried_of_request(scenario(links__0__request_cap="200Gbps")) == Carried(100 * GBPS, "bandwidth")


def test_windows_over_a_long_way_limit_the_link_of_the_case_study() -> None:
    link = link_of(**WINDOWS)
    assert link.gbps == pytest.approx(4 * 16 * MIB / 0.08 * 8 / 1e9)
    assert (round(link.gbps, 1), link.limited_by) == (6.7, "window / RTT")
    assert (round(link.request_gbps, 1), link.request_limited_by) == (6.7, "window / RTT")
    best = planned(**WINDOWS)
    narrow = planned(links__0__bandwidth=f"{link.gbps!r}Gbps")
    assert best.throughput_rps == pytest.approx(narrow.throughput_rps, rel=1e-12)
    assert best.egress_gbps == pytest.approx(narrow.egress_gbps, rel=1e-9)
    assert best.throughput_rps < planned().throughput_rps
    assert "egress" in best.bottlenecks


def test_bandwidth_gives_nothing_where_windows_limit() -> None:
    best, wide = planned(**WINDOWS), planned(**WINDOWS, links__0__bandwidth="1Tbps")
    assert wide.throughput_rps == best.throughput_rps
    assert wide.threshold_tokens == best.threshold_tokens
    assert wide.link == best.link
    (wider,) = (each for each in best.what_ifs if each.resource == "prfaas to pd")
    assert wider.gain_rps == 0.0
    assert wider.fixed_roles_gain_rps == {"egress": 0.0}
    assert best.shadow_prices is not None
    assert best.shadow_prices.egress_rps_per_gbps == 0.0
    # Where bandwidth does limit, it is worth something.
    narrow = planned(**WINDOWS, links__0__bandwidth="5Gbps")
    assert narrow.shadow_prices is not None
    assert (narrow.shadow_prices.egress_rps_per_gbps or 0.0) > 0
    assert narrow.link is not None
    assert narrow.link.limited_by == "bandwidth"


def test_more_flows_do_help_where_windows_limit() -> None:
    more = planned(**(WINDOWS | {"links__0__flows": "8"}))
    assert more.throughput_rps > planned(**WINDOWS).throughput_rps * 1.1
    assert more.link is not None
    assert more.link.gbps == pytest.approx(2 * link_of(**WINDOWS).gbps)


@pytest.mark.parametrize(("end", "instances", "limit"), [("prfaas", 4, "sender NICs"), ("pd", 8, "receiver NICs")])
def test_network_cards_limit_at_either_end(end: str, instances: int, limit: str) -> None:
    one_nic = {f"clusters__{end}__nic": "1Gbps"}
    link = link_of(**one_nic)
    assert link.gbps == pytest.approx(instances)
    assert link.limited_by == limit
    assert link.request_gbps == pytest.approx(1.0)
    narrow = planned(links__0__bandwidth=f"{instances}Gbps")
    assert planned(**one_nic).throughput_rps == pytest.approx(narrow.throughput_rps, rel=1e-12)
    assert link_of(**{f"clusters__{end}__nic": "400Gbps"}).limited_by == "bandwidth"


def test_flow_caps_limit_by_the_number_of_flows() -> None:
    link = link_of(links__0__flows="3", links__0__flow_cap="2Gbps")
    assert link.gbps == pytest.approx(6.0)
    assert link.limited_by == "flow caps"
    narrow = planned(links__0__bandwidth="6Gbps")
    best = planned(links__0__flows="3", links__0__flow_cap="2Gbps")
    assert best.throughput_rps == pytest.approx(narrow.throughput_rps, rel=1e-12)


@pytest.mark.parametrize(
    "cap",
    [
        {"links__0__request_cap": "1Gbps"},
        {"links__0__request_flows": "1", "links__0__flows": "200", "links__0__flow_cap": "1Gbps"},
    ],
)
def test_caps_of_requests_slow_the_first_token_and_nothing_else(cap: dict[str, str]) -> None:
    best, plain = planned(**cap), planned()
    assert best.throughput_rps == plain.throughput_rps
    assert best.threshold_tokens == plain.threshold_tokens
    assert best.egress_gbps == plain.egress_gbps
    link = link_of(**cap)
    assert link.gbps == 100.0
    assert link.request_gbps == pytest.approx(1.0)
    for slow, fast in zip(best.ttft_by_load, plain.ttft_by_load, strict=True):
        assert slow.p90_s > fast.p90_s * 1.2
        assert slow.mean_waits == fast.mean_waits


@pytest.mark.parametrize(("percentile", "expected"), [(0, 3.0), (5, 3.0), (50, 12.0), (75, 17.0), (100, 22.0)])
def test_a_percentile_of_measured_rates_is_planned_with(percentile: int, expected: float) -> None:
    rates = ", ".join(f"{rate}Gbps" for rate in (22, 3, 7, 17, 12))
    measured = scenario(links__0__bandwidth=f"{{measured: [{rates}], percentile: {percentile}}}")
    assert carried_by_link(measured).bytes_per_s == pytest.approx(expected * GBPS)


def test_at_the_default_percentile_of_measured_rates_19_of_20_are_as_fast() -> None:
    rates = [f"{rate}Gbps" for rate in range(100, 0, -1)]
    measured = scenario(links__0__bandwidth=f"{{measured: [{', '.join(rates)}]}}")
    carried = carried_by_link(measured).bytes_per_s / GBPS
    assert sum(rate >= carried for rate in range(1, 101)) >= 95
    assert 4.0 <= carried <= 6.0
    same = planned(links__0__bandwidth=f"{carried:g}Gbps")
    assert plan(measured).throughput_rps == same.throughput_rps


def test_measured_rates_need_units_and_are_all_looked_at() -> None:
    with pytest.raises(InputError) as caught:
        scenario(links__0__bandwidth="{measured: [1Gbps, 5], percentile: 101}")
    assert {problem.where.split(".")[-1] for problem in caught.value.problems} >= {"percentile"}
    assert any("measured" in str(problem) for problem in caught.value.problems)


def test_terms_that_limit_nothing_change_no_digit() -> None:
    nothing = {
        "links__0__rtt": "0",
        "links__0__flows": "1000",
        "links__0__window": "1GiB",
        "links__0__flow_cap": "1Tbps",
        "clusters__pd__nic": "1Tbps",
        "clusters__prfaas__nic": "1Tbps",
    }
    best, plain = planned(**nothing), planned()
    for name in (
        "throughput_rps",
        "threshold_tokens",
        "instances",
        "egress_gbps",
        "bound_rps",
        "shadow_prices",
        "ttft_s",
        "ttft_by_load",
        "stages_rps",
        "utilization",
        "what_ifs",
        "failures",
        "sensitivity",
        "link",
    ):
        assert getattr(best, name) == getattr(plain, name), name


def test_durations_and_sizes_are_read_with_their_units() -> None:
    assert parse_duration("80 ms") == pytest.approx(0.08)
    assert parse_duration("250us") == pytest.approx(2.5e-4)
    assert (parse_duration("7s"), parse_duration("1.5min"), parse_duration(0), parse_duration("0")) == (7, 90, 0, 0)
    assert (parse_size("16MiB"), parse_size("4 MB"), parse_size("1kB"), parse_size("0.5 GiB")) == (
        16 * MIB,
        4e6,
        1e3,
        2.0**29,
    )
    assert format_size(16 * MIB) == "16 MiB"


@pytest.mark.parametrize("text", ["7", 7, "7 sec", "7 S", "7MS", "ms", "", "7 s s", "inf s", "nan"])
def test_what_is_no_duration(text: str | float) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text)
    assert caught.value.fix


@pytest.mark.parametrize("text", ["16", 16, "16Mb", "16 MiB/s", "16Gbps", "MiB", "16 mib", ""])
def test_what_is_no_size(text: str | float) -> None:
    with pytest.raises(UnitError) as caught:
        parse_size(text)
    assert caught.value.fix
