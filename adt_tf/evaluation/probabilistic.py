"""The probability that samples of a distribution fool a classifier.

    report = evaluate_probabilistic(classifier, test, 8 / 255)
    report = evaluate_probabilistic(
        classifier, test, from_noise_to_worst(8 / 255), [pgd(8 / 255)])
    report.share("uniform", 0.01)

The distributions lead from random noise to the worst case: uniform noise in the
ball, then those that ADT-EXP finds with less and less weight on the entropy,
then attacks. Any attack that can be sampled is a distribution.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adt_tf import checks, configs, data, threat_models
from adt_tf.attacks import Attack, exp, uniform
from adt_tf.checks import arguments
from adt_tf.evaluation.failure_counts import BLOCK, FailureCounts
from adt_tf.evaluation.measurement import Settings, evaluated, renew
from adt_tf.evaluation.outcome import NATURAL, Report
from adt_tf.evaluation.probabilistic_report import (
    THRESHOLDS,
    ProbabilisticReport,
    is_decided,
    looks,
)
from adt_tf.evaluation.sampling import Sampler
from adt_tf.evaluation.state import fingerprint, probe
from adt_tf.evaluation.verdicts import NOT_RUN, RIGHT, WRONG
from adt_tf.threat_models import ThreatModel

#: Weights of the entropy, from the mildest to the worst distribution.
ENTROPY_WEIGHTS = (10.0, 1.0, 0.1, 0.01)


def from_noise_to_worst(
    epsilon: float | ThreatModel,
    entropy_weights: Sequence[float] = ENTROPY_WEIGHTS,
) -> list[Attack]:
    """Returns uniform noise, and ADT-EXP's distribution at each entropy weight.

    Args:
        epsilon: Radius of the ball, or a threat model.
        entropy_weights: Weights of the entropy, lambda. A lower one gives
            worse samples.
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
    until the samples decide, for every threshold, whether its failure
    probability is above it. This is checked after 32, 128, 512, ... samples, at
    most `max_samples`. Then the attacks run, each on all examples. An example
    that a sample or an attack fools counts as fallen in A_rob. The result does
    not depend on `batch_size`.

    Args:
        classifier: Classifier, as in `evaluate`.
        dataset: Examples, as in `evaluate`.
        distributions: Attacks that are sampled; a radius or a threat model
            stands for those of `from_noise_to_worst`.
        attacks: Attacks of the worst case.
        thresholds: Failure probabilities rho.
        max_samples: Number of samples after which an image is left undecided,
            a multiple of 32.
        confidence: Confidence of the bounds of each example.
        batch_size: Number of images at once.
        seed: Seed of the noise.
        directory: Directory where an interrupted evaluation keeps its state,
            so that the same call resumes it; None keeps nothing.
        verbose: Whether to show progress.
        **settings: Further arguments of `evaluate`.
    """
    all_settings = Settings(
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
        all_settings,
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
    """Measures, and keeps the state on disk until the block has succeeded.

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
    renew(classifier, sources)
    sampler = Sampler(
        classifier,
        images,
        labels,
        seed=settings.seed,
        batch_size=settings.batch_size,
        verbose=settings.verbose,
        is_decided=lambda failures, samples: is_decided(
            failures,
            samples,
            thresholds,
            max_samples=max_samples,
            confidence=confidence,
        ),
        looks=looks(max_samples),
    )
    right = sampler.natural()
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
        print("Resuming samples of an interrupted evaluation.")
    for row, source in enumerate(sources):
        sampler.count(source, counts, row, right)

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


def _checked(
    distributions: float | ThreatModel | Sequence[Attack],
    attacks: Sequence[Attack],
) -> list[Attack]:
    """Returns the attacks to sample, or raises `ValueError`."""
    sources: list[Attack]
    if isinstance(distributions, int | float | ThreatModel):
        sources = from_noise_to_worst(threat_models.get(distributions))
    elif isinstance(distributions, Attack):
        sources = [distributions]
    else:
        sources = list(distributions)
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
        searches={
            **{source.name: source.search for source in sources},
            **report.searches,
        },
    )
