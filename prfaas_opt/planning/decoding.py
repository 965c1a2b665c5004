"""How an instance decodes a workload: the batches that the SLO and the memory allow, and the rate they give."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.throughput.equations import pd_decode_throughput

if TYPE_CHECKING:
    from prfaas_opt.profiles.decode import DecodeProfile
    from prfaas_opt.profiles.memory import InstanceMemory
    from prfaas_opt.profiles.model import Model, Profile
    from prfaas_opt.scenario import Origin
    from prfaas_opt.workload.workload import Workload

LimitedBy = Literal["slo", "memory", "profile"]
_ROUNDING = 1.0 + 1e-12


class Decoding(Struct, frozen=True):
    """How an instance decodes.

    Attributes:
        batch: requests decoded together, BS_max.
        step_s: seconds of one step.
        context_tokens: mean context of a request that decodes.
        rps_per_instance: requests/s that one instance finishes.
        limited_by: what rules out every larger batch: the SLO, the memory, or that none was measured.
    """

    batch: int
    step_s: float
    context_tokens: float
    rps_per_instance: float
    limited_by: LimitedBy


@dataclass(frozen=True)
class DecodeLimits:
    """What bounds the batch of an instance, the requests in it being of one workload.

    Attributes:
        steps: decode steps by batch, at the mean context.
        context_tokens: mean context of a request that decodes.
        output_tokens: mean output of a request.
        tokens_per_s: SLO of one request; None asks nothing.
        memory: of the instance; None bounds nothing.
        kv_bytes: KVCache of a request at the mean context, positive where there is ``memory``.
        in_flight_byte_s: mean over requests of what they hold before they decode, their size times how long.
    """

    steps: DecodeProfile
    context_tokens: float
    output_tokens: float
    tokens_per_s: float | None = None
    memory: InstanceMemory | None = None
    kv_bytes: float = 0.0
    in_flight_byte_s: float = 0.0

    def step_s(self, batch: int) -> float:
        """Seconds of a step at a batch."""
        return self.steps.step_s(batch)

    def rps(self, batch: int) -> float:
        """Requests/s that one instance finishes at a batch: equation 5, the output coming in accepted tokens."""
        steps_of_a_request = self.output_tokens / self.steps.accepted_tokens
        return pd_decode_throughput(1, batch, self.step_s(batch), steps_of_a_request)

    def held_bytes(self, batch: int) -> float:
        """Memory that a batch takes: weights, its KVCache, and by Little's law the KVCache in flight to it."""
        weights = self.memory.weights_bytes if self.memory else 0.0
        return weights + batch * self.kv_bytes + self.rps(batch) * self.in_flight_byte_s

    def is_fast(self, batch: int) -> bool:
        """Whether each request of a batch gets its token rate."""
        return self.step_s(batch) <= self.steps.step_limit_s(self.tokens_per_s)

    def fits(self, batch: int) -> bool:
        """Whether a batch fits in memory."""
        return self.memory is None or self.held_bytes(batch) <= self.memory.usable_bytes * _ROUNDING

    @property
    def spans(self) -> list[range]:
        """Every batch that is fast enough and fits, as ascending ranges that may adjoin; none: no batch does."""
        return self._spans_of(self.is_fast, self.fits)

    @property
    def fast_spans(self) -> list[range]:
        """Every batch that is fast enough, whether or not it fits, as ``spans``."""
        return self._spans_of(self.is_fast)

    @property
    def largest(self) -> Decoding | None:
        """How an instance decodes at the largest batch that is fast enough and fits; None if none is."""
        spans = self.spans
        if not spans:
            return None
        batch = spans[-1][-1]
        limited_by: LimitedBy = "profile"
        if batch < self.fast_spans[-1][-1]:
            limited_by = "memory"
        elif batch < self.steps.batches[-1]:
            limited_by = "slo"
        return Decoding(batch, self.step_s(batch), self.context_tokens, self.rps(batch), limited_by)

    @property
    def least_fast_batch(self) -> int:
        """Of the batches that are fast enough the one that takes the least memory; there must be one."""
        return min((end for span in self.fast_spans for end in (span[0], span[-1])), key=self.held_bytes)

    def _spans_of(self, *conditions: Callable[[int], bool]) -> list[range]:
        spans = []
        for run in self._runs():
            parts = [_where(run, holds) for holds in conditions]
            spans.append(range(max(part.start for part in parts), min(part.stop for part in parts)))
        return [span for span in spans if span]

    def _runs(self) -> list[range]:
        """The measured batches, cut so that on each run step and memory only rise or only fall.

        Between measured batches the step is ``p + q*b``. The KVCache in flight is a multiple of ``b / (p + q*b)``,
        which falls as b grows where p is negative; the memory of a batch then falls up to the b where
        ``kv_bytes = -p * per_rps / (p + q*b)**2``, and rises from there.
        """
        batches, runs = self.steps.batches, []
        per_rps = self.in_flight_byte_s * self.steps.accepted_tokens / self.output_tokens
        for low, high in itertools.pairwise(batches):
            q = (self.step_s(high) - self.step_s(low)) / (high - low)
            p = self.step_s(low) - q * low
            turn = low
            if self.memory and p < 0 < per_rps:
                least = (math.sqrt(-p * per_rps / self.kv_bytes) - p) / q
                turn = math.floor(min(max(least, low), high - 1)) + 1
            runs += [range(low, turn), range(turn, high)]
        return [run for run in (*runs, range(batches[-1], batches[-1] + 1)) if run]


