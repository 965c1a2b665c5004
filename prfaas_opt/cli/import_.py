"""``prfaas-opt models import``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.derive import KvDtype
from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_length, format_ms, format_share, format_tokens

if TYPE_CHECKING:
    from prfaas_opt.import_api import Import


class Source(StrEnum):
    """Where a profile comes from, if not from files."""

    AICONFIGURATOR = "aiconfigurator"


@answers("models import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...|MODEL", help="Outputs of benchmarks, all of one model; or a model."),
    ],
    source: Annotated[
        Source | None,
        typer.Option("--from", help="Ask this package, installed beside this one, for a MODEL.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Name of the model; needed for files.", show_default=False),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(help="Accelerator, as scenarios name it; needed for files. [default: by --system]"),
    ] = None,
    gpus_per_instance: Annotated[
        int, typer.Option("--gpus-per-instance", "--gpus", help="GPUs that an instance takes.")
    ] = 8,
    kv_from: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG|MODEL",
            help="Where the KVCache size comes from: a config.json, or a model that has it. "
            "[default: none; with --from: the package's config.json]",
            show_default=False,
        ),
    ] = None,
    kv_dtype: Annotated[
        KvDtype | None,
        typer.Option(help="Data type of keys and values, of a config.json. [default: bf16]", show_default=False),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(help="With --from: kind of GPU, as h200_sxm.", show_default=False),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="With --from: serving engine, trtllm, sglang or vllm. [default: trtllm]",
            show_default=False,
        ),
    ] = None,
    moe_tp: Annotated[
        int | None,
        typer.Option(
            help="With --from: GPUs that share each expert; experts are spread over the rest. [default: 1]",
            show_default=False,
        ),
    ] = None,
    database_mode: Annotated[
        str | None,
        typer.Option(help="With --from: silicon, hybrid, empirical or sol. [default: silicon]", show_default=False),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            "--length",
            help="With --from: a prompt length, 32K or 32768. May be repeated. [default: 1K 2K 4K ... 128K]",
            show_default=False,
        ),
    ] = None,
    chunk: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS",
            help="With --from: prefill so many tokens at a time, as 8K. [default: a prompt at once]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write. [default: models/NAME.yaml]", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a model file from the outputs of benchmarks, or from estimates.

    Reads vLLM bench serve and bench latency, SGLang bench_serving and
    bench_one_batch, AIPerf, GenAI-Perf, GuideLLM, raw data of Dynamo's SLA
    profiler, and CSV. Prefill latency is taken where prompts did not wait for
    each other. With --from aiconfigurator, asks that package instead.

    Example: prfaas-opt models import bench.json --as m --hardware H200

    Example: prfaas-opt models import --from aiconfigurator Qwen/Qwen3-32B --system h200_sxm
    """
    from prfaas_opt.errors import InputError
    from prfaas_opt.import_api import import_measured, missing_kv_cache

    dtype = kv_dtype.value if kv_dtype else None
    if source:
        from prfaas_opt.estimate_api import BACKEND, DATABASE_MODE, import_estimated

        if len(files) != 1:
            raise typer.BadParameter(f"--from {source.value} takes one model, found {len(files)}")
        if system is None:
            raise typer.BadParameter(f"--from {source.value} needs --system, for example --system h200_sxm")
        answer = import_estimated(
            files[0].as_posix(),
            system,
            name,
            gpus_per_instance,
            BACKEND if backend is None else backend,
            hardware,
            kv_from,
            dtype,
            lengths,
            1 if moe_tp is None else moe_tp,
            DATABASE_MODE if database_mode is None else database_mode,
            chunk,
            output,
            force,
        )
    else:
        _refuse_options_of_estimates(system, backend, moe_tp, database_mode, lengths, chunk)
        if name is None or hardware is None:
            missing = " and ".join(o for o, value in (("--as", name), ("--hardware", hardware)) if value is None)
            raise typer.BadParameter(
                f"{missing} must be given for the outputs of benchmarks, as --as m --hardware H200"
            )
        answer = import_measured(files, name, hardware, gpus_per_instance, kv_from, dtype, output, force)
    incomplete = InputError(missing_kv_cache(answer)) if answer.kv_cache_from is None else None
    if as_json:
        if incomplete:
            raise incomplete
        print_json("models import", "ok", answer, answer.warnings)
        return
    _print(answer)
    print_warnings(answer.warnings)
    if incomplete:
        raise incomplete


