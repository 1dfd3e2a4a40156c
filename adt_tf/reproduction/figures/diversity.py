"""Figure 1: PGD's restarts and ADT-EXP's samples around the same images."""

from __future__ import annotations

from typing import Any

from adt_tf import attacks, methods
from adt_tf.analysis import diversity
from adt_tf.reproduction import paper_numbers
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement, fields_of
from adt_tf.reproduction.study import Runs, Study

PGD, SAMPLES, SUMMED, GAUSSIAN = (
    "PGD, restarts",
    "ADT-EXP, samples",
    "ADT-EXP by Eq. 11, samples",
    "ADT-EXP with the Gaussian's entropy, samples",
)
#: Mapping from our rows to the paper's, which do not specify the reduction of
#: the entropy.
_THEIRS = {PGD: "PGD", SAMPLES: "samples"}


def _attacks(study: Study, rows: Runs) -> dict[str, Any]:
    """Returns PGD, and the attacks of ADT-EXP with different entropies."""
    ((_, run),) = rows.items()
    epsilon = study.threat_model(run)
    return {
        PGD: attacks.pgd(epsilon),
        SAMPLES: methods.adt_exp(epsilon).attack,
        SUMMED: methods.adt_exp(epsilon, entropy_reduction="sum").attack,
        GAUSSIAN: methods.adt_exp(
            epsilon, entropy_reduction="sum", entropy="gaussian"
        ).attack,
    }


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns one measurement of restarts and samples."""
    ((_, run),) = rows.items()
    count, samples = study.scale.images["figure1"], study.scale.num_samples
    compared_attacks = _attacks(study, rows)

    def measure():
        return fields_of(
            diversity.measure_diversity(
                study.classifier(run, study.seeds[0]),
                study.images("figure1", run),
                [
                    (diversity.restarts if name == PGD else diversity.samples)(
                        attack, name
                    )
                    for name, attack in compared_attacks.items()
                ],
                num_samples=samples,
                verbose=True,
            )
        )

    return [
        Measurement(
            "figure1",
            measure,
            (run,),
            {
                "images": count,
                "samples": samples,
                "fooled": "of those right when clean",
                **{
                    name: repr(attack)
                    for name, attack in compared_attacks.items()
                },
            },
            gradients=count
            * sum(
                attack.num_steps
                * (samples if name == PGD else attack.num_samples)
                for name, attack in compared_attacks.items()
            ),
        )
    ]


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws the projections, and returns the mean pairwise distances."""
    fields = dict(arrays["figure1"])
    results = diversity.Diversity(
        tuple(fields.pop("names").tolist()), **fields, seed=0
    )
    diversity.draw_diversity(results, study.file("figure1.png"))
    theirs = paper_numbers.rows("figure1")
    lines = markdown_table(
        ["perturbations", "mean l2 distance", "paper", "fool (%)"],
        [
            [
                name,
                f"{results.mean_distance[name]:.3f}",
                f"{theirs[_THEIRS[name]]['distance']:.2f}"
                if name in _THEIRS
                else "",
                f"{100 * results.fooled[name]:.1f}",
            ]
            for name in results.names
        ],
    )
    compared_attacks = _attacks(study, rows)
    pgd, exp = compared_attacks[PGD], compared_attacks[SAMPLES]
    lines += [
        "",
        "Fool: the share of perturbations that are misclassified, of the "
        f"{results.right.sum()} images that are classified correctly without "
        "perturbation.",
        "ADT-EXP finds its distributions as in training: T = "
        f"{exp.num_steps} steps, k = {exp.num_samples} samples a step, "
        f"lambda = {exp.entropy_weight:g}. By Eq. 11 the entropy is a sum "
        "over the pixel values; otherwise it is their mean, as in the paper's "
        "code. The Gaussian's entropy is taken before tanh, and summed. "
        f"PGD takes {pgd.num_steps} steps.",
    ]
    values = results.to_dict() | {
        "attacks": {
            name: repr(attack) for name, attack in compared_attacks.items()
        },
        "distances": dict(
            zip(results.names, results.distances.tolist(), strict=True)
        ),
    }
    return lines, values
