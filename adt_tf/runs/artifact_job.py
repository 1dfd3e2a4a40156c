"""Evaluates an exported file: the work of adt-evaluate --artifact.

    assess(config, source, artifact, test, names, output, details={...})

The float source and the exported file are evaluated with the same attacks on
the same examples. Attacks that need gradients compute their images on the
source, and the file classifies them. Attacks by queries query the file itself.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from adt_tf import data, evaluation
from adt_tf.markdown import escape
from adt_tf.runs import evaluation_files, evaluation_job, inputs
from adt_tf.runs.config import Config

# Attacks that use logits only, no gradients.
_BY_QUERIES = ("square", "spsa")


def build_attacks(
    names: Sequence[str], config: Config, test: data.ImageData, source: Any
) -> tuple[list[Any], list[Any]]:
    """Returns the attacks on the source and on the file, in the same order.

    Args:
        names: Names that `adt_tf.attacks.get` accepts.
        config: Configuration with the threat model.
        test: Test examples.
        source: Float classifier.
    """
    on_source, on_file = [], []
    threat_model = inputs.threat_model(config)
    for name in names:
        (attack,) = evaluation_job.build_attacks(
            [name], threat_model, test, classifier=source
        )
        if attack.networks:
            raise ValueError(
                "Attacks on an artefact must not have a generator to train. "
                f"Received: {name}"
            )
        on_source.append(attack)
        if name.lower().startswith(_BY_QUERIES):
            on_file.append(attack)
        else:
            on_file += evaluation_job.build_attacks(
                [name], threat_model, test, source=source
            )
    return on_source, on_file


def assess(
    config: Config,
    source: Any,
    artifact: Any,
    test: data.ImageData,
    names: Sequence[str],
    output: str | pathlib.Path,
    *,
    details: dict[str, Any],
    **arguments: Any,
) -> evaluation.Report:
    """Evaluates the source and the file, and compares their accuracies.

    Args:
        config: Configuration of the experiment.
        source: Float classifier.
        artifact: Exported file, loaded by `adt_tf.serving.artifact.load`.
        test: Test examples.
        names: Names of attacks.
        output: Path of the JSON file; .csv and .md files are written beside it.
        details: Further fields of the JSON file.
        **arguments: Further arguments of `adt_tf.evaluate`.

    Returns:
        The report on the file.
    """
    details = {**details, **evaluation_files.describe_data(config)}
    output = evaluation_files.checked_output(output, details=details, test=test)
    on_source, on_file = build_attacks(names, config, test, source)
    run: Callable[..., evaluation.Report] = functools.partial(
        evaluation.evaluate,
        seed=config.seed,
        directory=output.parent,
        **arguments,
    )
    print("The source, in float:")
    before = run(source, test, on_source)
    print(f"{before}\nThe artefact:")
    after = run(artifact, test, on_file)
    print(after)
    rows = differences(before, after)
    evaluation_files.write(
        output,
        after,
        test,
        {
            **details,
            "cost": rows,
            "source_report": before.to_dict(),
        },
        more=table(rows),
    )
    print(f"\n{table(rows)}")
    print(f"Written to {output}, and as .csv and .md beside it")
    return after


def differences(
    before: evaluation.Report, after: evaluation.Report
) -> list[dict[str, Any]]:
    """Returns both accuracies and a paired test for each row of two reports.

    Args:
        before: Report on the source.
        after: Report on the file, with the same attacks in the same order.
    """
    pairs = list(zip(before.outcomes, after.outcomes, strict=True))
    if not before.independent:
        pairs = pairs[:1]
    rows = [
        (name, before.outcomes[first] == 1, after.outcomes[name] == 1)
        for first, name in pairs
    ]
    rows.append((evaluation.ROBUST, before.robust, after.robust))
    return [
        {
            "name": name,
            "source": float(first.mean()),
            "artifact": float(second.mean()),
            "points": 100 * float(first.mean() - second.mean()),
            "p_value": evaluation.mcnemar(first, second).p_value,
        }
        for name, first, second in rows
    ]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the cost of the conversion as a Markdown table.

    Args:
        rows: Result of `differences`.
    """
    lines = [
        "| | source (%) | artefact (%) | cost (points) | McNemar p |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        lines.append(
            f"| {escape(row['name'])} | {100 * row['source']:.2f} | "
            f"{100 * row['artifact']:.2f} | {row['points']:+.2f} | "
            f"{row['p_value']:.2g} |"
        )
    robust, natural = rows[-1], rows[0]
    return "\n".join(
        [
            *lines,
            "",
            f"The conversion costs {natural['points']:+.2f} points of natural "
            f"and {robust['points']:+.2f} points of robust accuracy. Images of "
            "a row marked (transfer) were computed on the source. A negative "
            "cost there means that they do not transfer, not that the artefact "
            "is more robust.",
            "",
        ]
    )
