"""Evaluates a classifier with named attacks: the work of adt-evaluate.

    attacks = build_attacks(["pgd-20", "fea"], 8 / 255, test)
    assess(classifier, test, attacks, "evaluation.json", details={...})

It writes the results as JSON, CSV and a Markdown table, and on request the
adversarial images. An interrupted evaluation continues where it stopped.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf import (
    attacks,
    data,
    evaluation,
    networks,
    threat_models,
)
from adt_tf.attacks import Attack
from adt_tf.markdown import code, escape
from adt_tf.runs import evaluation_files, inputs
from adt_tf.runs.config import Config
from adt_tf.runs.generators import trained_generators
from adt_tf.threat_models import ThreatModel

# Number of images of a data set on disk that feature attacks choose from.
_MOST_TARGETS = 1000


def build_attacks(
    names: Sequence[str],
    epsilon: float | ThreatModel,
    test: data.ImageData,
    *,
    classifier: Any = None,
    source: Any = None,
    width_factor: float = 1.0,
) -> list[Attack]:
    """Builds attacks by name.

    Args:
        names: Names that `adt_tf.attacks.get` accepts.
        epsilon: Threat model, or radius of an l-infinity ball.
        test: Test examples, from which feature attacks choose targets.
        classifier: Classifier to attack. If it has no feature map, feature
            attacks use its logits, and print so. None if it is known to have
            one.
        source: Another classifier to compute the adversarial images on, or
            None.
        width_factor: Factor of the number of channels of generators.
    """
    gradient_model = classifier if source is None else source
    context = {
        "features": "map" if _has_feature_map(gradient_model) else "logits",
        "targets": _targets(test, names),
        "input_shape": test.input_shape,
        "width_factor": width_factor,
    }
    named_attacks = [attacks.get(name, epsilon, **context) for name in names]
    if context["features"] == "logits":
        for attack in named_attacks:
            if attack.name.startswith("Fea"):
                print(
                    f"{attack.name}: the model is not a functional Keras model "
                    "with a feature map, so its logits are used as features."
                )
    if source is not None:
        return [attacks.Transfer(source, attack) for attack in named_attacks]
    return named_attacks


def _targets(
    test: data.ImageData, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the images that feature attacks choose targets from."""
    if not any(name.lower().startswith("fea") for name in names):
        return None
    images, labels = data.as_examples(test)
    if test.is_streamed:
        places = np.linspace(0, len(labels) - 1, _MOST_TARGETS)
        indices = np.unique(places.astype(int))
        images, labels = images.take(indices), labels[indices]
    return images[:], labels


def build_distributions(
    names: Sequence[str], *arguments: Any, **settings: Any
) -> list[Attack]:
    """Builds the attacks to sample from, such as "exp@0.01".

    Args:
        names: Names as in `build_attacks`, optionally with an entropy weight
            after @.
        *arguments: Arguments of `build_attacks`.
        **settings: Arguments of `build_attacks`.
    """
    sampled_attacks = []
    for name in names:
        plain, at, weight = name.partition("@")
        (attack,) = build_attacks([plain], *arguments, **settings)
        if at:
            if not isinstance(attack, attacks.GradientAscent) or not re.match(
                r"\d+(\.\d+)?(e-?\d+)?$", weight
            ):
                raise ValueError(
                    "--distributions must hold names of attacks; `exp` may "
                    "have an entropy weight of at least 0, as in exp@0.01. "
                    f"Received: {name}"
                )
            attack.entropy_weight = float(weight)
            attack.name = f"{attack.name} at {float(weight):g}"
        sampled_attacks.append(attack)
    return sampled_attacks


def _has_feature_map(classifier: Any) -> bool:
    if classifier is None:
        return True
    try:
        networks.feature_extractor(classifier)
    except ValueError:
        return False
    return True


