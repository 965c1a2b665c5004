"""Qwen2 and Qwen3, dense and mixture-of-experts: grouped-query attention in every layer.

``sliding_window`` counts only where ``use_sliding_window`` is true (the configuration classes of transformers), which
no published checkpoint of these sizes sets; where it is set it is refused.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture
from prfaas_opt.io.architectures.llama import head_dim
from prfaas_opt.io.hf_fields import ConfigFields, Layers
from prfaas_opt.io.wording import shown


def _read(config: ConfigFields) -> list[Layers]:
    windowed = config.value("use_sliding_window")
    if windowed not in (None, False):
        message = f"found {shown(windowed)}, expected false: which layers have a window then differs by model"
        fix = "state the layers in the model file by hand, gqa and swa"
        config.refuse("use_sliding_window", "not-supported", message, fix)
    size = head_dim(config)
    sizes = {"kv_heads": config.count("num_key_value_heads"), "head_dim_k": size, "head_dim_v": size}
    return [Layers("gqa", config.layers(), sizes)]


ARCHITECTURE = Architecture(
    ("qwen2", "qwen2_moe", "qwen3_moe", "qwen3"),
    ("Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
    _read,
)
