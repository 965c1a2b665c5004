"""DeepSeek-V3.2 and GLM-5: latent attention with an indexer (DSA; arXiv 2512.02556).

Later models of GLM share the tokens that one layer's indexer picks among layers, in a schedule of the fields below
(``GlmMoeDsaConfig`` of transformers); a layer without an indexer of its own is one of plain latent attention.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, grouped, mla
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    sizes = mla(config)
    return grouped(_kinds(config), {"dsa": sizes | {"index_head_dim": config.count("index_head_dim")}, "mla": sizes})


def _kinds(config: ConfigFields) -> list[str]:
    if config.states("indexer_types"):
        return config.kinds("indexer_types", {"full": "dsa", "shared": "mla"})
    if config.states("index_topk_pattern"):
        return config.letters("index_topk_pattern", {"F": "dsa", "S": "mla"})
    layers = config.layers()
    every = config.count("index_topk_freq") if config.states("index_topk_freq") else 1
    first = config.count_or_zero("index_skip_topk_offset") if every > 1 else 0
    return ["mla" if max(layer - first + 1, 0) % every else "dsa" for layer in range(layers)]


ARCHITECTURE = Architecture(("deepseek_v32", "glm_moe_dsa"), ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"), _read)