def _where(run: range, holds: Callable[[int], bool]) -> range:
    """The part of a run where a condition holds that becomes true once, or false once, or neither."""
    at_last = holds(run[-1])
    if holds(run[0]) == at_last:
        return run if at_last else run[:0]
    change = bisect.bisect_left(run, True, key=lambda batch: holds(batch) == at_last)
    return run[change:] if at_last else run[:change]


def mean_context_tokens(workload: Workload) -> float:
    """Mean context of a request that decodes, over time: ``E[prompt] + E[o**2] / (2 * E[o])``.

    A step takes all requests of a batch one round further, so that a request is in it for a time proportional to its
    output o. Seen at any time, a request hence has an output o with density ``o * f(o) / E[o]``, and has generated
    half of it on average: ``E[o * o/2] / E[o]``. Its prompt, cached part included, is all there; the prompt's length
    is taken not to depend on o, so that those that decode have the mean prompt of all.
    """
    output, prompt = workload.output_tokens, workload.input_tokens.mean * workload.prompt_per_uncached
    return prompt + output.moment(2.0) / (2.0 * output.mean)


def decode_limits(
    model: Model,
    profile: Profile,
    workload: Workload,
    tokens_per_s: float | None,
    origin: Origin,
    in_flight_byte_s: float = 0.0,
) -> DecodeLimits:
    """What bounds the batch of an instance that decodes a workload.

    Args:
        model, profile: the model, and its profile on the instance's hardware.
        workload: the requests.
        tokens_per_s: SLO of one request; None asks nothing.
        origin: says where the model, the workload and the SLO stand, for errors.
        in_flight_byte_s: mean over requests of KVCache size * (wait + transfer time) before they decode.

    Raises:
        InputError: no decode figures, or none at the workload's mean context.
    """
    if profile.decode is None:
        message = f"{model.name} has no decode figures on {profile.hardware}"
        raise InputError(Problem("missing-decode", origin.where(("model",)), message, "add decode to its profile"))
    context = mean_context_tokens(workload)
    ends = [("decode step", end) for end in profile.decode.contexts_tokens[-1:]]
    ends += [("KVCache size", profile.kv_bytes.upper)] if profile.memory else []
    short = [f"{what} up to {units.format_tokens(end)}" for what, end in ends if end < context]
    if short:
        message = (
            f"a request of {workload.name} has a context of {units.format_tokens(context)} tokens on average while it "
            f"decodes, but of {model.name} on {profile.hardware} is known: {', '.join(short)}"
        )
        fix = "measure the model at longer contexts, or shorten the workload's lengths"
        raise InputError(Problem("length-above-range", origin.where(("workload",)), message, fix))
    kv_bytes = profile.kv_bytes(context) if profile.memory else 0.0
    if profile.memory and kv_bytes <= 0:
        message = (
            f"below its first point the KVCache size of {model.name} on {profile.hardware} follows the first segment's "
            f"slope and would not be positive at a context of {units.format_tokens(context)} tokens"
        )
        fix = "add a point at a shorter length"
        raise InputError(Problem("negative-size", origin.where(("model",)), message, fix))
    output = workload.output_tokens.mean
    steps = profile.decode.at(context)
    return DecodeLimits(steps, context, output, tokens_per_s, profile.memory, kv_bytes, in_flight_byte_s)


def decoding(
    model: Model,
    profile: Profile,
    workload: Workload,
    tokens_per_s: float | None,
    origin: Origin,
    in_flight_byte_s: float = 0.0,
) -> Decoding:
    """How an instance decodes a workload: at the largest batch within the SLO and within memory.

    The arguments are those of ``decode_limits``.

    Raises:
        InputError: no decode figures, or none at the workload's mean context.
        InfeasibleError: no batch is fast enough ("slo"), or none that is fits in memory ("memory").
    """
    limits = decode_limits(model, profile, workload, tokens_per_s, origin, in_flight_byte_s)
    found = limits.largest
    if found is None:
        raise InfeasibleError(no_batch(limits, f"{model.name} on {profile.hardware}", origin))
    return found


def no_batch(limits: DecodeLimits, what: str, origin: Origin) -> Problem:
    """Why no batch of ``limits`` will do, of a model on some hardware."""
    if not limits.fast_spans:
        wanted, possible = limits.tokens_per_s, limits.steps.fastest_tokens_per_s
        assert wanted is not None
        accepted = limits.steps.accepted_tokens
        return Problem(
            "slo",
            origin.where(("slo", "tokens_per_s")),
            f"{wanted:g} tokens/s leave {units.format_ms(accepted / wanted)} a decode step, but the fastest step "
            f"measured for {what} takes {units.format_ms(accepted / possible)}",
            f"ask {possible:.6g} tokens/s or less, or give the profile a smaller, faster batch",
        )
    assert limits.memory is not None
    batch = limits.least_fast_batch
    needed, weights, kv = limits.held_bytes(batch), limits.memory.weights_bytes, batch * limits.kv_bytes
    in_flight = needed - weights - kv
    parts = f"{_gib(weights)} of weights, {_gib(kv)} of KVCache" + (f", {_gib(in_flight)} in flight" * (in_flight > 0))
    return Problem(
        "memory",
        origin.where(("model",)),
        f"no batch of {what} fits in memory: the least that decodes, {batch}, takes {parts}, in all {_gib(needed)}, "
        f"expected {_gib(limits.memory.usable_bytes)} of usable memory at most",
        f"give an instance {_gib(needed)} of usable memory (more GPUs), or the profile a smaller batch",
    )


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / units.SIZE_SUFFIXES['gib']:,.4g} GiB"
