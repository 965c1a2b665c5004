"""Where a scenario holds what its fields say: numbers are put in there without reading the whole document anew.

A field that is not listed is no less right, only slower: it is read by the full reader, once for every distinct value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from prfaas_opt.scenario import Cluster, Scenario
from prfaas_opt.study.fields import StudyField

Target = tuple[str | int, ...]
"""Attributes and indexes that lead to a value inside a scenario."""

_OF_SCENARIO: Mapping[tuple[str, ...], Target] = {
    ("name",): ("name",),
    ("slo", "tokens_per_s"): ("tokens_per_s",),
    ("arrivals", "cv2"): ("service", "arrival_cv2"),
    ("transfer", "compression"): ("service", "transfer", "compression"),
    ("transfer", "chunk_tokens"): ("service", "transfer", "chunk_tokens"),
    ("residency", "stay_share"): ("service", "stay_share"),
    ("baseline", "instances"): ("baseline", "instances"),
    ("baseline", "price_per_gpu_hour"): ("baseline", "price_per_gpu_hour"),
}
_OF_CLUSTER: Mapping[str, Target] = {
    "instances": ("instances",),
    "gpus": ("instances",),
    "max_utilization": ("max_utilization",),
    "price_per_gpu_hour": ("price_per_gpu_hour",),
    "max_context": ("admission", "max_context_tokens"),
    "nic": ("admission", "nic_bytes_per_s"),
}
_OF_LINK: Mapping[str, Target] = {
    "bandwidth": ("bandwidth_bytes_per_s",),
    "max_utilization": ("max_utilization",),
    "price_per_gbps_hour": ("price_per_gbps_hour",),
    "price_per_gb": ("price_per_gb",),
    "rtt": ("route", "rtt_s"),
    "flows": ("route", "flows"),
    "flow_cap": ("route", "flow_bytes_per_s"),
    "window": ("route", "window_bytes"),
    "request_flows": ("route", "request_flows"),
    "request_cap": ("route", "request_bytes_per_s"),
}
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_NOWHERE: Target = ()


class Lens(Struct, frozen=True):
    """How a field's value, in SI units, comes into a scenario.

    Attributes:
        target: where it stands; nowhere where a plan does not depend on it.
        divisor: the scenario has it divided by this, without remainder.
        positive: zero is an error there that the field's own kind does not know.
    """

    target: Target
    divisor: int = 1
    positive: bool = False

    @property
    def is_picky(self) -> bool:
        """Whether there are values that read well and cannot be put in as they are."""
        return self.positive or self.divisor != 1

    def holds(self, value: Any) -> bool:
        """Whether a value that reads well can be put in as it is."""
        if self.positive and value == 0:
            return False
        return self.divisor == 1 or value % self.divisor == 0


def may_be_simple(field: StudyField) -> bool:
    """Whether there may be a lens for a field."""
    if field.kind is None:
        return False
    match field.steps:
        case ("clusters", _, key):
            return key in _OF_CLUSTER
        case ("links", "0", key):
            return key in _OF_LINK
        case ("slo", "ttft", key):
            return key in _QUANTILES
        case ("demand_rps",):
            return True
        case steps:
            return steps in _OF_SCENARIO


def lens_of(field: StudyField, scenario: Scenario) -> Lens | None:
    """The lens of a field in scenarios like one that was read; None where there is none."""
    match field.steps:
        case ("clusters", name, key):
            return _lens_of_cluster(name, key, scenario)
        case ("links", "0", key):
            return None if scenario.link is None else Lens(("link", *_OF_LINK[key]))
        case ("slo", "ttft", key):
            quantiles = [slo.quantile for slo in scenario.service.ttft]
            if _QUANTILES[key] not in quantiles:
                return None
            return Lens(("service", "ttft", quantiles.index(_QUANTILES[key]), "limit_s"), positive=True)
        case ("demand_rps",):
            return Lens(_NOWHERE)
        case ("residency", "stay_share") if scenario.estimator == "mean-length":
            return None
        case steps:
            return Lens(_OF_SCENARIO[steps])


def _lens_of_cluster(name: str, key: str, scenario: Scenario) -> Lens | None:
    pools: dict[str, Cluster | None] = {"pd": scenario.pd, "remote": scenario.remote}
    for role, cluster in pools.items():
        if cluster is not None and cluster.name == name:
            profile = scenario.model.profile(cluster.hardware)
            divisor = profile.gpus_per_instance if profile and key == "gpus" else 1
            return Lens((role, *_OF_CLUSTER[key]), divisor)
    return None


def seen_through(lens: Lens, scenario: Scenario) -> Any:
    """What a scenario holds at the lens, as its field would say it."""
    value: Any = scenario
    for step in lens.target:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value * lens.divisor if lens.divisor != 1 else value


class Replacement:
    """Puts numbers into copies of a scenario.

    Args:
        scenario: of which all is kept but what the lenses tell and the origin.
        lenses: of the numbers that are put in.
        indexes: of these among a row's numbers.
    """

    def __init__(self, scenario: Scenario, lenses: Sequence[Lens], indexes: Sequence[int]) -> None:
        leaves = [
            (lens.target, _Number(index, lens.divisor))
            for lens, index in zip(lenses, indexes, strict=True)
            if lens.target
        ]
        self._whole = _part(scenario, leaves)

    def made(self, numbers: Sequence[Any], origin: Any) -> Scenario:
        """A scenario with these numbers."""
        found: Scenario = self._whole.value(numbers)
        # A new object, that nobody has seen yet.
        found.__dict__["origin"] = origin
        return found


class _Number(Struct, frozen=True):
    """A number itself.

    Attributes:
        index: of it among the numbers.
        divisor: what it is divided by.
    """

    index: int
    divisor: int


class _Part(Struct, frozen=True):
    """A part of a scenario with numbers in it: a dataclass, a struct or a tuple.

    Attributes:
        template: what it is without them.
        numbers: index of each number by its attribute.
        quotients: numbers that are divided.
        parts: parts of it with numbers in them.
    """

    template: Any
    numbers: tuple[tuple[Any, int], ...]
    quotients: tuple[tuple[Any, _Number], ...]
    parts: tuple[tuple[Any, _Part], ...]

    def value(self, numbers: Sequence[Any]) -> Any:
        """The part with these numbers."""
        changes = {key: numbers[index] for key, index in self.numbers}
        for key, part in self.parts:
            changes[key] = part.value(numbers)
        for key, number in self.quotients:
            changes[key] = int(numbers[number.index]) // number.divisor
        template = self.template
        if isinstance(template, Struct):
            return structs.replace(template, **changes)
        if isinstance(template, tuple):
            return tuple(changes.get(index, item) for index, item in enumerate(template))
        # As ``dataclasses.replace`` does for a class without ``__post_init__``, at a fifth of its time.
        copy: Any = object.__new__(template.__class__)
        copy.__dict__.update(template.__dict__, **changes)
        return copy


def _part(template: Any, leaves: Sequence[tuple[Target, _Number]]) -> _Part:
    """What changes of an object."""
    here = [(target[0], number) for target, number in leaves if len(target) == 1]
    inner: dict[Any, list[tuple[Target, _Number]]] = {}
    for target, number in leaves:
        if len(target) > 1:
            inner.setdefault(target[0], []).append((target[1:], number))
    return _Part(
        template,
        tuple((key, number.index) for key, number in here if number.divisor == 1),
        tuple((key, number) for key, number in here if number.divisor != 1),
        tuple(
            (key, _part(template[key] if isinstance(key, int) else getattr(template, key), inside))
            for key, inside in inner.items()
        ),
    )
