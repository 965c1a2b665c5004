"""The public Python API of estimated profiles: what ``aiconfigurator`` answers becomes a model file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.import_api import (
    EstimatedBy,
    Import,
    ImportLeftOut,
    checked_model,
    decode_rows,
    kv_cache_fields,
    latency_rows,
    write_model,
    wrong_target,
)
from prfaas_opt.io.aiconfigurator_package import open_aiconfigurator
from prfaas_opt.io.benchmark_runs import LeftOut
from prfaas_opt.io.estimated_profile import (
    LENGTHS_TOKENS,
    Estimates,
    copies_of_keys,
    estimated,
    memory_mapping,
)
from prfaas_opt.io.estimator import EXPERTS, Deployment, Estimator
from prfaas_opt.io.lengths import parse_lengths
from prfaas_opt.io.measured_profile import prefill_mapping, yaml_text
from prfaas_opt.io.wording import closest, counted, printable, shown
from prfaas_opt.profiles.accelerators import accelerator_name
from prfaas_opt.units import format_length, format_tokens

BACKEND = "trtllm"
"""Serving engine unless said otherwise: aiconfigurator's own choice."""
DATABASE_MODE = "silicon"
_MOST_NAMED = 8


def import_estimated(
    model: str,
    system: str,
    name: str | None = None,
    gpus: int = 8,
    backend: str = BACKEND,
    hardware: str | None = None,
    kv_from: str | None = None,
    kv_dtype: str | None = None,
    lengths: Sequence[str | int] | None = None,
    expert_tensor_parallel: int = 1,
    database_mode: str = DATABASE_MODE,
    chunk: str | int | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    estimator: Estimator | None = None,
) -> Import:
    """Asks aiconfigurator for latencies, and writes a model file with them, marked ``derived``.

    KVCache sizes come from the model's ``config.json`` by our own attention families, never from the estimator.

    Args:
        model: as aiconfigurator names it, ``Qwen/Qwen3-32B``, or a folder with its ``config.json``.
        system: kind of GPU, as ``h200_sxm``.
        name: of the model that is written; the last part of ``model`` in lower case by default.
        gpus: of an instance; attention is split over all of them.
        backend: serving engine, as aiconfigurator names it.
        hardware: accelerator as scenarios name it; by default what ``system`` says.
        kv_from: the KVCache size: a config.json, or a model that has it; by default aiconfigurator's config.json.
        kv_dtype: of keys and values, ``bf16`` unless given.
        lengths: prompts, tokens; by default 1K, 2K, 4K to 128K, as far as the config.json says the model goes.
        expert_tensor_parallel: GPUs that share each expert; the experts are spread over the rest.
        database_mode: ``silicon``, ``hybrid``, ``empirical`` or ``sol``.
        chunk: tokens prefilled at a time, each chunk over the KVCache of those before it; None: a prompt at once.
        output: the file to write; ``models/NAME.yaml`` by default.
        force: whether a file that is there is replaced.
        estimator: whom to ask; the installed package by default.

    Raises:
        InputError: the package is missing, an argument is wrong, the model does not fit, or too few latencies are
            left; nothing is written then.
    """
    estimator = estimator or open_aiconfigurator()
    name = model.rstrip("/").rpartition("/")[2].lower() if name is None else name
    hardware = _hardware(system) if hardware is None else hardware.strip()
    path = Path(output) if output is not None else Path("models", f"{name}.yaml")
    problems = wrong_target(name, hardware, gpus, path, force)
    problems += _wrong_words(estimator, model, system, backend, database_mode)
    if expert_tensor_parallel < 1 or (gpus >= 1 and gpus % expert_tensor_parallel):
        message = f"found {expert_tensor_parallel}, expected a number that divides the {counted(gpus, 'GPU')}"
        problems.append(Problem("out-of-range", "--moe-tp", message, "1 spreads whole experts over the GPUs"))
    asked = _tokens(lengths, "--length", problems)
    chunks = _tokens(None if chunk is None else [chunk], "--chunk", problems)
    if problems:
        raise InputError(problems)
    chunk_tokens = chunks[0] if chunks else None
    deployment = Deployment(
        model, system, backend, gpus, expert_tensor_parallel, kv_dtype or "bf16", database_mode.lower()
    )
    source = kv_from or _own_config(model, estimator)
    warnings: list[str] = []
    kv = kv_cache_fields(source, kv_dtype if source.endswith(".json") else None, hardware, warnings, asked)
    taken, left_out = _lengths(kv, asked)
    estimates = estimated(estimator, deployment, taken, chunk_tokens)
    estimates.left_out[:0] = left_out
    estimates.warnings += warnings
    return _imported(estimator, deployment, estimates, name, hardware, kv, kv_from, chunk_tokens, path, force)


def _tokens(given: Sequence[str | int] | None, option: str, problems: list[Problem]) -> list[int] | None:
    """Lengths that an option gives; None where it gives none, or wrong ones, which are noted."""
    try:
        return parse_lengths(given, option) if given else None
    except InputError as error:
        problems += error.problems
        return None


def _hardware(system: str) -> str:
    """The accelerator that a system's name means.

    >>> _hardware("h200_sxm"), _hardware("a100_pcie")
    ('H200', 'A100')
    """
    return accelerator_name(system) or system.partition("_")[0].upper()


