"""The public Python API of scaling a profile to hardware that nobody measured, by the peaks of both."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.catalog import shipped_folder
from prfaas_opt.io.files import write_text
from prfaas_opt.io.loading import find, load_model, model_of
from prfaas_opt.io.measured_profile import yaml_text
from prfaas_opt.io.scaled_figures import data_lengths, decode_mapping, fixed_s, prefill_mapping, scaled_latency
from prfaas_opt.io.wording import shown, suggestion
from prfaas_opt.io.yaml_file import parse_document, read_document
from prfaas_opt.profiles.accelerators import (
    ACCELERATORS,
    LEAST_BYTES_PER_PARAMETER,
    Accelerator,
    accelerator,
    accelerator_name,
)
from prfaas_opt.profiles.memory import InstanceMemory
from prfaas_opt.units import format_gb

if TYPE_CHECKING:
    from prfaas_opt.profiles.curve import Curve
    from prfaas_opt.profiles.decode import DecodeProfile
    from prfaas_opt.profiles.model import Model, Profile

FORMATS = ("fp8", "fp16", "fp4")
"""Number formats that prefill may be scaled by; the first that both have, unless said otherwise."""

Seconds = Annotated[float, Meta(ge=0, description="seconds")]
Factor = Annotated[float, Meta(gt=0, description="the new time over the old")]


class ScaledLatency(Struct, frozen=True):
    """Prefill latency at a length, on both hardwares."""

    length_tokens: Annotated[float, Meta(gt=0, description="tokens")]
    from_s: Seconds
    scaled_s: Seconds
    least_s: Annotated[float | None, Meta(description="by the range of the back-tests; null without any")]
    most_s: Annotated[float | None, Meta(description="by the range of the back-tests; null without any")]


class ScaledStep(Struct, frozen=True):
    """A decode step, on both hardwares."""

    batch: Annotated[int, Meta(ge=1)]
    context_tokens: Annotated[float | None, Meta(description="mean context; null where the step is by batch alone")]
    from_s: Seconds
    scaled_s: Seconds


class BackTest(Struct, frozen=True):
    """A figure that a model states on two hardwares, and what scaling from one gives for the other."""

    model: str
    figure: Literal["prefill", "decode"]
    from_hardware: str
    from_provenance: str
    to_hardware: str
    to_provenance: str
    at: Annotated[float, Meta(gt=0, description="tokens of the prompt, or requests in the batch")]
    scaled_s: Seconds
    stated_s: Seconds
    off_by_share: Annotated[float, Meta(description="the scaled over the stated, less 1")]


class StatedOverScaled(Struct, frozen=True):
    """Over back-tests, what was stated as a multiple of what scaling gave."""

    least: float
    most: float
    of: Annotated[
        Literal["this pair", "all pairs"],
        Meta(description="the back-tests: from the one accelerator to the other, or where there are none, all"),
    ]


class Scaling(Struct, frozen=True):
    """A profile on hardware that nobody measured, and how far such profiles were off where both are known."""

    model: str
    from_hardware: str
    to_hardware: str
    gpus_per_instance: Annotated[int, Meta(ge=1, description="of both")]
    number_format: str
    compute_ratio: Factor
    bandwidth_ratio: Annotated[float | None, Meta(description="the new time over the old; null without decode")]
    fixed_s: Annotated[float, Meta(ge=0, description="of the prefill latency, kept as it is, seconds")]
    prefill: tuple[ScaledLatency, ...]
    decode: tuple[ScaledStep, ...]
    prefill_uncertainty: Annotated[StatedOverScaled | None, Meta(description="null without a back-test")]
    decode_uncertainty: Annotated[StatedOverScaled | None, Meta(description="null without a back-test")]
    back_tests: tuple[BackTest, ...]
    sources: Annotated[dict[str, str], Meta(description="where the peaks of each accelerator were read")]
    provenance: dict[str, str]
    profile_yaml: Annotated[str, Meta(description="the profile as it stands in a model file")]
    file: Annotated[str | None, Meta(description="the model with the profile; null where none was written")]
    warnings: tuple[str, ...]


def scale_model(
    model: str,
    from_hardware: str,
    to_hardware: str,
    number_format: str | None = None,
    prefill_only: bool = False,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Scaling:
    """Scales a model's profile on one hardware to another, GPU by GPU, by the peaks of both.

    Prefill latency above its fixed cost goes by the dense peak rate, decode steps by memory bandwidth, and the KVCache
    stays. Both are assumed; ``back_tests`` say how far the same rule is off where a model has both.

    Args:
        model: a name or path.
        from_hardware: of the profile that is scaled.
        to_hardware: what to scale it to: the name of the new profile, of an accelerator in ``ACCELERATORS``.
        number_format: one of ``FORMATS``; the first that both multiply by default.
        prefill_only: leaves decode out.
        output: where to write the model with the new profile; nowhere by default.
        force: whether a file that is there is replaced.

    Raises:
        InputError: the profile cannot be scaled, or the file not written.

    >>> scaled = scale_model("internal-1t", "H200", "B200")
    >>> round(scaled.compute_ratio, 3), round(scaled.bandwidth_ratio, 3)
    (0.44, 0.6)
    """
    where = "models scale"
    loaded, path = load_model(model, where), find("models", model, where)
    profile, source, target = _both(loaded, from_hardware, to_hardware)
    name = _format(source, target, profile.hardware, to_hardware, number_format)
    _check_scalable(profile, source, target, to_hardware, prefill_only)
    decode = None if prefill_only else profile.decode
    document = read_document(path, "model")
    raw = document.data["profiles"][loaded.profiles.index(profile)]
    memory, room = _memory(profile, source, target, to_hardware, document.data.get("active_parameters"))

    compute = source.rates_per_s[name] / target.rates_per_s[name]
    fixed = fixed_s(profile.prefill_s)
    tests = tuple(_back_tests(loaded, path))
    prefill_range, decode_range = (_range(tests, kind, source, target) for kind in ("prefill", "decode"))
    bandwidth = _bandwidth_ratio(source, target) if decode is not None else None
    provenance = {
        "prefill": f"assumed, {profile.hardware} ({profile.provenance['prefill']}) times {compute:.3g} above a fixed "
        f"{fixed:.3g} s, the ratio of peak {name} rates; {_in_words(prefill_range, profile.hardware, to_hardware)}"
    }
    new: dict[str, Any] = {
        "hardware": to_hardware.strip(),
        "gpus_per_instance": profile.gpus_per_instance,
        "prefill": prefill_mapping(profile.prefill_s, raw["prefill"], fixed, compute),
    }
    if raw.get("kv_cache") is not None:
        new["kv_cache"] = raw["kv_cache"]
        provenance["kv_cache"] = str(raw["provenance"]["kv_cache"])
    if decode is not None and bandwidth is not None:
        new["decode"] = decode_mapping(decode, bandwidth)
        provenance["decode"] = (
            f"assumed, {profile.hardware} ({profile.provenance['decode']}) times {bandwidth:.3g}, the ratio of memory "
            f"bandwidths; {_in_words(decode_range, profile.hardware, to_hardware)}"
        )
    if memory is not None:
        new["memory"] = {"usable_bytes": round(memory.usable_bytes), "weights_bytes": round(memory.weights_bytes)}
        provenance["memory"] = f"assumed, {profile.hardware} by the memory sizes of both; the weights as they are"
    new["provenance"] = provenance
    text = yaml_text({**document.data, "profiles": [*document.data["profiles"], new]})
    file = None if output is None else Path(output)
    _check_text(text, str(file or path), file.parent if file else path.parent)
    if file is not None:
        write_text(file, text, replace=force)
    return Scaling(
        loaded.name,
        profile.hardware,
        to_hardware.strip(),
        profile.gpus_per_instance,
        name,
        compute,
        bandwidth,
        fixed,
        tuple(_scaled_rows(profile.prefill_s, fixed, compute, prefill_range)),
        tuple(_scaled_steps(decode, bandwidth)),
        prefill_range,
        decode_range if decode is not None else None,
        tests,
        {accelerator_name(h) or h: a.source for h, a in ((profile.hardware, source), (to_hardware, target))},
        provenance,
        yaml_text({"profiles": [new]}),
        None if file is None else str(file),
        tuple(_warnings(profile, to_hardware, source, target, name, decode, room)),
    )


def _both(model: Model, from_hardware: str, to_hardware: str) -> tuple[Profile, Accelerator, Accelerator]:
    """The profile that is scaled and both accelerators; all that is wrong with the names at once."""
    problems = []
    profile = model.profile(from_hardware)
    if profile is None:
        message = f"found {shown(from_hardware)}, expected hardware that {model.name} has a profile for"
        problems.append(Problem("unknown-hardware", "--from", message, suggestion(from_hardware, model.hardware)))
    if model.profile(to_hardware.strip()) is not None:
        message = f"{model.name} has a profile for {to_hardware.strip()} already, expected hardware without one"
        problems.append(Problem("duplicate-key", "--to", message, "plan with the profile that is there"))
    peaks = [accelerator(from_hardware), accelerator(to_hardware)]
    for option, hardware, peak in zip(("--from", "--to"), (from_hardware, to_hardware), peaks, strict=True):
        if peak is None:
            message = f"found {shown(hardware)}, expected an accelerator whose peaks are known"
            problems.append(Problem("unknown-hardware", option, message, suggestion(hardware, ACCELERATORS)))
    if not problems and peaks[0] is peaks[1]:
        message = f"{to_hardware} is the accelerator of {from_hardware}, expected another one"
        problems.append(Problem("duplicate-key", "--to", message, "plan with the profile that is there"))
    if problems:
        raise InputError(problems)
    source, target = peaks
    assert profile is not None
    assert source is not None
    assert target is not None
    return profile, source, target


def _common(source: Accelerator, target: Accelerator) -> list[str]:
    return [name for name in FORMATS if name in source.rates_per_s and name in target.rates_per_s]


def _format(source: Accelerator, target: Accelerator, from_name: str, to_name: str, wanted: str | None) -> str:
    """The number format that prefill is scaled by."""
    common = _common(source, target)
    if not common:
        rates = [", ".join(f for f in FORMATS if f in each.rates_per_s) or "none" for each in (source, target)]
        message = (
            f"no number format has a known rate on both: {from_name} has {rates[0]}, {to_name} {rates[1]}; expected one"
        )
        fix = "scale from a profile on hardware whose rate in that format is known"
        raise InputError(Problem("not-supported", "--to", message, fix))
    if wanted is not None and wanted not in common:
        message = f"found {shown(wanted)}, expected a number format that both {from_name} and {to_name} have a rate for"
        raise InputError(Problem("not-supported", "--format", message, suggestion(wanted, common)))
    return wanted or common[0]


def _check_scalable(
    profile: Profile, source: Accelerator, target: Accelerator, to_name: str, prefill_only: bool
) -> None:
    problems = []
    if profile.provenance["prefill"].kind == "assumed":
        message = f"its prefill is {profile.provenance['prefill']}; expected measured, paper, fitted or derived figures"
        fix = "scale from the profile that this one was made from"
        problems.append(Problem("not-supported", "--from", message, fix))
    if not prefill_only:
        fix = "add --prefill-only to leave decode out"
        if profile.decode is None:
            message = f"the profile on {profile.hardware} has no decode to scale, expected decode steps"
            problems.append(Problem("no-decode", "--from", message, fix))
        for option, name, peak in (("--from", profile.hardware, source), ("--to", to_name, target)):
            if peak.memory_bytes_per_s is None:
                message = f"the memory bandwidth of {name} is not public, expected one to scale decode by"
                problems.append(Problem("not-supported", option, message, fix))
    if problems:
        raise InputError(problems)


def _memory(
    profile: Profile, source: Accelerator, target: Accelerator, to_name: str, active: Any
) -> tuple[InstanceMemory | None, float]:
    """Memory of the new instance, where the old one's is stated, and what the accelerators have in all.

    Raises:
        InputError: the model, or the cache of one prompt, does not fit.
    """
    room = profile.gpus_per_instance * target.memory_bytes
    longest = profile.kv_bytes(min(profile.kv_bytes.upper, profile.prefill_s.upper))
    weights = LEAST_BYTES_PER_PARAMETER * float(active) if isinstance(active, int | float) else 0.0
    memory = None
    if profile.memory is not None:
        weights = profile.memory.weights_bytes
        memory = InstanceMemory(profile.memory.usable_bytes * target.memory_bytes / source.memory_bytes, weights)
    if weights + longest > (memory.usable_bytes if memory else room):
        has = f"may use {format_gb(memory.usable_bytes)}" if memory else f"have {format_gb(room)}"
        message = (
            f"{profile.gpus_per_instance} x {to_name} {has}, expected room for {'the weights and ' if weights else ''}"
            f"the KVCache of the longest prompt, {format_gb(weights + longest)}"
        )
        fix = "scale from a profile of an instance with more GPUs, or to hardware with more memory"
        raise InputError(Problem("too-small", "--to", message, fix))
    return memory, room


def _scaled_rows(
    curve: Curve, fixed: float, ratio: float, uncertainty: StatedOverScaled | None
) -> Iterator[ScaledLatency]:
    scaled = scaled_latency(curve, fixed, ratio)
    for length in data_lengths(curve):
        value = scaled(length)
        ends = (None, None) if uncertainty is None else (value * uncertainty.least, value * uncertainty.most)
        yield ScaledLatency(length, curve(length), value, *ends)


def _scaled_steps(decode: DecodeProfile | None, ratio: float | None) -> Iterator[ScaledStep]:
    if decode is None or ratio is None:
        return
    contexts: Sequence[float | None] = decode.contexts_tokens or (None,)
    columns = decode.columns_s or (decode.steps_s,)
    for i, batch in enumerate(decode.batches):
        for context, column in zip(contexts, columns, strict=True):
            yield ScaledStep(batch, context, column[i], column[i] * ratio)


def _bandwidth_ratio(source: Accelerator, target: Accelerator) -> float | None:
    if source.memory_bytes_per_s is None or target.memory_bytes_per_s is None:
        return None
    return source.memory_bytes_per_s / target.memory_bytes_per_s


def _back_tests(model: Model, path: Path) -> Iterator[BackTest]:
    """Every pair of profiles, of the shipped models and of this one, that do not rest on each other."""
    shipped = sorted(shipped_folder("models").glob("*.yaml"))
    models = [load_model(str(each), "models scale") for each in shipped if each.resolve() != path.resolve()]
    for each in (model, *models):
        for one, other in itertools.permutations(each.profiles, 2):
            source, target = accelerator(one.hardware), accelerator(other.hardware)
            if source is None or target is None or source is target:
                continue
            if one.gpus_per_instance == other.gpus_per_instance:
                yield from _prefill_tests(each.name, one, other, source, target)
                yield from _decode_tests(each.name, one, other, source, target)


def _independent(one: Profile, other: Profile, figure: str) -> bool:
    return all(figure in each.provenance and each.provenance[figure].kind != "assumed" for each in (one, other))


def _prefill_tests(
    name: str, one: Profile, other: Profile, source: Accelerator, target: Accelerator
) -> Iterator[BackTest]:
    common = _common(source, target)
    if not common or not _independent(one, other, "prefill"):
        return
    curves = one.prefill_s, other.prefill_s
    ratio = source.rates_per_s[common[0]] / target.rates_per_s[common[0]]
    scaled = scaled_latency(curves[0], fixed_s(curves[0]), ratio)
    low = max(max(curve.measured_low_tokens, 1.0) for curve in curves)
    high = min(curve.measured_high_tokens for curve in curves)
    for length in sorted({length for curve in curves for length in data_lengths(curve) if low <= length <= high}):
        yield _test(name, "prefill", one, other, length, scaled(length), curves[1](length))


def _decode_tests(
    name: str, one: Profile, other: Profile, source: Accelerator, target: Accelerator
) -> Iterator[BackTest]:
    """At the batches of both, by batch alone or at the contexts of both."""
    ratio = _bandwidth_ratio(source, target)
    a, b = one.decode, other.decode
    if ratio is None or a is None or b is None or not _independent(one, other, "decode"):
        return
    contexts = sorted({*a.contexts_tokens} & {*b.contexts_tokens})
    if not contexts and (a.contexts_tokens or b.contexts_tokens):
        return
    for context in contexts or [0.0]:
        for batch in sorted({*a.batches} & {*b.batches}):
            scaled, stated = a.at(context).step_s(batch) * ratio, b.at(context).step_s(batch)
            yield _test(name, "decode", one, other, batch, scaled, stated)


def _test(
    name: str,
    figure: Literal["prefill", "decode"],
    one: Profile,
    other: Profile,
    at: float,
    scaled: float,
    stated: float,
) -> BackTest:
    kinds = one.provenance[figure].kind, other.provenance[figure].kind
    share = scaled / stated - 1
    return BackTest(name, figure, one.hardware, kinds[0], other.hardware, kinds[1], at, scaled, stated, share)


def _range(tests: Sequence[BackTest], figure: str, source: Accelerator, target: Accelerator) -> StatedOverScaled | None:
    """Of the pair that is scaled, or of all pairs where no model has figures on both."""
    of_figure = [test for test in tests if test.figure == figure]
    of_pair = [test for test in of_figure if _is_of(test, source, target)]
    ratios = [test.stated_s / test.scaled_s for test in of_pair or of_figure]
    return StatedOverScaled(min(ratios), max(ratios), "this pair" if of_pair else "all pairs") if ratios else None


def _is_of(test: BackTest, source: Accelerator, target: Accelerator) -> bool:
    return accelerator(test.from_hardware) is source and accelerator(test.to_hardware) is target


def _in_words(found: StatedOverScaled | None, from_hardware: str, to_hardware: str) -> str:
    if found is None:
        return "no back-test, so its uncertainty is not known"
    pair = f"from {from_hardware} to {to_hardware.strip()}" if found.of == "this pair" else "of other pairs"
    return f"in back-tests {pair} the stated was {found.least:.2f} to {found.most:.2f} times the scaled"


def _check_text(text: str, name: str, folder: Path) -> None:
    """That the file reads as a model; what is wrong with it is said to be of a file that was not written."""
    try:
        model_of(parse_document(text, name, folder))
    except InputError as error:
        problems = [Problem(p.code, p.where, f"{p.message}; so nothing was written", p.fix) for p in error.problems]
        raise InputError(problems) from None


def _warnings(
    profile: Profile,
    to_hardware: str,
    source: Accelerator,
    target: Accelerator,
    name: str,
    decode: DecodeProfile | None,
    room: float,
) -> Iterator[str]:
    labels = {name: f"{name} rate", "memory_bytes": "memory size"}
    if decode is not None:
        labels["memory_bytes_per_s"] = "memory bandwidth"
    for hardware, peak in ((profile.hardware, source), (to_hardware.strip(), target)):
        for figure, words in labels.items():
            if figure in peak.unverified:
                yield f"the {words} of {hardware} is not verified: {peak.unverified[figure]}"
    if decode is not None and profile.provenance["decode"].kind == "assumed":
        yield f"the decode steps on {profile.hardware} are assumed themselves: {profile.provenance['decode'].source}"
    if profile.stated_occupancy_s is not None:
        yield "the occupancy is left out: a prompt then takes the instance for its whole latency"
    if profile.cached_prefill_s is not None:
        yield "prefill_cached is left out: prefill with a cached prefix then follows from prefill by a rule"
    if profile.memory is None:
        yield (
            f"no memory is stated, so none bounds the batch; {profile.gpus_per_instance} x {to_hardware.strip()} have "
            f"{format_gb(room)} for weights and KVCache"
        )
