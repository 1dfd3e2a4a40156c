"""One page on the robustness of one or several models.

    write(["build/standard", "build/adt_exp"], "build/report")

Reads each run's evaluation, attacks a few images itself, and writes index.html,
a file that holds all it shows; beside it report.md, accuracy.png and
images.png.

Parts: `collect` and `provenance` read files, `measure` and `analyses` run
attacks, `results` and `evidence` make the sections, `charts`, `images` and
`wording` what is in them, and `page` puts them into page.html with page.css
and page.js. `markdown` and `pictures` make what stands beside the page.
"""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence

from adt_tf import files, workdir
from adt_tf.data import as_arrays
from adt_tf.report import (
    analyses as analyses_,
)
from adt_tf.report import (
    collect,
    markdown,
    measure,
    page,
    pictures,
)

__all__ = ["write"]

# Of the accuracy against epsilon.
_SWEEP_EXAMPLES = 200


def write(
    workdirs: Sequence[str | pathlib.Path],
    output: str | pathlib.Path,
    *,
    protocol: str | None = None,
    analyses: bool = True,
    num_images: int = 8,
) -> pathlib.Path:
    """Writes the page into a directory, which is made if need be.

    Args:
        workdirs: Runs of one data set, evaluated alike.
        output: Where index.html and what stands beside it go.
        protocol: Takes evaluation-PROTOCOL.json; by default evaluation.json.
        analyses: Whether to measure accuracy against epsilon and to run the
            analyses: half a minute for small models.
        num_images: How many images are shown.

    Returns:
        The path of index.html.
    """
    if num_images < 1:
        raise ValueError(
            "Argument `num_images` must be at least 1. Received: "
            f"num_images={num_images}"
        )
    runs = collect.read_runs(workdirs, protocol)
    output = pathlib.Path(output)
    settings = {
        "epsilon": runs[0].result["epsilon"],
        "seed": runs[0].report.seed,
    }
    wanted = max(num_images, _SWEEP_EXAMPLES if analyses else 0)
    x, y = as_arrays(collect.load_examples(runs[0], wanted))
    few = x[:num_images], y[:num_images]
    classifiers = {
        run.name: workdir.load_classifier(run.folder) for run in runs
    }
    print(f"Attacking {len(few[1])} images ...")
    shown = measure.attack_images(classifiers, *few, **settings)
    sweep = found = None
    if analyses:
        print(f"Accuracy against epsilon on {len(y)} images ...")
        sweep = measure.sweep_epsilon(
            classifiers, x, y, num_images=num_images, **settings
        )
        print("Analyses ...")
        found = analyses_.analyze(classifiers, x, y, **settings)
    output.mkdir(parents=True, exist_ok=True)
    pictures.draw_accuracy(runs, output / "accuracy.png")
    pictures.draw_images(runs, shown, output / "images.png")
    files.write_text(output / "report.md", markdown.render(runs))
    html = page.render(
        runs,
        pictures=shown,
        sweep=sweep,
        analyses=found,
        command=_command(workdirs, output, protocol, num_images),
    )
    path = output / "index.html"
    files.write_text(path, html)
    print(markdown.table(runs))
    print(f"The page is {path}")
    return path


def _command(workdirs, output, protocol, num_images) -> str:
    parts = [
        "python scripts/report.py",
        f"--workdirs={shlex.quote(','.join(map(str, workdirs)))}",
        f"--output={shlex.quote(str(output))}",
        f"--images={num_images}",
    ]
    if protocol:
        parts.append(f"--protocol={shlex.quote(protocol)}")
    return " ".join(parts)
