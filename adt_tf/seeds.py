"""Reproducible randomness: every draw is a function of (seed, image).

    seed = seeds.make(0)                       # int32 [2]
    step_seed = seeds.fold(seed, step)         # another, independent one
    noise = seeds.per_example(
        lambda s: tf.random.stateless_normal([5, 32, 32, 3], s), x, step_seed)

The noise of an example is keyed by the seed and by a fingerprint of its own
pixels, never by its place in the batch. So the result for one image is the
same in any batch, on any number of devices, and after a resume.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable

import tensorflow as tf


def make(seed: int | tf.Tensor) -> tf.Tensor:
    """Returns an int32 [2] seed from a whole number (or such a seed as is)."""
    if isinstance(seed, numbers.Integral):
        seed = int(seed)
        # Both halves are kept, so that any 64-bit number is a seed of its own.
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
    """Returns an independent seed made from `seed` and a counter."""
    return tf.random.experimental.stateless_fold_in(
        seed, tf.cast(data, tf.int32)
    )


def per_example(
    draw: Callable[[tf.Tensor], tf.Tensor],
    x: tf.Tensor,
    seed: tf.Tensor,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Stacks `draw(seed_i)` over the batch, seed_i from `seed` and image i."""
    fingerprints = tf.bitcast(
        tf.reshape(tf.fingerprint(x), [-1, 2, 4]), tf.int32
    )
    return tf.map_fn(
        draw,
        tf.bitwise.bitwise_xor(fingerprints, seed),
        fn_output_signature=dtype,
    )
