"""Qwen3-Next and Qwen3.5: gated DeltaNet in three layers of four, grouped-query attention in the others.

``layer_types`` says which layer is which; without it, ``full_attention_interval`` does (``Qwen3NextConfig`` and
``Qwen3_5MoeTextConfig`` of transformers). The convolution runs over queries, keys and values.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa, grouped
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    linear = {
        "key_heads": config.count("linear_num_key_heads"),
        "value_heads": config.count("linear_num_value_heads"),
        "head_dim_k": config.count("linear_key_head_dim"),
        "head_dim_v": config.count("linear_value_head_dim"),
        "conv_kernel": config.count("linear_conv_kernel_dim"),
    }
    return grouped(_kinds(config), {"gqa": gqa(config), "gated-deltanet": linear})


def _kinds(config: ConfigFields) -> list[str]:
    if config.states("layer_types"):
        return config.kinds("layer_types", {"full_attention": "gqa", "linear_attention": "gated-deltanet"})
    interval = config.count("full_attention_interval")
    return ["gated-deltanet" if (layer + 1) % interval else "gqa" for layer in range(config.layers())]


ARCHITECTURE = Architecture(
    ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"),
    (
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    ),
    _read,
    ignored=("full_attention_interval",),
)
