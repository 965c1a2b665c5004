"""``prfaas-opt workloads``: list and show."""

from __future__ import annotations

from typing import Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json
from prfaas_opt.units import format_tokens

workloads = typer.Typer(
    add_completion=False, help="List and show workloads.", no_args_is_help=True, rich_markup_mode=None
)


@workloads.command("list")
@answers("workloads")
def list_(as_json: JsonOption = False) -> None:
    """List every workload that a scenario can name: those beside it, your own, then the shipped.

    Example: prfaas-opt workloads list
    """
    from prfaas_opt import listings

    found = listings.list_workloads()
    if as_json:
        print_json("workloads", "ok", found)
        return
    table = new_table("Workload", "Description", "Mean in", "Mean out", left=2)
    for workload in found.workloads:
        mean_in, mean_out = (
            format_tokens(workload.input_tokens_mean),
            format_tokens(workload.output_tokens_mean),
        )
        table.add_row(workload.name, workload.description, mean_in, mean_out)
    console().print(table)


@workloads.command("show")
@answers("workloads")
def show(
    name: Annotated[str, typer.Argument(help="A workload's name or the path of its file.")],
    as_json: JsonOption = False,
) -> None:
    """Show a workload's lengths and where they come from.

    Example: prfaas-opt workloads show prfaas-case-study
    """
    from prfaas_opt import listings

    found = listings.list_workloads(name)
    if as_json:
        print_json("workloads", "ok", found)
        return
    out = console()
    (workload,) = found.workloads
    out.print(f"{workload.name}: {workload.description}", style="bold")
    out.print(f"File: {workload.file}", soft_wrap=True)
    if workload.source:
        out.print(f"Source: {workload.source}")
    low, high = format_tokens(workload.input_tokens_low), format_tokens(workload.input_tokens_high)
    out.print(f"Input: {low} to {high} tokens, mean {format_tokens(workload.input_tokens_mean)}")
    for quantile, tokens in workload.input_tokens_quantiles.items():
        out.print(f"  {quantile.upper()}: {format_tokens(tokens)} tokens")
    out.print(f"Output: mean {format_tokens(workload.output_tokens_mean)} tokens")
