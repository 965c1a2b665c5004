"""Tables and picture of cross-datacenter.yaml: which models can prefill elsewhere, over what bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pictures import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, drawn
from running import HERE, Row, markdown, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "cross-datacenter"
STUDIES = (NAME,)
MODEL, BANDWIDTH = "input.model", "input.links.0.bandwidth_gbps"
SERVED, RATIO, EGRESS = "served_rps", "ratio", "egress_gbps"
SPLIT = ("instances.prfaas", "instances.pd_prefill", "instances.pd_decode")
COLUMNS = (MODEL, BANDWIDTH, SERVED, RATIO, EGRESS, *SPLIT, "bottlenecks")

ATTENTION = {
    "ring-2.5-1t": "hybrid: 70 Lightning, 10 MLA",
    "internal-1t": "hybrid: KDA and MLA, 3 to 1",
    "kimi-linear": "hybrid: 20 KDA, 7 MLA",
    "mimo-v2-flash": "hybrid: 39 sliding-window, 9 GQA",
    "qwen3.5-397b": "hybrid: 45 gated DeltaNet, 15 GQA",
    "qwen3-235b": "dense: 94 GQA",
    "minimax-m2.5": "dense: 62 GQA",
}
"""Layers, as the model files have them."""
DENSE = {model for model, layers in ATTENTION.items() if layers.startswith("dense")}
LINK_GBPS = 100
SHOWN_GBPS = (2, 5, 10, 25, 50, 100, 200)
MOST_OF_IT = 0.9

Lines = dict[str, list[Row]]


@dataclass
class Found:
    """What the study gives.

    Attributes:
        lines: rows of each model by bandwidth, models by what they need of the link.
        break_even_gbps: by measure and model, the bandwidth from which remote prefill pays, to 0.1 %.
    """

    lines: Lines
    break_even_gbps: dict[str, dict[str, float]]


def run(folder: Path) -> Found:
    """Runs the study, and plans between its rows where remote prefill begins to pay."""
    from prfaas_opt.study_report_api import report_study

    lines: Lines = {}
    for row in rows_of(NAME, folder, COLUMNS):
        lines.setdefault(row[MODEL], []).append(row)
    for line in lines.values():
        line.sort(key=lambda row: row[BANDWIDTH])
        if "egress" in line[-1]["bottlenecks"]:
            raise ValueError(f"the widest link limits {line[-1][MODEL]}: its gain is not known")
    report = report_study(folder / f"{NAME}.parquet", study=HERE / f"{NAME}.yaml")
    break_even: dict[str, dict[str, float]] = {}
    for each in report.break_even:
        for one in each.each:
            if one.pays != "from" or one.refined_high is None:
                raise ValueError(f"{one.values} has no break-even")
            break_even.setdefault(each.measure, {})[one.values["model"]] = one.refined_high
    return Found(dict(sorted(lines.items(), key=lambda pair: needed_gbps(pair[1]))), break_even)


def needed_gbps(line: list[Row]) -> float:
    """What the plan that no link limits sends: more bandwidth gives nothing."""
    egress: float = line[-1][EGRESS]
    return egress


def gain_share(line: list[Row], row: Row) -> float:
    """Of the gain over the homogeneous cluster that the model has without a limit; below 0: less than that cluster."""
    share: float = (row[RATIO] - 1) / (line[-1][RATIO] - 1)
    return share


def interval(line: list[Row], reached: Callable[[Row], bool]) -> str:
    """The neighbouring bandwidths between which something is reached, once for all."""
    first = next(at for at in range(len(line)) if all(reached(row) for row in line[at:]))
    if not first:
        return f"below {line[0][BANDWIDTH]:g}"
    return f"{line[first - 1][BANDWIDTH]:g} to {line[first][BANDWIDTH]:g}"


def tables(found: Found) -> dict[str, str]:
    """The page's tables in Markdown."""
    lines = found.lines
    by_model, shares = [], []
    for model, line in lines.items():
        best = line[-1]
        needs = needed_gbps(line)
        by_model.append(
            (
                model,
                ATTENTION[model],
                *(f"{found.break_even_gbps[measure][model]:#.3g}".rstrip(".") for measure in ("throughput", "cost")),
                interval(line, lambda row, line=line: gain_share(line, row) >= MOST_OF_IT),  # type: ignore[misc]
                f"{needs:.1f}",
                f"{LINK_GBPS / (needs / best[SPLIT[0]]):.1f}",
                f"{best[RATIO]:.2f}x",
                f"{best[SERVED]:.2f}, {best[SPLIT[0]]} / {best[SPLIT[1]]} / {best[SPLIT[2]]}",
            )
        )
        by_gbps = {row[BANDWIDTH]: row for row in line}
        shares.append((model, *(_percent(gain_share(line, by_gbps[gbps])) for gbps in SHOWN_GBPS)))
    headings = (
        "Model",
        "Attention",
        "Beats 12 H20 from",
        "Costs less from",
        "90 % of the gain from",
        "All of it at",
        f"Instances a {LINK_GBPS} Gbps link feeds",
        "Gain",
        "req/s, split",
    )
    return {
        "by-model": markdown(headings, by_model, left=2),
        "shares": markdown(("Share of the gain at (Gbps)", *map(str, SHOWN_GBPS)), shares),
        "claim": _claim(lines),
    }


