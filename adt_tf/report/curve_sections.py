"""The page's curves of accuracy against epsilon and of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adt_tf.evaluation.statistics import wilson_interval
from adt_tf.report import inline_images, svg_charts
from adt_tf.report.attacked_images import NUM_STEPS, EpsilonSweep
from adt_tf.report.evaluated_runs import EvaluatedRun
from adt_tf.report.wording import epsilon_text, number, percent

# Width of a chart in a row of three.
_NARROW = 330


def epsilon_sweep(
    runs: Sequence[EvaluatedRun], sweep: EpsilonSweep, labels: np.ndarray
) -> dict[str, Any]:
    """Prepares accuracy against epsilon, and the images at each radius.

    Returns:
        The `chart`; the position `start` of the runs' epsilon among the radii;
        the `strips` of images at that radius; and the `values` that the page's
        script shows at the other radii.
    """
    epsilon = runs[0].result["epsilon"]
    start = int(np.argmin(np.abs(sweep.radii - epsilon)))
    values = {
        "radii": [epsilon_text(float(r)) for r in sweep.radii],
        "places": [],
        "accuracy": [[percent(a) for a in row] for row in sweep.accuracy],
        "labels": labels.tolist(),
        "predicted": sweep.predicted.tolist(),
        "images": [
            [[inline_images.png(image) for image in frame] for frame in model]
            for model in sweep.images
        ],
    }
    chart = _sweep_chart(runs, sweep, epsilon)
    values["places"] = chart.places
    strips = [
        {
            "name": run.name,
            "accuracy": values["accuracy"][i][start],
            "tiles": [
                {
                    "source": source,
                    "label": label,
                    "predicted": predicted,
                    "right": predicted == label,
                }
                for source, label, predicted in zip(
                    values["images"][i][start],
                    values["labels"],
                    values["predicted"][i][start],
                    strict=True,
                )
            ],
        }
        for i, run in enumerate(runs)
    ]
    return {
        "num_examples": sweep.right.shape[-1],
        "num_radii": len(sweep.radii),
        "start": start,
        "chart": chart,
        "strips": strips,
        "values": values,
    }


def _sweep_chart(
    runs: Sequence[EvaluatedRun], sweep: EpsilonSweep, epsilon: float
) -> svg_charts.LineChart:
    count = sweep.right.shape[-1]
    series = []
    for i, run in enumerate(runs):
        bounds = [
            wilson_interval(right.sum(), count) for right in sweep.right[i]
        ]
        lows, highs = zip(*bounds, strict=True)
        series.append(
            svg_charts.Series(
                run.name,
                i,
                sweep.radii.tolist(),
                sweep.accuracy[i].tolist(),
                (lows, highs),
            )
        )
    points = "; ".join(
        f"{s.name}: "
        + ", ".join(
            f"{percent(share)} at {radius:.3g}"
            for radius, share in zip(s.x, s.y, strict=True)
        )
        for s in series
    )
    return svg_charts.line_chart(
        series,
        label=f"Accuracy under PGD-{NUM_STEPS} against epsilon. {points}",
        x_label="epsilon (a pixel goes from 0 to 1)",
        y_label="accuracy (%)",
        cursor=epsilon,
        unit="%",
    )


def training_charts(
    runs: Sequence[EvaluatedRun],
) -> list[svg_charts.LineChart]:
    """Returns charts of loss, accuracy and entropy against the epoch."""
    charts = [
        _training_chart(runs, range(len(runs)), "loss", "loss (nats)", ""),
        _training_chart(
            runs, range(len(runs)), "accuracy", "accuracy (%)", "%"
        ),
    ]
    # Entropy is not the same quantity in all methods, so each has an axis.
    kinds = [_entropy_kind(run) for run in runs]
    for kind in dict.fromkeys(kinds):
        indices = [i for i, other in enumerate(kinds) if other == kind]
        charts.append(_training_chart(runs, indices, "entropy", kind, ""))
    return [chart for chart in charts if chart]


def _entropy_kind(run: EvaluatedRun) -> str:
    """Returns the meaning and unit of the column `entropy` of a run."""
    method = run.result.get("method") or ""
    if method.startswith("adt_imp"):
        return "log q(z given delta) (nats per dimension)"
    if run.flag("entropy_reduction") == "sum":
        return "entropy (nats per image)"
    return "entropy (nats per pixel value)"


def _training_chart(
    runs: Sequence[EvaluatedRun],
    indices: Iterable[int],
    metric: str,
    y_label: str,
    unit: str,
) -> svg_charts.LineChart | None:
    series = []
    for i in indices:
        run = runs[i]
        epochs = [1 + epoch for epoch in run.metrics.get("epoch", [])]
        # The entropy of a single point is always 0.
        if metric == "entropy" and not np.any(run.metrics.get(metric, 0)):
            continue
        for name, dashed in ((metric, False), (f"val_{metric}", True)):
            values = run.metrics.get(name, [])
            if np.isfinite(values).any():
                label = f"{run.name}, validation" if dashed else run.name
                series.append(
                    svg_charts.Series(label, i, epochs, values, dashed=dashed)
                )
    if not series:
        return None
    last = "; ".join(
        f"{s.name} {percent(s.y[-1]) if unit else number(s.y[-1])}"
        for s in series
    )
    return svg_charts.line_chart(
        series,
        label=f"{y_label} against the epoch. Last epoch: {last}",
        x_label="epoch",
        y_label=y_label,
        unit=unit,
        width=_NARROW,
    )
