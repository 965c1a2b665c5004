"""The public Python API of KVCache sizes by architecture: what a model's ``config.json`` says a request caches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.hf_config import HfConfig, read_hf_config
from prfaas_opt.io.kv_cache_block import kv_cache_block, kv_cache_mapping
from prfaas_opt.io.lengths import TABLE_LENGTHS_TOKENS, parse_lengths
from prfaas_opt.io.wording import suggestion

if TYPE_CHECKING:
    from prfaas_opt.io.hf_fields import Layers
    from prfaas_opt.profiles.kv_cache import KvLayout

KV_DTYPES = {"bf16": 2.0, "fp8": 1.0}
"""Bytes of an element of keys and values."""
STATE_DTYPES = {"fp32": 4.0, "bf16": 2.0}
"""Bytes of an element of recurrent states; engines keep them in fp32 unless told otherwise."""
CONV_BYTES = 2.0
"""Bytes of an element of convolution states, which engines keep in bf16 whatever the rest is kept in."""

Tokens = Annotated[int, Meta(ge=1, description="tokens")]
Bytes = Annotated[float, Meta(ge=0, description="bytes")]


class WindowTerm(Struct, frozen=True):
    """Layers over a sliding window: ``min(l, window_tokens) * bytes_per_token``."""

    window_tokens: Tokens
    bytes_per_token: Bytes
    full_bytes: Annotated[float, Meta(ge=0, description="bytes of a request at least as long as the window")]


class LayerSizes(Struct, frozen=True):
    """Equal layers, all of them together."""

    attention: Annotated[str, Meta(description="family, as model files name it")]
    count: Annotated[int, Meta(ge=1)]
    dimensions: dict[str, int]
    level: Annotated[
        Literal["block", "request"],
        Meta(description="block: grows, and a common prefix is reused; request: fixed, reused on an exact match only"),
    ]
    growing_bytes_per_token: Bytes
    window: WindowTerm | None
    state_bytes: Bytes
    convolution_bytes: Bytes


class SizeRow(Struct, frozen=True):
    """KVCache of a request of a length."""

    length_tokens: Tokens
    kv_bytes: Bytes
    block_level_bytes: Annotated[float, Meta(ge=0, description="keys and values of layers that see the whole prompt")]
    request_level_bytes: Annotated[float, Meta(ge=0, description="windows, recurrent and convolution states")]


class KvDerivation(Struct, frozen=True):
    """KVCache of a model by its architecture: ``growing * l + windows(l) + fixed``, the whole model's."""

    file: str
    architecture: Annotated[str, Meta(description="model_type, or else the class, that the config was read by")]
    kv_dtype: Literal["bf16", "fp8"]
    state_dtype: Literal["fp32", "bf16"]
    state_dtype_from: Annotated[str, Meta(description="as asked for, a field of the config, or the default of engines")]
    layers: tuple[LayerSizes, ...]
    growing_bytes_per_token: Bytes
    windows: tuple[WindowTerm, ...]
    state_bytes: Bytes
    convolution_bytes: Bytes
    fixed_bytes: Annotated[float, Meta(ge=0, description="bytes of states, the same for every request")]
    max_tokens: Annotated[int, Meta(ge=1, description="tokens; up to here the sizes are for")]
    sizes: tuple[SizeRow, ...]
    kv_cache: Annotated[dict[str, Any], Meta(description="kv_cache of a model file")]
    kv_cache_yaml: Annotated[str, Meta(description="the same as text, with its provenance")]
    warnings: tuple[str, ...]


def derive_kv(
    config: str | os.PathLike[str],
    kv_dtype: str = "bf16",
    state_dtype: str | None = None,
    lengths: Sequence[str | int] | None = None,
) -> KvDerivation:
    """KVCache sizes of a model from its ``config.json``.

    Args:
        config: the file, as published on Hugging Face.
        kv_dtype: data type of keys and values, ``bf16`` or ``fp8``.
        state_dtype: data type of recurrent states, ``fp32`` or ``bf16``; None takes what the config states, or fp32.
        lengths: prompt lengths in tokens, as numbers or "32K"; None takes those of table 3 that the model takes.

    Raises:
        InputError: the file is wrong, its architecture is not known, or a length or data type is; all at once.
    """
    problems = [
        Problem(
            "unknown-word", option, f'found "{value}", expected one of {", ".join(known)}', suggestion(value, known)
        )
        for option, value, known in (
            ("--kv-dtype", kv_dtype, KV_DTYPES),
            ("--state-dtype", "fp32" if state_dtype is None else state_dtype, STATE_DTYPES),
        )
        if value not in known
    ]
    asked: list[int] | None = None
    found: HfConfig | None = None
    try:
        asked = parse_lengths(lengths) if lengths else None
    except InputError as error:
        problems += error.problems
    try:
        found = read_hf_config(Path(config))
    except InputError as error:
        problems += error.problems
    if problems or found is None:
        raise InputError(problems)
    return _derivation(str(config), found, kv_dtype, state_dtype, asked)


