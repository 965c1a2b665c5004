"""What the memory of an instance holds beside the KVCache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstanceMemory:
    """Memory of one instance, all its GPUs together.

    Attributes:
        usable_bytes: what weights and KVCache may take, without the engine's own needs.
        weights_bytes: what the weights take of it.
    """

    usable_bytes: float
    weights_bytes: float

    @property
    def kv_bytes(self) -> float:
        """What is left for the KVCache.

        >>> InstanceMemory(usable_bytes=1128.0, weights_bytes=620.0).kv_bytes
        508.0
        """
        return self.usable_bytes - self.weights_bytes
