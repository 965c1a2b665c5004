"""Points of a profile from runs of a benchmark: which figures of a run may stand for a prefill or a decode step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prfaas_opt.io.scalars import Number
from prfaas_opt.units import format_tokens

if TYPE_CHECKING:
    from prfaas_opt.io.benchmark_file import Fields

MILLISECONDS = Number("a positive number of milliseconds", above=0, factor=1e-3)
MILLISECONDS_OR_ZERO = Number("a number of milliseconds, 0 or more", minimum=0, factor=1e-3)

SLOWEST_TOKENS_PER_S, FASTEST_TOKENS_PER_S = 20.0, 5e6
"""Prefill rates of an instance beyond which a latency is most likely in another unit."""
SHORT_TOKENS, SLOWEST_SHORT_TOKENS_PER_S = 256, 2.0
"""A prompt below which the fixed cost of a launch may be most of the latency, and the slowest rate of such a prompt."""
USUAL_TOKENS_PER_S = (100.0, 1e6)
"""Prefill rates beyond which a unit deserves a second look."""
SHORTEST_STEP_S, LONGEST_STEP_S = 1e-4, 2.0
"""Decode steps beyond which a time is most likely in another unit."""
WIDEST_SHARE, EQUAL_SHARE = 0.10, 0.01
"""Spread of prompt lengths, as a share of their mean: beyond the first no point of a curve, below the second none."""
OVERLAP = 1.1
"""Requests in flight on average, for each that may be, beyond which latencies and duration contradict each other."""
FULL_SHARE = 0.7
"""Share of the limit of concurrency that must be in flight on average for the limit to pass as the batch."""
UNIT_SHARE = 0.02
"""A share of it so small that latencies and duration are in different units."""
APART = 2.0
"""Factor between a request's latency and the sum of its TTFT and steps beyond which they contradict each other."""
ALONE = 1.05
"""Requests in flight on average, up to which requests may have come one by one where the file does not tell."""
OUTLIERS = 1.5
"""Mean TTFT over the median, beyond which some requests were far slower than the rest."""


_UNIT_FIX = "check its unit: seconds for milliseconds, or the other way round"


@dataclass(frozen=True)
class PrefillPoint:
    """Seconds of one prompt that has the instance for itself."""

    length_tokens: int
    latency_s: float
    where: str


@dataclass(frozen=True)
class DecodePoint:
    """Seconds of a step at a batch; the mean context is None where the file does not tell."""

    batch: int
    context_tokens: float | None
    step_s: float
    where: str


@dataclass(frozen=True)
class LeftOut:
    """A figure that was not taken: ``prefill`` or ``decode``, and why."""

    where: str
    figure: str
    reason: str


@dataclass
class Findings:
    """What the files gave so far.

    Attributes:
        prefill: points of the latency curve.
        decode: points of the decode step.
        left_out: figures that were not taken.
        warnings: what makes a figure that was taken less than certain.
        models: names of models, with the first place of each.
        version: of the tool that wrote the file, where it tells.
        gpus: GPUs of an instance by the file's own throughput: place, number, and the factor it may be off.
        under_load: batches whose step was measured between prefills of other requests.
    """

    prefill: list[PrefillPoint] = field(default_factory=list)
    decode: list[DecodePoint] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    models: dict[str, str] = field(default_factory=dict)
    version: str = ""
    gpus: list[tuple[str, float, float]] = field(default_factory=list)
    under_load: list[int] = field(default_factory=list)

    def leave(self, where: str, figure: str, reason: str) -> None:
        """Notes a figure that is not taken."""
        self.left_out.append(LeftOut(where, figure, reason))

    def model(self, name: object, where: str) -> None:
        """Notes the model that a record names, if it does."""
        if isinstance(name, str) and name.strip():
            self.models.setdefault(name.strip(), where)


