"""The layers of a model from its Hugging Face ``config.json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prfaas_opt.io.architectures import Architecture, architectures
from prfaas_opt.io.curve_fields import check_plausible
from prfaas_opt.io.hf_fields import ConfigFields, Layers
from prfaas_opt.io.json_file import read_json_document
from prfaas_opt.io.scalars import TOKENS
from prfaas_opt.io.spec import INVALID, Context
from prfaas_opt.io.wording import closest, shown
from prfaas_opt.profiles.kv_cache import KvLayout
from prfaas_opt.units import LONGEST_TOKENS

if TYPE_CHECKING:
    from pathlib import Path

    from prfaas_opt.io.document import FieldPath

_NESTED = ("text_config", "language_config", "llm_config")
"""Where models of several modalities keep the config of the language model."""
_MOST_TOKENS = ("max_position_embeddings", "model_max_length")
_STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16"}
_STATE_FIELDS = ("mamba_ssm_dtype", "mamba_ssm_cache_dtype")


@dataclass(frozen=True)
class HfConfig:
    """What a config says of the cache.

    Attributes:
        architecture: the value of ``model_type``, or else the class in ``architectures``, that it was read by.
        layers: groups of equal layers.
        max_tokens: the longest prompt; None where the config does not state it.
        state_dtype: data type of recurrent states, ``fp32`` or ``bf16``; None where the config does not state it.
        state_dtype_field: the field that states it.
        kv_quantization: the field that says how the checkpoint wants keys and values, and how, ``8 bits`` or ``"FP8"``;
            None where none does.
    """

    architecture: str
    layers: tuple[Layers, ...]
    max_tokens: int | None
    state_dtype: str | None
    state_dtype_field: str | None
    kv_quantization: tuple[str, str] | None

    def layout(self, kv_bytes: float, state_bytes: float, conv_bytes: float, max_tokens: int) -> KvLayout:
        """The layers with the bytes of an element of each kind of cache."""
        return KvLayout(tuple(each.group() for each in self.layers), kv_bytes, state_bytes, conv_bytes, max_tokens)


def read_hf_config(path: Path) -> HfConfig:
    """Reads a model's ``config.json``.

    Raises:
        InputError: it is not there, no JSON, of an architecture that is not known, or lacks a field; all at once.
    """
    document = read_json_document(path, "config.json")
    context = Context(document)
    if not isinstance(document.data, dict):
        context.add((), "wrong-type", f"found {shown(document.data)}, expected a model's config.json", "name that file")
        context.raise_problems()
    where, mapping, names = _language_model(context)
    config = ConfigFields(context, where, mapping)
    architecture, name = _architecture(context, where, mapping, names)
    layers = tuple(architecture.read(config))
    config.refuse_unread(architecture.ignored)
    max_tokens = _max_tokens(context, where, mapping)
    field = next((each for each in _STATE_FIELDS if mapping.get(each) not in (None, "auto")), None)
    state_dtype = _state_dtype(context, where, field, mapping) if field else None
    context.raise_problems()
    found = HfConfig(name, layers, max_tokens, state_dtype, field, _kv_quantization(document.data, mapping))
    _check(context, where, found)
    return found


def _language_model(context: Context) -> tuple[FieldPath, dict[str, Any], dict[str, Any]]:
    """Where the language model's fields are, the fields, and the mapping that says what architecture it is."""
    data: dict[str, Any] = context.document.data
    for name in _NESTED:
        nested = data.get(name)
        if isinstance(nested, dict):
            named = any(nested.get(key) for key in ("model_type", "architectures"))
            return (name,), nested, nested if named else data
        if nested is not None:
            context.add((name,), "wrong-type", f"found {shown(nested)}, expected a mapping", "take it as published")
            context.raise_problems()
    return (), data, data


