"""Measures how many examples withstand which attacks.

report = evaluate(classifier, test, attacks=[pgd(8 / 255)])

settings = Settings(directory="build")
with evaluated(classifier, test, attacks, settings) as report:
    write(report)       # an interruption up to here loses no verdict
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adt_tf import checks, configs, data, linting
from adt_tf.attacks import Attack
from adt_tf.checks import arguments
from adt_tf.evaluation import classes
from adt_tf.evaluation.loop import Loop
from adt_tf.evaluation.outcome import NATURAL, RIGHT, ROBUST, Report
from adt_tf.evaluation.state import State, fingerprint, probe


@dataclasses.dataclass(frozen=True)
class Settings:
    """How an evaluation is run; `evaluate` describes what is not said here.

    Args:
        batch_size: Number of images at once.
        seed: Seed of the attacks' noise.
        independent: Whether each attack runs on all examples that are right
            when clean.
        keep_examples: Whether the report holds the adversarial images.
        directory: Directory of the state of an interrupted evaluation.
        class_names: Name of each class.
        verbose: Whether to show progress.
        warns: Whether a few passes look for what makes the number wrong.
    """

    batch_size: int = 128
    seed: int = 0
    independent: bool = False
    keep_examples: bool = False
    directory: str | pathlib.Path | None = None
    class_names: Sequence[str] | None = None
    verbose: bool = True
    warns: bool = True


def evaluate(
    classifier: Any,
    dataset: Any,
    attacks: Attack | Sequence[Attack],
    *,
    batch_size: int = 128,
    seed: int = 0,
    independent: bool = False,
    keep_examples: bool = False,
    directory: str | pathlib.Path | None = None,
    class_names: Sequence[str] | None = None,
    verbose: bool = True,
) -> Report:
    """Measures natural accuracy, accuracy under attack, and A_rob.

    Attacks run in order, each on the examples that are still right: an
    example counts as robust only if it withstands them all, so what has fallen
    need not be attacked again. The classifier runs in inference mode. Each
    batch of adversarial images is checked against the threat model before it
    is counted. The result does not depend on `batch_size`.

    About thirty passes of 32 examples look for what makes such a number wrong,
    as `adt_tf.lint` does: no input gradient, random outputs, outputs that
    depend on the batch, another range of the input. What they find stands
    beside A_rob wherever the report shows it, and in `report.warnings`.

    Args:
        classifier: A Keras model from images in [0, 1] to logits, or any
            object that is called as `classifier(images, training=False)`.
        dataset: (images, labels), or a data set of such in any form that
            `adt_tf.data.as_arrays` takes.
        attacks: An attack or several, such as `[adt_tf.attacks.pgd(8 / 255)]`.
        batch_size: Number of images at once.
        seed: Seed of the attacks' noise.
        independent: Whether each attack runs on all examples that are right
            when clean: its own accuracy, as tables of attacks have it.
        keep_examples: Whether the report holds the adversarial images.
        directory: Directory where an interrupted evaluation leaves what it
            knows, and the same call goes on from; None for nowhere.
        class_names: Name of each class; by default those of an `ImageData`,
            or numbers.
        verbose: Whether to show progress.
    """
    settings = Settings(
        batch_size,
        seed,
        independent,
        keep_examples,
        directory,
        class_names,
        verbose,
    )
    with evaluated(classifier, dataset, attacks, settings) as report:
        return report


@contextlib.contextmanager
def evaluated(
    classifier: Any,
    dataset: Any,
    attacks: Attack | Sequence[Attack],
    settings: Settings,
) -> Iterator[Report]:
    """Evaluates, and keeps the state until the block has ended without error.

    So a report that could not be written is made again from its verdicts.

    Args:
        classifier: Classifier, as in `evaluate`.
        dataset: Examples, as in `evaluate`.
        attacks: An attack or several.
        settings: Everything else.

    Yields:
        The report.
    """
    checks.check_classifier(classifier)
    attacks = [attacks] if isinstance(attacks, Attack) else attacks
    names = [NATURAL, *_checked_names(attacks)]
    for attack in attacks:
        attack.check(classifier)
    arguments.integer_at_least(1, batch_size=settings.batch_size)
    bounds = _bounds(attacks)
    images, labels = data.as_examples(dataset, bounds=bounds)
    class_names = settings.class_names
    if class_names is None:
        class_names = getattr(dataset, "class_names", None)
    if class_names is not None:
        class_names = classes.checked_names(class_names, labels)
    checks.check_answer(classifier, images[:1])
    state = _state(classifier, images, labels, attacks, names, settings)
    loop = Loop(
        classifier,
        images,
        labels,
        state,
        seed=settings.seed,
        batch_size=settings.batch_size,
        verbose=settings.verbose,
    )
    if state.resumed and not loop.agrees(bounds):
        state.reset(images)
    if settings.verbose and state.resumed:
        print("Going on with an evaluation that was interrupted.")
    if settings.verbose and state.refused:
        print(
            "Starting anew: an evaluation was interrupted here, but of a model "
            "that gives other logits or verdicts."
        )
    loop.natural()
    warnings = ()
    if settings.warns:
        warnings = linting.quick_failures(
            classifier, images, labels, bounds=bounds
        )
    if warnings and settings.verbose:
        print(*(line for w in warnings for line in w.lines()), sep="\n")
    for row, attack in enumerate(attacks, start=1):
        before = state.outcomes[: 1 if settings.independent else row]
        loop.attack(row, attack, np.all(before == RIGHT, axis=0))
    yield Report(
        dict(zip(names, state.outcomes, strict=True)),
        {attack.name: repr(attack) for attack in attacks},
        settings.seed,
        settings.independent,
        dict(zip(names, map(float, state.seconds), strict=True)),
        state.examples if settings.keep_examples else None,
        checks.digest(images, labels),
        warnings,
        labels,
        class_names,
    )
    state.remove()


def _state(
    classifier: Any,
    images: np.ndarray,
    labels: np.ndarray,
    attacks: Sequence[Attack],
    names: Sequence[str],
    settings: Settings,
) -> State:
    """Returns the state of an interrupted evaluation, or an empty one."""
    key, logits = "", None
    if settings.directory is not None:
        what = (
            [configs.fingerprint(attack) for attack in attacks],
            settings.seed,
            settings.independent,
            settings.keep_examples,
        )
        models = [classifier, *(m for a in attacks for m in a.models)]
        key = fingerprint(models, images, labels, what)
        sources = [m for a in attacks for m in a.models if m not in a.networks]
        logits = probe([classifier, *sources], images)
    return State(
        names,
        images,
        keep_examples=settings.keep_examples,
        directory=settings.directory,
        key=key,
        probe=logits,
    )


def _checked_names(attacks: Sequence[Attack]) -> list[str]:
    for attack in attacks:
        if not isinstance(attack, Attack):
            raise ValueError(
                "Argument `attacks` must hold attacks such as "
                "`adt_tf.attacks.get('pgd-20', epsilon=8 / 255)`. Received: "
                f"{attack!r}"
            )
    names = [attack.name for attack in attacks]
    if len({NATURAL, ROBUST, *names}) != len(names) + 2:
        raise ValueError(
            "Argument `attacks` must hold attacks with different names, none "
            f"of them {NATURAL!r} or {ROBUST!r}. Received: {names}; set "
            "`attack.name` to tell them apart."
        )
    return names


def _bounds(attacks: Sequence[Attack]) -> tuple[float, float]:
    """The pixel bounds of all attacks, [0, 1] where there is none."""
    bounds = {tuple(attack.threat_model.bounds) for attack in attacks}
    if len(bounds) > 1:
        raise ValueError(
            "Argument `attacks` must hold attacks with the same pixel bounds. "
            f"Received: {sorted(bounds)}"
        )
    return bounds.pop() if bounds else (0.0, 1.0)
