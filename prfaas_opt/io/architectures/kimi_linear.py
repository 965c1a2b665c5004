"""Kimi Linear: KDA in three layers of four, latent attention in the others (arXiv 2510.26692).

``linear_attn_config`` numbers the layers of each kind from 1 and has the dimensions of KDA (the model's own
``configuration_kimi.py``). The field ``head_dim`` beside it is of neither.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, grouped, kda, mla
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    linear = config.inside("linear_attn_config")
    total = config.counts("num_hidden_layers")
    kinds = linear.numbered({"full_attn_layers": "mla", "kda_layers": "kda"}, total[0] if total else None)
    heads, size = linear.count("num_heads"), linear.count("head_dim")
    return grouped(kinds, {"mla": mla(config), "kda": kda(heads, size, linear.count("short_conv_kernel_size"))})


ARCHITECTURE = Architecture(("kimi_linear",), ("KimiLinearForCausalLM",), _read)
