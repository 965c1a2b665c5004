"""KVCache sizes against what a model's layers cache, and which slip would explain a difference."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GPUS = (2, 4, 8)
_MOST_SLIPS, _MOST_SHOWN = 2, 3


class CacheParts(Struct, frozen=True):
    """What the layers of a model cache of a request.

    Attributes:
        growing_bytes_per_token: in layers that see the whole prompt.
        windows: tokens of a sliding window, and bytes a token of the layers over it.
        state_bytes: recurrent states.
        convolution_bytes: convolution states.
    """

    growing_bytes_per_token: float
    windows: tuple[tuple[float, float], ...] = ()
    state_bytes: float = 0.0
    convolution_bytes: float = 0.0

    def __call__(self, length_tokens: float) -> float:
        """Bytes of a request of a length.

        >>> CacheParts(10.0, ((4.0, 1.0),), 7.0)(6)
        71.0
        """
        windows = sum(min(length_tokens, window) * each for window, each in self.windows)
        return self.growing_bytes_per_token * length_tokens + windows + self.state_bytes + self.convolution_bytes


class _Slip(NamedTuple):
    """What sizes would be of, and the parts they would then have."""

    words: str
    kv: float = 1.0
    state: float = 1.0
    convolution: float = 1.0
    whole_windows: bool = False
    gpus: int = 1


class OtherTypes(NamedTuple):
    """Data types that are not the assumed ones: their names, and what they multiply the bytes of an element by."""

    kv: str
    kv_ratio: float
    state: str
    state_ratio: float


def explanations(
    sizes: Sequence[tuple[float, float]], parts: CacheParts, other: OtherTypes, noise_share: float
) -> list[str]:
    """What sizes would have to be of to fit a model's layers at every length: the fewest slips that do, in words.

    Args:
        sizes: lengths in tokens, and bytes at them.
        parts: by the architecture.
        other: data types that might have been used instead.
        noise_share: what a size may be off by.

    Returns:
        One text for each explanation; none where no two slips explain the sizes.

    >>> mla = CacheParts(8064.0)
    >>> fp8 = OtherTypes("fp8", 0.5, "bf16", 0.5)
    >>> explanations([(1024, 1024 * 8064 / 4)], mla, fp8, 0.01)
    ['one GPU of 4']
    >>> explanations([(1024, 1024 * 8064 / 2)], mla, fp8, 0.01)
    ['keys and values in fp8', 'one GPU of 2']
    """
    possible = list(_slips(parts, other))
    for count in range(1, _MOST_SLIPS + 1):
        found = [
            " and ".join(slip.words for slip in slips)
            for slips in _together(possible, count)
            if all(math.isclose(size, _size(parts, slips, length), rel_tol=noise_share) for length, size in sizes)
        ]
        if found:
            return found[:_MOST_SHOWN]
    return []


def _slips(parts: CacheParts, other: OtherTypes) -> Iterator[tuple[str, _Slip]]:
    """Every slip that makes a difference to a model, with what it is about."""
    fixed = parts.state_bytes + parts.convolution_bytes
    yield "kv", _Slip(f"keys and values in {other.kv}", kv=other.kv_ratio)
    if fixed:
        yield "state", _Slip(f"no states ({fixed:,.0f} bytes)", state=0.0, convolution=0.0)
    if parts.state_bytes:
        yield "state", _Slip(f"recurrent states in {other.state}", state=other.state_ratio)
    if parts.windows:
        yield "windows", _Slip("sliding windows as long as the prompt", whole_windows=True)
    for gpus in _GPUS:
        yield "gpus", _Slip(f"one GPU of {gpus}", gpus=gpus)


def _together(slips: Sequence[tuple[str, _Slip]], count: int) -> Iterator[tuple[_Slip, ...]]:
    for chosen in itertools.combinations(slips, count):
        if len({about for about, _ in chosen}) == count:
            yield tuple(slip for _, slip in chosen)


def _size(parts: CacheParts, slips: Sequence[_Slip], length_tokens: float) -> float:
    kv = math.prod(slip.kv for slip in slips)
    whole = any(slip.whole_windows for slip in slips)
    changed = CacheParts(
        parts.growing_bytes_per_token * kv,
        tuple((math.inf if whole else window, each * kv) for window, each in parts.windows),
        parts.state_bytes * math.prod(slip.state for slip in slips),
        parts.convolution_bytes * math.prod(slip.convolution for slip in slips),
    )
    return changed(length_tokens) / math.prod(slip.gpus for slip in slips)
