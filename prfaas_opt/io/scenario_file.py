"""Scenario files: clusters, links and objectives around a model and a workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError
from prfaas_opt.io.document import Document, plain_document
from prfaas_opt.io.loading import load_model, load_workload, model_of
from prfaas_opt.io.overrides import apply_overrides
from prfaas_opt.io.scalars import BANDWIDTH, CEILING, COUNT, NOT_NEGATIVE, POSITIVE, Choice, Text
from prfaas_opt.io.spec import (
    INVALID,
    Context,
    Either,
    Field,
    ListOf,
    MapOf,
    Record,
    read_whole,
    suggestion,
)
from prfaas_opt.io.workload_file import WORKLOAD
from prfaas_opt.io.yaml_file import parse_document, read_document
from prfaas_opt.scenario import ESTIMATORS, Baseline, Cluster, Link, Scenario

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.profiles.model import Model

CASE_STUDY = Path(__file__).with_name("case_study.yaml")
"""The paper's case study: what is planned where no file is named, and the file ``init`` writes."""


class _ModelKind:
    """A model's name, its path, or the model itself."""

    expected = "a model's name, its path or its mapping"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The model."""
        document = context.document
        try:
            if isinstance(value, dict):
                return model_of(document, path=path)
            name = Text(self.expected).read(context, value, path)
            return INVALID if name is INVALID else load_model(name, document.where(path), document.folder)
        except InputError as error:
            context.problems += error.problems
            return INVALID

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        from prfaas_opt.io.model_file import MODEL

        return {"anyOf": [Text().schema(), MODEL.schema()]}


class _WorkloadName:
    """A workload's name or path."""

    expected = "a workload's name, its path"

    def read(self, context: Context, value: Any, path: FieldPath) -> Any:
        """The workload."""
        document = context.document
        name = Text("a workload's name, its path or its mapping").read(context, value, path)
        if name is INVALID:
            return INVALID
        try:
            return load_workload(name, document.where(path), document.folder)
        except InputError as error:
            context.problems += error.problems
            return INVALID

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return Text().schema()


_PRICE = Field(NOT_NEGATIVE, "USD per GPU-hour", None)
_MAX_UTILIZATION = Field(CEILING, "share of it that may be used", 1.0)

CLUSTER = Record(
    {
        "role": Field(
            Choice(("prefill", "pd")),
            "prefill: remote prefill only; pd: prefill and decode, split by the plan",
        ),
        "hardware": Field(Text(), "accelerator name; the model's profile of that name applies"),
        "instances": Field(COUNT, "model instances (not GPUs)"),
        "max_utilization": _MAX_UTILIZATION,
        "price_per_gpu_hour": _PRICE,
    },
    keep_invalid=True,
)

LINK = Record(
    {
        "from": Field(Text(), "cluster that sends KVCache"),
        "to": Field(Text(), "cluster that receives it"),
        "bandwidth": Field(BANDWIDTH, 'rate with its unit, "100Gbps"'),
        "max_utilization": _MAX_UTILIZATION,
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
        "model": Field(_ModelKind(), "a model's name, its path, or the model itself"),
        "workload": Field(Either(_WorkloadName(), WORKLOAD), "a workload's name, its path, or the workload itself"),
        "clusters": Field(MapOf(CLUSTER, "a mapping from cluster names to clusters"), "clusters by name"),
        "links": Field(ListOf(LINK, least=0), "connections between clusters", ()),
        "slo": Field(
            Record(
                {"tokens_per_s": Field(POSITIVE, "decode rate of one request, tokens/s", None)},
                not_yet={"ttft": "a TTFT objective is not supported by this version"},
            ),
            "service level objectives",
            {"tokens_per_s": None},
        ),
        "estimator": Field(Choice(ESTIMATORS), "how service times are averaged", "expected-time"),
        "baseline": Field(BASELINE, "homogeneous cluster to compare with", dict.fromkeys(BASELINE.fields)),
    },
    keep_invalid=True,
    not_yet={
        key: f"{key} is not supported by this version" for key in ("arrivals", "transfer", "demand", "local_prefill")
    },
)


def load_scenario(
    source: str | Path | Mapping[str, Any] | None = None, overrides: Mapping[str, str] | None = None
) -> Scenario:
    """A scenario from a file, from a mapping, or the built-in case study.

    Args:
        source: a path; a mapping of the same form as a file; None for the paper's case study.
        overrides: field paths with values as YAML text: ``{"clusters.pd.instances": "10"}``.

    Returns:
        The scenario, in SI units.

    Raises:
        InputError: everything that is wrong, with file, line and field.

    >>> load_scenario(overrides={"clusters.pd.instances": "10"}).pd.instances
    10
    """
    if source is None:
        document = parse_document(CASE_STUDY.read_text(encoding="utf-8"), "built-in case study")
    elif isinstance(source, Mapping):
        document = plain_document(source, "scenario")
    else:
        document = read_document(Path(source), "scenario")
    return read_scenario(apply_overrides(document, overrides) if overrides else document)


def read_scenario(document: Document) -> Scenario:
    """The scenario of a document.

    Raises:
        InputError: all that is wrong with it.
    """
    context = Context(document)
    values = read_whole(context, SCENARIO, "scenario")
    if values is INVALID:
        context.raise_problems()
    assembly = _Assembly(context, values)
    assembly.check()
    context.raise_problems()
    return assembly.scenario()


