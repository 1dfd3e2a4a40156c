"""Figure 5: accuracy and entropy against the entropy weight."""

from __future__ import annotations

from typing import Any

from adt_tf import evaluation
from adt_tf.analysis import entropy_weight
from adt_tf.reproduction import attack_runs, train_runs
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement
from adt_tf.reproduction.study import Runs, Study


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns one measurement of the mean entropy for each run."""
    seed, count = study.seeds[0], study.scale.images["figure5"]

    def measure(run):
        attack = train_runs.load_attack(study, run, seed)
        value = entropy_weight.mean_entropy(
            study.classifier(run, seed),
            study.images("figure5", run),
            attack,
            verbose=True,
        )
        return {"entropy": value}

    return Measurement.of_each_run(
        "figure5-entropy", rows, measure, {"images": count}, 12 * count
    )


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws accuracy and entropy against lambda."""
    seed = study.seeds[0]
    records = []
    for label, run in rows.items():
        report = attack_runs.report(study, run, seed, "paper")
        accuracy = report.accuracy | {evaluation.ROBUST: report.robust_accuracy}
        entropy = float(arrays[f"figure5-entropy-{run}"]["entropy"])
        records.append(
            entropy_weight.Record(
                float(label), accuracy, entropy, report.num_examples
            )
        )
    results = entropy_weight.collect_entropy_weights(records)
    entropy_weight.draw_entropy_weights(results, study.file("figure5.png"))
    lines = markdown_table(
        ["lambda", *results.attacks, "entropy"],
        [
            [
                f"{weight:g}",
                *(f"{100 * value:.1f}" for value in row),
                f"{entropy:.3f}",
            ]
            for weight, row, entropy in zip(
                results.entropy_weights,
                results.accuracy,
                results.entropy,
                strict=True,
            )
        ],
    )
    if results.reach is not None:
        lines += [
            "",
            "A 95 % interval of an accuracy reaches at most "
            f"{100 * results.reach:.1f} points up or down.",
        ]
    return lines, results.to_dict()
