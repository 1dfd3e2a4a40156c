"""The page's section on probabilistic robustness."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf.evaluation import ROBUST, ProbabilisticReport
from adt_tf.report import svg_charts
from adt_tf.report.evaluated_runs import EvaluatedRun
from adt_tf.report.wording import percent

_WIDE, _NARROW = 720, 330
_WORST = "worst case"


def probabilistic(runs: Sequence[EvaluatedRun]) -> dict[str, Any] | None:
    """Prepares the curves of all models, the spread over images, and a table.

    Returns:
        The content of the section; None if a run has no probabilistic
        evaluation, or one with other distributions than the first run.
    """
    all_reports = [run.result.get("probabilistic") for run in runs]
    reports = [report for report in all_reports if report]
    if len(reports) < len(runs):
        return None
    settings = [(list(r.failures), r.thresholds) for r in reports]
    if any(other != settings[0] for other in settings):
        return None
    names, thresholds = settings[0]
    threshold = thresholds[len(thresholds) // 3]
    return {
        "threshold": threshold,
        "thresholds": thresholds,
        "max_samples": max(report.max_samples for report in reports),
        "curves": _curves(runs, reports, names, threshold),
        "spreads": [
            {"name": name, "chart": _spread(runs, reports, name)}
            for name in names
        ],
        "rows": [
            {"name": name, "model": run.name, "index": i, "cells": cells}
            for name in names
            for i, (run, report) in enumerate(zip(runs, reports, strict=True))
            for cells in [[_cell(report, name, rho) for rho in thresholds]]
        ],
    }


def _curves(
    runs: Sequence[EvaluatedRun],
    reports: Sequence[ProbabilisticReport],
    names: Sequence[str],
    threshold: float,
) -> svg_charts.LineChart:
    """Draws PR(rho) of each model, from the mildest distribution to attacks."""
    series = []
    for i, (run, report) in enumerate(zip(runs, reports, strict=True)):
        shares = [report.share(name, threshold) for name in names]
        bounds = [report.interval(name, threshold) for name in names]
        bounds.append(report.report.intervals[ROBUST])
        lows, highs = zip(*bounds, strict=True)
        series.append(
            svg_charts.Series(
                run.name,
                i,
                list(range(len(names) + 1)),
                [*shares, report.report.robust_accuracy],
                (lows, highs),
            )
        )
    points = "; ".join(
        f"{s.name}: "
        + ", ".join(
            f"{percent(share)} under {name}"
            for name, share in zip([*names, _WORST], s.y, strict=True)
        )
        for s in series
    )
    chart = svg_charts.line_chart(
        series,
        label=f"PR({threshold:g}) from random noise to attacks. {points}",
        x_label="",
        y_label=f"images, PR({threshold:g}) (%)",
        unit="%",
        width=_WIDE,
    )
    ticks = [*map(_short, names), _WORST]
    places = list(zip(chart.places, ticks, strict=True))
    # Centred on their ticks, the first and last text would be cut off.
    places[0] = (chart.places[0] + 12, ticks[0])
    places[-1] = (chart.places[-1] - 26, ticks[-1])
    return dataclasses.replace(chart, x_ticks=places)


def _short(name: str) -> str:
    """Returns the entropy weight if the name ends with one, else the name."""
    _, at, weight = name.rpartition(" at ")
    return f"λ = {weight}" if at else name


def _spread(
    runs: Sequence[EvaluatedRun],
    reports: Sequence[ProbabilisticReport],
    name: str,
) -> svg_charts.LineChart:
    """Draws the sorted failure probabilities of the images."""
    series = []
    for i, (run, report) in enumerate(zip(runs, reports, strict=True)):
        rates = np.sort(report.rates(name))
        places = 100 * (np.arange(len(rates)) + 1) / len(rates)
        series.append(
            svg_charts.Series(run.name, i, places.tolist(), rates.tolist())
        )
    means = "; ".join(
        f"{run.name} {percent(float(np.mean(report.rates(name))))}"
        for run, report in zip(runs, reports, strict=True)
    )
    return svg_charts.line_chart(
        series,
        label=f"Failure probability of each image under {name}; mean {means}",
        x_label="images, sorted (%)",
        y_label="failure probability (%)",
        unit="%",
        width=_NARROW,
    )


def _cell(
    report: ProbabilisticReport, name: str, threshold: float
) -> dict[str, Any]:
    return {
        "percent": 100 * report.share(name, threshold),
        "bounds": report.interval(name, threshold),
        "undecided": report.undecided(name, threshold),
    }