@dataclass(frozen=True)
class Run:
    """A run of requests against a server, in SI units.

    Attributes:
        fields: the record.
        requests: those that completed.
        input_tokens: mean length of a prompt.
        output_tokens: mean of what was generated.
        ttft_s: median time to the first token, or else the mean; None where it was not measured.
        ttft_mean_s: the mean; None where the file does not tell.
        step_s: median time between tokens of a request.
        latency_s: mean time of a whole request.
        concurrency: most requests in flight; None where there is no limit, or the file does not tell.
        concurrency_known: whether the file tells how requests were sent.
        rate: words for the rate at which requests were sent; empty where nothing but concurrency held them back.
        in_flight: requests in flight on average: throughput times latency.
        spread_share: about the spread of prompt lengths, as a share of their mean; None where nothing tells it.
        accepted_tokens: tokens of a step, where drafts were verified.
    """

    fields: Fields
    requests: float
    input_tokens: float
    output_tokens: float
    ttft_s: float | None
    ttft_mean_s: float | None
    step_s: float | None
    latency_s: float | None
    concurrency: int | None
    concurrency_known: bool = True
    rate: str = ""
    in_flight: float | None = None
    spread_share: float | None = None
    accepted_tokens: float | None = None


def is_whole(tokens: float) -> bool:
    """Whether a mean length is a whole number, as it is where all prompts are of one length."""
    return abs(tokens - round(tokens)) < 1e-6


def take_run(run: Run, findings: Findings) -> None:
    """Takes what a run tells of prefill and decode, and notes what it does not and what is wrong with it."""
    if not _consistent(run):
        return
    _take_prefill(run, findings)
    _take_decode(run, findings)


def plausible_prefill(fields: Fields, name: str, tokens: float, seconds: float) -> bool:
    """Notes a latency that no instance has, most likely a slip of its unit."""
    rate = tokens / seconds
    slowest = SLOWEST_SHORT_TOKENS_PER_S if tokens < SHORT_TOKENS else SLOWEST_TOKENS_PER_S
    if slowest <= rate <= FASTEST_TOKENS_PER_S:
        return True
    message = (
        f"gives {format_tokens(round(tokens))} tokens in {seconds:.4g} s, {rate:,.3g} tokens/s, expected "
        f"{slowest:g} to {FASTEST_TOKENS_PER_S:,.0f}"
    )
    fields.refuse(name, "implausible", message, _UNIT_FIX)
    return False


def unusual_prefill(length_tokens: int, latency_s: float) -> str:
    """What to know of a latency that few instances have; empty where many do."""
    least, most = USUAL_TOKENS_PER_S
    rate = length_tokens / latency_s
    if length_tokens < SHORT_TOKENS or least <= rate <= most:
        return ""
    return f"prefill of {length_tokens:,} tokens in {latency_s:.4g} s is {rate:,.3g} tokens/s: check the unit of times"


def plausible_step(fields: Fields, name: str, step_s: float) -> bool:
    """Notes a decode step that no instance takes, most likely a slip of its unit."""
    if SHORTEST_STEP_S <= step_s <= LONGEST_STEP_S:
        return True
    least, most = (f"{limit * 1e3:,g}" for limit in (SHORTEST_STEP_S, LONGEST_STEP_S))
    message = f"gives a decode step of {step_s * 1e3:,.6g} ms, expected {least} to {most} ms"
    fields.refuse(name, "implausible", message, _UNIT_FIX)
    return False


def _consistent(run: Run) -> bool:
    """Whether the figures of a run can be of one run."""
    fix = "check the units: seconds for milliseconds, or the other way round; else run it again"
    slack = 1.001
    for what, part_s in (("TTFT", run.ttft_mean_s), ("step", run.step_s)):
        if part_s is not None and run.latency_s is not None and part_s > run.latency_s * slack:
            message = f"has a {what} of {part_s:.4g} s, expected at most its whole latency, {run.latency_s:.4g} s"
            run.fields.refuse("", "inconsistent", message, fix)
            return False
    if run.latency_s and run.ttft_mean_s and run.step_s and not _queueing(run):
        whole_s = run.ttft_mean_s + run.step_s * max(run.output_tokens - 1, 0)
        if not 1 / APART <= whole_s / run.latency_s <= APART:
            message = (
                f"has a whole latency of {run.latency_s:.4g} s, expected about {whole_s:.4g} s: TTFT and "
                f"{run.output_tokens - 1:.4g} steps"
            )
            run.fields.refuse("", "inconsistent", message, fix)
            return False
    limit, flying = run.concurrency, run.in_flight
    if limit is None or flying is None:
        return True
    # Requests are sent as soon as one ends, so as many are in flight as may be, but for the end of the run.
    share = flying / min(limit, run.requests)
    if share > OVERLAP or (not run.rate and share < UNIT_SHARE):
        message = (
            f"has {flying:.3g} requests in flight on average, by its latency and duration, expected about {limit}, "
            "its concurrency"
        )
        run.fields.refuse("", "inconsistent", message, fix)
        return False
    return True


