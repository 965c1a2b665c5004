"""Tables and picture of fleet-mix.yaml and price-of-bytes.yaml: which mix is cheapest, and when none is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pictures import BLACK, BLUE, GREEN, ORANGE, VERMILION, drawn
from running import Row, markdown, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, BYTES = STUDIES = ("fleet-mix", "price-of-bytes")
H200, H20 = "input.clusters.prfaas.instances", "input.clusters.pd.instances"
BANDWIDTH, PRICE = "input.links.0.bandwidth_gbps", "input.clusters.prfaas.price_per_gpu_hour"
PER_GB = "input.links.0.price_per_gb"
SERVED, COST, COST_RATIO, HOURLY = "served_rps", "cost.usd_per_thousand_requests", "cost.ratio", "cost.usd_per_hour"
SPLIT = ("instances.prfaas", "instances.pd_prefill", "instances.pd_decode")
COLUMNS = (H200, H20, BANDWIDTH, PRICE, SERVED, COST, COST_RATIO, HOURLY)
DEMAND_RPS = 3.0
GPUS = 8
CASE_STUDY = (4, 8)


class Mixes:
    """The rows of both studies, and what the homogeneous clusters beside them cost.

    Attributes:
        rows: of the mixes.
        bytes_rows: of the prices of a GB.
        all_h20: USD per 1,000 requests of a cluster of so many H20 instances alone.
    """

    def __init__(self, rows: list[Row], bytes_rows: list[Row]) -> None:
        self.rows, self.bytes_rows = rows, bytes_rows
        # The yardstick of a row has as many instances as its fleet; the ratio tells its cost.
        self.all_h20 = {row[H200] + row[H20]: row[COST] * row[COST_RATIO] for row in rows}

    def all_h20_usd_per_hour(self) -> tuple[int, float]:
        """The fewest H20 instances that alone serve the demand, and what they cost."""
        for instances, cost in sorted(self.all_h20.items()):
            hourly = float(instances * GPUS)
            if hourly / (cost * 3.6) >= DEMAND_RPS:
                return instances, hourly
        raise ValueError("no cluster of H20 alone serves the demand")

    def some(self, **values: float) -> list[Row]:
        """Rows with a price or a bandwidth."""
        columns = {"price": PRICE, "gbps": BANDWIDTH}
        return [row for row in self.rows if all(row[columns[key]] == value for key, value in values.items())]

    @property
    def prices(self) -> list[float]:
        """Prices of an H200 over that of an H20."""
        return sorted({row[PRICE] for row in self.rows})

    @property
    def bandwidths(self) -> list[float]:
        """In Gbps."""
        return sorted({row[BANDWIDTH] for row in self.rows})


def run(folder: Path) -> Mixes:
    """Both studies."""
    return Mixes(rows_of(NAME, folder, COLUMNS), rows_of(BYTES, folder, [PRICE, PER_GB, *SPLIT, "offload_share", COST]))


def tables(mixes: Mixes) -> dict[str, str]:
    """The page's tables in Markdown."""
    return {"cheapest": _cheapest(mixes), "break-even": _break_even(mixes), "bytes": _bytes(mixes)}


def _cheapest(mixes: Mixes) -> str:
    instances, alone = mixes.all_h20_usd_per_hour()
    rows = []
    for price in mixes.prices:
        cells = []
        for gbps in mixes.bandwidths:
            able = [row for row in mixes.some(price=price, gbps=gbps) if row[SERVED] >= DEMAND_RPS]
            best = min(able, key=lambda row: (row[HOURLY], -row[SERVED]), default=None)
            if best is None:
                cells.append("none serves it")
                continue
            less = f" ({best[HOURLY] / alone - 1:+.0%})".replace("%", " %")
            cells.append(f"{best[H200]} + {best[H20]}: {best[HOURLY]:.0f}{less}")
        rows.append((f"{price:g}", *cells))
    headings = ("H200 over H20", *(f"{gbps:g} Gbps" for gbps in mixes.bandwidths))
    return f"{markdown(headings, rows)}\n\nH20 alone: {instances} instances, {alone:.0f} USD/h."


def break_even_price(mixes: Mixes, row: Row) -> float:
    """The price of an H200 over that of an H20 at which a mix costs what H20 alone do, for the same demand.

    A plan for the largest throughput does not depend on prices, so that its cost is a line in this one.
    """
    _, alone = mixes.all_h20_usd_per_hour()
    price: float = (alone / GPUS - row[H20]) / row[H200]
    return price


