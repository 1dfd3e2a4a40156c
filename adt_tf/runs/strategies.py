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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.evaluation.sharing import Workers

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


def placed(strategy: tf.distribute.Strategy) -> Any:
    """Returns the block in which a model gets a copy on each local device."""
    if is_multiworker(strategy):
        local = tf.config.list_logical_devices("GPU")
        if len(local) < 2:
            return contextlib.nullcontext()
    return strategy.scope()


class Shared(Workers):
    """The workers and replicas of a strategy, which share an evaluation.

    Each worker attacks its own examples. On its devices, if it has several,
    it attacks each batch in equal parts.

    Args:
        strategy: The strategy.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        if is_multiworker(strategy):
            resolver = strategy.cluster_resolver
            cluster = resolver.cluster_spec()
            numbers = [cluster.num_tasks(job) for job in sorted(cluster.jobs)]
            self.count = sum(numbers)
            # "chief" comes before "worker".
            is_second = resolver.task_type != sorted(cluster.jobs)[0]
            self.index = resolver.task_id + is_second * numbers[0]

    def merged(self, values: np.ndarray) -> np.ndarray:
        """Returns the largest of all workers' values, place by place."""
        if self.count == 1:
            return values
        flat = np.ravel(values).astype(np.int64).tolist()
        rows = np.reshape(_gathered(self.strategy, flat), [-1, len(flat)])
        return rows.max(axis=0).reshape(values.shape)

    def spread(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that gives each local device its part."""
        replicas = self.strategy.num_replicas_in_sync // self.count
        if replicas == 1:
            return function

        def run(x: tf.Tensor, *arguments: Any) -> Any:
            size = x.shape[0]
            if size % replicas:
                return function(x, *arguments)
            values = self.strategy.experimental_distribute_values_from_function(
                lambda context: _part(
                    (x, *arguments),
                    size // replicas,
                    context.replica_id_in_sync_group % replicas,
                )
            )
            results = self.strategy.run(function, args=values)
            return tf.nest.map_structure(
                lambda value: _joined(
                    self.strategy.experimental_local_results(value)
                ),
                results,
            )

        return run


def _part(arguments: Any, length: int, index: int) -> Any:
    """Returns a replica's part of (x, y, seed, part, ...)."""
    x, y, seed, part, *rest = arguments

    def cut(t: tf.Tensor) -> tf.Tensor:
        return t[index * length : (index + 1) * length] if t.shape.rank else t

    x, y, rest = tf.nest.map_structure(cut, (x, y, tuple(rest)))
    return (x, y, seed, part, *rest)


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Joins the results of all replicas.

    A scalar is the number of steps: a replica whose examples are all decided
    has finished, and further steps do not change it.
    """
    if parts[0].shape.rank:
        return tf.concat(parts, axis=0)
    return tf.reduce_min(tf.stack(parts))


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
