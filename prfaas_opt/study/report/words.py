"""How a report words fields, values and figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from prfaas_opt.study.columns import INPUT, input_field

_FEW = 4
_NO_NAME = re.compile(r"p?\d+")


class Names:
    """Short names of axes: as much of the end of a path as tells them apart."""

    def __init__(self, names: Sequence[str], units: Sequence[str]) -> None:
        whole = {name: field_of(name) for name in names}
        self._short = {name: _shortest(path, list(whole.values())) for name, path in whole.items()}
        self._units = dict(zip(names, units, strict=True))

    def short(self, name: str) -> str:
        """The name without its unit."""
        return self._short.get(name, name)

    def with_unit(self, name: str) -> str:
        """The name with its unit in brackets."""
        unit = self._units.get(name)
        return f"{self.short(name)} ({unit})" if unit else self.short(name)

    def values(self, found: dict[str, Any]) -> str:
        """Values of axes as one text."""
        return ", ".join(f"{self.short(name)} {shown(value)}" for name, value in found.items())

    def limits(self, where: dict[str, tuple[Any, ...]]) -> str:
        """What lines are limited to."""
        return "; ".join(f"{self.short(name)} {_some(values)}" for name, values in where.items())


def _shortest(path: str, paths: Sequence[str]) -> str:
    """The least whole steps from the end of a path that no other path ends with; a number or percentile is no name.

    >>> _shortest("clusters.pd.instances", ["clusters.pd.instances", "clusters.prfaas.instances", "model"])
    'pd.instances'
    >>> _shortest("slo.ttft.p90", ["slo.ttft.p90", "model"])
    'ttft.p90'
    """
    steps = path.split(".")
    for start in range(len(steps) - 1, 0, -1):
        ends = [each.split(".")[start - len(steps) :] for each in paths]
        if ends.count(steps[start:]) == 1 and not _NO_NAME.fullmatch(steps[start]):
            return ".".join(steps[start:])
    return path


def field_of(name: str) -> str:
    """The field of a scenario whose column has a name.

    >>> field_of("links.0.bandwidth_gbps"), field_of("slo.tokens_per_s"), field_of("transfer.chunk_tokens")
    ('links.0.bandwidth', 'slo.tokens_per_s', 'transfer.chunk_tokens')
    """
    field = input_field(f"{INPUT}{name}")
    return name if field is None else field.text


def shown(value: Any) -> str:
    """A value for people; four digits of a fraction.

    >>> shown(0.123456), shown(20.0), shown(131072), shown(None), shown("H20")
    ('0.1235', '20', '131,072', 'as the base', 'H20')
    """
    if value is None:
        return "as the base"
    if isinstance(value, bool | str):
        text = str(value)
        return text if len(text) <= 40 else f"{text[:37]}..."
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 10_000 else f"{value:.4g}"


def figure(value: float | None) -> str:
    """A figure to four digits.

    >>> figure(3.14159), figure(12345.6), figure(None)
    ('3.142', '12,346', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.4g}".rstrip(".")


def _some(values: tuple[Any, ...]) -> str:
    if len(values) <= _FEW:
        return ", ".join(map(shown, values))
    return f"{', '.join(map(shown, values[: _FEW - 1]))} and {len(values) - _FEW + 1} more"


def listed_in_words(words: Sequence[str]) -> str:
    """Words as people list them.

    >>> listed_in_words(["a", "b", "c"]), listed_in_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
