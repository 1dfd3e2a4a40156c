"""Probabilistic robustness: from random noise to the worst case.

PR(rho) is the share of images that a sample fools with a probability of at most
rho. The counts come from the protocol `probabilistic`, through the same
`evaluate_probabilistic` as adt-evaluate; nothing else is measured here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from adt_tf.analysis import plots
from adt_tf.evaluation import ROBUST, ProbabilisticReport
from adt_tf.reproduction import attack_runs, paired_differences
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement
from adt_tf.reproduction.registry import OURS
from adt_tf.reproduction.study import Runs, Study

_BASELINE = "AT-PGD"


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns no measurement: the evaluations hold all counts."""
    return []


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws PR(rho) of each model against the distributions."""
    seed = study.seeds[0]
    reports = {
        label: attack_runs.probabilistic_report(study, run, seed)
        for label, run in rows.items()
    }
    _draw_curves(reports, study.file("probabilistic.png"))
    first = next(iter(reports.values()))
    lines = [
        *_shares(reports),
        "",
        f"PR(rho) in %, on {first.report.num_examples} test images, with 95 % "
        f"bounds over images; after ? the share that {first.max_samples} "
        "samples do not decide. PR(0) is A_rob: no sample and no attack fools "
        "the image.",
        "",
        *_differences(reports),
        "",
        "Measured by:",
        "",
        *(
            f"- `{attack_runs.command(study, run, seed, 'probabilistic')}`"
            for run in rows.values()
        ),
    ]
    values = {
        label: report.to_dict()["probabilistic"]["curves"]
        for label, report in reports.items()
    }
    robust = {k: r.report.robust_accuracy for k, r in reports.items()}
    return lines, {"curves": values, "robust_accuracy": robust}


def _shares(reports: Mapping[str, ProbabilisticReport]) -> list[str]:
    """Returns the table of PR(rho), with the seconds of each model."""
    body = []
    for label, report in reports.items():
        for name in report.failures:
            cells = [_cell(report, name, rho) for rho in report.thresholds]
            seconds = report.report.seconds[name]
            body.append([f"{label}, {name}", *cells, f"{seconds:.0f}"])
        names = [n for n in report.report.attacks if n not in report.failures]
        seconds = sum(report.report.seconds[name] for name in names)
        low, high = (100 * x for x in report.report.intervals[ROBUST])
        robust = 100 * report.report.robust_accuracy
        body.append(
            [
                f"{label}, PR(0) with {' and '.join(names)}",
                f"{robust:.1f} [{low:.1f}, {high:.1f}]",
                *[""] * (len(report.thresholds) - 1),
                f"{seconds:.0f}",
            ]
        )
    thresholds = next(iter(reports.values())).thresholds
    heads = [f"PR({rho:g})" for rho in thresholds]
    return markdown_table(["model, samples of", *heads, "seconds"], body)


def _cell(report: ProbabilisticReport, name: str, rho: float) -> str:
    low, high = (100 * bound for bound in report.interval(name, rho))
    text = f"{100 * report.share(name, rho):.1f} [{low:.1f}, {high:.1f}]"
    undecided = report.undecided(name, rho)
    return f"{text} ?{100 * undecided:.1f}" if undecided else text


def _differences(reports: Mapping[str, ProbabilisticReport]) -> list[str]:
    """Returns the table of the ADT rows minus AT-PGD, image by image."""
    baseline = reports[_BASELINE]
    thresholds = baseline.thresholds
    body = []
    for label in filter(reports.__contains__, OURS):
        report = reports[label]
        for name in report.failures:
            gaps = [
                paired_differences.difference(
                    report.rates(name) <= rho, baseline.rates(name) <= rho
                ).in_points()
                for rho in thresholds
            ]
            body.append([f"{label} - {_BASELINE}, {name}", *gaps])
        gap = paired_differences.difference(
            report.report.robust, baseline.report.robust
        )
        body.append(
            [
                f"{label} - {_BASELINE}, PR(0)",
                gap.in_points(),
                *[""] * (len(thresholds) - 1),
            ]
        )
    heads = [f"PR({rho:g}), points" for rho in thresholds]
    return markdown_table(["paired, 95 % interval over images", *heads], body)


def _draw_curves(
    reports: Mapping[str, ProbabilisticReport], path: str | os.PathLike
) -> None:
    """Draws one panel for each rho; the last point is PR(0)."""
    first = next(iter(reports.values()))
    names = [*first.failures, "worst case"]
    figure = plots.make_figure(height=6.4)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    places = np.arange(len(names))
    for axes, rho in zip(panels.flat, first.thresholds, strict=True):
        for i, (label, report) in enumerate(reports.items()):
            shares = [report.share(name, rho) for name in report.failures]
            axes.plot(
                places,
                [100 * x for x in (*shares, report.report.robust_accuracy)],
                color=plots.color(i),
                marker=plots.marker(i),
                label=label,
            )
        ticks = [name.replace("EXP-20 at ", "λ = ") for name in names]
        axes.set_xticks(places, ticks, rotation=45, ha="right")
        axes.set_ylim(0, 100)
        axes.set_title(f"PR({rho:g})")
        plots.tidy(axes)
    figure.supylabel("images (%)")
    panels[0, 0].legend(frameon=False, fontsize=plots.SMALL)
    plots.note(
        figure,
        f"{first.report.num_examples} images. λ is the entropy weight of "
        "EXP-20; the worst case is PR(0).",
    )
    plots.save(figure, path)
