"""Multi-head latent attention: one compressed latent and one rotary key a token, shared by all heads.

Source: arXiv 2405.04434 A model without rotary embedding (Kimi Linear) still caches the rotary slice.
"""

from __future__ import annotations

from msgspec import Struct

from prfaas_opt.profiles.attention import AttentionFamily, KvElements


class MultiHeadLatentAttention(Struct, frozen=True):
    """``kv_lora_rank + qk_rope_head_dim`` elements a token.

    >>> MultiHeadLatentAttention(kv_lora_rank=512, qk_rope_head_dim=64).kv_elements().per_token
    576
    """

    kv_lora_rank: int
    qk_rope_head_dim: int

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""
        return KvElements(per_token=self.kv_lora_rank + self.qk_rope_head_dim)


FAMILIES: dict[str, type[AttentionFamily]] = {"mla": MultiHeadLatentAttention}
