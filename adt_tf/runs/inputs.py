"""The data and the model that flags name.

test = load_test_data(config)
classifier = load_classifier("build/run")     # or model.keras, saved_model/
"""

from __future__ import annotations

import os
from typing import Any

from adt_tf import data
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir
from adt_tf.serving import loading


def load_classifier(
    path: str | os.PathLike, *, probabilities: bool = False
) -> Any:
    """Loads the classifier of a workdir, a .keras file or a SavedModel.

    Args:
        path: Workdir, file or directory.
        probabilities: Whether the model gives probabilities, not logits.
    """
    workdir = Workdir(path)
    if workdir.is_run:
        return workdir.load_classifier()
    return loading.load(path, probabilities=probabilities)


def load_data(
    config: Config, split: str, num_examples: int | None = None
) -> data.ImageData:
    """Loads a split of the data set that a configuration names.

    Args:
        config: The experiment's configuration.
        split: "train", "validation" or "test".
        num_examples: Number of examples to take from its start; None for all.
    """
    return data.load(
        config.dataset,
        split=split,
        data_dir=config.data_dir,
        num_examples=num_examples,
        validation_examples=config.validation_examples,
        seed=config.seed,
        download=config.download,
    )


def load_test_data(
    config: Config, num_examples: int | None = None
) -> data.ImageData:
    """Loads the test split, and prints where it is but a part of a file."""
    test = load_data(config, "test", num_examples)
    share = data.test_share(config.dataset)
    if share:
        print(
            f"{config.dataset} has no test split, so {share[0]} of its "
            f"{share[1]} examples are taken for it; saved as x_test and "
            "y_test all of them are."
        )
    return test
