"""Fields of a model's ``config.json`` as the readers of architectures ask for them.

A field that is missing or wrong is noted, and a stand-in returned, so that reading goes on and all that is wrong comes
at once. Nothing is made of stand-ins: whoever reads a config raises what was noted before it uses anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prfaas_opt.io.scalars import COUNT, COUNT_OR_ZERO, Number
from prfaas_opt.io.spec import INVALID, Context, ListOf
from prfaas_opt.io.wording import counted, shown
from prfaas_opt.profiles.attention import families
from prfaas_opt.profiles.kv_cache import LayerGroup

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.io.spec import Kind

LAYERS = "num_hidden_layers"
MOST_LAYERS = 10_000
_LAYERS = Number(f"a whole number of layers, 1 to {MOST_LAYERS:,}", minimum=1, maximum=MOST_LAYERS, whole=True)

Dimensions = Mapping[str, int]

_WINDOWS = ("sliding_window", "sliding_window_size", "sliding_window_pattern")
_OTHER_CACHES = (
    *_WINDOWS,
    "use_sliding_window",
    "layer_types",
    "attention_chunk_size",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "layers_block_type",
    "attn_type_list",
    "full_attention_interval",
    "layer_group_size",
    "linear_attn_config",
    "num_kv_shared_layers",
    "use_cla",
    "use_mla",
    "kv_lora_rank",
    "index_head_dim",
    "ssm_state_size",
    "mamba_d_state",
)
"""Fields that say of layers that they cache less, or something else, than keys and values of the whole prompt."""
_NOTHING: tuple[Any, ...] = (None, False, 0)


def _full(value: Any) -> bool:
    """Whether a list has full attention for every layer."""
    return isinstance(value, list) and all(each == "full_attention" for each in value)


@dataclass(frozen=True)
class Layers:
    """``count`` equal layers, as a model file states them: the name of their family and its dimensions."""

    family: str
    count: int
    dimensions: Dimensions

    def group(self) -> LayerGroup:
        """The layers with their family."""
        return LayerGroup(self.count, families()[self.family](**self.dimensions))


class ConfigFields:
    """A mapping of a config, and what was wrong with it so far."""

    def __init__(self, context: Context, path: FieldPath, mapping: Mapping[str, Any]) -> None:
        self._context, self._path, self._mapping = context, path, mapping
        self._asked: set[str] = set()

    def states(self, name: str) -> bool:
        """Whether the config says anything of a field; ``null`` says nothing."""
        return self.value(name) is not None

    def has(self, name: str) -> bool:
        """Whether a field is there at all, be it ``null``."""
        return name in self._mapping

    def value(self, name: str) -> Any:
        """What a field holds, unread; None where it is not there."""
        self._asked.add(name)
        return self._mapping.get(name)

    def refuse_unread(self, ignored: Sequence[str]) -> None:
        """Notes fields that mean another cache than was read, since nobody asked for them.

        Args:
            ignored: fields that mean nothing in this architecture.
        """
        for name in _OTHER_CACHES:
            value = self._mapping.get(name)
            if name in self._asked or name in ignored or value in _NOTHING or _full(value):
                continue
            if name in _WINDOWS and self._mapping.get("use_sliding_window") is False:
                continue
            message = f"found {shown(value)}, which means another cache than this architecture is known to have"
            fix = "take config.json as it was published; if it is so, state the layers in the model file by hand"
            self.refuse(name, "not-supported", message, fix)

    def count(self, *names: str) -> int:
        """A whole number, 1 or more, from the first of these fields that is stated."""
        return self._number(COUNT, names)

    def count_or_zero(self, *names: str) -> int:
        """A whole number, 0 or more, from the first of these fields that is stated."""
        return self._number(COUNT_OR_ZERO, names)

    def count_or(self, name: str, of_class: int) -> int:
        """A whole number, 1 or more; where the config leaves it out, what the model's configuration class has."""
        return self.count(name) if self.has(name) else of_class

    def layers(self) -> int:
        """The number of layers: those of multi-token prediction are not among ``num_hidden_layers``."""
        return self.count(LAYERS)

    def counts(self, *names: str) -> list[int] | None:
        """Whole numbers, 1 or more, of all these fields; None where any is missing or wrong."""
        read = [self._read(COUNT, (name,)) for name in names]
        return None if None in read else [number for number in read if number is not None]

    def inside(self, name: str) -> ConfigFields:
        """The fields of a mapping in the config; every field of it is missing where there is none."""
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            self.refuse(name, "wrong-type", f"found {shown(value)}, expected a mapping")
        return ConfigFields(self._context, (*self._path, name), value if isinstance(value, dict) else {})

    def kinds(self, name: str, words: Mapping[str | int, str]) -> list[str]:
        """What each layer is, from a list with a word for each; empty where that is wrong.

        Args:
            name: the field.
            words: the words it may hold, with what each means.
        """
        value = self.value(name)
        if not isinstance(value, list) or not value:
            self._not(name, "a list, each one of " + ", ".join(map(str, words)))
            return []
        return self._meant(name, value, words)

    def letters(self, name: str, words: Mapping[str | int, str]) -> list[str]:
        """What each layer is, from a text with a letter for each; empty where that is wrong."""
        value = self.value(name)
        if not isinstance(value, str) or not value:
            self._not(name, "a text of the letters " + " ".join(map(str, words)))
            return []
        return self._meant(name, list(value), words)

    def numbered(self, kinds: Mapping[str, str], layers: int | None) -> list[str]:
        """What each layer is, from lists of layer numbers, counted from 1; empty where they are wrong.

        Args:
            kinds: the lists, with what the layers in each are.
            layers: the number of layers; None where it is not known.
        """
        before = len(self._context.problems)
        number = Number(f"a layer's number, 1 to {layers or MOST_LAYERS}", 1, layers or MOST_LAYERS, whole=True)
        found: dict[int, str] = {}
        for name, kind in kinds.items():
            value = self.value(name)
            if value is None:
                self._not(name, f"a list, each {number.expected}")
                continue
            read = ListOf(number, least=0).read(self._context, value, (*self._path, name))
            for i, each in enumerate(read or ()):
                if each in found:
                    message = f"found layer {each} a second time, expected each layer once"
                    self._context.add((*self._path, name, i), "duplicate-key", message, "check which kind it is")
                found[each] = kind
        if len(self._context.problems) > before or layers is None:
            return []
        absent = [each for each in range(1, layers + 1) if each not in found]
        if absent:
            more = f", nor {counted(len(absent) - 1, 'other')}" if len(absent) > 1 else ""
            message = f"do not name layer {absent[0]}{more}; expected each of {layers} layers in one of them"
            self.refuse(" and ".join(kinds), "length-mismatch", message, f"check {LAYERS}")
            return []
        return [found[each] for each in range(1, layers + 1)]

    def refuse(self, name: str, code: str, message: str, fix: str = "") -> None:
        """Notes what is wrong with a field."""
        self._context.add((*self._path, name), code, message, fix)

    def _number(self, kind: Kind, names: Sequence[str]) -> int:
        read = self._read(kind, names)
        return 1 if read is None else read

    def _read(self, kind: Kind, names: Sequence[str]) -> int | None:
        """The number in the first of these fields that is stated; None where that is wrong."""
        kind = _LAYERS if LAYERS in names else kind
        name = next((each for each in names if self.states(each)), None)
        if name is None:
            self._not(names[0], kind.expected + (f" (or {' or '.join(names[1:])})" if len(names) > 1 else ""))
            return None
        read = kind.read(self._context, self.value(name), (*self._path, name))
        return None if read is INVALID else int(read)

    def _not(self, name: str, expected: str) -> None:
        """Notes that a field is not there, or holds something else than is expected."""
        if self.states(name):
            self.refuse(name, "wrong-type", f"found {shown(self.value(name))}, expected {expected}")
            return
        found = "is null" if name in self._mapping else "is missing"
        fix = "take config.json as it was published: nothing is assumed in place of a field"
        self.refuse(name, "missing-key", f"{found}, expected {expected}", fix)

    def _meant(self, name: str, value: Sequence[Any], words: Mapping[str | int, str]) -> list[str]:
        strange = [i for i, word in enumerate(value) if type(word) not in (str, int) or word not in words]
        if strange:
            more = f"; {len(strange) - 1} more like it in this list" if len(strange) > 1 else ""
            message = f"found {shown(value[strange[0]])}, expected one of {', '.join(map(str, words))}{more}"
            fix = "layers of another kind are not supported: state the model's KVCache size as a table"
            self._context.add((*self._path, name, strange[0]), "unknown-word", message, fix)
            return []
        layers = self._read(COUNT, (LAYERS,)) if self.states(LAYERS) else len(value)
        if layers is None:
            return []
        if layers != len(value):
            message = f"is of {counted(len(value), 'layer')}, expected {layers} as {LAYERS} says"
            self.refuse(name, "length-mismatch", message, "check both")
            return []
        return [words[word] for word in value]
