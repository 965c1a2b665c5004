"""``kv_cache`` of a model file, written from layers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prfaas_opt.io.hf_fields import Layers
    from prfaas_opt.profiles.kv_cache import KvLayout

_WIDTH = 80


def kv_cache_mapping(layers: Sequence[Layers], layout: KvLayout) -> dict[str, Any]:
    """The field as plain data; element sizes that are whole stand as whole numbers."""
    element = {"kv": layout.kv_bytes, "state": layout.state_bytes, "convolution": layout.conv_bytes}
    return {
        "layers": [{"attention": each.family, "count": each.count, **each.dimensions} for each in layers],
        "element_bytes": {name: int(size) if size == int(size) else size for name, size in element.items()},
        "max_tokens": layout.max_tokens,
    }


def kv_cache_block(kv_cache: dict[str, Any], provenance: str) -> str:
    """The field with its provenance as YAML to paste into a model file, at most 80 columns wide."""
    lines = ["kv_cache:", "  layers:"]
    for layers in kv_cache["layers"]:
        unbroken = _flow(layers).replace(": ", ":\N{NO-BREAK SPACE}")
        wrapped = textwrap.wrap(f"    - {unbroken}", _WIDTH, subsequent_indent="       ")
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    lines += [f"  element_bytes: {_flow(kv_cache['element_bytes'])}", f"  max_tokens: {kv_cache['max_tokens']}"]
    return "\n".join([*lines, f"kv_cache_provenance: {provenance}", ""])


def _flow(mapping: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in mapping.items()) + "}"
