"""Qwen2 and Qwen2.5, dense and mixture-of-experts: grouped-query attention in every layer (``Qwen2Config``)."""

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


ARCHITECTURE = Architecture(("qwen2", "qwen2_moe"), ("Qwen2ForCausalLM", "Qwen2MoeForCausalLM"), _read)
