"""Qwen3, dense and mixture-of-experts: grouped-query attention in every layer (``Qwen3Config`` of transformers).

The size of a head is not the hidden size over the heads (Qwen3-235B: 128, where that is 64), so it must be stated.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa
from prfaas_opt.io.hf_fields import ConfigFields, Layers
from prfaas_opt.io.wording import shown


def refuse_windows(config: ConfigFields) -> None:
    """Notes sliding windows, which few checkpoints of Qwen have, each in layers of its own choice.

    ``sliding_window`` counts only where ``use_sliding_window`` is true.
    """
    windowed = config.value("use_sliding_window")
    if windowed not in (None, False):
        message = f"found {shown(windowed)}, expected false: which layers have a window differs by model"
        fix = "state the layers in the model file by hand, gqa and swa"
        config.refuse("use_sliding_window", "not-supported", message, fix)


def _read(config: ConfigFields) -> list[Layers]:
    refuse_windows(config)
    return [Layers("gqa", config.layers(), gqa(config))]


ARCHITECTURE = Architecture(
    ("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"), ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM"), _read
)
