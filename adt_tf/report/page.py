"""The page: a template, its style and script, and what goes in between.

    html = render(runs, pictures=pictures, sweep=None, analyses=None, ...)

The result is one file. It asks nothing of the network, and its content
security policy keeps the browser from asking: no source but data inside the
page, no script but this one, known by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import string
from collections.abc import Sequence

from adt_tf.report import curves, evidence, measure, origin, results
from adt_tf.report.analyses import Analysis
from adt_tf.report.collect import Run
from adt_tf.report.wording import (
    counted,
    epsilon_text,
    escape,
    headline,
    listed,
)


def render(
    runs: Sequence[Run],
    *,
    pictures: measure.Pictures,
    sweep: measure.Sweep | None,
    analyses: Sequence[Analysis] | None,
    command: str,
) -> str:
    """Returns the HTML.

    Args:
        runs: Evaluated alike.
        pictures: A few images, attacked.
        sweep: Accuracy against epsilon; None where it was not measured.
        analyses: None where they were not run.
        command: That writes this page, analyses included.
    """
    first, epsilon = runs[0], runs[0].result["epsilon"]
    script = _file("page.js")
    swept = origin.code(command)
    number = 0
    if sweep is not None:
        swept = curves.sweep_chart(runs, sweep, pictures.labels)
        number = sweep.right.shape[-1]
    names = [escape(run.name) for run in runs]
    return string.Template(_file("page.html")).substitute(
        title=f"Robustness on {escape(first.result['dataset'])}",
        policy=_policy(script),
        style=_file("page.css"),
        script=script,
        subtitle=f"{listed(names)}, attacked on "
        f"{counted(first.report.num_examples, 'test image')}. Each attack may "
        f"change every pixel, from 0 to 1, by up to "
        f"ε&nbsp;=&nbsp;{escape(epsilon_text(epsilon))}.",
        headline=headline(list(runs)),
        verdicts=results.verdicts(runs),
        table=results.table(runs),
        comparison=results.comparison(runs),
        attack_chart=results.attack_chart(runs),
        sweep_text=_sweep_text(number),
        sweep=swept,
        training=curves.training(runs),
        images=evidence.image_grid(runs, pictures, epsilon),
        analyses=evidence.analyses(analyses, command),
        lint=evidence.lint(runs),
        setup=origin.setup(runs),
        reproduce=origin.reproduce(runs, command),
        attack_list=origin.attack_list(first),
        epsilon=escape(epsilon_text(epsilon)),
    )


def _sweep_text(number: int) -> str:
    if not number:
        return "Not measured. To have it:"
    return (
        f"PGD-{measure.NUM_STEPS} on the first {counted(number, 'image')} at "
        "several radii; at 0 nothing is attacked. An honest curve falls to "
        "nothing when attacks may change everything: one that levels off above "
        "chance hides its gradients instead. Shaded: 95 % intervals."
    )


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest())
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest.decode()}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _file(name: str) -> str:
    return (
        importlib.resources.files(__package__).joinpath(name).read_text("utf-8")
    )
