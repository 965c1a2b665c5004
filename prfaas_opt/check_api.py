"""The public Python API of checking a model: whether its figures can be those of a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from prfaas_opt.derive_api import KV_DTYPES, STATE_DTYPES, KvDerivation, derive_kv
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.fitting.architecture import CacheParts, OtherTypes, explanations
from prfaas_opt.fitting.plausibility import (
    CachedMiss,
    Miss,
    above_convex,
    below,
    cheaper_with_prefix,
    dearer_with_prefix,
    falls,
    off,
    stated_lengths,
)
from prfaas_opt.io.curve_fields import KV_CACHE
from prfaas_opt.io.loading import find, load_model
from prfaas_opt.io.spec import Context
from prfaas_opt.io.yaml_file import read_document
from prfaas_opt.profiles.accelerators import ACCELERATORS, accelerator, least_prefill_s, least_reading_s
from prfaas_opt.profiles.curve import Curve
from prfaas_opt.units import format_tokens

if TYPE_CHECKING:
    from prfaas_opt.io.document import Document
    from prfaas_opt.profiles.accelerators import Accelerator
    from prfaas_opt.profiles.model import Profile

NOISE_SHARE = 0.05
"""What measurements of one thing differ by, unless said otherwise."""

Status = Literal["holds", "fails", "not checked"]


class CheckRow(Struct, frozen=True):
    """A check of a profile."""

    hardware: str
    check: str
    status: Status
    why: Annotated[str, Meta(description="why it was not checked, or what it was checked against; may be empty")]


class Finding(Struct, frozen=True):
    """A figure that fails a check."""

    hardware: str
    check: str
    length_tokens: Annotated[
        float, Meta(gt=0, description="tokens; of a decode step the mean context, 1 where the step is by batch alone")
    ]
    found: float
    expected: Annotated[float, Meta(description="the limit on what was found")]
    relation: Literal["at least", "at most", "about"]
    unit: Literal["s", "bytes"]
    fix: str
    cached_tokens: Annotated[float, Meta(ge=0, description="of the length, found in a prefix cache")] = 0.0
    batch: Annotated[int | None, Meta(description="of a decode step; null for prefill and sizes")] = None


class ModelCheck(Struct, frozen=True):
    """A model's checks, one a profile and kind, and what fails."""

    model: str
    file: str
    noise_share: Annotated[float, Meta(ge=0, lt=1)]
    checks: tuple[CheckRow, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether no check fails."""
        return not self.findings


def check_model(
    model: str,
    noise_share: float = NOISE_SHARE,
    kv_from: str | None = None,
    kv_dtype: str = "bf16",
    state_dtype: str | None = None,
) -> ModelCheck:
    """Checks a model's figures against each other, against what hardware can do, and against an architecture.

    Args:
        model: a name or path.
        noise_share: by how much a measurement may be off.
        kv_from: the model's ``config.json``, which the KVCache sizes must follow; None checks no such thing.
        kv_dtype: data type of keys and values that the sizes are of, ``bf16`` or ``fp8``.
        state_dtype: data type of recurrent states, ``fp32`` or ``bf16``; None takes what the config states, or fp32.

    Raises:
        InputError: there is no such model, its file or the config is wrong, or an option; all at once.

    >>> check_model("internal-1t").holds
    True
    """
    where, problems = "models check", []
    if not 0 <= noise_share < 1:
        message = f"found {noise_share:g}, expected a share from 0 to below 1"
        problems.append(Problem("out-of-range", "--noise", message, "write 0.05 for 5 %"))
    loaded, derived = None, None
    try:
        derived = None if kv_from is None else derive_kv(kv_from, kv_dtype, state_dtype)
    except InputError as error:
        problems += error.problems
    try:
        loaded = load_model(model, where)
    except InputError as error:
        problems += error.problems
    if problems or loaded is None:
        raise InputError(problems)
    path = find("models", model, where)
    document = read_document(path, "model")
    checks: list[CheckRow] = []
    findings: list[Finding] = []
    for index, profile in enumerate(loaded.profiles):
        checker = _Checker(profile, noise_share, document, index)
        answers = [
            checker.rises(),
            checker.convex(),
            checker.occupancy(),
            *checker.cached(),
            checker.size(),
            checker.layers(),
            *([checker.architecture(derived)] if derived is not None else []),
            checker.peak(),
            *checker.decode_peak(),
        ]
        for row, found in answers:
            checks.append(row)
            findings += found
    return ModelCheck(loaded.name, str(path), noise_share, tuple(checks), tuple(findings), loaded.warnings)


Answer = tuple[CheckRow, list[Finding]]


class _Checker:
    """The checks of one profile."""

    def __init__(self, profile: Profile, noise_share: float, document: Document, index: int) -> None:
        self._profile, self._noise, self._document, self._index = profile, noise_share, document, index

    def rises(self) -> Answer:
        """The latency never falls as prompts grow."""
        misses = falls(self._profile.prefill_s, self._noise)
        return self._answer("latency rises", misses, "at least", "s", "measure this length and the shorter ones again")

    def convex(self) -> Answer:
        """The latency grows ever faster."""
        curve = self._profile.prefill_s
        points = [(length, curve(length)) for length in stated_lengths(curve)]
        fix = "measure this length and its neighbours again"
        return self._answer("latency is convex", above_convex(points, self._noise), "at most", "s", fix)

    def occupancy(self) -> Answer:
        """A prompt takes an instance no longer than it waits."""
        stated, latency = self._profile.stated_occupancy_s, self._profile.prefill_s
        if stated is None:
            return self._not_checked("occupancy within latency", "no occupancy is stated: it is the latency")
        misses = below(latency, stated)
        turned = [Miss(length, occupied, waited) for length, waited, occupied in misses]
        return self._answer("occupancy within latency", turned, "at most", "s", "check both columns")

    def cached(self) -> list[Answer]:
        """A cached prefix saves time, and attention over it is still paid for; nothing where a rule says so."""
        saves, pays = "cached prefix saves time", "cached prefix is attended to"
        table, prefill_s = self._profile.cached_prefill_s, self._profile.prefill_s
        if table is None:
            return []
        return [
            self._cached_answer(
                saves,
                dearer_with_prefix(table, prefill_s, self._noise),
                "at most",
                "measure this length again with more and with less of it cached",
            ),
            self._cached_answer(
                pays,
                cheaper_with_prefix(table, prefill_s, self._noise),
                "at least",
                "check that only the prefix was cached, and measure its uncached tokens alone again",
            ),
        ]

    def size(self) -> Answer:
        """The KVCache never shrinks."""
        misses = falls(self._profile.kv_bytes, 0.0)
        return self._answer("KVCache grows", misses, "at least", "bytes", "check this size and the shorter ones")

    def layers(self) -> Answer:
        """The profile's own sizes are those of the model's layers."""
        check, data = "KVCache fits the layers", self._document.data
        shared, own = data.get("kv_cache"), data["profiles"][self._index].get("kv_cache")
        if not isinstance(shared, dict) or "layers" not in shared:
            if isinstance(own, dict) and "layers" in own:
                return self._not_checked(check, "the sizes follow from the layers")
            return self._not_checked(check, "the model file states no layers")
        if own is None:
            return self._not_checked(check, "the sizes follow from the layers")
        reference = KV_CACHE.read(Context(self._document), shared, ("kv_cache",))
        assert isinstance(reference, Curve)
        misses = off(self._profile.kv_bytes, reference, max(self._noise, 1e-9), reference.upper)
        fix = "check the sizes, their unit, and element_bytes of the layers"
        return self._answer(check, misses, "about", "bytes", fix)

    def architecture(self, derived: KvDerivation) -> Answer:
        """The sizes are those of the layers of a ``config.json``."""
        parts = CacheParts(
            derived.growing_bytes_per_token,
            tuple((w.window_tokens, w.bytes_per_token) for w in derived.windows),
            derived.state_bytes,
            derived.convolution_bytes,
        )
        curve, noise = self._profile.kv_bytes, max(self._noise, 1e-9)
        kv, state = derived.kv_dtype, derived.state_dtype
        other_kv, other_state = ("fp8", "bf16")[kv == "fp8"], ("bf16", "fp32")[state == "bf16"]
        other = OtherTypes(
            other_kv, KV_DTYPES[other_kv] / KV_DTYPES[kv], other_state, STATE_DTYPES[other_state] / STATE_DTYPES[state]
        )
        misses = off(curve, parts, noise)
        fix = "check the sizes, their unit, and whether the config is this model's"
        if misses:
            slips = explanations([(x, curve(x)) for x in stated_lengths(curve)], parts, other, noise)
            if slips:
                fix = f"they would fit {', or '.join(slips)}; state the whole model's sizes, as you serve it"
        states = f", states in {state}" if derived.fixed_bytes else ""
        why = f"{derived.architecture}, keys and values in {kv}{states}"
        return self._answer("KVCache fits the config", misses, "about", "bytes", fix, why)

    def peak(self) -> Answer:
        """No prompt is faster than the hardware's peak allows."""
        check, profile = "within the hardware's peak", self._profile
        found = self._peak()
        if isinstance(found, str):
            return self._not_checked(check, found)
        peak, active = found
        gpus = profile.gpus_per_instance
        reading = least_reading_s(gpus, peak, active)
        computing: Callable[[float], float] = lambda length: least_prefill_s(gpus, peak, active, length)  # noqa: E731
        misses = below(profile.prefill_s, lambda length: max(computing(length), reading))
        if not misses and profile.stated_occupancy_s is not None:
            misses = below(profile.stated_occupancy_s, computing)
        why = f"{gpus} x {profile.hardware}, dense {peak.format}"
        return self._answer(check, misses, "at least", "s", "check the unit, gpus_per_instance, active_parameters", why)

    def decode_peak(self) -> list[Answer]:
        """No decode step is faster than the hardware's peak allows; nothing where no step is stated."""
        check, profile, found = "decode within the peak", self._profile, self._peak()
        decode = profile.decode
        if decode is None:
            return []
        if isinstance(found, str):
            return [self._not_checked(check, found)]
        peak, active = found
        gpus, fix = profile.gpus_per_instance, "check the unit, gpus_per_instance, active_parameters"
        reading = least_reading_s(gpus, peak, active)
        findings = []
        for context in decode.contexts_tokens or (1.0,):
            steps = decode.at(context)
            for batch in decode.batches:
                at, step_s = max(context, 1.0), steps.step_s(batch)
                floor_s = max(reading, least_prefill_s(gpus, peak, active, batch))
                if step_s < floor_s * (1.0 - 1e-12):
                    findings.append(
                        Finding(profile.hardware, check, at, step_s, floor_s, "at least", "s", fix, batch=batch)
                    )
        batches = ", ".join(f"{batch:,}" for batch in sorted({finding.batch or 0 for finding in findings}))
        why = f"at batch {batches}" if findings else f"{gpus} x {profile.hardware}"
        return [(CheckRow(profile.hardware, check, "fails" if findings else "holds", why), findings)]

    def _peak(self) -> tuple[Accelerator, float] | str:
        """The accelerator and the active parameters; or why that is not known."""
        active = self._document.data.get("active_parameters")
        peak = accelerator(self._profile.hardware)
        if active is None:
            return "the model file states no active_parameters"
        if peak is None:
            return f"the peak of {self._profile.hardware} is not known; known: {', '.join(ACCELERATORS)}"
        return peak, float(active)

    def _not_checked(self, check: str, why: str) -> Answer:
        return CheckRow(self._profile.hardware, check, "not checked", why), []

    def _cached_answer(
        self, check: str, misses: Sequence[CachedMiss], relation: Literal["at least", "at most"], fix: str
    ) -> Answer:
        hardware = self._profile.hardware
        findings = [
            Finding(
                hardware,
                check,
                miss.cached_tokens + miss.uncached_tokens,
                miss.found,
                miss.limit,
                relation,
                "s",
                fix,
                miss.cached_tokens,
            )
            for miss in misses
        ]
        why = ", ".join(f"{format_tokens(m.cached_tokens)} + {format_tokens(m.uncached_tokens)}" for m in misses)
        return CheckRow(hardware, check, "fails" if findings else "holds", f"at {why}" if why else ""), findings

    def _answer(
        self,
        check: str,
        misses: Sequence[Miss],
        relation: Literal["at least", "at most", "about"],
        unit: Literal["s", "bytes"],
        fix: str,
        why: str = "",
    ) -> Answer:
        hardware = self._profile.hardware
        findings = [
            Finding(hardware, check, miss.length_tokens, miss.found, miss.limit, relation, unit, fix) for miss in misses
        ]
        if findings:
            why = "at " + ", ".join(format_tokens(miss.length_tokens) for miss in misses)
        return CheckRow(hardware, check, "fails" if findings else "holds", why), findings
