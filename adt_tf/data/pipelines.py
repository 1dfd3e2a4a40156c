"""Batches for training and evaluation; a batch depends on (seed, step)."""

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

#: Kinds of random crop of `train_pipeline`.
CROPS = ("shift", "resized")
_PADDING = 4
# Smallest area of a random part, relative to the image, and largest ratio of
# width to height, or the inverse, relative to that of the image.
_LEAST_AREA, _LARGEST_RATIO = 0.08, 4 / 3
# Makes the order and the crops independent of other draws from the seed.
_DATA_STREAM = 0x64617461
_BOX_STREAM = 0x626F78


def default_augment(name: str) -> bool:
    """Returns whether the paper augments this data set: only CIFAR.

    >>> default_augment("cifar10"), default_augment("svhn_cropped")
    (True, False)
    """
    return name in ("cifar10", "cifar100")


def steps_per_epoch(data: ImageData, batch_size: int) -> int:
    """Returns the number of full batches in the data set.

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
    """Pads each image with 4 zeros, crops it to its size, and flips it.

    Args:
        images: Images [B, H, W, C] of any type.
        rows: First rows of the crops, int32 [B] in 0 .. 8; 4 is the middle.
        columns: First columns of the crops, int32 [B] in 0 .. 8.
        flips: Whether to swap left and right, bool [B].

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
    """Draws random parts of images, as is usual for large images.

    The area of a part, relative to the image, is uniform in [0.08, 1]. The
    logarithm of its ratio of width to height, relative to the image's, is
    uniform on the logarithms of [3/4, 4/3], or of the smaller interval that the
    area allows. So no draw is rejected.

    Args:
        seed: Seed int32 [2].
        batch_size: Number of boxes.

    Returns:
        Top, left, height and width of each box, float64 [batch_size, 4], as
        fractions of the image's height and width.

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
    """Returns the examples of a step: a slice of the epoch's permutation."""
    num_steps = size // batch_size
    epoch, position = step // num_steps, step % num_steps
    # tf.random.experimental.index_shuffle is this operation with 4 rounds, with
    # which epochs are correlated: with 50,000 examples, two that share a batch
    # of 64 share one again up to 2.3 times as often as by chance. With 8 rounds
    # or more the factor is 1.0.
    return tf.raw_ops.RandomIndexShuffle(
        index=position * batch_size + tf.range(batch_size, dtype=tf.int64),
        seed=tf.concat([stream, [tf.cast(epoch, tf.int32)]], axis=0),
        max_index=tf.constant(size - 1, tf.int64),
        rounds=16,
    )


def batch_indices(
    data: ImageData, *, batch_size: int, seed: int, step: int
) -> np.ndarray:
    """Returns the indices of the examples of a step of `train_pipeline`.

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
    """Returns an infinite data set of shuffled batches.

    A batch depends only on (seed, step), so a run that is resumed with
    `start_step=n` reads the same batches n, n + 1, ... as an uninterrupted run.
    Each epoch (`steps_per_epoch`) has its own order, contains no example twice,
    and drops the incomplete batch.

    Args:
        data: Training set.
        batch_size: Number of examples in a batch; batches have a static shape.
        seed: Seed of the order and the augmentation.
        augment: Whether to crop and flip images at random.
        crop: Kind of crop. "shift" moves an image by up to 4 pixels
            (`crop_and_flip`); "resized" cuts out a random part and resizes it
            (`random_boxes`).
        start_step: Step of the first batch.

    Example:

    >>> from adt_tf.data import load
    >>> digits = load("digits")
    >>> run = iter(train_pipeline(digits, batch_size=32, seed=0))
    >>> first, second = next(run), next(run)
    >>> resumed = train_pipeline(digits, batch_size=32, seed=0, start_step=1)
    >>> bool(tf.reduce_all(next(iter(resumed))[0] == second[0]))
    True
    """
    steps_per_epoch(data, batch_size)  # Checks the batch size.
    arguments.integer_at_least(
        0, "It is the number of batches already read.", start_step=start_step
    )
    arguments.one_of(CROPS, crop=crop)
    takes_parts = augment and crop == "resized"
    is_read_by_step = data.is_streamed or takes_parts
    # The arrays are elements, which are passed by reference. If `batch`
    # captured them, each new iterator would copy them into its graph.
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
    """Returns batches of images that are read, or cropped, for each step."""

    def plan(step: int) -> tuple[np.ndarray, np.ndarray | None]:
        with tf.device("CPU:0"):
            step = tf.constant(step, tf.int64)
            indices = _indices(stream, step, len(data), batch_size).numpy()
            if not takes_parts:
                return indices, None
            seed = seeds.fold(seeds.fold(stream, step), _BOX_STREAM)
            return indices, random_boxes(seed, batch_size).numpy()

    images = data.images
    if not isinstance(images, DiskImages):
        images = DiskImages(ArrayReader(images))
    return streaming.by_step(
        images, plan, batch_size=batch_size, start_step=start_step
    )


def eval_pipeline(data: ImageData, batch_size: int) -> tf.data.Dataset:
    """Returns batches of all examples in order; the last may be smaller.

    >>> from adt_tf.data import load
    >>> digits = load("digits", split="test")
    >>> [len(y) for _, y in eval_pipeline(digits, batch_size=200)]
    [200, 200, 100]
    """
    arguments.integer_at_least(1, batch_size=batch_size)
    with tf.device("CPU:0"):
        if isinstance(data.images, DiskImages):
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
