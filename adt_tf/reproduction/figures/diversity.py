"""Figure 1: PGD's restarts and EXP's samples around the same images."""

from __future__ import annotations

from typing import Any

from adt_tf import attacks, methods
from adt_tf.analysis import diversity
from adt_tf.reproduction import paper
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.parts import Arrays, Part
from adt_tf.reproduction.study import Rows, Study


def _attacks(study: Study, rows: Rows) -> tuple[Any, Any]:
    """PGD, and the climb to the distributions that ADT-EXP trains on."""
    ((_, run),) = rows.items()
    epsilon = study.epsilon(run)
    return attacks.pgd(epsilon), methods.adt_exp(epsilon).attack


def parts(study: Study, rows: Rows) -> list[Part]:
    """PGD's restarts and EXP's samples around the same images."""
    ((_, run),) = rows.items()
    count, samples = study.scale.images["figure1"], study.scale.num_samples
    pgd, learned = _attacks(study, rows)

    def measure():
        found = diversity.measure_diversity(
            study.classifier(run, study.seeds[0]),
            study.images("figure1", run),
            [
                diversity.restarts(pgd, "PGD, restarts"),
                diversity.samples(learned, "ADT-EXP, samples"),
            ],
            num_samples=samples,
            verbose=True,
        )
        return {
            "names": found.names,
            "distances": found.distances,
            "projections": found.projections,
            "explained": found.explained,
            "success": found.success,
        }

    return [
        Part(
            "figure1",
            measure,
            (run,),
            {
                "images": count,
                "samples": samples,
                "pgd": repr(pgd),
                "adt_exp": repr(learned),
            },
            gradients=count
            * (
                pgd.num_steps * samples
                + learned.num_steps * learned.num_samples
            ),
        )
    ]


def draw(
    study: Study, rows: Rows, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Figure 1: the projections, and the mean pairwise distance."""
    found = dict(arrays["figure1"])
    results = diversity.Diversity(
        tuple(found.pop("names").tolist()), **found, seed=0
    )
    diversity.draw_diversity(results, study.file("figure1.png"))
    theirs = paper.numbers("figure1")
    lines = markdown_table(
        ["perturbations", "mean l2 distance", "paper", "fool it (%)"],
        [
            [
                name,
                f"{results.mean_distance[name]:.3f}",
                f"{theirs[key]['distance']:.2f}",
                f"{100 * results.fooled[name]:.1f}",
            ]
            for name, key in zip(results.names, ("PGD", "samples"), strict=True)
        ],
    )
    pgd, learned = _attacks(study, rows)
    lines += [
        "",
        f"ADT-EXP's distributions are those of its training: T = "
        f"{learned.num_steps} steps, k = {learned.num_samples} samples a step, "
        f"lambda = {learned.entropy_weight:g}. PGD takes {pgd.num_steps} "
        "steps.",
    ]
    values = results.to_dict() | {
        "attacks": {
            name: repr(attack)
            for name, attack in zip(results.names, (pgd, learned), strict=True)
        },
        "distances": dict(
            zip(results.names, results.distances.tolist(), strict=True)
        ),
    }
    return lines, values
