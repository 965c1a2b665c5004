"""Scenario files: clusters, links and objectives around the traffic of one or several models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.fleet import Limits
from prfaas_opt.io.document import Document, plain_document
from prfaas_opt.io.fleet_file import Assembly
from prfaas_opt.io.loading import load_model, load_workload, model_of
from prfaas_opt.io.overrides import apply_overrides
from prfaas_opt.io.scalars import BANDWIDTH, CEILING, COUNT, COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE, Choice, Text
from prfaas_opt.io.spec import INVALID, Context, Either, Field, ListOf, MapOf, Record, read_whole
from prfaas_opt.io.terms_fields import (
    ADMISSION_FIELDS,
    ARRIVALS,
    LOCAL_PREFILL,
    MEASURED,
    RESIDENCY,
    ROUTE_FIELDS,
    TRANSFER,
    TTFT,
)
from prfaas_opt.io.two_pools import beyond_two_pools, scenario_of
from prfaas_opt.io.wording import shown
from prfaas_opt.io.workload_file import WORKLOAD
from prfaas_opt.io.yaml_file import parse_document, read_document
from prfaas_opt.scenario import ESTIMATORS, Baseline

if TYPE_CHECKING:
    from collections.abc import Callable

    from prfaas_opt.fleet import Fleet
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.io.spec import Kind
    from prfaas_opt.scenario import Scenario

CASE_STUDY = Path(__file__).with_name("case_study.yaml")
"""The paper's case study: what is planned where no file is named, and the file ``init`` writes."""


