"""Reproducible randomness: each draw is a function of (seed, image).

    seed = seeds.make(0)                       # int32 [2]
    step_seed = seeds.fold(seed, step)         # an independent seed
    noise = seeds.per_example(
        lambda s: tf.random.stateless_normal([5, 32, 32, 3], s), x, step_seed)

The noise of an example depends on the seed and on a fingerprint of its pixels,
not on its position in the batch. So the result for an image is the same in any
batch, on any number of devices, and in a run that was interrupted and resumed.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable

import tensorflow as tf


def make(seed: int | tf.Tensor) -> tf.Tensor:
    """Returns a seed int32 [2].

    Args:
        seed: Integer, or a seed int32 [2], which is returned unchanged.
    """
    if isinstance(seed, numbers.Integral):
        seed = int(seed)
        # Both halves are used, so that all 64-bit integers are distinct seeds.
        low, high = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
        return tf.constant(
            [half - (half >> 31 << 32) for half in (low, high)], tf.int32
        )
    seed = tf.convert_to_tensor(seed)
    if seed.shape != (2,):
        raise ValueError(
            "Argument `seed` must be an integer or an int32 tensor of shape "
            f"(2,). Received: seed={seed}"
        )
    return tf.cast(seed, tf.int32)


def fold(seed: tf.Tensor, data: int | tf.Tensor) -> tf.Tensor:
    """Returns an independent seed from a seed and a counter.

    Args:
        seed: Seed int32 [2].
        data: Counter, such as the number of a step.
    """
    return tf.random.experimental.stateless_fold_in(
        seed, tf.cast(data, tf.int32)
    )


def per_example(
    draw: Callable[[tf.Tensor], tf.Tensor],
    x: tf.Tensor,
    seed: tf.Tensor,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Draws for each example of a batch, and stacks the results.

    Args:
        draw: Function from the seed of an example to its draw.
        x: Images, whose fingerprints are mixed into the seeds.
        seed: Seed int32 [2].
        dtype: Type of the draws.
    """
    fingerprints = tf.bitcast(
        tf.reshape(tf.fingerprint(x), [-1, 2, 4]), tf.int32
    )
    return tf.map_fn(
        draw,
        tf.bitwise.bitwise_xor(fingerprints, seed),
        fn_output_signature=dtype,
    )
