"""What a field of a scenario may hold, found by its path, and what to say where there is no such field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prfaas_opt.io.scalars import Choice, Number, Quantity, Text
from prfaas_opt.io.scenario_file import SCENARIO
from prfaas_opt.io.spec import Either, ListOf, MapOf, OneOrMore, Record, Tagged, Variants
from prfaas_opt.io.wording import closest, suggestion
from prfaas_opt.units import parse_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.io.spec import Kind

Numeric = Number | Quantity


class UnknownFieldError(Exception):
    """No scenario has such a field; ``fix`` offers others."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def field_kind(steps: Sequence[str]) -> Kind | None:
    """What a field holds, in all its forms; None where that depends on what stands around it.

    Args:
        steps: of its path.

    Raises:
        UnknownFieldError: no scenario has such a field.

    >>> field_kind(["links", "0", "rtt"]).expected
    'a duration such as "80ms" or "7s", 0 or 1us to 1 hour'
    """
    depth, kinds, forms = _followed(steps)
    if depth < len(steps):
        here, step = ".".join(steps[:depth]), steps[depth]
        message = f"{here} has no field {step}" if here else f"a scenario has no field {step}"
        raise UnknownFieldError(message, _fix(steps, depth, forms))
    return kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None


def _followed(steps: Sequence[str]) -> tuple[int, list[Any], list[Any]]:
    """How many steps lead somewhere, what is there (nothing where nobody knows), and the forms stepped into last."""
    kinds, forms = [SCENARIO], []
    for depth, step in enumerate(steps):
        forms = [form for kind in kinds for form in _forms_with_fields(kind)]
        if None in forms:
            return len(steps), [], forms
        kinds = [inner for form in forms for inner in _inside(form, step)]
        if not kinds:
            return depth, [], forms
    return len(steps), kinds, forms


def _fix(steps: Sequence[str], depth: int, forms: Sequence[Any]) -> str:
    """What to write instead of a path that leads nowhere from a step on."""
    here, known = ".".join(steps[:depth]), _known(forms)
    near = _near(steps, depth, forms)
    if _is_list(forms):
        return f"{here} is a list: write {'.'.join(near or [here, '0'])}"
    if near and depth + 1 < len(steps):
        return f"did you mean {'.'.join(near)}?"
    return suggestion(steps[depth], known) if known else f"set {here} as a whole"


def _near(steps: Sequence[str], depth: int, forms: Sequence[Any]) -> list[str] | None:
    """The path of a field with a step of a list put in, or misspelt steps replaced; None where none is near."""
    if _is_list(forms):
        mended = [*steps[:depth], "0", *steps[depth:]]
    else:
        words = closest(steps[depth], _known(forms))
        if not words:
            return None
        mended = [*steps[:depth], words[0], *steps[depth + 1 :]]
    reached, _, inner = _followed(mended)
    return mended if reached == len(mended) else _near(mended, reached, inner)


def _is_list(forms: Sequence[Any]) -> bool:
    return bool(forms) and all(isinstance(form, ListOf) for form in forms)


def _known(forms: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(key for form in forms for key in _keys(form)))


def _forms_with_fields(kind: Any) -> list[Any]:
    """The forms of a kind that hold fields or items; None among them stands for one that nobody knows."""
    if isinstance(kind, Record):
        other = getattr(kind, "other_form", None)
        return [kind, other] if other else [kind]
    if isinstance(kind, Either):
        return _forms_with_fields(kind.mapping)
    if isinstance(kind, OneOrMore):
        return [kind.many]
    if isinstance(kind, Tagged | Variants | ListOf | MapOf):
        return [kind]
    if isinstance(kind, Text | Choice | Number | Quantity):
        return []
    record = getattr(kind, "record", None)
    return _forms_with_fields(record()) if callable(record) else [None]


def _inside(form: Any, step: str) -> list[Any]:
    """What a step into a form leads to."""
    if isinstance(form, ListOf):
        return [form.item] if step.isdecimal() else []
    if isinstance(form, MapOf):
        return [form.item]
    if isinstance(form, Record):
        return [form.fields[step].kind] if step in form.fields else []
    own = [Choice(tuple(form.by_word))] if isinstance(form, Tagged) and step == form.key else []
    return own + [inner for record in _records(form) for inner in _inside(record, step)]


def _records(form: Tagged | Variants) -> list[Record]:
    return list(form.by_word.values()) if isinstance(form, Tagged) else list(form.by_key.values())


def _keys(form: Any) -> list[str]:
    """The fields that a form has."""
    if isinstance(form, Record):
        return list(form.fields)
    if isinstance(form, Tagged | Variants):
        own = [form.key] if isinstance(form, Tagged) else []
        return own + [key for record in _records(form) for key in record.fields]
    return []


def number_of(kind: Kind | None) -> Numeric | None:
    """The number or quantity that a field holds, among other forms perhaps; None if it holds none."""
    scalar = kind.scalar if isinstance(kind, Either) else kind
    scalar = getattr(scalar, "quantity", scalar)
    return scalar if isinstance(scalar, Number | Quantity) else None


def is_whole(kind: Numeric) -> bool:
    """Whether only whole numbers are allowed."""
    return kind.whole if isinstance(kind, Number) else kind.parse is parse_tokens


def may_have(kind: Kind | None, key: str) -> bool:
    """Whether a mapping in a field may have a key."""
    return kind is not None and any(key in _keys(form) for form in _forms_with_fields(kind))
