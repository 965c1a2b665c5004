"""A model: what it costs to prefill, to move and to decode, per hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prfaas_opt.profiles.cached import CachedPrefill
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.decode import DecodeProfile
    from prfaas_opt.profiles.memory import InstanceMemory

PROVENANCE_KINDS = ("measured", "paper", "fitted", "derived", "assumed")


@dataclass(frozen=True)
class Provenance:
    """Where a figure comes from: its kind (``PROVENANCE_KINDS``) and its source in words."""

    kind: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, {self.source}" if self.source else self.kind


@dataclass(frozen=True)
class Profile:
    """A model on an instance of one kind of hardware.

    Attributes:
        hardware: accelerator name, for example H200.
        gpus_per_instance: GPUs that one instance takes.
        engine: serving engine and version, or empty.
        prefill_s: prefill seconds by uncached prompt length.
        kv_bytes: KVCache bytes by prompt length.
        decode: step time by batch; None on hardware that was never measured decoding.
        provenance: of "prefill", "kv_cache" and, where the profile states them, "prefill_cached", "decode",
            "occupancy" and "memory".
        memory: of an instance; None where not stated, and then it bounds nothing.
        stated_occupancy_s: what ``occupancy_s`` is, where it is stated.
        cached_prefill_s: prefill seconds of prompts with a cached prefix; None: they follow from ``prefill_s`` by a
            rule (DESIGN 2.1).
        cached_occupancy_s: seconds that such a prompt takes an instance; stated where both occupancy and
            ``cached_prefill_s`` are.
    """

    hardware: str
    gpus_per_instance: int
    engine: str
    prefill_s: Curve
    kv_bytes: Curve
    decode: DecodeProfile | None
    provenance: Mapping[str, Provenance]
    memory: InstanceMemory | None = None
    stated_occupancy_s: Curve | None = None
    cached_prefill_s: CachedPrefill | None = None
    cached_occupancy_s: CachedPrefill | None = None

    @property
    def occupancy_s(self) -> Curve:
        """Seconds that a prompt takes an instance, by its uncached length; its latency, where nothing else is stated.

        Prompts batched or pipelined in chunks share the instance, so that each takes less of it than it waits.
        """
        return self.prefill_s if self.stated_occupancy_s is None else self.stated_occupancy_s


@dataclass(frozen=True)
class Model:
    """A model and its profiles, one a hardware.

    Attributes:
        name: as scenarios name it.
        description: one line for people.
        profiles: one for each hardware.
        warnings: what a reader of its figures should know, for example a latency that falls.
    """

    name: str
    description: str
    profiles: tuple[Profile, ...]
    warnings: tuple[str, ...] = field(default=())

    def profile(self, hardware: str) -> Profile | None:
        """The profile for a hardware name, in any case; None if there is none."""
        wanted = hardware.casefold()
        return next((p for p in self.profiles if p.hardware.casefold() == wanted), None)

    @property
    def hardware(self) -> tuple[str, ...]:
        """The hardware names it has profiles for."""
        return tuple(profile.hardware for profile in self.profiles)
