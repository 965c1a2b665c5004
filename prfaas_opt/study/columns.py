"""The table of a study: who a row is, what went in, what came out. One declaration, whatever the file's format.

Columns, in this order:

- ``row``, ``name``, ``status``, ``error_code``, ``error_where``, ``error``, ``problems``, ``warnings``: of the row.
- ``input.PATH``: a field of the study, a number wherever the field is one, in the unit that ends its name; what the
  base document has where a row gives nothing. ``inputs_as_given``: values that are none of their field's, as JSON.
- ``extra.NAME``: texts that came along in a spreadsheet.
- Every figure of the plan by its JSON name; structs are flattened with dots, lists of names are one text, pairs are two
  columns (``.from``, ``.to``), all other lists and mappings are JSON texts. The plan's own ``name`` is ``deployment``.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from prfaas_opt import results
from prfaas_opt.errors import PrfaasOptError, Problem
from prfaas_opt.study.fields import SUFFIXES, StudyField, value_in
from prfaas_opt.study.plan_columns import Column, arrays_of, arrow_type, columns_of, json_text, nodes_of, unit_of
from prfaas_opt.study.rows import UNSET, told_fields
from prfaas_opt.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from prfaas_opt.io.document import Document
    from prfaas_opt.study.rows import Rows

INPUT, EXTRA = "input.", "extra."
"""How the names of columns begin that hold what went in."""
AS_GIVEN = "inputs_as_given"

HEAD = (
    Column("row", "int64", "", "number of the scenario, from 0"),
    Column("name", "string", "", "name of the scenario"),
    Column("status", "string", "", "of the plan: optimal, threshold-optimal, feasible; or infeasible, error"),
    Column("error_code", "string", "", "code of the first problem"),
    Column("error_where", "string", "", "where the first problem is"),
    Column("error", "string", "", "the first problem in words"),
    Column("problems", "string", "", "all problems, each with code, where, message and fix", is_json=True),
    Column("warnings", "string", "", "what a reader of the figures should know"),
)


@cache
def _plan_nodes() -> tuple[Any, ...]:
    """What a plan's columns are made by: all but its status, which is the row's."""
    nodes = []
    for node in nodes_of(results.Plan):
        if node.column is not None and node.column.name == "name":
            renamed = msgspec.structs.replace(node.column, name="deployment", description="which deployment it is")
            nodes.append(msgspec.structs.replace(node, column=renamed))
        elif node.column is None or node.column.name != "status":
            nodes.append(node)
    return tuple(nodes)


def plan_columns() -> list[Column]:
    """The columns of a plan."""
    return columns_of(_plan_nodes())


def columns_in(fields: Sequence[StudyField], extra: Sequence[str] = ()) -> list[Column]:
    """All columns of a study's table."""
    inputs = [_input_column(field) for field in fields]
    kept = Column(AS_GIVEN, "string", "", "values that are none of their field's, by field", is_json=True)
    brought = [Column(f"{EXTRA}{name}", "string", "", "brought along") for name in extra]
    return [*HEAD, *inputs, kept, *brought, *plan_columns()]


def _input_column(field: StudyField) -> Column:
    form = field.form
    unit = form.unit or (unit_of(field.text) if field.is_number else "")
    return Column(f"{INPUT}{field.column}", form.type, unit, field.kind.expected if field.kind else "")


def input_fields(rows: Rows) -> tuple[str, ...]:
    """The fields that have a column of what went in; the name of a row stands in ``name``."""
    return tuple(field for field in told_fields(rows) if field != "name")


def schema_of(rows: Rows) -> pa.Schema:
    """The schema of a study's table, the same for every chunk of it."""
    import pyarrow as pa

    columns = columns_in([StudyField(each) for each in input_fields(rows)], _extra(rows))
    metadata: dict[str | bytes, str | bytes] = {
        "study": rows.name,
        "objective": rows.objective or "",
        "program": f"prfaas-opt {__version__}",
        "schema_version": str(results.SCHEMA_VERSION),
        "units": msgspec.json.encode({each.name: each.unit for each in columns if each.unit}).decode(),
    }
    return pa.schema([arrow_field(column) for column in columns], metadata)


class MissingColumnError(Exception):
    """A column that a file does not have."""

    def __init__(self, column: str, known: Sequence[str]) -> None:
        super().__init__(column)
        self.column, self.known = column, known


def schema_named(names: Sequence[str], wanted: Sequence[str] | None = None) -> pa.Schema:
    """The schema of a file that tells no more than the names of its columns.

    Args:
        names: of all columns.
        wanted: names of those to read; None: all.

    Raises:
        MissingColumnError: one that is wanted is not among them.
    """
    import pyarrow as pa

    unknown = next((name for name in wanted or () if name not in names), None)
    if unknown is not None:
        raise MissingColumnError(unknown, names)
    fixed = {column.name: column for column in [*HEAD, *plan_columns()]}
    return pa.schema(
        [arrow_field(fixed.get(name) or _column_named(name)) for name in (names if wanted is None else wanted)]
    )


def _column_named(name: str) -> Column:
    """The column that a name alone tells: one of what went in, else text."""
    field = input_field(name)
    return Column(name, "string", is_json=name == AS_GIVEN) if field is None else _input_column(field)