class _Named(Struct, frozen=True):
    """A model or a workload: its name, its path, or the mapping itself."""

    noun: str
    load: Callable[[str, str, Path | None], Any]
    written_out: Callable[[Context, Any, FieldPath], Any]
    record: Callable[[], Kind]

    @property
    def expected(self) -> str:
        """All three forms."""
        return f"a {self.noun}'s name, its path or its mapping"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The model or workload."""
        document = context.document
        try:
            if isinstance(value, dict):
                return self.written_out(context, value, path)
            name = Text(self.expected).read(context, value, path)
            return INVALID if name is INVALID else self.load(name, document.where(path), document.folder)
        except InputError as error:
            context.problems += error.problems
            return INVALID

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"anyOf": [Text().schema(), self.record().schema()]}


def _model_record() -> Record:
    from prfaas_opt.io.model_file import MODEL

    return MODEL


def _range(kind: Kind, of_least: Kind, doc: str, form: type[Record] = Record) -> Either:
    """A fixed amount, or a mapping with the least and the most of it."""

    def build(context: Context, path: FieldPath, values: dict[str, Any]) -> Any:
        if values["min"] > values["max"]:
            given = context.document.at(path)
            message = f"found {shown(given['min'])}, expected no more than max, which is {shown(given['max'])}"
            return context.add((*path, "min"), "out-of-range", message, "swap the two, or leave out min")
        return Limits(values["min"], values["max"])

    least, most = Field(of_least, f"lower limit of {doc}", 0), Field(kind, f"upper limit of {doc}")
    return Either(kind, form({"min": least, "max": most}, build, "a mapping with min and max"))


class _ClusterRecord(Record, frozen=True):
    """A cluster of one kind of hardware; of several, told by a mapping, each states its own amount and price."""

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The fields of either form."""
        if isinstance(value, dict) and isinstance(value.get("hardware"), dict):
            return _MIXED_CLUSTER.read(context, value, path)
        return super().read(context, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of both forms."""
        uniform = super().schema()
        uniform["properties"]["hardware"] = Text().schema() | {"description": self.fields["hardware"].doc}
        return {"anyOf": [uniform, _MIXED_CLUSTER.schema()]}


class _BandwidthRecord(Record, frozen=True):
    """A range of bandwidth, or measurements of it.

    Attributes:
        other_form: that of measurements.
    """

    other_form: Record = MEASURED

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The limits, or a percentile."""
        if isinstance(value, dict) and "measured" in value:
            return self.other_form.read(context, value, path)
        return super().read(context, value, path)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of both forms."""
        return {"anyOf": [super().schema(), self.other_form.schema()]}


_PRICE = Field(NOT_NEGATIVE, "USD per GPU-hour", None)
_MAX_UTILIZATION = Field(CEILING, "share of it that may be used", 1.0)
_MODEL = Field(
    _Named("model", load_model, lambda c, _, path: model_of(c.document, path=path), _model_record),
    "a model's name, its path, or the model itself",
)
_WORKLOAD = Field(
    _Named("workload", load_workload, WORKLOAD.read, lambda: WORKLOAD),
    "a workload's name, its path, or the workload itself",
)

HOLDING = Record(
    {
        "instances": Field(_range(COUNT, COUNT_OR_ZERO, "instances"), "model instances (not GPUs)"),
        "gpus": Field(_range(COUNT, COUNT_OR_ZERO, "GPUs"), "GPUs, instead of `instances`", None),
        "max_utilization": _MAX_UTILIZATION,
        "price_per_gpu_hour": _PRICE,
    },
    instead={"gpus": ("instances",)},
    keep_invalid=True,
)

_ROLE = Field(Choice(("prefill", "pd")), "prefill: remote prefill only; pd: prefill and decode, split by the plan")
_HOLDINGS = MapOf(HOLDING, "a mapping from kinds of hardware to how much there is of each")
_HARDWARE = Field(
    Either(Text(), _HOLDINGS),
    "accelerator name, the model's profile of that name applies; or several, each with its amount and price",
)

CLUSTER = _ClusterRecord(
    {"role": _ROLE, "hardware": _HARDWARE, **HOLDING.fields, **ADMISSION_FIELDS},
    instead=HOLDING.instead,
    keep_invalid=True,
)

_MIXED_CLUSTER = Record(
    {"role": _ROLE, "hardware": Field(_HOLDINGS, "amounts and prices by accelerator name"), **ADMISSION_FIELDS},
    elsewhere={
        key: ("it under each kind of hardware of the cluster", f"write hardware: {{NAME: {{{key}: ...}}}}")
        for key in HOLDING.fields
    },
    keep_invalid=True,
)

LINK = Record(
    {
        "from": Field(Text(), "cluster that sends KVCache"),
        "to": Field(Text(), "cluster that receives it"),
        "bandwidth": Field(
            _range(BANDWIDTH, BANDWIDTH, "bandwidth", _BandwidthRecord),
            'rate with its unit, "100Gbps"; or {measured: [...], percentile: 5} of measured ones',
        ),
        "max_utilization": _MAX_UTILIZATION,
        "price_per_gbps_hour": Field(NOT_NEGATIVE, "USD per Gbps of bandwidth and hour; part of the cost", None),
        "price_per_gb": Field(NOT_NEGATIVE, "USD per GB that is sent; part of the cost", None),
        **ROUTE_FIELDS,
    },
    keep_invalid=True,
)

SLO = Record(
    {
        "tokens_per_s": Field(POSITIVE, "decode rate of one request, tokens/s", None),
        "ttft": Field(TTFT, "time to first token that must hold, {p90: 7s}; two pools only", ()),
    }
)

STREAM = Record(
    {
        "name": Field(Text(), 'name of the entry; default: the model\'s, or "MODEL to CLUSTER"', None),
        "model": _MODEL,
        "workload": _WORKLOAD,
        "demand_rps": Field(POSITIVE, "requests/s to serve; required where there are several entries", None),
        "cluster": Field(Text(), "pd cluster that must decode it; default: the plan chooses", None),
        "slo": Field(SLO, "objectives in place of the scenario's", None),
    },
    keep_invalid=True,
)

BASELINE = Record(
    {
        "hardware": Field(Text(), "accelerator; default: the pd cluster's", None),
        "instances": Field(COUNT, "instances; default: as many as the fleet has", None),
        "price_per_gpu_hour": _PRICE,
    },
    keep_invalid=True,
)

SCENARIO = Record(
    {
        "name": Field(Text(), "name of the scenario", "scenario"),
        "model": _MODEL,
        "workload": _WORKLOAD,
        "demand_rps": Field(POSITIVE, "requests/s to serve; for `size`, `plan` finds the most there can be", 1.0),
        "traffic": Field(ListOf(STREAM), "several models or workloads, instead of `model` and `workload`", None),
        "clusters": Field(MapOf(CLUSTER, "a mapping from cluster names to clusters"), "clusters by name"),
        "links": Field(ListOf(LINK, least=0), "connections between clusters", ()),
        "slo": Field(SLO, "service level objectives", {"tokens_per_s": None, "ttft": ()}),
        "arrivals": Field(ARRIVALS, "how requests arrive; two pools only", {"cv2": 1.0}),
        "transfer": Field(TRANSFER, "what offloading sends", {key: f.default for key, f in TRANSFER.fields.items()}),
        "local_prefill": Field(
            LOCAL_PREFILL,
            "dedicated: on instances of their own; on_decode: on those that decode, beside it; two pools only",
            "dedicated",
        ),
        "residency": Field(RESIDENCY, "requests that must stay; two pools only", {"stay_share": 0.0}),
        "estimator": Field(Choice(ESTIMATORS), "how service times are averaged", "expected-time"),
        "baseline": Field(BASELINE, "homogeneous cluster to compare two pools with", dict.fromkeys(BASELINE.fields)),
    },
    instead={"traffic": ("model", "workload")},
    keep_invalid=True,
)

Source = str | Path | Mapping[str, Any] | None


def load_scenario(source: Source = None, overrides: Mapping[str, str] | None = None) -> Scenario:
    """A scenario of two pools from a file, from a mapping, or the built-in case study.

    Args:
        source: a path; a mapping of the same form as a file; None for the paper's case study.
        overrides: field paths with values as YAML text: ``{"clusters.pd.instances": "10"}``.

    Returns:
        The scenario, in SI units.

    Raises:
        InputError: everything that is wrong, with file, line and field; or that it is a fleet.

    >>> load_scenario(overrides={"clusters.pd.instances": "10"}).pd.instances
    10
    """
    return read_scenario(_document(source, overrides))


def load_fleet(source: Source = None, overrides: Mapping[str, str] | None = None) -> Fleet:
    """A fleet from any scenario file, one of two pools included.

    Args:
        source: as for ``load_scenario``.
        overrides: as for ``load_scenario``.

    Raises:
        InputError: everything that is wrong, with file, line and field.

    >>> fleet = load_fleet(overrides={"clusters.pd.instances": "{max: 10}"})
    >>> fleet.site("pd").holdings[0].gpus
    Limits(least=0, most=80)
    """
    fleet, _ = _checked(_document(source, overrides))
    return fleet


def load_any(source: Source = None, overrides: Mapping[str, str] | None = None) -> Scenario | Fleet:
    """A scenario where a file is one of two pools, else a fleet.

    Args:
        source: as for ``load_scenario``.
        overrides: as for ``load_scenario``.

    Raises:
        InputError: everything that is wrong, with file, line and field.

    >>> type(load_any()).__name__, type(load_any(overrides={"links.0.bandwidth": "{max: 1Gbps}"})).__name__
    ('Scenario', 'Fleet')
    """
    fleet, baseline = _checked(_document(source, overrides))
    return fleet if beyond_two_pools(fleet) else scenario_of(fleet, baseline)


def read_scenario(document: Document) -> Scenario:
    """The scenario of two pools that a document describes.

    Raises:
        InputError: all that is wrong with it; or that it is a fleet.
    """
    fleet, baseline = _checked(document)
    beyond = beyond_two_pools(fleet)
    if beyond:
        found = ", ".join(text for _, text in beyond[:3])
        message = f"makes this a fleet ({found}), expected two pools: one pd cluster and at most one that prefills"
        fix = "plan it (prfaas-opt plan, plan_fleet) or size it (prfaas-opt size); all else takes two pools"
        raise InputError(Problem("not-two-pools", document.where(beyond[0][0]), message, fix))
    return scenario_of(fleet, baseline)


def _document(source: Source, overrides: Mapping[str, str] | None) -> Document:
    if source is None:
        document = parse_document(CASE_STUDY.read_text(encoding="utf-8"), "built-in case study")
    elif isinstance(source, Mapping):
        document = plain_document(source, "scenario")
    else:
        document = read_document(Path(source), "scenario")
    return apply_overrides(document, overrides) if overrides else document


def _checked(document: Document) -> tuple[Fleet, Baseline]:
    """What a document describes, when nothing is wrong with it."""
    context = Context(document)
    values = read_whole(context, SCENARIO, "scenario")
    if values is INVALID:
        context.raise_problems()
    assembly = Assembly(context, values)
    assembly.check()
    context.raise_problems()
    return assembly.fleet(), Baseline(**values["baseline"])
