"""Nemotron-H, Nemotron Nano 2 and Nemotron 3: Mamba-2, grouped-query attention and layers that cache nothing.

``hybrid_override_pattern`` has a letter for each layer (arXiv 2504.03624; ``NemotronHConfig`` of
transformers): M for Mamba-2, * for attention, - for a dense and E for a mixture-of-experts feed-forward layer. Newer
configs have words in ``layers_block_type`` instead.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, grouped
from prfaas_opt.io.hf_fields import ConfigFields, Layers

_WORDS: dict[str | int, str] = {
    "mamba": "mamba2",
    "linear_attention": "mamba2",
    "attention": "gqa",
    "full_attention": "gqa",
    "mlp": "none",
    "moe": "none",
}


def _read(config: ConfigFields) -> list[Layers]:
    if config.states("sliding_window"):
        message = "is a number, expected null: windows of this architecture are not supported"
        config.refuse("sliding_window", "not-supported", message, "state the layers in the model file by hand")
    if config.states("layers_block_type"):
        kinds = config.kinds("layers_block_type", _WORDS)
    else:
        kinds = config.letters("hybrid_override_pattern", {"M": "mamba2", "*": "gqa", "-": "none", "E": "none"})
    head_dim = config.count("head_dim", "attention_head_dim")
    attention = {"kv_heads": config.count("num_key_value_heads"), "head_dim_k": head_dim, "head_dim_v": head_dim}
    mamba = {
        "heads": config.count("mamba_num_heads"),
        "head_dim": config.count("mamba_head_dim"),
        "state_size": config.count("ssm_state_size"),
        "groups": config.count("n_groups", "mamba_n_groups"),
        "conv_kernel": config.count("conv_kernel", "mamba_d_conv"),
    }
    return grouped(kinds, {"gqa": attention, "mamba2": mamba})


ARCHITECTURE = Architecture(("nemotron_h",), ("NemotronHForCausalLM",), _read, ignored=("hybrid_override_pattern",))
