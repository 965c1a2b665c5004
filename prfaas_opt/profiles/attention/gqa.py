"""Grouped-query attention over the whole prompt; multi-head and multi-query attention are its ends.

Source: arXiv 2305.13245. Every key and value head caches a key and a value of each token.
"""

from __future__ import annotations

from msgspec import Struct

from prfaas_opt.profiles.attention import AttentionFamily, KvElements


class GroupedQueryAttention(Struct, frozen=True):
    """``kv_heads * (head_dim_k + head_dim_v)`` elements a token, for every token of the prompt.

    >>> GroupedQueryAttention(kv_heads=8, head_dim_k=128, head_dim_v=128).kv_elements().per_token
    2048
    """

    kv_heads: int
    head_dim_k: int
    head_dim_v: int

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""
        return KvElements(per_token=self.kv_heads * (self.head_dim_k + self.head_dim_v))


FAMILIES: dict[str, type[AttentionFamily]] = {"gqa": GroupedQueryAttention}
