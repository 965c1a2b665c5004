"""A relaxation whose optimum bounds every routing of unbinned lengths: resources are allotted to streams, and each
stream's allotment must be worth the mean cheapest cost of its requests, at every set of prices tried so far.

Each such cut is weak duality on the unbinned lengths (``envelope``), so the bound is no artefact of any grid. Counts
are integers here, and there are no bins: the program stays small however fine the bins of ``program`` become.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from prfaas_opt.modelling import cp
from prfaas_opt.planning.fleets.expressions import picked, product, times
from prfaas_opt.planning.fleets.program import Supply
from prfaas_opt.planning.solver import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.planning.fleets.envelope import Prices
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.fleets.program import Terms
    from prfaas_opt.planning.options import SolverOptions
    from prfaas_opt.planning.solver import Outcome


@dataclass(frozen=True)
class Cut:
    """At these prices a request of the stream costs ``mean_cost`` at least, however it is routed."""

    stream: int
    prices: Prices
    mean_cost: float


class Relaxation:
    """The allotment program with some cuts."""

    def __init__(self, network: Network, terms: Terms, cuts: Sequence[Cut]) -> None:
        self._supply = supply = Supply(network, terms)
        ways = network.ways
        teams = sorted({(way.stream, way.team) for way in ways})
        pipes = sorted({(way.stream, way.pipe) for way in ways if way.pipe is not None})
        sites = supply.arrivals
        columns = {("team", *pair): i for i, pair in enumerate(teams)}
        columns |= {("pipe", *pair): len(columns) + i for i, pair in enumerate(pipes)}
        columns |= {("site", *pair): len(columns) + i for i, pair in enumerate(sites)}
        allotted = cp.Variable(len(columns), nonneg=True)
        self._network, self._columns, self._allotted = network, columns, allotted
        named = supply.constraints
        prefill = [t for t, team in enumerate(network.teams) if team.role == "prefill"]
        by_team = _sums([prefill.index(team) for _, team in teams], len(prefill))
        named["prefill"] = product(by_team, allotted[: len(teams)]) <= times(
            supply.ceilings[prefill], picked(supply.counts, prefill)
        )
        usd = supply.fixed_usd()
        first_site = len(teams) + len(pipes)
        if pipes and supply.rates is not None:
            sent = allotted[len(teams) : first_site]
            by_pipe = _sums([pipe for _, pipe in pipes], len(network.pipes))
            ceilings = np.array([pipe.ceiling for pipe in network.pipes])
            named["egress"] = product(by_pipe, sent) <= times(ceilings, supply.rates)
            usd = usd + product(supply.usd_per_unit_sent @ by_pipe, sent)
        arrived = allotted[first_site:]
        decoded_there = np.array(
            [[float((d.stream, d.destination) == pair) for d in network.decoders] for pair in sites]
        )
        named["arrivals"] = arrived <= product(decoded_there, supply.decoded)
        by_stream = _sums([stream for stream, _ in sites], len(network.streams))
        named["served"] = product(by_stream, arrived) == supply.scale * np.ones(len(network.streams))
        rows = [row for row in (self._row(network, cut, columns) for cut in cuts) if row is not None]
        if rows:
            matrix = sparse.csr_array(
                (
                    [value for row in rows for value in row.values()],
                    ([i for i, row in enumerate(rows) for _ in row], [j for row in rows for j in row]),
                ),
                shape=(len(rows), len(columns)),
            )
            named["cuts"] = product(matrix, allotted) >= supply.scale * np.ones(len(rows))
        self._usd = usd
        self.problem = supply.problem(terms, cost=usd)

    def _row(self, network: Network, cut: Cut, columns: dict[tuple[str, int, int], int]) -> dict[int, float] | None:
        """A cut's coefficients, scaled so that its right-hand side is the scale; None where it says nothing."""
        rate = network.streams[cut.stream].rate_rps
        least = rate * cut.mean_cost
        if least <= 0:
            return None
        row = {}
        for team, price in cut.prices.teams.items():
            if price > 0 and ("team", cut.stream, team) in columns:
                row["team", cut.stream, team] = price
        for pipe, price in cut.prices.pipes.items():
            if price > 0 and ("pipe", cut.stream, pipe) in columns:
                row["pipe", cut.stream, pipe] = price * self._supply.pipe_unit[pipe]
        for (stream, site), price in cut.prices.sites.items():
            if stream == cut.stream and price > 0:
                row["site", stream, site] = price * rate
        return {columns[key]: value / least for key, value in row.items()}

    def solve(self, options: SolverOptions, gap_share: float, time_limit_s: float | None) -> Outcome:
        """Solves it.

        Raises:
            SolverError: the solver failed.
        """
        return run(self.problem, options, gap_share, time_limit_s)

    @property
    def scale(self) -> float:
        """The scale at the point found."""
        return float(np.asarray(self._supply.scale.value))

    def allotted(self, stream: int) -> dict[tuple[str, int], float]:
        """What a stream may use at the point found: seconds a second, bytes/s, and requests/s by site."""
        values = np.asarray(self._allotted.value)
        found = {}
        for (kind, s, index), column in self._columns.items():
            if s == stream:
                unit = self._network.streams[s].rate_rps if kind == "site" else 1.0
                unit = self._supply.pipe_unit[index] if kind == "pipe" else unit
                found[kind, index] = float(values[column]) * unit
        return found

    @property
    def counts(self) -> tuple[int, ...]:
        """Instances of each team at the point found."""
        return tuple(round(float(n)) for n in np.asarray(self._supply.counts.value))


def _sums(rows: Sequence[int], height: int) -> sparse.csr_array:
    """A matrix that adds up columns by row."""
    return sparse.csr_array((np.ones(len(rows)), (rows, range(len(rows)))), shape=(height, len(rows)))
