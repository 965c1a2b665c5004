"""The public Python API of measured profiles: what benchmarks wrote becomes a model file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from prfaas_opt.derive_api import derive_kv
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.benchmark_file import BenchmarkFile, read_benchmark_file
from prfaas_opt.io.benchmark_runs import Findings, unusual_prefill
from prfaas_opt.io.benchmarks import format_of
from prfaas_opt.io.files import write_text
from prfaas_opt.io.loading import find, load_model, model_of
from prfaas_opt.io.measured_profile import (
    DecodeTable,
    LatencyPoint,
    decode_table,
    latency_points,
    prefill_mapping,
    yaml_text,
)
from prfaas_opt.io.wording import counted, printable, shown
from prfaas_opt.io.yaml_file import parse_document, read_document

if TYPE_CHECKING:
    from prfaas_opt.profiles.model import Model

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_NAMED = 3
_ANY_KV_CACHE = {"kv_cache": {"lengths_tokens": [1, 2], "bytes": [1, 1]}, "kv_cache_provenance": "assumed"}

Seconds = Annotated[float, Meta(ge=0, description="seconds")]
Tokens = Annotated[int, Meta(ge=1, description="tokens")]


class ImportedFile(Struct, frozen=True):
    """A file and what it was read as."""

    file: str
    format: str
    version: Annotated[str, Meta(description="of the tool; empty where the file does not tell")]
    models: Annotated[tuple[str, ...], Meta(description="as the file names them")]
    prefill_points: Annotated[int, Meta(ge=0)]
    decode_points: Annotated[int, Meta(ge=0)]


class ImportedLatency(Struct, frozen=True):
    """Prefill latency of a prompt that has the instance for itself."""

    length_tokens: Tokens
    latency_s: Seconds
    runs: Annotated[int, Meta(ge=1, description="measurements, of which it is the median")]


class ImportedStep(Struct, frozen=True):
    """Time of one decode step."""

    batch: Annotated[int, Meta(ge=1)]
    context_tokens: Annotated[int | None, Meta(description="mean context; null where the file does not tell")]
    step_s: Seconds
    runs: Annotated[int, Meta(ge=1, description="measurements, of which it is the median")]


class ImportedFormula(Struct, frozen=True):
    """``base_s + batch * (per_request_s + per_context_token_s * context)``."""

    base_s: Seconds
    per_request_s: Seconds
    per_context_token_s: Seconds
    mean_share: Annotated[float, Meta(ge=0, description="mean distance of the points, as a share of each")]
    worst_share: Annotated[float, Meta(ge=0, description="the largest such distance")]


class ImportLeftOut(Struct, frozen=True):
    """What was not taken, and why."""

    where: str
    figure: Annotated[str, Meta(description="prefill, decode or column")]
    reason: str


class EstimatedBy(Struct, frozen=True):
    """The estimator that was asked, and for what."""

    tool: str
    version: str
    model: Annotated[str, Meta(description="as the tool names it")]
    system: Annotated[str, Meta(description="kind of GPU, as the tool names it")]
    backend: Annotated[str, Meta(description="serving engine, as the tool names it")]
    engine: Annotated[str, Meta(description="serving engine and version that its data are of")]
    database_mode: str
    chunk_tokens: Annotated[int | None, Meta(description="tokens prefilled at a time; null: prompts at once")]
    tensor_parallel: Annotated[int, Meta(ge=1)]
    expert_tensor_parallel: Annotated[int | None, Meta(description="null: the model has no experts")]
    expert_parallel: Annotated[int | None, Meta(description="null: the model has no experts")]
    formats: Annotated[dict[str, dict[str, str]], Meta(description="number formats, by figure and part of the model")]
    origin_shares: Annotated[
        dict[str, dict[str, float]],
        Meta(
            description="by figure, shares of its time by kind of source, the mean over its points; silicon: measured"
        ),
    ]


class Import(Struct, frozen=True):
    """What was taken from benchmarks or an estimator, and the model file it was written to."""

    name: str
    file: str
    hardware: str
    gpus_per_instance: Annotated[int, Meta(ge=1)]
    files: tuple[ImportedFile, ...]
    prefill: tuple[ImportedLatency, ...]
    decode: tuple[ImportedStep, ...]
    decode_form: Literal["by batch", "by batch and context", "fitted"] | None
    decode_formula: Annotated[ImportedFormula | None, Meta(description="null unless decode_form is fitted")]
    left_out: tuple[ImportLeftOut, ...]
    provenance: dict[str, str]
    kv_cache_from: Annotated[str | None, Meta(description="null: the file is not complete without a KVCache size")]
    model_yaml: Annotated[str, Meta(description="the file as text")]
    warnings: tuple[str, ...]
    estimated_by: Annotated[EstimatedBy | None, Meta(description="null: measured, as files say")] = None


def import_measured(
    files: Sequence[str | os.PathLike[str]],
    name: str,
    hardware: str,
    gpus_per_instance: int = 8,
    kv_from: str | None = None,
    kv_dtype: str | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Import:
    """Reads benchmarks, and writes a model file with what they measured.

    Without ``kv_from`` the file lacks the KVCache size, which no benchmark tells, and nothing loads it until that is
    added: ``kv_cache_from`` of the answer is then None, and ``missing_kv_cache`` says so.

    Args:
        files: outputs of benchmarks, all of one model on one kind of instance.
        name: of the model.
        hardware: the accelerator, as scenarios name it.
        gpus_per_instance: GPUs that the measured instance took.
        kv_from: the KVCache size: a config.json, or the name or path of a model that has it.
        kv_dtype: of keys and values, ``bf16`` unless given; for a config.json only.
        output: the file to write; ``models/NAME.yaml`` by default.
        force: whether a file that is there is replaced.

    Raises:
        InputError: a file or an argument is wrong, or no prefill latency is left; all at once, and nothing is written.
    """
    path = Path(output) if output is not None else Path("models", f"{name}.yaml")
    problems = wrong_target(name, hardware, gpus_per_instance, path, force) + _wrong_files(files)
    read = []
    for file in files:
        try:
            read.append(_read(Path(file)))
        except InputError as error:
            problems += error.problems
    problems += _wrong_together([findings for _, findings in read], gpus_per_instance)
    kv: dict[str, Any] = {}
    warnings: list[str] = []
    try:
        kv = kv_cache_fields(kv_from, kv_dtype, hardware, warnings)
    except InputError as error:
        problems += error.problems
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return _imported(read, name, hardware, gpus_per_instance, kv_from, kv, path, force, warnings)


def missing_kv_cache(answer: Import) -> Problem:
    """What an answer without a KVCache size lacks, and how to add it."""
    message = "was written without kv_cache: no benchmark tells the KVCache size, and nothing is planned without it"
    fix = (
        "run it again with --force and --kv-from config.json or --kv-from MODEL; or add kv_cache and "
        "kv_cache_provenance to the file"
    )
    return Problem("missing-key", answer.file, message, fix)


Read = tuple[ImportedFile, Findings]


def wrong_target(name: str, hardware: str, gpus: int, path: Path, force: bool) -> list[Problem]:
    """What is wrong with the model that is to be written, and where to."""
    problems = []
    if not _NAME.fullmatch(name):
        message = f"found {shown(name)}, expected letters, digits, dots, dashes and underscores"
        problems.append(Problem("bad-name", "--as", message, "write it like house-70b"))
    if not hardware.strip() or not hardware.isprintable():
        message = f"found {shown(hardware)}, expected the name of an accelerator"
        problems.append(Problem("bad-name", "--hardware", message, "write it like H200"))
    if gpus < 1:
        message = f"found {gpus}, expected a whole number, 1 or more"
        problems.append(Problem("out-of-range", "--gpus-per-instance", message, "count the GPUs of the instance"))
    if path.exists() and not force:
        problems.append(Problem("file-exists", str(path), "is there already", "name another --output, or add --force"))
    return problems


def _wrong_files(files: Sequence[str | os.PathLike[str]]) -> list[Problem]:
    problems = []
    if not files:
        problems.append(Problem("missing-file", "FILES", "there is none, expected one or more", "name a benchmark"))
    seen: set[Path] = set()
    for file in map(Path, files):
        if file.absolute() in seen:
            message = "is named twice, expected each file once"
            problems.append(Problem("duplicate-key", printable(str(file)), message, "name it once"))
        seen.add(file.absolute())
    return problems


def _read(path: Path) -> Read:
    file = read_benchmark_file(path)
    found = format_of(file)
    findings = Findings()
    found.read(file, findings)
    _raise_problems(file)
    points = len(findings.prefill), len(findings.decode)
    return ImportedFile(file.name, found.name, printable(findings.version), tuple(findings.models), *points), findings


def _raise_problems(file: BenchmarkFile) -> None:
    problems = [problem for context in file.contexts for problem in context.problems]
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


def _wrong_together(read: Sequence[Findings], gpus: int) -> list[Problem]:
    """What is wrong with files that read well: models that differ, GPUs that are not those stated, no prefill."""
    problems = []
    models: dict[str, str] = {}
    for findings in read:
        for model, where in findings.models.items():
            models.setdefault(model, where)
    (first, first_where), *others = list(models.items()) or [("", "")]
    for model, where in others:
        if _model_key(model) == _model_key(first):
            continue
        message = f"is of the model {printable(model)}, expected {printable(first)} as in {first_where}"
        problems.append(
            Problem("mixed-models", where, message, "import each model on its own, with an --as of its own")
        )
    for findings in read:
        for where, found, factor in findings.gpus:
            if gpus >= 1 and not 1 / factor <= found / gpus <= factor:
                message = f"gives {found:.3g} GPUs an instance by its throughput of a GPU, expected {gpus}"
                fix = "say --gpus-per-instance as it was measured; if it was, check the units: times are in ms"
                problems.append(Problem("inconsistent", where, message, fix))
    return problems + (_too_few_lengths(read) if read else [])


def _model_key(name: str) -> str:
    """A name without its folder or owner: tools name one model in several ways."""
    return name.rstrip("/").rpartition("/")[2].casefold()


def _too_few_lengths(read: Sequence[Findings]) -> list[Problem]:
    """That prefill latency is known at less than two lengths, and what else might have told it."""
    lengths = sorted({point.length_tokens for findings in read for point in findings.prefill})
    if len(lengths) >= 2:
        return []
    fix = "measure prompts of equal length one at a time, for example at concurrency 1"
    problems = [
        Problem("no-prefill", each.where, f"gives no prefill latency: {each.reason}", fix)
        for findings in read
        for each in findings.left_out
        if each.figure == "prefill"
    ]
    if lengths:
        message = f"prefill latency is known at {lengths[0]:,} tokens only, expected two lengths or more"
        fix = "measure another length, and name its file as well"
        return [*problems, Problem("too-short", "FILES", message, fix)]
    message = "no prefill latency is left, expected those of two lengths or more"
    return [*problems, Problem("no-prefill", "FILES", message, fix)]


def kv_cache_fields(
    kv_from: str | None,
    kv_dtype: str | None,
    hardware: str,
    warnings: list[str],
    lengths: Sequence[int] | None = None,
) -> dict[str, Any]:
    """``kv_cache`` of a model file with its provenance; empty where none is asked for.

    Args:
        kv_from: a config.json, or the name or path of a model that has it.
        kv_dtype: of keys and values, for a config.json only.
        hardware: whose sizes are taken of a model that states them by hardware.
        warnings: notes are added to it.
        lengths: prompts that a config.json is to be taken for, even beyond what it states as the longest.

    Raises:
        InputError: the source is wrong, or a data type is asked of a model.
    """
    if kv_from is not None and kv_from.endswith(".json"):
        derived = derive_kv(kv_from, kv_dtype or "bf16", None, lengths)
        warnings += derived.warnings
        source = f"derived, from the config.json of {derived.architecture}, keys and values in {derived.kv_dtype}"
        return {"kv_cache": derived.kv_cache, "kv_cache_provenance": source}
    if kv_dtype is not None:
        message = f"found {shown(kv_dtype)}, expected it beside --kv-from config.json only"
        raise InputError(Problem("not-supported", "--kv-dtype", message, "leave it out: a model states its own sizes"))
    if kv_from is None:
        return {}
    load_model(kv_from, "--kv-from")
    data = read_document(find("models", kv_from, "--kv-from"), "model").data
    block, source = data.get("kv_cache"), data.get("kv_cache_provenance")
    if block is None:
        own = [profile for profile in data["profiles"] if profile.get("kv_cache") is not None]
        same = [profile for profile in own if str(profile["hardware"]).casefold() == hardware.casefold()]
        profile = (same or own)[0]
        block, source = profile["kv_cache"], profile["provenance"]["kv_cache"]
        if not same:
            warnings.append(
                f"the KVCache size is that of {kv_from} on {profile['hardware']}: it has none on {hardware}"
            )
    return {"kv_cache": block, "kv_cache_provenance": f"{source}; taken from the model {data.get('name', kv_from)}"}


def _imported(
    read: Sequence[Read],
    name: str,
    hardware: str,
    gpus: int,
    kv_from: str | None,
    kv: dict[str, Any],
    path: Path,
    force: bool,
    warnings: list[str],
) -> Import:
    found = [findings for _, findings in read]
    warnings = [note for findings in found for note in findings.warnings] + warnings
    points = latency_points((point for findings in found for point in findings.prefill), warnings)
    warnings += filter(None, (unusual_prefill(point.length_tokens, point.latency_s) for point in points))
    left_out = [each for findings in found for each in findings.left_out]
    decode = decode_table([point for findings in found for point in findings.decode], warnings, left_out)
    under_load = sorted({batch for findings in found for batch in findings.under_load})
    if under_load:
        warnings.append(
            f"decode at batch {', '.join(map(str, under_load))} was measured while prompts of other requests were "
            "prefilled: a step alone takes less"
        )
    provenance = {"prefill": f"measured, {_source([file for file, f in read if f.prefill])}"}
    if decode is not None:
        source = _source([file for file, f in read if f.decode])
        kind = f"fitted, to {counted(len(decode.points), 'point')} of " if decode.fit else "measured, "
        provenance["decode"] = kind + source
    profile = {"hardware": hardware.strip(), "gpus_per_instance": gpus, "prefill": prefill_mapping(points)}
    if decode is not None:
        profile["decode"] = decode.mapping
    models = _models(read)
    mapping = {
        "name": name,
        "description": f"Measured on {hardware.strip()}" + (f", as {models}" if models else ""),
        "source": "benchmarks, as provenance names them",
    }
    profile["provenance"] = provenance
    text = yaml_text({**mapping, **kv, "profiles": [profile]})
    checked = checked_model(text if kv else yaml_text({**mapping, **_ANY_KV_CACHE, "profiles": [profile]}), str(path))
    write_model(path, text, force)
    return Import(
        name,
        str(path),
        hardware.strip(),
        gpus,
        tuple(file for file, _ in read),
        latency_rows(points),
        *decode_rows(decode),
        tuple(ImportLeftOut(each.where, each.figure, each.reason) for each in left_out),
        provenance,
        kv_from,
        text,
        tuple(dict.fromkeys([*warnings, *checked.warnings])),
    )


def latency_rows(points: Sequence[LatencyPoint]) -> tuple[ImportedLatency, ...]:
    """Prefill as the answer gives it."""
    return tuple(ImportedLatency(p.length_tokens, p.latency_s, p.runs) for p in points)


def decode_rows(decode: DecodeTable | None) -> tuple[tuple[ImportedStep, ...], Any, ImportedFormula | None]:
    """Steps, form and formula as the answer gives them."""
    if decode is None:
        return (), None, None
    steps = tuple(ImportedStep(s.batch, s.context_tokens, s.step_s, s.runs) for s in decode.points)
    fit = decode.fit
    shares = (fit.base_s, fit.per_request_s, fit.per_context_token_s, fit.mean_share, fit.worst_share) if fit else None
    return steps, decode.form, ImportedFormula(*shares) if shares else None


def _models(read: Sequence[Read]) -> str:
    return ", ".join(dict.fromkeys(printable(model) for file, _ in read for model in file.models))


def _source(files: Sequence[ImportedFile]) -> str:
    """Format, version and files, as provenance gives them."""
    by_tool: dict[str, list[str]] = {}
    for file in files:
        by_tool.setdefault(f"{file.format} {file.version}".strip(), []).append(printable(Path(file.file).name))
    parts = []
    for tool, names in by_tool.items():
        some = ", ".join(names) if len(names) <= _MOST_NAMED else f"{names[0]} and {len(names) - 1} other files"
        parts.append(f"{tool}, {some}")
    return "; ".join(parts)


def checked_model(text: str, name: str) -> Model:
    """The model that a text describes.

    Raises:
        InputError: what is wrong with it, said to be of a file that was not written.
    """
    try:
        return model_of(parse_document(text, name))
    except InputError as error:
        problems = [Problem(p.code, p.where, f"{p.message}; so nothing was written", p.fix) for p in error.problems]
        raise InputError(problems) from None


def write_model(path: Path, text: str, force: bool) -> None:
    """Writes a model file, and its folder where there is none.

    Raises:
        InputError: it cannot be written, or is there and is not to be replaced.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        problem = Problem("not-writable", str(path.parent), f"cannot be made: {reason}", "name another --output")
        raise InputError(problem) from None
    write_text(path, text, replace=force)
