"""Decode step time by batch and context, and the batch that a token rate allows."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeProfile:
    """Decode steps of one instance: by batch alone, or by batch and context.

    All methods but ``at`` are of a profile by batch alone; ``at`` makes one of a profile by context.

    Attributes:
        batches: requests decoded together, ascending.
        steps_s: seconds of one step at each batch; by context: at the shortest.
        accepted_tokens: tokens that a request gains in one step; more than 1 with multi-token prediction.
        contexts_tokens: mean contexts of the requests in a batch, ascending; none: the step is by batch alone.
        columns_s: seconds of one step at each batch, for each context.
    """

    batches: tuple[int, ...]
    steps_s: tuple[float, ...]
    accepted_tokens: float = 1.0
    contexts_tokens: tuple[float, ...] = ()
    columns_s: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def by_context(
        cls,
        batches: Sequence[int],
        contexts_tokens: Sequence[float],
        rows_s: Sequence[Sequence[float]],
        accepted_tokens: float = 1.0,
    ) -> DecodeProfile:
        """A table of steps: a row for each batch, a column for each context.

        >>> DecodeProfile.by_context([1, 9], [1000, 3000], [[0.25, 0.75], [0.5, 1.5]]).at(2000).step_s(5)
        0.75
        """
        columns = tuple(zip(*rows_s, strict=True))
        return cls(tuple(batches), columns[0], accepted_tokens, tuple(contexts_tokens), columns)

    @classmethod
    def fitted(
        cls,
        coefficients: tuple[float, float, float],
        batch_range: tuple[int, int],
        context_range_tokens: tuple[float, float],
        accepted_tokens: float = 1.0,
    ) -> DecodeProfile:
        """``D(b, ctx) = base + b * (per_request + per_context_token * ctx)`` on a range of both.

        Straight in batch and in context, it is the table of its four corners.

        >>> DecodeProfile.fitted((0.01, 1e-4, 1e-7), (1, 101), (0, 10_000)).at(5000).step_s(51)
        0.0406
        """
        base_s, per_request_s, per_context_token_s = coefficients
        each_s = [per_request_s + per_context_token_s * context for context in context_range_tokens]
        rows = [[base_s + batch * request_s for request_s in each_s] for batch in batch_range]
        return cls.by_context(batch_range, context_range_tokens, rows, accepted_tokens)

    def at(self, context_tokens: float) -> DecodeProfile:
        """The profile by batch alone at a mean context, straight between measured contexts.

        Below the first of them the steps are those of the first.

        Raises:
            ValueError: a context beyond the last.
        """
        if not self.contexts_tokens:
            return self
        i = bisect.bisect_left(self.contexts_tokens, context_tokens)
        if i == len(self.contexts_tokens):
            raise ValueError(f"a context of {context_tokens:,.0f} tokens is beyond {self.contexts_tokens[-1]:,.0f}")
        steps = self.columns_s[i]
        if i > 0:
            low, high = self.contexts_tokens[i - 1 : i + 1]
            share = (context_tokens - low) / (high - low)
            steps = tuple(a + share * (b - a) for a, b in zip(self.columns_s[i - 1], steps, strict=True))
        return DecodeProfile(self.batches, steps, self.accepted_tokens)

    def step_s(self, batch: int) -> float:
        """Seconds of a step at a batch inside the measured range, straight between measured batches."""
        steps = self._steps
        i = bisect.bisect_left(self.batches, batch)
        if i < len(self.batches) and self.batches[i] == batch:
            return steps[i]
        if not 0 < i < len(self.batches):
            raise ValueError(f"batch {batch} is outside {self.batches[0]} to {self.batches[-1]}")
        share = (batch - self.batches[i - 1]) / (self.batches[i] - self.batches[i - 1])
        return steps[i - 1] + share * (steps[i] - steps[i - 1])

    def step_limit_s(self, tokens_per_s: float | None) -> float:
        """Seconds that a step may take for each request to gain its token rate; None asks nothing."""
        return math.inf if tokens_per_s is None else self.accepted_tokens * (1.0 + 1e-12) / tokens_per_s

    def largest_batch(self, tokens_per_s: float | None) -> int | None:
        """BS_max: the largest batch whose step gives each request its token rate; None if no batch does.

        Args:
            tokens_per_s: the SLO of one request, tokens/s; None asks nothing of the step.

        >>> DecodeProfile((1, 9), (0.010, 0.018)).largest_batch(tokens_per_s=64)
        6
        """
        limit_s = self.step_limit_s(tokens_per_s)
        for i, step_s in reversed(list(enumerate(self._steps))):
            if step_s <= limit_s:
                if i + 1 == len(self.batches):
                    return self.batches[i]
                between = range(self.batches[i], self.batches[i + 1])
                return between[bisect.bisect_right(between, limit_s, key=self.step_s) - 1]
        return None

    @property
    def fastest_tokens_per_s(self) -> float:
        """The highest token rate that any measured batch gives a request."""
        return self.accepted_tokens / min(self._steps)

    @property
    def _steps(self) -> tuple[float, ...]:
        if self.contexts_tokens:
            raise ValueError("the step depends on the context: ask at(context_tokens)")
        return self.steps_s
