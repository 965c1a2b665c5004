"""DeepSeek-V2, V3 and R1, and Kimi-K2: latent attention in every layer (arXiv 2412.19437).

Kimi-K2 has DeepSeek-V3's class with its own ``model_type`` (arXiv 2507.20534).
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, mla
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return [Layers("mla", config.layers(), mla(config))]


ARCHITECTURE = Architecture(
    ("deepseek_v2", "deepseek_v3", "kimi_k2"), ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"), _read
)
