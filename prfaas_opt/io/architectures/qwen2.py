"""Qwen2 and Qwen2.5, and ERNIE 4.5 with experts and SmolLM3: grouped-query attention in every layer.

Without ``head_dim`` it is the hidden size over the heads; ``num_key_value_heads`` must be stated, since each class has
a number of its own where a config has none.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture
from prfaas_opt.io.architectures.llama import head_dim
from prfaas_opt.io.architectures.qwen3 import refuse_windows
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    refuse_windows(config)
    size = head_dim(config)
    sizes = {"kv_heads": config.count("num_key_value_heads"), "head_dim_k": size, "head_dim_v": size}
    return [Layers("gqa", config.layers(), sizes)]


ARCHITECTURE = Architecture(
    (
        "qwen2",
        "qwen2_moe",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "ernie4_5_moe",
        "smollm3",
    ),
    (
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Ernie4_5_MoeForCausalLM",
        "SmolLM3ForCausalLM",
    ),
    _read,
)
