"""What the pictures share: size, colours, axes, and how they are written.

    figure = plots.make_figure(height=3.5)
    axes = figure.subplots()
    axes.plot(x, y, color=plots.COLORS[0], marker=plots.MARKERS[0])
    plots.tidy(axes)
    plots.save(figure, "picture.png")

Figures are made without pyplot: nothing global changes, no window opens, and
a figure is freed with its last reference.
"""

from __future__ import annotations

import os
import pathlib

from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from adt_tf import files
from adt_tf.checks import arguments

#: Okabe and Ito's palette, told apart in every common colour blindness; violet
#: in place of its yellow, which is too pale for lines on white.
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
#: Beside the colours, so that a picture in grey can be read too.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Even steps of lightness, also for the colour-blind.
COLORMAP = "cividis"
#: Text that explains, beside text that counts.
GREY = "#555555"
#: Keeps numbers apart from the lines that they cross.
HALO = (patheffects.withStroke(linewidth=3, foreground="white"),)

WIDTH = 7.0
DPI = 120
#: Of notes; nothing is smaller.
SMALL = 9


def make_figure(height: float, width: float = WIDTH) -> Figure:
    """Returns an empty figure, its sizes in inches."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def color(index: int) -> str:
    """The colour of the i-th series."""
    return COLORS[index % len(COLORS)]


def marker(index: int) -> str:
    """The marker of the i-th series: a colour's second one is another."""
    return MARKERS[(index + index // len(COLORS)) % len(MARKERS)]


def tidy(axes: Axes, grid: str = "y") -> None:
    """Takes away the frame's upper half and lays a faint grid below."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.8)


def note(figure: Figure, text: str) -> None:
    """Writes a line below the axes: how to read what is above."""
    # The constrained layout keeps room for a figure's x label.
    figure.supxlabel(text, fontsize=SMALL, color=GREY)


def save(figure: Figure, path: str | os.PathLike) -> None:
    """Writes a PNG, whole or not at all."""
    path = pathlib.Path(path)
    if path.suffix.lower() != ".png":
        raise arguments.error("end in .png", path=str(path))
    with files.atomic_write(path) as partial:
        # Without the version of Matplotlib, equal results give equal bytes.
        figure.savefig(partial, dpi=DPI, metadata={"Software": None})
