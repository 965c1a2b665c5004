"""Gemma 3: a layer of full attention after every five over a sliding window (arXiv 2503.19786).

Which layer is full, ``layer_types`` says, or else ``sliding_window_pattern``. Published configs leave out what is as in
their class, ``Gemma3TextConfig`` of transformers: heads of 256, four of them for keys and values, a pattern of six.
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, windows
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    size = config.count_or("head_dim", 256)
    sizes = {"kv_heads": config.count_or("num_key_value_heads", 4), "head_dim_k": size, "head_dim_v": size}
    return windows(config, sizes, every=config.count_or("sliding_window_pattern", 6))


ARCHITECTURE = Architecture(("gemma3_text", "gemma3"), ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"), _read)
