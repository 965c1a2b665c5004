"""How the fields of a scenario file fit together, and the fleet that they make."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from prfaas_opt.fleet import Connection, Fleet, Holding, Limits, Site, Stream
from prfaas_opt.io.document import dotted
from prfaas_opt.io.spec import INVALID, suggestion
from prfaas_opt.io.terms_fields import ADMISSION_FIELDS, MeasuredBandwidth, admission_of, route_of, service_of
from prfaas_opt.io.two_pools import beyond_two_pools
from prfaas_opt.terms import Service

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.io.spec import Context
    from prfaas_opt.profiles.model import Model, Profile


class _Entry(Struct, frozen=True):
    """An entry of the traffic as it was read; the fields of a single one may stand at the top of the file."""

    path: FieldPath
    model: Any
    workload: Any
    demand_rps: Any
    slo: Any = None
    name: Any = None
    cluster: Any = None


class _Stock(Struct, frozen=True):
    """Hardware of one kind in a cluster as it was read.

    Attributes:
        hardware: its name.
        named_at: path of the name.
        path: path of the other fields.
        fields: what they hold.
    """

    hardware: Any
    named_at: FieldPath
    path: FieldPath
    fields: dict[str, Any]

    @property
    def unit(self) -> str:
        """The field that says how much there is: instances or gpus."""
        return "gpus" if self.fields["instances"] is None else "instances"


class Assembly:
    """Checks how the fields of a scenario fit together, whatever of them reads well, and puts them together."""

    def __init__(self, context: Context, values: dict[str, Any]) -> None:
        self._context, self._values = context, values
        clusters = values["clusters"]
        self._clusters: dict[str, dict[str, Any]] = {} if clusters is INVALID else clusters
        self._stocks = {name: _stocks(name, cluster) for name, cluster in self._clusters.items()}
        roles = [cluster["role"] for cluster in self._clusters.values()]
        self._roles_read_well = clusters is not INVALID and INVALID not in roles
        self._pds, self._remotes = (
            [name for name, cluster in self._clusters.items() if cluster["role"] == role] for role in ("pd", "prefill")
        )
        self._entries = _entries(values)
        models = [entry.model for entry in self._entries]
        # By name; none where one of them is in doubt, since nothing can be said of hardware then.
        self._models: dict[str, Model] = {} if INVALID in models else {m.name: m for m in reversed(models)}

    def check(self) -> None:
        """Notes what does not fit."""
        self._check_traffic()
        if self._roles_read_well and not self._pds:
            message = "no cluster decodes, expected one with role: pd"
            self._context.add(("clusters",), "missing-key", message, "give one the role pd")
        if self._values["links"] is not INVALID and self._values["clusters"] is not INVALID:
            self._check_links(self._values["links"])
        if self._models:
            self._check_hardware()
        self._check_what_two_pools_have()

    def fleet(self) -> Fleet:
        """The fleet of all that reads well."""
        values = self._values
        links = () if values["links"] is INVALID else values["links"]
        return Fleet(
            name=values["name"],
            streams=tuple(
                self._stream(entry, name)
                for entry, name in zip(self._entries, self._stream_names, strict=True)
                if INVALID not in structs.astuple(entry) and self._models and self._values["slo"] is not INVALID
            ),
            sites=tuple(
                Site(name, cluster["role"], tuple(self._holdings(name)), admission_of(cluster))
                for name, cluster in self._clusters.items()
                if INVALID not in (cluster[key] for key in ("role", *ADMISSION_FIELDS))
            ),
            connections=tuple(_connection(link) for link in links if INVALID not in link.values()),
            estimator=values["estimator"],
            service=self._service(),
            origin=self._context.document,
        )

    def _service(self) -> Service:
        """How requests are served, where those fields read well."""
        values, slo = self._values, self._values["slo"]
        if len(self._entries) == 1 and self._entries[0].slo is not None:
            slo = self._entries[0].slo
        fields = (
            values["arrivals"],
            values["transfer"],
            values["local_prefill"],
            values["residency"],
            values["links"],
            slo,
        )
        return Service() if INVALID in fields else service_of(values, slo, self._context.document.data)

    # Traffic

    def _check_traffic(self) -> None:
        if "demand_rps" in self._context.document.data and self._values["traffic"] is not None:
            message = "does not belong beside traffic, expected it in the entries of traffic"
            self._context.add(("demand_rps",), "misplaced-key", message, "give each entry its demand_rps")
        for entry in self._entries:
            if len(self._entries) > 1 and entry.demand_rps is None:
                message = "is missing, expected a positive number: each of several entries says its demand"
                self._context.add((*entry.path, "demand_rps"), "missing-key", message, "add it: requests/s to serve")
            if entry.cluster not in (None, INVALID) and self._roles_read_well:
                self._check_destination(entry)
        if self._models:
            self._check_names()

    def _check_destination(self, entry: _Entry) -> None:
        here = (*entry.path, "cluster")
        if entry.cluster not in self._clusters:
            message = f'there is no cluster "{entry.cluster}"'
            self._context.add(here, "unknown-name", message, suggestion(entry.cluster, self._pds))
        elif entry.cluster not in self._pds:
            message = f"{entry.cluster} does not decode, expected a cluster with role: pd"
            fix = f"name one of: {', '.join(self._pds)}" if self._pds else "leave it out"
            self._context.add(here, "unusable-cluster", message, fix)

    def _check_names(self) -> None:
        """A stream has a name of its own, and so has a model."""
        first: dict[str, _Entry] = {}
        names: list[str] = []
        for entry, name in zip(self._entries, self._stream_names, strict=True):
            same = first.setdefault(entry.model.name, entry)
            if same.model != entry.model:
                message = f'is not the "{entry.model.name}" of {dotted(same.path)}, expected one model of that name'
                self._context.add((*entry.path, "model"), "duplicate-key", message, "give one of them another name")
            if name is None:
                message = f"is missing, expected a name: other entries have {entry.model.name} as well"
                self._context.add((*entry.path, "name"), "missing-key", message, "add it, to tell them apart")
            elif name in names:
                message = f'another entry is called "{name}", expected a name of its own'
                self._context.add((*entry.path, "name"), "duplicate-key", message, "give it another name")
            elif name is not INVALID:
                names.append(name)

    @cached_property
    def _stream_names(self) -> list[Any]:
        """The name of each entry; None where it needs one."""
        models = Counter(name for entry in self._entries if (name := _model_name(entry)))
        ends = Counter((_model_name(entry), entry.cluster) for entry in self._entries)
        names = []
        for entry in self._entries:
            model = _model_name(entry)
            if entry.name is None and models[model] == 1:
                names.append(model)
            elif entry.name is None and entry.cluster and ends[model, entry.cluster] == 1:
                names.append(f"{model} to {entry.cluster}")
            else:
                names.append(entry.name)
        return names

    def _stream(self, entry: _Entry, name: str) -> Stream:
        slo = self._values["slo"] if entry.slo is None else entry.slo
        demand_rps = 1.0 if entry.demand_rps is None else entry.demand_rps
        model = self._models[entry.model.name]  # one object, however many entries name it
        return Stream(name, model, entry.workload, demand_rps, entry.cluster, slo["tokens_per_s"])

    # Links

    def _check_links(self, links: tuple[dict[str, Any], ...]) -> None:
        fit = [self._fits(index, link) for index, link in enumerate(links)]
        for index, fields in enumerate(links):
            self._check_flows(index, fields)
        if not self._roles_read_well or not self._pds or not all(fit):
            return
        ends = [(link["from"], link["to"]) for link in links]
        for index, pair in enumerate(ends):
            if pair in ends[:index]:
                message = "connects the same clusters as a link before it, expected one link"
                self._context.add(("links", index), "duplicate-key", message, "add up their bandwidths in one link")
        for remote in self._remotes:
            if all(source != remote for source, _ in ends):
                pd = self._pds[0] if len(self._pds) == 1 else "a pd cluster"
                message = f"no link goes from {remote} to {pd}, so nothing can be offloaded to it"
                link = f"{{from: {remote}, to: {self._pds[0]}, bandwidth: 100Gbps}}"
                fix = f"add {link} to links" if links else f"add links: [{link}]"
                self._context.add(("links",), "missing-link", message, f"{fix}, or leave {remote} out")

    def _check_flows(self, index: int, link: dict[str, Any]) -> None:
        """What one flow carries limits a link whose flows are counted; a window does with a round trip."""
        stated = [key for key in ("flow_cap", "window", "request_flows") if link[key] is not None]
        if stated and link["flows"] is None:
            message = f"is missing, expected the number of flows: without it {stated[0]} would limit nothing"
            self._context.add(("links", index, "flows"), "missing-key", message, f"add it, or leave {stated[0]} out")
        if link["window"] is not None and "rtt" not in self._context.document.at(("links", index)):
            message = "is missing, expected the round-trip time: without it window would limit nothing"
            self._context.add(("links", index, "rtt"), "missing-key", message, "add it, or leave window out")

    def _fits(self, index: int, link: dict[str, Any]) -> bool:
        """Whether a link leads from a prefill cluster to a pd cluster, as far as can be told."""
        here: FieldPath = ("links", index)
        unknown = [key for key in ("from", "to") if link[key] is INVALID or link[key] not in self._clusters]
        for key in unknown:
            if link[key] is not INVALID:
                message = f'there is no cluster "{link[key]}"'
                self._context.add((*here, key), "unknown-name", message, suggestion(link[key], self._clusters))
        pds, remotes = self._pds, self._remotes
        if unknown or not self._roles_read_well or not pds or (link["from"] in remotes and link["to"] in pds):
            return not unknown
        found = f"goes from {link['from']} to {link['to']}, expected a link "
        if not remotes:
            message, fix = f"{found}from a cluster with role: prefill", "leave it out, or add such a cluster"
        else:
            remote, pd = (
                f"the {kind} cluster {names[0]}" if len(names) == 1 else f"a {kind} cluster"
                for kind, names in (("prefill", remotes), ("pd", pds))
            )
            message = f"{found}from {remote} to {pd}"
            fix = f"write from: {' or '.join(remotes[:3])}, to: {' or '.join(pds[:3])}"
        self._context.add(here, "unusable-link", message, fix)
        return False

    # Hardware

    def _check_hardware(self) -> None:
        """Hardware is of use to some model, and each stream is decoded somewhere."""
        decoded_in = {name: self._check_cluster(name) for name in self._clusters}
        for entry in self._entries:
            targets = self._pds if entry.cluster is None else [entry.cluster]
            found = [decoded_in.get(target) for target in targets]
            # A cluster in doubt may decode it; one that decodes nothing has been complained about.
            if any(models is None or entry.model.name in models for models in found) or not any(found):
                continue
            message = f"{entry.model.name} has no decode figures on any hardware of {' or '.join(targets[:3])}"
            fix = "add decode to one of its profiles, or hardware that it decodes on"
            self._context.add(entry.path, "missing-decode", f"{message}, expected some where it is decoded", fix)

    def _check_cluster(self, name: str) -> set[str] | None:
        """The names of the models that a pd cluster decodes; None where that is in doubt."""
        stocks = self._stocks[name]
        profiles = [self._check_stock(stock) for stock in stocks]
        spelt = [stock.hardware.casefold() for stock in stocks if stock.hardware is not INVALID]
        for index, stock in enumerate(stocks):
            if stock.hardware is not INVALID and spelt[index] in spelt[:index]:
                message = "is the same hardware as one before it, expected it once"
                self._context.add(stock.named_at, "duplicate-key", message, "add up the two")
        if self._clusters[name]["role"] != "pd" or not profiles or not all(profiles):
            return None
        decoded = {model for by_model in profiles for model, profile in by_model.items() if profile.decode}
        if not decoded:
            here = stocks[0].named_at if len(stocks) == 1 else ("clusters", name, "hardware")
            self._no_decode(" or ".join(next(iter(by_model.values())).hardware for by_model in profiles[:3]), here)
        return decoded

    def _check_stock(self, stock: _Stock) -> dict[str, Profile]:
        """The profiles on a kind of hardware by model; none where that is in doubt."""
        if stock.hardware is INVALID:
            return {}
        profiles = {name: profile for name, model in self._models.items() if (profile := model.profile(stock.hardware))}
        if not profiles:
            self._unknown_hardware(stock.hardware, stock.named_at)
        gpus = {profile.gpus_per_instance: name for name, profile in profiles.items()}
        if stock.unit == "instances" and stock.fields["instances"] is not INVALID and len(gpus) > 1:
            sizes = ", ".join(f"{size} GPUs of {name}" for size, name in sorted(gpus.items())[:3])
            message = f"an instance takes {sizes}, expected a number of GPUs"
            self._context.add((*stock.path, "instances"), "ambiguous", message, "give gpus instead of instances")
        return profiles

    def _check_what_two_pools_have(self) -> None:
        """Only two pools have a baseline, whose hardware decodes, and mean-length."""
        baseline, beyond = self._values["baseline"], beyond_two_pools(self.fleet())
        if beyond:
            message = f"is not supported in a fleet, which this is with {beyond[0][1]}"
            if "baseline" in self._context.document.data:
                self._context.add(("baseline",), "not-supported", message, "leave baseline out")
            if self._values["estimator"] == "mean-length":
                self._context.add(("estimator",), "not-supported", f"mean-length {message}", "write expected-time")
            for path in self._stated_terms():
                self._context.add(path, "not-supported", message, f"leave {path[-1]} out")
            return
        if self._values["estimator"] == "mean-length":
            self._check_estimator()
        if baseline is not INVALID and baseline["hardware"] not in (None, INVALID):
            for model in self._models.values():
                profile, here = model.profile(baseline["hardware"]), ("baseline", "hardware")
                if profile is None:
                    self._unknown_hardware(baseline["hardware"], here)
                elif profile.decode is None:
                    self._no_decode(profile.hardware, here)

    def _stated_terms(self) -> list[FieldPath]:
        """The terms that only a plan of two pools knows, where they are stated."""
        data = self._context.document.data
        found: list[FieldPath] = [(key,) for key in ("arrivals", "local_prefill", "residency") if key in data]
        found += [
            ("clusters", name, key)
            for name in self._clusters
            for key in ("max_context", "nic")
            if key in data["clusters"][name]
        ]
        found += [("slo", "ttft")] if "ttft" in data.get("slo", {}) else []
        found += [(*entry.path, "slo", "ttft") for entry in self._entries if entry.slo and entry.slo["ttft"]]
        return found

    def _check_estimator(self) -> None:
        """Mean-length is the paper's estimator, and knows the paper's terms only."""
        service, data = self._service(), self._context.document.data
        beyond: list[tuple[FieldPath, bool]] = [
            (("slo", "ttft"), bool(service.ttft)),
            (("local_prefill",), service.local_prefill == "on_decode"),
            (("residency",), service.stay_share > 0),
            *((("clusters", name, "max_context"), "max_context" in data["clusters"][name]) for name in self._clusters),
        ]
        for path, stated in beyond:
            if stated:
                message = "needs mean service times, but found estimator mean-length"
                self._context.add(path, "not-supported", message, "write estimator: expected-time, or leave it out")

    def _unknown_hardware(self, hardware: str, here: FieldPath) -> None:
        known = list(dict.fromkeys(each for model in self._models.values() for each in model.hardware))
        message = f"{self._none_has('profile')} for {hardware}, expected one of {', '.join(known)}"
        self._context.add(here, "unknown-hardware", message, suggestion(hardware, known))

    def _no_decode(self, hardware: str, here: FieldPath) -> None:
        message = f"{self._none_has('decode figures')} on {hardware}, expected some on a cluster that decodes"
        self._context.add(here, "missing-decode", message, "add decode to that profile of the model")

    def _none_has(self, what: str) -> str:
        """How a sentence begins that says what no model has."""
        if len(self._models) > 1:
            return f"no model of the traffic has {'a ' if what == 'profile' else ''}{what}"
        return f"{next(iter(self._models))} has no {what}"

    def _holdings(self, cluster: str) -> list[Holding]:
        holdings = []
        for stock in self._stocks[cluster]:
            gpus = self._gpus(stock)
            if gpus is not None and INVALID not in stock.fields.values():
                ceiling, price = stock.fields["max_utilization"], stock.fields["price_per_gpu_hour"]
                holdings.append(Holding(stock.hardware, gpus, ceiling, price))
        return holdings

    def _gpus(self, stock: _Stock) -> Limits | None:
        """How many GPUs there are; None where that is in doubt."""
        amount = stock.fields[stock.unit]
        if INVALID in (amount, stock.hardware):
            return None
        given = _limits(amount)
        if stock.unit == "gpus":
            return given
        profiles = (model.profile(stock.hardware) for model in self._models.values())
        size = next((profile.gpus_per_instance for profile in profiles if profile), None)
        return None if size is None else Limits(given.least * size, given.most * size)


def _entries(values: dict[str, Any]) -> tuple[_Entry, ...]:
    """The entries of the traffic; none where it does not read well."""
    traffic = values["traffic"]
    if traffic is None:
        return (_Entry((), values["model"], values["workload"], values["demand_rps"]),)
    return () if traffic is INVALID else tuple(_Entry(("traffic", i), **entry) for i, entry in enumerate(traffic))


def _stocks(name: str, cluster: dict[str, Any]) -> list[_Stock]:
    """What a cluster holds, whether it names one kind of hardware or maps several."""
    path: FieldPath = ("clusters", name)
    hardware, named_at = cluster["hardware"], (*path, "hardware")
    if "instances" in cluster:
        return [_Stock(hardware, named_at, path, cluster)]
    if hardware is INVALID:
        return []
    return [_Stock(kind, (*named_at, kind), (*named_at, kind), fields) for kind, fields in hardware.items()]


def _model_name(entry: _Entry) -> str:
    return "" if entry.model is INVALID else entry.model.name


def _limits(amount: Any) -> Limits:
    if isinstance(amount, MeasuredBandwidth):
        return Limits(amount.bytes_per_s, amount.bytes_per_s)
    return amount if isinstance(amount, Limits) else Limits(amount, amount)


def _connection(link: dict[str, Any]) -> Connection:
    return Connection(
        source=link["from"],
        destination=link["to"],
        bandwidth_bytes_per_s=_limits(link["bandwidth"]),
        max_utilization=link["max_utilization"],
        usd_per_gbps_hour=link["price_per_gbps_hour"],
        usd_per_gb=link["price_per_gb"],
        route=route_of(link),
    )
