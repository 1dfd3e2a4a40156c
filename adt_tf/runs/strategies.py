"""Training on several devices or machines, by tf.distribute.

    strategy = strategies.get("multiworker")        # workers of TF_CONFIG
    with strategy.scope():
        trainer = ...                               # build and compile here
    fit_loop.fit(trainer, batches, steps_per_epoch=100, epochs=3)

Each replica solves the inner maximisation for its part of the batch alone. The
replicas share the sum of the weight gradients and, in the outer step, the
statistics of batch normalisation. The noise of an image is a function of
(seed, step, image), so the result equals that of one device with the whole
batch, up to rounding. Feature scattering is an exception: it couples the images
of a batch, here only those of one replica.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf.checks import arguments

STRATEGIES = ("none", "mirrored", "multiworker")
_EXAMPLE = (
    '{"cluster": {"worker": ["host0:12345", "host1:12345"]}, '
    '"task": {"type": "worker", "index": 0}}'
)
# Errors of collective operations when a worker is lost.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


def get(name: str) -> tf.distribute.Strategy:
    """Returns the strategy for a value of --distribute.

    Args:
        name: `"none"`; `"mirrored"` for all GPUs of this machine (or all its
            logical CPU devices); `"multiworker"` for all machines of
            `TF_CONFIG`, which must be called before any TensorFlow op.
    """
    arguments.one_of(STRATEGIES, name=name)
    if name == "none":
        return tf.distribute.get_strategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices(
            "GPU"
        ) or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([d.name for d in devices])
    _check_tf_config(os.environ.get("TF_CONFIG"))
    return tf.distribute.MultiWorkerMirroredStrategy()


def _check_tf_config(text: str | None) -> None:
    advice = f"Set it on each machine with its own index, as in {_EXAMPLE}"
    if not text:
        raise ValueError(
            "Several workers need the environment variable TF_CONFIG, which "
            f"is not set. {advice}"
        )
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        addresses, index = cluster[task["type"]], int(task["index"])
        fits = set(cluster) <= {"chief", "worker"} and (
            0 <= index < len(addresses)
        )
    except (ValueError, KeyError, TypeError):
        fits = False
    if not fits:
        raise ValueError(
            "The environment variable TF_CONFIG must be JSON with the "
            "addresses of the workers and the index of this one. "
            f"{advice} Received: {text}"
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process is the one that writes files."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return True
    if resolver.task_type == "chief":
        return True
    jobs = resolver.cluster_spec().jobs
    return resolver.task_id == 0 and "chief" not in jobs


def is_multiworker(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether several processes train together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def check_divisible(
    strategy: tf.distribute.Strategy, **numbers: int | None
) -> None:
    """Raises if a number of examples is not a multiple of the replicas.

    Args:
        strategy: Strategy of the trainer.
        **numbers: Numbers of examples, by the names of their flags.
    """
    replicas = strategy.num_replicas_in_sync
    for name, number in numbers.items():
        if number and number % replicas:
            raise ValueError(
                f"--{name} counts the examples of all replicas and must be a "
                f"multiple of their number, {replicas}. Received: {number}"
            )


def check_equal(
    strategy: tf.distribute.Strategy, what: str, value: int
) -> None:
    """Raises if the workers differ in a number that must be the same.

    Args:
        strategy: Strategy of the trainer.
        what: Name of the number in the error message.
        value: Number of this worker.
    """
    if not is_multiworker(strategy):
        return
    values = _gathered(strategy, [value])
    if len(set(values)) > 1:
        raise ValueError(
            f"The workers must have the same {what}. Received, one from each "
            f"worker: {values}"
        )


def any_worker(strategy: tf.distribute.Strategy, *flags: bool) -> list[bool]:
    """Returns for each flag whether it is set on any worker."""
    if not is_multiworker(strategy):
        return list(flags)
    rows = np.reshape(_gathered(strategy, list(flags)), [-1, len(flags)])
    return [bool(column.any()) for column in rows.T]


def _gathered(strategy: tf.distribute.Strategy, values: list[int]) -> list[int]:
    """Returns the values of all replicas, one after the other."""
    own = tf.constant(values, tf.int64)
    with lost_workers_told():
        return _gather(strategy)(own).numpy().tolist()


@contextlib.contextmanager
def lost_workers_told() -> Iterator[None]:
    """Re-raises the loss of another worker as an error with advice."""
    try:
        yield
    except _LOST as error:
        raise OSError(
            "Another worker has stopped or cannot be reached, so this one "
            "stops as well. Start all workers again with the same command; "
            "they continue from the last checkpoint."
        ) from error


@functools.cache
def _gather(strategy: tf.distribute.Strategy) -> Any:
    @tf.function
    def gather(own):
        return strategy.gather(strategy.run(tf.identity, (own,)), axis=0)

    return gather


def split(
    strategy: tf.distribute.Strategy, batches: tf.data.Dataset
) -> tf.distribute.DistributedDataset:
    """Returns a distributed data set with a part of each batch per replica.

    Each worker reads all batches and keeps its own part.

    Args:
        strategy: Strategy of the trainer.
        batches: Data set of global batches. The batch size must be a multiple
            of the number of replicas.
    """
    replicas = strategy.num_replicas_in_sync

    def of_worker(context):
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local

        def parts(*batch):
            size = batch[0].shape[0] or tf.shape(batch[0])[0]
            return tf.data.Dataset.from_tensor_slices(
                tuple(
                    tf.reshape(t, [replicas, size // replicas, *t.shape[1:]])[
                        first : first + local
                    ]
                    for t in batch
                )
            )

        return batches.flat_map(parts)

    return strategy.distribute_datasets_from_function(of_worker)
