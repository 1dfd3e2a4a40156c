"""Extra training data, such as images of a generative model.

    extra = load_extra("cifar10_ddpm.npz", like=train)
    batches = mixed_pipeline(train, extra, fraction=0.7, batch_size=128, seed=0)

The public files have the arrays `image` and `label`.
"""

from __future__ import annotations

import os
import zipfile

import numpy as np
import tensorflow as tf

from adt_tf import array_files
from adt_tf.checks import arguments
from adt_tf.data.images import ImageData, validate_labels
from adt_tf.data.pipelines import train_pipeline
from adt_tf.files import first_line

# Keeps the order of the extra data apart from that of the data.
_STREAM = 0x65787472


def load_extra(path: str | os.PathLike, like: ImageData) -> ImageData:
    """Reads extra training data from an .npz file.

    Args:
        path: File with the arrays `image`, uint8 [N, H, W, C], and `label`,
            integers [N].
        like: Training set whose image shape and classes they must have.
    """
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        raise ValueError(
            "There is no such file: give the path of an .npz file of extra "
            f"data. Received: {path!r}"
        )
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .npz file, which np.savez writes")
        with np.load(path, allow_pickle=False) as arrays:
            if not {"image", "label"} <= set(arrays):
                raise ValueError(
                    "extra data must have the arrays image and label, but has "
                    + (", ".join(arrays) or "none")
                )
            images, labels = arrays["image"], arrays["label"]
    except array_files.DAMAGED as error:
        raise ValueError(
            f"Cannot read {path!r}: {first_line(error)}"
        ) from error
    if images.shape[1:] != like.input_shape:
        raise ValueError(
            f"The images of {path!r} must have the shape {like.input_shape}, "
            f"as those of {like.name} have. Received: {images.shape[1:]}"
        )
    labels = validate_labels(
        labels, num_classes=like.num_classes, num_examples=len(images)
    )
    name = os.path.basename(path).removesuffix(".npz")
    return ImageData(images, labels, like.num_classes, name, like.class_names)


def split_batch(
    batch_size: int, fraction: float, num_extra: int | None = None
) -> tuple[int, int]:
    """Returns how many examples of a batch are data, and how many extra.

    Args:
        batch_size: Examples of a batch.
        fraction: Share of them that is extra; rounded to whole examples.
        num_extra: Number of all extra examples, where known.

    Example:

    >>> split_batch(128, 0.7)
    (38, 90)
    """
    arguments.number_between(0, 1, "()", fraction=fraction)
    extra = round(fraction * batch_size)
    if not 0 < extra < batch_size:
        raise arguments.error(
            f"leave room for both kinds of data in a batch of {batch_size}",
            fraction=fraction,
        )
    if num_extra is not None and extra > num_extra:
        raise arguments.error(
            f"need at most {num_extra} extra examples a batch, all there are",
            fraction=fraction,
        )
    return batch_size - extra, extra


def mixed_pipeline(
    data: ImageData,
    extra: ImageData,
    *,
    fraction: float,
    batch_size: int,
    seed: int,
    augment: bool = False,
    crop: str = "shift",
    start_step: int = 0,
) -> tf.data.Dataset:
    """Endless batches of both kinds of data, functions of (seed, step).

    Each kind has an order of its own, as `train_pipeline` gives it.

    Args:
        data: The training split.
        extra: Extra training data.
        fraction: Share of each batch that is extra.
        batch_size: Examples per batch.
        seed: Seed of the orders and the augmentation.
        augment: Whether images are cropped and flipped at random.
        crop: How they are cropped, as in `train_pipeline`.
        start_step: Step of the first batch.
    """
    sizes = split_batch(batch_size, fraction, len(extra))
    parts = [
        train_pipeline(
            examples,
            batch_size=size,
            seed=part_seed,
            augment=augment,
            crop=crop,
            start_step=start_step,
        )
        for examples, size, part_seed in zip(
            (data, extra), sizes, (seed, seed ^ _STREAM), strict=True
        )
    ]
    return tf.data.Dataset.zip(*parts).map(
        lambda one, other: tuple(
            tf.concat(pair, axis=0) for pair in zip(one, other, strict=True)
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
