"""``prfaas-opt kv``."""

from __future__ import annotations

from typing import Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_gbps, format_length, to_mib


@answers("kv")
def kv(
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="A model; default: all of them. May be repeated.", show_default=False),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            "--length",
            help="A prompt length, 32K or 32768. May be repeated. [default: 1K 8K 32K 128K]",
            show_default=False,
        ),
    ] = None,
    hardware: Annotated[str, typer.Option(help="The profile's hardware.")] = "H200",
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="Also the egress of a prefill cluster of so many GPUs.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show KVCache, prefill and KV throughput of models.

    These are tables 3 and 5; with --gpus also the egress of a cluster (equation 2).

    Example: prfaas-opt kv --gpus 512 --length 32K
    """
    from prfaas_opt import listings

    answer = listings.kv(models, lengths, hardware, gpus)
    notes = tuple(f"{name} has no profile for {hardware} and is left out" for name in answer.left_out)
    if as_json:
        print_json("kv", "ok", answer, notes)
        return
    out = console()
    table = new_table("Model", "Hardware", "Length", "KVCache (MiB)", "Prefill (s)", "KV throughput", left=2)
    for row in answer.rows:
        table.add_row(
            row.model,
            row.hardware,
            format_length(row.length_tokens),
            f"{to_mib(row.kv_bytes):,.1f}",
            f"{row.prefill_s:.3f}",
            f"{row.kv_throughput_gbps:.2f} Gbps",
        )
    out.print(table)
    print_warnings(notes)
    if not answer.clusters:
        return
    title = f"Egress of a cluster of {gpus:,} GPUs (equation 2)"
    clusters = new_table("Model", "Hardware", "Length", "Egress", left=2, title=title)
    for cluster in answer.clusters:
        length, egress = format_length(cluster.length_tokens), format_gbps(cluster.egress_gbps)
        clusters.add_row(cluster.model, cluster.hardware, length, egress)
    out.print(clusters)
