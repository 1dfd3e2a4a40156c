"""One page on the robustness of one or several models.

    write(["build/standard", "build/adt_exp"], "build/report")

Reads each run's evaluation, attacks a few images itself, and writes index.html,
a file that holds all it shows; beside it report.md, accuracy.png and
images.png.

A folder that was not made by the scripts will do as well: it needs
classifier.keras and an evaluation.json that
`adt_tf.runs.evaluation_job.assess` wrote; metrics.csv of Keras'
CSVLogger and lint.json are shown where they are there.

Parts: `evaluated_runs` and `run_files` read a workdir, `attacked_images` and
`analysis_figures` run attacks. The modules whose names end in `section` or
`sections` prepare what the page shows as plain values, with the help of
`svg_charts`, `inline_images` and `wording`; `page` gives them to templates/,
where all HTML is. `markdown_report` and `picture_files` make what stands beside
the page.
"""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf import files
from adt_tf.checks import arguments
from adt_tf.data import as_arrays
from adt_tf.report import (
    analysis_figures,
    attacked_images,
    evaluated_runs,
    markdown_report,
    page,
    picture_files,
)
from adt_tf.runs.workdir import Workdir

__all__ = ["write"]

# Of the accuracy against epsilon.
_SWEEP_EXAMPLES = 200


def write(
    workdirs: Sequence[str | pathlib.Path],
    output: str | pathlib.Path,
    *,
    test: Any = None,
    protocol: str | None = None,
    analyses: bool = True,
    num_images: int = 8,
) -> pathlib.Path:
    """Writes the page into a directory, which is made if need be.

    Args:
        workdirs: Runs of one data set, evaluated alike.
        output: Where index.html and what stands beside it go.
        test: The examples that were evaluated, (images, labels) or an
            `ImageData`; by default the data set that the evaluation names.
        protocol: Takes evaluation-PROTOCOL.json; by default evaluation.json.
        analyses: Whether to measure accuracy against epsilon and to run the
            analyses: about a minute for small models.
        num_images: How many images are shown.

    Returns:
        The path of index.html.
    """
    arguments.integer_at_least(1, num_images=num_images)
    runs = evaluated_runs.read_runs(workdirs, protocol)
    output = _checked_output(output)
    settings = {
        "epsilon": runs[0].threat_model,
        "seed": runs[0].report.seed,
    }
    wanted = max(num_images, _SWEEP_EXAMPLES if analyses else 0)
    x, y = _examples(runs[0], test, wanted)
    few = x[:num_images], y[:num_images]
    classifiers = {
        run.name: Workdir(run.folder).load_classifier() for run in runs
    }
    # Before the long work, which would be lost if it cannot be made.
    output.mkdir(parents=True, exist_ok=True)
    print(f"Attacking {len(few[1])} images ...")
    images = attacked_images.attack_images(classifiers, *few, **settings)
    sweep = figures = None
    if analyses:
        print(f"Accuracy against epsilon on {len(y)} images ...")
        sweep = attacked_images.sweep_epsilon(
            classifiers, x, y, num_images=num_images, **settings
        )
        print("Analyses ...")
        figures = analysis_figures.analyze(classifiers, x, y, **settings)
    picture_files.draw_accuracy(runs, output / "accuracy.png")
    picture_files.draw_images(runs, images, output / "images.png")
    files.write_text(output / "report.md", markdown_report.render(runs))
    html = page.render(
        runs,
        images=images,
        sweep=sweep,
        analyses=figures,
        command=_command(workdirs, output, protocol, num_images, test),
    )
    path = output / "index.html"
    files.write_text(path, html)
    print(markdown_report.table(runs))
    print(f"The page is {path}")
    return path


def _checked_output(output: str | pathlib.Path) -> pathlib.Path:
    """Returns the directory; refuses one that holds files of somebody else."""
    output = pathlib.Path(output)
    if files.is_taken(output) and not output.is_dir():
        raise ValueError(
            f"{output} is no directory, so no report is written there. Choose "
            "another --output."
        )
    is_report = page.is_page(output / "index.html")
    for name, is_own in {
        "index.html": is_report,
        "report.md": markdown_report.is_report(output / "report.md"),
        "accuracy.png": is_report,
        "images.png": is_report,
    }.items():
        if files.is_taken(output / name) and not is_own:
            raise ValueError(
                f"{output / name} is there and belongs to no report, so it is "
                "not overwritten. Move it away, or choose another --output."
            )
    return output


def _examples(
    run: evaluated_runs.EvaluatedRun, test: Any, wanted: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first examples of the evaluation, as arrays."""
    if test is None:
        return as_arrays(evaluated_runs.load_examples(run, wanted))
    x, y = as_arrays(test)
    if len(y) < run.report.num_examples:
        raise ValueError(
            f"Argument `test` must hold the {run.report.num_examples} examples "
            f"of the evaluation {run.evaluated}. Received: {len(y)} examples"
        )
    wanted = min(wanted, run.report.num_examples)
    return x[:wanted], y[:wanted]


def _command(workdirs, output, protocol, num_images, test) -> str:
    folders = [str(folder) for folder in workdirs]
    if test is not None:
        argument = f", protocol={protocol!r}" if protocol else ""
        return (
            f"adt_tf.report.write({folders}, {str(output)!r}, test=test"
            f"{argument}, num_images={num_images})"
        )
    parts = [
        "adt-report",
        f"--workdirs={shlex.quote(','.join(folders))}",
        f"--output={shlex.quote(str(output))}",
        f"--images={num_images}",
    ]
    if protocol:
        parts.append(f"--protocol={shlex.quote(protocol)}")
    return " ".join(parts)
