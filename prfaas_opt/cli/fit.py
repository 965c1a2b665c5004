"""``prfaas-opt models fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_opt.cli.options import JsonOption
from prfaas_opt.cli.output import answers, console, new_table, print_json, print_warnings
from prfaas_opt.units import format_share, format_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from prfaas_opt.fit_api import ModelFit, TargetRow


@answers("models fit")
def fit(
    points: Annotated[
        Path | None,
        typer.Argument(
            metavar="[POINTS]",
            help="CSV of measured points: columns length_tokens and latency_s, latency_ms or latency_us.",
            show_default=False,
        ),
    ] = None,
    targets: Annotated[
        Path | None,
        typer.Option(help="YAML of published figures to calibrate to, in place of points.", show_default=False),
    ] = None,
    robust: Annotated[bool, typer.Option("--robust", help="Let no single point pull hard (Huber's loss).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a latency curve to measured points or to published figures.

    Example: prfaas-opt models fit points.csv --robust
    """
    from prfaas_opt import fit_api

    if (points is None) == (targets is None):
        raise typer.BadParameter("name a CSV file of points, or --targets FILE: one of the two")
    if targets is not None:
        if robust:
            raise typer.BadParameter("--robust is for points: published figures are few, and each is needed")
        answer = fit_api.fit_targets(targets)
    else:
        assert points is not None
        answer = fit_api.fit_curve(points, robust)
    if as_json:
        print_json("models fit", "ok", answer, answer.warnings)
        return
    out = console()
    _print_curve(out, answer)
    if answer.source == "points":
        _print_points(out, answer)
    else:
        _print_targets(out, answer)
    _print_intervals(out, answer)
    print_warnings(answer.warnings)


_LOSSES = {"least-squares": "least squares", "huber": "Huber's loss"}


def _print_curve(out: Console, answer: ModelFit) -> None:
    low, high = map(format_tokens, answer.range_tokens)
    if answer.source == "points":
        lengths = len({point.length_tokens for point in answer.points})
        what = f"through {len(answer.points)} points at {lengths} lengths"
    else:
        what = f"from {sum(row.evidence == 'fitted' for row in answer.targets)} published figures"
    out.print(f"T(l) = a + b*l + c*l^2 {what}", style="bold")
    out.print(f"For {low} to {high} tokens, by {_LOSSES[answer.loss]} of the relative residuals.")
    out.print()
    typer.echo(answer.prefill_yaml, nl=False)


def _print_points(out: Console, answer: ModelFit) -> None:
    table = new_table("Line", "Length", "Measured (s)", "Fitted (s)", "Off by", "Robust z", "", left=0)
    for row in answer.points:
        table.add_row(
            str(row.line),
            format_tokens(row.length_tokens),
            f"{row.latency_s:.4g}",
            f"{row.fitted_s:.4g}",
            format_share(row.residual_share, signed=True),
            f"{row.robust_z:+.1f}",
            "wrong?" if row.looks_wrong else "",
        )
    out.print(table)
    wrong = [row for row in answer.points if row.looks_wrong]
    lines = f" (line {', '.join(str(row.line) for row in wrong)})" if wrong else ""
    out.print(f"Points that look wrong: {len(wrong)} of {len(answer.points)}{lines}.")
    out.print(f"The rule: {answer.rule}.")


def _print_targets(out: Console, answer: ModelFit) -> None:
    for evidence, title in (("fitted", "Fitted to"), ("held out", "Held out: not used in the fit")):
        rows = [row for row in answer.targets if row.evidence == evidence]
        if rows:
            table = new_table(title, "Published", "By the fit", "Off by", "By rounding", left=1)
            for row in rows:
                table.add_row(*_target_cells(row))
            out.print(table)


def _target_cells(row: TargetRow) -> tuple[str, ...]:
    unit = "req/s" if row.kind == "throughput" else "s"
    ends = "" if row.fitted_range is None else " to ".join(f"{end:.4g}" for end in row.fitted_range)
    return (
        row.what,
        f"{row.published:.6g} {unit}",
        f"{row.fitted:.4g} {unit}",
        format_share(row.off_by_share, signed=True),
        ends,
    )


def _print_intervals(out: Console, answer: ModelFit) -> None:
    if not answer.intervals:
        return
    noisy = answer.source == "points"
    more = ["Noise"] if noisy else []
    table = new_table("By the rounding of last digits", "Fitted", "Least", "Most", "Off by", *more, left=1)
    for row in answer.intervals:
        cells = [f"{value:.4g}" for value in (row.fitted, row.least, row.most)]
        shares = [row.off_by_share, row.noise_share] if noisy else [row.off_by_share]
        cells += ["" if share is None else format_share(share) for share in shares]
        table.add_row(f"{row.what} ({row.unit})", *cells)
    out.print(table)
    if noisy:
        out.print("Noise: one standard deviation, by the scatter of the points.")
