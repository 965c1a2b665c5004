"""``prfaas-opt models check``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.derive import KvDtype, StateDtype
from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.errors import CheckFailedError
from prfaas_opt.units import format_share, format_tokens

if TYPE_CHECKING:
    from prfaas_opt.check_api import Finding, ModelCheck


@answers("models check")
def check(
    name: Annotated[str, typer.Argument(help="A model's name or the path of its file.")],
    noise: Annotated[float, typer.Option(help="Share by which a measurement may be off.")] = 0.05,
    kv_from: Annotated[
        str | None,
        typer.Option(
            metavar="config.json",
            help="The model's config.json: its KVCache sizes must follow from the layers there.",
            show_default=False,
        ),
    ] = None,
    kv_dtype: Annotated[
        KvDtype | None,
        typer.Option(help="Data type of keys and values, with --kv-from. [default: bf16]", show_default=False),
    ] = None,
    state_dtype: Annotated[
        StateDtype | None,
        typer.Option(
            help="Data type of recurrent states, with --kv-from. [default: what the config states, or fp32]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a model's figures can be those of a machine; exit 6 if not.

    Example: prfaas-opt models check internal-1t

    Example: prfaas-opt models check kimi-linear --kv-from config.json
    """
    from prfaas_opt.check_api import check_model

    if kv_from is None and (kv_dtype or state_dtype):
        raise typer.BadParameter("--kv-dtype and --state-dtype are about --kv-from, which is not given")
    types = (kv_dtype or KvDtype.BF16).value, state_dtype.value if state_dtype else None
    answer = check_model(name, noise, kv_from, *types)
    if as_json:
        print_json("models check", "ok" if answer.holds else "failed", answer, answer.warnings)
    else:
        _print(answer)
        print_warnings(answer.warnings)
    if not answer.holds:
        raise typer.Exit(CheckFailedError.exit_code)


def _print(answer: ModelCheck) -> None:
    out = console()
    statuses: list[str] = [row.status for row in answer.checks]
    counts = ", ".join(f"{statuses.count(s)} {words}" for s, words in _WORDS.items() if statuses.count(s))
    out.print(f"{answer.model}: {counts}", style="bold")
    out.print(f"Measurements may be off by {format_share(answer.noise_share)}.")
    table = new_table("Hardware", "Check", "Result", "", left=4)
    for row in answer.checks:
        table.add_row(row.hardware, row.check, row.status, row.why)
    out.print(table)
    for fix, findings in itertools.groupby(answer.findings, lambda finding: finding.fix):
        for finding in findings:
            out.print(_in_words(finding))
        out.print(f"    fix: {fix}")


_WORDS = {"fails": "failed", "holds": "passed", "not checked": "not checked"}


def _in_words(finding: Finding) -> str:
    found, expected = (
        f"{value:.4g} s" if finding.unit == "s" else f"{value:,.0f} bytes"
        for value in (finding.found, finding.expected)
    )
    cached = f", {format_tokens(finding.cached_tokens)} of them cached" if finding.cached_tokens else ""
    at = f"{finding.hardware} at {format_tokens(finding.length_tokens)} tokens{cached}"
    if finding.batch is not None:
        at = f"{finding.hardware} at batch {finding.batch:,}"
    return f"{at}: found {found}, expected {finding.relation} {expected} ({finding.check})"
