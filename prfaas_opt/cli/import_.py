"""``prfaas-opt models import``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.derive import KvDtype
from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_length, format_ms, format_share, format_tokens

if TYPE_CHECKING:
    from prfaas_opt.import_api import Import


@answers("models import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="Outputs of benchmarks, all of one model.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Name of the model.")],
    hardware: Annotated[str, typer.Option(help="Accelerator it was measured on, as scenarios name it.")],
    gpus_per_instance: Annotated[int, typer.Option(help="GPUs that the measured instance took.")] = 8,
    kv_from: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG|MODEL",
            help="Where the KVCache size comes from: a config.json, or a model that has it.",
            show_default=False,
        ),
    ] = None,
    kv_dtype: Annotated[
        KvDtype | None,
        typer.Option(help="Data type of keys and values, of a config.json. [default: bf16]", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write. [default: models/NAME.yaml]", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a model file from the outputs of benchmarks.

    Reads vLLM bench serve and bench latency, SGLang bench_serving and
    bench_one_batch, AIPerf, GenAI-Perf, GuideLLM, raw data of Dynamo's SLA
    profiler, and CSV. Prefill latency is taken where prompts did not wait for
    each other.

    Example: prfaas-opt models import bench.json --as m --hardware H200
    """
    from prfaas_opt.errors import InputError
    from prfaas_opt.import_api import import_measured, missing_kv_cache

    dtype = kv_dtype.value if kv_dtype else None
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


def _print(answer: Import) -> None:
    from rich.markup import escape

    out = console()
    gpus = f"{answer.gpus_per_instance} GPU{'s' if answer.gpus_per_instance > 1 else ''} an instance"
    out.print(f"{answer.name} on {escape(answer.hardware)}, {gpus}", style="bold")
    read = new_table("File", "Read as", "Prefill points", "Decode points", left=2)
    for file in answer.files:
        tool = f"{file.format} {file.version}".strip()
        read.add_row(escape(Path(file.file).name), escape(tool), str(file.prefill_points), str(file.decode_points))
    out.print(read)
    prefill = new_table("Prompt", "Prefill (s)", "Measurements", left=0)
    for row in answer.prefill:
        prefill.add_row(format_length(row.length_tokens), f"{row.latency_s:.4g}", str(row.runs))
    out.print(prefill)
    if answer.decode:
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
        out.print(escape(f"kv_cache: from {answer.kv_cache_from}"))
    out.print(escape(f"Written: {answer.file}"), soft_wrap=True)
