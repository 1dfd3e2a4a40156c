"""Charts as inline SVG, coloured by the page's style sheet.

    line_chart([Series("adt_exp", 0, x, y)], label="...", x_label="epoch")
    dot_row([Dot("adt_exp", 0, 0.81, (0.77, 0.84))], label="PGD-20: ...")

Series have a colour and a marker of their own, so that they are told apart in
grey too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib import ticker

from adt_tf.report.wording import escape, interval, number, percent

_WIDTH, _HEIGHT = 440, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 44
# Around (0, 0), of about the same area.
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


@dataclasses.dataclass(frozen=True)
class Series:
    """A line: its name, its number among the models, its points.

    Attributes:
        name: What the tooltip says.
        index: Chooses colour and marker.
        x: Increasing.
        y: NaN where there is no value.
        band: The lower and the upper end of an interval around each point.
        dashed: Whether the line is, and has no markers.
    """

    name: str
    index: int
    x: Sequence[float]
    y: Sequence[float]
    band: tuple[Sequence[float], Sequence[float]] | None = None
    dashed: bool = False


@dataclasses.dataclass(frozen=True)
class Dot:
    """A share with its interval."""

    name: str
    index: int
    share: float
    bounds: tuple[float, float]


def marker(index: int) -> str:
    """The marker of the i-th model, for SVG: another when colours repeat."""
    shape = _MARKERS[(index + index // NUM_STYLES) % NUM_STYLES]
    return f'<path class="marker" d="{shape}"/>'


def key(index: int) -> str:
    """The marker on its own, for a legend."""
    return (
        f'<svg class="key s{index % NUM_STYLES}" viewBox="-7 -7 14 14" '
        f'width="14" height="14" aria-hidden="true">{marker(index)}</svg>'
    )


def legend(names: Sequence[str]) -> str:
    """The models' names with their markers."""
    items = "".join(
        f"<li>{key(i)} {escape(name)}</li>" for i, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


class _Scale:
    """From values to places in the drawing."""

    def __init__(self, values, first, last, *, from_zero=False):
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
        """Takes exactly this range."""
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
) -> tuple[str, list[float]]:
    """Draws lines with markers over a faint grid.

    Args:
        series: The lines.
        label: What the chart shows, for those who cannot see it.
        x_label: Below the horizontal axis.
        y_label: Above the vertical axis.
        cursor: Where a vertical line stands, if any.
        unit: "%" draws shares from 0 to 100 per cent.
        width: Of the drawing; where the chart has less room than that, its
            text shrinks with it.

    Returns:
        The SVG element, and the places of the first series' points.
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
    parts = [_axes(x, y, x_label, y_label, unit)]
    if cursor is not None:
        parts.append(
            f'<g class="cursor" transform="translate({x(cursor)} 0)">'
            f'<line y1="{y.last}" y2="{y.first}"/></g>'
        )
    parts += [_band(s, x, y) for s in series if s.band]
    parts += [_line(s, x, y, unit) for s in series]
    svg = (
        f'<svg class="chart" viewBox="0 0 {width} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
    return svg, [x(value) for value in series[0].x]


def _axes(x: _Scale, y: _Scale, x_label: str, y_label: str, unit: str) -> str:
    lines = []
    for tick in y.ticks:
        text = f"{100 * tick:.0f}" if unit == "%" else number(tick, "g")
        lines.append(
            f'<line class="grid" x1="{x.first}" x2="{x.last}" y1="{y(tick)}" '
            f'y2="{y(tick)}"/><text x="{x.first - 8}" y="{y(tick) + 4}" '
            f'text-anchor="end">{text}</text>'
        )
    for tick in x.ticks:
        lines.append(
            f'<text x="{x(tick)}" y="{y.first + 18}" text-anchor="middle">'
            f"{tick:g}</text>"
        )
    lines.append(
        f'<text class="label" x="{x.last}" y="{_HEIGHT - 6}" '
        f'text-anchor="end">{escape(x_label)}</text>'
        f'<text class="label" x="4" y="{_TOP + 2}">{escape(y_label)}</text>'
    )
    return "".join(lines)


def _band(series: Series, x: _Scale, y: _Scale) -> str:
    low, high = series.band
    there = [f"{x(a)},{y(b)}" for a, b in zip(series.x, low, strict=True)]
    back = [f"{x(a)},{y(b)}" for a, b in zip(series.x, high, strict=True)]
    points = " ".join(there + back[::-1])
    return (
        f'<polygon class="band s{series.index % NUM_STYLES}" '
        f'points="{points}"/>'
    )


def _line(series: Series, x: _Scale, y: _Scale, unit: str) -> str:
    points = [
        (a, b)
        for a, b in zip(series.x, series.y, strict=True)
        if np.isfinite(b)
    ]
    path = " ".join(f"{x(a)},{y(b)}" for a, b in points)
    parts = [f'<polyline class="line" points="{path}"/>']
    # A dozen markers; the tooltips are theirs.
    every = max(1, len(points) // 12)
    for i, (a, b) in enumerate(points):
        if series.dashed or (i % every and i < len(points) - 1):
            continue
        value = percent(b) if unit == "%" else number(b)
        parts.append(
            f'<g transform="translate({x(a)} {y(b)})">{marker(series.index)}'
            f"<title>{escape(series.name)}, {a:g}: {value}</title></g>"
        )
    dashed = " dashed" if series.dashed else ""
    style = f"s{series.index % NUM_STYLES}{dashed}"
    return f'<g class="series {style}">{"".join(parts)}</g>'


def dot_row(dots: Sequence[Dot], *, label: str) -> str:
    """Draws shares on one track from 0 to 100 per cent, as wide as there is."""
    step = 18
    height = step * len(dots) + 8
    parts = [
        f'<line class="grid" x1="{x}%" x2="{x}%" y1="0" y2="{height}"/>'
        for x in (0, 25, 50, 75, 100)
    ]
    for i, dot in enumerate(dots):
        y = 4 + step * (i + 0.5)
        low, high = (100 * bound for bound in dot.bounds)
        text = percent(dot.share)
        parts.append(
            f'<g class="series s{dot.index % NUM_STYLES}">'
            f'<line class="whisker" x1="{low:.2f}%" x2="{high:.2f}%" '
            f'y1="{y}" y2="{y}"/>'
            f'<svg class="place" x="{100 * dot.share:.2f}%" y="{y}" '
            f'overflow="visible">{marker(dot.index)}</svg>'
            f'<text x="{high:.2f}%" dx="8" y="{y + 4}">{text}</text>'
            f"<title>{escape(dot.name)}: {text} ({interval(dot.bounds)})"
            "</title></g>"
        )
    return (
        f'<svg class="track" height="{height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
