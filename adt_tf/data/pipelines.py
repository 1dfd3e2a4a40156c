"""Batches for training and evaluation, functions of (seed, step)."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from adt_tf import seeds
from adt_tf.checks import arguments
from adt_tf.data import streaming
from adt_tf.data.array_folders import ArrayReader
from adt_tf.data.disk_images import DiskImages
from adt_tf.data.images import ImageData, scale_images

#: What `train_pipeline` may do to an image, beside mirroring it.
CROPS = ("shift", "resized")
_PADDING = 4
# A random part of an image has at least this share of its area, and its ratio
# of width to height is at most 4/3 that of the image, or the inverse.
_LEAST_AREA, _LARGEST_RATIO = 0.08, 4 / 3
# Keeps the order and the crops apart from all else that is drawn from a seed.
_DATA_STREAM = 0x64617461
_BOX_STREAM = 0x626F78


def default_augment(name: str) -> bool:
    """Says whether the paper augments this data set: CIFAR only.

    >>> default_augment("cifar10"), default_augment("svhn_cropped")
    (True, False)
    """
    return name in ("cifar10", "cifar100")


def steps_per_epoch(data: ImageData, batch_size: int) -> int:
    """Returns how many full batches the data set has.

    >>> from adt_tf.data import load
    >>> steps_per_epoch(load("digits"), 64)
    20
    """
    if not 0 < batch_size <= len(data):
        raise arguments.error(
            f"be in 1 .. {len(data)}, the number of training examples",
            batch_size=batch_size,
        )
    return len(data) // batch_size


def crop_and_flip(
    images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor
) -> tf.Tensor:
    """Pads each image with 4 zeros, cuts its size out again, and mirrors it.

    Args:
        images: [B, H, W, C] of any type.
        rows: int32 [B] in 0 .. 8, where the crop starts; 4 is the middle.
        columns: int32 [B] in 0 .. 8, likewise.
        flips: bool [B], whether to swap left and right.

    Example:

    >>> image = tf.reshape([[1, 2], [3, 4]], [1, 2, 2, 1])
    >>> crop_and_flip(image, [4], [4], [True])[0, ..., 0].numpy().tolist()
    [[2, 1], [4, 3]]
    """
    height, width = images.shape[1:3]
    pad = [_PADDING, _PADDING]
    padded = tf.pad(images, [[0, 0], pad, pad, [0, 0]])
    rows = tf.reshape(rows, [-1, 1]) + tf.range(height)
    across = tf.range(width)
    columns = tf.reshape(columns, [-1, 1]) + tf.where(
        tf.reshape(flips, [-1, 1]), across[::-1], across
    )
    cropped = tf.gather(padded, rows, axis=1, batch_dims=1)
    return tf.gather(cropped, columns, axis=2, batch_dims=1)


def random_boxes(seed: tf.Tensor, batch_size: int) -> tf.Tensor:
    """Draws parts of images, as training on large images usually takes them.

    A part has a share of the area that is uniform in [0.08, 1], and a ratio of
    width to height, relative to the image's, whose logarithm is uniform: in
    [3/4, 4/3], or in what is possible for that area. So no draw is rejected.

    Args:
        seed: int32 [2].
        batch_size: Number of boxes.

    Returns:
        Tops, lefts, heights and widths [batch_size, 4], as shares of the
        image's height and width.

    Example:

    >>> top, left, height, width = random_boxes(seeds.make(0), 1)[0].numpy()
    >>> bool(0 <= top <= 1 - height and 0.08 <= height * width <= 1)
    True
    """
    draws = tf.random.stateless_uniform([4, batch_size], seed, dtype=tf.float64)
    area = _LEAST_AREA + (1 - _LEAST_AREA) * draws[0]
    largest = tf.minimum(math.log(_LARGEST_RATIO), -tf.math.log(area))
    ratio = tf.exp(largest * (2 * draws[1] - 1))
    height, width = tf.sqrt(area / ratio), tf.sqrt(area * ratio)
    sides = [draws[2] * (1 - height), draws[3] * (1 - width), height, width]
    return tf.clip_by_value(tf.stack(sides, axis=1), 0, 1)


def _indices(
    stream: tf.Tensor, step: tf.Tensor, size: int, batch_size: int
) -> tf.Tensor:
    """The examples of a step: a share of a permutation of the epoch's own."""
    num_steps = size // batch_size
    epoch, position = step // num_steps, step % num_steps
    # tf.random.experimental.index_shuffle is this operation with 4 rounds,
    # after which the epochs resemble each other: of 50,000 examples, those
    # that share a batch of 64 do so again up to 2.3 times as often as
    # chance has it. From 8 rounds on it is 1.0.
    return tf.raw_ops.RandomIndexShuffle(
        index=position * batch_size + tf.range(batch_size, dtype=tf.int64),
        seed=tf.concat([stream, [tf.cast(epoch, tf.int32)]], axis=0),
        max_index=tf.constant(size - 1, tf.int64),
        rounds=16,
    )


