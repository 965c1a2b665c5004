"""GLM-4.5 to GLM-4.7: grouped-query attention in every layer (``Glm4MoeConfig`` of transformers).

The size of a head is not the hidden size over the heads (GLM-4.5: 128, where that is 53), so it must be stated.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return [Layers("gqa", config.layers(), gqa(config))]


ARCHITECTURE = Architecture(("glm4_moe",), ("Glm4MoeForCausalLM",), _read)
