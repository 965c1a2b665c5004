"""Falcon-H1: grouped-query attention and Mamba-2 side by side in every layer (arXiv 2507.22448)."""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, mamba2
from prfaas_opt.io.architectures.llama import kv_heads
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return [Layers("gqa", config.layers(), kv_heads(config)), Layers("mamba2", config.layers(), mamba2(config))]


ARCHITECTURE = Architecture(("falcon_h1",), ("FalconH1ForCausalLM",), _read)
