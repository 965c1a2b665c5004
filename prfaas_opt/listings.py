"""The public Python API of the catalog: models, workloads, and the KV throughput of models (equations 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from prfaas_opt import units
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.catalog import entries
from prfaas_opt.io.lengths import TABLE_LENGTHS_TOKENS, parse_lengths
from prfaas_opt.io.loading import find, load_model, load_workload
from prfaas_opt.io.wording import suggestion
from prfaas_opt.throughput.equations import cluster_egress, kv_throughput

if TYPE_CHECKING:
    from prfaas_opt.plots.curves import ModelPlot
    from prfaas_opt.profiles.model import Model, Profile

Tokens = Annotated[int, Meta(ge=1, description="tokens")]


class KvRow(Struct, frozen=True):
    """KV throughput of one instance (equation 1)."""

    model: str
    hardware: str
    length_tokens: Tokens
    kv_bytes: Annotated[float, Meta(ge=0)]
    prefill_s: Annotated[float, Meta(ge=0)]
    kv_throughput_gbps: Annotated[float, Meta(ge=0, description="1e9 bit/s")]


class KvClusterRow(Struct, frozen=True):
    """Least egress of a prefill cluster that never idles (equation 2), all requests being of one length."""

    model: str
    hardware: str
    gpus: Annotated[int, Meta(ge=1)]
    length_tokens: Tokens
    egress_gbps: Annotated[float, Meta(ge=0, description="1e9 bit/s")]


class KvAnswer(Struct, frozen=True):
    """Rows a model and length; ``clusters`` where a number of GPUs was asked for."""

    rows: tuple[KvRow, ...]
    clusters: tuple[KvClusterRow, ...]
    left_out: Annotated[tuple[str, ...], Meta(description="models without a profile for the hardware")] = ()


class CachedListing(Struct, frozen=True):
    """Prefill of prompts with a cached prefix: a row for each cached length, a column for each uncached one."""

    cached_tokens: tuple[float, ...]
    uncached_tokens: tuple[float, ...]
    latency_s: tuple[tuple[float, ...], ...]
    occupancy_s: Annotated[tuple[tuple[float, ...], ...] | None, Meta(description="null where it is the latency")]


class ProfileListing(Struct, frozen=True):
    """A model on one hardware; sources are in words, their first one being the kind."""

    hardware: str
    gpus_per_instance: int
    engine: str
    decode_batches: tuple[int, ...]
    decode_steps_s: Annotated[tuple[float, ...], Meta(description="at each batch; by context: at the shortest")]
    provenance: dict[str, str]
    rows: tuple[KvRow, ...]
    decode_contexts_tokens: Annotated[tuple[float, ...], Meta(description="empty where the step is by batch alone")]
    accepted_tokens: Annotated[float, Meta(ge=1, description="tokens that a request gains in one decode step")]
    memory_bytes: Annotated[tuple[float, float] | None, Meta(description="usable, and what weights take of it")]
    occupancy_s: Annotated[tuple[float, ...] | None, Meta(description="in each row; null where it is the latency")]
    prefill_cached: Annotated[CachedListing | None, Meta(description="null: it follows from prefill by a rule")]


class ModelListing(Struct, frozen=True):
    """A model of the catalog."""

    name: str
    description: str
    file: str
    profiles: tuple[ProfileListing, ...]
    warnings: tuple[str, ...]


class WorkloadListing(Struct, frozen=True):
    """A workload of the catalog, its input lengths summed up."""

    name: str
    description: str
    source: str
    file: str
    input_tokens_low: float
    input_tokens_high: float
    input_tokens_mean: float
    input_tokens_quantiles: Annotated[dict[str, float], Meta(description="p50, p90, p99")]
    output_tokens_mean: float


class Models(Struct, frozen=True):
    """The models asked for."""

    models: tuple[ModelListing, ...]


class Workloads(Struct, frozen=True):
    """The workloads asked for."""

    workloads: tuple[WorkloadListing, ...]


def list_models(name: str | None = None) -> Models:
    """One model, or every one that scenarios in this folder can name.

    Raises:
        InputError: there is no such model, or its file is wrong.
    """
    names = [name] if name is not None else list(entries("models"))
    return Models(tuple(_model_listing(n) for n in names))


def plot_model(name: str) -> ModelPlot:
    """What the plots of a model show: its curves by prompt length, of all its hardware.

    Raises:
        InputError: there is no such model, or its file is wrong.
    """
    from prfaas_opt.plots.curves import model_plot

    return model_plot(load_model(name, "models show"))


def list_workloads(name: str | None = None) -> Workloads:
    """One workload, or every one that scenarios in this folder can name.

    Raises:
        InputError: there is no such workload, or its file is wrong.
    """
    names = [name] if name is not None else list(entries("workloads"))
    return Workloads(tuple(_workload_listing(n) for n in names))


def kv(
    models: Sequence[str] | None = None,
    lengths: Sequence[str | int] | None = None,
    hardware: str = "H200",
    gpus: int | None = None,
) -> KvAnswer:
    """KV throughput of models by length, and the egress of a cluster of them.

    Args:
        models: names or paths; None takes every model of the catalog that has the hardware.
        lengths: prompt lengths in tokens, as numbers or "32K"; None takes those of table 3.
        hardware: the profile's hardware.
        gpus: also the egress of a cluster of so many GPUs.

    Raises:
        InputError: a model or profile is not there, a length is wrong or outside a profile; all problems at once.

    >>> round(kv(["minimax-m2.5"], ["32K"], gpus=512).clusters[0].egress_gbps, 2)
    3835.52
    """
    loaded = [load_model(name) for name in models or entries("models")]
    left_out: tuple[str, ...] = ()
    if not models:
        left_out = tuple(model.name for model in loaded if model.profile(hardware) is None)
        known = sorted({name for model in loaded for name in model.hardware})
        loaded = [model for model in loaded if model.profile(hardware) is not None]
        if not loaded:
            message = f"no model has a profile for {hardware}, expected one of {', '.join(known)}"
            raise InputError(Problem("unknown-hardware", "--hardware", message, suggestion(hardware, known)))
    at = _at_lengths(loaded, parse_lengths(lengths or TABLE_LENGTHS_TOKENS), hardware)
    clusters = () if gpus is None else tuple(_cluster_row(*place, gpus) for place in at)
    return KvAnswer(tuple(_kv_row(*place) for place in at), clusters, left_out)


def _at_lengths(
    models: Sequence[Model], lengths_tokens: Sequence[int], hardware: str
) -> list[tuple[Model, Profile, int]]:
    found, problems = [], []
    too_long: dict[tuple[int, float], list[str]] = {}
    for model in models:
        profile = model.profile(hardware)
        if profile is None:
            message = f"{model.name} has no profile for {hardware}, expected one of {', '.join(model.hardware)}"
            problems.append(Problem("unknown-hardware", "--hardware", message, "name one of these"))
            continue
        upper = min(profile.prefill_s.upper, profile.kv_bytes.upper)
        found += [(model, profile, length) for length in lengths_tokens if length <= upper]
        negative = [length for length in lengths_tokens if length <= upper and profile.kv_bytes(float(length)) < 0]
        for length in negative:
            message = (
                f"found {units.format_tokens(length)} tokens, where the KVCache size of {model.name} on "
                f"{profile.hardware}, continued below its first point, would be negative"
            )
            problems.append(Problem("negative-size", "--length", message, "ask for a longer length"))
        for length in lengths_tokens:
            if length > upper:
                too_long.setdefault((length, upper), []).append(f"{model.name} on {profile.hardware}")
    for (length, upper), names in too_long.items():
        message = f"found {units.format_tokens(length)} tokens, expected at most {units.format_tokens(upper)}"
        reason = f", as far as the figures of {', '.join(names)} go"
        problems.append(Problem("length-above-range", "--length", message + reason, "ask for a shorter length"))
    if problems:
        raise InputError(problems)
    return found


def _kv_row(model: Model, profile: Profile, length: int) -> KvRow:
    kv_bytes, prefill_s = profile.kv_bytes(float(length)), profile.prefill_s(float(length))
    rate = units.to_gbps(kv_throughput(kv_bytes, prefill_s))
    return KvRow(model.name, profile.hardware, length, kv_bytes, prefill_s, rate)


def _cluster_row(model: Model, profile: Profile, length: int, gpus: int) -> KvClusterRow:
    row = _kv_row(model, profile, length)
    egress = cluster_egress(gpus, profile.gpus_per_instance, row.kv_bytes, row.prefill_s)
    return KvClusterRow(model.name, profile.hardware, gpus, length, units.to_gbps(egress))


def _model_listing(name: str) -> ModelListing:
    model = load_model(name, "models show")
    return ModelListing(
        model.name,
        model.description,
        str(find("models", name, "models show")),
        tuple(_profile_listing(model, profile) for profile in model.profiles),
        model.warnings,
    )


def _profile_listing(model: Model, profile: Profile) -> ProfileListing:
    upper = min(profile.prefill_s.upper, profile.kv_bytes.upper)
    lengths = [length for length in TABLE_LENGTHS_TOKENS if length <= upper]
    decode, memory, occupancy_s = profile.decode, profile.memory, profile.stated_occupancy_s
    return ProfileListing(
        profile.hardware,
        profile.gpus_per_instance,
        profile.engine,
        decode.batches if decode else (),
        decode.steps_s if decode else (),
        {key: str(source) for key, source in profile.provenance.items()},
        tuple(_kv_row(model, profile, length) for length in lengths),
        decode.contexts_tokens if decode else (),
        decode.accepted_tokens if decode else 1.0,
        (memory.usable_bytes, memory.weights_bytes) if memory else None,
        tuple(occupancy_s(float(length)) for length in lengths) if occupancy_s else None,
        _cached_listing(profile),
    )


def _cached_listing(profile: Profile) -> CachedListing | None:
    latency, occupancy = profile.cached_prefill_s, profile.cached_occupancy_s
    if latency is None:
        return None
    rows = [
        tuple(tuple(row(x) for x in table.uncached_tokens) for row in table.rows_s)
        for table in (latency, occupancy)
        if table is not None
    ]
    return CachedListing(latency.cached_tokens, latency.uncached_tokens, rows[0], rows[1] if occupancy else None)


def _workload_listing(name: str) -> WorkloadListing:
    workload = load_workload(name, "workloads show")
    lengths = workload.input_tokens
    return WorkloadListing(
        workload.name,
        workload.description,
        workload.source,
        str(find("workloads", name, "workloads show")),
        lengths.low,
        lengths.high,
        lengths.mean,
        {f"p{q}": lengths.quantile(q / 100) for q in (50, 90, 99)},
        workload.output_tokens.mean,
    )
