"""Grouped-query attention over a sliding window: no token further back is looked at again, so none is kept.

Source: arXiv 2310.06825. Engines may keep a token or a block more than the window; that is not counted.
"""

from __future__ import annotations

from msgspec import Struct

from prfaas_opt.profiles.attention import AttentionFamily, KvElements


class SlidingWindowAttention(Struct, frozen=True):
    """As grouped-query attention, for the last ``window_tokens`` tokens at most.

    >>> SlidingWindowAttention(kv_heads=8, head_dim_k=192, head_dim_v=128, window_tokens=128).kv_elements()
    KvElements(per_token=2560, window_tokens=128, state=0, convolution=0)
    """

    kv_heads: int
    head_dim_k: int
    head_dim_v: int
    window_tokens: int

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""
        per_token = self.kv_heads * (self.head_dim_k + self.head_dim_v)
        return KvElements(per_token=per_token, window_tokens=self.window_tokens)


FAMILIES: dict[str, type[AttentionFamily]] = {"swa": SlidingWindowAttention}
