"""Command R7B and Command A: a layer of full attention after every three over a sliding window (``Cohere2Config``).

Which layer is full, ``layer_types`` says, or else ``sliding_window_pattern``.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, windows
from prfaas_opt.io.architectures.llama import kv_heads
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return windows(config, kv_heads(config), every=config.count_or("sliding_window_pattern", 4))


ARCHITECTURE = Architecture(("cohere2",), ("Cohere2ForCausalLM",), _read)
