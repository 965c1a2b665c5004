"""How a fleet's throughput moves where a figure is off: as deployed, and planned anew."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from prfaas_opt.fleet import Limits
from prfaas_opt.fleet_results import FleetDeviation
from prfaas_opt.planning.fleets.decision import Decision, Loads
from prfaas_opt.planning.fleets.solve import most_scale
from prfaas_opt.planning.robustness import DEVIATIONS
from prfaas_opt.planning.variations import FIGURES, LOCAL_FIGURES

if TYPE_CHECKING:
    from prfaas_opt.planning.fleets.network import Demand, Network, Pipe, Way
    from prfaas_opt.planning.fleets.solve import Solved
    from prfaas_opt.planning.options import SolverOptions
    from prfaas_opt.planning.variations import Figure
    from prfaas_opt.profiles.curve import Curve


def fleet_deviations(solved: Solved, options: SolverOptions) -> tuple[FleetDeviation, ...]:
    """Each figure off by each share, in all clusters and streams at once.

    Raises:
        SolverError: the solver failed, or a time limit came before any plan was found.
    """
    network, decision = solved.network, solved.decision
    rows = []
    for figure in FIGURES if network.pipes else LOCAL_FIGURES:
        for share in DEVIATIONS:
            changed = with_figure_off(network, figure, 1.0 + share)
            anew = None
            if changed is not None:
                anew = most_scale(changed, options, options.mip_gap_share or 0.0)
            if changed is None or anew is None:
                rows.append(FleetDeviation(figure, share, None, None, None))
                continue
            rates = tuple(pipe.bytes_per_s.most for pipe in changed.pipes)
            deployed = dataclasses.replace(_with_open_ends(decision), bytes_per_s=rates)
            deployed_rps = Loads(changed, deployed).scale * solved.demand_rps
            replanned_rps = max(anew.scale * anew.demand_rps, deployed_rps)
            same = anew.decision.counts == decision.counts or replanned_rps == deployed_rps
            rows.append(FleetDeviation(figure, share, deployed_rps, replanned_rps, not same))
    return tuple(rows)


def with_figure_off(network: Network, figure: Figure, factor: float) -> Network | None:
    """The network with one of its figures multiplied; None where lengths would leave a profile's range."""
    if figure == "mean input length":
        return _with_lengths(network, factor)
    if figure == "link bandwidth":
        return dataclasses.replace(network, pipes=tuple(_widened(pipe, factor) for pipe in network.pipes))
    slower: dict[int, Curve] = {}

    def off(way: Way) -> Way:
        if (way.pipe is not None) != (figure == "remote prefill latency"):
            return way
        curve = slower.setdefault(id(way.prefill_s), way.prefill_s.scaled(factor))
        return dataclasses.replace(way, prefill_s=curve)

    return dataclasses.replace(network, ways=tuple(map(off, network.ways)))


def _widened(pipe: Pipe, factor: float) -> Pipe:
    rate = pipe.bytes_per_s
    return dataclasses.replace(pipe, bytes_per_s=Limits(rate.least * factor, rate.most * factor))


def _with_lengths(network: Network, factor: float) -> Network | None:
    streams: list[Demand] = []
    for s, stream in enumerate(network.streams):
        lengths = stream.lengths.scaled(factor)
        ways = [network.ways[i] for i in network.ways_of[s]]
        curves = [curve for way in ways for curve in (way.prefill_s, way.kv_bytes) if curve is not None]
        if lengths is None or lengths.high > min(curve.upper for curve in curves):
            return None
        if any(way.kv_bytes is not None and way.kv_bytes(lengths.low) < 0 for way in ways):
            return None
        streams.append(dataclasses.replace(stream, lengths=lengths))
    return dataclasses.replace(network, streams=tuple(streams))


def _with_open_ends(decision: Decision) -> Decision:
    """The decision for any lengths: each band begins where the one before it ends, the last has no end."""
    bands = []
    for each in decision.bands:
        lows = [0.0, *(band.high for band in each[:-1])]
        highs = [*(band.high for band in each[:-1]), math.inf]
        rows = zip(each, lows, highs, strict=True)
        bands.append(tuple(dataclasses.replace(band, low=low, high=high) for band, low, high in rows))
    return dataclasses.replace(decision, bands=tuple(bands))
