"""Size, colours and axes that the figures share, and how they are saved.

    figure = plots.make_figure(height=3.5)
    axes = figure.subplots()
    axes.plot(x, y, color=plots.COLORS[0], marker=plots.MARKERS[0])
    plots.tidy(axes)
    plots.save(figure, "picture.png")

Figures do not use pyplot: no global state changes, no window opens, and a
figure is freed with its last reference.
"""

from __future__ import annotations

import os
import pathlib
from typing import Literal

from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from adt_tf import files
from adt_tf.checks import arguments

#: The palette of Okabe and Ito, safe for colour-blind readers; with violet
#: instead of yellow, which is too pale for lines on white.
COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#7A1FD6",
)
#: Markers that distinguish the series when printed in grey.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Colour map with even steps of lightness, also for colour-blind readers.
COLORMAP = "cividis"
#: Colour of secondary text.
GREY = "#555555"
#: White outline that separates numbers from the lines behind them.
HALO = (patheffects.withStroke(linewidth=3, foreground="white"),)

WIDTH = 7.0
DPI = 120
#: Font size of notes, the smallest in use.
SMALL = 9


def make_figure(height: float, width: float = WIDTH) -> Figure:
    """Returns an empty figure of the given size in inches."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def color(index: int) -> str:
    """Returns the colour of the i-th series."""
    return COLORS[index % len(COLORS)]


def marker(index: int) -> str:
    """Returns the marker of the i-th series; a repeated colour has another."""
    return MARKERS[(index + index // len(COLORS)) % len(MARKERS)]


def tidy(axes: Axes, grid: Literal["both", "x", "y"] = "y") -> None:
    """Removes the upper and right spines, and draws a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.8)


def note(figure: Figure, text: str) -> None:
    """Writes a line of explanation below the axes."""
    # The constrained layout reserves space for the figure's x label.
    figure.supxlabel(text, fontsize=SMALL, color=GREY)


def save(figure: Figure, path: str | os.PathLike) -> None:
    """Writes a PNG file atomically."""
    path = pathlib.Path(path)
    if path.suffix.lower() != ".png":
        raise arguments.error("end in .png", path=str(path))
    with files.atomic_write(path) as partial:
        # Without Matplotlib's version, equal results give equal bytes.
        figure.savefig(partial, dpi=DPI, metadata={"Software": None})
