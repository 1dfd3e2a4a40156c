"""The page's sections with curves: over epsilon, and over the epochs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from adt_tf.evaluation.statistics import wilson_interval
from adt_tf.report import charts, images, measure
from adt_tf.report.collect import Run
from adt_tf.report.wording import epsilon_text, escape, number, percent

# Of a chart that shares its line with two others.
_NARROW = 330


def sweep_chart(
    runs: Sequence[Run],
    sweep: measure.Sweep,
    labels: np.ndarray,
) -> str:
    """Accuracy against epsilon, and the images at each radius."""
    count = sweep.right.shape[-1]
    epsilon = runs[0].result["epsilon"]
    series = []
    for i, run in enumerate(runs):
        bounds = [
            wilson_interval(right.sum(), count) for right in sweep.right[i]
        ]
        series.append(
            charts.Series(
                run.name,
                i,
                sweep.radii.tolist(),
                sweep.accuracy[i].tolist(),
                tuple(zip(*bounds, strict=True)),
            )
        )
    told = "; ".join(
        f"{run.name}: "
        + ", ".join(
            f"{percent(a)} at {r:.3g}"
            for r, a in zip(sweep.radii, sweep.accuracy[i], strict=True)
        )
        for i, run in enumerate(runs)
    )
    svg, places = charts.line_chart(
        series,
        label=f"Accuracy under PGD-{measure.NUM_STEPS} against epsilon. {told}",
        x_label="epsilon (a pixel goes from 0 to 1)",
        y_label="accuracy (%)",
        cursor=epsilon,
        unit="%",
    )
    start = int(np.argmin(np.abs(sweep.radii - epsilon)))
    strips = "".join(
        _strip(i, run, sweep, labels, start) for i, run in enumerate(runs)
    )
    values = {
        "radii": [epsilon_text(float(r)) for r in sweep.radii],
        "places": places,
        "accuracy": [[percent(a) for a in row] for row in sweep.accuracy],
        "labels": labels.tolist(),
        "seen": sweep.seen.tolist(),
        "images": [
            [[images.png(image) for image in frame] for frame in model]
            for model in sweep.images
        ],
    }
    return (
        f'<div class="sweep" data-start="{start}"><div class="card">'
        f"{charts.legend([run.name for run in runs])}{svg}</div>"
        '<div class="card"><p class="slider"><label for="radius">How much may '
        'each pixel change?</label> <output for="radius">'
        f"{escape(epsilon_text(epsilon))}</output>"
        f'<input id="radius" type="range" min="0" max="{len(sweep.radii) - 1}" '
        f'step="1" value="{start}" hidden></p>{strips}</div></div>'
        f'<script type="application/json" id="sweep">{_json(values)}</script>'
    )


def _json(values: object) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")


def _strip(index, run, sweep, labels, start) -> str:
    tiles = []
    for k, label in enumerate(labels):
        seen = sweep.seen[index, start, k]
        kind = "right" if seen == label else "wrong"
        source = images.png(sweep.images[index, start, k])
        alt = f"Image {k + 1}, class {label}, seen as {seen}"
        tiles.append(
            f'<figure class="tile {kind}">{images.zoom(source, alt)}'
            f"<figcaption>{seen}</figcaption></figure>"
        )
    return (
        f'<div class="strip s{index % charts.NUM_STYLES}"><h3>'
        f"{charts.key(index)} {escape(run.name)}: <span>"
        f"{percent(sweep.accuracy[index, start])}</span></h3>"
        f'<div class="tiles">{"".join(tiles)}</div></div>'
    )


def training(runs: Sequence[Run]) -> str:
    """Loss, accuracy and entropy, epoch by epoch."""
    panels = [
        _panel(runs, "loss", "loss (nats)", ""),
        _panel(runs, "accuracy", "accuracy (%)", "%"),
    ]
    # Not one quantity for all methods, so not one axis.
    kinds = [_entropy_kind(run) for run in runs]
    panels += [
        _panel(runs, "entropy", kind, "", shown=[k == kind for k in kinds])
        for kind in dict.fromkeys(kinds)
    ]
    if not any(panels):
        return "<p>The workdirs hold no metrics.csv.</p>"
    return (
        f"{charts.legend([run.name for run in runs])}"
        f'<div class="panels">{"".join(panels)}</div>'
    )


def _entropy_kind(run: Run) -> str:
    """What the column `entropy` of a run's metrics is, with its unit."""
    method = run.result.get("method") or ""
    if method.startswith("adt_imp"):
        return "log q(z given delta) (nats a dimension)"
    if run.flag("entropy_reduction") == "sum":
        return "entropy (nats an image)"
    return "entropy (nats a pixel value)"


def _panel(runs, metric, y_label, unit, shown=None) -> str:
    series = []
    for i, run in enumerate(runs):
        if shown is not None and not shown[i]:
            continue
        epochs = [1 + epoch for epoch in run.metrics.get("epoch", [])]
        # The entropy of a point is 0: a line that tells nothing.
        if metric == "entropy" and not np.any(run.metrics.get(metric, 0)):
            continue
        for name, dashed in ((metric, False), (f"val_{metric}", True)):
            values = run.metrics.get(name, [])
            if np.isfinite(values).any():
                told = f"{run.name}, validation" if dashed else run.name
                series.append(
                    charts.Series(told, i, epochs, values, dashed=dashed)
                )
    if not series:
        return ""
    last = "; ".join(
        f"{s.name} {percent(s.y[-1]) if unit else number(s.y[-1])}"
        for s in series
    )
    svg, _ = charts.line_chart(
        series,
        label=f"{y_label} against the epoch, at its end: {last}",
        x_label="epoch",
        y_label=y_label,
        unit=unit,
        width=_NARROW,
    )
    return f'<div class="card">{svg}</div>'
