"""Attention families: the KVCache that one layer of each kind holds for a request.

Each module of this package describes one family as a frozen struct of the dimensions that fix it, with a
``kv_elements`` method; a new file is a new family. Elements are counted for the whole model, without replication
over tensor-parallel ranks.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import ClassVar, Protocol

from msgspec import Struct


class KvElements(Struct, frozen=True):
    """What one layer caches for a request of l tokens.

    ``min(l, window_tokens) * per_token`` elements of the KV data type, ``state`` of the state's and
    ``convolution`` of the convolution's.
    """

    per_token: int = 0
    window_tokens: int | None = None
    state: int = 0
    convolution: int = 0

    @property
    def growing_per_token(self) -> int:
        """Elements that every further token adds, however long the prompt.

        They make the block-level part of the cache: its blocks serve any request with the same first tokens. What a
        window or a state holds is the request-level part: it serves only a request that goes on from the same token.
        """
        return self.per_token if self.window_tokens is None else 0


class AttentionFamily(Protocol):
    """One layer of a family, its fields being the dimensions that a model file names."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    def kv_elements(self) -> KvElements:
        """The layer's cache, in elements."""


@cache
def families() -> dict[str, type[AttentionFamily]]:
    """Every family by the name model files use, from the modules of this package."""
    found: dict[str, type[AttentionFamily]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found.update(module.FAMILIES)
    return dict(sorted(found.items()))