def _wrong_words(estimator: Estimator, model: str, system: str, backend: str, mode: str) -> list[Problem]:
    """Names that the estimator does not know, with those it does."""
    problems = []
    if model not in estimator.models and not Path(model, "config.json").is_file():
        near = closest(model, estimator.models)
        fix = f"did you mean {' or '.join(near)}? " if near else ""
        message = (
            f"found {shown(model)}, expected one of the {len(estimator.models)} models of {estimator.name} "
            f"{estimator.version}, or a folder with its config.json"
        )
        some = ", ".join(sorted(estimator.models)[:_MOST_NAMED])
        fix += f"it knows for example {some}" if not near else "or name a folder with the model's config.json"
        problems.append(Problem("unknown-name", "MODEL", message, fix))
    for option, value, known in (
        ("--system", system, estimator.systems),
        ("--backend", backend, estimator.backends),
        ("--database-mode", mode.lower(), estimator.database_modes),
    ):
        if value not in known:
            message = f"found {shown(value)}, expected one of {', '.join(known)}"
            near = closest(value, known)
            fix = f"did you mean {' or '.join(near)}?" if near else f"{estimator.name} has data for these only"
            problems.append(Problem("unknown-word", option, message, fix))
    return problems


def _own_config(model: str, estimator: Estimator) -> str:
    """The ``config.json`` that the estimator reads."""
    config = estimator.config(model)
    if config is not None:
        return str(config)
    message = f"is missing, and {estimator.name} has no config.json of {printable(model)} here"
    raise InputError(Problem("missing-file", "--kv-from", message, "name the model's config.json, or a model"))


def _config_in_words(model: str, estimator: Estimator) -> str:
    folder = Path(model, "config.json")
    return str(folder) if folder.is_file() else f"the config.json of {printable(model)} in {estimator.name}"


def _lengths(kv: dict[str, Any], asked: Sequence[int] | None) -> tuple[list[int], list[LeftOut]]:
    """The prompts to ask for: those that were asked for, or those of the default that have a KVCache size."""
    if asked:
        return sorted(set(asked)), []
    cache = kv["kv_cache"]
    longest = cache.get("max_tokens") or max(cache.get("lengths_tokens", LENGTHS_TOKENS))
    taken = [length for length in LENGTHS_TOKENS if length <= longest]
    beyond = [format_length(length) for length in LENGTHS_TOKENS if length > longest]
    if not beyond:
        return taken, []
    reason = f"the KVCache size is for {format_tokens(longest)} tokens at most; --length asks for longer prompts"
    return taken, [LeftOut(", ".join(beyond), "prefill", reason)]


def _imported(
    estimator: Estimator,
    deployment: Deployment,
    estimates: Estimates,
    name: str,
    hardware: str,
    kv: dict[str, Any],
    kv_from: str | None,
    chunk_tokens: int | None,
    path: Path,
    force: bool,
) -> Import:
    provenance = dict(estimates.provenance)
    profile: dict[str, Any] = {
        "hardware": hardware,
        "gpus_per_instance": deployment.gpus,
        "engine": estimates.engine,
        "prefill": prefill_mapping(estimates.prefill),
    }
    if estimates.decode is not None:
        profile["decode"] = estimates.decode.mapping
        _add_memory(profile, provenance, estimates, deployment, estimator, kv["kv_cache"])
    profile["provenance"] = provenance
    mapping = {
        "name": name,
        "description": f"Estimated for {hardware}, as {printable(deployment.model)}",
        "source": f"{estimator.name} {estimator.version}",
    }
    text = yaml_text({**mapping, **kv, "profiles": [profile]})
    checked = checked_model(text, str(path))
    has_experts = EXPERTS in estimates.formats["prefill"]
    write_model(path, text, force)
    return Import(
        name,
        str(path),
        hardware,
        deployment.gpus,
        (),
        latency_rows(estimates.prefill),
        *decode_rows(estimates.decode),
        tuple(ImportLeftOut(each.where, each.figure, each.reason) for each in estimates.left_out),
        provenance,
        kv_from or _config_in_words(deployment.model, estimator),
        text,
        tuple(dict.fromkeys([*estimates.warnings, *checked.warnings])),
        EstimatedBy(
            estimator.name,
            estimator.version,
            deployment.model,
            deployment.system,
            deployment.backend,
            estimates.engine,
            deployment.database_mode,
            chunk_tokens,
            deployment.gpus,
            deployment.expert_tensor_parallel if has_experts else None,
            deployment.expert_parallel if has_experts else None,
            estimates.formats,
            estimates.origin_shares,
        ),
    )


def _add_memory(
    profile: dict[str, Any],
    provenance: dict[str, str],
    estimates: Estimates,
    deployment: Deployment,
    estimator: Estimator,
    kv_cache: dict[str, Any],
) -> None:
    """The memory that bounds the batch: weights of the estimator, and what is free beside them, for our KVCache."""
    layers, memory = kv_cache.get("layers"), estimates.memory
    if memory is None or layers is None:
        why = "the estimator does not tell it" if memory is None else "the KVCache size is not stated by layers"
        estimates.warnings.append(f"memory is left out, since {why}: no batch is too large for it")
        return
    copies = copies_of_keys(layers, deployment.gpus)
    profile["memory"] = memory_mapping(memory, deployment.gpus, copies)
    split = (
        "each key and value on one GPU"
        if copies == 1
        else f"what is free counted once for the {copies:g} copies of each key and value"
    )
    provenance["memory"] = (
        f"derived, {estimator.name} {estimator.version}: {counted(deployment.gpus, 'GPU')} without its activations, "
        f"buffers and engine, {split}"
    )
