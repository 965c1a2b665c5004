"""KVCache size of a request from the layers of a model."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prfaas_opt.profiles.curve import Curve, Piece, piecewise_curve

if TYPE_CHECKING:
    from prfaas_opt.profiles.attention import AttentionFamily


@dataclass(frozen=True)
class LayerGroup:
    """``count`` equal layers of one attention family."""

    count: int
    attention: AttentionFamily


@dataclass(frozen=True)
class KvLayout:
    """The layers of a model and the bytes of an element of each kind of cache.

    Attributes:
        layers: groups of equal layers.
        kv_bytes: bytes of a key or value element (bf16: 2, fp8: 1).
        state_bytes: bytes of a recurrent state's element (fp32: 4).
        conv_bytes: bytes of a convolution state's element.
        max_tokens: the longest prompt the model takes.
    """

    layers: tuple[LayerGroup, ...]
    kv_bytes: float
    state_bytes: float
    conv_bytes: float
    max_tokens: int

    @property
    def growing_bytes_per_token(self) -> float:
        """Bytes that every further token adds, in layers that attend to the whole prompt."""
        cached = ((group.count, group.attention.kv_elements()) for group in self.layers)
        return self.kv_bytes * sum(n * kv.per_token for n, kv in cached if kv.window_tokens is None)

    @property
    def fixed_bytes(self) -> float:
        """Bytes of recurrent and convolution states, the same for every request."""
        cached = [(group.count, group.attention.kv_elements()) for group in self.layers]
        return sum(n * (kv.state * self.state_bytes + kv.convolution * self.conv_bytes) for n, kv in cached)

    def curve(self) -> Curve:
        """KVCache bytes by length: ``fixed + growing * l + sum over window layers of min(l, window)``.

        >>> from prfaas_opt.profiles.attention.mla import MultiHeadLatentAttention
        >>> mla = LayerGroup(61, MultiHeadLatentAttention(kv_lora_rank=512, qk_rope_head_dim=64))
        >>> KvLayout((mla,), 2, 4, 2, max_tokens=131072).curve()(1024) / 2**20  # DeepSeek-V3
        68.625
        """
        windows: dict[int, float] = {}
        for group in self.layers:
            kv = group.attention.kv_elements()
            if kv.window_tokens is not None:
                bytes_per_token = group.count * kv.per_token * self.kv_bytes
                windows[kv.window_tokens] = windows.get(kv.window_tokens, 0.0) + bytes_per_token
        breaks = [0, *sorted(w for w in windows if w < self.max_tokens), self.max_tokens]
        pieces = []
        for low, high in itertools.pairwise(breaks):
            full = sum(size * window for window, size in windows.items() if window <= low)
            slope = self.growing_bytes_per_token + sum(s for window, s in windows.items() if window > low)
            pieces.append(Piece(low, high, ((self.fixed_bytes + full, 0.0), (slope, 1.0))))
        return piecewise_curve(tuple(pieces), "size")
