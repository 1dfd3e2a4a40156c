"""How likely samples of a distribution fool a classifier, image by image.

    report = evaluate_probabilistic(classifier, test, 8 / 255)
    report = evaluate_probabilistic(
        classifier, test, from_noise_to_worst(8 / 255), [pgd(8 / 255)])
    report.share("uniform", 0.01)

The distributions lead from random noise to the worst case: uniform noise in the
ball, then those that ADT-EXP finds, the worse, the less their entropy counts;
attacks are the worst case. Any attack that can be sampled is a distribution.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from adt_tf import checks, configs, data, objectives, seeds, threat_models
from adt_tf.attacks import Attack, exp, uniform
from adt_tf.attacks.base import use_xla
from adt_tf.checks import arguments
from adt_tf.evaluation.batches import batches
from adt_tf.evaluation.failure_counts import BLOCK, FailureCounts
from adt_tf.evaluation.measurement import Settings, evaluated
from adt_tf.evaluation.outcome import NATURAL, Report
from adt_tf.evaluation.probabilistic_report import (
    THRESHOLDS,
    ProbabilisticReport,
    is_decided,
    looks,
)
from adt_tf.evaluation.state import fingerprint, probe
from adt_tf.evaluation.verdicts import NOT_RUN, RIGHT, WRONG
from adt_tf.threat_models import ThreatModel

#: Weights of the entropy, from mild to the worst.
ENTROPY_WEIGHTS = (10.0, 1.0, 0.1, 0.01)
# Images that the classifier sees at once.
_IMAGES_AT_ONCE = 2048


def from_noise_to_worst(
    epsilon: float | ThreatModel,
    entropy_weights: Sequence[float] = ENTROPY_WEIGHTS,
) -> list[Attack]:
    """Returns uniform noise, and what ADT-EXP finds at each entropy weight.

    Args:
        epsilon: The radius of the ball, or a threat model.
        entropy_weights: Weights of the entropy, lambda: the lower, the worse
            are the samples.
    """
    learned = []
    for weight in entropy_weights:
        attack = exp(epsilon, entropy_weight=weight)
        attack.name = f"{attack.name} at {weight:g}"
        learned.append(attack)
    return [uniform(epsilon), *learned]


def evaluate_probabilistic(
    classifier: Any,
    dataset: Any,
    distributions: float | ThreatModel | Sequence[Attack],
    attacks: Sequence[Attack] = (),
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    max_samples: int = 8192,
    confidence: float = 0.99,
    batch_size: int = 128,
    seed: int = 0,
    directory: str | pathlib.Path | None = None,
    verbose: bool = True,
    **settings: Any,
) -> ProbabilisticReport:
    """Measures the probability that samples fool a classifier.

    For each distribution, each example that is right when clean is sampled
    until it is decided, at every threshold, whether it fails more often than
    that: after 32, 128, 512, ... samples, at most `max_samples`. Then the
    attacks run, each on all examples. An example that a sample or an attack
    fools has fallen in A_rob. The result does not depend on `batch_size`.

    Args:
        classifier: As in `evaluate`.
        dataset: As in `evaluate`.
        distributions: Attacks that are sampled, or a radius or threat model
            for those that `from_noise_to_worst` gives.
        attacks: Attacks of the worst case.
        thresholds: Failure probabilities rho.
        max_samples: Number of samples after which an image is left undecided,
            a multiple of 32.
        confidence: Confidence of the bounds of each example.
        batch_size: Number of images at once.
        seed: Seed of the noise.
        directory: Directory in which an interrupted evaluation leaves what it
            knows, and the same call goes on from; None for nowhere.
        verbose: Whether to show progress.
        **settings: Further arguments of `evaluate`.
    """
    settings = Settings(
        batch_size=batch_size,
        seed=seed,
        directory=directory,
        verbose=verbose,
        **settings,
    )
    with evaluated_probabilistic(
        classifier,
        dataset,
        distributions,
        attacks,
        settings,
        thresholds=thresholds,
        max_samples=max_samples,
        confidence=confidence,
    ) as report:
        return report


@contextlib.contextmanager
def evaluated_probabilistic(
    classifier: Any,
    dataset: Any,
    distributions: float | ThreatModel | Sequence[Attack],
    attacks: Sequence[Attack],
    settings: Settings,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    max_samples: int = 8192,
    confidence: float = 0.99,
) -> Iterator[ProbabilisticReport]:
    """Measures, and keeps the state until the block has ended without error.

    Args:
        classifier: Classifier, as in `evaluate`.
        dataset: Examples, as in `evaluate`.
        distributions: Attacks that are sampled, as in
            `evaluate_probabilistic`.
        attacks: Attacks of the worst case.
        settings: How the evaluation is run; attacks are always independent.
        thresholds: Failure probabilities rho.
        max_samples: Number of samples after which an image is left undecided.
        confidence: Confidence of the bounds of each example.

    Yields:
        The report.
    """
    checks.check_classifier(classifier)
    sources = _checked(distributions, attacks)
    thresholds = tuple(
        arguments.number_between(0, 1, "()", thresholds=rho)
        for rho in thresholds
    )
    arguments.number_between(0, 1, "()", confidence=confidence)
    arguments.integer_at_least(1, batch_size=settings.batch_size)
    arguments.integer_at_least(BLOCK, max_samples=max_samples)
    if max_samples % BLOCK:
        raise arguments.error(
            f"be a multiple of {BLOCK}", max_samples=max_samples
        )
    bounds = sources[0].threat_model.bounds
    images, labels = data.as_examples(dataset, bounds=bounds)
    checks.check_answer(classifier, images[:1])
    counter = _Counter(
        classifier,
        images,
        labels,
        seed=settings.seed,
        batch_size=settings.batch_size,
        verbose=settings.verbose,
        decided=lambda failures, samples: is_decided(
            failures,
            samples,
            thresholds,
            max_samples=max_samples,
            confidence=confidence,
        ),
        looks=looks(max_samples),
    )
    right = counter.natural()
    identities = [configs.fingerprint(source) for source in sources]
    rules = (thresholds, max_samples, confidence)
    models = [classifier, *(m for s in sources for m in s.models)]
    counts = FailureCounts(
        len(sources),
        right,
        max_samples=max_samples,
        directory=settings.directory,
        key=fingerprint(
            models, images, labels, (identities, settings.seed, rules)
        ),
        probe=probe([classifier], images),
    )
    if counts.resumed and settings.verbose:
        print("Going on with samples that were interrupted.")
    for row, source in enumerate(sources):
        counter.count(source, counts, row, right)

    settings = dataclasses.replace(settings, independent=True)
    with evaluated(classifier, dataset, list(attacks), settings) as report:
        yield ProbabilisticReport(
            _with_samples(report, sources, counts),
            {s.name: counts.failures[i] for i, s in enumerate(sources)},
            {s.name: counts.samples[i] for i, s in enumerate(sources)},
            thresholds,
            max_samples,
            confidence,
        )
    counts.remove()


def _checked(distributions, attacks) -> list[Attack]:
    """The attacks to sample, or raises `ValueError`."""
    sources = distributions
    if isinstance(distributions, int | float | ThreatModel):
        sources = from_noise_to_worst(threat_models.get(distributions))
    sources = [sources] if isinstance(sources, Attack) else list(sources)
    if not sources or not all(isinstance(s, Attack) for s in sources):
        raise arguments.error(
            "be a radius, a threat model, or attacks such as "
            "`adt_tf.attacks.uniform(8 / 255)`",
            distributions=distributions,
        )
    names = [attack.name for attack in (*sources, *attacks)]
    if len(set(names)) < len(names):
        raise arguments.error(
            "have names that differ from each other's and from the attacks'",
            "Set `attack.name` to tell them apart.",
            distributions=names,
        )
    return sources


def _with_samples(
    report: Report, sources: Sequence[Attack], counts: FailureCounts
) -> Report:
    """Adds the verdicts of the samples: fallen where any sample fools."""
    outcomes, seconds = {}, {}
    for row, source in enumerate(sources):
        failed, seen = counts.failures[row], counts.samples[row]
        verdicts = np.where(failed > 0, WRONG, RIGHT)
        is_run = (seen > 0) & (report.outcomes[NATURAL] == RIGHT)
        verdicts = np.where(is_run, verdicts, NOT_RUN).astype(np.int8)
        outcomes[source.name] = verdicts
        seconds[source.name] = float(counts.seconds[row])
    natural = {NATURAL: report.outcomes[NATURAL]}
    described = {source.name: repr(source) for source in sources}
    return dataclasses.replace(
        report,
        outcomes={**natural, **outcomes, **report.outcomes},
        attacks={**described, **report.attacks},
        seconds={**report.seconds, **seconds},
    )


class _Counter:
    """Draws samples of images until they are decided."""

    def __init__(
        self,
        classifier,
        images,
        labels,
        *,
        seed,
        batch_size,
        verbose,
        decided,
        looks,
    ):
        self.classifier = classifier
        self.images, self.labels = images, labels
        self.seed = seeds.make(seed)
        self.batch_size = min(batch_size, max(1, _IMAGES_AT_ONCE // BLOCK))
        self.verbose = verbose
        self.decided = decided
        self.looks = looks

    def natural(self) -> np.ndarray:
        """Returns which clean images are classified correctly."""
        right = np.zeros(len(self.labels), bool)
        predict = tf.function(
            lambda x: objectives.logits_of(self.classifier, x[:, tf.newaxis])
        )
        for rows, size in batches(np.arange(len(right)), self.batch_size):
            x, _ = self._padded(rows, size)
            logits = predict(x).numpy()[: len(rows), 0]
            right[rows] = logits.argmax(-1) == self.labels[rows]
        return right

    def count(
        self,
        attack: Attack,
        counts: FailureCounts,
        row: int,
        right: np.ndarray,
    ) -> None:
        """Samples all images that are right when clean."""
        draw = self._draw_function(attack)
        solve = attack.function(self.classifier, "solve", use_xla("auto"))
        failures, samples = counts.failures[row], counts.samples[row]
        finished = ~right | (samples == self.looks[-1])
        at_a_look = np.isin(samples, self.looks)
        finished |= at_a_look & self.decided(failures, samples)
        since = time.monotonic()
        with self._bar(attack.name, int(np.sum(~finished))) as bar:
            while not finished.all():
                waiting = np.flatnonzero(~finished)
                # A resumed batch goes on together from where it was.
                alike = waiting[samples[waiting] == samples[waiting[0]]]
                rows, size = next(batches(alike, self.batch_size))
                x, y = self._padded(rows, size)
                solution = solve(x, y, self.seed, tf.constant(0))
                while len(rows):
                    block = int(samples[rows[0]]) // BLOCK
                    key = seeds.fold(seeds.fold(self.seed, 2), block)
                    x_adv, fooled, finite = draw(x, y, solution, key)
                    attack.threat_model.check(x[:, tf.newaxis], x_adv)
                    if not finite:
                        raise ValueError(
                            "The classifier returned NaN or infinite logits "
                            f"for samples of {attack.name}: it overflows, or "
                            "divides by 0, within epsilon of an image."
                        )
                    failures[rows] += fooled.numpy()[: len(rows)]
                    samples[rows] += BLOCK
                    now = time.monotonic()
                    counts.seconds[row] += now - since
                    since = now
                    counts.save()
                    if samples[rows[0]] not in self.looks:
                        continue
                    done = self.decided(failures[rows], samples[rows])
                    done |= samples[rows] == self.looks[-1]
                    finished[rows[done]] = True
                    bar.update(int(done.sum()))
                    solution, x, y, rows = self._kept(
                        solution, rows, np.flatnonzero(~done)
                    )
        counts.save(now=True)

    def _kept(self, solution, rows, kept):
        """What is left of a batch: its solution, images, labels and rows."""
        if not len(kept):
            return solution, None, None, rows[kept]
        _, size = next(batches(kept, self.batch_size))
        index = kept[np.minimum(np.arange(size), len(kept) - 1)]
        solution = tf.nest.map_structure(
            lambda t: tf.gather(t, index), solution
        )
        rows = rows[kept]
        return solution, *self._padded(rows, size), rows

    def _draw_function(self, attack: Attack) -> Any:
        """Traces what draws one block and counts what fools."""

        def draw(x, y, solution, seed):
            x_adv = attack.sample(
                x, solution, num_samples=BLOCK, seed=seed
            ).x_adv
            logits = objectives.logits_of(self.classifier, x_adv)
            seen = tf.argmax(logits, axis=-1, output_type=y.dtype)
            fooled = tf.cast(seen != y[:, tf.newaxis], tf.int32)
            finite = tf.reduce_all(tf.math.is_finite(logits))
            return x_adv, tf.reduce_sum(fooled, axis=1), finite

        return tf.function(draw, autograph=False)

    def _padded(self, rows: np.ndarray, size: int):
        """Repeats the last example up to a full batch: few shapes."""
        index = rows[np.minimum(np.arange(size), len(rows) - 1)]
        return tf.constant(self.images[index]), tf.constant(self.labels[index])

    def _bar(self, name: str, total: int) -> tqdm.tqdm:
        return tqdm.tqdm(
            total=total,
            desc=f"{name:<14}",
            unit="image",
            disable=not self.verbose,
            bar_format="{desc} {bar:24} {n:.0f}/{total:.0f} [{elapsed}]",
        )
