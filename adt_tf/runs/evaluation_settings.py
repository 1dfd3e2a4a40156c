"""What decides the verdicts of an evaluation, as plain fields of its JSON.

    settings = describe(config, ["pgd-20"], test_examples=1000, classifier=key)
    is_current(values, settings)      # values: what evaluation.json holds

How a command was spelled, where the workdir lies, and how many images were
attacked at once change no verdict, and so are no settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adt_tf.runs.config import Config

#: Attacks whose generators are trained before they attack.
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
        config: The experiment's; its data set, norm, epsilon and seed count,
            and for generators the number of training examples.
        attack_names: Names as `adt_tf.attacks.get` takes them.
        classifier: The fingerprint of the classifier's file.
        test_examples: Number of test examples; None for all.
        independent: Whether each attack is run on all examples.
        attack_epochs: Number of epochs for which generators are trained; it
            counts only where an attack has a generator.
        attack_width_factor: Factor of the widths of those generators.
        source: The workdir or model that is attacked in place of the one that
            is measured.
        distributions: Names of the distributions that are sampled, if any.
        max_samples: Number of samples of an image; it counts only where there
            are distributions.
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
    more = {}
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
    """Tells whether an evaluation was made with these settings.

    One that lacks a setting was made before settings were kept: it is not
    current, whatever its command says. The norm alone may be missing: there
    was but one.
    """
    values = {"norm": "linf", **values}
    return all(
        name in values and values[name] == setting
        for name, setting in settings.items()
    )
