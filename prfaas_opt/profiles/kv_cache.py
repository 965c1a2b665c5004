"""KVCache size of a request from the layers of a model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt.profiles.curve import Curve, Piece, piecewise_curve

if TYPE_CHECKING:
    from prfaas_opt.profiles.attention import AttentionFamily


class LayerGroup(Struct, frozen=True):
    """``count`` equal layers of one attention family."""

    count: int
    attention: AttentionFamily


class Window(Struct, frozen=True):
    """What sliding windows of one size hold: ``min(l, tokens) * bytes_per_token``."""

    tokens: int
    bytes_per_token: float


class KvLayout(Struct, frozen=True):
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
        return self.kv_bytes * sum(
            group.count * group.attention.kv_elements().growing_per_token for group in self.layers
        )

    @property
    def windows(self) -> tuple[Window, ...]:
        """What layers over a sliding window hold, the smallest window first."""
        found: dict[int, float] = {}
        for group in self.layers:
            kv = group.attention.kv_elements()
            if kv.window_tokens is not None:
                bytes_per_token = group.count * kv.per_token * self.kv_bytes
                found[kv.window_tokens] = found.get(kv.window_tokens, 0.0) + bytes_per_token
        return tuple(Window(tokens, found[tokens]) for tokens in sorted(found))

    @property
    def recurrent_bytes(self) -> float:
        """Bytes of recurrent states, the same for every request."""
        return self.state_bytes * sum(group.count * group.attention.kv_elements().state for group in self.layers)

    @property
    def convolution_bytes(self) -> float:
        """Bytes of convolution states, the same for every request."""
        return self.conv_bytes * sum(group.count * group.attention.kv_elements().convolution for group in self.layers)

    @property
    def fixed_bytes(self) -> float:
        """Bytes of recurrent and convolution states, the same for every request."""
        return self.recurrent_bytes + self.convolution_bytes

    def block_level_bytes(self, length_tokens: int) -> float:
        """The part that grows with the prompt, block by block: a common prefix of it can be reused."""
        return self.growing_bytes_per_token * length_tokens

    def request_level_bytes(self, length_tokens: int) -> float:
        """States and windows: of fixed size once the windows are full, and reused on an exact match only."""
        return self.fixed_bytes + sum(min(length_tokens, w.tokens) * w.bytes_per_token for w in self.windows)

    def curve(self) -> Curve:
        """KVCache bytes by length: ``fixed + growing * l + sum over window layers of min(l, window)``.

        >>> from prfaas_opt.profiles.attention.mla import MultiHeadLatentAttention
        >>> mla = LayerGroup(61, MultiHeadLatentAttention(kv_lora_rank=512, qk_rope_head_dim=64))
        >>> KvLayout((mla,), 2, 4, 2, max_tokens=131072).curve()(1024) / 2**20  # DeepSeek-V3
        68.625
        """
        windows = self.windows
        breaks = [0, *(w.tokens for w in windows if w.tokens < self.max_tokens), self.max_tokens]
        pieces = []
        for low, high in itertools.pairwise(breaks):
            full = sum(w.bytes_per_token * w.tokens for w in windows if w.tokens <= low)
            slope = self.growing_bytes_per_token + sum(w.bytes_per_token for w in windows if w.tokens > low)
            pieces.append(Piece(low, high, ((self.fixed_bytes + full, 0.0), (slope, 1.0))))
        return piecewise_curve(tuple(pieces), "size")
