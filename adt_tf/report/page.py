"""Renders the page from its templates, style sheet and script.

    html = render(runs, images=images, sweep=None, analyses=None, ...)

The result is one file that makes no network requests. Its content security
policy allows only data inside the page and only its own script, by hash.
Jinja2 escapes all values.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import pathlib
from collections.abc import Sequence

import jinja2
import markupsafe

from adt_tf import files
from adt_tf.evaluation.outcome import ROBUST, UNTRUSTED
from adt_tf.report import (
    accuracy_sections,
    curve_sections,
    image_section,
    inline_images,
    origin_sections,
    probabilistic_section,
    svg_charts,
    wording,
)
from adt_tf.report.analysis_figures import AnalysisFigure
from adt_tf.report.attacked_images import (
    NUM_STEPS,
    AttackedImages,
    EpsilonSweep,
)
from adt_tf.report.evaluated_runs import EvaluatedRun

_GENERATOR = '<meta name="generator" content="adt-report">'


def render(
    runs: Sequence[EvaluatedRun],
    *,
    images: AttackedImages,
    sweep: EpsilonSweep | None,
    analyses: Sequence[AnalysisFigure] | None,
    command: str,
) -> str:
    """Returns the HTML.

    Args:
        runs: Runs that were evaluated with the same settings.
        images: Attacked images.
        sweep: Accuracy against epsilon; None if it was not measured.
        analyses: Figures of the analyses; None if they were not run.
        command: Command that writes this page with the analyses.
    """
    first = runs[0]
    script = _source("page.js")
    sweep_section = None
    if sweep is not None:
        sweep_section = curve_sections.epsilon_sweep(runs, sweep, images.labels)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            policy=_policy(script),
            generator=markupsafe.Markup(_GENERATOR),
            style_sheet=markupsafe.Markup(_source("page.css")),
            script=markupsafe.Markup(script),
            dataset=first.result["dataset"],
            names=[run.name for run in runs],
            caveats=[run.report.caveat for run in runs],
            # PGD, which gives the accuracy against epsilon, uses the gradient.
            doubts=[UNTRUSTED if run.report.failures else "" for run in runs],
            num_examples=first.report.num_examples,
            num_steps=NUM_STEPS,
            epsilon=wording.epsilon_text(first.result["epsilon"]),
            norm=first.threat_model.name,
            threat=wording.threat(first),
            squashes=first.threat_model.squashes,
            command=command,
            headline=wording.headline(runs),
            cards=accuracy_sections.verdict_cards(runs),
            attack_table=accuracy_sections.attack_table(runs),
            class_table=accuracy_sections.class_table(runs),
            comparison=accuracy_sections.comparison(runs),
            attack_chart=accuracy_sections.attack_chart(runs),
            sweep=sweep_section,
            probabilistic=probabilistic_section.probabilistic(runs),
            training_charts=curve_sections.training_charts(runs),
            images=image_section.image_grid(runs, images),
            analyses=analyses,
            warnings=origin_sections.warnings(runs),
            lint=origin_sections.lint_findings(runs),
            setup=origin_sections.setup(runs),
            commands=origin_sections.commands(runs),
            attacks=origin_sections.attack_settings(first),
        )
    )


@functools.cache
def _loader() -> jinja2.PackageLoader:
    return jinja2.PackageLoader(__package__)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=_loader(),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        code_spans,
        inline_images.data_uri,
        wording.counted,
        wording.interval,
        wording.listed,
        wording.number,
        wording.p_value_parts,
        wording.percent,
    ):
        environment.filters[function.__name__] = function
    environment.globals |= {
        "ROBUST": ROBUST,
        "marker_path": svg_charts.marker_path,
        "style": svg_charts.style,
    }
    environment.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "allow_nan": False,
    }
    return environment


def code_spans(text: str) -> markupsafe.Markup:
    """Escapes a text, and marks the parts between backticks as code.

    >>> print(code_spans("See `logits` < 1."))
    See <code>logits</code> &lt; 1.
    """
    parts = str(text).split("`")
    if len(parts) % 2 == 0:  # A backtick has no partner.
        return markupsafe.escape(text)
    return markupsafe.Markup().join(
        markupsafe.Markup("<code>{}</code>").format(part) if i % 2 else part
        for i, part in enumerate(parts)
    )


def _source(name: str) -> str:
    """Returns the text of a file in the folder of the templates."""
    return _loader().get_source(_environment(), name)[0]


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest())
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest.decode()}'; base-uri 'none'; "
        "form-action 'none'"
    )


def is_page(path: pathlib.Path) -> bool:
    """Returns whether a file was written by `render`."""
    try:
        text = files.read_text(path)
    except (OSError, ValueError):
        return False
    return text.startswith("<!doctype html>") and _GENERATOR in text[:2000]
