"""gpt-oss and EXAONE 4: full and sliding-window attention by turns, as ``layer_types`` says (arXiv 2508.10925)."""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa, windows
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    return windows(config, gqa(config))


ARCHITECTURE = Architecture(
    ("gpt_oss", "exaone4"), ("GptOssForCausalLM", "Exaone4ForCausalLM"), _read, ignored=("sliding_window_pattern",)
)
