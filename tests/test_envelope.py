"""The cheapest way of every length against brute force over many lengths."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.fleet import Limits
from prfaas_opt.planning.fleets.envelope import Envelope, Prices, Stretch
from prfaas_opt.planning.fleets.network import Decoder, Demand, Gpus, Network, Pipe, Team, Way, network_of
from prfaas_opt.profiles.curve import Curve, Piece, linear, log_log, piecewise_curve, table_curve
from prfaas_opt.workload.densities import TruncatedLognormal, Uniform
from prfaas_opt.workload.distribution import LengthDistribution, mixture, table
from tests.fleet_bins import Array, Binned, binned
from tests.fleets import random_fleet

SAMPLES = 1_000
"""Bins, each of several lengths."""


def networks(first_seed: int, count: int) -> Iterator[tuple[int, Network]]:
    """Of random fleets, those that can be served."""
    for seed in range(first_seed, first_seed + count):
        with contextlib.suppress(InputError, InfeasibleError):
            yield seed, network_of(random_fleet(np.random.default_rng(seed)))


def random_prices(rng: np.random.Generator, network: Network, stream: int) -> Prices:
    """Prices under which ways cost about the same, every eighth of them zero."""

    def drawn(typical: float) -> float:
        return 0.0 if rng.random() < 0.125 else float(rng.uniform(0.5, 1.5)) / typical

    mean = 0.5 * network.streams[stream].lengths.high
    teams: dict[int, float] = {}
    pipes: dict[int, float] = {}
    for i in network.ways_of[stream]:
        way = network.ways[i]
        teams.setdefault(way.team, drawn(way.prefill_s(mean)))
        if way.pipe is not None and way.kv_bytes is not None:
            pipes.setdefault(way.pipe, drawn(5 * way.kv_bytes(mean)))
    sites = {(stream, site): drawn(5.0) for site in range(len(network.sites))}
    return Prices(teams, pipes, sites)


def costs(network: Network, stream: int, prices: Prices, lengths: Array) -> Array:
    """What each way costs at each length, a row a way."""
    rows = []
    for i in network.ways_of[stream]:
        way = network.ways[i]
        row = prices.teams.get(way.team, 0.0) * way.prefill_s(lengths)
        if way.pipe is not None and way.kv_bytes is not None:
            row = row + prices.pipes.get(way.pipe, 0.0) * way.kv_bytes(lengths)
        rows.append(row + prices.sites.get((stream, way.destination), 0.0))
    return np.array(rows)


def samples(network: Network, stream: int) -> Binned:
    """Lengths and probabilities between the breaks of all curves."""
    ways = [network.ways[i] for i in network.ways_of[stream]]
    curves = [curve for way in ways for curve in (way.prefill_s, way.kv_bytes) if curve is not None]
    return binned(network.streams[stream].lengths, SAMPLES, [piece.high for curve in curves for piece in curve.pieces])


def chosen(stretches: list[Stretch], lengths: Array) -> Array:
    """The way of the stretch that holds each length."""
    assert all(a.high == b.low and a.way != b.way for a, b in itertools.pairwise(stretches))
    assert all(each.low < each.high for each in stretches)
    assert stretches[0].low < lengths.min()
    assert stretches[-1].high >= lengths.max()
    at = np.searchsorted([each.high for each in stretches], lengths, side="left")
    return np.array([each.way for each in stretches])[at]


def test_cheapest_ways_are_those_of_a_dense_search() -> None:
    crossings = 0
    for seed, network in networks(0, 30):
        rng = np.random.default_rng(seed)
        for stream in range(len(network.streams)):
            envelope, sampled = Envelope(network, stream), samples(network, stream)
            for _ in range(6):
                prices = random_prices(rng, network, stream)
                stretches = envelope.stretches(prices)
                each = costs(network, stream, prices, sampled.lengths)
                row_of = {way: row for row, way in enumerate(network.ways_of[stream])}
                rows = [row_of[way] for way in chosen(stretches, sampled.lengths).tolist()]
                least = each.min(axis=0)
                paid = each[rows, np.arange(len(rows))]
                assert (paid <= least + 1e-9 * each.max()).all(), (seed, stream)
                sampled_mean = float(sampled.masses @ least)
                mean = envelope.mean_cost(prices, stretches)
                # Never above what no routing undercuts, and no way off it.
                assert mean == pytest.approx(sampled_mean, rel=1e-7, abs=1e-12), (seed, stream)
                assert mean <= float(sampled.masses @ paid) * (1 + 1e-7), (seed, stream)
                crossings += len(stretches) - 1
    assert crossings > 100


def test_no_single_way_and_no_other_routing_is_cheaper() -> None:
    for seed, network in networks(200, 10):
        rng = np.random.default_rng(seed)
        for stream in range(len(network.streams)):
            envelope, sampled = Envelope(network, stream), samples(network, stream)
            prices = random_prices(rng, network, stream)
            mean = envelope.mean_cost(prices, envelope.stretches(prices))
            each = costs(network, stream, prices, sampled.lengths)
            assert (each @ sampled.masses >= mean * (1 - 1e-9)).all(), (seed, stream)
            at_random = rng.integers(len(each), size=each.shape[1])
            assert float(sampled.masses @ each[at_random, np.arange(each.shape[1])]) >= mean * (1 - 1e-9)


def of_two(local_s: Curve, remote_s: Curve, sent_bytes: Curve, lengths: LengthDistribution) -> Network:
    """One stream that is prefilled where it is decoded, or remotely."""
    gpus = (Gpus("pd", Limits(8, 8)), Gpus("remote", Limits(8, 8)))
    teams = (
        Team("pd", "H20", "model", "decode", 0, 1),
        Team("pd", "H20", "model", "prefill", 0, 1),
        Team("remote", "H200", "model", "prefill", 1, 1),
    )
    return Network(
        streams=(Demand("stream", lengths, 1.0),),
        sites=("pd",),
        gpus=gpus,
        pipes=(Pipe("remote to pd", Limits(1e9, 1e9)),),
        teams=teams,
        ways=(Way(0, 1, 0, local_s), Way(0, 2, 0, remote_s, 0, sent_bytes)),
        decoders=(Decoder(0, 0, 0, 1.0),),
    )


UNIFORM = LengthDistribution(((1.0, Uniform(100.0, 1000.0)),))
SIZE = table_curve([1, 1000], [1e3, 1e6], linear, "size")
LINE = table_curve([1, 1000], [0.001, 1.0], linear)
"""A thousandth of a second a token."""
FLAT = table_curve([1, 1000], [0.4, 0.4], linear)


def prices_of(local: float, remote: float, link: float = 0.0, site: float = 0.0) -> Prices:
    return Prices({1: local, 2: remote}, {0: link}, {(0, 0): site})


def test_two_lines_cross_where_they_do() -> None:
    envelope = Envelope(of_two(LINE, FLAT, SIZE, UNIFORM), 0)
    prices = prices_of(1.0, 1.0)
    stretches = envelope.stretches(prices)
    assert [each.way for each in stretches] == [0, 1]
    assert stretches[0].high == stretches[1].low == pytest.approx(400.0)
    # Up to 400 tokens, a third of the requests, 0.25 s in the mean; the rest 0.4 s.
    assert envelope.mean_cost(prices, stretches) == pytest.approx(0.25 / 3 + 0.4 * 2 / 3, rel=1e-9)
    dearer = envelope.stretches(prices_of(1.0, 2.0))
    assert dearer[0].high == pytest.approx(800.0)
    assert [each.way for each in envelope.stretches(prices_of(1.0, 3.0))] == [0]


def test_what_is_sent_is_paid() -> None:
    """One unit of money a 1e6 bytes makes the remote way 0.4 + l / 1000: dearer than the line at every length."""
    envelope = Envelope(of_two(LINE, FLAT, SIZE, UNIFORM), 0)
    assert [each.way for each in envelope.stretches(prices_of(1.0, 1.0, link=1e-6))] == [0]
    half = envelope.stretches(prices_of(1.0, 1.0, link=0.5e-6))
    assert half[0].high == pytest.approx(800.0, rel=1e-6)


def test_a_crossing_at_a_break_of_a_curve_is_found_once() -> None:
    bent = table_curve([1, 400, 1000], [0.001, 0.4, 3.0], linear)
    stretches = Envelope(of_two(bent, FLAT, SIZE, UNIFORM), 0).stretches(prices_of(1.0, 1.0))
    assert [each.way for each in stretches] == [0, 1]
    assert stretches[0].high == pytest.approx(400.0)


def test_a_curve_that_crosses_twice_makes_three_stretches() -> None:
    """``(l - 300) (l - 600)`` is below zero between its roots."""
    square = piecewise_curve((Piece(1.0, 1000.0, ((1e6 + 180_000.0, 0.0), (-900.0, 1.0), (1.0, 2.0))),), "latency")
    level = table_curve([1, 1000], [1e6, 1e6], linear)
    stretches = Envelope(of_two(square, level, SIZE, UNIFORM), 0).stretches(prices_of(1.0, 1.0))
    assert [each.way for each in stretches] == [1, 0, 1]
    assert [each.high for each in stretches[:2]] == [pytest.approx(300.0), pytest.approx(600.0)]


def test_identical_curves_share_nothing_but_cost_the_same() -> None:
    """Either may be named for all lengths; both are the cheapest."""
    envelope = Envelope(of_two(LINE, LINE, SIZE, UNIFORM), 0)
    prices = prices_of(2.0, 2.0, site=0.5)
    stretches = envelope.stretches(prices)
    assert len(stretches) == 1
    assert envelope.mean_cost(prices, stretches) == pytest.approx(2.0 * 0.55 + 0.5, rel=1e-9)


def test_at_zero_prices_nothing_costs_anything() -> None:
    envelope = Envelope(of_two(LINE, FLAT, SIZE, UNIFORM), 0)
    for prices in (prices_of(0.0, 0.0), Prices({}, {}, {})):
        stretches = envelope.stretches(prices)
        assert envelope.mean_cost(prices, stretches) == 0.0
        assert (stretches[0].low, stretches[-1].high) == (0.0, 1000.0)
    free = envelope.stretches(prices_of(1.0, 0.0))
    assert [each.way for each in free] == [1]
    assert envelope.mean_cost(prices_of(1.0, 0.0), free) == 0.0


def test_single_lengths_belong_to_the_stretch_that_ends_with_them() -> None:
    lengths = table([(400.0, 1.0), (401.0, 1.0), (900.0, 2.0)])
    envelope = Envelope(of_two(LINE, FLAT, SIZE, lengths), 0)
    prices = prices_of(1.0, 1.0)
    stretches = envelope.stretches(prices)
    assert chosen(stretches, np.array([400.0, 401.0, 900.0])).tolist()[1:] == [1, 1]
    assert envelope.mean_cost(prices, stretches) == pytest.approx(0.4, rel=1e-9)


def test_one_length_has_one_cheapest_way() -> None:
    envelope = Envelope(of_two(LINE, FLAT, SIZE, table([(300.0, 1.0)])), 0)
    for prices, way, cost in ((prices_of(1.0, 1.0), 0, 0.3), (prices_of(2.0, 1.0), 1, 0.4)):
        stretches = envelope.stretches(prices)
        assert [each.way for each in stretches] == [way]
        assert envelope.mean_cost(prices, stretches) == pytest.approx(cost, rel=1e-9)


def test_power_laws_and_mixtures() -> None:
    """``l / 1000`` and ``(l / 1000) ** 0.5 / 2`` cross at 250 tokens."""
    root = table_curve([1, 1000], [0.5 * 0.001**0.5, 0.5], log_log)
    lengths = mixture([(1.0, UNIFORM), (1.0, LengthDistribution(((1.0, TruncatedLognormal(5.5, 0.7, 50.0, 1000.0)),)))])
    envelope = Envelope(of_two(LINE, root, SIZE, lengths), 0)
    prices = prices_of(1.0, 1.0)
    stretches = envelope.stretches(prices)
    assert [each.high for each in stretches] == [pytest.approx(250.0), 1000.0]
    sampled = binned(lengths, 400, [250.0])
    least = np.minimum(sampled.lengths / 1000, 0.5 * (sampled.lengths / 1000) ** 0.5)
    assert envelope.mean_cost(prices, stretches) == pytest.approx(float(sampled.masses @ least), rel=1e-9)


def test_a_proven_cost_is_rounded_down() -> None:
    """A sum of floats may be a hair above the truth; a bound may not."""
    for _, network in networks(300, 8):
        for stream in range(len(network.streams)):
            envelope = Envelope(network, stream)
            prices = random_prices(np.random.default_rng(stream), network, stream)
            stretches = envelope.stretches(prices)
            total = 0.0
            for each in stretches:
                way = network.ways[each.way]
                team, pipe, site = prices.of(way)
                total += team * network.mean(way.prefill_s, stream).between(each.low, each.high)
                if way.kv_bytes is not None:
                    total += pipe * network.mean(way.kv_bytes, stream).between(each.low, each.high)
                total += site * network.streams[stream].lengths.moment(0.0, each.low, each.high)
            assert envelope.mean_cost(prices, stretches) <= total
            assert envelope.mean_cost(prices, stretches) >= total * (1 - 1e-10)
