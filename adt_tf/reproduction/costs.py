"""Estimates of time: seconds of a training step and of a gradient.

    book = Book("build/mini", measure=True)
    book.step(config)            # Cost(seconds=0.52, source="run at_pgd")

costs.json in the study's directory keeps the costs of finished runs, and of the
steps that were timed for a plan. An estimate is a number of steps, or of
gradients of one image, times this cost.
"""

from __future__ import annotations

import dataclasses
import gc
import pathlib
import re
import time
from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import attacks
from adt_tf.attacks.recipes import without_forms
from adt_tf.json_files import Each, Maybe, read_json, write_json
from adt_tf.reproduction import stopwatch
from adt_tf.runs import inputs
from adt_tf.runs.config import Config

#: Flags that decide the cost of a step.
_STEP_FLAGS = (
    "network",
    "method",
    "num_steps",
    "num_samples",
    "outer_samples",
    "width_factor",
    "batch_size",
    "beta",
)
# Number of gradients of one image for each attack; n is the number in its name.
_GRADIENTS = {
    "fgsm": lambda n: 1,
    "pgd": lambda n: n or 20,
    "mim": lambda n: n or 20,
    "cw": lambda n: n or 30,
    "fea": lambda n: 50 * (n or 200),
    # A query is one forward pass, about a third of a gradient.
    "spsa": lambda n: 100 * (n or 256) / 3,
    "exp": lambda n: 10 * (n or 20),
    "exp-am": lambda n: 2,
    "imp-am": lambda n: 2,
    "uniform": lambda n: 0,
    # APGD-T and FAB-T have nine targets; Square takes forward passes only.
    "apgd-ce": lambda n: n or 100,
    "apgd-t": lambda n: 9 * (n or 100),
    "fab-t": lambda n: 9 * (n or 100),
    "square": lambda n: (n or 5000) / 3,
}
_TRAIN_SIZES = {
    "cifar10": 50_000,
    "cifar100": 50_000,
    "svhn_cropped": 73_257,
    "digits": 1_297,
}
_COST = {"seconds": float, "source": str}
_SCHEMA = {"steps": Maybe(Each(_COST)), "gradients": Maybe(Each(_COST))}


class Cost(NamedTuple):
    """A number of seconds and the source of this number."""

    seconds: float
    source: str


class Book:
    """The known costs of a study.

    Args:
        output: Directory of the study.
        measure: Whether to measure an unknown cost, by a few steps, when it
            is requested.
    """

    def __init__(
        self, output: str | pathlib.Path, *, measure: bool = False
    ) -> None:
        self._path = pathlib.Path(output) / "costs.json"
        self._measure = measure
        self._values: dict[str, dict[str, Any]] = {"steps": {}, "gradients": {}}
        self._read()

    def _read(self) -> None:
        if self._path.exists():
            self._values |= read_json(self._path, _SCHEMA)

    def step(self, config: Config) -> Cost | None:
        """Returns the cost of a training step, or None if it is unknown."""
        cost = self._values["steps"].get(_step_key(config))
        if cost:
            return Cost(**cost)
        return self._measure_step(config) if self._measure else None

    def gradient(self, config: Config) -> Cost | None:
        """Returns the cost of a gradient of one image, or None if unknown."""
        cost = self._values["gradients"].get(config.network)
        if cost:
            return Cost(**cost)
        return self._measure_gradient(config) if self._measure else None

    def note_step(self, config: Config, seconds: float, source: str) -> None:
        """Records the cost of a step unless a smaller one is known.

        Other work of the machine can only make a step longer.
        """
        key = _step_key(config)
        cost = self._values["steps"].get(key)
        if not cost or seconds < cost["seconds"]:
            self._note("steps", key, seconds, source)

    def _measure_step(self, config: Config) -> Cost:
        """Times a few steps of a run on random images of its size."""
        print(
            f"Timing a step of {config.method} on {config.network}",
            flush=True,
        )
        images = _images_to_time(config)
        smaller = dataclasses.replace(config, batch_size=images)
        times = stopwatch.time_steps({"run": smaller})
        seconds = times["run"].min() * config.batch_size / images
        source = f"measured on {images} random images"
        self.note_step(config, seconds, source)
        return Cost(seconds, source)

    def _measure_gradient(self, config: Config) -> Cost:
        """Times PGD on the run's network for a few steps."""
        images = _images_to_time(config)
        classifier, x, y = stopwatch.classifier_and_batch(config, images)
        attack = attacks.pgd(inputs.threat_model(config), num_steps=5)
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            attack(classifier, x, y).x_adv.numpy()
            seconds.append(time.perf_counter() - start)
        # Two forward passes, a third of a gradient each, classify the images.
        cost = min(seconds[1:]) / images / (5 + 2 / 3)
        source = f"measured on {images} random images"
        self._note("gradients", config.network, cost, source)
        gc.collect()
        return Cost(cost, source)

    def _note(self, kind: str, key: str, seconds: float, source: str) -> None:
        self._read()  # Another process may have added costs.
        self._values[kind][key] = {
            "seconds": round(float(seconds), 6),
            "source": source,
        }
        write_json(self._path, self._values)


def gradients_of(attack: str) -> float:
    """Returns the number of gradients of an image that withstands an attack.

    Example:

    >>> gradients_of("pgd-100"), gradients_of("fea-10"), gradients_of("exp")
    (100, 500, 200)
    """
    match = re.fullmatch(r"([a-z]+(?:-[a-z]+)*)-?(\d*)", attack)
    if match is None:
        raise ValueError(
            "Argument `attack` must be the name of an attack, such as "
            f"'pgd-20'. Received: attack={attack!r}"
        )
    words, number = match.groups()
    name, _ = without_forms(words)
    return _GRADIENTS[name](int(number) if number else None)


def steps_per_epoch(config: Config) -> int:
    """Returns the number of training steps of an epoch."""
    size = config.train_examples
    if size is None:
        size = _TRAIN_SIZES[config.dataset] - config.validation_examples
    return size // config.batch_size


def duration(seconds: float) -> str:
    """Formats a time with a readable unit.

    Example:

    >>> duration(7), duration(200), duration(9000), duration(400000)
    ('7 s', '3.3 min', '2.5 h', '4.6 days')
    """
    for limit, unit, name in (
        (100, 1, "s"),
        (6000, 60, "min"),
        (48 * 3600, 3600, "h"),
    ):
        if seconds < limit:
            digits = 0 if name == "s" else 1
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds / 86400:.1f} days"


def _step_key(config: Config) -> str:
    values = {name: getattr(config, name) for name in _STEP_FLAGS}
    # Weight perturbation adds a pass.
    values["awp_size"] = config.awp_size or None
    return " ".join(
        # The value of beta does not change the cost of TRADES' loss.
        name if name == "beta" else f"{name}={value}"
        for name, value in values.items()
        if value is not None
    )


def _images_to_time(config: Config) -> int:
    """Returns a full batch, or 2 where a full batch would take minutes."""
    if tf.config.list_logical_devices("GPU"):
        return config.batch_size
    wide = re.fullmatch(r"wrn-\d+-(\d+)", config.network)
    return 2 if wide and int(wide[1]) > 4 else config.batch_size
