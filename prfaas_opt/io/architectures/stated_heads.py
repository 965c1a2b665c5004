"""Models with grouped-query attention in every layer whose heads are not the hidden size over their number.

GLM-4 and 4.5 to 4.7 (GLM-4.5: 128, where that is 53), ERNIE 4.5 (0.3B: 128, where that is 64), Seed-OSS, Hunyuan, and
Ling and Ring before 2.5. So ``head_dim`` must be stated.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return [Layers("gqa", config.layers(), gqa(config))]


ARCHITECTURE = Architecture(
    ("glm4_moe", "glm4", "ernie4_5", "seed_oss", "hunyuan_v1_dense", "hunyuan_v1_moe", "bailing_moe"),
    (
        "Glm4MoeForCausalLM",
        "Glm4ForCausalLM",
        "Ernie4_5ForCausalLM",
        "Ernie4_5_ForCausalLM",
        "SeedOssForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "BailingMoeForCausalLM",
        "BailingMoeV2ForCausalLM",
    ),
    _read,
)
