"""Sparse attention with an indexer (DSA): latent attention to the tokens that a small indexer picks.

Source: arXiv 2512.02556. Which tokens are picked differs from query to query, so all stay cached, and the
indexer's key of each beside them. Elements are counted in the KV data type; an engine that always keeps the indexer's
keys in fp8 with a scale (SGLang and vLLM: 132 bytes for 128 elements) needs less than this counts at bf16.
"""

from __future__ import annotations

from msgspec import Struct

from prfaas_opt.profiles.attention import AttentionFamily, KvElements


class IndexedLatentAttention(Struct, frozen=True):
    """``kv_lora_rank + qk_rope_head_dim + index_head_dim`` elements a token.

    >>> IndexedLatentAttention(kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128).kv_elements().per_token
    704
    """

    kv_lora_rank: int
    qk_rope_head_dim: int
    index_head_dim: int

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""
        return KvElements(per_token=self.kv_lora_rank + self.qk_rope_head_dim + self.index_head_dim)


FAMILIES: dict[str, type[AttentionFamily]] = {"dsa": IndexedLatentAttention}
