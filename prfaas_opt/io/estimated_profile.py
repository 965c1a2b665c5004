"""A profile from the answers of an estimator: what is asked, what of the answers is taken, and where they come from."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.benchmark_runs import DecodePoint, LeftOut, PrefillPoint
from prfaas_opt.io.estimator import EXPERTS, Answer, Deployment, Estimator, GpuMemory, Question, RefusedError
from prfaas_opt.io.lengths import TABLE_LENGTHS_TOKENS
from prfaas_opt.io.measured_profile import DecodeTable, LatencyPoint, decode_table, latency_points
from prfaas_opt.io.wording import counted, printable
from prfaas_opt.units import SIZE_SUFFIXES, TIME_SUFFIXES, format_gb, format_length, format_share

LENGTHS_TOKENS = tuple(1024 * 2**power for power in range(8))
"""Prompts that are asked for unless said otherwise: 1K, 2K, 4K to 128K; those of table 3 among them."""
BATCHES = tuple(2**power for power in range(9))
"""Batches of decode steps: 1, 2, 4 to 256."""
CONTEXTS_TOKENS = TABLE_LENGTHS_TOKENS
"""Contexts of decode steps: those of table 3."""

MEASURED = "silicon"
NOISE_SHARE = 0.05
"""A fall of a decode step that is noise: what measurements of one thing differ by, as ``models check`` has it."""
_DIGITS = 5
_LONGEST_REASON = 180
_COPIED_TO_ALL = ("mla", "dsa")
_KERNELS = (
    "a latency is the sum of the GPUs' work, without what an engine adds to each request: short prompts err low",
    "the estimator extrapolates beyond the lengths that it has measurements of, and does not tell where they end",
)


@dataclass
class Estimates:
    """What was taken of an estimator's answers.

    Attributes:
        prefill: latency by length.
        decode: steps; None where no answer was taken.
        left_out: what was not taken.
        warnings: what to know of what was.
        engine: the serving engine that it is for.
        formats: number formats by figure and part of the model.
        origin_shares: by figure, the share of its time from each kind of source, the mean over its points.
        provenance: by figure.
        memory: of one GPU, with the largest needs of the engine in any decode step; None where not told.
    """

    prefill: tuple[LatencyPoint, ...] = ()
    decode: DecodeTable | None = None
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    engine: str = ""
    formats: dict[str, dict[str, str]] = field(default_factory=dict)
    origin_shares: dict[str, dict[str, float]] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    memory: GpuMemory | None = None


Found = dict[Question, Answer]


def estimated(
    estimator: Estimator, deployment: Deployment, lengths: Sequence[int], chunk_tokens: int | None = None
) -> Estimates:
    """Asks for prefill at each length and for decode steps by batch and context, and takes what can be used.

    A latency that the estimator refuses, or that is no positive number, is left out and listed. One that falls with
    length or batch is taken, with a note; so is one of a prompt that does not fit in memory at once, as it may in
    chunks. What does not fit in chunks is left out.

    Args:
        estimator: whom to ask.
        deployment: of what.
        lengths: of prompts, tokens.
        chunk_tokens: prompts are prefilled so many tokens at a time, each chunk over those before it; None: at once.

    Raises:
        InputError: the model does not fit in memory, or prefill of less than two lengths is left.
    """
    estimates = Estimates()
    whole = [Question("prefill", length) for length in sorted(set(lengths))]
    prefill = _ask(lambda question: _in_chunks(estimator, deployment, question, chunk_tokens), whole, estimates)
    _raise_unless_it_fits(prefill, deployment)
    if chunk_tokens:
        prefill = _those_that_fit(prefill, estimates)
    if len(prefill) < 2:
        raise InputError(_too_few(estimates, prefill, deployment, estimator))
    contexts = [context for context in CONTEXTS_TOKENS if context <= max(lengths)] or [max(lengths)]
    steps = [Question("decode", context, batch) for batch in BATCHES for context in contexts]
    answered = _ask(lambda question: estimator.ask(deployment, question), steps, estimates)
    decode = _full_table(_without_outliers(answered, estimates), estimates)
    where, lifted = deployment.system, 0.0
    points = (PrefillPoint(q.tokens, _seconds(answer), where) for q, answer in prefill.items())
    estimates.prefill = latency_points(points, estimates.warnings)
    if decode:
        steps_s, lifted = _lifted({q: _seconds(answer) for q, answer in decode.items()})
        points_of_steps = [DecodePoint(q.batch, q.tokens, step_s, where) for q, step_s in steps_s.items()]
        estimates.decode = decode_table(points_of_steps, estimates.warnings, estimates.left_out)
    else:
        estimates.warnings.append("no decode step is left: an instance with this profile cannot decode")
    estimates.engine = next(iter(prefill.values())).engine
    for figure, found in (("prefill", prefill), ("decode", decode)):
        if found:
            _note_origin(figure, found, estimator, deployment, estimates)
    if chunk_tokens:
        estimates.provenance["prefill"] += f", in chunks of {format_length(chunk_tokens)}"
    if lifted:
        at_most = format_share(math.ceil(lifted * 1000) / 1000)
        estimates.provenance["decode"] += f", lifted by at most {at_most} where it fell"
        estimates.warnings.append(
            f"decode steps were up to {at_most} faster than some of a smaller batch or context: they are "
            "taken as long as those"
        )
    estimates.memory = _largest_memory(decode or prefill)
    notes = [note for found in (prefill, decode) for answer in found.values() for note in answer.notes]
    estimates.warnings += [*dict.fromkeys(notes), *_unfit(prefill), *_KERNELS]
    return estimates


def copies_of_keys(layers: Iterable[Mapping[str, Any]], gpus: int) -> float:
    """On how many GPUs of an instance each key and value is kept, where attention is split over all of them.

    Heads are split until each GPU has one, and copied from there; the latent of MLA, which all heads share, is on every
    GPU. Of layers that differ, the most copies: the batch that fits is then never overstated.

    Args:
        layers: as ``kv_cache`` of a model file gives them.
        gpus: of the instance.

    >>> copies_of_keys([{"attention": "gqa", "kv_heads": 4}], 8), copies_of_keys([{"attention": "mla"}], 8)
    (2.0, 8.0)
    """
    copies = [1.0]
    for each in layers:
        if each["attention"] in _COPIED_TO_ALL:
            copies.append(float(gpus))
        elif "kv_heads" in each:
            copies.append(gpus / min(each["kv_heads"], gpus))
    return max(copies)


def memory_mapping(memory: GpuMemory, gpus: int, copies: float) -> dict[str, float]:
    """``memory`` of a profile: what the weights take, and beside them what is free, over the copies of each key."""
    weights = gpus * memory.weights_bytes
    free = gpus * (memory.capacity_bytes - memory.weights_bytes - memory.engine_bytes) / copies
    scale = SIZE_SUFFIXES["gb"]
    return {"usable_gb": round((weights + free) / scale, 2), "weights_gb": round(weights / scale, 2)}


def _ask(ask: Callable[[Question], Answer], questions: Sequence[Question], estimates: Estimates) -> Found:
    """The answers that are positive numbers; the rest is left out, a reason a line."""
    found: Found = {}
    refused: dict[str, list[Question]] = {}
    for question in questions:
        try:
            answer = ask(question)
        except RefusedError as error:
            reason = printable(str(error))
            reason = textwrap.shorten(reason, _LONGEST_REASON, placeholder=" ...")
            refused.setdefault(f"refused: {reason}", []).append(question)
            continue
        if math.isfinite(answer.latency_ms) and answer.latency_ms > 0:
            found[question] = answer
        else:
            reason = f"the answer is {answer.latency_ms:g} ms, expected a positive number"
            refused.setdefault(reason, []).append(question)
    estimates.left_out += [LeftOut(_places(each), each[0].figure, reason) for reason, each in refused.items()]
    return found


def _in_chunks(estimator: Estimator, deployment: Deployment, question: Question, chunk_tokens: int | None) -> Answer:
    """The answer for a prompt: of one call, or the sum over its chunks, each over the KVCache of those before it."""
    starts = range(0, question.tokens, chunk_tokens or question.tokens)
    ends = [*starts[1:], question.tokens]
    parts = []
    for start, end in zip(starts, ends, strict=True):
        part = estimator.ask(deployment, dataclasses.replace(question, tokens=end, cached_tokens=start))
        if not (math.isfinite(part.latency_ms) and part.latency_ms > 0):
            return part  # What is wrong with a chunk is wrong with the prompt.
        parts.append(part)
    origin_ms: dict[str, float] = {}
    for part in parts:
        for name, part_ms in part.origin_ms.items():
            origin_ms[name] = origin_ms.get(name, 0.0) + part_ms
    told = [part.memory for part in parts if part.memory]
    return dataclasses.replace(
        parts[0],
        latency_ms=math.fsum(part.latency_ms for part in parts),
        fits=all(part.fits for part in parts),
        origin_ms=origin_ms,
        memory=max(told, key=lambda memory: memory.total_bytes) if told else None,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _places(questions: Sequence[Question]) -> str:
    """Where questions are, in few words."""
    if questions[0].figure == "prefill":
        return ", ".join(format_length(question.tokens) for question in questions)
    first = f"batch {questions[0].batch} at {format_length(questions[0].tokens)}"
    return first if len(questions) == 1 else f"{first} and {counted(len(questions) - 1, 'other step')}"


def _raise_unless_it_fits(prefill: Found, deployment: Deployment) -> None:
    """Refuses a model whose shortest prompt does not fit: nothing of it can be served."""
    shortest = next(iter(prefill.items()), None)
    if shortest is None or shortest[1].fits:
        return
    question, answer = shortest
    if answer.memory:
        takes, has = format_gb(answer.memory.total_bytes), f", {format_gb(answer.memory.capacity_bytes)}"
    else:
        takes, has = "more", ""
    message = (
        f"{printable(deployment.model)} on {deployment.gpus} x {deployment.system}: with a prompt of "
        f"{format_length(question.tokens)} takes {takes} of each GPU, expected at most what it has{has}"
    )
    fix = "name a --system with more memory, more --gpus, or a model in a smaller number format"
    raise InputError(Problem("does-not-fit", "--system", message, fix))


def _those_that_fit(prefill: Found, estimates: Estimates) -> Found:
    """Prompts that fit in chunks; the KVCache of others is too large itself."""
    unfit = [question for question, answer in prefill.items() if not answer.fits]
    if unfit:
        estimates.left_out.append(LeftOut(_places(unfit), "prefill", "does not fit in memory, even in chunks"))
    return {question: answer for question, answer in prefill.items() if answer.fits}


def _too_few(estimates: Estimates, prefill: Found, deployment: Deployment, estimator: Estimator) -> list[Problem]:
    others = ", ".join(each for each in estimator.backends if each != deployment.backend)
    fix = f"try --backend {others}, another --moe-tp, or --database-mode hybrid, which fills gaps by formulas"
    what = f"{printable(deployment.model)} on {deployment.gpus} x {deployment.system} with {deployment.backend}"
    problems = [
        Problem("no-prefill", what, f"gives no prefill latency at {each.where}: {each.reason}", fix)
        for each in estimates.left_out
        if each.figure == "prefill"
    ]
    if prefill or not problems:
        message = f"prefill latency is known at {counted(len(prefill), 'length')}, expected two or more"
        problems.append(Problem("too-short", "--length", message, "name another length as well"))
    return problems


def _unfit(prefill: Found) -> list[str]:
    lengths = [format_length(question.tokens) for question, answer in prefill.items() if not answer.fits]
    if not lengths:
        return []
    return [
        f"prompts of {', '.join(lengths)} do not fit in memory when prefilled so; their latency is taken all the same "
        "(--chunk 8K is prefill in chunks)"
    ]


def _without_outliers(decode: Found, estimates: Estimates) -> Found:
    """The steps that take no longer than two of half the batch, one after the other: no engine is slower than that."""
    kept: Found = {}
    outliers = []
    for question in sorted(decode, key=lambda q: q.batch):
        half = kept.get(dataclasses.replace(question, batch=question.batch // 2))
        if half and decode[question].latency_ms > 2 * (1 + NOISE_SHARE) * half.latency_ms:
            outliers.append(question)
        else:
            kept[question] = decode[question]
    if outliers:
        reason = "takes longer than two steps of half the batch: an error in the data"
        estimates.left_out.append(LeftOut(_places(outliers), "decode", reason))
    return kept


def _full_table(decode: Found, estimates: Estimates) -> Found:
    """The steps of a full table of batches and contexts: while one is missing, its batch or context goes, whole.

    The one with the most gaps goes first, of equal ones the largest batch: a plan needs contexts more than batches.
    """
    batches = sorted({question.batch for question in decode})
    contexts = sorted({question.tokens for question in decode})
    while True:
        gaps = [(b, c) for b in batches for c in contexts if Question("decode", c, b) not in decode]
        if not gaps:
            break
        most_batch = max(batches, key=lambda batch: (sum(b == batch for b, _ in gaps), batch))
        most_context = max(contexts, key=lambda context: (sum(c == context for _, c in gaps), context))
        if sum(b == most_batch for b, _ in gaps) * len(batches) >= sum(c == most_context for _, c in gaps) * len(
            contexts
        ):
            batches.remove(most_batch)
        else:
            contexts.remove(most_context)
    kept = {q: answer for q, answer in decode.items() if q.batch in batches and q.tokens in contexts}
    dropped = [question for question in decode if question not in kept]
    if dropped:
        reason = "others of its batch or context are left out, and a table needs them all"
        estimates.left_out.append(LeftOut(_places(dropped), "decode", reason))
    return kept


def _lifted(steps_s: dict[Question, float]) -> tuple[dict[Question, float], float]:
    """Steps that never fall with batch or context where they fell by noise, and by what share they were lifted at most.

    Measurements of one thing differ by that much. A larger fall stays as it is: readers of the file are told of it.
    """
    lifted, most = dict(steps_s), 0.0
    for question in sorted(steps_s, key=lambda q: (q.batch, q.tokens)):
        least = max(lifted[q] for q in lifted if q.batch <= question.batch and q.tokens <= question.tokens)
        share = least / steps_s[question] - 1
        if 0 < share <= NOISE_SHARE:
            lifted[question], most = least, max(most, share)
    return lifted, most


def _note_origin(figure: str, found: Found, estimator: Estimator, deployment: Deployment, estimates: Estimates) -> None:
    """Writes where a figure comes from: tool, engine, split, formats, and how much of it is measured."""
    shares = [_shares(answer.origin_ms) for answer in found.values()]
    names = sorted({name for share in shares for name in share})
    estimates.origin_shares[figure] = {
        name: round(sum(share.get(name, 0.0) for share in shares) / len(shares), 4) for name in names
    }
    first = next(iter(found.values()))
    estimates.formats[figure] = dict(first.formats)
    measured = [share.get(MEASURED, 0.0) for share in shares if share]
    told = (
        f", {format_share(min(measured))} to {format_share(max(measured))} of the time from tables of measurements"
        if measured
        else ""
    )
    formats = ", ".join(f"{part} {name}" for part, name in first.formats.items())
    split = parallel(deployment, EXPERTS in first.formats) + (f" ({formats})" if formats else "")
    estimates.provenance[figure] = (
        f"derived, {estimator.name} {estimator.version} for {first.engine} on {deployment.system}, {split}, "
        f"{deployment.database_mode} database{told}"
    )


def parallel(deployment: Deployment, has_experts: bool) -> str:
    """How the instance splits the model.

    >>> parallel(Deployment("m", "h200_sxm", "sglang", 8, 2, "bf16", "silicon"), has_experts=True)
    'tp 8, experts tp 2 ep 4'
    """
    experts = f", experts tp {deployment.expert_tensor_parallel} ep {deployment.expert_parallel}"
    return f"tp {deployment.gpus}{experts if has_experts else ''}"


def _shares(origin_ms: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(origin_ms.values())
    return {name: part / total for name, part in origin_ms.items()} if 0 < total < math.inf else {}


def _largest_memory(found: Found) -> GpuMemory | None:
    told = [answer.memory for answer in found.values() if answer.memory]
    return max(told, key=lambda memory: memory.engine_bytes) if told else None


def _seconds(answer: Answer) -> float:
    return float(f"{answer.latency_ms * TIME_SUFFIXES['ms']:.{_DIGITS}g}")
