"""MiMo-V2-Flash: full and sliding-window attention, each with its own heads (MiMo-V2-Flash technical report).

``hybrid_layer_pattern`` has 0 for a full layer and 1 for one over a window, whose dimensions are in the fields that
begin with ``swa_`` (the model's own ``configuration_mimo_v2_flash.py``).
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, grouped
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    kinds = config.kinds("hybrid_layer_pattern", {0: "gqa", 1: "swa"})
    full, windowed = (
        {
            "kv_heads": config.count(f"{prefix}num_key_value_heads"),
            "head_dim_k": config.count(f"{prefix}head_dim"),
            "head_dim_v": config.count(f"{prefix}v_head_dim"),
        }
        for prefix in ("", "swa_")
    )
    window_tokens = config.count("sliding_window", "sliding_window_size")
    return grouped(kinds, {"gqa": full, "swa": windowed | {"window_tokens": window_tokens}})


ARCHITECTURE = Architecture(
    ("mimo_v2_flash",),
    ("MiMoV2FlashForCausalLM",),
    _read,
    ignored=(
        "attention_chunk_size",
        "sliding_window_size",
    ),
)
