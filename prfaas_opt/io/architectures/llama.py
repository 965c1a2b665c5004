"""Llama: grouped-query attention in every layer (``LlamaConfig`` of transformers).

That class gives a model without ``num_key_value_heads`` as many as it has heads, and one without ``head_dim`` the
hidden size over the heads.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def head_dim(config: ConfigFields) -> int:
    """Of a class that shares the hidden size out among the heads where a config does not state ``head_dim``."""
    if config.states("head_dim"):
        return config.count("head_dim")
    sizes = config.counts("hidden_size", "num_attention_heads")
    if sizes is None:
        return 1
    hidden, heads = sizes
    if hidden % heads:
        message = f"is missing, and hidden_size {hidden} is no multiple of num_attention_heads {heads}"
        config.refuse("head_dim", "missing-key", f"{message}, expected a whole number, 1 or more", "add head_dim")
    return max(hidden // heads, 1)


def _read(config: ConfigFields) -> list[Layers]:
    heads = "num_key_value_heads" if config.states("num_key_value_heads") else "num_attention_heads"
    size = head_dim(config)
    sizes = {"kv_heads": config.count(heads), "head_dim_k": size, "head_dim_v": size}
    return [Layers("gqa", config.layers(), sizes)]


ARCHITECTURE = Architecture(("llama",), ("LlamaForCausalLM",), _read)
