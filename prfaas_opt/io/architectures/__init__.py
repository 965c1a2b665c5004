"""Architectures: which fields of a model's ``config.json`` say what its layers cache.

Each module of this package reads the configs of one architecture; a new file is a new architecture. Its
``ARCHITECTURE`` names the values of ``model_type`` and of ``architectures`` that it understands. A reader asks for the
fields that fix the cache, takes none for granted unless the model's own configuration class has it so, and refuses what
it does not know. Layers of multi-token prediction are left out: they are no part of the model that decodes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from prfaas_opt.io.hf_fields import ConfigFields, Dimensions, Layers


@dataclass(frozen=True)
class Architecture:
    """Configs of one kind.

    Attributes:
        model_types: values of ``model_type``.
        class_names: values in ``architectures``.
        read: what the layers of a config are; where a field is wrong, it notes that and returns whatever it likes.
        ignored: fields that would mean another cache elsewhere, but not here.
    """

    model_types: tuple[str, ...]
    class_names: tuple[str, ...]
    read: Callable[[ConfigFields], list[Layers]]
    ignored: tuple[str, ...] = ()


@cache
def architectures() -> tuple[Architecture, ...]:
    """Every architecture, from the modules of this package."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    return tuple(module.ARCHITECTURE for module in modules)


def grouped(kinds: Sequence[str], families: Mapping[str, Dimensions]) -> list[Layers]:
    """Equal layers together, in the order of the families; a layer of a kind that is none of them caches nothing.

    >>> grouped(["gqa", "mlp", "gqa"], {"gqa": {"kv_heads": 8, "head_dim_k": 128, "head_dim_v": 128}})[0].count
    2
    """
    count = Counter(kinds)
    return [Layers(family, count[family], sizes) for family, sizes in families.items() if count[family]]


def gqa(config: ConfigFields, kv_heads: str = "num_key_value_heads", head_dim: str = "head_dim") -> dict[str, int]:
    """Dimensions of grouped-query attention whose keys and values are of one size."""
    size = config.count(head_dim)
    return {"kv_heads": config.count(kv_heads), "head_dim_k": size, "head_dim_v": size}


def windows(config: ConfigFields, sizes: Dimensions, every: int | None = None) -> list[Layers]:
    """Layers of full and of sliding-window attention with the same heads, as ``layer_types`` says.

    Args:
        config: the fields.
        sizes: dimensions of each layer.
        every: without ``layer_types``, each so many layers the last is a full one; None where it must be stated.
    """
    if every is None or config.states("layer_types"):
        kinds = config.kinds("layer_types", {"full_attention": "gqa", "sliding_attention": "swa"})
    else:
        kinds = ["swa" if (layer + 1) % every else "gqa" for layer in range(config.layers())]
    needed = "swa" in kinds or not kinds or config.states("sliding_window")
    window = config.count("sliding_window") if needed else 0
    return grouped(kinds, {"gqa": sizes, "swa": {**sizes, "window_tokens": window}})


def mamba2(config: ConfigFields) -> dict[str, int]:
    """Dimensions of Mamba-2 in the fields that begin with ``mamba_``."""
    return {
        "heads": config.count("mamba_n_heads"),
        "head_dim": config.count("mamba_d_head"),
        "state_size": config.count("mamba_d_state"),
        "groups": config.count("mamba_n_groups"),
        "conv_kernel": config.count("mamba_d_conv"),
    }


def mla(config: ConfigFields) -> dict[str, int]:
    """Dimensions of latent attention."""
    return {name: config.count(name) for name in ("kv_lora_rank", "qk_rope_head_dim")}


def lightning(config: ConfigFields) -> dict[str, int]:
    """Dimensions of Lightning attention with the heads of the model's full attention; it has no convolution."""
    heads, size = config.count("num_attention_heads"), config.count("head_dim")
    return {"key_heads": heads, "value_heads": heads, "head_dim_k": size, "head_dim_v": size, "conv_kernel": 0}


def kda(heads: int, head_dim: int, conv_kernel: int) -> dict[str, int]:
    """Dimensions of KDA, whose keys and values have the same heads."""
    sizes = {"key_heads": heads, "value_heads": heads, "head_dim_k": head_dim, "head_dim_v": head_dim}
    return sizes | {"conv_kernel": conv_kernel}