def _take_prefill(run: Run, findings: Findings) -> None:
    where = run.fields.where
    if run.ttft_s is None:
        return findings.leave(where, "prefill", "no time to first token: requests were not streamed")
    reason = _queueing(run)
    if reason:
        return findings.leave(where, "prefill", reason)
    spread = run.spread_share or 0.0
    if spread > WIDEST_SHARE:
        return findings.leave(
            where, "prefill", f"prompts differ in length, by about {spread * 100:.0f} % of their mean"
        )
    if not plausible_prefill(run.fields, "", run.input_tokens, run.ttft_s):
        return None
    if spread > EQUAL_SHARE or (run.spread_share is None and not is_whole(run.input_tokens)):
        findings.warnings.append(f"{where}: prompts differ in length; the median TTFT is taken at their mean length")
    if not run.concurrency_known:
        findings.warnings.append(
            f"{where}: the file does not tell how requests were sent; on average {run.in_flight or 0:.2f} were in "
            "flight, so TTFT is taken as prefill, though some may have waited"
        )
    if run.ttft_mean_s is not None and run.ttft_mean_s > OUTLIERS * run.ttft_s:
        findings.warnings.append(
            f"{where}: mean TTFT is {run.ttft_mean_s / run.ttft_s:.1f} times the median, which is taken: some requests "
            "waited, or the first ones warmed up"
        )
    findings.prefill.append(PrefillPoint(max(round(run.input_tokens), 1), run.ttft_s, where))
    return None


def _queueing(run: Run) -> str:
    """Why TTFT holds more than a prefill; empty where it does not."""
    if run.requests == 1 or run.concurrency == 1:
        return ""
    if run.concurrency is not None:
        return f"TTFT at concurrency {run.concurrency}: prompts waited for each other"
    if run.rate:
        return f"TTFT at {run.rate} without a limit of concurrency: prompts may have waited for each other"
    if run.concurrency_known:
        return "TTFT with all requests sent at once: prompts waited for each other"
    if run.in_flight is None:
        return "the file does not tell how many requests were in flight"
    if run.in_flight > ALONE:
        return f"TTFT with {run.in_flight:.3g} requests in flight on average: prompts waited for each other"
    return ""


def _take_decode(run: Run, findings: Findings) -> None:
    where = run.fields.where
    if run.step_s is None or run.step_s == 0 or run.output_tokens < 2:
        return findings.leave(where, "decode", "no time between tokens: a request gave one token, or no stream")
    one_by_one = run.requests == 1 or (not run.concurrency_known and not _queueing(run))
    batch = 1 if one_by_one else run.concurrency
    if batch is None:
        return findings.leave(where, "decode", "the batch is not known without a limit of concurrency")
    if run.accepted_tokens is not None and run.accepted_tokens > 1:
        tokens = f"{run.accepted_tokens:.3g}"
        return findings.leave(where, "decode", f"speculative decoding: a step gave {tokens} tokens on average")
    if run.requests < batch:
        return findings.leave(where, "decode", f"{run.requests:.0f} requests never made a batch of {batch}")
    if batch > 1 and run.in_flight is not None and run.in_flight < FULL_SHARE * batch:
        few = f"{run.in_flight:.3g} requests were in flight on average"
        return findings.leave(where, "decode", f"{few}, too few for a batch of {batch}")
    if not plausible_step(run.fields, "", run.step_s):
        return None
    if batch > 1:
        findings.under_load.append(batch)
    context = run.input_tokens + run.output_tokens / 2
    findings.decode.append(DecodePoint(batch, context, run.step_s, where))
    return None
