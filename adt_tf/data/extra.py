"""Extra training data, such as images of a generative model.

    extra = load_extra("cifar10_ddpm.npz", like=train)
    batches = mixed_pipeline(train, extra, fraction=0.7, batch_size=128, seed=0)

The public files have the arrays `image` and `label`.
"""

from __future__ import annotations

import os

import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.data import named_arrays
from adt_tf.data.images import ImageData, validate_labels
from adt_tf.data.pipelines import train_pipeline

# Makes the order of the extra data independent of that of the data.
_STREAM = 0x65787472


def load_extra(path: str | os.PathLike, like: ImageData) -> ImageData:
    """Reads extra training data from an .npz file.

    Args:
        path: File with the arrays `image`, uint8 [N, H, W, C], and `label`,
            integers [N].
        like: Training set with the same image shape and classes.
    """
    path = os.path.expanduser(path)
    with named_arrays.opened(path) as arrays:
        if not {"image", "label"} <= set(arrays):
            raise ValueError(
                "extra data must have the arrays image and label, but has "
                + (", ".join(arrays) or "none")
            )
        images, labels = arrays["image"], arrays["label"]
    if images.shape[1:] != like.input_shape:
        raise ValueError(
            f"The images of {path!r} must have the shape {like.input_shape} of "
            f"the images of {like.name}. Received: {images.shape[1:]}"
        )
    labels = validate_labels(
        labels, num_classes=like.num_classes, num_examples=len(images)
    )
    name = os.path.basename(path).removesuffix(".npz")
    return ImageData(images, labels, like.num_classes, name, like.class_names)


def split_batch(
    batch_size: int, fraction: float, num_extra: int | None = None
) -> tuple[int, int]:
    """Returns the numbers of training and of extra examples in a batch.

    Args:
        batch_size: Number of examples in a batch.
        fraction: Fraction of extra examples, rounded to whole examples.
        num_extra: Number of all extra examples; None if it is unknown.

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
            f"need at most {num_extra} extra examples in a batch, which is "
            "their total number",
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
    """Returns an infinite data set of batches with both kinds of data.

    A batch is a function of (seed, step). Each kind of data has its own order,
    as in `train_pipeline`.

    Args:
        data: Training set.
        extra: Extra training data.
        fraction: Fraction of each batch that is extra data.
        batch_size: Number of examples in a batch.
        seed: Seed of the order and the augmentation.
        augment: Whether to crop and flip images at random.
        crop: Kind of random crop, as in `train_pipeline`.
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