class _Assembly:
    """Checks how the fields of a scenario fit together, whatever of them reads well, and puts it together."""

    def __init__(self, context: Context, values: dict[str, Any]) -> None:
        self._context, self._values = context, values
        clusters = values["clusters"]
        self._clusters: dict[str, dict[str, Any]] = {} if clusters is INVALID else clusters
        self._by_role: dict[str, list[str]] = {"pd": [], "prefill": []}
        for name, cluster in self._clusters.items():
            if cluster["role"] is not INVALID:
                self._by_role[cluster["role"]].append(name)
        roles = [cluster["role"] for cluster in self._clusters.values()]
        self._roles_read_well = clusters is not INVALID and INVALID not in roles

    def check(self) -> None:
        """Notes what does not fit."""
        if self._roles_read_well:
            self._check_roles()
        if self._values["links"] is not INVALID and self._values["clusters"] is not INVALID:
            self._check_links(self._values["links"])
        model = self._values["model"]
        if model is INVALID:
            return
        for name, cluster in self._clusters.items():
            self._check_hardware(model, ("clusters", name), cluster, decodes=cluster["role"] == "pd")
        if self._values["baseline"] is not INVALID:
            self._check_hardware(model, ("baseline",), self._values["baseline"], decodes=True)

    def scenario(self) -> Scenario:
        """The scenario, once nothing is wrong with it."""
        values = self._values
        clusters = {name: Cluster(name, **cluster) for name, cluster in self._clusters.items()}
        ((pd,), remotes) = self._by_role["pd"], self._by_role["prefill"]
        links = [Link(link["from"], link["to"], link["bandwidth"], link["max_utilization"]) for link in values["links"]]
        return Scenario(
            name=values["name"],
            model=values["model"],
            workload=values["workload"],
            pd=clusters[pd],
            remote=clusters[remotes[0]] if remotes else None,
            link=links[0] if links else None,
            tokens_per_s=values["slo"]["tokens_per_s"],
            baseline=Baseline(**values["baseline"]),
            estimator=values["estimator"],
            origin=self._context.document,
        )

    def _check_roles(self) -> None:
        if not self._by_role["pd"]:
            message = "no cluster decodes, expected one with role: pd"
            self._context.add(("clusters",), "missing-key", message, "give one the role pd")
            return
        for role, what in (("pd", "one cluster that decodes"), ("prefill", "one prefill cluster at most")):
            for name in self._by_role[role][1:]:
                message = f"is a second cluster with role {role}, expected {what}: this version plans no more"
                fix = "leave it out, and plan it in a scenario of its own"
                self._context.add(("clusters", name, "role"), "not-supported", message, fix)

    def _check_links(self, links: tuple[dict[str, Any], ...]) -> None:
        fit = [self._fits(index, link) for index, link in enumerate(links)]
        ends = self._ends
        if ends is None or not all(fit):
            return
        for index in range(1, len(links)):
            message = "connects the same clusters as the link before it, expected one link"
            self._context.add(("links", index), "duplicate-key", message, "add up their bandwidths in one link")
        if not links and self._by_role["prefill"]:
            remote, pd = ends
            message = f"no link goes from {remote} to {pd}, so nothing can be offloaded"
            fix = f"add links: [{{from: {remote}, to: {pd}, bandwidth: 100Gbps}}], or leave {remote} out"
            self._context.add(("links",), "missing-link", message, fix)

    @property
    def _ends(self) -> tuple[str | None, str] | None:
        """The prefill cluster, if there is one, and the pd cluster; None where they are in doubt."""
        pds, remotes = self._by_role["pd"], self._by_role["prefill"]
        if not self._roles_read_well or len(pds) != 1 or len(remotes) > 1:
            return None
        return (remotes[0] if remotes else None), pds[0]

    def _fits(self, index: int, link: dict[str, Any]) -> bool:
        """Whether a link leads from the prefill cluster to the pd cluster, as far as can be told."""
        here: FieldPath = ("links", index)
        unknown = [key for key in ("from", "to") if link[key] is INVALID or link[key] not in self._clusters]
        for key in unknown:
            if link[key] is not INVALID:
                message = f'there is no cluster "{link[key]}"'
                self._context.add((*here, key), "unknown-name", message, suggestion(link[key], self._clusters))
        if unknown or self._ends is None or (link["from"], link["to"]) == self._ends:
            return not unknown
        remote, pd = self._ends
        found = f"goes from {link['from']} to {link['to']}, expected a link "
        if remote is None:
            message, fix = f"{found}from a cluster with role: prefill", "leave it out, or add such a cluster"
        else:
            message = f"{found}from the prefill cluster {remote} to the pd cluster {pd}"
            fix = f"write from: {remote}, to: {pd}"
        self._context.add(here, "unusable-link", message, fix)
        return False

    def _check_hardware(self, model: Model, path: FieldPath, cluster: dict[str, Any], decodes: bool) -> None:
        hardware, here = cluster["hardware"], (*path, "hardware")
        if hardware is INVALID or hardware is None:
            return
        profile = model.profile(hardware)
        if profile is None:
            message = f"{model.name} has no profile for {hardware}, expected one of {', '.join(model.hardware)}"
            self._context.add(here, "unknown-hardware", message, suggestion(hardware, model.hardware))
        elif decodes and profile.decode is None:
            message = (
                f"{model.name} has no decode figures on {profile.hardware}, expected some on a cluster that decodes"
            )
            self._context.add(here, "missing-decode", message, "add decode to that profile of the model")
