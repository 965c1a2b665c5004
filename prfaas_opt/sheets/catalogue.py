"""Every column that sheets may have: its header, the field that it fills, its unit, what it means, an example.

The one place for headers: reading matches them, templates and result books write them, the reference lists them. What a
scenario's column means is what the field's specification says.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prfaas_opt.io.spec import Field

Kind = Literal["text", "choice", "count", "number", "share", "tokens", "bandwidth", "duration", "size", "usd", "plain"]
"""What the cells of a column hold, which tells the units that they may have; ``plain``: nobody knows."""

REMOTE, PD = "prfaas", "pd"
"""Names of the clusters that a sheet fills where no base scenario names its own."""
PRICE_OF_ALL = "price_per_gpu_hour"
"""The column of a price for every cluster that has none of its own; no field of a scenario."""

_FORMATS: dict[Kind, str] = {
    "text": "General",
    "choice": "General",
    "plain": "General",
    "count": "#,##0",
    "tokens": "#,##0",
    "share": "0.0%",
    "usd": "#,##0.00",
    "number": "#,##0.0##",
    "bandwidth": "#,##0.0##",
    "duration": "#,##0.0##",
    "size": "#,##0.0##",
}
_WITH_UNIT = frozenset({"number", "tokens", "bandwidth", "duration", "size", "usd"})


class Column(Struct, frozen=True):
    """A column that sheets may have.

    Attributes:
        path: of the field that it fills, as ``--set`` takes it; for extra sheets the key of a row.
        header: as templates write it, its unit included: ``Link (Gbps)``.
        kind: what its cells hold.
        example: a cell of it, as a spreadsheet program would hold it; None where an example has none.
        synonyms: other headers, without unit.
        doc: what it means.
        choices: the words that it takes, for ``choice``.
    """

    path: str
    header: str
    kind: Kind
    example: str | float | None = None
    synonyms: tuple[str, ...] = ()
    doc: str = ""
    choices: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit that the header states, which a bare number is in; "" where none is needed."""
        return self.header.rpartition(" (")[2].rstrip(")") if self.kind in _WITH_UNIT and "(" in self.header else ""

    @property
    def name(self) -> str:
        """The header without its unit."""
        return self.header.removesuffix(f" ({self.unit})")

    @property
    def number_format(self) -> str:
        """Of its cells in a workbook."""
        return _FORMATS[self.kind]


def _cluster(cluster: str, label: str, words: tuple[str, ...], hardware: str, instances: int) -> Iterable[Column]:
    """The columns of a cluster; ``words`` are other ways to name it."""

    def column(field: str, header: str, kind: Kind, example: str | float | None, *forms: str) -> Column:
        plain = header.format(label).rpartition(" (")[0] if kind in _WITH_UNIT else header.format(label)
        others = [form.format(word) for form in forms for word in (label, *words)]
        others += [plain.replace(label, word) for word in words]
        return Column(f"clusters.{cluster}.{field}", header.format(label), kind, example, tuple(others))

    gpu = f"GPU ({label if label == 'PD' else label.lower()})"
    types = ("{} GPU", "{} hardware", "{} accelerator", "{} GPU type", "{} GPU model", "{} hardware type")
    yield column("hardware", gpu, "text", hardware, *types)
    counted: tuple[str, ...] = ("number of {} instances", "{} instance count", "# {} instances", "no. of {} instances")
    yield column("instances", "{} instances", "count", instances, *counted)
    counted = ("number of {} GPUs", "{} GPU count", "# {} GPUs", "no. of {} GPUs")
    yield column("gpus", "{} GPUs", "count", None, *counted)
    ceilings = ("{} utilization ceiling", "{} utilization limit", "{} maximum utilization", "{} max util")
    yield column("max_utilization", "{} max utilization", "share", None, *ceilings)
    prices = ("{} price per GPU hour", "{} GPU price", "{} GPU hour price", "{} USD per GPU hour", "{} GPU cost")
    yield column("price_per_gpu_hour", "{} price ($/GPU-hour)", "usd", None, *prices)
    contexts = ("{} maximum context", "{} context limit", "{} max context length")
    yield column("max_context", "{} max context (tokens)", "tokens", None, *contexts)
    yield column("kv_format", "{} KV format", "text", None, "{} KVCache format", "{} KV dtype")
    yield column("nic", "{} NIC (Gbps)", "bandwidth", None, "{} NIC bandwidth", "{} NIC rate", "{} network card")


