"""The best split and threshold of many scenarios at once, and their proof: ``split`` on arrays.

Where splits tie, or all but do, a case is left out, to be planned by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prfaas_opt.planning.batch.proofs import PrefillBounds
from prfaas_opt.planning.batch.thresholds import Capacities, Thresholds
from prfaas_opt.planning.split import NEAR_OPTIMAL_SHARE
from prfaas_opt.planning.threshold import TIE

if TYPE_CHECKING:
    from prfaas_opt.planning.batch.tables import Flags, Floats, Ints, LoadTables


class Found(NamedTuple):
    """The decisions and what is proven of them, an entry each, as in ``split.Solution``.

    Attributes:
        ordinary: whether the case is a common one; the other figures hold only there.
        split: N_p.
        threshold: index into the tables.
        near: indices of the shortest and the longest threshold within 1 % of the throughput.
        bound_rps, shared_rps: no routing and no split carries more; what sharing a token length would carry.
        remote_price, local_price, decode_price, link_price: duals of the split.
    """

    ordinary: Flags
    split: Ints
    threshold: Ints
    near: tuple[Ints, Ints]
    bound_rps: Floats
    shared_rps: Floats
    remote_price: Floats
    local_price: Floats
    decode_price: Floats
    link_price: Floats

    def of(self, chosen: Ints) -> Found:
        """Those of some of the scenarios."""
        ordinary, split, threshold, (nearest, farthest), *proof = self
        near = nearest[chosen], farthest[chosen]
        return Found(ordinary[chosen], split[chosen], threshold[chosen], near, *(each[chosen] for each in proof))


def decide(tables: LoadTables, given: Capacities) -> Found:
    """The best decisions of scenarios of one kind."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _decide(Thresholds(tables, given))


def _decide(thresholds: Thresholds) -> Found:
    given = thresholds.given
    crossing = _first_decode_bound(thresholds)
    before = np.maximum(crossing - 1, 0)
    at, below = thresholds.best(np.minimum(crossing, given.pd_instances - 1)), thresholds.best(before)
    decode_at, decode_below = given.decode_limit_rps(crossing), given.decode_limit_rps(before)
    exists_at, exists_below = crossing < given.pd_instances, crossing > 0
    carried_at = np.where(exists_at, np.minimum(1.0 / at.load_s, decode_at), 0.0)
    carried_below = np.where(exists_below, np.minimum(1.0 / below.load_s, decode_below), 0.0)
    takes_at = carried_at > carried_below
    split = np.where(takes_at, crossing, before)
    throughput = np.where(takes_at, carried_at, carried_below)
    decode_binds = takes_at & (decode_at < 1.0 / at.load_s)
    longest = thresholds.longest_kept(split, 1.0 / throughput)
    threshold = np.where(decode_binds, longest, np.where(takes_at, at.threshold, below.threshold))

    shared_below = np.where(exists_below, 1.0 / below.shared_load_s, 0.0)
    bounds = PrefillBounds(thresholds)
    # Where decode binds at the crossing, the split before it is no better if its bound is below that.
    prefill = bounds.of(before, below, np.where(takes_at, decode_at, 0.0))
    by_decode = takes_at | (decode_below <= prefill.bound_rps)
    near_load = (1 + TIE) / ((1 - NEAR_OPTIMAL_SHARE) * throughput)
    apart = np.abs(carried_at - carried_below) > 2 * TIE * throughput
    another = thresholds.carries(np.maximum(split - 1, 0), (1 - 3 * TIE) * throughput) & (split > 0)
    ordinary = (
        (throughput > 0)
        & apart
        & ~another
        & (shared_below < np.where(exists_below, decode_below, np.inf))
        & (decode_at != 1.0 / at.load_s)
    )
    return Found(
        ordinary,
        split,
        threshold,
        (thresholds.shortest_carried(near_load), thresholds.longest_kept(split, near_load)),
        _bound_over_splits(thresholds, crossing, prefill.bound_rps),
        np.maximum(np.where(exists_at, np.minimum(1.0 / at.shared_load_s, decode_at), 0.0), shared_below),
        np.where(by_decode, 0.0, prefill.remote_price),
        np.where(by_decode, 0.0, prefill.local_price),
        np.where(by_decode, given.decode_rps, 0.0),
        np.where(by_decode, 0.0, prefill.link_price),
    )


def _first_decode_bound(thresholds: Thresholds) -> Ints:
    """The first split whose prefill carries what its decode does; all instances where none does."""
    given = thresholds.given
    low, high = np.zeros_like(given.pd_instances), given.pd_instances.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        carries = thresholds.carries(middle, given.decode_limit_rps(middle))
        high = np.where(open_ & carries, middle, high)
        low = np.where(open_ & ~carries, middle + 1, low)
    return low


def _bound_over_splits(thresholds: Thresholds, crossing: Ints, before_rps: Floats) -> Floats:
    """``certificate.bound_over_splits``, given the bounds on prefill of the splits before the crossings."""
    given = thresholds.given
    split, below = crossing.copy(), np.where(crossing > 0, before_rps, 0.0)
    while len(exceeds := np.nonzero(below > np.where(split > 0, given.decode_limit_rps(split - 1), np.inf))[0]):
        split[exceeds] -= 1
        some, before = Thresholds(thresholds.tables, given.of(exceeds)), np.maximum(split[exceeds] - 1, 0)
        enough = some.given.decode_limit_rps(split[exceeds])
        bound = PrefillBounds(some).of(before, some.best(before), enough).bound_rps
        below[exceeds] = np.where(split[exceeds] > 0, bound, 0.0)
    at = np.where(split < given.pd_instances, given.decode_limit_rps(split), 0.0)
    return np.maximum(at, below)
