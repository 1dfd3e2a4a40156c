"""Figure 2: the loss around an image, and its curvature."""

from __future__ import annotations

from typing import Any

import numpy as np

from adt_tf import data
from adt_tf.analysis import hessian, loss_surface
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement, fields_of
from adt_tf.reproduction.study import Runs, Study


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns measurements of the loss surfaces and of the eigenvalues."""
    seed, count = study.seeds[0], study.scale.images["figure2"]
    first = next(iter(rows.values()))

    def surfaces():
        x, y = data.as_arrays(study.images("figure2", first))
        result = loss_surface.measure_loss_surfaces(
            study.classifiers(rows),
            (x[0], y[0]),
            epsilon=study.threat_model(first),
        )
        return fields_of(result)

    def eigenvalues(run):
        result = hessian.measure_eigenvalues(
            {run: study.classifier(run, seed)},
            study.images("figure2", run),
            verbose=True,
        )
        return {"eigenvalues": result.eigenvalues[0]}

    points = len(loss_surface.OFFSETS) ** 2
    return [
        Measurement(
            "figure2-surface",
            surfaces,
            tuple(rows.values()),
            gradients=len(rows) * points / 3,
        ),
        *Measurement.of_each_run(
            "figure2-hessian",
            rows,
            eigenvalues,
            {"images": count},
            # About forty Hessian-vector products of two gradients each.
            gradients=80 * count,
        ),
    ]


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws the surfaces to one scale, and the eigenvalues."""
    surface = arrays["figure2-surface"]
    surfaces = loss_surface.LossSurfaces(
        tuple(surface["names"].tolist()),
        surface["offsets"],
        surface["loss"],
        float(surface["epsilon"]),
        0,
    )
    loss_surface.draw_loss_surfaces(surfaces, study.file("figure2.png"))
    values = hessian.Eigenvalues(
        tuple(rows),
        np.stack(
            [
                arrays[f"figure2-hessian-{run}"]["eigenvalues"]
                for run in rows.values()
            ]
        ),
        0,
    )
    curvature = study.file("figure2-eigenvalues.png")
    hessian.draw_eigenvalues(values, curvature)
    lines = [
        f"![Dominant eigenvalues]({curvature.name})",
        "",
        *markdown_table(
            ["model", "mean eigenvalue", "deviation", "median"],
            [
                [
                    name,
                    f"{values.mean[name]:.4g}",
                    f"{values.standard_deviation[name]:.4g}",
                    f"{np.median(row):.4g}",
                ]
                for name, row in zip(
                    values.names, values.eigenvalues, strict=True
                )
            ],
        ),
    ]
    return lines, surfaces.to_dict() | values.to_dict() | {
        "eigenvalues": dict(
            zip(values.names, values.eigenvalues.tolist(), strict=True)
        )
    }
