"""Computes the positions of lines, markers and texts; templates draw them.

    line_chart([Series("adt_exp", 0, x, y)], label="...", x_label="epoch", ...)
    dot_track([Dot("adt_exp", 0, 0.81, (0.77, 0.84))], label="PGD-20: ...")

Each series has its own colour and marker, so that a chart can also be read in
grey.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib import ticker

from adt_tf.report.wording import interval, number, percent

_WIDTH, _HEIGHT = 440, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 44
# Distance between two dots of a track, and the margin above and below them.
_DOT_STEP, _DOT_MARGIN = 18, 4
# Paths of markers around (0, 0), of about the same area.
_MARKERS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5 3.8H-5z",
    "M0-5.6L5.6 0 0 5.6-5.6 0z",
    "M0 5.2L5-3.8H-5z",
    "M-1.7-5h3.4v3.3H5v3.4H1.7V5h-3.4V1.7H-5v-3.4h3.3z",
    "M-5-2.6L-2.6-5 0-2.4 2.6-5 5-2.6 2.4 0 5 2.6 2.6 5 0 2.4-2.6 5-5 2.6"
    "-2.4 0z",
    "M0-6.2L1.5-2.1 5.9-1.9 2.5.8 3.6 5 0 2.6-3.6 5-2.5.8-5.9-1.9-1.5-2.1z",
)
NUM_STYLES = len(_MARKERS)


def style(index: int) -> str:
    """Returns the CSS class that sets the colour of the i-th model."""
    return f"s{index % NUM_STYLES}"


def marker_path(index: int) -> str:
    """Returns the marker of the i-th model; a repeated colour has another."""
    return _MARKERS[(index + index // NUM_STYLES) % NUM_STYLES]


@dataclasses.dataclass(frozen=True)
class Series:
    """The values of a line.

    Attributes:
        name: Text of the tooltip.
        index: Position of the model, which chooses colour and marker.
        x: Increasing values.
        y: Values, or NaN for missing ones.
        band: Lower and upper ends of an interval around each point.
        dashed: Whether the line is dashed and has no markers.
    """

    name: str
    index: int
    x: Sequence[float]
    y: Sequence[float]
    band: tuple[Sequence[float], Sequence[float]] | None = None
    dashed: bool = False


@dataclasses.dataclass(frozen=True)
class Dot:
    """A share with its interval, for the model at position `index`."""

    name: str
    index: int
    share: float
    bounds: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Line:
    """A polyline of a model, with the positions and tooltips of its markers."""

    index: int
    dashed: bool
    points: str
    markers: Sequence[tuple[float, float, str]]


@dataclasses.dataclass(frozen=True)
class LineChart:
    """A drawing of lines over a faint grid.

    Attributes:
        label: Description of the chart for readers who cannot see it.
        x_label: Text below the horizontal axis.
        y_label: Text above the vertical axis.
        width: Width of the drawing.
        height: Height of the drawing.
        left: Left end of the horizontal axis.
        right: Right end of the horizontal axis.
        top: Upper end of the vertical axis.
        bottom: Lower end of the vertical axis.
        x_ticks: Positions and texts below the horizontal axis.
        y_ticks: Positions and texts beside the vertical axis.
        cursor: Position of a vertical line, or None.
        bands: For each band, the index of the model and the points of a
            polygon.
        lines: The lines.
        places: Horizontal positions of the first series' points.
    """

    label: str
    x_label: str
    y_label: str
    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    cursor: float | None
    bands: Sequence[tuple[int, str]]
    lines: Sequence[Line]
    places: Sequence[float]


@dataclasses.dataclass(frozen=True)
class DotTrack:
    """Shares on one track from 0 to 100 per cent, of the available width.

    Attributes:
        label: Description of the track for readers who cannot see it.
        height: Height of the drawing.
        dots: For each dot its `index`, its vertical position `y`, the per cent
            `at`, `low` and `high`, its `text` and the `title` of its tooltip.
    """

    label: str
    height: int
    dots: Sequence[dict[str, object]]


class _Scale:
    """Maps values to positions in the drawing."""

    def __init__(
        self,
        values: Sequence[float],
        first: float,
        last: float,
        *,
        from_zero: bool = False,
    ):
        finite = np.asarray(values, float)
        finite = finite[np.isfinite(finite)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        low = min(low, 0.0) if from_zero else low
        if low == high:
            low, high = low - 0.5, high + 0.5
        locator = ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        ticks = locator.tick_values(low, high)
        self.low, self.high = min(low, ticks[0]), max(high, ticks[-1])
        self.ticks = ticks
        self.first, self.last = first, last

    def fit(self, low: float, high: float) -> None:
        """Sets the range to exactly these limits."""
        self.low, self.high = low, high
        self.ticks = [t for t in self.ticks if low <= t <= high]

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(float(self.first + share * (self.last - self.first)), 1)


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    x_label: str,
    y_label: str,
    cursor: float | None = None,
    unit: str = "",
    width: int = _WIDTH,
) -> LineChart:
    """Lays out a chart of lines with markers over a faint grid.

    Args:
        series: Values of the lines.
        label: Description of the chart for readers who cannot see it.
        x_label: Text below the horizontal axis.
        y_label: Text above the vertical axis.
        cursor: Value of a vertical line, or None.
        unit: "%" draws shares from 0 to 100 per cent.
        width: Width of the drawing. In less space the chart shrinks with its
            text.
    """
    x = _Scale([v for s in series for v in s.x], _LEFT, width - _RIGHT)
    x.fit(min(s.x[0] for s in series), max(s.x[-1] for s in series) or 1.0)
    if x.low == x.high:  # one epoch
        x.fit(x.low - 0.5, x.high + 0.5)
    values = [v for s in series for v in s.y]
    y = _Scale(values, _HEIGHT - _BOTTOM, _TOP + 16, from_zero=True)
    if unit == "%":
        y.ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
        y.fit(0.0, 1.0)
    return LineChart(
        label=label,
        x_label=x_label,
        y_label=y_label,
        width=width,
        height=_HEIGHT,
        left=x.first,
        right=x.last,
        top=y.last,
        bottom=y.first,
        x_ticks=[(x(tick), f"{tick:g}") for tick in x.ticks],
        y_ticks=[
            (y(t), f"{100 * t:.0f}" if unit == "%" else number(t, "g"))
            for t in y.ticks
        ],
        cursor=None if cursor is None else x(cursor),
        bands=[(s.index, _band(s.x, s.band, x, y)) for s in series if s.band],
        lines=[_line(s, x, y, unit) for s in series],
        places=[x(value) for value in series[0].x],
    )


def _band(
    places: Sequence[float],
    band: tuple[Sequence[float], Sequence[float]],
    x: _Scale,
    y: _Scale,
) -> str:
    low, high = band
    lower = [f"{x(a)},{y(b)}" for a, b in zip(places, low, strict=True)]
    upper = [f"{x(a)},{y(b)}" for a, b in zip(places, high, strict=True)]
    return " ".join(lower + upper[::-1])


def _line(series: Series, x: _Scale, y: _Scale, unit: str) -> Line:
    points = [
        (a, b)
        for a, b in zip(series.x, series.y, strict=True)
        if np.isfinite(b)
    ]
    # About a dozen markers, each with a tooltip, and one at the end.
    every = max(1, len(points) // 12)
    marker_points = points[::every]
    if points and (len(points) - 1) % every:
        marker_points = [*marker_points, points[-1]]
    return Line(
        series.index,
        series.dashed,
        " ".join(f"{x(a)},{y(b)}" for a, b in points),
        []
        if series.dashed
        else [
            (
                x(a),
                y(b),
                f"{series.name}, {a:g}: "
                f"{percent(b) if unit == '%' else number(b)}",
            )
            for a, b in marker_points
        ],
    )


def dot_track(dots: Sequence[Dot], *, label: str) -> DotTrack:
    """Lays out shares with their intervals, one below the other."""
    return DotTrack(
        label,
        _DOT_STEP * len(dots) + 2 * _DOT_MARGIN,
        [
            {
                "index": dot.index,
                "y": _DOT_MARGIN + _DOT_STEP * (i + 0.5),
                "at": f"{100 * dot.share:.2f}",
                "low": f"{100 * dot.bounds[0]:.2f}",
                "high": f"{100 * dot.bounds[1]:.2f}",
                "text": percent(dot.share),
                "title": f"{dot.name}: {percent(dot.share)} "
                f"({interval(dot.bounds)})",
            }
            for i, dot in enumerate(dots)
        ],
    )
