"""Figure 7: the time of one epoch of each method, relative to AT-PGD.

    results = EpochTimes(("at_pgd", "adt_exp"), np.array([[1.3], [5.3]]))
    results.ratios      # [1.0, 4.1]
    draw_epoch_times(results, "epoch_time.png")

All methods take the same number of steps in an epoch, so the ratio of two
epoch times is the ratio of two step times.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from adt_tf.analysis import by_name, plots
from adt_tf.checks import arguments

BASELINE = "at_pgd"


@dataclasses.dataclass(frozen=True, eq=False)
class EpochTimes:
    """Times of a training step, absolute and relative to AT-PGD.

    Attributes:
        methods: Names of the methods; "at_pgd" is one of them.
        seconds: Seconds of a step [methods, rounds]. In a round the methods
            take turns, so that other load of the machine affects all of them.
        paper: The paper's ratios, by method.
        setting: Description of the measurement, such as the network.

    Example:

    >>> seconds = np.array([[2.0, 4.0, 3.0], [9.0, 18.0, 15.0]])
    >>> EpochTimes(("at_pgd", "adt_exp"), seconds).ratios.tolist()
    [1.0, 4.5]
    """

    methods: tuple[str, ...]
    seconds: np.ndarray
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)
    setting: str = ""

    def __post_init__(self):
        if BASELINE not in self.methods:
            raise arguments.error(
                f"contain {BASELINE!r}, the baseline of the ratios",
                methods=self.methods,
            )

    @property
    def round_ratios(self) -> np.ndarray:
        """Ratio to AT-PGD's time in each round [methods, rounds]."""
        return self.seconds / self.seconds[self.methods.index(BASELINE)]

    @property
    def ratios(self) -> np.ndarray:
        """Median of the rounds' ratios [methods].

        It is less noisy than the ratio of two medians.
        """
        return np.median(self.round_ratios, axis=1)

    @property
    def quartiles(self) -> np.ndarray:
        """Lower and upper quartile of the rounds' ratios [methods, 2]."""
        return np.percentile(self.round_ratios, [25, 75], axis=1).T

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that JSON can represent."""
        medians = np.median(self.seconds, axis=1)
        return {
            "setting": self.setting,
            "seconds_per_step": by_name(self.methods, medians),
            "relative_to_at_pgd": by_name(self.methods, self.ratios),
        }


def draw_epoch_times(results: EpochTimes, path: str | os.PathLike) -> None:
    """Draws a bar for each method, with its ratio."""
    count = len(results.methods)
    figure = plots.make_figure(height=1.4 + 0.36 * count)
    axes = figure.subplots()
    places = np.arange(count)
    is_baseline = np.array(results.methods) == BASELINE
    axes.barh(
        places,
        results.ratios,
        color=np.where(is_baseline, plots.COLORS[4], plots.COLORS[5]),
    )
    low, high = results.quartiles.T
    axes.hlines(
        places, low, high, color="black", linewidth=2, label="quartiles"
    )
    for place, ratio, end in zip(places, results.ratios, high, strict=True):
        axes.annotate(
            f"{ratio:.2f}",
            (end, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            path_effects=plots.HALO,
        )
    in_paper = [name for name in results.methods if name in results.paper]
    if in_paper:
        axes.plot(
            [results.paper[name] for name in in_paper],
            [results.methods.index(name) for name in in_paper],
            linestyle="",
            marker="D",
            color=plots.COLORS[1],
            label="the paper (approximate)",
        )
    axes.legend(loc="upper right")
    axes.axvline(1, color=plots.GREY, linewidth=1, linestyle="--")
    axes.set_yticks(places, results.methods)
    axes.invert_yaxis()
    setting = f" ({results.setting})" if results.setting else ""
    axes.set(
        xlabel="time relative to AT-PGD",
        title=f"Training time of one epoch{setting}",
    )
    axes.margins(x=0.08)
    plots.tidy(axes, "x")
    plots.save(figure, path)
