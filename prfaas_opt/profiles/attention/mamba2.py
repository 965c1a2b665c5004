"""Mamba-2 (state space duality): a state of fixed size, whatever the length.

Source: arXiv 2405.21060: the convolution runs over the inputs and over the input and output
projections (B and C) of each group.
"""

from __future__ import annotations

from msgspec import Struct

from prfaas_opt.profiles.attention import AttentionFamily, KvElements


class Mamba2(Struct, frozen=True):
    """``heads * head_dim * state_size`` state elements, plus the inputs the convolution still needs.

    The convolution keeps ``conv_kernel - 1`` inputs of each of ``heads * head_dim + 2 * groups * state_size`` channels.

    >>> Mamba2(heads=128, head_dim=64, state_size=128, groups=8, conv_kernel=4).kv_elements()
    KvElements(per_token=0, window_tokens=None, state=1048576, convolution=30720)
    """

    heads: int
    head_dim: int
    state_size: int
    groups: int
    conv_kernel: int

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""
        channels = self.heads * self.head_dim + 2 * self.groups * self.state_size
        return KvElements(
            state=self.heads * self.head_dim * self.state_size,
            convolution=max(self.conv_kernel - 1, 0) * channels,
        )


FAMILIES: dict[str, type[AttentionFamily]] = {"mamba2": Mamba2}
