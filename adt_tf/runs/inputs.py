"""Loads the data, the threat model and the classifier that flags name.

test = load_test_data(config)
threat_model(config)                          # L2(0.5)
classifier = load_classifier("build/run")     # or model.keras, saved_model/
classifier = load_classifier("weights.pt", "wrn-28-10", like=test)
classifier = start_network(config, train)     # to be trained
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from adt_tf import data, networks, threat_models
from adt_tf.networks import own_functions
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir
from adt_tf.serving import loading
from adt_tf.serving.bridge.reading import keras_weights

# Fewer examples may be in the order of their classes by chance.
_FEWEST_SORTED = 10


def load_classifier(
    path: str | os.PathLike,
    architecture: str | None = None,
    *,
    like: data.ImageData | None = None,
    probabilities: bool = False,
) -> Any:
    """Loads the classifier of a workdir, a SavedModel or any file.

    Args:
        path: Workdir, file or directory.
        architecture: Name of the architecture of weights; None if the names
            of the weights identify it.
        like: Examples with the image shape and classes of the classifier;
            None takes them from the file or the architecture.
        probabilities: Whether the model returns probabilities, not logits.
    """
    workdir = Workdir(path)
    if workdir.is_run:
        return workdir.load_classifier()
    num_classes = None
    if like is not None and keras_weights.is_hdf5(os.fspath(path)):
        # Other files tell it, and may have more classes than the examples.
        num_classes = like.num_classes
    return loading.load(
        path,
        architecture,
        input_shape=None if like is None else like.input_shape,
        num_classes=num_classes,
        probabilities=probabilities,
    )


def start_network(
    config: Config,
    train: data.ImageData,
    build: Callable[..., keras.Model] | None = None,
) -> keras.Model:
    """Returns the initial classifier of a run.

    Args:
        config: Configuration of the run. Its --network is an architecture, a
            file or a function.
        train: Training set.
        build: The function, if --network is one. It is not looked up here,
            since a configuration may come from an untrusted source.
    """
    size: dict[str, Any] = {
        "input_shape": train.input_shape,
        "num_classes": train.num_classes,
    }
    name = config.network_function or config.network_file
    if name is None:
        return networks.get(
            config.network,
            **size,
            seed=config.seed,
            **config.network_arguments(),
        )
    if config.precision != "float32":
        raise ValueError(
            "A network from a file or a function keeps its precision: use "
            f"--precision=float32. Received: --precision={config.precision} "
            f"with --network={name}"
        )
    if config.network_file is not None:
        classifier = load_classifier(name, config.architecture, like=train)
    elif build is not None:
        classifier = own_functions.build(build, **size, seed=config.seed)
    else:
        raise ValueError(
            f"--network={name} is Python code, which runs only if it is named "
            "on the command line of adt-train. From Python pass the function: "
            "`Experiment.from_config(config, build_network=function)`."
        )
    if not isinstance(classifier, keras.Model):
        raise ValueError(
            f"--network={name} is a SavedModel, which cannot be trained. Use "
            "a .keras file or a file of weights."
        )
    shapes = (None, *train.input_shape), (None, train.num_classes)
    if (classifier.input_shape, classifier.output_shape) != shapes:
        raise ValueError(
            f"--network={name} must take images {train.input_shape} and return "
            f"{train.num_classes} logits, as {train.name} requires. Received: "
            f"images {tuple(classifier.input_shape[1:])} and outputs "
            f"{tuple(classifier.output_shape[1:])}"
        )
    return classifier


def threat_model(config: Config) -> threat_models.ThreatModel:
    """Returns the threat model of a configuration."""
    return threat_models.from_norm(config.norm, config.epsilon)


def load_data(
    config: Config, split: str, num_examples: int | None = None
) -> data.ImageData:
    """Loads a split of the data set of a configuration.

    Args:
        config: Configuration of the experiment.
        split: "train", "validation" or "test".
        num_examples: Number of examples, from the start; None for all.
    """
    size = config.image_size
    return data.load(
        config.dataset,
        split=split,
        data_dir=config.data_dir,
        num_examples=num_examples,
        validation_examples=config.validation_examples,
        seed=config.seed,
        download=config.download,
        image_size=(size[0], size[1]) if size else None,
        stream=config.stream,
    )


def load_extra_data(
    config: Config, train: data.ImageData
) -> data.ImageData | None:
    """Loads the extra training data of a configuration, or returns None."""
    if config.extra_data is None or config.extra_fraction is None:
        return None
    share = config.batch_size, config.extra_fraction
    data.split_batch(*share)
    extra = data.load_extra(config.extra_data, like=train)
    data.split_batch(*share, len(extra))
    return extra


def load_test_data(
    config: Config, num_examples: int | None = None
) -> data.ImageData:
    """Loads the test split.

    Prints a note if it is a part of a file, and a warning if it lacks classes
    because the data are sorted by class.
    """
    test = load_data(config, "test", num_examples)
    found = int(test.labels.max()) + 1
    is_sorted = len(np.unique(test.labels)) == found and np.all(
        np.diff(test.labels) >= 0
    )
    if is_sorted and found < test.num_classes and len(test) >= _FEWEST_SORTED:
        print(
            f"warning: The {len(test)} test examples have only {found} of the "
            f"{test.num_classes} classes, since {config.dataset} is sorted by "
            "class. The accuracies say nothing about the other classes: "
            "shuffle the data, or use more --test_examples.",
            file=sys.stderr,
        )
    share = data.test_share(config.dataset)
    if share:
        print(
            f"{config.dataset} has no test split, so {share[0]} of its "
            f"{share[1]} examples are used as test split. To use all of them, "
            "save them as x_test and y_test."
        )
    return test
