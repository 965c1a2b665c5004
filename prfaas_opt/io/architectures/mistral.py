"""Mistral, Mixtral and Phi-3: grouped-query attention, all of it over a window where ``sliding_window`` is a number.

``MistralConfig`` of transformers has a window of 4,096 tokens where a config says nothing, ``MixtralConfig`` and
``Phi3Config`` none, so that the field must be there, be it null. A window no shorter than the longest prompt (Phi-3 of
128K) is none.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture
from prfaas_opt.io.architectures.llama import head_dim
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    size = head_dim(config)
    sizes = {"kv_heads": config.count("num_key_value_heads"), "head_dim_k": size, "head_dim_v": size}
    if config.has("sliding_window") and not config.states("sliding_window"):
        return [Layers("gqa", config.layers(), sizes)]
    window_tokens, longest = config.count("sliding_window"), config.value("max_position_embeddings")
    if isinstance(longest, int) and window_tokens >= longest > 1:
        return [Layers("gqa", config.layers(), sizes)]
    return [Layers("swa", config.layers(), sizes | {"window_tokens": window_tokens})]


ARCHITECTURE = Architecture(
    ("mistral", "mixtral", "phi3"), ("MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM"), _read
)
