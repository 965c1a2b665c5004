"""Ling and Ring 2.5: latent attention in the last layer of each group, linear attention in the others.

``layer_group_size`` is the number of layers of a group. Linear attention has ``num_attention_heads`` heads of
``head_dim``: Lightning, without a convolution, in version 2.5 (the model's own ``configuration_bailing_moe_v2_5.py``),
KDA in models with a ``short_conv_kernel_size`` (``BailingHybridConfig`` of SGLang 0.5.23).
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, grouped, kda, lightning, mla
from prfaas_opt.io.hf_fields import ConfigFields, Layers
from prfaas_opt.io.wording import shown

_LIGHTNING = "BailingMoeV2_5ForCausalLM"


def _read(config: ConfigFields) -> list[Layers]:
    kind = config.value("full_attention_type")
    if kind not in (None, "mla"):
        config.refuse(
            "full_attention_type", "not-supported", f"found {shown(kind)}, expected mla", "use a table instead"
        )
    layers, group = config.counts("num_hidden_layers", "layer_group_size") or (1, 1)
    if layers % group:
        message = f"found groups of {group} layers, expected a number that divides num_hidden_layers, {layers}"
        config.refuse("layer_group_size", "length-mismatch", message, "check both")
    family, linear = _linear(config)
    kinds = [family if (layer + 1) % group else "mla" for layer in range(layers)]
    return grouped(kinds, {"mla": mla(config), family: linear})


def _linear(config: ConfigFields) -> tuple[str, dict[str, int]]:
    if config.states("short_conv_kernel_size"):
        heads, size = config.count("num_attention_heads"), config.count("head_dim")
        return "kda", kda(heads, size, config.count("short_conv_kernel_size"))
    if not config.states("group_norm_size") and config.value("architectures") != [_LIGHTNING]:
        message = "is missing, and so is group_norm_size: expected one of them, of KDA or of Lightning attention"
        config.refuse("short_conv_kernel_size", "missing-key", message, "take config.json as it was published")
    return "lightning", lightning(config)


ARCHITECTURE = Architecture(("bailing_hybrid",), (_LIGHTNING,), _read)
