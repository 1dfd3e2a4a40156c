"""Measures which examples withstand which attacks.

report = evaluate(classifier, test, attacks=[pgd(8 / 255)])

settings = Settings(directory="build")
with evaluated(classifier, test, attacks, settings) as report:
    write(report)       # an interruption up to here loses no verdict
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from adt_tf import checks, configs, data, linting
from adt_tf.attacks import Attack, tracing
from adt_tf.checks import arguments
from adt_tf.data import DiskImages
from adt_tf.evaluation import classes
from adt_tf.evaluation.loop import Loop
from adt_tf.evaluation.outcome import NATURAL, NOT_RUN, RIGHT, ROBUST, Report
from adt_tf.evaluation.sharing import Workers
from adt_tf.evaluation.state import State, fingerprint, probe


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of an evaluation.

    Args:
        batch_size: Number of images at once.
        seed: Seed of the attacks' noise.
        independent: Whether each attack runs on all examples that are right
            when clean.
        keep_examples: Whether the report holds the adversarial images. Then
            every attack runs to its last step, since the strongest image is
            kept.
        directory: Directory of the state of an interrupted evaluation.
        class_names: Name of each class.
        verbose: Whether to show progress.
        warns: Whether a few passes check that the classifier can be measured.
        minutes: Minutes that all attacks may take together, including those of
            earlier calls that were cut; None for no limit. Attacks must run in
            turn. If attacks were cut, the A_rob of the report is an upper
            bound.
        workers: Processes and devices that share the examples; None for this
            process and one device.
    """

    batch_size: int = 128
    seed: int = 0
    independent: bool = False
    keep_examples: bool = False
    directory: str | pathlib.Path | None = None
    class_names: Sequence[str] | None = None
    verbose: bool = True
    warns: bool = True
    minutes: float | None = None
    workers: Workers | None = None


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
    minutes: float | None = None,
) -> Report:
    """Measures natural accuracy, accuracy under attack, and A_rob.

    Attacks run in order, each on the examples that are still right: an example
    counts as robust only if it withstands all of them, so a fallen one is not
    attacked again. Within an attack, examples leave as soon as no further step
    can change their verdict. The classifier runs in inference mode. Each batch
    of adversarial images is checked against the threat model before it is
    counted. The result does not depend on `batch_size`.

    About thirty passes of 32 examples check that the number can be trusted, as
    `adt_tf.lint` does: a classifier without an input gradient, with random
    outputs, with outputs that depend on the batch, or with another range of
    the input gives warnings beside A_rob and in `report.warnings`.

    Args:
        classifier: A Keras model from images in [0, 1] to logits, or any
            object that is called as `classifier(images, training=False)`.
        dataset: (images, labels), or a data set in any form that
            `adt_tf.data.as_arrays` takes.
        attacks: One attack or several, such as `[adt_tf.attacks.pgd(8 / 255)]`.
            Each is traced once for a classifier: several calls are faster with
            the same objects.
        batch_size: Number of images at once.
        seed: Seed of the attacks' noise.
        independent: Whether each attack runs on all examples that are right
            when clean, which gives each attack's own accuracy.
        keep_examples: Whether the report holds the adversarial images.
        directory: Directory where an interrupted evaluation keeps its state,
            so that the same call resumes it; None keeps nothing.
        class_names: Name of each class; by default those of an `ImageData`,
            or numbers.
        verbose: Whether to show progress.
        minutes: Minutes that all attacks may take together; None for no limit.
            With a `directory`, the same call with more minutes continues.
    """
    settings = Settings(
        batch_size,
        seed,
        independent,
        keep_examples,
        directory,
        class_names,
        verbose,
        minutes=minutes,
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
    """Evaluates, and keeps the state on disk until the block has succeeded.

    If the block cannot write the report, the same call builds it again from the
    verdicts.

    Args:
        classifier: Classifier, as in `evaluate`.
        dataset: Examples, as in `evaluate`.
        attacks: One attack or several.
        settings: Further settings.

    Yields:
        The report.
    """
    checks.check_classifier(classifier)
    attacks = [attacks] if isinstance(attacks, Attack) else attacks
    names = [NATURAL, *_checked_names(attacks)]
    for attack in attacks:
        attack.check(classifier)
    arguments.integer_at_least(1, batch_size=settings.batch_size)
    _check_minutes(settings)
    bounds = _bounds(attacks)
    images, labels = data.as_examples(dataset, bounds=bounds)
    class_names = settings.class_names
    if class_names is None:
        class_names = getattr(dataset, "class_names", None)
    if class_names is not None:
        class_names = classes.checked_names(class_names, labels)
    checks.check_answer(classifier, images[:1])
    renew(classifier, attacks)
    state = _state(classifier, images, labels, attacks, names, settings)
    workers = settings.workers or Workers()
    state.merge(workers)
    loop = Loop(
        classifier,
        images,
        labels,
        state,
        seed=settings.seed,
        batch_size=settings.batch_size,
        verbose=settings.verbose,
        is_over=_deadline(settings, state),
        workers=workers,
    )
    if state.resumed and not loop.agrees(bounds):
        state.reset(images)
    if settings.verbose and state.resumed:
        print("Continuing an evaluation that was interrupted.")
    if settings.verbose and state.refused:
        print(
            "Starting anew: the evaluation that was interrupted here is of a "
            "model with other logits or verdicts."
        )
    loop.natural()
    state.merge(workers)
    warnings: tuple[linting.Finding, ...] = ()
    if settings.warns and workers.index == 0:
        warnings = linting.quick_failures(
            classifier, images, labels, bounds=bounds
        )
    if warnings and settings.verbose:
        print(*(line for w in warnings for line in w.lines()), sep="\n")
    finished = True
    for row, attack in enumerate(attacks, start=1):
        before = state.outcomes[: 1 if settings.independent else row]
        target = workers.own(np.all(before == RIGHT, axis=0))
        finished = finished and loop.attack(row, attack, target)
        state.merge(workers)
        finished = not workers.merged(np.array([not finished])).any()
    yield Report(
        dict(zip(names, _verdicts(state, attacks), strict=True)),
        {attack.name: repr(attack) for attack in attacks},
        settings.seed,
        settings.independent,
        dict(zip(names, map(float, state.seconds), strict=True)),
        state.examples if settings.keep_examples else None,
        checks.digest(images, labels),
        warnings,
        labels,
        class_names,
        {attack.name: attack.search for attack in attacks},
    )
    # The chief has written the report, or has failed and is not met here.
    workers.merged(np.zeros(1, bool))
    if finished:
        state.remove()


def renew(classifier: Any, attacks: Sequence[Attack]) -> None:
    """Lets the functions of models that are not Keras' be traced again.

    The attributes of such an object may have changed since it was traced.
    """
    for model in (classifier, *(m for a in attacks for m in a.models)):
        if not isinstance(model, keras.Model):
            tracing.renew(model)


def _check_minutes(settings: Settings) -> None:
    if settings.minutes is None:
        return
    arguments.number_above(0, minutes=settings.minutes)
    if settings.independent:
        raise ValueError(
            "Argument `minutes` needs attacks that run in turn, each on the "
            "examples still standing: leave out `independent`. Received: "
            f"minutes={settings.minutes}, independent=True"
        )


def _deadline(settings: Settings, state: State) -> Callable[[], bool]:
    """Returns a function that says whether the minutes are over."""
    if settings.minutes is None:
        return lambda: False
    seconds = 60 * settings.minutes - float(state.seconds.sum())
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _verdicts(state: State, attacks: Sequence[Attack]) -> np.ndarray:
    """Returns the verdicts, without those of attacks with parts left over."""
    num_parts = np.array([1, *(attack.num_parts for attack in attacks)])
    is_cut = (state.outcomes == RIGHT) & (
        state.parts_done < num_parts[:, np.newaxis]
    )
    return np.where(is_cut, NOT_RUN, state.outcomes).astype(np.int8)


def _state(
    classifier: Any,
    images: np.ndarray | DiskImages,
    labels: np.ndarray,
    attacks: Sequence[Attack],
    names: Sequence[str],
    settings: Settings,
) -> State:
    """Returns the state of an interrupted evaluation, or a new one."""
    key, logits = "", None
    if settings.directory is not None:
        identity = (
            [configs.fingerprint(attack) for attack in attacks],
            settings.seed,
            settings.independent,
            settings.keep_examples,
        )
        models = [classifier, *(m for a in attacks for m in a.models)]
        key = fingerprint(models, images, labels, identity)
        sources = [m for a in attacks for m in a.models if m not in a.networks]
        logits = probe([classifier, *sources], images)
    _check_workers(settings, key)
    return State(
        names,
        images,
        keep_examples=settings.keep_examples,
        directory=settings.directory,
        key=key,
        probe=logits,
        worker=settings.workers.index if settings.workers else 0,
    )


def _check_workers(settings: Settings, key: str) -> None:
    """Raises if processes that share an evaluation do not evaluate the same."""
    workers = settings.workers
    if workers is None or workers.count == 1:
        return
    if settings.keep_examples or settings.directory is None:
        raise ValueError(
            "Several processes share an evaluation through files in its "
            "`directory`, and keep no adversarial images. Received: "
            f"directory={settings.directory}, "
            f"keep_examples={settings.keep_examples}"
        )
    number = zlib.crc32(key.encode())
    if not np.array_equal(
        workers.merged(np.array([number, -number])), [number, -number]
    ):
        raise ValueError(
            "All workers must evaluate the same model with the same attacks "
            "on the same examples: start them with the same command."
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
    """Returns the pixel bounds of all attacks; [0, 1] without attacks."""
    bounds = {attack.threat_model.bounds for attack in attacks}
    if len(bounds) > 1:
        raise ValueError(
            "Argument `attacks` must hold attacks with the same pixel bounds. "
            f"Received: {sorted(bounds)}"
        )
    return bounds.pop() if bounds else (0.0, 1.0)
