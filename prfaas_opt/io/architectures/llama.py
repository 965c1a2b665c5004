"""Llama, and Granite, Command R and OLMo 2: grouped-query attention in every layer.

Their classes in transformers give a model without ``num_key_value_heads`` as many as it has heads, and one without
``head_dim`` the hidden size over the heads.
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


def kv_heads(config: ConfigFields) -> dict[str, int]:
    """Dimensions of grouped-query attention, of a class that gives a model as many heads for keys as for queries."""
    heads = "num_key_value_heads" if config.states("num_key_value_heads") else "num_attention_heads"
    size = head_dim(config)
    return {"kv_heads": config.count(heads), "head_dim_k": size, "head_dim_v": size}


def _read(config: ConfigFields) -> list[Layers]:
    return [Layers("gqa", config.layers(), kv_heads(config))]


ARCHITECTURE = Architecture(
    ("llama", "granite", "granitemoe", "cohere", "olmo2", "olmoe"),
    (
        "LlamaForCausalLM",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "CohereForCausalLM",
        "Olmo2ForCausalLM",
        "OlmoeForCausalLM",
    ),
    _read,
)
