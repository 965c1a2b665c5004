"""A column for every figure of a struct: derived from its declaration, so that a new field is a column by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, inspect

if TYPE_CHECKING:
    import pyarrow as pa

_ENCODER = msgspec.json.Encoder()

ColumnType = Literal["int64", "float64", "bool", "string"]


def arrow_type(name: ColumnType) -> pa.DataType:
    """The Arrow type of a column."""
    import pyarrow as pa

    types: dict[ColumnType, pa.DataType] = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "string": pa.string(),
    }
    return types[name]


class Column(Struct, frozen=True):
    """One column of a table.

    Attributes:
        name: in the table.
        type: of its values.
        unit: in words; empty where there is none.
        description: what it holds.
        is_json: whether its texts are JSON.
    """

    name: str
    type: ColumnType
    unit: str = ""
    description: str = ""
    is_json: bool = False


class _Node(Struct, frozen=True):
    """A field of a struct: a column, or a struct or pair with fields of its own.

    Attributes:
        get: the field of an object.
        column: what it is in a table; None where it has nodes inside.
        inside: the fields of what it holds.
        convert: from the field to the column's value; None takes it as it is.
    """

    get: Callable[[Any], Any]
    column: Column | None
    inside: tuple[_Node, ...] = ()
    convert: Callable[[Any], Any] | None = None

    def columns(self) -> Iterator[Column]:
        """The columns, in the order of ``arrays``."""
        if self.column is not None:
            yield self.column
        for node in self.inside:
            yield from node.columns()

    def arrays(self, objects: Sequence[Any]) -> Iterator[pa.Array[Any]]:
        """The columns' values for objects that have this field."""
        values = list(map(self.get, objects))
        if self.column is None:
            yield from arrays_of(self.inside, values)
        else:
            yield _array(values if self.convert is None else _each(self.convert, values), self.column.type)


def arrays_of(nodes: Sequence[_Node], objects: Sequence[Any]) -> Iterator[pa.Array[Any]]:
    """The values of all columns under some nodes; null where there is no object."""
    import pyarrow as pa

    there = [each for each in objects if each is not None]
    if len(there) == len(objects):
        for node in nodes:
            yield from node.arrays(objects)
    elif not there:
        for column in columns_of(nodes):
            yield pa.array([None] * len(objects), arrow_type(column.type))
    else:
        counter = iter(range(len(there)))
        rows = pa.array([None if each is None else next(counter) for each in objects], pa.int32())
        for node in nodes:
            for array in node.arrays(there):
                yield array.take(rows)


def columns_of(nodes: Sequence[_Node]) -> list[Column]:
    """The columns under some nodes."""
    return [column for node in nodes for column in node.columns()]


def _each(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _array(values: list[Any], type_name: ColumnType) -> pa.Array[Any]:
    """An array; what is no finite number is null, as it is in JSON."""
    import pyarrow as pa

    array = pa.array(values, arrow_type(type_name))
    if type_name == "float64" and not math.isfinite(sum(filter(None, values))):
        finite = [value if value is not None and math.isfinite(value) else None for value in values]
        return pa.array(finite, pa.float64())
    return array


def nodes_of(struct: type[Struct], prefix: str = "") -> tuple[_Node, ...]:
    """The nodes of a struct's fields, by their JSON names."""
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType)
    return _nodes(found, prefix)


def _nodes(struct: inspect.StructType, prefix: str) -> tuple[_Node, ...]:
    return tuple(_node(field, f"{prefix}{field.encode_name}") for field in struct.fields)


def _node(field: inspect.Field, name: str) -> _Node:
    type_, description = _bare(field.type)
    get = attrgetter(field.name)
    if isinstance(type_, inspect.StructType):
        return _Node(get, None, _nodes(type_, f"{name}."))
    if isinstance(type_, inspect.TupleType) and len(type_.item_types) == 2:
        ends = [
            _Node(itemgetter(index), _column(f"{name}.{end}", _scalar(item) or "float64", description))
            for index, (end, item) in enumerate(zip(("from", "to"), type_.item_types, strict=True))
        ]
        return _Node(get, None, tuple(ends))
    scalar = _scalar(type_)
    if scalar is not None:
        return _Node(get, _column(name, scalar, description))
    if isinstance(type_, inspect.VarTupleType | inspect.ListType) and _scalar(type_.item_type) == "string":
        return _Node(get, _column(name, "string", description), convert=_names)
    return _Node(get, Column(name, "string", "", description, is_json=True), convert=json_text)


def _bare(type_: inspect.Type) -> tuple[inspect.Type, str]:
    """A type without its null and its description, and the latter."""
    description = ""
    while True:
        if isinstance(type_, inspect.Metadata):
            description = description or str((type_.extra_json_schema or {}).get("description", ""))
            type_ = type_.type
        elif isinstance(type_, inspect.UnionType):
            others = [each for each in type_.types if not isinstance(each, inspect.NoneType)]
            if len(others) != 1:
                return type_, description
            type_ = others[0]
        else:
            return type_, description or _described(type_)


def _described(type_: inspect.Type) -> str:
    return str((getattr(type_, "extra_json_schema", None) or {}).get("description", ""))


def _scalar(type_: inspect.Type) -> ColumnType | None:
    """The column type of a single value."""
    type_, _ = _bare(type_)
    if isinstance(type_, inspect.LiteralType):
        return "string" if all(isinstance(value, str) for value in type_.values) else None
    names: tuple[tuple[type, ColumnType], ...] = (
        (inspect.BoolType, "bool"),
        (inspect.IntType, "int64"),
        (inspect.FloatType, "float64"),
        (inspect.StrType, "string"),
    )
    for of, name in names:
        if isinstance(type_, of):
            return name
    return None


def _names(names: Sequence[str]) -> str | None:
    return ", ".join(names) or None


def json_text(value: Any) -> str | None:
    """Lists and mappings as one text; null where there is nothing in them."""
    return _ENCODER.encode(value).decode() if value else None


_UNITS = (
    ("usd_per_gpu_hour", "USD per GPU-hour"),
    ("usd_per_thousand_requests", "USD per 1,000 requests"),
    ("usd_per_gbps_hour", "USD per Gbps and hour"),
    ("usd_per_hour", "USD/h"),
    ("usd_per_gb", "USD per GB"),
    ("requests_per_usd", "requests per USD"),
    ("rps_per_gbps", "req/s per Gbps"),
    ("tokens_per_s", "tokens/s"),
    ("_rps", "req/s"),
    ("_gbps", "Gbps"),
    ("_share", "share"),
    ("_tokens", "tokens"),
    ("_bytes", "bytes"),
    ("_s", "s"),
)
_UNITS_OF_GROUPS = {
    "throughput_rps_by_estimator": "req/s",
    "stages_rps": "req/s",
    "ttft_s": "s",
    "utilization": "share",
    "near_optimal_threshold_tokens": "tokens",
    "instances": "instances",
}


def unit_of(name: str) -> str:
    """The unit that a column's name tells.

    >>> unit_of("cost.usd_per_hour"), unit_of("ttft_s.p90"), unit_of("link.gbps"), unit_of("status")
    ('USD/h', 's', 'Gbps', '')
    """
    *groups, last = name.split(".")
    for end, unit in _UNITS:
        if last.endswith(end) or last == end.lstrip("_"):
            return unit
    for group in reversed(groups):
        for key, unit in _UNITS_OF_GROUPS.items():
            if group == key or group.endswith(f"_{key}"):
                return unit
    return ""


def _column(name: str, type_name: ColumnType, description: str) -> Column:
    return Column(name, type_name, "" if type_name in ("string", "bool") else unit_of(name), description)
