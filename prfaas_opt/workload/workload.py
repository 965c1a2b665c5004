"""A workload: how long requests are and how much they generate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prfaas_opt.workload.distribution import LengthDistribution


@dataclass(frozen=True)
class Workload:
    """Lengths of the requests of one service.

    Attributes:
        name: as scenarios name it.
        description: one line for people.
        input_tokens: uncached prompt length L.
        output_tokens: generated length.
        source: where the figures come from.
        cached_share: share of every whole prompt that is found in a prefix cache.
    """

    name: str
    description: str
    input_tokens: LengthDistribution
    output_tokens: LengthDistribution
    source: str = ""
    cached_share: float = 0.0

    @property
    def prompt_per_uncached(self) -> float:
        """Tokens of a whole prompt for each of its uncached tokens."""
        return 1.0 / (1.0 - self.cached_share)