def batch_indices(
    data: ImageData, *, batch_size: int, seed: int, step: int
) -> np.ndarray:
    """Returns which examples `train_pipeline` reads at a step, from 0 on.

    >>> from adt_tf.data import load
    >>> digits = load("digits")
    >>> indices = batch_indices(digits, batch_size=32, seed=0, step=3)
    >>> batches = train_pipeline(digits, batch_size=32, seed=0, start_step=3)
    >>> np.array_equal(digits.labels[indices], next(iter(batches))[1])
    True
    """
    stream = seeds.fold(seeds.make(seed), _DATA_STREAM)
    step = tf.constant(step, tf.int64)
    return _indices(stream, step, len(data), batch_size).numpy()


def train_pipeline(
    data: ImageData,
    *,
    batch_size: int,
    seed: int,
    augment: bool = False,
    crop: str = "shift",
    start_step: int = 0,
) -> tf.data.Dataset:
    """Endless shuffled batches, each a function of (seed, step) alone.

    So a run resumed with `start_step` = n reads exactly the batches n, n + 1,
    ... that it would have read. Each epoch (`steps_per_epoch`) has an order of
    its own, visits no example twice, and drops the incomplete batch.

    Args:
        data: The training split.
        batch_size: Examples per batch; the shape of the batches is static.
        seed: Decides the order and the augmentation.
        augment: Whether to crop and mirror the images at random.
        crop: "shift" moves an image by up to 4 pixels (`crop_and_flip`);
            "resized" takes a part of it and resizes that (`random_boxes`).
        start_step: The step of the first batch.

    Example:

    >>> from adt_tf.data import load
    >>> digits = load("digits")
    >>> run = iter(train_pipeline(digits, batch_size=32, seed=0))
    >>> first, second = next(run), next(run)
    >>> resumed = train_pipeline(digits, batch_size=32, seed=0, start_step=1)
    >>> bool(tf.reduce_all(next(iter(resumed))[0] == second[0]))
    True
    """
    steps_per_epoch(data, batch_size)  # checks the batch size
    arguments.integer_at_least(
        0, "It is the number of batches already read.", start_step=start_step
    )
    arguments.one_of(CROPS, crop=crop)
    takes_parts = augment and crop == "resized"
    is_read_by_step = data.is_streamed or takes_parts
    # The arrays pass through as elements, by reference. Captured by `batch`
    # instead, they would be written into its graph whenever iteration starts.
    with tf.device("CPU:0"):
        stream = seeds.fold(seeds.make(seed), _DATA_STREAM)
        labels = tf.data.Dataset.from_tensors(data.labels).repeat()
        if is_read_by_step:
            images = _read_by_step(
                data, stream, takes_parts, batch_size, start_step
            )
        else:
            images = tf.data.Dataset.from_tensors(data.images).repeat()

    def batch(
        step: tf.Tensor, images: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        indices = _indices(stream, step, len(data), batch_size)
        x = images if is_read_by_step else tf.gather(images, indices)
        if augment:
            shifts = 2 * _PADDING + 1
            view = tf.random.stateless_uniform(
                [batch_size],
                seeds.fold(stream, step),
                0,
                2 * shifts**2,
                tf.int32,
            )
            rows, columns = view // 2 // shifts, view // 2 % shifts
            if takes_parts:
                rows = columns = tf.fill([batch_size], _PADDING)
            x = crop_and_flip(x, rows, columns, view % 2 == 1)
        return scale_images(x), tf.gather(labels, indices)

    return (
        tf.data.Dataset.zip(tf.data.Dataset.counter(start_step), images, labels)
        .map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(2)
    )


def _read_by_step(
    data: ImageData,
    stream: tf.Tensor,
    takes_parts: bool,
    batch_size: int,
    start_step: int,
) -> tf.data.Dataset:
    """Batches of images, each image read, or cut, when its step comes."""

    def plan(step: int) -> tuple[np.ndarray, np.ndarray | None]:
        with tf.device("CPU:0"):
            step = tf.constant(step, tf.int64)
            indices = _indices(stream, step, len(data), batch_size).numpy()
            if not takes_parts:
                return indices, None
            seed = seeds.fold(seeds.fold(stream, step), _BOX_STREAM)
            return indices, random_boxes(seed, batch_size).numpy()

    images = data.images
    if not data.is_streamed:
        images = DiskImages(ArrayReader(images))
    return streaming.by_step(
        images, plan, batch_size=batch_size, start_step=start_step
    )


def eval_pipeline(data: ImageData, batch_size: int) -> tf.data.Dataset:
    """Every example once, in order; the last batch may be smaller.

    >>> from adt_tf.data import load
    >>> digits = load("digits", split="test")
    >>> [len(y) for _, y in eval_pipeline(digits, batch_size=200)]
    [200, 200, 100]
    """
    arguments.integer_at_least(1, batch_size=batch_size)
    with tf.device("CPU:0"):
        if data.is_streamed:
            labels = tf.data.Dataset.from_tensor_slices(data.labels)
            batches = tf.data.Dataset.zip(
                streaming.in_order(data.images, batch_size),
                labels.batch(batch_size),
            )
        else:
            batches = tf.data.Dataset.from_tensor_slices(
                (data.images, data.labels)
            ).batch(batch_size)
    num_batches = -(-len(data) // batch_size)
    return (
        batches.apply(tf.data.experimental.assert_cardinality(num_batches))
        .map(lambda x, y: (scale_images(x), y))
        .prefetch(2)
    )
