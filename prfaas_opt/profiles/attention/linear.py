"""Linear attention (KDA, gated DeltaNet, Lightning): a state of fixed size, whatever the length.

Sources: arXiv 2510.26692 (KDA), 2412.06464 (gated DeltaNet), 2501.08313 (Lightning). They differ in how the state is
updated, not in its shape: one matrix of keys by values a value head.
"""

from __future__ import annotations

from msgspec import Struct

from prfaas_opt.profiles.attention import AttentionFamily, KvElements


class LinearAttention(Struct, frozen=True):
    """``value_heads * head_dim_k * head_dim_v`` state elements, plus the inputs a short convolution still needs.

    The convolution runs over queries, keys and values and keeps ``conv_kernel - 1`` inputs of each channel; 0
    where the family has none.

    >>> LinearAttention(key_heads=32, value_heads=32, head_dim_k=128, head_dim_v=128, conv_kernel=4).kv_elements()
    KvElements(per_token=0, window_tokens=None, state=524288, convolution=36864)
    """

    key_heads: int
    value_heads: int
    head_dim_k: int
    head_dim_v: int
    conv_kernel: int

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""
        channels = 2 * self.key_heads * self.head_dim_k + self.value_heads * self.head_dim_v
        return KvElements(
            state=self.value_heads * self.head_dim_k * self.head_dim_v,
            convolution=max(self.conv_kernel - 1, 0) * channels,
        )


FAMILIES: dict[str, type[AttentionFamily]] = {
    "kda": LinearAttention,
    "gated-deltanet": LinearAttention,
    "lightning": LinearAttention,
}
