"""``prfaas-opt models scale``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_length, format_ms, format_share, format_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from prfaas_opt.scale_api import BackTest, Scaling

_MOST_TESTS = 16


@answers("models scale")
def scale(
    name: Annotated[str, typer.Argument(help="A model's name or the path of its file.")],
    from_hardware: Annotated[str, typer.Option("--from", metavar="HARDWARE", help="Hardware of a profile it has.")],
    to_hardware: Annotated[str, typer.Option("--to", metavar="HARDWARE", help="Accelerator to scale it to.")],
    number_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="fp8|fp16|fp4",
            help="Number format whose peak rates prefill goes by. [default: the first that both have]",
            show_default=False,
        ),
    ] = None,
    prefill_only: Annotated[bool, typer.Option("--prefill-only", help="Leave decode out.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write the model with the new profile to this file.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Scale a profile to hardware that nobody measured, by public peaks.

    The new profile is assumed. Back-tests, where a model has figures on two
    hardwares, show how far such scaling is off.

    Example: prfaas-opt models scale internal-1t --from H200 --to B200
    """
    from prfaas_opt.scale_api import scale_model

    answer = scale_model(name, from_hardware, to_hardware, number_format, prefill_only, output, force)
    if as_json:
        print_json("models scale", "ok", answer, answer.warnings)
        return
    _print(answer)
    print_warnings(answer.warnings)


def _print(answer: Scaling) -> None:
    from rich.markup import escape

    out = console()
    title = f"{answer.model}: {answer.from_hardware} to {answer.to_hardware}, {answer.gpus_per_instance} GPUs each"
    out.print(escape(title), style="bold")
    rule = f"Prefill: times {answer.compute_ratio:.3g} above a fixed {answer.fixed_s:.3g} s, by peak rates"
    out.print(f"{rule} ({answer.number_format}).")
    if answer.bandwidth_ratio is not None:
        out.print(f"Decode: times {answer.bandwidth_ratio:.3g}, by memory bandwidths. The KVCache stays.")
    table = new_table("Prompt", f"{answer.from_hardware} (s)", f"{answer.to_hardware} (s)", "By back-tests (s)", left=0)
    for row in answer.prefill:
        ends = "" if row.least_s is None or row.most_s is None else f"{row.least_s:.3g} to {row.most_s:.3g}"
        table.add_row(format_length(round(row.length_tokens)), f"{row.from_s:.4g}", f"{row.scaled_s:.4g}", ends)
    out.print(table)
    if answer.decode:
        steps = new_table("Batch", "Mean context", f"{answer.from_hardware} step", f"{answer.to_hardware} step", left=0)
        for step in answer.decode:
            context = "" if step.context_tokens is None else format_tokens(step.context_tokens)
            steps.add_row(str(step.batch), context, format_ms(step.from_s), format_ms(step.scaled_s))
        out.print(steps)
    _print_back_tests(out, answer)
    if answer.file is None:
        typer.echo(answer.profile_yaml, nl=False)
    else:
        out.print(escape(f"Written: {answer.file}"), soft_wrap=True)


def _print_back_tests(out: Console, answer: Scaling) -> None:
    for figure, at in (("prefill", "Prompt"), ("decode", "Batch")):
        tests = [test for test in answer.back_tests if test.figure == figure]
        if not tests or (figure == "decode" and not answer.decode):
            continue
        if len(tests) > _MOST_TESTS:
            _print_by_pair(out, figure, tests, (answer.from_hardware, answer.to_hardware))
            continue
        title = f"Back-tests of {figure}, s"
        table = new_table("Model", "From", "To", at, "Scaled", "Stated", "Off by", left=3, title=title)
        for test in tests:
            ends = f"{test.from_hardware} ({test.from_provenance})", f"{test.to_hardware} ({test.to_provenance})"
            where = format_length(round(test.at)) if figure == "prefill" else f"{test.at:.0f}"
            figures = f"{test.scaled_s:.4g}", f"{test.stated_s:.4g}", format_share(test.off_by_share, signed=True)
            table.add_row(test.model, *ends, where, *figures)
        out.print(table)
    for figure, found in (("Prefill", answer.prefill_uncertainty), ("Decode", answer.decode_uncertainty)):
        if found is not None:
            pair = f"from {answer.from_hardware} to {answer.to_hardware}"
            of = pair if found.of == "this pair" else "no model has it on both; over all pairs"
            out.print(f"{figure}: {of}, what was stated is {found.least:.2f} to {found.most:.2f} times the scaled.")
        elif figure == "Prefill" or answer.decode:
            out.print(f"{figure}: no model has it on two hardwares, so its uncertainty is not known.")


def _print_by_pair(out: Console, figure: str, tests: Sequence[BackTest], asked: tuple[str, str]) -> None:
    """A row for each pair of hardware, the one that is asked for first: the stated over the scaled, of all models."""
    pairs: dict[tuple[bool, str, str], list[BackTest]] = {}
    for test in tests:
        ends = f"{test.from_hardware} ({test.from_provenance})", f"{test.to_hardware} ({test.to_provenance})"
        pairs.setdefault(((test.from_hardware, test.to_hardware) != asked, *ends), []).append(test)
    title = f"Back-tests of {figure}: the stated over the scaled"
    table = new_table("From", "To", "Models", "Tests", "Least", "Median", "Most", left=2, title=title)
    for (_, one, other), found in sorted(pairs.items()):
        ratios = [test.stated_s / test.scaled_s for test in found]
        spread = (f"{ratio:.2f}" for ratio in (min(ratios), statistics.median(ratios), max(ratios)))
        table.add_row(one, other, str(len({test.model for test in found})), str(len(found)), *spread)
    out.print(table)
