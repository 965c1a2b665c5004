"""The fleet's linear program over bins of length, in cvxpy: plan, baselines and sizing are one set of constraints.

All requests of a bin share its mean service times, so a solution is one of the unbinned problem too: its value is
attained. What is written here are the rows of ``network``; demands there are scaled so that the solver sees numbers
of about 1, since its tolerances are absolute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from scipy import sparse

from prfaas_opt import units
from prfaas_opt.modelling import cp
from prfaas_opt.planning.fleets.envelope import Prices
from prfaas_opt.planning.fleets.expressions import picked, product, times
from prfaas_opt.planning.fleets.states import States
from prfaas_opt.planning.solver import run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.planning.fleets.bins import Bins, StreamBins
    from prfaas_opt.planning.fleets.network import Network
    from prfaas_opt.planning.options import SolverOptions
    from prfaas_opt.planning.solver import Outcome

_MOST_SCALE = 2.0

Goal = Literal["scale", "cost", "egress", "work"]
"""What is best: the largest scale, the least cost at scale 1, the fewest bytes or the fewest GPU-seconds of prefill."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a question adds to the network's constraints.

    Attributes:
        goal: what is best.
        least_scale: the scale that must be reached.
        budget_usd_per_hour: what may be spent; None sets no limit.
        most_egress: what may be sent, in the unit of the goal ``egress``; None sets no limit.
        counts: instances of each team, where they are decided; None leaves them to the program.
        whole: whether counts left to the program are integers.
        near: counts from which those may differ by one at most; None sets no such limit.
    """

    goal: Goal
    least_scale: float = 0.0
    budget_usd_per_hour: float | None = None
    most_egress: float | None = None
    counts: tuple[int, ...] | None = None
    whole: bool = False
    near: tuple[int, ...] | None = None

    @property
    def most_scale(self) -> float:
        """A scale that is not exceeded: the demand's where it is given, else networks are scaled to about 1."""
        return _MOST_SCALE if self.goal == "scale" else self.least_scale


@dataclass(frozen=True)
class Solution:
    """A point of the program.

    Attributes:
        value: of the goal.
        scale: the streams' rates over their demands.
        bins: by stream, what ``served`` is in.
        served: by way, requests of each bin over the stream's demand.
        decoded: by decoder, requests/s.
        counts: by team; fractions where they may be.
        gpus: by holding.
        bytes_per_s: by link, the rate it must have.
        usd_per_hour: what it costs.
    """

    value: float
    scale: float
    bins: tuple[StreamBins, ...]
    served: tuple[NDArray[np.float64], ...]
    decoded: tuple[float, ...]
    counts: tuple[float, ...]
    gpus: tuple[float, ...]
    bytes_per_s: tuple[float, ...]
    usd_per_hour: float


@dataclass(frozen=True)
class SupplyPrices:
    """Duals of capacities, in the goal's unit.

    Attributes:
        instances: of one more instance of each team.
        bytes_per_s: of one more byte/s of each link.
    """

    instances: tuple[float, ...]
    bytes_per_s: tuple[float, ...]


