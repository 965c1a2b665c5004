"""Gemma 2: full and sliding-window attention by turns (arXiv 2408.00118).

Which layer is full, ``layer_types`` says; without it every second one is (``Gemma2Config`` of transformers).
"""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa, windows
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return windows(config, gqa(config), every=2)


ARCHITECTURE = Architecture(("gemma2",), ("Gemma2ForCausalLM",), _read)
