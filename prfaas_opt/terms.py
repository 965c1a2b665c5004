"""Terms beyond the paper's model: how requests arrive, what a transfer moves, what limits a link, who may serve what.

Every term has a default under which it has no effect on throughput, so that the paper's model is the special case.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

LocalPrefill = Literal["dedicated", "on_decode"]
SentBytes = Literal["missing_at_destination", "full_prompt"]
Overlap = Literal["layer", "chunk", "none"]
LinkLimit = Literal["bandwidth", "sender NICs", "receiver NICs", "flow caps", "window / RTT", "request rate"]


class TtftSlo(Struct, frozen=True):
    """A percentile of the time to first token, and what it may be at most.

    Attributes:
        quantile: 0.9 for P90.
        limit_s: seconds.
    """

    quantile: float
    limit_s: float

    @property
    def name(self) -> str:
        """As people call it.

        >>> TtftSlo(0.9, 7.0).name
        'P90'
        """
        return f"P{self.quantile * 100:g}"


class Transfer(Struct, frozen=True):
    """What an offloaded request sends, and what of it hides behind its prefill.

    Attributes:
        sent: the KVCache of its uncached tokens, or of its whole prompt.
        overlap: ``layer``: sent while later layers prefill; ``chunk``: while later chunks do; ``none``: afterwards.
        compression: how many times smaller the growing part becomes; states of fixed size are sent as they are.
        chunk_tokens: prompt tokens of one chunk, for ``chunk``.
    """

    sent: SentBytes = "missing_at_destination"
    overlap: Overlap = "layer"
    compression: float = 1.0
    chunk_tokens: int = 8192


class Route(Struct, frozen=True):
    """What a link's packets meet besides its bandwidth; None where there is no such limit.

    Attributes:
        rtt_s: round-trip time.
        flows: connections in parallel.
        flow_bytes_per_s: what one flow may carry.
        window_bytes: what one flow may have in flight; it carries a window a round trip.
        request_flows: flows that one request's transfer is spread over; None: all.
        request_bytes_per_s: what one request's transfer may take.
        measured_percentile: of measurements, that the bandwidth is.
    """

    rtt_s: float = 0.0
    flows: int | None = None
    flow_bytes_per_s: float | None = None
    window_bytes: float | None = None
    request_flows: int | None = None
    request_bytes_per_s: float | None = None
    measured_percentile: float | None = None


class Admission(Struct, frozen=True):
    """What a cluster takes, and how its instances are connected; None where nothing limits.

    Attributes:
        max_context_tokens: longest prompt and output together.
        kv_format: of its KVCache; a cluster of another format cannot use it.
        nic_bytes_per_s: what one instance sends or receives.
    """

    max_context_tokens: int | None = None
    kv_format: str | None = None
    nic_bytes_per_s: float | None = None


def same_format(one: Admission, other: Admission) -> bool:
    """Whether two clusters can share KVCache, as far as their formats are stated.

    >>> fp8, bf16 = (Admission(kv_format=each) for each in ("fp8", "bf16"))
    >>> same_format(fp8, Admission()), same_format(fp8, bf16)
    (True, False)
    """
    if one.kv_format is None or other.kv_format is None:
        return True
    return one.kv_format.casefold() == other.kv_format.casefold()


class Service(Struct, frozen=True):
    """How a scenario's requests come and are served.

    Attributes:
        arrival_cv2: squared coefficient of variation of the time between arrivals; 1 is Poisson.
        local_prefill: on instances of their own, or on those that decode.
        ttft: percentiles that must hold.
        transfer: of offloaded requests.
        stay_share: share of the requests that may not leave the PD cluster.
        given: names of the terms that were stated, not assumed.
    """

    arrival_cv2: float = 1.0
    local_prefill: LocalPrefill = "dedicated"
    ttft: tuple[TtftSlo, ...] = ()
    transfer: Transfer = Transfer()
    stay_share: float = 0.0
    given: frozenset[str] = frozenset()


NO_LIMITS = Admission()
PLAIN_ROUTE = Route()
AS_IN_THE_PAPER = Service()