def _link() -> Iterable[Column]:
    def column(field: str, header: str, kind: Kind, *synonyms: str, example: float | None = None) -> Column:
        return Column(f"links.0.{field}", header, kind, example, synonyms)

    speeds = ("link bandwidth", "bandwidth", "link rate", "link speed", "link capacity", "network bandwidth")
    others = ("BW", "link BW", "network BW", "network", "WAN", "WAN bandwidth", "inter DC link", "inter DC bandwidth")
    yield column("bandwidth", "Link (Gbps)", "bandwidth", *speeds, *others, example=100)
    ceilings = ("link utilization ceiling", "link utilization limit", "link maximum utilization", "link max util")
    yield column("max_utilization", "Link max utilization", "share", *ceilings)
    rates = ("link price per Gbps hour", "bandwidth price", "link cost")
    yield column("price_per_gbps_hour", "Link price ($/Gbps-hour)", "usd", *rates)
    sent = ("price per GB", "link price per GB", "egress price per GB", "egress cost", "transfer price")
    yield column("price_per_gb", "Egress price ($/GB)", "usd", *sent)
    yield column("rtt", "RTT (ms)", "duration", "link RTT", "round trip", "round trip time", "link round trip time")
    yield column("flows", "Flows", "count", "link flows", "parallel flows", "TCP flows")
    yield column("flow_cap", "Flow cap (Gbps)", "bandwidth", "link flow cap", "per flow cap")
    yield column("window", "Window (MiB)", "size", "link window", "TCP window", "window size")
    yield column("request_flows", "Flows per request", "count", "request flows", "link request flows")
    yield column("request_cap", "Request cap (Gbps)", "bandwidth", "link request cap", "per request cap")


def _objectives() -> Iterable[Column]:
    rates = ("SLO tokens per s", "decode SLO", "SLO rate", "SLO speed", "token rate SLO", "tokens per s SLO")
    yield Column("slo.tokens_per_s", "SLO (tokens/s)", "number", 40, rates)
    for p in ("P50", "P90", "P95", "P99"):
        others = (f"TTFT {p}", f"TTFT {p} limit", f"time to first token {p}", f"time to first token {p} SLO")
        yield Column(f"slo.ttft.{p.lower()}", f"TTFT {p} SLO (s)", "duration", None, others)
    loads = ("request rate", "load", "requests per s")
    yield Column("demand_rps", "Demand (req/s)", "number", None, loads)


def _terms() -> Iterable[Column]:
    yield Column("arrivals.cv2", "Arrivals CV2", "number", None, ("arrival CV2", "CV2"))
    sent = ("missing_at_destination", "full_prompt")
    yield Column("transfer.bytes", "Transfer bytes", "choice", None, ("what is sent",), choices=sent)
    yield Column(
        "transfer.overlap", "Transfer overlap", "choice", None, ("overlap",), choices=("layer", "chunk", "none")
    )
    compressions = ("transfer compression", "KVCache compression", "compression ratio", "compression")
    yield Column("transfer.compression", "KV compression", "number", None, compressions)
    yield Column("transfer.chunk_tokens", "Chunk (tokens)", "tokens", None, ("transfer chunk", "chunk size"))
    where = ("dedicated", "on_decode")
    yield Column("local_prefill", "Local prefill", "choice", None, ("local prefill mode",), choices=where)
    staying = ("stay share", "must stay share", "share that must stay", "residency share", "residency")
    yield Column("residency.stay_share", "Must stay", "share", None, staying)
    means = ("expected-time", "mean-length")
    yield Column("estimator", "Estimator", "choice", choices=means)
    hardware = ("baseline hardware", "baseline accelerator", "GPU (baseline)")
    yield Column("baseline.hardware", "Baseline GPU", "text", None, hardware)
    yield Column("baseline.instances", "Baseline instances", "count", None, ("baseline instance count",))
    prices = ("baseline price per GPU hour", "baseline GPU price")
    yield Column("baseline.price_per_gpu_hour", "Baseline price ($/GPU-hour)", "usd", None, prices)


