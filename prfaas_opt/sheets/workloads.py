"""Workloads on extra sheets: a distribution a row, or a length and its weight a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import Problem
from prfaas_opt.sheets.extra import Named, Record, check, records, tokens

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.sheets.notation import Notation
    from prfaas_opt.sheets.tables import Table


def read_workloads(
    tables: list[Table], notation: Notation, include_hidden: bool, file: str
) -> tuple[dict[str, Named], list[Problem]]:
    """The workloads of tables, and what is wrong with cells that name none."""
    by_name: dict[str, list[Record]] = {}
    found: dict[str, Named] = {}
    outside: list[Problem] = []
    for table in tables:
        problems: list[Problem] = []
        names: set[str] = set()
        for record in records(table, notation, include_hidden, problems):
            name = str(record.values.get("name", table.titles[0] if table.titles else table.sheet.name))
            by_name.setdefault(name, []).append(record)
            found.setdefault(name, Named({}, table.cells))
            names.add(name)
        for name in names:
            found[name].problems += problems
        if not names:
            outside += problems
    for name, named in found.items():
        _assemble_workload(named, name, by_name[name], file)
    return found, outside


def _assemble_workload(named: Named, name: str, rows: list[Record], file: str) -> None:
    """Makes the mapping of a workload and checks it as its file would be."""
    lengths: dict[str, Any] = {}
    at: FieldPath = ("input_tokens",)
    if all("length" in row.values or "weight" in row.values for row in rows):
        rows = sorted(rows, key=lambda row: tokens(row.values.get("length", 0)))
        lengths = {"distribution": "table"}
        for key, column in (("lengths", "length"), ("weights", "weight")):
            lengths[key] = [row.values[column] for row in rows if column in row.values]
            for i, row in enumerate(row for row in rows if column in row.values):
                named.places[*at, key, i] = row.places[column]
            named.places[*at, key] = rows[0].places.get(column, rows[0].place)
    elif len(rows) > 1:
        message = (
            f'"{name}" stands in {len(rows)} rows, expected one of a distribution, or a length and a weight in each'
        )
        named.problems.append(Problem("duplicate-key", rows[1].place, message, "give each a name of its own"))
    else:
        values, places = rows[0].values, rows[0].places
        keys = [key for key in ("mu", "sigma", "low", "high", "value") if key in values]
        implied = "truncated-lognormal" if {"mu", "sigma"} & set(keys) else "constant" if "value" in keys else "uniform"
        lengths = {"distribution": values.get("distribution", implied)} | {key: values[key] for key in keys}
        named.places.update({(*at, key): places[key] for key in ("distribution", *keys) if key in places})
    named.places[at] = rows[0].place
    data: dict[str, Any] = {"name": name, "source": f"{named.cells} of {file}", "input_tokens": lengths}
    for key in ("output_tokens", "cached_share"):
        stated = {repr(row.values[key]): row for row in rows if key in row.values}
        if stated:
            first = next(iter(stated.values()))
            data[key] = first.values[key]
            named.places[key,] = first.places[key]
        if len(stated) > 1 and not named.problems:
            message = f"is {' and '.join(stated)} in the rows of {name}, expected one value"
            named.problems.append(Problem("ambiguous", named.places[key,], message, "keep one"))
    named.data = data
    if not named.problems:
        from prfaas_opt.io.workload_file import read_workload

        check(named, read_workload)
