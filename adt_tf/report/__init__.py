"""Writes an HTML page on the robustness of one or several models.

    write(["build/standard", "build/adt_exp"], "build/report")

`write` reads the evaluation of each run, attacks a few images and writes
index.html, which loads no other file; beside it report.md, accuracy.png and
images.png.

The runs may come from Python instead of the commands: a folder needs
classifier.keras and an evaluation.json written by
`adt_tf.runs.evaluation_job.assess`. The page also shows lint.json and the
metrics.csv of Keras' CSVLogger if they exist.

Parts: `evaluated_runs` and `run_files` read a workdir, `attacked_images` and
`analysis_figures` run attacks. The modules whose names end in `section` or
`sections` prepare the content of the page as plain values, with the help of
`svg_charts`, `inline_images` and `wording`; `page` renders them with
templates/, which holds all HTML. `markdown_report` and `picture_files` write
the files beside the page.
"""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf import files
from adt_tf.checks import arguments
from adt_tf.data import ImageData, as_arrays
from adt_tf.report import (
    analysis_figures,
    attacked_images,
    evaluated_runs,
    markdown_report,
    page,
    picture_files,
)

__all__ = ["write"]

# Number of examples of the accuracy against epsilon.
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
    """Writes the page into a directory, which is created if necessary.

    Args:
        workdirs: Workdirs of runs on one data set, evaluated with the same
            settings, or .json files of adt-evaluate, which name the model.
        output: Directory of index.html and of the files beside it.
        test: Examples that were evaluated, (images, labels) or an `ImageData`;
            by default they are loaded from the data set that the evaluation
            names.
        protocol: Name in evaluation-PROTOCOL.json; by default the page is about
            evaluation.json.
        analyses: Whether to measure accuracy against epsilon and to run the
            analyses, which takes about a minute for small models.
        num_images: Number of images on the page.

    Returns:
        The path of index.html.
    """
    arguments.integer_at_least(1, num_images=num_images)
    runs = evaluated_runs.read_runs(workdirs, protocol)
    output = _checked_output(output)
    settings: dict[str, Any] = {
        "epsilon": runs[0].threat_model,
        "seed": runs[0].report.seed,
    }
    num_examples = max(num_images, _SWEEP_EXAMPLES if analyses else 0)
    like, x, y = _examples(runs[0], test, num_examples)
    few = x[:num_images], y[:num_images]
    classifiers = {run.name: run.load_classifier(like) for run in runs}
    # A directory that cannot be created must fail before the long work.
    output.mkdir(parents=True, exist_ok=True)
    print(f"Attacking {len(few[1])} images ...")
    images = attacked_images.attack_images(classifiers, *few, **settings)
    sweep = figures = None
    if analyses:
        print(f"Measuring accuracy against epsilon on {len(y)} images ...")
        sweep = attacked_images.sweep_epsilon(
            classifiers, x, y, num_images=num_images, **settings
        )
        print("Running the analyses ...")
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
    """Returns the directory; refuses to overwrite files of other origin."""
    output = pathlib.Path(output)
    if files.is_taken(output) and not output.is_dir():
        raise ValueError(
            f"{output} is not a directory, so no report was written. Choose "
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
                f"{output / name} exists and belongs to no report, so it is "
                "not overwritten. Move it away, or choose another --output."
            )
    return output


def _examples(
    run: evaluated_runs.EvaluatedRun, test: Any, num_examples: int
) -> tuple[ImageData | None, np.ndarray, np.ndarray]:
    """Returns the data, and the first examples of the evaluation as arrays."""
    if test is None:
        loaded = evaluated_runs.load_examples(run, num_examples)
        return loaded, *as_arrays(loaded)
    like = test if isinstance(test, ImageData) else None
    x, y = as_arrays(test)
    if len(y) < run.report.num_examples:
        raise ValueError(
            f"Argument `test` must hold the {run.report.num_examples} examples "
            f"of the evaluation {run.evaluated}. Received: {len(y)} examples"
        )
    num_examples = min(num_examples, run.report.num_examples)
    return like, x[:num_examples], y[:num_examples]


def _command(
    workdirs: Sequence[str | pathlib.Path],
    output: pathlib.Path,
    protocol: str | None,
    num_images: int,
    test: Any,
) -> str:
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
