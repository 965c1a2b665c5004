"""``prfaas-opt models derive``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_length, format_tokens, to_mib

if TYPE_CHECKING:
    from rich.table import Table

    from prfaas_opt.derive_api import KvDerivation, LayerSizes


class KvDtype(StrEnum):
    """Data types of keys and values."""

    BF16 = "bf16"
    FP8 = "fp8"


class StateDtype(StrEnum):
    """Data types of recurrent states."""

    FP32 = "fp32"
    BF16 = "bf16"


@answers("models derive")
def derive(
    config: Annotated[Path, typer.Argument(help="A model's config.json, as published on Hugging Face.")],
    kv_dtype: Annotated[KvDtype, typer.Option(help="Data type of keys and values.")] = KvDtype.BF16,
    state_dtype: Annotated[
        StateDtype | None,
        typer.Option(
            help="Data type of recurrent states. [default: what the config states, or fp32]", show_default=False
        ),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            "--length",
            help="A prompt length, 32K or 32768. May be repeated. [default: 1K 8K 32K 128K]",
            show_default=False,
        ),
    ] = None,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print kv_cache of a model file and nothing else.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Derive a model's KVCache size from its config.json.

    Example: prfaas-opt models derive config.json --kv-dtype fp8
    """
    from prfaas_opt.derive_api import derive_kv

    if as_yaml and as_json:
        raise typer.BadParameter("--yaml and --json exclude each other: --json has kv_cache as well")
    answer = derive_kv(config, kv_dtype.value, state_dtype.value if state_dtype else None, lengths)
    if as_json:
        print_json("models derive", "ok", answer, answer.warnings)
        return
    if as_yaml:
        typer.echo(answer.kv_cache_yaml, nl=False)
    else:
        _print(answer)
    print_warnings(answer.warnings)


def _print(answer: KvDerivation) -> None:
    out = console()
    layers = sum(each.count for each in answer.layers)
    out.print(f"{answer.architecture}: {layers} layers that cache", style="bold")
    out.print(f"Keys and values in {answer.kv_dtype}.{_states(answer)}")
    out.print(_layers(answer))
    out.print("Block-level: grows with the prompt; a common prefix of it is reused.")
    out.print(f"  {answer.growing_bytes_per_token:,.0f} bytes a token")
    if answer.windows or answer.fixed_bytes:
        out.print("Request-level: of fixed size; reused on an exact match only.")
    for window in answer.windows:
        out.print(
            f"  {window.bytes_per_token:,.0f} bytes a token of the last {format_tokens(window.window_tokens)}: "
            f"{window.full_bytes:,.0f} bytes in windows"
        )
    if answer.fixed_bytes:
        parts = {"recurrent states": answer.state_bytes, "convolution states": answer.convolution_bytes}
        out.print("  " + ", ".join(f"{size:,.0f} bytes in {what}" for what, size in parts.items() if size))
    out.print(_sizes(answer))


def _states(answer: KvDerivation) -> str:
    if not answer.state_bytes:
        return ""
    convolution = ", convolution states in bf16" if answer.convolution_bytes else ""
    return f" Recurrent states in {answer.state_dtype} ({answer.state_dtype_from}){convolution}."


def _layers(answer: KvDerivation) -> Table:
    table = new_table("Attention", "Layers", "Level", "Bytes a token", "Bytes in windows, states", left=1)
    for layers in answer.layers:
        growing = f"{layers.growing_bytes_per_token:,.0f}" if layers.growing_bytes_per_token else ""
        fixed = _fixed(layers)
        table.add_row(layers.attention, str(layers.count), layers.level, growing, f"{fixed:,.0f}" if fixed else "")
    return table


def _fixed(layers: LayerSizes) -> float:
    return layers.state_bytes + layers.convolution_bytes + (layers.window.full_bytes if layers.window else 0.0)


def _sizes(answer: KvDerivation) -> Table:
    table = new_table("Length", "KVCache (MiB)", "Block-level (MiB)", "Request-level (MiB)", left=0)
    for row in answer.sizes:
        sizes = (row.kv_bytes, row.block_level_bytes, row.request_level_bytes)
        table.add_row(format_length(row.length_tokens), *(f"{to_mib(size):,.1f}" for size in sizes))
    return table
