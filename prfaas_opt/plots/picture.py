"""Plots as PNG or SVG files, by matplotlib; the same model gives the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.files import write_bytes
from prfaas_opt.plots.curves import length_ticks, shown_tick, value_ticks
from prfaas_opt.units import format_length

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from prfaas_opt.plots.curves import Line, ModelPlot, Panel

SUFFIXES = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
"""Of the files that can be written, with what matplotlib would write into them besides and must not."""

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's, which the colour-blind tell apart."""
_MARKERS = "osD^vP*"
_INCHES_A_PANEL, _INCHES_HIGH = 4.0, 3.9


def check_picture(file: str | Path) -> Path:
    """The path of a picture, once its suffix is known and matplotlib is there.

    Raises:
        InputError: another suffix, or no matplotlib.
    """
    path = Path(file)
    if path.suffix.lower() not in SUFFIXES:
        found = f'the suffix "{path.suffix}"' if path.suffix else f'no suffix in "{path.name}"'
        message = f"found {found}, expected {' or '.join(SUFFIXES)}"
        raise InputError(Problem("unknown-suffix", "--plot", message, "name the file curves.png or curves.svg"))
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        message = "pictures need matplotlib, expected it to be installed"
        fix = 'run: pip install "prfaas-opt[plots]"; or use --plot terminal'
        raise InputError(Problem("missing-package", "--plot", message, fix)) from None
    return path


def write_picture(plot: ModelPlot, file: str | Path, replace: bool = False) -> Path:
    """Draws a model's panels beside each other into a PNG or SVG file, in place of one only if ``replace``.

    Raises:
        InputError: another suffix, no matplotlib, or the file is there or cannot be written.
    """
    path = check_picture(file)
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # A user's own style would change the picture from one machine to the next.
        mpl.rc("svg", hashsalt="prfaas-opt")
        mpl.rc("font", size=9.0)
        mpl.rc("savefig", dpi=150.0)
        content = io.BytesIO()
        suffix = path.suffix.lower()
        _figure(plot).savefig(content, format=suffix[1:], metadata=SUFFIXES[suffix])
    return write_bytes(path, content.getvalue(), replace)


def _figure(plot: ModelPlot) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES_A_PANEL * len(plot.panels), _INCHES_HIGH), layout="constrained")
    panels = figure.subplots(1, len(plot.panels), squeeze=False)[0]
    for axes, panel in zip(panels, plot.panels, strict=True):
        _panel(axes, plot, panel)
    figure.suptitle(plot.model)
    figure.legend(handles=_legend(plot), loc="outside lower center", ncols=6, frameon=False)
    return figure


def _panel(axes: Axes, plot: ModelPlot, panel: Panel) -> None:
    for line in panel.lines:
        _draw(axes, line)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(plot.low_tokens / 1.15, plot.high_tokens * 1.15)
    least, most = panel.limits
    axes.set_ylim(least / 1.25, most * 1.25)
    lengths, values = length_ticks(plot.low_tokens, plot.high_tokens, 9), value_ticks(least / 1.2, most * 1.2, 8)
    axes.set_xticks(lengths, [format_length(length) for length in lengths], minor=False)
    axes.set_yticks(values, [shown_tick(value) for value in values], minor=False)
    axes.minorticks_off()
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("prompt length (tokens)")
    axes.set_ylabel(f"{panel.quantity} ({panel.unit})")


def _draw(axes: Axes, line: Line) -> None:
    color = _color(line)
    for stretch in line.stretches:
        x, y = zip(*stretch.points, strict=True)
        axes.plot(x, y, color=color, linewidth=1.6, linestyle=":" if stretch.assumed else "-")
    if line.data:
        x, y = zip(*line.data, strict=True)
        axes.plot(x, y, color=color, linestyle="none", marker=_marker(line), markersize=5)


def _legend(plot: ModelPlot) -> list[Line2D]:
    """What each line is of, with the marker of its points where it has any, and what dots mean."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_color(line), marker=_marker(line) if line.data else "", markersize=5, label=line.name)
        for line in plot.lines
    ]
    if any(line.data for line in plot.lines):
        handles.append(
            Line2D([], [], color="0.3", linestyle="none", marker="o", markersize=5, label="marker: point of the data")
        )
    if plot.has_assumed:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label="dotted: assumed"))
    return handles


def _color(line: Line) -> str:
    return _COLORS[line.number % len(_COLORS)]


def _marker(line: Line) -> str:
    return _MARKERS[line.number % len(_MARKERS)]
