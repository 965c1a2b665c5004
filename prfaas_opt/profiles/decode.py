"""Decode step time by batch, and the batch that a token rate allows."""

from __future__ import annotations

import bisect
from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeProfile:
    """Measured decode steps of one instance.

    Attributes:
        batches: requests decoded together, ascending.
        steps_s: seconds of one step at each batch.
    """

    batches: tuple[int, ...]
    steps_s: tuple[float, ...]

    def step_s(self, batch: int) -> float:
        """Seconds of a step at a batch inside the measured range, straight between measured batches."""
        i = bisect.bisect_left(self.batches, batch)
        if i < len(self.batches) and self.batches[i] == batch:
            return self.steps_s[i]
        if not 0 < i < len(self.batches):
            raise ValueError(f"batch {batch} is outside {self.batches[0]} to {self.batches[-1]}")
        share = (batch - self.batches[i - 1]) / (self.batches[i] - self.batches[i - 1])
        return self.steps_s[i - 1] + share * (self.steps_s[i] - self.steps_s[i - 1])

    def largest_batch(self, tokens_per_s: float | None) -> int | None:
        """BS_max: the largest batch whose step gives each request its token rate; None if no batch does.

        Args:
            tokens_per_s: the SLO of one request, tokens/s; None asks nothing of the step.

        >>> DecodeProfile((1, 9), (0.010, 0.018)).largest_batch(tokens_per_s=64)
        6
        """
        if tokens_per_s is None:
            return self.batches[-1]
        limit_s = (1.0 + 1e-12) / tokens_per_s
        for i in reversed(range(len(self.batches))):
            if self.steps_s[i] <= limit_s:
                if i + 1 == len(self.batches):
                    return self.batches[i]
                between = range(self.batches[i], self.batches[i + 1])
                return between[bisect.bisect_right(between, limit_s, key=self.step_s) - 1]
        return None

    @property
    def fastest_tokens_per_s(self) -> float:
        """The highest token rate that any measured batch gives a request."""
        return 1.0 / min(self.steps_s)
