"""DeepSeek-V2, V3 and R1, Kimi-K2 and GLM-4.7-Flash: latent attention in every layer (arXiv 2412.19437).

Kimi-K2 has DeepSeek-V3's class with its own ``model_type`` (arXiv 2507.20534).
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, mla
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    if config.value("use_mla") is False:
        message = "is false: attention of this kind is not supported, expected true or nothing"
        config.refuse("use_mla", "not-supported", message, "state the layers in the model file by hand")
    return [Layers("mla", config.layers(), mla(config))]


ARCHITECTURE = Architecture(
    ("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"),
    ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"),
    _read,
    ignored=("use_mla",),
)
