"""Model files: ``models/*.yaml`` and the same mapping inside a scenario."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError
from prfaas_opt.io.cached_fields import PREFILL_CACHED, CachedTables, check_both_occupied
from prfaas_opt.io.curve_fields import (
    KV_CACHE,
    PREFILL,
    STEEPEST,
    FromKvThroughput,
    Points,
    Scaled,
    WithOccupancy,
    check_plausible,
)
from prfaas_opt.io.decode_fields import DECODE, MEMORY
from prfaas_opt.io.scalars import COUNT, Number, Text
from prfaas_opt.io.spec import INVALID, Context, Field, ListOf, Record, read_whole, suggestion, wrong
from prfaas_opt.io.wording import did_you_mean
from prfaas_opt.profiles.curve import Curve, scaled_by_ratio
from prfaas_opt.profiles.model import PROVENANCE_KINDS, Model, Profile, Provenance

if TYPE_CHECKING:
    from prfaas_opt.io.document import Document, FieldPath

_OPTIONAL_FIGURES = ("kv_cache", "prefill_cached", "decode", "memory")

LoadModel = Callable[[str, str], Model]
"""Finds a model by its name, for the place (as errors call it) that names it."""


class _ProvenanceKind:
    """A kind and a source: ``"paper, table 5"``."""

    expected = "one of " + ", ".join(PROVENANCE_KINDS) + ', then a comma and the source, as "paper, table 5"'

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The provenance."""
        if not isinstance(value, str):
            return wrong(self, context, value, path, "write measured, and by whom or with what")
        kind, _, source = (part.strip() for part in value.partition(","))
        if kind in PROVENANCE_KINDS:
            return Provenance(kind, source)
        first, _, rest = kind.partition(" ")
        fix = f'write "{first}, {rest.strip()}"' if first in PROVENANCE_KINDS else did_you_mean(first, PROVENANCE_KINDS)
        return wrong(self, context, value, path, fix)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "string", "pattern": rf"^\s*({'|'.join(PROVENANCE_KINDS)})\s*(,.*)?$"}


_SOURCE = _ProvenanceKind()
_ACTIVE = Number("a number of parameters, 1e6 to 1e14, as 32e9", minimum=1e6, maximum=1e14)

PROFILE = Record(
    {
        "hardware": Field(Text(), "accelerator name"),
        "gpus_per_instance": Field(COUNT, "GPUs that one instance takes"),
        "engine": Field(Text(), "serving engine and version", ""),
        "prefill": Field(PREFILL, "prefill latency by prompt length"),
        "prefill_cached": Field(
            PREFILL_CACHED, "prefill latency of prompts with a cached prefix; default: it follows from prefill", None
        ),
        "kv_cache": Field(KV_CACHE, "KVCache size by prompt length; default: the model's", None),
        "decode": Field(DECODE, "decode step time by batch, and by context", None),
        "memory": Field(MEMORY, "memory of an instance; default: it bounds no batch", None),
        "provenance": Field(
            Record(
                {
                    "prefill": Field(_SOURCE, "where the latency comes from"),
                    "prefill_cached": Field(
                        _SOURCE, "where the latency of prompts with a cached prefix comes from", None
                    ),
                    "kv_cache": Field(_SOURCE, "where the profile's own KVCache size comes from", None),
                    "decode": Field(_SOURCE, "where the decode step comes from", None),
                    "occupancy": Field(_SOURCE, "where the time that a prompt takes an instance comes from", None),
                    "memory": Field(_SOURCE, "where the sizes of memory and weights come from", None),
                },
                keep_invalid=True,
            ),
            "where each figure comes from",
        ),
    },
    keep_invalid=True,
)

MODEL = Record(
    {
        "name": Field(Text(), "name of the model", "inline model"),
        "description": Field(Text(), "one line for people", ""),
        "source": Field(Text(), "where its figures come from", ""),
        "active_parameters": Field(_ACTIVE, "parameters that each token meets; models check needs them", None),
        "kv_cache": Field(KV_CACHE, "KVCache size by prompt length, the same on all hardware", None),
        "kv_cache_provenance": Field(_SOURCE, "where the model's KVCache size comes from", None),
        "profiles": Field(ListOf(PROFILE), "one for each hardware"),
    },
    keep_invalid=True,
)


def read_model(document: Document, load_model: LoadModel, path: FieldPath = ()) -> Model:
    """The model of a document, or of a field of it.

    Args:
        document: a model file, or a scenario that holds the model.
        load_model: finds another model by name, for profiles that are scaled by it.
        path: the field that holds the model; the whole document by default.

    Raises:
        InputError: all that is wrong with it.
    """
    context = Context(document)
    values = MODEL.read(context, document.at(path), path) if path else read_whole(context, MODEL, "model")
    if values is INVALID or values["profiles"] is INVALID:
        context.raise_problems()
    assembly = _Assembly(context, values, load_model, path)
    assembly.check()
    context.raise_problems()
    return assembly.model()


