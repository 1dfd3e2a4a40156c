"""The settings that determine the result of an evaluation.

    settings = describe(config, ["pgd-20"], test_examples=1000, classifier=key)
    is_current(values, settings)      # values: contents of evaluation.json

They are plain fields of evaluation.json. The text of the command, the path of
the workdir and the batch size do not change a result, so they are no settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adt_tf.runs.config import Config

#: Attacks with a generator that is trained before the evaluation.
GENERATORS = ("exp-am", "imp-am")


def describe(
    config: Config,
    attack_names: Sequence[str],
    *,
    classifier: str | None,
    test_examples: int | None = None,
    independent: bool = False,
    attack_epochs: int | None = None,
    attack_width_factor: float | None = None,
    source: str | None = None,
    distributions: Sequence[str] | None = None,
    max_samples: int | None = None,
    minutes: float | None = None,
) -> dict[str, Any]:
    """Returns the settings of an evaluation.

    Args:
        config: Configuration of the experiment. Its data set, norm, epsilon
            and seed are used, and for generators the number of training
            examples.
        attack_names: Names that `adt_tf.attacks.get` accepts.
        classifier: Fingerprint of the classifier's file.
        test_examples: Number of test examples; None for all.
        independent: Whether each attack runs on all examples.
        attack_epochs: Number of epochs to train generators; ignored if no
            attack has a generator.
        attack_width_factor: Factor of the number of channels of generators.
        source: Workdir or model that the adversarial images are computed on.
        distributions: Names of the attacks that are sampled, or None.
        max_samples: Largest number of samples of an image; ignored without
            distributions.
        minutes: Minutes after which attacks were cut; None for no limit.

    Example:

    >>> settings = describe(
    ...     Config(), ["PGD-20"], classifier="9f0c", attack_epochs=5
    ... )
    >>> settings["attack_names"], settings["attack_epochs"]
    (['pgd-20'], None)
    """
    names = [name.lower() for name in attack_names]
    sampled = [name.lower() for name in distributions or ()]
    trains = any(name.startswith(GENERATORS) for name in (*names, *sampled))
    more: dict[str, Any] = {}
    if sampled:
        more = {"distributions": sampled, "max_samples": max_samples}
    if minutes is not None:
        more["minutes"] = minutes
    return {
        **more,
        "attack_names": names,
        "attack_epochs": attack_epochs if trains else None,
        "attack_width_factor": attack_width_factor if trains else None,
        "train_examples": config.train_examples if trains else None,
        "test_examples": test_examples,
        "independent": independent,
        "classifier": classifier,
        "source": source,
        "dataset": config.dataset,
        "norm": config.norm,
        "epsilon": config.epsilon,
        "seed": config.seed,
    }


def is_current(values: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Returns whether an evaluation was made with these settings.

    An evaluation that lacks a setting was written by an earlier version and is
    not current. Only the norm may be missing: it was always linf then.
    """
    values = {"norm": "linf", **values}
    return all(
        name in values and values[name] == setting
        for name, setting in settings.items()
    )
