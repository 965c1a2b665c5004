"""``prfaas-opt reproduce``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json
from prfaas_opt.errors import CheckFailedError
from prfaas_opt.units import format_share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from prfaas_opt.reproduction.rows import Reproduction


@answers("reproduce")
def reproduce(as_json: JsonOption = False) -> None:
    """Show every figure of the paper beside ours.

    Each row has the difference and whether it is evidence: "fitted" rows went into the shipped models and are none,
    "held out" rows are. Ends with code 6 if a figure does not agree.

    Example: prfaas-opt reproduce
    """
    from prfaas_opt.reproduction.rows import reproduce as all_rows

    reproduction = all_rows()
    if as_json:
        print_json("reproduce", "ok" if reproduction.holds else "failed", reproduction)
    else:
        _print(console(), reproduction)
    if not reproduction.holds:
        raise typer.Exit(CheckFailedError.exit_code)


def _print(out: Console, reproduction: Reproduction) -> None:
    rows = reproduction.rows
    held_out = [row for row in rows if row.evidence == "held out"]
    agree = sum(row.within for row in held_out)
    out.print(f"{agree} of {len(held_out)} held-out figures of the paper agree.", style="bold")
    table: Table | None = None
    where = ""
    for row in rows:
        if table is None or row.where != where:
            if table is not None:
                out.print(table)
            where = row.where
            table = new_table("Figure", "Paper", "Ours", "Off by", "Evidence", title=where)
            table.columns[0].width = 41
            for column, width in zip(table.columns[1:], (7, 7, 7, 8), strict=True):
                column.width = width
        table.add_row(
            row.quantity,
            ("< " if row.criterion == "below" else "") + _figure(row.paper),
            _figure(row.ours),
            format_share(row.relative_difference, signed=True),
            row.evidence if row.within else "DIFFERS",
        )
    if table is not None:
        out.print(table)
    out.print("Table 6 is by the paper's estimator, mean-length, at our own optimum.")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
