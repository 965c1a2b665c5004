"""What the plots of a model show: its curves over prompt length, where they are assumed, and the points of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.profiles.curve import Curve
from prfaas_opt.throughput.equations import kv_throughput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prfaas_opt.profiles.model import Model, Profile

Point = tuple[float, float]
"""A prompt length in tokens, and a value in its panel's unit."""
Span = tuple[float, float]
"""The shortest and the longest prompt length, tokens."""

_SAMPLES = 240
_DEEPEST = 4.0
"""Below the data a line is drawn down to so small a part of the first value: near zero it would take all of an axis."""
_MOST_TERMS_OF_A_TABLE = 2
_TICKS = ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""First digits of ticks, the densest first."""


class Stretch(Struct, frozen=True):
    """A part of a line, ``assumed`` where it is outside its data, or where its data are."""

    points: tuple[Point, ...]
    assumed: bool


class Line(Struct, frozen=True):
    """A quantity of one profile, or of several that share it; lines of one ``number`` look alike in all panels."""

    name: str
    number: int
    stretches: tuple[Stretch, ...]
    data: tuple[Point, ...]

    @property
    def points(self) -> list[Point]:
        """All that is drawn of it."""
        return [point for stretch in self.stretches for point in stretch.points]


class Panel(Struct, frozen=True):
    """A quantity by prompt length, both axes logarithmic.

    Attributes:
        quantity: its name.
        unit: of its values.
        lines: one for each profile, or for profiles that share it.
    """

    quantity: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value."""
        values = [value for line in self.lines for _, value in line.points]
        return min(values), max(values)