def input_field(column: str) -> StudyField | None:
    """The field whose column has a name; None where it is none's, or what it holds is not known by its path.

    >>> found = input_field("input.links.0.bandwidth_gbps")
    >>> found.text
    'links.0.bandwidth'
    """
    if not column.startswith(INPUT):
        return None
    text = column.removeprefix(INPUT)
    for suffix in ("", *SUFFIXES):
        field = StudyField(text.removesuffix(suffix))
        if text.endswith(suffix) and field.is_known and field.column == text:
            return field
    return None


def arrow_field(column: Column) -> pa.Field[Any]:
    """A column with its unit and description."""
    import pyarrow as pa

    told = {"unit": column.unit, "description": column.description, "form": "json" if column.is_json else ""}
    return pa.field(column.name, arrow_type(column.type), metadata={key: text for key, text in told.items() if text})


def _extra(rows: Rows) -> tuple[str, ...]:
    """Names of the columns that a spreadsheet brought along; each once."""
    names: list[str] = []
    for name in getattr(rows, "extra_columns", ()):
        count = 2
        while name in names:
            name, count = f"{name.removesuffix(f' ({count - 1})')} ({count})", count + 1
        names.append(name)
    return tuple(names)


def _extra_arrays(rows: Rows, start: int, stop: int) -> list[pa.Array[Any]]:
    import pyarrow as pa

    names = _extra(rows)
    if not names:
        return []
    cells: Sequence[tuple[Any, ...]] = rows.extras(start, stop)  # type: ignore[attr-defined]
    return [pa.array([_cell_text(row[i]) for row in cells], pa.string()) for i in range(len(names))]


def _cell_text(cell: Any) -> str | None:
    return cell if cell is None or isinstance(cell, str) else str(cell)


class Answer(msgspec.Struct, frozen=True):
    """What became of a row.

    Attributes:
        name: of its scenario.
        plan: None where there is none.
        status: of the plan, or of the error.
        problems: why there is none.
        warnings: of its scenario.
    """

    name: str | None
    plan: results.Plan | None
    status: str
    problems: tuple[Problem, ...] = ()
    warnings: str | None = None


def failed(name: str | None, error: PrfaasOptError) -> Answer:
    """What became of a row that ended with an error."""
    return Answer(name, None, error.status, error.problems)


class InputColumns:
    """The columns of what went in."""

    def __init__(self, base: Document, fields: Sequence[StudyField], told: Container[str]) -> None:
        self._fields = fields
        self._of_base = [_of_base(base, field, fields) for field in fields]
        self._told = [field.text in told for field in fields]

    def arrays(self, values: Sequence[Sequence[Any]], reads: Sequence[Sequence[Any]], rows: int) -> list[pa.Array[Any]]:
        """Their values in some rows, by field as given and as read; last those that are none of their field's."""
        import pyarrow as pa

        arrays: list[Any] = []
        odd: list[dict[str, Any]] = [{} for _ in range(rows)]
        columns = zip(self._fields, self._of_base, values, reads, strict=True)
        for field, of_base, given, read in itertools.compress(columns, self._told):
            alike = field.all_shown(given, read)
            if alike is not None:
                arrays.append(pa.array(alike, arrow_type(field.form.type)))
                continue
            shown = []
            for index, (value, number) in enumerate(zip(given, read, strict=True)):
                if value is UNSET:
                    shown.append(of_base)
                    continue
                told = field.shown(value, number)
                if told is None and value is not None:
                    if field.is_number:
                        odd[index][field.text] = value
                    else:
                        told = _text(value)
                shown.append(told)
            arrays.append(pa.array(shown, arrow_type(field.form.type)))
        arrays.append(pa.array([_text(each) if each else None for each in odd], pa.string()))
        return arrays


def _text(value: Any) -> str:
    return json_text(value) or msgspec.json.encode(value, enc_hook=str).decode()


def _of_base(base: Document, field: StudyField, fields: Sequence[StudyField]) -> Any:
    """What a row that gives nothing is planned with, where the base document says it."""
    steps = field.steps
    if any(each is not field and each.steps == steps[: len(each.steps)] for each in fields):
        return None
    value = value_in(base, steps)
    if value is UNSET or value is None:
        return None
    (read,) = field.read([value])
    told = field.shown(value, read)
    return _text(value) if told is None and not field.is_number else told


def table_of(
    rows: Rows, start: int, answers: Sequence[Answer], inputs: Sequence[pa.Array[Any]], schema: pa.Schema
) -> pa.Table:
    """The table of some rows."""
    import pyarrow as pa

    firsts = [answer.problems[0] if answer.problems else None for answer in answers]
    head: list[list[Any]] = [
        list(range(start, start + len(answers))),
        [answer.name for answer in answers],
        [answer.status for answer in answers],
        [first and first.code for first in firsts],
        [first and first.where for first in firsts],
        [first and first.message for first in firsts],
        [json_text(answer.problems) for answer in answers],
        [answer.warnings for answer in answers],
    ]
    arrays = [pa.array(values, arrow_type(c.type)) for values, c in zip(head, HEAD, strict=True)]
    stop = start + len(answers)
    extra = _extra_arrays(rows, start, stop)
    plan = arrays_of(_plan_nodes(), [answer.plan for answer in answers])
    return pa.Table.from_arrays([*arrays, *inputs, *extra, *plan], schema=schema)
