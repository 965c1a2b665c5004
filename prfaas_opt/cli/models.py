"""``prfaas-opt models``: list and show; the other commands have files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.check import check
from prfaas_opt.cli.derive import derive
from prfaas_opt.cli.fit import fit
from prfaas_opt.cli.import_ import import_
from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.cli.scale import scale
from prfaas_opt.units import format_length, format_ms, format_size, format_tokens, to_mib

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from prfaas_opt.listings import CachedListing, ModelListing, ProfileListing


_TERMINAL = "terminal"

models = typer.Typer(
    add_completion=False, help="List and show models and their profiles.", no_args_is_help=True, rich_markup_mode=None
)
models.command("derive")(derive)
models.command("import")(import_)
models.command("fit")(fit)
models.command("check")(check)
models.command("scale")(scale)


@models.command("list")
@answers("models")
def list_(as_json: JsonOption = False) -> None:
    """List every model that a scenario can name: those beside it, your own, then the shipped.

    Example: prfaas-opt models list
    """
    from prfaas_opt import listings

    found = listings.list_models()
    if as_json:
        print_json("models", "ok", found)
        return
    table = new_table("Model", "Hardware", "Prefill figures", "Description", left=4)
    for model in found.models:
        hardware = "\n".join(profile.hardware for profile in model.profiles)
        kinds = "\n".join(profile.provenance["prefill"].partition(",")[0] for profile in model.profiles)
        table.add_row(model.name, hardware, kinds, model.description)
    console().print(table)


@models.command("show")
@answers("models")
def show(
    name: Annotated[str, typer.Argument(help="A model's name or the path of its file.")],
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="terminal|FILE",
            help="Plot latency, KVCache size and KV throughput: here, or into a file .png or .svg.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --plot if it is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a model's profiles and where each figure comes from.

    Example: prfaas-opt models show internal-1t --plot terminal
    """
    from prfaas_opt import listings

    if plot == _TERMINAL and as_json:
        raise typer.BadParameter("--plot terminal and --json exclude each other: --plot takes a file as well")
    file = _picture(plot)
    found = listings.list_models(name)
    (model,) = found.models
    if file is not None:
        from prfaas_opt.plots.picture import write_picture

        write_picture(listings.plot_model(name), file, replace=force)
    if as_json:
        print_json("models", "ok", found)
        return
    out = console()
    out.print(f"{model.name}: {model.description}", style="bold")
    out.print(f"File: {model.file}", soft_wrap=True)
    if plot == _TERMINAL:
        from prfaas_opt.plots.terminal import text_plot

        typer.echo("\n" + text_plot(listings.plot_model(name), out.width))
    else:
        _print_profiles(model)
    if file is not None:
        out.print(f"Plot: {file}", soft_wrap=True)
    print_warnings(model.warnings)


def _picture(plot: str | None) -> Path | None:
    """The file that a plot goes into, checked before anything else is done; None where it goes into none."""
    if plot is None or plot == _TERMINAL:
        return None
    from prfaas_opt.plots.picture import check_picture

    return check_picture(plot)


def _print_profiles(model: ModelListing) -> None:
    out = console()
    for profile in model.profiles:
        out.print()
        engine = f", {profile.engine}" if profile.engine else ""
        out.print(f"{profile.hardware}, {profile.gpus_per_instance} GPUs an instance{engine}", style="bold")
        out.print(_curves(profile))
        if profile.prefill_cached is not None:
            out.print(_cached(profile.prefill_cached))
        contexts = profile.decode_contexts_tokens
        at = f" at a context of {format_tokens(contexts[0])} tokens" if contexts else ""
        for batch, step_s in zip(profile.decode_batches, profile.decode_steps_s, strict=True):
            out.print(f"Decode: batch {batch}, {format_ms(step_s)} a step{at}")
        if contexts:
            out.print(f"Decode is known for contexts up to {format_tokens(contexts[-1])} tokens.")
        if profile.accepted_tokens > 1:
            out.print(f"A decode step gains {profile.accepted_tokens:g} tokens.")
        if profile.memory_bytes is not None:
            usable, weights = map(format_size, profile.memory_bytes)
            out.print(f"Memory: {usable} usable, {weights} of it weights")
        for figure, source in profile.provenance.items():
            out.print(f"{figure}: {source}")


def _cached(table: CachedListing) -> Table:
    """The seconds of each cached length, with those of an instance below where they differ."""
    both = table.occupancy_s is not None
    drawn = new_table(
        "Cached",
        *([""] if both else []),
        *(f"+{format_length(int(x))}" for x in table.uncached_tokens),
        left=2 if both else 1,
        title="Prefill (s), cached and uncached",
    )
    for i, cached in enumerate(table.cached_tokens):
        seconds = [f"{x:.3f}" for x in table.latency_s[i]]
        drawn.add_row(format_length(int(cached)), *(["waits"] if both else []), *seconds)
        if table.occupancy_s is not None:
            drawn.add_row("", "occupies", *(f"{x:.3f}" for x in table.occupancy_s[i]))
    return drawn


def _curves(profile: ProfileListing) -> Table:
    occupied = profile.occupancy_s
    more = ["Occupied (s)"] if occupied else []
    table = new_table("Length", "Prefill (s)", *more, "KVCache (MiB)", "KV throughput (Gbps)", left=0)
    for i, row in enumerate(profile.rows):
        seconds = [f"{row.prefill_s:.3f}", *([f"{occupied[i]:.3f}"] if occupied else [])]
        size, rate = f"{to_mib(row.kv_bytes):,.1f}", f"{row.kv_throughput_gbps:.2f}"
        table.add_row(format_length(row.length_tokens), *seconds, size, rate)
    return table