def _derivation(
    file: str, found: HfConfig, kv_dtype: str, state_dtype: str | None, asked: Sequence[int] | None
) -> KvDerivation:
    lengths, max_tokens, warnings = _lengths(found, asked)
    dtype = state_dtype or found.state_dtype or "fp32"
    source = "as asked for" if state_dtype else found.state_dtype_field or "the default of engines"
    layout = found.layout(KV_DTYPES[kv_dtype], STATE_DTYPES[dtype], CONV_BYTES, max_tokens)
    if any(layers.family == "dsa" for layers in found.layers):
        warnings += (
            "the keys of the indexer are counted in the data type of keys and values; engines that always keep them in "
            "fp8 with a scale need less at bf16 and a little more at fp8",
        )
    warnings += _quantization(found, kv_dtype)
    curve = layout.curve()
    rows = tuple(
        SizeRow(n, curve(float(n)), layout.block_level_bytes(n), layout.request_level_bytes(n)) for n in lengths
    )
    block = kv_cache_mapping(found.layers, layout)
    return KvDerivation(
        file,
        found.architecture,
        kv_dtype,  # type: ignore[arg-type]  # checked above
        dtype,  # type: ignore[arg-type]
        source,
        tuple(_layer_sizes(layers, layout) for layers in found.layers),
        layout.growing_bytes_per_token,
        _windows(layout),
        layout.recurrent_bytes,
        layout.convolution_bytes,
        layout.fixed_bytes,
        max_tokens,
        rows,
        block,
        kv_cache_block(block, f"derived, from the config.json of {found.architecture}"),
        warnings,
    )


def _lengths(found: HfConfig, asked: Sequence[int] | None) -> tuple[list[int], int, tuple[str, ...]]:
    """The lengths to show, the longest that sizes are for, and what to know about them."""
    stated = found.max_tokens
    if stated is None:
        lengths = list(asked or TABLE_LENGTHS_TOKENS)
        note = f"the config does not state the longest prompt; max_tokens is the longest length here, {max(lengths):,}"
        return lengths, max(lengths), (note,)
    lengths = list(asked or [length for length in TABLE_LENGTHS_TOKENS if length <= stated] or [stated])
    if max(lengths) <= stated:
        return lengths, stated, ()
    note = f"{max(lengths):,} tokens are beyond the {stated:,} that the config states as the longest prompt"
    return lengths, max(lengths), (note,)


def _quantization(found: HfConfig, kv_dtype: str) -> tuple[str, ...]:
    """What to know where a checkpoint wants keys and values in another type than these sizes are in."""
    if found.kv_quantization is None:
        return ()
    field, value = found.kv_quantization
    eight_bits = value in {"8 bits", '"FP8"'}
    if eight_bits and kv_dtype == "fp8":
        return ()
    fix = ": --kv-dtype fp8 if your engine follows it" if eight_bits else ", which is not supported"
    return (f"sizes are in {kv_dtype}, but {field} says {value}{fix}",)


def _layer_sizes(layers: Layers, whole: KvLayout) -> LayerSizes:
    layout = structs.replace(whole, layers=(layers.group(),))
    return LayerSizes(
        layers.family,
        layers.count,
        dict(layers.dimensions),
        "block" if layout.growing_bytes_per_token else "request",
        layout.growing_bytes_per_token,
        next(iter(_windows(layout)), None),
        layout.recurrent_bytes,
        layout.convolution_bytes,
    )


def _windows(layout: KvLayout) -> tuple[WindowTerm, ...]:
    return tuple(WindowTerm(w.tokens, w.bytes_per_token, w.tokens * w.bytes_per_token) for w in layout.windows)
