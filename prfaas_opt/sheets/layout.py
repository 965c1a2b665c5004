"""How results look in a workbook: headers that people read, units, number formats, which figures come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from prfaas_opt.sheets.catalogue import Column, column_of
from prfaas_opt.study.columns import AS_GIVEN, EXTRA, INPUT, input_field
from prfaas_opt.study.fields import StudyField

if TYPE_CHECKING:
    import pyarrow as pa

Group = Literal["row", "input", "extra", "main", "other"]

COST = "cost.usd_per_thousand_requests"
MAIN = {
    "status": "Status",
    "served_rps": "Serves (req/s)",
    "throughput_rps": "Capacity (req/s)",
    "ratio": "Ratio to homogeneous",
    "threshold_tokens": "Threshold (tokens)",
    "offload_share": "Offloaded",
    "instances.prfaas": "Remote prefill instances",
    "instances.pd_prefill": "Local prefill instances",
    "instances.pd_decode": "Decode instances",
    "bottlenecks": "Limited by",
    "utilization.prfaas": "Remote prefill in use",
    "utilization.pd_prefill": "Local prefill in use",
    "utilization.pd_decode": "Decode in use",
    "utilization.egress": "Link in use",
    "egress_gbps": "Egress (Gbps)",
    "ttft_s.mean": "TTFT mean, no queues (s)",
    "ttft_s.p90": "TTFT P90, no queues (s)",
    "operating_point.ttft.p90_s": "TTFT P90 at that rate (s)",
    "cost.usd_per_hour": "Cost ($/h)",
    COST: "Cost ($/1,000 requests)",
    "cost.break_even_usd_per_gb": "Break-even egress price ($/GB)",
    "bound_rps": "Proven bound (req/s)",
    "error": "Why there is no plan",
}
"""The figures that come first, with the headers that people read."""

_NUMBER_FORMATS = {
    "share": "0.0%",
    "tokens": "#,##0",
    "instances": "#,##0",
    "req/s": "#,##0.0000",
    "Gbps": "#,##0.0##",
    "s": "#,##0.00##",
    "bytes": "#,##0",
}
_UNITS_IN_HEADERS = {"USD/h": "$/h", "USD per GPU-hour": "$/GPU-hour", "USD per GB": "$/GB"}
_NO_SHARE_IN_UNIT = frozenset({"share", "instances"})


class ShownColumn(Struct, frozen=True):
    """A column of the sheet of results.

    Attributes:
        name: of the column in the table.
        header: that people read.
        group: which part of the sheet it is of.
        is_number: whether its cells are numbers.
        number_format: of its cells.
        description: what it means.
        unit: in words.
    """

    name: str
    header: str
    group: Group
    is_number: bool
    number_format: str
    description: str
    unit: str

    @property
    def note(self) -> str:
        """What a reader of the header may want to know."""
        return "\n".join(filter(None, [self.description, self.unit and f"unit: {self.unit}", f"column: {self.name}"]))

    @property
    def width(self) -> float:
        """In characters."""
        if self.name == "row":
            return 6
        if self.name == "error":
            return 40
        return 14 if self.name == "ratio" else 12 if self.is_number else 17


def columns_shown(schema: pa.Schema) -> list[ShownColumn]:
    """The columns of the sheet of results: the row, what went in, the main figures, all others.

    Texts that are JSON are left out: they are for programs, which have them in the other formats; and so is the name as
    an input, which the row has already.
    """
    kept = [
        each
        for each in schema
        if (each.metadata or {}).get(b"form") != b"json" and each.name not in (AS_GIVEN, f"{INPUT}name")
    ]
    shown = [_shown(each) for each in kept]
    order: dict[Group, int] = {"row": 0, "input": 1, "extra": 2, "main": 3, "other": 4}
    firsts = {name: index for index, name in enumerate(MAIN)}
    return sorted(shown, key=lambda each: (order[each.group], firsts.get(each.name, 0)))


def _shown(field: pa.Field[Any]) -> ShownColumn:
    told = {key.decode(): text.decode() for key, text in (field.metadata or {}).items()}
    unit, name = told.get("unit", ""), field.name
    is_number = str(field.type) in ("int64", "double")
    number_format = _format_of(unit, str(field.type)) if is_number else "General"
    group: Group = "other"
    if name in ("row", "name"):
        group, header = "row", name.capitalize()
    elif name.startswith(INPUT):
        found = input_field(name) or StudyField(name.removeprefix(INPUT))
        group, header = "input", header_of(found)
        known = _known(found)
        if known is not None:
            told["description"] = known.doc
            number_format = known.number_format if is_number else "General"
    elif name.startswith(EXTRA):
        group, header = "extra", name.removeprefix(EXTRA)
    elif name in MAIN:
        group, header = "main", MAIN[name]
    else:
        header = f"{name} ({_UNITS_IN_HEADERS.get(unit, unit)})" if unit and unit not in _NO_SHARE_IN_UNIT else name
    return ShownColumn(name, header, group, is_number, number_format, told.get("description", ""), unit)


def header_of(field: StudyField) -> str:
    """The header of a field, in the unit that its column is in.

    >>> header_of(StudyField("links.0.rtt")), header_of(StudyField("clusters.pd.instances"))
    ('RTT (s)', 'PD instances')
    """
    column = _known(field)
    if column is None:
        return f"{field.text} ({field.form.unit})" if field.form.unit else field.text
    return f"{column.name} ({field.form.unit})" if field.form.unit else column.header


def _format_of(unit: str, type_name: str) -> str:
    if unit in _NUMBER_FORMATS:
        return _NUMBER_FORMATS[unit]
    if unit.startswith("USD"):
        return "#,##0.00##"
    return "#,##0" if type_name == "int64" else "#,##0.0###"


def _known(field: StudyField) -> Column | None:
    """The column that sheets of scenarios have for a field."""
    try:
        return column_of(".".join(field.steps))
    except KeyError:
        return None