class Supply:
    """Variables and constraints of what there is: counts, GPUs, link rates and decoding, with their cost."""

    def __init__(self, network: Network, terms: Terms) -> None:
        self._network = network
        teams, decoders = network.teams, network.decoders
        self.scale = cp.Variable(nonneg=True)
        self.decoded = cp.Variable(len(decoders), nonneg=True)
        self.counts: cp.Expression
        copied: dict[str, cp.Constraint] = {}
        if isinstance(network, States):
            self.counts, copied = _counts_in_states(network, terms)
        elif terms.counts is None:
            least, most = np.zeros(len(teams)), self.most_instances
            if terms.near is not None:
                near = np.array(terms.near)
                least, most = np.maximum(near - 1, least), np.minimum(near + 1, most)
            self.counts = cp.Variable(len(teams), integer=terms.whole, bounds=[least, most])
        else:
            self.counts = cp.Constant(np.array(terms.counts, dtype=np.float64))
        self.pipe_unit = np.array([max(pipe.bytes_per_s.most, 1.0) for pipe in network.pipes])
        gpus = np.array([[each.limits.least, each.limits.most] for each in network.gpus], dtype=np.float64)
        self.gpus = cp.Variable(len(gpus), bounds=[gpus[:, 0], gpus[:, 1]])
        limits = [[pipe.bytes_per_s.least, pipe.bytes_per_s.most] for pipe in network.pipes]
        rates = np.array(limits, dtype=np.float64).reshape(-1, 2)
        rates /= self.pipe_unit[:, None]
        self.rates: cp.Expression | None = None
        if len(rates):
            own = network.own_pipes if isinstance(network, States) else len(rates)
            self.rates = cp.Variable(own, bounds=[rates[:own, 0], rates[:own, 1]])
            if isinstance(network, States):
                self.rates = picked(self.rates, network.pipe_of)
        self.constraints = self._constraints(terms) | copied

    @cached_property
    def most_instances(self) -> NDArray[np.float64]:
        """The most instances each team can have."""
        if isinstance(self._network, States):
            return np.array([float(self._network.counts[of][1]) for of in self._network.team_of])
        return np.array([self._network.gpus[t.gpus].limits.most // t.gpus_per_instance for t in self._network.teams])

    @cached_property
    def ceilings(self) -> NDArray[np.float64]:
        """Of each team."""
        return np.array([team.ceiling for team in self._network.teams])

    @cached_property
    def decode_teams(self) -> list[int]:
        """The teams that decode."""
        return [t for t, team in enumerate(self._network.teams) if team.role == "decode"]

    @cached_property
    def arrivals(self) -> list[tuple[int, int]]:
        """The (stream, site) pairs between which rates must balance."""
        return sorted({(d.stream, d.destination) for d in self._network.decoders})

    def _constraints(self, terms: Terms) -> dict[str, cp.Constraint]:
        network, decode = self._network, self.decode_teams
        rows, columns, values = [], [], []
        for column, decoder in enumerate(network.decoders):
            rows.append(decode.index(decoder.team))
            columns.append(column)
            values.append(network.streams[decoder.stream].rate_rps / decoder.rps_per_instance)
        busy = sparse.csr_array((values, (rows, columns)), shape=(len(decode), len(network.decoders)))
        taken = sparse.csr_array(
            (
                [float(team.gpus_per_instance) for team in network.teams],
                ([team.gpus for team in network.teams], range(len(network.teams))),
            ),
            shape=(len(network.gpus), len(network.teams)),
        )
        constraints = {
            "decode": product(busy, self.decoded) <= times(self.ceilings[decode], picked(self.counts, decode)),
            "gpus": product(taken, self.counts) <= self.gpus,
            "scale": self.scale >= terms.least_scale,
            "most": self.scale <= terms.most_scale,
        }
        if terms.counts is None:
            decoders = [decoder.team for decoder in network.decoders]
            constraints["decoders"] = self.decoded <= terms.most_scale * picked(self.counts, decoders)
        return constraints

    def fixed_usd(self) -> cp.Expression:
        """USD an hour of GPUs and link rates."""
        cost = product(np.array([each.usd_per_hour for each in self._network.gpus]), self.gpus)
        if self.rates is not None:
            prices = np.array([pipe.usd_per_byte_per_s_hour for pipe in self._network.pipes])
            cost = cost + product(prices * self.pipe_unit, self.rates)
        return cost

    @cached_property
    def usd_per_unit_sent(self) -> NDArray[np.float64]:
        """USD an hour of sending at a link's unit rate."""
        prices = np.array([pipe.usd_per_byte for pipe in self._network.pipes])
        return np.asarray(prices * self.pipe_unit * units.HOUR_S, dtype=np.float64)

    def problem(self, terms: Terms, **costs: cp.Expression) -> cp.Problem:
        """The problem of all constraints and the goal.

        Args:
            terms: what is asked.
            costs: what each goal but the scale minimizes.
        """
        constraints = self.constraints
        if terms.budget_usd_per_hour is not None:
            constraints["cost"] = costs["cost"] / terms.budget_usd_per_hour <= 1
        if terms.goal == "scale":
            return cp.Problem(cp.Maximize(self.scale), list(constraints.values()))
        return cp.Problem(cp.Minimize(costs[terms.goal]), list(constraints.values()))


def _counts_in_states(network: States, terms: Terms) -> tuple[cp.Expression, dict[str, cp.Constraint]]:
    """Counts of all teams, copies as their originals; what says that a team with any instance loses a whole one."""
    of = list(network.team_of)
    losing = [t for t, loses in enumerate(network.loses) if loses]
    lost_by = sparse.csr_array((np.ones(len(losing)), (losing, range(len(losing)))), shape=(len(of), len(losing)))
    if terms.counts is not None:
        counts = np.array(terms.counts, dtype=np.float64)[of]
        return cp.Constant(counts - lost_by @ np.minimum(counts[losing], 1.0)), {}
    least, most = np.array(network.counts, dtype=np.float64).T
    if terms.near is not None:
        near = np.array(terms.near)[: len(least)]
        least, most = np.maximum(near - 1, least), np.minimum(near + 1, most)
    own = cp.Variable(len(least), integer=terms.whole, bounds=[least, most])
    if not losing:
        return own[of], {}
    lost = cp.Variable(len(losing), integer=terms.whole, bounds=[0, 1])
    whole = times(1.0 / np.maximum(most[[of[t] for t in losing]], 1.0), own[[of[t] for t in losing]]) <= lost
    return own[of] - product(lost_by, lost), {"lost": whole}


class BinnedProgram:
    """The program on some bins; its counts free, whole or given."""

    def __init__(self, network: Network, bins: Bins, terms: Terms) -> None:
        self._network, self._bins, self._terms = network, tuple(bins.streams), terms
        self._supply = supply = Supply(network, terms)
        sizes = [len(self._bins[way.stream].weights) for way in network.ways]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self._served = cp.Variable(int(self._offsets[-1]), nonneg=True)
        self._pipes = sorted({way.pipe for way in network.ways if way.pipe is not None})
        self._prefill = [t for t, team in enumerate(network.teams) if team.role == "prefill"]
        served, arrived, seconds, sent = self._matrices()
        weights = np.concatenate([each.weights for each in self._bins])
        supply.constraints["served"] = product(served, self._served) == supply.scale * weights
        decoded_there = np.array(
            [[float((d.stream, d.destination) == pair) for d in network.decoders] for pair in supply.arrivals]
        )
        supply.constraints["arrivals"] = product(arrived, self._served) <= product(decoded_there, supply.decoded)
        if terms.counts is None:
            supply.constraints["used"] = self._used()
        supply.constraints["prefill"] = product(seconds, self._served) <= times(
            supply.ceilings[self._prefill], picked(supply.counts, self._prefill)
        )
        self._gpus = np.array([float(network.teams[t].gpus_per_instance) for t in self._prefill])
        self._gpus /= max(float((self._gpus * supply.most_instances[self._prefill]).sum()), 1.0)
        usd = supply.fixed_usd()
        total_sent: cp.Expression = cp.Constant(0.0)
        if self._pipes and supply.rates is not None:
            ceilings = np.array([pipe.ceiling for pipe in network.pipes])
            supply.constraints["egress"] = product(sent, self._served) <= times(
                ceilings[self._pipes], picked(supply.rates, self._pipes)
            )
            usd = usd + product(supply.usd_per_unit_sent[self._pipes] @ sent, self._served)
            self._sent = supply.pipe_unit[self._pipes] / float(supply.pipe_unit.sum())
            total_sent = product(self._sent @ sent, self._served)
            if terms.most_egress is not None:
                supply.constraints["sent"] = total_sent <= terms.most_egress
        self._usd = usd
        work = product(self._gpus @ seconds, self._served)
        self.problem = supply.problem(terms, cost=usd, egress=total_sent, work=work)

    def _used(self) -> cp.Constraint:
        """What a team serves of a stream is no more than the stream for every instance: none serves nothing.

        Integers imply it, up to a solver's tolerances, which are larger than the load of a stream that is next to none.
        """
        pairs = sorted({(way.stream, way.team) for way in self._network.ways})
        rows: list[int] = []
        columns: list[int] = []
        for i, way in enumerate(self._network.ways):
            size = int(self._offsets[i + 1] - self._offsets[i])
            rows += [pairs.index((way.stream, way.team))] * size
            columns += range(int(self._offsets[i]), int(self._offsets[i + 1]))
        of_pair = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(pairs), int(self._offsets[-1])))
        counts = picked(self._supply.counts, [team for _, team in pairs])
        most = self._terms.most_scale * np.ones(len(pairs))
        return cast("cp.Constraint", product(of_pair, self._served) <= times(most, counts))

    def _matrices(self) -> tuple[sparse.csr_array, ...]:
        """What a request of each bin and way adds to the bins served, to arrivals, to seconds and to bytes."""
        network, supply = self._network, self._supply
        bin_row = np.concatenate([[0], np.cumsum([len(each.weights) for each in self._bins])]).astype(int)
        teams = {team: row for row, team in enumerate(self._prefill)}
        pipes = {pipe: row for row, pipe in enumerate(self._pipes)}
        pairs = {pair: row for row, pair in enumerate(supply.arrivals)}
        entries: list[list[tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]]] = [[], [], [], []]
        for i, way in enumerate(network.ways):
            bins = self._bins[way.stream]
            columns = np.arange(self._offsets[i], self._offsets[i + 1])
            rate = network.streams[way.stream].rate_rps
            rows = bin_row[way.stream] + np.arange(len(columns))
            entries[0].append((rows, columns, np.ones(len(columns))))
            pair = np.full(len(columns), pairs[way.stream, way.destination])
            entries[1].append((pair, columns, np.ones(len(columns))))
            entries[2].append((np.full(len(columns), teams[way.team]), columns, rate * bins.seconds[i] / bins.weights))
            if way.pipe is not None:
                loads = rate * bins.bytes[i] / bins.weights / supply.pipe_unit[way.pipe]
                entries[3].append((np.full(len(columns), pipes[way.pipe]), columns, loads))
        heights = (int(bin_row[-1]), len(pairs), len(teams), len(pipes))
        return tuple(self._matrix(each, height) for each, height in zip(entries, heights, strict=True))

    def _matrix(
        self, entries: list[tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]], height: int
    ) -> sparse.csr_array:
        shape = (height, int(self._offsets[-1]))
        if not entries:
            return sparse.csr_array(shape)
        rows, columns, values = (np.concatenate(each) for each in zip(*entries, strict=True))
        return sparse.csr_array((values, (rows, columns)), shape=shape)

    def solve(self, options: SolverOptions, gap_share: float = 1e-9, time_limit_s: float | None = None) -> Outcome:
        """Solves it.

        Raises:
            SolverError: the solver failed.
        """
        return run(self.problem, options, gap_share, time_limit_s)

    @property
    def solution(self) -> Solution:
        """The point found."""
        supply, network = self._supply, self._network
        served = np.maximum(_array(self._served), 0.0)
        by_way = tuple(served[a:b] for a, b in zip(self._offsets, self._offsets[1:], strict=False))
        rates = np.zeros(0) if supply.rates is None else _array(supply.rates) * supply.pipe_unit
        decoded = _array(supply.decoded) * [network.streams[d.stream].rate_rps for d in network.decoders]
        return Solution(
            value=float(_array(self.problem)),
            scale=float(_array(supply.scale)),
            bins=self._bins,
            served=by_way,
            decoded=tuple(decoded.tolist()),
            counts=tuple(_array(supply.counts).tolist()),
            gpus=tuple(_array(supply.gpus).tolist()),
            bytes_per_s=tuple(rates.tolist()),
            usd_per_hour=float(_array(self._usd)),
        )

    @property
    def prices(self) -> Prices:
        """Duals of prefill, egress and arrivals, and the prices that the goal itself sets; of a linear program."""
        supply, network = self._supply, self._network
        rates = [network.streams[stream].rate_rps for stream, _ in supply.arrivals]
        per_second = self.duals("prefill") + (self._gpus if self._terms.goal == "work" else 0.0)
        pipes: dict[int, float] = {}
        if "egress" in supply.constraints:
            per_byte = (self.duals("egress") + self._goal_price_per_unit()) / supply.pipe_unit[self._pipes]
            pipes = dict(zip(self._pipes, per_byte.tolist(), strict=True))
        arrivals = (self.duals("arrivals") / rates).tolist()
        return Prices(
            dict(zip(self._prefill, per_second.tolist(), strict=True)),
            pipes,
            dict(zip(supply.arrivals, arrivals, strict=True)),
        )

    @property
    def supply_prices(self) -> SupplyPrices:
        """What one more of each capacity is worth; of a linear program."""
        supply, network = self._supply, self._network
        instances = np.zeros(len(network.teams))
        instances[self._prefill] = self.duals("prefill")
        instances[supply.decode_teams] = self.duals("decode")
        rates = np.zeros(len(network.pipes))
        if "egress" in supply.constraints:
            ceilings = np.array([network.pipes[e].ceiling for e in self._pipes])
            rates[self._pipes] = self.duals("egress") * ceilings / supply.pipe_unit[self._pipes]
        return SupplyPrices(tuple((instances * supply.ceilings).tolist()), tuple(rates.tolist()))

    def _goal_price_per_unit(self) -> NDArray[np.float64]:
        """What the goal, or a limit of its own, asks for sending at each link's unit rate."""
        supply, goal = self._supply, self._terms.goal
        price = np.zeros(len(self._pipes))
        if goal == "egress":
            price += self._sent
        if "sent" in supply.constraints:
            price += self.duals("sent")[0] * self._sent
        usd = 1.0 if goal == "cost" else 0.0
        if self._terms.budget_usd_per_hour is not None:
            usd += float(self.duals("cost")[0]) / self._terms.budget_usd_per_hour
        return price + usd * supply.usd_per_unit_sent[self._pipes]

    def duals(self, name: str) -> NDArray[np.float64]:
        """Duals of some named constraints, zero or more."""
        duals = np.atleast_1d(np.asarray(self._supply.constraints[name].dual_value, dtype=np.float64))
        return np.maximum(duals, 0.0)


def _array(of: cp.Expression | cp.Problem) -> NDArray[np.float64]:
    return np.asarray(of.value, dtype=np.float64)
