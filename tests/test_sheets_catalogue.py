"""Every field of two pools has a column, and every header means one field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from prfaas_opt.io.scenario_file import SCENARIO
from prfaas_opt.io.spec import Either, ListOf, MapOf, Record
from prfaas_opt.sheets.catalogue import (
    PD,
    PRICE_COLUMNS,
    PRICE_OF_ALL,
    PROFILE_COLUMNS,
    REMOTE,
    WORKLOAD_COLUMNS,
    Column,
    column_of,
    scenario_columns,
    specification,
)
from prfaas_opt.sheets.header_words import Topic, key
from prfaas_opt.sheets.headers import meaning
from prfaas_opt.sheets.unit_words import unit_of

TOPICS: dict[Topic, tuple[Column, ...]] = {
    "scenarios": scenario_columns(),
    "profiles": PROFILE_COLUMNS,
    "workloads": WORKLOAD_COLUMNS,
    "prices": PRICE_COLUMNS,
}
CASES = [(topic, column) for topic, columns in TOPICS.items() for column in columns]


def paths(record: Record, before: str = "") -> Iterator[str]:
    """The paths of all single values of a record."""
    for name, field in record.fields.items():
        kind: Any = field.kind
        path = f"{before}{name}"
        if isinstance(kind, MapOf):
            for cluster in (REMOTE, PD):
                yield from paths(kind.item, f"{path}.{cluster}.")  # type: ignore[arg-type]
        elif isinstance(kind, ListOf):
            if isinstance(kind.item, Record) and name == "links":
                yield from paths(kind.item, f"{path}.0.")
        elif isinstance(kind, Record):
            yield from paths(kind, f"{path}.")
        else:
            yield path


def test_every_field_of_two_pools_has_a_column() -> None:
    structure = {f"clusters.{name}.role" for name in (REMOTE, PD)} | {"links.0.from", "links.0.to"}
    assert {column.path for column in scenario_columns()} - {PRICE_OF_ALL} == set(paths(SCENARIO)) - structure


@pytest.mark.parametrize(("topic", "column"), CASES, ids=lambda case: getattr(case, "path", case))
def test_headers_mean_their_column(topic: Topic, column: Column) -> None:
    for name in (column.header, column.name, column.header.upper(), column.header.replace(" ", "_"), *column.synonyms):
        means = meaning(name, topic)
        assert means.column == column, name
        assert not means.problem
    assert meaning(column.header, topic).stated == column.unit
    if column.unit:
        assert unit_of(column.unit, column.kind, column) is not None
    assert column.doc
    assert column.number_format


@pytest.mark.parametrize("topic", TOPICS)
def test_no_header_means_two_columns(topic: Topic) -> None:
    by_key: dict[tuple[str, ...], str] = {}
    for column in TOPICS[topic]:
        for name in {key(name) for name in (column.name, *column.synonyms)}:
            assert by_key.setdefault(name, column.path) == column.path, name


def test_specifications_are_found_by_path() -> None:
    assert specification("links.0.rtt").doc == "round-trip time"
    assert column_of("slo.ttft.p90").header == "TTFT P90 SLO (s)"
    for path in ("clusters", "links.x.rtt", "slo.ttft", "nothing", "model.name", ""):
        with pytest.raises(KeyError):
            specification(path)
    with pytest.raises(KeyError):
        column_of("nothing")


def test_choices_are_those_of_the_fields() -> None:
    for column in scenario_columns():
        if column.kind == "choice":
            kind: Any = specification(column.path).kind
            assert column.choices == kind.choices


def test_the_kind_of_a_column_is_that_of_its_field() -> None:
    """A value as the column's example, or 1 in its unit, is one that the field takes."""
    from prfaas_opt.io.document import Document
    from prfaas_opt.io.spec import INVALID, Context
    from prfaas_opt.sheets.cells import CellReader
    from prfaas_opt.sheets.notation import Notation

    for column in scenario_columns():
        if column.path in (PRICE_OF_ALL, "model", "workload"):
            continue
        means = meaning(column.header, "scenarios")
        cell = column.example if column.example is not None else (column.choices or ("1.0", 1.0))[-1]
        if column.kind == "text" and column.example is None:
            cell = "H20"
        value = CellReader(column, means.unit, Notation(), False).read(cell).value
        context = Context(Document("test", {}))
        kind: Any = specification(column.path).kind
        kind = kind.scalar if isinstance(kind, Either) else kind
        assert kind.read(context, value, ()) is not INVALID, (column.path, value, context.problems)
