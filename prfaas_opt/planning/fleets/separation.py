"""Whether what the relaxation allots to a stream serves it, and the prices that show where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.modelling import cp
from prfaas_opt.planning.fleets.envelope import Prices
from prfaas_opt.planning.fleets.expressions import product, total
from prfaas_opt.planning.solver import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prfaas_opt.planning.fleets.bins import StreamBins
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.options import SolverOptions

_ENOUGH = 1e-7


def prices_of_shortage(
    network: Network,
    stream: int,
    bins: StreamBins,
    allotted: Mapping[tuple[str, int], float],
    scale: float,
    options: SolverOptions,
) -> Prices | None:
    """Prices at which an allotment is worth less than the stream's requests cost; None where it serves them.

    Args:
        network: whose stream.
        stream: its index.
        bins: its bins.
        allotted: by ("team", index) seconds of prefill a second, by ("pipe", index) bytes/s, by ("site", index)
            requests/s decoded.
        scale: the multiple of its demand that is to be served.
        options: names the solver.

    Raises:
        SolverError: the solver failed.
    """
    rate = network.streams[stream].rate_rps
    ways = network.ways_of[stream]
    count = len(bins.weights)
    served = cp.Variable((len(ways), count), nonneg=True)
    carried = cp.Variable(nonneg=True)
    loads: dict[tuple[str, int], list[cp.Expression]] = {}
    units: dict[tuple[str, int], float] = {}
    for row, i in enumerate(ways):
        way = network.ways[i]
        asked = [(("team", way.team), rate * bins.seconds[i]), (("site", way.destination), rate * bins.weights)]
        if way.pipe is not None:
            asked.append((("pipe", way.pipe), rate * bins.bytes[i]))
        for key, load in asked:
            units.setdefault(key, float(load.sum()) or 1.0)
            loads.setdefault(key, []).append(product(load / bins.weights / units[key], served[row]))
    limits = {key: total(terms) <= max(allotted.get(key, 0.0), 0.0) / units[key] for key, terms in loads.items()}
    everything = total([served[row] for row in range(len(ways))]) == carried * bins.weights
    problem = cp.Problem(cp.Maximize(carried), [everything, *limits.values(), carried <= 2 * scale])
    if not run(problem, options).found or float(np.asarray(carried.value)) >= scale * (1 - _ENOUGH):
        return None
    duals = {key: max(float(limit.dual_value), 0.0) / units[key] for key, limit in limits.items()}
    return Prices(
        {index: price for (kind, index), price in duals.items() if kind == "team"},
        {index: price for (kind, index), price in duals.items() if kind == "pipe"},
        {(stream, index): price for (kind, index), price in duals.items() if kind == "site"},
    )
