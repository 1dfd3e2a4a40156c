"""Batches of images on disk, read ahead by Grain.

    images = in_order(disk_images, batch_size=64)
    images = by_step(disk_images, plan, batch_size=64, start_step=1000)

Both are tf.data.Datasets of images [batch, H, W, C]. Grain reads images in
several threads and returns them in order. Images are numbered from the first
step on, so that a resumed run starts at the right one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from adt_tf.data.disk_images import DiskImages, num_cores

# More images than a run can read.
_ENDLESS = 1 << 62
# Number of batches that Grain reads ahead.
_AHEAD = 2

Plan = Callable[[int], tuple[np.ndarray, np.ndarray | None]]


def by_step(
    images: DiskImages, plan: Plan, *, batch_size: int, start_step: int
) -> tf.data.Dataset:
    """Returns an infinite data set with a batch of images for each step.

    Args:
        images: Images on disk.
        plan: Function from a step to the indices [batch] of its images and the
            boxes [batch, 4] to cut out of them, or None for whole images.
        batch_size: Number of images in a step.
        start_step: Step of the first batch.
    """
    # Threads read several images of a step and of the next steps at a time.
    plan = functools.lru_cache(maxsize=2 * _AHEAD + 2)(plan)

    def read(number: int) -> np.ndarray:
        step, place = divmod(number, batch_size)
        indices, boxes = plan(step)
        box = None if boxes is None else tuple(boxes[place].tolist())
        return images.read(indices[place], box)

    return _dataset(images, read, start_step * batch_size, _ENDLESS, batch_size)


def in_order(images: DiskImages, batch_size: int) -> tf.data.Dataset:
    """Returns batches of all images in order; the last may be smaller.

    Args:
        images: Images on disk.
        batch_size: Number of images in a batch.
    """
    return _dataset(images, images.read, 0, len(images), batch_size)


def _dataset(
    images: DiskImages,
    read: Callable[[int], np.ndarray],
    start: int,
    stop: int,
    batch_size: int,
) -> tf.data.Dataset:
    """Returns batches of read(start), read(start + 1), ... read(stop - 1)."""
    grain = _import_grain()

    def generate() -> Iterator[np.ndarray]:
        options = grain.ReadOptions(
            num_threads=2 * num_cores(),
            prefetch_buffer_size=_AHEAD * batch_size,
        )
        images = grain.MapDataset.range(start, stop).map(read)
        yield from images.to_iter_dataset(options).batch(batch_size)

    size = batch_size if stop == _ENDLESS else None
    return tf.data.Dataset.from_generator(
        generate,
        output_signature=tf.TensorSpec(
            (size, *images.shape[1:]), images.reader.dtype
        ),
    )


def _import_grain() -> Any:
    """Imports Grain when it is needed, without its warning of missing JAX."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        import grain
    finally:
        logging.set_verbosity(level)
    return grain
