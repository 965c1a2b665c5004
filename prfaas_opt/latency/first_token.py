"""Time to first token under load: wait for prefill, prefill, the part of a transfer it does not hide, wait to decode.

Each prefill pool and all decode slots are queues (``queueing``); the link is shared by the transfers on it. The waits
and the request's own length are taken as independent. Lengths are cut into cells; within one the time from the start
of prefill is taken as spread evenly between its values at the ends, and waits are exponential beyond zero, so that
every probability is a sum of closed forms.

Plain floats: a plan asks a few hundred times, for which importing numpy would take longer.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from prfaas_opt.latency.queueing import NO_WAIT, Wait, sharing_stretch, wait
from prfaas_opt.numerics import bracketed_root

if TYPE_CHECKING:
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.terms import Transfer
    from prfaas_opt.workload.distribution import LengthDistribution

_CELLS = 96
_MOST_IN_CELL = 2.0 / _CELLS
_NARROWEST = 1.0 + 1e-9
_SAME_RATE = 1e-6
_SAME_TIME = 1e-9
_NO_DELAY = 1e-12


class Queue(Struct, frozen=True):
    """Servers and the service times of what comes to them, seconds."""

    servers: int
    service_s: float
    service_cv2: float

    def wait(self, rate_rps: float, arrival_cv2: float) -> Wait | None:
        """The wait at an arrival rate; None where it has no end."""
        if rate_rps <= 0 or self.service_s <= 0:
            return NO_WAIT
        if self.servers < 1:
            return None
        return wait(rate_rps, self.servers, self.service_s, self.service_cv2, arrival_cv2)


class Sending(Struct, frozen=True):
    """How offloaded requests are sent.

    Attributes:
        link_bytes_per_s: what the link carries for all of them.
        request_bytes_per_s: what it carries for one alone.
        rtt_s: round trip, which every transfer takes besides.
        transfer: what hides behind prefill.
        bytes_per_request: mean over all requests, offloaded or not.
        sent_per_uncached: tokens whose KVCache is sent for each that is prefilled.
    """

    link_bytes_per_s: float
    request_bytes_per_s: float
    rtt_s: float
    transfer: Transfer
    bytes_per_request: float
    sent_per_uncached: float = 1.0

    def stretch(self, rate_rps: float) -> float:
        """How many times as long transfers take, since they share the link."""
        load = rate_rps * self.bytes_per_request / self.link_bytes_per_s
        return sharing_stretch(load, self.link_bytes_per_s / self.request_bytes_per_s)

    def unhidden_s(self, prefill_s: float, sent_bytes: float, uncached_tokens: float, stretch: float) -> float:
        """What a transfer adds to the time to first token.

        Sent after prefill: all of it. Sent by layer: what outlasts prefill. Sent by chunk: the last chunk's part, or
        what outlasts the prefill of the chunks before it.
        """
        sending_s = sent_bytes * stretch / self.request_bytes_per_s
        overlap = self.transfer.overlap
        if overlap == "layer":
            return self.rtt_s + max(sending_s - prefill_s, 0.0)
        if overlap == "none":
            return self.rtt_s + sending_s
        last = min(self.transfer.chunk_tokens / uncached_tokens, 1.0)
        last_sent = last / self.sent_per_uncached
        return self.rtt_s + max(last_sent * sending_s, sending_s - (1.0 - last) * prefill_s)


class Chain(Struct, frozen=True):
    """Adjoining cells, or a single length, which is a cell of no extent.

    Attributes:
        weights: probability of each cell.
        lengths: the ends of the cells, one more than there are cells, or the single length.
    """

    weights: tuple[float, ...]
    lengths: tuple[float, ...]

    def times(self, factor: float) -> Chain:
        """The same with its probabilities times a factor."""
        return Chain(tuple(factor * weight for weight in self.weights), self.lengths)


class Cells:
    """Lengths cut into cells: ranges of a density, and single lengths with a probability of their own."""

    def __init__(self, lengths: LengthDistribution) -> None:
        self._lengths = lengths
        edges: set[float] = set()
        for _, part in lengths.parts:
            ratio = (part.high / part.low) ** (1.0 / _CELLS)
            edges |= {part.low, part.high, *(part.low * ratio**i for i in range(1, _CELLS))}
        whole = sorted(edges)
        self._edges = [x for a, b in itertools.pairwise(whole) for x in self._halved(a, b)] + whole[-1:]
        self._weights = [self._mass(a, b) for a, b in itertools.pairwise(self._edges)]
        self._grouped = _Grouped(lengths.atoms)

    def _halved(self, low: float, high: float) -> list[float]:
        """The first ends of the cells of a range, each of little probability: a density may be narrow in its range."""
        if self._mass(low, high) <= _MOST_IN_CELL or high < low * _NARROWEST:
            return [low]
        middle = math.sqrt(low * high)
        return [*self._halved(low, middle), *self._halved(middle, high)]

    def chains(self, low: float, high: float) -> list[Chain]:
        """The cells of lengths in ``(low, high]``; cells that it cuts are cut."""
        found = self._grouped.chains(low, high)
        if not self._edges:
            return found
        low, high = max(low, self._edges[0]), min(high, self._edges[-1])
        if low >= high:
            return found
        i, j = bisect.bisect_right(self._edges, low), bisect.bisect_left(self._edges, high)
        lengths = (low, *self._edges[i:j], high)
        if i >= j:
            weights: tuple[float, ...] = (self._mass(low, high),)
        else:
            ends = self._mass(low, self._edges[i]), self._mass(self._edges[j - 1], high)
            weights = (ends[0], *self._weights[i : j - 1], ends[1])
        return [*found, Chain(weights, lengths)]

    def _mass(self, low: float, high: float) -> float:
        """Probability of a range by its density alone."""
        return math.fsum(
            weight * part.moment(0.0, max(low, part.low), min(high, part.high))
            for weight, part in self._lengths.parts
            if low < part.high and high > part.low
        )


class _Grouped:
    """Single lengths; where they are many, neighbours of little probability as one cell of their mean and variance."""

    def __init__(self, atoms: Sequence[tuple[float, float]]) -> None:
        self._lengths = [x for x, _ in atoms]
        self._sums = [[0.0, *itertools.accumulate(w * x**power for x, w in atoms)] for power in range(3)]
        self._starts = list(range(len(atoms)))
        if len(atoms) > _CELLS:
            step = (atoms[-1][0] / atoms[0][0]) ** (1.0 / _CELLS)
            self._starts = [0]
            for i, (x, _) in enumerate(atoms):
                first = self._starts[-1]
                if x > atoms[first][0] * step or self._sums[0][i + 1] - self._sums[0][first] > _MOST_IN_CELL:
                    self._starts.append(i)

    def chains(self, low: float, high: float) -> list[Chain]:
        """The cells of lengths in ``(low, high]``."""
        first, last = bisect.bisect_right(self._lengths, low), bisect.bisect_right(self._lengths, high)
        i, j = bisect.bisect_right(self._starts, first), bisect.bisect_left(self._starts, last)
        return [self._chain(a, b) for a, b in itertools.pairwise([first, *self._starts[i:j], last]) if a < b]

    def _chain(self, first: int, last: int) -> Chain:
        weight, tokens, squares = (sums[last] - sums[first] for sums in self._sums)
        if last - first == 1:
            return Chain((weight,), (self._lengths[first],))
        mean = tokens / weight
        half = math.sqrt(3.0 * max(squares / weight - mean * mean, 0.0))
        ends = max(mean - half, self._lengths[first]), min(mean + half, self._lengths[last - 1])
        return Chain((weight,), ends)


class Class(Struct, frozen=True, dict=True):
    """Requests that prefill in one pool.

    Attributes:
        share: of all requests.
        queue: of their pool.
        chains: their lengths.
        prefill_s: seconds by length.
        sent_bytes: by length, where they are sent.
        sending: how they are sent; None where they are not.
    """

    share: float
    queue: Queue
    chains: tuple[Chain, ...]
    prefill_s: Curve
    sent_bytes: Curve | None = None
    sending: Sending | None = None

    @cached_property
    def _prefilled(self) -> list[list[float]]:
        return [[self.prefill_s(min(x, self.prefill_s.upper)) for x in chain.lengths] for chain in self.chains]

    @cached_property
    def _sent(self) -> list[list[float]]:
        sent = self.sent_bytes
        return [[sent(min(x, sent.upper)) for x in chain.lengths] for chain in self.chains] if sent else []

    def started_to_first_token_s(self, rate_rps: float) -> list[list[float]]:
        """Seconds from the start of prefill to the first token at the ends of the cells, before the wait to decode."""
        if self.sending is None:
            return self._prefilled
        stretch, unhidden_s = self.sending.stretch(rate_rps), self.sending.unhidden_s
        return [
            [
                seconds + unhidden_s(seconds, sent, x, stretch)
                for seconds, sent, x in zip(prefilled, sizes, chain.lengths, strict=True)
            ]
            for prefilled, sizes, chain in zip(self._prefilled, self._sent, self.chains, strict=True)
        ]


class FirstToken(Struct, frozen=True):
    """The time to first token of a deployment at any load.

    Attributes:
        classes: the requests by pool, their shares adding up to 1.
        decode: slots, and how long a request holds one.
        arrival_cv2: of all requests; a class, picked by length, is nearer to Poisson.
        on_decode: requests that are not sent prefill on the decode instances, which decode more slowly meanwhile.
        waiting_bytes: KVCache of a request that waits to decode, on average.
        room_bytes: what the memory of all decode instances has for such.
    """

    classes: tuple[Class, ...]
    decode: Queue
    arrival_cv2: float = 1.0
    on_decode: bool = False
    waiting_bytes: float = 0.0
    room_bytes: float = math.inf

    def at(self, rate_rps: float) -> TtftAtLoad | None:
        """The time to first token at a rate of all requests; None where a queue has no end, or no room in memory."""
        decode = self._decode_beside_prefill(rate_rps)
        decode_wait = decode.wait(rate_rps, self.arrival_cv2) if decode else None
        waits = []
        for each in self.classes:
            thinned_cv2 = 1.0 + each.share * (self.arrival_cv2 - 1.0)
            waits.append(each.queue.wait(each.share * rate_rps, thinned_cv2))
        stretches = [each.sending.stretch(rate_rps) for each in self.classes if each.sending]
        if decode_wait is None or None in waits or math.inf in stretches:
            return None
        if rate_rps * decode_wait.mean_s * self.waiting_bytes > self.room_bytes:
            return None
        return TtftAtLoad(self.classes, tuple(w for w in waits if w is not None), decode_wait, rate_rps)

    def _decode_beside_prefill(self, rate_rps: float) -> Queue | None:
        """The decode slots, held longer where prefill takes time from their instances; None where it takes all."""
        local = next((each for each in self.classes if each.sending is None), None)
        if not self.on_decode or local is None:
            return self.decode
        left = 1.0 - rate_rps * local.share * local.queue.service_s / local.queue.servers
        return structs.replace(self.decode, service_s=self.decode.service_s / left) if left > 0 else None


class TtftAtLoad(Struct, frozen=True, dict=True):
    """The time to first token at one rate, as a random variable over requests.

    Attributes:
        classes: the requests by pool.
        waits: for prefill, by class.
        decode_wait: for a decode slot.
        rate_rps: of all requests.
    """

    classes: tuple[Class, ...]
    waits: tuple[Wait, ...]
    decode_wait: Wait
    rate_rps: float

    @cached_property
    def _started(self) -> list[list[list[float]]]:
        return [each.started_to_first_token_s(self.rate_rps) for each in self.classes]

    @cached_property
    def _waited(self) -> list[Exponentials]:
        return [_exponentials(wait, self.decode_wait) for wait in self.waits]

    @cached_property
    def mean_s(self) -> float:
        """Mean seconds."""
        own = math.fsum(
            weight * 0.5 * (times[i] + times[-len(chain.weights) + i])
            for each, chains in zip(self.classes, self._started, strict=True)
            for chain, times in zip(each.chains, chains, strict=True)
            for i, weight in enumerate(chain.weights)
        )
        waits = sum(each.share * w.mean_s for each, w in zip(self.classes, self.waits, strict=True))
        return own + waits + self.decode_wait.mean_s

    def share_longer(self, seconds: float) -> float:
        """Share of the requests whose first token takes longer."""
        share = 0.0
        for each, chains, waits in zip(self.classes, self._started, self._waited, strict=True):
            for chain, times in zip(each.chains, chains, strict=True):
                share += _share_longer(seconds, chain.weights, times, waits)
        return share

    def quantile_s(self, quantile: float) -> float:
        """Seconds within which this share of the requests gets its first token."""
        low, high = 0.0, max(max(times) for chains in self._started for times in chains)
        while self.share_longer(high) > 1.0 - quantile:
            low, high = high, 2.0 * high
        return bracketed_root(lambda x: (1.0 - quantile) - self.share_longer(x), low, high)[1]


Exponentials = tuple[tuple[float, float], ...]
"""``P(wait > y) = sum of c * exp(-rate * y)``: pairs of rate and c."""


def _exponentials(first: Wait, second: Wait) -> Exponentials:
    """Two independent waits one after the other, each zero or exponential."""
    one, other = (w if w.delayed_share > _NO_DELAY and w.mean_s > 0 else None for w in (first, second))
    if one is None or other is None:
        return tuple((_rate(each), each.delayed_share) for each in (one, other) if each)
    a, b, rate_a, rate_b = one.delayed_share, other.delayed_share, _rate(one), _rate(other)
    if abs(rate_a - rate_b) < _SAME_RATE * rate_a:
        rate_b = rate_a * (1.0 + _SAME_RATE)
    both = a * b / (rate_b - rate_a)
    return (rate_a, a * (1.0 - b) + both * rate_b), (rate_b, b * (1.0 - a) - both * rate_a)


def _rate(wait: Wait) -> float:
    return wait.delayed_share / wait.mean_s


def _share_longer(seconds: float, weights: Sequence[float], times: Sequence[float], waits: Exponentials) -> float:
    """Share of the requests of some cells whose wait and own time exceed ``seconds``.

    With G(y) the probability that the wait exceeds y (1 below zero), a cell whose own time is even between s and s'
    has ``integral of G from seconds - s' to seconds - s``, over ``s' - s``.
    """
    if len(times) == 1:
        return weights[0] * _longer(seconds - times[0], waits)
    integrals = [_integral(seconds - time, waits) for time in times]
    share = 0.0
    for i, weight in enumerate(weights):
        spread = times[i + 1] - times[i]
        if abs(spread) <= _SAME_TIME * times[i]:
            share += weight * _longer(seconds - times[i], waits)
        else:
            share += weight * (integrals[i] - integrals[i + 1]) / spread
    return share


def _longer(seconds: float, waits: Exponentials) -> float:
    return 1.0 if seconds < 0 else sum(c * math.exp(-rate * seconds) for rate, c in waits)


def _integral(seconds: float, waits: Exponentials) -> float:
    """The integral of ``_longer`` from 0."""
    if seconds < 0:
        return seconds
    total = 0.0
    for rate, c in waits:
        total -= c / rate * math.expm1(-rate * seconds)
    return total
