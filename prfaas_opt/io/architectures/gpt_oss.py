"""gpt-oss: full and sliding-window attention by turns, as ``layer_types`` says (arXiv 2508.10925)."""

from __future__ import annotations

from prfaas_opt.io.architectures import Architecture, gqa, grouped
from prfaas_opt.io.hf_fields import ConfigFields, Layers


def _read(config: ConfigFields) -> list[Layers]:
    kinds = config.kinds("layer_types", {"full_attention": "gqa", "sliding_attention": "swa"})
    sizes = gqa(config)
    return grouped(kinds, {"gqa": sizes, "swa": sizes | {"window_tokens": config.count("sliding_window")}})


ARCHITECTURE = Architecture(("gpt_oss",), ("GptOssForCausalLM",), _read)
