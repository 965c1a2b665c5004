"""OLMo 3: a layer of full attention after every three over a sliding window (``Olmo3Config`` of transformers)."""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, windows
from prfaas_opt.io.architectures.llama import kv_heads
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return windows(config, kv_heads(config), every=4)


ARCHITECTURE = Architecture(("olmo3",), ("Olmo3ForCausalLM",), _read)
