"""What became of a study, and what was understood of it, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prfaas_opt.cli.output import console, new_table
from prfaas_opt.units import format_rps, format_tokens

if TYPE_CHECKING:
    from prfaas_opt.sheets.explanation import Explanation
    from prfaas_opt.study.explanation import StudyExplanation
    from prfaas_opt.study.summary import StudyRun


def print_study(run: StudyRun) -> None:
    """The counts, why rows have no plan, and the best rows."""
    from rich.markup import escape

    out = console()
    without = run.rows - run.planned
    everything = "The row has a plan" if run.rows == 1 else f"All {run.rows:,} rows have a plan"
    verdict = f"{run.planned:,} of {run.rows:,} rows have a plan" if without else everything
    out.print(escape(f"{run.name}: {verdict}"), style="bold")
    for sample in run.samples:
        out.print(f"Sample: {sample.count:,} rows, {sample.method}, seed {sample.seed}.")
    if run.kept:
        out.print(f"Kept from an earlier run: {run.kept:,} rows.")
    if run.failures:
        table = new_table("Rows", "Without a plan", "First", left=0)
        table.columns[1].justify = table.columns[2].justify = "left"
        for each in run.failures:
            place = f"row {each.row}" if each.where.startswith(f"row {each.row}") else f"row {each.row}, {each.where}"
            table.add_row(f"{each.rows:,}", escape(each.code), escape(f"{place}: {each.message}"))
        out.print(table)
    if run.best:
        same = _same_in_all(run)
        out.print(_best(run, same))
        if same:
            out.print(escape(f"The same in all of these: {_fields(same)}"))
    if run.output:
        out.print(escape(f"Written: {run.output}"), soft_wrap=True)


def _same_in_all(run: StudyRun) -> dict[str, Any]:
    """Fields that all of the best rows set to the same."""
    first, *others = run.best
    same = {k: v for k, v in first.values.items() if all(each.values.get(k) == v for each in others)}
    return same if others else {}


def _best(run: StudyRun, same: dict[str, Any]) -> Any:
    from rich.markup import escape

    priced = any(each.usd_per_thousand_requests is not None for each in run.best)
    more = ["USD per 1,000"] if priced else []
    by_cost = run.objective == "cost"
    table = new_table("Row", "Fields", "Serves", *more, left=0, title="Least cost" if by_cost else "Best rows")
    table.columns[1].justify = "left"
    for each in run.best:
        fields = _fields({field: value for field, value in each.values.items() if field not in same})
        cost = each.usd_per_thousand_requests
        figures = [format_rps(each.served_rps), *([f"{cost:,.2f}" if cost is not None else "-"] if priced else [])]
        table.add_row(str(each.row), escape(fields or ("as below" if same else "as the base")), *figures)
    return table


def _fields(values: dict[str, Any]) -> str:
    """The fields that a row sets."""
    return ", ".join(f"{field} {_shown(value)}" for field, value in values.items())


def _shown(value: Any) -> str:
    """A plain value, short."""
    if isinstance(value, int) and not isinstance(value, bool):
        return format_tokens(value)
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def print_explanation(explained: StudyExplanation) -> None:
    """The base, the fields that vary and how, and the first rows."""
    from rich.markup import escape

    out = console()
    goal = f", for {explained.objective}" if explained.objective else ""
    out.print(escape(f"{explained.name}: {explained.rows:,} rows{goal}; base: {explained.base}"), style="bold")
    table = new_table("Block", "Field", "Kind", "Values", "Number", left=4)
    for each in explained.fields:
        table.add_row(f"axes[{each.block}]", escape(each.field), each.kind, escape(each.values), f"{each.count:,}")
    out.print(table)
    out.print("Every combination of the blocks is a row; the last block varies fastest. The first:")
    first = new_table("Row", "Fields", left=2)
    for number, row in enumerate(explained.first_rows):
        first.add_row(str(number), escape(_fields(row)))
    out.print(first)


def print_sheet_explanation(explained: Explanation) -> None:
    """Which tables and columns were found, what each became, and which rows were left out."""
    from rich.markup import escape

    out = console()
    read_as = ", ".join(filter(None, (explained.format, explained.encoding, explained.decimal_evidence)))
    out.print(escape(f"{explained.file}: {explained.rows:,} rows; read as {read_as}"), style="bold")
    tables = new_table("Cells", "Used as", "Why", left=3)
    for found in explained.tables:
        tables.add_row(escape(found.cells or found.sheet), found.used_as, escape(found.why))
    columns = new_table("Header", "Cells", "Field", "Unit", "Note", left=5)
    for column in explained.columns:
        texts = (column.header, column.cells, column.field or "-", column.unit, column.note)
        columns.add_row(*map(escape, texts))
    for table in (tables, columns):
        if table.row_count:
            out.print(table)
    for left_out in explained.rows_left_out:
        out.print(escape(f"Left out: {left_out.place}: {left_out.why}"))
    for taken in explained.taken:
        out.print(escape(f"Taken: {taken.kind} {taken.name} from {taken.cells} {taken.note}".rstrip()))
    for note in explained.notes:
        out.print(escape(f"Note: {note.place}: {note.message}"))
    for problem in explained.problems:
        fix = f"; fix: {problem.fix}" if problem.fix else ""
        out.print(escape(f"Problem: {problem.where}: {problem.message}{fix}"))