class ModelPlot(Struct, frozen=True):
    """The panels of a model and the lengths that all of them span, in tokens."""

    model: str
    low_tokens: float
    high_tokens: float
    panels: tuple[Panel, ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        """One line of each number, with points of the data where any of them has some."""
        found: dict[int, Line] = {}
        for line in (line for panel in self.panels for line in panel.lines):
            if line.number not in found or (line.data and not found[line.number].data):
                found[line.number] = line
        return tuple(found[number] for number in sorted(found))

    @property
    def has_assumed(self) -> bool:
        """Whether any part of any line is assumed."""
        return any(stretch.assumed for panel in self.panels for line in panel.lines for stretch in line.stretches)


def model_plot(model: Model) -> ModelPlot:
    """What to draw of a model: prefill latency, KVCache size, and KV throughput (equation 1) of all its profiles.

    It spans all that the profiles know and half of the shortest length, so that what is assumed below it shows.
    """
    lows = [max(curve.measured_low_tokens, 1.0) for p in model.profiles for curve in (p.prefill_s, p.kv_bytes)]
    shortest = min(low for low in lows if low > 1.0) if any(low > 1.0 for low in lows) else 1.0
    low = max(2.0 ** math.floor(math.log2(shortest) - 0.5), 1.0)
    high = max(min(p.prefill_s.upper, p.kv_bytes.upper) for p in model.profiles)
    span = low, high
    names = tuple(f"{p.gpus_per_instance} x {p.hardware}" for p in model.profiles)
    panels = (
        Panel("Prefill latency", "s", tuple(_latency(i, *each, span) for i, each in _named(names, model))),
        Panel("KVCache size", "MiB", tuple(_sizes(names, model, span))),
        Panel("KV throughput", "Gbps", tuple(_rate(i, *each, span) for i, each in _named(names, model))),
    )
    return ModelPlot(model.name, low, high, panels)


def _named(names: Sequence[str], model: Model) -> Iterator[tuple[int, tuple[str, Profile]]]:
    return enumerate(zip(names, model.profiles, strict=True))


class _Known(Struct, frozen=True):
    """A curve and whether its provenance calls all of it assumed."""

    curve: Curve
    assumed: bool

    @classmethod
    def of(cls, profile: Profile, figure: Literal["prefill", "kv_cache"]) -> _Known:
        """Of a figure of a profile."""
        curve = profile.prefill_s if figure == "prefill" else profile.kv_bytes
        return cls(curve, profile.provenance[figure].kind == "assumed")

    @property
    def data(self) -> list[float]:
        """The lengths of a table's points; none of a formula's, of what follows from layers, or of what is assumed."""
        first, last = self.curve.measured_low_tokens, self.curve.measured_high_tokens
        pieces = [piece for piece in self.curve.pieces if first <= piece.low and piece.high <= last]
        if first <= 0 or self.assumed or any(len(piece.terms) > _MOST_TERMS_OF_A_TABLE for piece in pieces):
            return []
        return [first, *(piece.high for piece in pieces)]


def _latency(number: int, name: str, profile: Profile, span: Span) -> Line:
    latency = _Known.of(profile, "prefill")
    return _line(name, number, latency.curve, (latency,), latency.data, span)


def _sizes(names: Sequence[str], model: Model, span: Span) -> Iterator[Line]:
    """A line for each profile, or one for all of them where they share their size."""
    sizes = [_Known.of(profile, "kv_cache") for profile in model.profiles]
    if len(sizes) > 1 and all(size == sizes[0] for size in sizes):
        yield _size("all hardware", len(names), sizes[0], span)
    else:
        for number, (name, size) in enumerate(zip(names, sizes, strict=True)):
            yield _size(name, number, size, span)


def _size(name: str, number: int, size: _Known, span: Span) -> Line:
    return _line(name, number, lambda length: units.to_mib(size.curve(length)), (size,), size.data, span)


def _rate(number: int, name: str, profile: Profile, span: Span) -> Line:
    latency, size = _Known.of(profile, "prefill"), _Known.of(profile, "kv_cache")
    known = size.curve.measured_low_tokens, size.curve.measured_high_tokens
    points = [x for x in latency.data if known[0] <= x <= known[1]]
    return _line(
        name,
        number,
        lambda length: units.to_gbps(kv_throughput(size.curve(length), latency.curve(length))),
        (latency, size),
        points,
        span,
    )


def _line(
    name: str,
    number: int,
    value: Callable[[float], float],
    sources: Sequence[_Known],
    data_lengths: Sequence[float],
    span: Span,
) -> Line:
    """A line over some lengths, as far as all the curves behind it go and its value is positive."""
    curves = [source.curve for source in sources]
    low, high = span[0], min(span[1], *(curve.upper for curve in curves))
    first = max(curve.measured_low_tokens for curve in curves)
    last = min(curve.measured_high_tokens for curve in curves)
    steps = {low * (high / low) ** (i / _SAMPLES) for i in range(_SAMPLES)} | {high}
    breaks = {piece.high for curve in curves for piece in curve.pieces}
    lengths = sorted(x for x in steps | breaks | {first, last} if low <= x <= high)
    parts = [(low, min(first, high), True), (first, min(last, high), False), (last, high, True)]
    if first >= min(last, high) or any(source.assumed for source in sources):
        parts = [(low, high, True)]
    floor = value(min(max(first, low), high)) / _DEEPEST
    stretches = []
    for start, end, assumed in parts:
        found = ((x, value(x)) for x in lengths if start <= x <= end)
        shown = tuple((x, y) for x, y in found if y > (floor if x < first else 0.0))
        if len(shown) > 1:
            stretches.append(Stretch(shown, assumed))
    return Line(name, number, tuple(stretches), tuple((x, value(x)) for x in data_lengths if low <= x <= high))


def length_ticks(low: float, high: float, most: int) -> list[int]:
    """Powers of two between two lengths in tokens, evenly spaced and at most so many.

    >>> length_ticks(512, 131072, 5)
    [512, 2048, 8192, 32768, 131072]
    """
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    step = max(math.ceil((last - first + 1) / most), 1)
    return sorted(2**k for k in range(last, first - 1, -step))


def shown_tick(value: float) -> str:
    """A round value, as short as it goes.

    >>> shown_tick(0.5), shown_tick(1.5), shown_tick(20000.0)
    ('0.5', '1.5', '20,000')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def value_ticks(low: float, high: float, most: int) -> list[float]:
    """Round values between two positive ones, as dense as at most so many allow.

    >>> value_ticks(0.9, 3.2, 6), value_ticks(0.3, 9.0, 5), value_ticks(0.3, 9000.0, 5)
    ([1.0, 1.2, 1.5, 2.0, 2.5, 3.0], [0.5, 1.0, 2.0, 5.0], [1.0, 10.0, 100.0, 1000.0])
    """
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    found: list[float] = []
    for mantissas in _TICKS:
        every = [float(f"{m:g}e{k}") for k in decades for m in mantissas]
        found = [x for x in every if low * (1 - 1e-9) <= x <= high * (1 + 1e-9)]
        if len(found) <= most:
            break
    return found[:: max(math.ceil(len(found) / most), 1)]
