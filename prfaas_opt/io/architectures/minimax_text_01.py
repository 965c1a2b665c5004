"""MiniMax-Text-01 and M1: full attention in one layer of eight, Lightning attention in the others.

``attn_type_list`` has 0 for a layer of Lightning attention and 1 for a full one (arXiv 2501.08313; M1:
arXiv 2506.13585), ``layer_types`` words in configs of transformers. A Lightning layer has ``num_attention_heads`` heads
of ``head_dim``, and no convolution.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa, grouped, lightning
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    if config.states("layer_types"):
        kinds = config.kinds("layer_types", {"linear_attention": "lightning", "full_attention": "gqa"})
    else:
        kinds = config.kinds("attn_type_list", {0: "lightning", 1: "gqa"})
    return grouped(kinds, {"gqa": gqa(config), "lightning": lightning(config)})


ARCHITECTURE = Architecture(
    ("minimax_text_01", "minimax_m1", "minimax"),
    ("MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxForCausalLM"),
    _read,
    ignored=("attn_type_list",),
)
