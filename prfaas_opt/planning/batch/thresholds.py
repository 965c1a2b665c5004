"""Thresholds of many scenarios at once: what they load, and the best of each split; ``threshold`` on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prfaas_opt.planning.threshold import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prfaas_opt.planning.batch.tables import Flags, Floats, Ints, LoadTables
    from prfaas_opt.planning.problem import TwoPoolProblem


class Capacities(NamedTuple):
    """What scenarios of one kind differ in, an entry each.

    Attributes:
        remote: usable remote instances.
        egress_bytes_per_s: what the link carries.
        pd_instances: to split.
        pd_ceiling: share of its time that a PD instance may be busy.
        decode_rps: requests/s that one fully used decode instance finishes.
    """

    remote: Floats
    egress_bytes_per_s: Floats
    pd_instances: Ints
    pd_ceiling: Floats
    decode_rps: Floats

    def of(self, chosen: Ints) -> Capacities:
        """Those of some of the scenarios."""
        remote, egress, instances, ceiling, decode_rps = self
        return Capacities(remote[chosen], egress[chosen], instances[chosen], ceiling[chosen], decode_rps[chosen])

    def problems(self, shared: TwoPoolProblem) -> Iterator[TwoPoolProblem]:
        """The problem of each scenario, all else being as in one of their kind."""
        for row in zip(*(each.tolist() for each in tuple(self)), strict=True):
            yield shared.with_capacities(*row)

    def decode_limit_rps(self, split: Ints) -> Floats:
        """What the decode instances finish when ``split`` of the PD cluster prefill."""
        limit: Floats = self.decode_rps * self.pd_ceiling * (self.pd_instances - split)
        return limit


class BestThresholds(NamedTuple):
    """The best thresholds for given splits, as in ``threshold.BestThreshold``."""

    threshold: Ints
    load_s: Floats
    shared_load_s: Floats
    crossing_tokens: Floats
    link_binds: Flags

    def of(self, chosen: Ints) -> BestThresholds:
        """Those of some of the scenarios."""
        threshold, load_s, shared_load_s, crossing_tokens, link_binds = self
        return BestThresholds(
            threshold[chosen], load_s[chosen], shared_load_s[chosen], crossing_tokens[chosen], link_binds[chosen]
        )


class Thresholds:
    """The thresholds of scenarios; division by zero stands for what no instances or no requests do."""

    def __init__(self, tables: LoadTables, given: Capacities) -> None:
        self.tables, self.given = tables, given

    def usable(self, split: Ints) -> Floats:
        """Usable local prefill instances."""
        usable: Floats = self.given.pd_ceiling * split
        return usable

    def carries(self, split: Ints, rate_rps: Floats) -> Flags:
        """Whether prefill of a split carries a rate: keeping all that local prefill can, the remote pool does the rest.

        A sum that is off by rounding may not decide, so that a load is taken to fit where it all but does.
        """
        load_s = 1.0 / rate_rps
        index = self.longest_kept(split, load_s)
        carries: Flags = self._remote_load(index) <= load_s
        return carries

    def longest_kept(self, split: Ints, load_s: Floats) -> Ints:
        """The longest threshold that local prefill carries at a load."""
        kept: Ints = np.searchsorted(self.tables.local_s, load_s * self.usable(split), side="right") - 1
        return kept

    def shortest_carried(self, load_s: Floats) -> Ints:
        """The shortest threshold at which the remote pool carries what is above it."""
        tables, given = self.tables, self.given
        count = len(tables.remote_s)
        by_compute = count - np.searchsorted(tables.remote_s[::-1], load_s * given.remote, side="right")
        by_link = count - np.searchsorted(tables.sent_bytes[::-1], load_s * given.egress_bytes_per_s, side="right")
        shortest: Ints = np.maximum(by_compute, by_link)
        return shortest

    def _compute_load(self, index: Ints) -> Floats:
        load: Floats = self.tables.remote_s[index] / self.given.remote
        return load

    def _link_load(self, index: Ints) -> Floats:
        load: Floats = self.tables.sent_bytes[index] / self.given.egress_bytes_per_s
        return load

    def _remote_load(self, index: Ints) -> Floats:
        return np.maximum(self._compute_load(index), self._link_load(index))

    def best(self, split: Ints) -> BestThresholds:
        """Bisection on the first threshold at which local prefill is the busier pool."""
        local_s, usable = self.tables.local_s, self.usable(split)
        low = np.ones_like(split)
        above = np.full_like(split, len(local_s) - 1)
        while (open_ := low < above).any():
            middle = (low + above) // 2
            busier = local_s[middle] / usable >= self._remote_load(middle)
            above = np.where(open_ & busier, middle, above)
            low = np.where(open_ & ~busier, middle + 1, low)
        below = above - 1
        load_above, load_below = local_s[above] / usable, self._remote_load(below)
        takes_above = load_above <= load_below * (1 + TIE)
        load = np.where(takes_above, load_above, load_below)
        shared, crossing, link_binds = self._share_token(usable, below, above)
        alone = np.isinf(load_above)
        return BestThresholds(
            np.where(takes_above, above, below),
            load,
            np.where(alone, load, np.minimum(shared, load)),
            np.where(alone, below + self.tables.first, crossing),
            link_binds & ~alone,
        )

    def _share_token(self, usable: Floats, below: Ints, above: Ints) -> tuple[Floats, Floats, Flags]:
        """Least load with the token length ``above`` shared, where in it the loads meet, and whether the link binds."""
        tables = self.tables
        local_0, local_1 = tables.local_s[below] / usable, tables.local_s[above] / usable
        meetings = []
        for remote_load in (self._compute_load, self._link_load):
            remote_0, remote_1 = remote_load(below), remote_load(above)
            slope = (local_1 - local_0) + (remote_0 - remote_1)
            share = np.where(slope > 0, np.clip((remote_0 - local_0) / slope, 0.0, 1.0), 1.0)
            shared = np.maximum(local_0 + share * (local_1 - local_0), remote_0 - share * (remote_0 - remote_1))
            meetings.append((shared, below + tables.first + share))
        (by_compute, compute_at), (by_link, link_at) = meetings
        link_binds = (by_link > by_compute) | ((by_link == by_compute) & (link_at >= compute_at))
        shared, crossing = np.where(link_binds, by_link, by_compute), np.where(link_binds, link_at, compute_at)
        met, met_at = self._meet(usable, below, crossing, above)
        atom = tables.holds_atom(above)
        return np.where(atom, shared, met), np.where(atom, crossing, met_at), link_binds

    def _meet(self, usable: Floats, below: Ints, guess: Floats, above: Ints) -> tuple[Floats, Floats]:
        """Least load of a threshold inside a token length without atoms, and where: one secant step from a guess."""
        tables = self.tables
        local, remote = self._loads(usable, guess)
        end = np.where(local > remote, below, above)
        difference = local - remote
        end_difference = tables.local_s[end] / usable - self._remote_load(end)
        first = tables.first
        step = difference / (difference - end_difference) * (end + first - guess)
        refined = np.where(difference == end_difference, guess, np.clip(guess + step, below + first, above + first))
        load, refined_load = np.maximum(local, remote), np.maximum(*self._loads(usable, refined))
        better = (refined_load < load) | ((refined_load == load) & (refined < guess))
        return np.where(better, refined_load, load), np.where(better, refined, guess)

    def _loads(self, usable: Floats, lengths: Floats) -> tuple[Floats, Floats]:
        """Local and remote load at thresholds inside a token."""
        remote_s, sent_bytes, local_s = self.tables.loads(lengths)
        given = self.given
        return local_s / usable, np.maximum(remote_s / given.remote, sent_bytes / given.egress_bytes_per_s)
