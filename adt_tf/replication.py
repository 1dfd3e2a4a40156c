"""What a step on several devices needs to know of the other replicas.

share, replicas = replication.share_of_batch(x)
total = replication.sum_over_replicas(value)
mean = replication.mean_over_batch(values)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def share_of_batch(x: tf.Tensor) -> tuple[Any, int]:
    """This replica's share of the global batch, and how many replicas."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas == 1:
        return 1.0, 1
    size = tf.cast(tf.shape(x)[0], tf.float32)
    return size / sum_over_replicas(size), replicas


def agree_on_finite(gradients: list[Any]) -> list[Any]:
    """Makes gradients not finite where another replica's are not."""
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
    """Adds up the tensors of all replicas, inside a step."""
    return tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, value
    )


def mean_over_batch(values: tf.Tensor) -> tf.Tensor:
    """Returns the mean of values over the global batch, of all replicas.

    Outside a step of several replicas that is the tensor's own mean.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tf.reduce_mean(values)
    count = tf.cast(tf.size(values), values.dtype)
    total = tf.stack([tf.reduce_sum(values), count])
    total, count = tf.unstack(sum_over_replicas(total))
    return total / count
