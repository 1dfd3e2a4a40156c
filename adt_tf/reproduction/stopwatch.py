"""Times the training steps of several runs in turns.

seconds = time_steps({"AT-PGD": config, "ADT-EXP": other_config}, rounds=5)
seconds["ADT-EXP"] / seconds["AT-PGD"]     # a ratio for each round

The images are random and have the size of the data set, which is not needed.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from adt_tf import networks
from adt_tf.runs.config import Config
from adt_tf.runs.experiment import Experiment

_SHAPES = {"digits": (8, 8, 1)}
_CLASSES = {"cifar100": 100}


def time_steps(
    configs: Mapping[str, Config], rounds: int = 2
) -> dict[str, np.ndarray]:
    """Returns the seconds of a training step [rounds] of each run.

    In a round every run takes one step, so that other work of the machine
    affects all runs alike. A first round, which compiles, is not counted.

    Args:
        configs: Mapping from a name to the configuration of a run.
        rounds: Number of rounds.
    """
    runs = {name: _build(config) for name, config in configs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, (experiment, x, y) in runs.items():
            start = time.perf_counter()
            experiment.trainer.train_on_batch(x, y)
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def classifier_and_batch(
    config: Config, num_images: int
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Returns an untrained classifier with random images and labels."""
    shape, classes = _sizes(config)
    classifier = networks.get(
        config.network, input_shape=shape, num_classes=classes
    )
    return classifier, *_batch(config, num_images)


def _sizes(config: Config) -> tuple[tuple[int, int, int], int]:
    """Returns the shape of a data set's images and the number of classes."""
    name = config.dataset
    return _SHAPES.get(name, (32, 32, 3)), _CLASSES.get(name, 10)


def _batch(config: Config, num_images: int) -> tuple[np.ndarray, np.ndarray]:
    shape, classes = _sizes(config)
    x = np.random.default_rng(0).uniform(size=(num_images, *shape))
    y = np.arange(num_images) % classes
    return x.astype("float32"), y.astype("int32")


def _build(config: Config) -> tuple[Experiment, np.ndarray, np.ndarray]:
    shape, classes = _sizes(config)
    count = 2 * max(config.batch_size, classes)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "random.npz"
        np.savez(
            file,
            images=np.zeros((count, *shape), "uint8"),
            labels=np.arange(count) % classes,
        )
        experiment = Experiment.from_config(
            dataclasses.replace(
                config,
                dataset=str(file),
                augment=False,
                train_examples=None,
                validation_examples=0,
                keep_best=False,
            )
        )
    return experiment, *_batch(config, config.batch_size)