def _scenario() -> Iterable[Column]:
    yield Column("name", "Name", "text", "case study", ("scenario", "scenario name", "case", "case name"))
    yield Column("model", "Model", "text", "internal-1t", ("model name", "LLM"))
    traffic = ("workload name", "traffic", "traffic profile", "traffic mix")
    yield Column("workload", "Workload", "text", "prfaas-case-study", traffic)
    remote = ("prefill cluster", "remote prefill", "remote cluster", "remote", REMOTE)
    yield from _cluster(REMOTE, "Prefill", remote, "H200", 4)
    yield from _cluster(PD, "PD", ("PD cluster", "local cluster", "local"), "H20", 8)
    yield from _link()
    yield from _objectives()
    yield from _terms()
    doc = "USD per GPU-hour of every cluster that has no price of its own"
    yield Column(PRICE_OF_ALL, "Price ($/GPU-hour)", "usd", None, _PRICES, doc)


_HARDWARE = ("GPU", "accelerator", "GPU type", "GPU model", "hardware type")
_LENGTHS = (
    "lengths",
    "input length",
    "prompt length",
    "prompt",
    "input tokens",
    "prompt tokens",
    "ISL",
    "input",
    "in tokens",
)
_PRICES = ("price per GPU hour", "GPU price", "GPU hour price", "USD per GPU hour")


def _profile() -> Iterable[Column]:
    yield Column("model", "Model", "text", "my-model", ("model name", "LLM"), "the model's name, as scenarios name it")
    yield Column("hardware", "Hardware", "text", "H200", _HARDWARE, "accelerator that was measured")
    counts = ("GPUs", "GPU count", "GPUs an instance", "instance GPUs")
    yield Column("gpus_per_instance", "GPUs per instance", "count", 8, counts, "GPUs that one instance takes")
    yield Column("engine", "Engine", "text", None, ("serving engine",), "serving engine and version")
    yield Column("length", "Length (tokens)", "tokens", 32768, _LENGTHS, "prompt length of the point")
    times = ("prefill latency", "prefill time", "TTFT", "time to first token")
    yield Column("latency", "Latency (s)", "duration", 1.84, times, "prefill latency at that length")
    doc = "time that a prompt takes an instance; default: its latency"
    yield Column("occupancy", "Occupancy (s)", "duration", None, ("prefill occupancy",), doc)
    sizes = ("KV cache", "KVCache", "KV cache size", "KVCache size", "KV", "KV bytes")
    yield Column("kv_size", "KV size (MiB)", "size", 701.3, sizes, "KVCache of a prompt of that length")
    yield Column("batch", "Batch", "count", 20, ("decode batch", "batch size"), "requests decoded together")
    steps = ("decode step", "step time", "decode step time", "ITL", "TPOT", "inter token latency")
    others = (*steps, "time per output token")
    yield Column("step", "Step (ms)", "duration", 25, others, "time of one decode step at that batch")
    contexts = ("decode context", "mean context")
    yield Column("context", "Context (tokens)", "tokens", None, contexts, "mean context of the requests in a batch")
    doc = "where the figures come from: measured, paper, derived, fitted or assumed, then a comma and the source"
    yield Column("source", "Source", "text", "measured, vLLM 0.9", ("provenance",), doc)


