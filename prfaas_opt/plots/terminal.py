"""Plots as text: Braille dots for lines, a letter for a point of the data, the name of a line at its right end."""

from __future__ import annotations

import itertools
import math
import textwrap
from typing import TYPE_CHECKING

from plotille import Canvas

from prfaas_opt.plots.curves import length_ticks, shown_tick, value_ticks
from prfaas_opt.units import format_length

if TYPE_CHECKING:
    from prfaas_opt.plots.curves import Line, ModelPlot, Panel, Point

_MARKERS = "ox+*#@"
_COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red")
_ROWS, _DOTS_WIDE, _DOTS_HIGH = 11, 2, 4
_LABEL, _LONGEST_NAME = 7, 16
_LEAST_COLUMNS = 16
_NO_DOTS = "\N{BRAILLE PATTERN BLANK}"
_GAP_DOTS = 4
"""A dot in so many is drawn where a line is assumed."""


def text_plot(plot: ModelPlot, columns: int) -> str:
    """The panels of a model below each other, at most so many columns wide, in colour where the terminal has it."""
    parts = [textwrap.fill(_legend(plot), columns)]
    margin = max(len(_name(line)) for panel in plot.panels for line in panel.lines)
    width = max(columns - _LABEL - 3 - margin, _LEAST_COLUMNS)
    parts += ["\n".join(_panel(plot, panel, width)) for panel in plot.panels]
    return "\n\n".join(parts)


def _legend(plot: ModelPlot) -> str:
    """What the markers are of, and what dots are."""
    points = [f"{_marker(line.number)} {line.name}" for line in plot.lines if line.data]
    words = ["Points of the data: " + ", ".join(points)] if points else []
    return "; ".join([*words, "dotted where assumed"] if plot.has_assumed else words)


def _marker(number: int) -> str:
    return _MARKERS[number % len(_MARKERS)]


class _Grid:
    """Where lengths and values come to lie on a canvas of dots, both logarithmic."""

    def __init__(self, plot: ModelPlot, panel: Panel, width: int) -> None:
        least, most = panel.limits
        if most / least < 1.5:
            least, most = least / 1.5, most * 1.5
        self.width = width
        self._x, self._y = (
            (math.log10(plot.low_tokens), math.log10(plot.high_tokens)),
            (
                math.log10(least),
                math.log10(most),
            ),
        )
        self._dots = _DOTS_WIDE * width - 1, _DOTS_HIGH * _ROWS - 1
        self.canvas = Canvas(width, _ROWS, 0, 0, _DOTS_WIDE * width, _DOTS_HIGH * _ROWS)

    def dot(self, point: Point) -> tuple[int, int]:
        """The dot of a point, from the lower left."""
        places = zip(point, (self._x, self._y), self._dots, strict=True)
        x, y = (round((math.log10(v) - low) / (high - low) * dots) for v, (low, high), dots in places)
        return x, y

    def row(self, value: float) -> int:
        """The row of text of a value, from the bottom."""
        return self.dot((10.0 ** self._x[0], value))[1] // _DOTS_HIGH

    def column(self, length: float) -> int:
        """The column of text of a length."""
        return self.dot((length, 10.0 ** self._y[0]))[0] // _DOTS_WIDE


def _panel(plot: ModelPlot, panel: Panel, width: int) -> list[str]:
    grid = _Grid(plot, panel, width)
    for line in panel.lines:
        _draw(grid, line)
    for line in panel.lines:
        for point in line.data:
            x, y = grid.dot(point)
            grid.canvas.point(x, y, color=_color(line), marker=_marker(line.number))
    labels = {grid.row(tick): shown_tick(tick) for tick in value_ticks(*panel.limits, most=6)}
    ends = _ends(grid, panel)
    drawn = grid.canvas.plot("\n").replace(_NO_DOTS, " ").split("\n")
    rows = [
        f"{labels.get(row, ''):>{_LABEL}} {'┤' if row in labels else '│'}{text}{ends.get(row, '')}".rstrip()
        for row, text in zip(range(_ROWS - 1, -1, -1), drawn, strict=True)
    ]
    return [f"{panel.quantity} ({panel.unit})", *rows, *_lengths(plot, grid)]


def _name(line: Line) -> str:
    return line.name[:_LONGEST_NAME]


def _color(line: Line) -> str:
    return _COLORS[line.number % len(_COLORS)]


def _draw(grid: _Grid, line: Line) -> None:
    for stretch in line.stretches:
        dots = [grid.dot(point) for point in stretch.points]
        if stretch.assumed:
            for x, y in dots:
                if x % _GAP_DOTS == 0:
                    grid.canvas.point(x, y, color=_color(line))
            continue
        for (x0, y0), (x1, y1) in itertools.pairwise(dots):
            grid.canvas.line(x0, y0, x1, y1, color=_color(line))


def _ends(grid: _Grid, panel: Panel) -> dict[int, str]:
    """The names of lines by the row they end in, or the next free one below or above."""
    found: dict[int, str] = {}
    for line in sorted(panel.lines, key=lambda line: -line.points[-1][1]):
        wanted = grid.row(line.points[-1][1])
        free = [row for row in range(_ROWS) if row not in found]
        if free:
            found[min(free, key=lambda row: (abs(row - wanted), row))] = f" {_name(line)}"
    return found


def _lengths(plot: ModelPlot, grid: _Grid) -> list[str]:
    """The axis below: its line, ticks, labels, and what it is of."""
    axis, labels = ["─"] * grid.width, [" "] * (_LABEL + 2 + grid.width + 4)
    for tick in length_ticks(plot.low_tokens, plot.high_tokens, grid.width // 8):
        column = grid.column(tick)
        axis[column] = "┬"
        text = format_length(tick)
        start = _LABEL + 2 + column - len(text) // 2
        labels[start : start + len(text)] = text
    margin = " " * (_LABEL + 1)
    title = "prompt length (tokens)"
    return [f"{margin}└{''.join(axis)}", "".join(labels).rstrip(), f"{margin} {title:^{grid.width}}".rstrip()]
