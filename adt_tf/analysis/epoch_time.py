"""Figure 7: the time of one epoch of each method, relative to AT-PGD.

    results = read_epoch_times("build/method_time.json")
    draw_epoch_times(results, "epoch_time.png")

    results = collect_epoch_times({"at_pgd": 1.3, "adt_exp": 5.3})

All methods take equally many steps an epoch, so the ratio of two epochs is
that of two steps.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from adt_tf.analysis import plots

BASELINE = "at_pgd"


@dataclasses.dataclass(frozen=True, eq=False)
class EpochTimes:
    """Times relative to AT-PGD's.

    Attributes:
        methods: Their names.
        seconds: Of one step [methods].
        ratios: To AT-PGD [methods].
        quartiles: Of the ratio, low and high [methods, 2]; NaN if unknown.
        paper: The paper's ratios [methods]; NaN where it has none.
        setting: What was timed, such as the network.
    """

    methods: tuple[str, ...]
    seconds: np.ndarray
    ratios: np.ndarray
    quartiles: np.ndarray
    paper: np.ndarray
    setting: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "setting": self.setting,
            "seconds_per_step": dict(
                zip(self.methods, self.seconds.tolist(), strict=True)
            ),
            "relative_to_at_pgd": dict(
                zip(self.methods, self.ratios.tolist(), strict=True)
            ),
        }


def collect_epoch_times(
    seconds: Mapping[str, float], *, setting: str = ""
) -> EpochTimes:
    """Divides the seconds of a step of each method by those of AT-PGD.

    Args:
        seconds: From a method's name to its time; "at_pgd" is needed.
        setting: What was timed, for the picture's title.

    Example:

    >>> times = collect_epoch_times({"at_pgd": 2.0, "adt_exp": 9.0})
    >>> times.ratios.tolist()
    [1.0, 4.5]
    """
    _check_baseline(seconds)
    values = np.array(list(seconds.values()), np.float64)
    unknown = np.full(len(values), np.nan)
    return EpochTimes(
        tuple(seconds),
        values,
        values / seconds[BASELINE],
        np.stack([unknown, unknown], axis=1),
        unknown,
        setting,
    )


def read_epoch_times(path: str | os.PathLike) -> EpochTimes:
    """Reads what benchmarks/method_time.py has written.

    Its ratios are medians over rounds in which the methods take turns, so
    they are taken as they are: less noisy than ratios of medians.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist. Write it with "
            "benchmarks/method_time.py first."
        )
    records = json.loads(path.read_text())
    try:
        # A name reads "adt_exp step over AT-PGD's, wrn-16-4".
        methods = [record["name"].split()[0] for record in records]
        settings = [record["name"].rpartition(", ")[2] for record in records]
        columns = [
            [
                record["seconds"],
                record["ratio"],
                *record["spread"],
                np.nan if record["aim"] is None else record["aim"],
            ]
            for record in records
        ]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} must hold a list of records with `name`, `seconds`, "
            "`ratio`, `spread` and `aim`, as benchmarks/method_time.py writes "
            f"it. Received: {records!r:.200}"
        ) from error
    _check_baseline(methods)
    table = np.array(columns, np.float64)
    return EpochTimes(
        tuple(methods),
        table[:, 0],
        table[:, 1],
        table[:, 2:4],
        table[:, 4],
        settings[0],
    )


def _check_baseline(methods: Any) -> None:
    if BASELINE not in methods:
        raise ValueError(
            f"All is relative to {BASELINE!r}, so its time is needed. "
            f"Received: the methods {list(methods)}"
        )


def draw_epoch_times(results: EpochTimes, path: str | os.PathLike) -> None:
    """Draws one bar a method, with its number, from zero."""
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
    for place, ratio, end in zip(
        places, results.ratios, np.fmax(results.ratios, high), strict=True
    ):
        axes.annotate(
            f"{ratio:.2f}",
            (end, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            path_effects=plots.HALO,
        )
    known = ~np.isnan(results.paper)
    if known.any():
        axes.plot(
            results.paper[known],
            places[known],
            linestyle="",
            marker="D",
            color=plots.COLORS[1],
            label="the paper, about",
        )
    if known.any() or not np.isnan(low).all():
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
