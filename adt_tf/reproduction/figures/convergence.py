"""Figure 6: EXP's loss and accuracy after each step."""

from __future__ import annotations

from typing import Any

import numpy as np

from adt_tf import attacks
from adt_tf.analysis import convergence
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement
from adt_tf.reproduction.study import Runs, Study

_CONVERGENCE_STEPS = 100


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns one measurement for each model."""
    seed, count = study.seeds[0], study.scale.images["figure6"]

    def measure(run):
        result = convergence.measure_convergence(
            {run: study.classifier(run, seed)},
            study.images("figure6", run),
            attacks.exp(study.threat_model(run), num_steps=_CONVERGENCE_STEPS),
            verbose=True,
        )
        return {
            "image_loss": result.image_loss[0],
            "accuracy": result.accuracy[0],
        }

    return Measurement.of_each_run(
        "figure6",
        rows,
        measure,
        {"images": count, "loss": "of each image"},
        gradients=10 * (_CONVERGENCE_STEPS + 1) * count,
    )


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws loss and accuracy against the number of steps."""
    measurements_of_runs = [arrays[f"figure6-{run}"] for run in rows.values()]
    losses = np.stack([each["image_loss"] for each in measurements_of_runs])
    results = convergence.Convergence(
        tuple(rows),
        losses.mean(axis=1),
        np.stack([each["accuracy"] for each in measurements_of_runs]),
        f"EXP-{_CONVERGENCE_STEPS}",
        losses.shape[1],
        0,
    )
    convergence.draw_convergence(results, study.file("figure6.png"))
    columns = (0, 1, 5, 10, 20, 50, _CONVERGENCE_STEPS)
    lines = markdown_table(
        ["loss after steps", *map(str, columns)],
        [
            [name, *(f"{loss[t]:.3f}" for t in columns)]
            for name, loss in zip(results.names, results.loss, strict=True)
        ],
    )
    # The loss of each image at the start, around step 20 and at the end. The
    # samples make it noisy, so the last two are means over some steps.
    climbs = np.stack(
        [
            losses[..., 0],
            losses[..., 18:23].mean(axis=-1),
            losses[..., -10:].mean(axis=-1),
        ],
        axis=-1,
    )
    values = results.to_dict() | {
        "climb": dict(zip(rows, climbs.tolist(), strict=True))
    }
    return lines, values