def _workload() -> Iterable[Column]:
    yield Column("name", "Workload", "text", "my-workload", ("name", "workload name"), "its name, as scenarios name it")
    distributions = ("truncated-lognormal", "uniform", "constant")
    others, doc = ("input distribution", "length distribution"), "of uncached prompt lengths"
    yield Column("distribution", "Distribution", "choice", distributions[0], others, doc, distributions)
    yield Column("mu", "Mu", "number", 9.9, ("input mu", "\u03bc"), "mean of ln(tokens)")
    yield Column("sigma", "Sigma", "number", 1.0, ("input sigma", "\u03c3"), "standard deviation of ln(tokens)")
    yield Column("low", "Low (tokens)", "tokens", 128, ("shortest", "min length", "min"), "shortest length")
    yield Column("high", "High (tokens)", "tokens", 131072, ("longest", "max length", "max"), "longest length")
    yield Column("value", "Constant length (tokens)", "tokens", None, ("value",), "the one length")
    yield Column("length", "Length (tokens)", "tokens", None, _LENGTHS, "a length of a table, a row each")
    weights = ("weights", "share", "requests", "count", "probability")
    yield Column("weight", "Weight", "share", None, weights, "weight of that length; any positive sum")
    outputs = ("output length", "output", "OSL", "generated tokens", "output tokens", "out tokens")
    yield Column("output_tokens", "Output (tokens)", "tokens", 1024, outputs, "generated length")
    doc = "share of every whole prompt found in a prefix cache"
    hits = ("cached", "prefix cache share", "cache hit", "cache hit rate", "prefix cache hit rate")
    yield Column("cached_share", "Cached share", "share", None, hits, doc)


def _price() -> Iterable[Column]:
    items = (*_HARDWARE, "item", "resource")
    rates = ("price", "list price", "rate", "hourly rate", "price per hour", "cost per GPU hour", "GPU cost")
    yield Column("hardware", "Hardware", "text", "H200", items, "accelerator; link, or nothing, for the link")
    yield Column(PRICE_OF_ALL, "Price ($/GPU-hour)", "usd", 2.5, (*_PRICES, *rates), "USD per GPU-hour")
    links = ("link price", "bandwidth price")
    doc = "USD per Gbps of bandwidth and hour, of the link"
    yield Column("price_per_gbps_hour", "Link price ($/Gbps-hour)", "usd", None, links, doc)
    doc = "USD per GB that is sent, of the link"
    yield Column("price_per_gb", "Egress price ($/GB)", "usd", None, ("egress price", "price per GB"), doc)


PROFILE_COLUMNS: tuple[Column, ...] = tuple(_profile())
"""Of sheets that hold a model's curves: a point a row, of prefill by length or of decode by batch."""
WORKLOAD_COLUMNS: tuple[Column, ...] = tuple(_workload())
"""Of sheets that hold workloads: a distribution a row, or a length and its weight a row."""
PRICE_COLUMNS: tuple[Column, ...] = tuple(_price())
"""Of sheets that hold prices, which hold for scenarios that state none."""


@cache
def scenario_columns() -> tuple[Column, ...]:
    """The columns of a sheet of scenarios, with what each field's specification says of it."""
    return tuple(
        column if column.doc else structs.replace(column, doc=specification(column.path).doc) for column in _scenario()
    )


def specification(path: str) -> Field:
    """The specification of a scenario's field.

    Raises:
        KeyError: no field has this path.
    """
    from prfaas_opt.io.scenario_file import SCENARIO
    from prfaas_opt.io.spec import ListOf, MapOf, Record

    kind: Any = SCENARIO
    found: Field | None = None
    for step in path.split("."):
        if isinstance(kind, MapOf) or (isinstance(kind, ListOf) and step.isdecimal()):
            kind = kind.item
        elif isinstance(kind, Record) and step in kind.fields:
            found = kind.fields[step]
            kind = found.kind
        else:
            raise KeyError(path)
    if found is None or isinstance(kind, Record | MapOf | ListOf):
        raise KeyError(path)
    return found


def column_of(path: str) -> Column:
    """The column that fills a field.

    Raises:
        KeyError: none does.

    >>> column_of("links.0.bandwidth").header
    'Link (Gbps)'
    """
    for column in scenario_columns():
        if column.path == path:
            return column
    raise KeyError(path)