def _refuse_options_of_estimates(*values: object) -> None:
    names = ("--system", "--backend", "--moe-tp", "--database-mode", "--length", "--chunk")
    given = [name for name, value in zip(names, values, strict=True) if value is not None]
    if given:
        raise typer.BadParameter(
            f"{', '.join(given)}: only with --from aiconfigurator, since files say what they measured"
        )


def _print(answer: Import) -> None:
    from rich.markup import escape

    out = console()
    gpus = f"{answer.gpus_per_instance} GPU{'s' if answer.gpus_per_instance > 1 else ''} an instance"
    out.print(f"{answer.name} on {escape(answer.hardware)}, {gpus}", style="bold")
    measured = answer.estimated_by is None
    if measured:
        _print_files(answer)
    prefill = new_table("Prompt", "Prefill (s)", *(["Measurements"] if measured else []), left=0)
    for row in answer.prefill:
        cells = [str(row.runs)] if measured else []
        prefill.add_row(format_length(row.length_tokens), f"{row.latency_s:.4g}", *cells)
    out.print(prefill)
    if answer.decode and not measured:
        _print_steps(answer)
    elif answer.decode:
        decode = new_table("Batch", "Mean context", "Decode step (ms)", "Measurements", left=0)
        for step in answer.decode:
            context = "" if step.context_tokens is None else format_tokens(step.context_tokens)
            decode.add_row(str(step.batch), context, format_ms(step.step_s).removesuffix(" ms"), str(step.runs))
        out.print(decode)
    formula = answer.decode_formula
    if formula:
        token_us = f"{formula.per_context_token_s * 1e6:.3g} us * context"
        out.print(f"Decode: {format_ms(formula.base_s)} + batch * ({format_ms(formula.per_request_s)} + {token_us})")
        out.print(f"  {format_share(formula.mean_share)} from the points on average")
    if answer.left_out:
        left_out = new_table("Left out", "Figure", "Why", left=3)
        for each in answer.left_out:
            left_out.add_row(escape(Path(each.where).name), each.figure, escape(each.reason))
        out.print(left_out)
    for figure, source in answer.provenance.items():
        out.print(escape(f"{figure}: {source}"))
    if answer.kv_cache_from:
        out.print(escape(f"kv_cache: from {answer.kv_cache_from}"), soft_wrap=True)
    out.print(escape(f"Written: {answer.file}"), soft_wrap=True)


def _print_files(answer: Import) -> None:
    from rich.markup import escape

    read = new_table("File", "Read as", "Prefill points", "Decode points", left=2)
    for file in answer.files:
        tool = f"{file.format} {file.version}".strip()
        read.add_row(escape(Path(file.file).name), escape(tool), str(file.prefill_points), str(file.decode_points))
    console().print(read)


def _print_steps(answer: Import) -> None:
    """Decode steps as a table of batches and contexts."""
    contexts = sorted({step.context_tokens or 0 for step in answer.decode})
    console().print("Decode step (ms) by batch and mean context")
    table = new_table("Batch", *(format_length(context) for context in contexts), left=0)
    at = {(step.batch, step.context_tokens or 0): step.step_s for step in answer.decode}
    for batch in sorted({step.batch for step in answer.decode}):
        table.add_row(str(batch), *(format_ms(at[batch, context]).removesuffix(" ms") for context in contexts))
    console().print(table)
