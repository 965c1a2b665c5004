"""Quantities as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_opt import units
from prfaas_opt.units import UnitError, parse_bandwidth, parse_tokens

LENGTHS = st.integers(1, units.LONGEST_TOKENS)


@given(LENGTHS)
def test_lengths_are_read_as_they_are_printed(tokens: int) -> None:
    assert parse_tokens(units.format_tokens(tokens)) == tokens
    assert parse_tokens(units.format_length(tokens)) == tokens
    assert parse_tokens(str(tokens)) == parse_tokens(tokens) == parse_tokens(float(tokens)) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("32K", 32768),
        ("32k", 32768),
        ("32Ki", 32768),
        ("32ki", 32768),
        (" 32 K ", 32768),
        ("0.5K", 512),
        ("1.5M", 1_572_864),
        ("1M", 2**20),
        ("1Mi", 2**20),
        ("131,072", 131_072),
        ("1e3", 1000),
        ("1e-3M", None),
        ("0", 0),
        ("-8", -8),
        (1000.0, 1000),
    ],
)
def test_lengths(text: str | float, tokens: int | None) -> None:
    if tokens is None:
        with pytest.raises(UnitError):
            parse_tokens(text)
    else:
        assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("19.4K", "write 19400 or 19866"),
        ("12.7k", "write 12700 or 13005"),
        ("1.1M", "write 1100000 or 1153434"),
        ("0.0001K", "write 1"),
        ("1.5", "write 1 or 2"),
        (1.5, "write 1 or 2"),
        (0.5, "write 1"),
        ("32.768", "write 32768 or 32 or 33"),
    ],
)
def test_a_fraction_of_a_token_offers_what_may_be_meant(text: str | float, fix: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_tokens(text)
    assert caught.value.fix == fix


@given(st.integers(1, 9999), st.integers(1, 9))
def test_what_is_offered_for_a_fraction_is_a_length(whole: int, tenth: int) -> None:
    text = f"{whole}.{tenth}K"
    try:
        parse_tokens(text)
    except UnitError as error:
        offered = [parse_tokens(word) for word in error.fix.removeprefix("write ").split(" or ")]
        assert offered == sorted({round(float(f"{whole}.{tenth}") * 1000), round(float(f"{whole}.{tenth}") * 1024)})
    else:
        assert tenth == 5


@pytest.mark.parametrize(
    "text",
    [
        "e5",
        "-e5",
        "E-3",
        "",
        "K",
        "32 GB",
        "32KB",
        "1.2.3K",
        "1,00",
        "32K tokens",
        "nan",
        "inf",
        "1e999",
        "\uff11\uff12",
    ],
)
def test_no_lengths(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_tokens(text)
    assert caught.value.fix.startswith("write it as")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, "1e400", "1e308M"])
@pytest.mark.parametrize("parse", [parse_tokens, parse_bandwidth])
def test_nothing_infinite(parse: Callable[[str | float], float], value: str | float) -> None:
    with pytest.raises(UnitError):
        parse(value)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("100Gbps", 12.5e9),
        ("100gbps", 12.5e9),
        ("100 Gbit/s", 12.5e9),
        ("100 gbit/s", 12.5e9),
        ("100Gb/s", 12.5e9),
        ("12.5GB/s", 12.5e9),
        ("12.5 GB/s", 12.5e9),
        ("1Tbps", 125e9),
        ("800Mbps", 1e8),
        ("800 Mbit/s", 1e8),
        ("8kbps", 1000),
        ("8bps", 1),
        ("1B/s", 1),
        ("1kB/s", 1000),
        ("1KB/s", 1000),
        ("1KiB/s", 1024),
        ("1MiB/s", 2**20),
        ("1GiB/s", 2**30),
        ("1TiB/s", 2**40),
        ("1,000 Gbps", 125e9),
        ("0", 0),
        (0, 0),
        (0.0, 0),
        ("0Gbps", 0),
    ],
)
def test_bandwidths(text: str | float, bytes_per_s: float) -> None:
    assert parse_bandwidth(text) == bytes_per_s


@pytest.mark.parametrize(
    ("text", "says", "fix"),
    [
        ("100 GB", "is a size, not a rate", '"100GB/s"'),
        ("3GiB", "is a size, not a rate", '"3GiB/s"'),
        ("100GBps", "may mean bits or bytes", '"100Gbps" for bits, or "100GB/s" for bytes'),
        ("100gb/s", "may mean bits or bytes", '"100Gbps" for bits, or "100GB/s" for bytes'),
        ("100MBps", "may mean bits or bytes", '"100Mbps" for bits, or "100MB/s" for bytes'),
        ("400GbE", "is no rate", '"400Gbps"'),
        ("100G", "is no rate", '"100Gbps"'),
        (100, "has no unit", '"100Gbps" if gigabits'),
        ("100", "has no unit", '"100Gbps" if gigabits'),
        (-100, "has no unit", 'write it as "100Gbps"'),
        ("50%", "is not a bandwidth", 'write it as "100Gbps"'),
        ("fast", "is not a number", 'write it as "100Gbps"'),
    ],
)
def test_no_bandwidths(text: str | float, says: str, fix: str) -> None:
    with pytest.raises(UnitError, match=says) as caught:
        parse_bandwidth(text)
    assert fix in caught.value.fix


@given(st.floats(0.001, 1e6))
def test_gbps_are_read_as_they_are_converted(gbps: float) -> None:
    rate = parse_bandwidth(f"{gbps!r}Gbps")
    assert units.to_gbps(rate) == pytest.approx(gbps, rel=1e-15)
    assert rate == pytest.approx(parse_bandwidth(f"{gbps * 1000!r} Mbit/s"), rel=1e-15)
    assert rate == pytest.approx(parse_bandwidth(f"{gbps / 8!r} GB/s"), rel=1e-15)
    printed = parse_bandwidth(units.format_gbps(gbps)) if gbps >= 0.01 else rate
    assert printed == pytest.approx(rate, rel=0.006)


def test_sizes() -> None:
    assert units.to_mib(2**20) == 1
    assert units.SIZE_SUFFIXES["gib"] == 1024 * units.SIZE_SUFFIXES["mib"] == 2**30
    assert units.SIZE_SUFFIXES["gb"] == 1000 * units.SIZE_SUFFIXES["mb"] == 10**9


@pytest.mark.parametrize(
    ("gbps", "text"), [(0.5, "0.5 Gbps"), (9.994, "9.99 Gbps"), (11.99, "12.0 Gbps"), (1000, "1.00 Tbps")]
)
def test_rates_are_printed(gbps: float, text: str) -> None:
    assert units.format_gbps(gbps) == text


@pytest.mark.parametrize(
    ("tokens", "text"), [(1024, "1K"), (131072, "128K"), (1000, "1,000"), (0, "0"), (19805, "19,805")]
)
def test_lengths_are_printed(tokens: int, text: str) -> None:
    assert units.format_length(tokens) == text
