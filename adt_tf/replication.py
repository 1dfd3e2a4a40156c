"""Sums and means over the replicas of a training step.

share, replicas = replication.share_of_batch(x)
total = replication.sum_over_replicas(value)
mean = replication.mean_over_batch(values)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def share_of_batch(x: tf.Tensor) -> tuple[Any, int]:
    """Returns this replica's share of the batch, and the number of replicas."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas == 1:
        return 1.0, 1
    size = tf.cast(tf.shape(x)[0], tf.float32)
    return size / sum_over_replicas(size), replicas


def agree_on_finite(gradients: list[Any]) -> list[Any]:
    """Sets gradients to NaN if those of another replica are not finite."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return gradients
    finite = [
        tf.reduce_all(tf.math.is_finite(g)) for g in gradients if g is not None
    ]
    failures = sum_over_replicas(
        tf.cast(~tf.reduce_all(tf.stack(finite)), tf.float32)
    )
    poison = tf.where(failures > 0, float("nan"), 0.0)
    return [g if g is None else g + tf.cast(poison, g.dtype) for g in gradients]


def sum_over_replicas(value: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a tensor over all replicas; call it inside a step."""
    return tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, value
    )


def mean_over_batch(values: tf.Tensor) -> tf.Tensor:
    """Returns the mean of values over the global batch.

    Outside a step of several replicas, it is the mean of the tensor.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tf.reduce_mean(values)
    count = tf.cast(tf.size(values), values.dtype)
    total = tf.stack([tf.reduce_sum(values), count])
    total, count = tf.unstack(sum_over_replicas(total))
    return total / count