def _architecture(
    context: Context, where: FieldPath, mapping: dict[str, Any], names: dict[str, Any]
) -> tuple[Architecture, str]:
    """The architecture that ``model_type`` names, or else ``architectures``; both where both are known."""
    here, before = (where if names is mapping else ()), len(context.problems)
    model_type, classes = names.get("model_type"), names.get("architectures")
    if model_type is not None and not isinstance(model_type, str):
        context.add((*here, "model_type"), "wrong-type", f"found {shown(model_type)}, expected a text")
    if classes is not None and not (isinstance(classes, list) and all(isinstance(each, str) for each in classes)):
        context.add((*here, "architectures"), "wrong-type", f"found {shown(classes)}, expected a list of texts")
    if len(context.problems) > before:
        context.raise_problems()
    by_type = {each: found for found in architectures() for each in found.model_types}
    by_class = {each: found for found in architectures() for each in found.class_names}
    of_class = next((each for each in classes or () if each in by_class), None)
    if model_type in by_type:
        found = by_type[model_type]
        if of_class is not None and by_class[of_class] is not found:
            message = f"found {shown(model_type)}, expected what {of_class} in architectures is"
            context.add((*here, "model_type"), "ambiguous", message, "take config.json as it was published")
            context.raise_problems()
        return found, str(model_type)
    if model_type is None and of_class is not None:
        return by_class[of_class], of_class
    expected = "expected one of " + ", ".join(sorted(by_type))
    if model_type is None and not classes:
        message = f"is missing, and so is architectures, {expected}"
        context.add((*here, "model_type"), "missing-key", message, "take config.json as it was published")
    else:
        field, value = ("model_type", model_type) if model_type is not None else ("architectures", (classes or [""])[0])
        near = closest(str(value), [*by_type, *by_class], cutoff=0.85)
        fix = "state the layers in the model file by hand, or the KVCache size as a table"
        message = f"found {shown(value)}, an architecture that is not known, {expected}"
        context.add((*here, field), "unknown-name", message, f"did you mean {near[0]}? If not, {fix}" if near else fix)
    context.raise_problems()
    raise AssertionError("a problem was noted")


def _max_tokens(context: Context, where: FieldPath, mapping: dict[str, Any]) -> int | None:
    for name in _MOST_TOKENS:
        if mapping.get(name) is not None:
            read = TOKENS.read(context, mapping[name], (*where, name))
            return None if read is INVALID else int(read)
    return None


def _state_dtype(context: Context, where: FieldPath, field: str, mapping: dict[str, Any]) -> str | None:
    value = mapping[field]
    if isinstance(value, str) and value in _STATE_DTYPES:
        return _STATE_DTYPES[value]
    message = f"found {shown(value)}, expected one of {', '.join(_STATE_DTYPES)}"
    context.add((*where, field), "unknown-word", message, "check it; null leaves it to the engine")
    return None


def _kv_quantization(*mappings: dict[str, Any]) -> tuple[str, str] | None:
    """What compressed-tensors (``kv_cache_scheme``) or ModelOpt (``kv_cache_quant_algo``) state of keys and values."""
    for mapping in mappings:
        stated = mapping.get("quantization_config")
        for name in ("kv_cache_scheme", "kv_cache_quant_algo"):
            value = stated.get(name) if isinstance(stated, dict) else None
            if value is not None:
                bits = value.get("num_bits") if isinstance(value, dict) else None
                return f"quantization_config.{name}", f"{bits} bits" if isinstance(bits, int) else shown(value)
    return None


def _check(context: Context, where: FieldPath, found: HfConfig) -> None:
    """Refuses layers that cache nothing, or more than any machine holds."""
    size = found.layout(2, 4, 2, LONGEST_TOKENS).curve()(float(LONGEST_TOKENS))
    if size <= 0:
        context.add(
            where, "out-of-range", "has no layer that caches anything, expected at least one", "check the layers"
        )
    else:
        check_plausible(context, where, "size", size)
    context.raise_problems()