def _percent(share: float) -> str:
    return "none" if share <= 0 else f"{share:.0%}".replace("%", " %")


def _claim(lines: Lines) -> str:
    """What hybrids need beside what dense models need."""
    needs = {model: needed_gbps(line) for model, line in lines.items()}
    kinds = {
        "hybrid": {model: gbps for model, gbps in needs.items() if model not in DENSE},
        "dense": {model: gbps for model, gbps in needs.items() if model in DENSE},
    }
    ends = {kind: (min(of, key=of.__getitem__), max(of, key=of.__getitem__)) for kind, of in kinds.items()}
    rows = [(kind, *(f"{needs[model]:.1f} ({model})" for model in pair)) for kind, pair in ends.items()]
    (least_hybrid, most_hybrid), (least_dense, most_dense) = ends["hybrid"], ends["dense"]
    closest, farthest = needs[least_dense] / needs[most_hybrid], needs[most_dense] / needs[least_hybrid]
    rows.append(("dense over hybrid", f"{closest:.1f}x ({least_dense} over {most_hybrid})", f"{farthest:.0f}x"))
    return markdown(("Gbps for all of the gain", "Least", "Most"), rows)


_LOOKS = {
    "ring-2.5-1t": (BLUE, "o"),
    "internal-1t": (BLACK, "s"),
    "kimi-linear": (SKY, "D"),
    "mimo-v2-flash": (GREEN, "^"),
    "qwen3.5-397b": (PURPLE, "v"),
    "qwen3-235b": (ORANGE, "P"),
    "minimax-m2.5": (VERMILION, "X"),
}

_ASIDE = {"internal-1t": -3, "kimi-linear": 3, "mimo-v2-flash": 5}
"""Points by which names are moved that would touch each other."""


def picture(found: Found, suffix: str = "svg") -> bytes:
    """Throughput over that of the homogeneous cluster by bandwidth, a line a model."""
    return drawn(lambda figure: _draw(figure, found.lines), 7.2, 4.4, suffix)


def _draw(figure: Figure, lines: Lines) -> None:
    axes = figure.subplots()
    axes.axhline(1.0, color="0.35", linewidth=0.9)
    axes.annotate(
        "12 instances of H20", (390, 1.0), (0, -3), textcoords="offset points", ha="right", va="top", color="0.35"
    )
    for model, line in lines.items():
        color, marker = _LOOKS[model]
        style = (0, (4, 2)) if model in DENSE else "-"
        x, y = [row[BANDWIDTH] for row in line], [row[RATIO] for row in line]
        axes.plot(x, y, color=color, linestyle=style, linewidth=1.5, marker=marker, markersize=3.2, zorder=3)
        needs, top = needed_gbps(line), line[-1][RATIO]
        axes.plot([needs, needs], [top, 1.76], color=color, linewidth=0.8, linestyle=":", zorder=2)
        axes.annotate(
            f"{model}  {needs:.0f}",
            (needs, 1.77),
            (_ASIDE.get(model, 0), 0),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            color=color,
            fontsize=8.5,
            fontweight="bold" if model == "internal-1t" else "normal",
        )
    axes.set_xscale("log")
    axes.set_xlim(0.95, 420)
    axes.set_ylim(0.58, 2.3)
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 400]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks([0.6, 0.8, 1.0, 1.2, 1.4, 1.6])
    axes.minorticks_off()
    axes.grid(visible=True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("link bandwidth (Gbps)")
    axes.set_ylabel("throughput over the homogeneous cluster's", loc="bottom")
    told = "solid: hybrid attention; dashed: dense\nat the names: Gbps that give all of the gain"
    axes.text(400, 0.6, told, ha="right", va="bottom", color="0.2")
