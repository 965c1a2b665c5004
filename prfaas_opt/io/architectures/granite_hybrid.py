"""Granite 4: Mamba-2 and grouped-query attention, as ``layer_types`` says (``GraniteMoeHybridConfig``)."""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, grouped, mamba2
from prfaas_opt.io.architectures.llama import kv_heads
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    kinds = config.kinds("layer_types", {"mamba": "mamba2", "attention": "gqa"})
    states = mamba2(config) if "mamba2" in kinds or not kinds else {}
    return grouped(kinds, {"gqa": kv_heads(config), "mamba2": states})


ARCHITECTURE = Architecture(("granitemoehybrid",), ("GraniteMoeHybridForCausalLM",), _read, ignored=("mamba_d_state",))