def assess(
    classifier: Any,
    test: data.ImageData,
    chosen: Sequence[Attack],
    output: str | pathlib.Path,
    *,
    details: dict[str, Any],
    distributions: Sequence[Attack] = (),
    max_samples: int = 8192,
    **arguments: Any,
) -> evaluation.Report | evaluation.ProbabilisticReport:
    """Evaluates a classifier, prints the table and writes the files.

    Args:
        classifier: Function from images to logits.
        test: Test examples.
        chosen: Attacks.
        output: Path of the JSON file; .csv, .md and, with `keep_examples`, .npz
            files are written beside it.
        details: Further fields of the JSON file, such as the command. The
            data set, the norm and epsilon need not be among them.
        distributions: Attacks to sample from. If there are any, the evaluation
            is that of `adt_tf.evaluate_probabilistic`.
        max_samples: Largest number of samples of an image.
        **arguments: Further fields of `evaluation.Settings`.
    """
    balls = [a.threat_model for a in (*distributions, *chosen)]
    known: dict[str, Any] = {"dataset": test.name}
    of_attacks: dict[str, set[Any]] = {
        "norm": {threat_models.norm_of(ball) for ball in balls},
        "epsilon": {ball.epsilon for ball in balls},
    }
    for name, values in of_attacks.items():
        if len(values) == 1:
            known[name] = values.pop()
    details = {**known, **details}
    output = evaluation_files.checked_output(
        output,
        arguments.get("keep_examples", False),
        details=details,
        test=test,
    )
    settings = evaluation.Settings(directory=output.parent, **arguments)
    block: contextlib.AbstractContextManager[Any]
    if distributions:
        block = evaluation.evaluated_probabilistic(
            classifier,
            test,
            distributions,
            chosen,
            settings,
            max_samples=max_samples,
        )
    else:
        block = evaluation.evaluated(classifier, test, chosen, settings)
    is_chief = settings.workers is None or settings.workers.index == 0
    with block as report:
        if is_chief:
            print(f"{evaluation_files.title(details)}\n{report}")
            evaluation_files.write(output, report, test, details)
    if not is_chief:
        return report
    print(f"Written to {output}, and as .csv and .md beside it")
    if getattr(report, "unfinished", None):
        print(
            f"The {settings.minutes:g} minutes are over; the same command with "
            "more --minutes continues."
        )
    return report


def assess_experiment(
    config: Config,
    classifier: Any,
    test: data.ImageData,
    chosen: Sequence[Attack],
    output: str | pathlib.Path,
    *,
    attack_epochs: int,
    details: dict[str, Any],
    **arguments: Any,
) -> evaluation.Report | evaluation.ProbabilisticReport:
    """Calls `assess` after training the generators of amortised attacks.

    Args:
        config: Configuration of the experiment, with the training images.
        classifier: Function from images to logits.
        test: Test examples.
        chosen: Attacks.
        output: Path of the JSON file.
        attack_epochs: Number of epochs to train generators.
        details: Further fields of the JSON file, beside those of the
            configuration and the commit.
        **arguments: Further arguments of `assess`, except the seed.
    """
    details = {**details, **evaluation_files.describe_data(config)}
    output = evaluation_files.checked_output(
        output,
        arguments.get("keep_examples", False),
        details=details,
        test=test,
    )
    with trained_generators(
        [*arguments.get("distributions", ()), *chosen],
        classifier,
        lambda: inputs.load_data(config, "train", config.train_examples),
        epochs=attack_epochs,
        directory=output.parent,
        seed=config.seed,
    ):
        return assess(
            classifier,
            test,
            chosen,
            output,
            details=details,
            seed=config.seed,
            **arguments,
        )


def compare(
    first: str | pathlib.Path,
    second: str | pathlib.Path,
    *,
    protocol: str | None = None,
) -> str:
    """Returns a Markdown table of the paired tests of two evaluations.

    Args:
        first: Workdir or .json file of the first evaluation.
        second: Workdir or .json file of the second evaluation.
        protocol: Protocol of the evaluations in workdirs; None for
            evaluation.json.
    """
    one, other = (
        evaluation_files.read(path, protocol=protocol)
        for path in (first, second)
    )
    for name in ("dataset", "norm", "epsilon"):
        values = [{"norm": "linf", **each}.get(name) for each in (one, other)]
        if values[0] != values[1]:
            raise ValueError(
                f"{first} and {second} differ in their {name}: {values[0]} "
                f"and {values[1]}; compare evaluations on the same examples."
            )
    tests = evaluation.compare(one["report"], other["report"])
    lines = [
        f"A = {code(first)}, B = {code(second)}, "
        f"{one['num_examples']} examples",
        "",
        "| | only A right | only B right | A - B (points) | McNemar p |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, test in tests.items():
        lines.append(
            f"| {escape(name)} | {test.first_only} | {test.second_only} | "
            f"{100 * test.difference:+.2f} | {test.p_value:.2g} |"
        )
    for path, each in ((first, one), (second, other)):
        if each["report"].caveat:
            lines += ["", f"A_rob of {path}: {each['report'].caveat}"]
    return "\n".join(lines)