def _break_even(mixes: Mixes) -> str:
    rows = []
    for gbps in mixes.bandwidths:
        able = [row for row in mixes.some(price=mixes.prices[0], gbps=gbps) if row[SERVED] >= DEMAND_RPS]
        best = max(able, key=lambda row: break_even_price(mixes, row), default=None)
        case = next((row for row in able if (row[H200], row[H20]) == CASE_STUDY), None)
        rows.append(
            (
                f"{gbps:g}",
                f"{best[H200]} + {best[H20]}" if best else "none serves it",
                f"{break_even_price(mixes, best):.2f}" if best else "-",
                f"{break_even_price(mixes, case):.2f}" if case else "does not serve it",
            )
        )
    headings = ("Link (Gbps)", "Mix that pays longest", "up to a ratio of", "The paper's 4 + 8, up to")
    return markdown(headings, rows, left=2)


def _bytes(mixes: Mixes) -> str:
    gb_prices = sorted({row[PER_GB] for row in mixes.bytes_rows})
    rows = []
    for price in sorted({row[PRICE] for row in mixes.bytes_rows}):
        line = {row[PER_GB]: row for row in mixes.bytes_rows if row[PRICE] == price}
        rows.append((f"{price:g}", *(_deployment(line[each]) for each in gb_prices)))
    return markdown(("H200 over H20", *(f"{each:g} USD/GB" for each in gb_prices)), rows)


def _deployment(row: Row) -> str:
    prefill = f"{row[SPLIT[0]]} + " if row[SPLIT[0]] else ""
    return f"{prefill}{row[SPLIT[1]] + row[SPLIT[2]]}: {row[COST]:.2f}, {row['offload_share']:.0%}".replace("%", " %")


_COLORS = (ORANGE, GREEN, BLUE, BLACK)
_MARKERS = "^so D".replace(" ", "")


def picture(mixes: Mixes, suffix: str = "svg") -> bytes:
    """The least cost by the price of an H200, and cost against throughput at the paper's."""
    return drawn(lambda figure: _draw(figure, mixes), 7.6, 3.6, suffix)


def _draw(figure: Figure, mixes: Mixes) -> None:
    left, right = figure.subplots(1, 2)
    _draw_prices(left, mixes)
    _draw_front(right, mixes)
    for axes in (left, right):
        axes.grid(visible=True, color="0.92", linewidth=0.6)
        axes.set_axisbelow(True)


def _draw_prices(axes: Axes, mixes: Mixes) -> None:
    alone = min(mixes.all_h20.values())
    axes.axhline(alone, color=VERMILION, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.annotate("H20 alone", (1.0, alone), (0, 3), textcoords="offset points", color=VERMILION, va="bottom")
    for gbps, color, marker in zip(mixes.bandwidths, _COLORS, _MARKERS, strict=True):
        costs = [min(row[COST] for row in mixes.some(price=price, gbps=gbps)) for price in mixes.prices]
        axes.plot(mixes.prices, costs, color=color, marker=marker, markersize=4, linewidth=1.4)
        axes.annotate(
            f"{gbps:g} Gbps",
            (mixes.prices[0], costs[0]),
            (-4, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            color=color,
        )
    axes.set_xlim(0.25, 4.1)
    axes.set_xticks([1, 2, 3, 4])
    axes.set_xlabel("price of an H200 over that of an H20")
    axes.set_ylabel("least USD per 1,000 requests")


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Throughputs and costs that no other beats in both; digits beyond those that are printed decide nothing."""
    import numpy as np

    from prfaas_opt.study.report.pareto import non_dominated

    rounded = np.round(points, 6)
    kept = rounded[non_dominated(rounded * [-1.0, 1.0])]
    return [(float(served), float(cost)) for served, cost in np.unique(kept, axis=0)]


def _draw_front(axes: Axes, mixes: Mixes) -> None:
    own = sorted((instances * GPUS / (cost * 3.6), cost) for instances, cost in mixes.all_h20.items())
    axes.plot(*zip(*own, strict=True), color=VERMILION, linestyle="none", marker="x", markersize=5)
    axes.annotate("H20 alone", own[-1], (6, 0), textcoords="offset points", color=VERMILION, ha="left", va="center")
    for gbps, color, marker in zip(mixes.bandwidths, _COLORS, _MARKERS, strict=True):
        front = _front([(row[SERVED], row[COST]) for row in mixes.some(price=2.0, gbps=gbps)])
        axes.plot(*zip(*front, strict=True), color=color, marker=marker, markersize=4, linewidth=1.4)
        beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center", "color": color}
        axes.annotate(f"{gbps:g} Gbps", front[0], (-6, 0), **beside)
    axes.set_xlim(0, 7)
    axes.set_xlabel("throughput (req/s), H200 at twice the price")
    axes.set_ylabel("USD per 1,000 requests")
