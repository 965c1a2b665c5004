"""MiniMax-M2 to M2.5: grouped-query attention in every layer (``MiniMaxM2Config`` of transformers).

Published configs may carry the ``attn_type_list`` of MiniMax-Text-01, with 1, full attention, for every layer.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    if config.states("attn_type_list"):
        config.kinds("attn_type_list", {1: "gqa"})
    return [Layers("gqa", config.layers(), gqa(config))]


ARCHITECTURE = Architecture(("minimax_m2",), ("MiniMaxM2ForCausalLM",), _read)