class _Assembly:
    """Checks how the figures of a model fit together, whatever of them reads well, and puts it together."""

    def __init__(self, context: Context, values: dict[str, Any], load_model: LoadModel, path: FieldPath) -> None:
        self._context, self._values, self._load_model, self._path = context, values, load_model, path
        self._profiles: tuple[dict[str, Any], ...] = values["profiles"]
        self._sizes: dict[int, Curve] = {}
        self._latencies: dict[int, Curve] = {}

    def check(self) -> None:
        """Notes what does not fit."""
        if self._values["kv_cache_provenance"] and self._values["kv_cache"] is None:
            self._unused((*self._path, "kv_cache_provenance"), "the model has no kv_cache")
        names: list[str] = []
        for index, profile in enumerate(self._profiles):
            here = self._here(index)
            hardware = profile["hardware"]
            if hardware is not INVALID:
                if hardware.casefold() in names:
                    message = f"{hardware} has a profile already, expected one for each hardware"
                    self._context.add((*here, "hardware"), "duplicate-key", message, "keep one of them")
                names.append(hardware.casefold())
            self._check_provenance(profile, here)
            self._check_occupancies(profile, here)
            size = self._size(profile, here)
            if size is not None:
                self._sizes[index] = size
        for scaled in (False, True):
            for index, profile in enumerate(self._profiles):
                if isinstance(profile["prefill"], Scaled) is scaled:
                    latency = self._latency(index, profile)
                    if latency is not None:
                        self._latencies[index] = latency

    def model(self) -> Model:
        """The model, once nothing is wrong with it."""
        profiles, warnings = [], []
        for index, profile in enumerate(self._profiles):
            built = self._profile(index, profile)
            profiles.append(built)
            warnings += self._warnings(built)
        return Model(self._values["name"], self._values["description"], tuple(profiles), tuple(warnings))

    def _here(self, index: int) -> FieldPath:
        return (*self._path, "profiles", index)

    def _unused(self, path: FieldPath, why: str) -> None:
        self._context.add(path, "unused", f"says where a figure comes from, but {why}", "leave it out")

    def _check_provenance(self, profile: dict[str, Any], here: FieldPath) -> None:
        """Every figure that is there has a provenance, and no other."""
        provenance = profile["provenance"]
        if provenance is INVALID:
            return
        stated = {figure: profile[figure] is not None for figure in _OPTIONAL_FIGURES}
        if profile["prefill"] is not INVALID:
            stated["occupancy"] = isinstance(profile["prefill"], WithOccupancy)
        for figure, is_stated in stated.items():
            where = (*here, "provenance", figure)
            if not is_stated and provenance[figure]:
                self._unused(where, f"the profile has no {figure} of its own")
            elif is_stated and provenance[figure] is None:
                self._missing_source(where)

    def _check_occupancies(self, profile: dict[str, Any], here: FieldPath) -> None:
        """An occupancy is stated with a cached prefix exactly where it is stated without."""
        prefill, cached = profile["prefill"], profile["prefill_cached"]
        if prefill is not INVALID and isinstance(cached, CachedTables):
            stated = prefill.occupancy if isinstance(prefill, WithOccupancy) else None
            check_both_occupied(self._context, here, stated, cached)

    def _missing_source(self, path: FieldPath) -> None:
        message = f"is missing, expected {_SOURCE.expected}"
        self._context.add(path, "missing-key", message, "add it: nothing is planned with figures of unknown origin")

    def _size(self, profile: dict[str, Any], here: FieldPath) -> Curve | None:
        own, shared = profile["kv_cache"], self._values["kv_cache"]
        size = shared if own is None else own
        if size is None:
            everywhere = all(each["kv_cache"] is None for each in self._profiles)
            message = "is missing, expected the KVCache size by prompt length"
            fix = "add it to the model, or to each profile" if everywhere else "add it to this profile, or to the model"
            self._context.add((*(self._path if everywhere else here), "kv_cache"), "missing-key", message, fix)
        if own is None and shared is not None and self._values["kv_cache_provenance"] is None:
            self._missing_source((*self._path, "kv_cache_provenance"))
        return size if isinstance(size, Curve) else None

    def _latency(self, index: int, profile: dict[str, Any]) -> Curve | None:
        prefill, here = profile["prefill"], (*self._here(index), "prefill")
        if isinstance(prefill, Curve):
            return prefill
        if isinstance(prefill, WithOccupancy):
            return prefill.latency
        if isinstance(prefill, FromKvThroughput) and index in self._sizes:
            return self._from_throughput(prefill.rates, self._sizes[index], here)
        if isinstance(prefill, Scaled) and profile["hardware"] is not INVALID:
            return self._scaled(profile["hardware"], prefill, here)
        return None

    def _from_throughput(self, rates: Points, size: Curve, here: FieldPath) -> Curve | None:
        """Equation 1 the other way round: latency is size over KV throughput."""
        if rates.lengths[-1] > size.upper:
            message = (
                f"found {rates.lengths[-1]:,} tokens, expected {size.upper:,.0f} at most, where the KVCache size ends"
            )
            where = (*here, "lengths_tokens", len(rates.lengths) - 1)
            self._context.add(where, "out-of-range", message, "extend kv_cache, or leave the point out")
            return None
        sizes = [size(float(length)) for length in rates.lengths]
        if sizes[0] <= 0:
            message = f"the KVCache size is not positive at {rates.lengths[0]:,} tokens, below its first point"
            fix = "give kv_cache a point at a shorter length"
            self._context.add((*here, "lengths_tokens", 0), "negative-size", message, fix)
            return None
        latencies = tuple(s / rate for s, rate in zip(sizes, rates.values, strict=True))
        end = rates.extrapolate_to_tokens
        points = Points(rates.column, rates.lengths, latencies, rates.interpolation, end)
        curve = points.curve(self._context, here, "latency")
        return curve if isinstance(curve, Curve) else None

    def _scaled(self, hardware: str, scaled: Scaled, here: FieldPath) -> Curve | None:
        measured = {
            profile["hardware"].casefold(): index
            for index, profile in enumerate(self._profiles)
            if profile["hardware"] is not INVALID and not isinstance(profile["prefill"], Scaled)
        }
        other = self._other_model(scaled, here)
        if scaled.hardware.casefold() not in measured:
            known = [self._profiles[index]["hardware"] for index in measured.values()]
            message = f"found {scaled.hardware}, expected hardware whose own latency this model has"
            self._context.add((*here, "scaled_from"), "unknown-hardware", message, suggestion(scaled.hardware, known))
            return None
        base = self._latencies.get(measured[scaled.hardware.casefold()])
        if other is None or base is None:
            return None
        curves = []
        for name in (hardware, scaled.hardware):
            profile = other.profile(name)
            if profile is None:
                message = f"{other.name} has no profile for {name}, expected {hardware} and {scaled.hardware}"
                fix = "name a model that has profiles for both"
                self._context.add((*here, "by_model"), "unknown-hardware", message, fix)
                return None
            curves.append(profile.prefill_s)
        return self._ratio(base, curves[0], curves[1], other, here)

    def _other_model(self, scaled: Scaled, here: FieldPath) -> Model | None:
        try:
            return self._load_model(scaled.by_model, self._context.document.where((*here, "by_model")))
        except InputError as error:
            self._context.problems += error.problems
            return None

    def _ratio(self, base: Curve, numerator: Curve, denominator: Curve, other: Model, here: FieldPath) -> Curve | None:
        try:
            curve = scaled_by_ratio(base, numerator, denominator)
        except ValueError:
            message = f"the latency of {other.name} on the hardware scaled from is no log-log table"
            fix = "scale by a model whose latency there is a table with interpolation: log-log"
            self._context.add((*here, "by_model"), "not-supported", message, fix)
            return None
        steepest = max(abs(exponent) for piece in curve.pieces for _, exponent in piece.terms)
        if steepest > STEEPEST:
            message = f"the scaled latency changes like length^{steepest:.0f}, expected at most ^{STEEPEST:.0f}"
            self._context.add(here, "implausible", message, "scale by a model whose latencies are less steep")
            return None
        good = all(check_plausible(self._context, here, "latency", curve(piece.high)) for piece in curve.pieces)
        return curve if good else None

    def _profile(self, index: int, profile: dict[str, Any]) -> Profile:
        prefill: object = profile["prefill"]
        cached: CachedTables | None = profile["prefill_cached"]
        provenance = {key: source for key, source in profile["provenance"].items() if source is not None}
        if profile["kv_cache"] is None:
            provenance["kv_cache"] = self._values["kv_cache_provenance"]
        return Profile(
            profile["hardware"],
            profile["gpus_per_instance"],
            profile["engine"],
            self._latencies[index],
            self._sizes[index],
            profile["decode"],
            provenance,
            profile["memory"],
            prefill.occupancy if isinstance(prefill, WithOccupancy) else None,
            cached.latency if cached else None,
            cached.occupancy if cached else None,
        )

    def _warnings(self, profile: Profile) -> list[str]:
        """What looks wrong in the figures of a profile and yet may be right."""
        warnings = []
        what, curve, decode = f"{self._values['name']} on {profile.hardware}", profile.prefill_s, profile.decode
        low, high = curve.measured_low_tokens, curve.measured_high_tokens
        falls = curve.falls_between(low, high) if low < high else None
        if falls:
            warnings.append(
                f"{what}: prefill latency falls from {falls[0]:,.0f} to {falls[1]:,.0f} tokens; longer prompts are "
                "rarely faster, so check these points"
            )
        columns = (decode.columns_s or (decode.steps_s,)) if decode else ()
        for grows, lines in (("batch", columns), ("context", tuple(zip(*columns, strict=True)))):
            if any(b < a for steps in lines for a, b in itertools.pairwise(steps)):
                warnings.append(f"{what}: the decode step gets faster as the {grows} grows; check its points")
        return warnings
