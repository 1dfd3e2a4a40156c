"""Augmentation beyond crops and flips, functions of (seed, step).

    choice = Augmentation(cutout=8, cutmix=0.5, randaugment=0.3)
    batches = augmented(batches, choice, num_classes=10, seed=0, start_step=n)

`cut_out`, `cut_mix` and `rand_augment` are functions of images and a seed. The
batch of a step does not depend on the steps before it, so a resumed run reads
the same batches as one that was not interrupted.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from adt_tf import seeds
from adt_tf.checks import arguments

# Makes these draws independent of the order and the crops.
_STREAM = 0x61756765
_NUM_OPERATIONS = 2


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Augmentations of a batch, which are applied in this order.

    Args:
        randaugment: Strength of RandAugment, from 0 (none) to 1.
        cutout: Side length in pixels of Cutout's square; 0 for none.
        cutmix: Fraction of the images into which CutMix pastes a box.

    Example:

    >>> bool(Augmentation()), bool(Augmentation(cutout=8))
    (False, True)
    """

    randaugment: float = 0.0
    cutout: int = 0
    cutmix: float = 0.0

    def __post_init__(self) -> None:
        arguments.number_between(0, 1, randaugment=self.randaugment)
        arguments.integer_at_least(0, cutout=self.cutout)
        arguments.number_between(0, 1, cutmix=self.cutmix)

    def __bool__(self) -> bool:
        return bool(self.randaugment or self.cutout or self.cutmix)


def augmented(
    batches: tf.data.Dataset,
    augmentation: Augmentation,
    *,
    num_classes: int,
    seed: int,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Augments the batches of a data set.

    Args:
        batches: Batches of float images in [0, 1] and integer labels, one for
            each step.
        augmentation: Augmentations to apply.
        num_classes: Number of classes. With `cutmix` labels become soft labels
            [batch, num_classes].
        seed: Seed of all draws.
        start_step: Step of the first batch.
    """
    if not augmentation:
        return batches
    operations = None
    if augmentation.randaugment:
        channels = batches.element_spec[0].shape[-1]
        operations = _operations(augmentation.randaugment, channels)
    mixer = keras.layers.CutMix(dtype="float32")
    with tf.device("CPU:0"):
        stream = seeds.fold(seeds.make(seed), _STREAM)

    def change(step, batch):
        images, labels = batch
        key = seeds.fold(stream, step)
        if operations:
            images = rand_augment(images, seeds.fold(key, 0), operations)
        if augmentation.cutout:
            images = cut_out(images, seeds.fold(key, 1), augmentation.cutout)
        if augmentation.cutmix:
            images, labels = cut_mix(
                images,
                tf.one_hot(labels, num_classes),
                seeds.fold(key, 2),
                augmentation.cutmix,
                mixer=mixer,
            )
        return images, labels

    return (
        tf.data.Dataset.zip(tf.data.Dataset.counter(start_step), batches)
        .map(change, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(2)
    )


def cut_out(images: tf.Tensor, seed: tf.Tensor, size: int) -> tf.Tensor:
    """Sets a square of each image to 0; it may extend beyond the image.

    Args:
        images: Float images [batch, height, width, channels].
        seed: Seed int32 [2].
        size: Side length of the square in pixels.

    Reference: DeVries and Taylor, Improved Regularization of Convolutional
    Neural Networks with Cutout, 2017.
    """
    rows, columns = _centers(images, seed)
    inside = _boxes(images, rows, columns, size, size)[0]
    return tf.where(inside, 0.0, images)


def cut_mix(
    images: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    share: float = 1.0,
    *,
    mixer: keras.layers.CutMix | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Pastes a box of another image into some images, and mixes the labels.

    The area of a box relative to the image, before it is cut at the border, is
    uniform in (0, 1). The labels are mixed in proportion to the area.

    Args:
        images: Float images [batch, height, width, channels].
        labels: Soft labels [batch, classes].
        seed: Seed int32 [2].
        share: Probability that an image gets a box.
        mixer: Keras layer that mixes the images; None for a new one.

    Reference: Yun et al., CutMix: Regularization Strategy to Train Strong
    Classifiers with Localizable Features, 2019.
    """
    mixer = mixer or keras.layers.CutMix(dtype="float32")
    size, (height, width) = tf.shape(images)[0], images.shape[1:3]
    draws = tf.random.stateless_uniform([3, size], seeds.fold(seed, 1))
    side = tf.where(draws[0] < share, tf.sqrt(draws[1]), 0.0)
    masks, area = _boxes(
        images,
        *_centers(images, seed),
        tf.cast(tf.round(side * height), tf.int32),
        tf.cast(tf.round(side * width), tf.int32),
    )
    transformation = {
        "permutation_order": tf.argsort(draws[2]),
        "batch_masks": masks,
        "mix_weight": 1.0 - area / (height * width),
    }
    return (
        mixer.transform_images(images, transformation),
        mixer.transform_labels(labels, transformation),
    )


def rand_augment(
    images: tf.Tensor, seed: tf.Tensor, operations: list[Any]
) -> tf.Tensor:
    """Applies two random operations to each image, one after the other.

    Args:
        images: Float images in [0, 1], [batch, height, width, channels].
        seed: Seed int32 [2].
        operations: Keras layers to draw from; the identity is added to them.

    Reference: Cubuk et al., RandAugment: Practical Automated Data
    Augmentation with a Reduced Search Space, 2020.
    """
    for number in range(_NUM_OPERATIONS):
        key = seeds.fold(seed, number)
        choice = tf.random.stateless_uniform(
            [tf.shape(images)[0], 1, 1, 1],
            key,
            0,
            len(operations) + 1,
            tf.int32,
        )
        result = images
        for index, layer in enumerate(operations):
            drawn = layer.get_random_transformation(
                images, training=True, seed=_Seeds(seeds.fold(key, index))
            )
            changed = layer.transform_images(images, drawn, training=True)
            result = tf.where(choice == index, changed, result)
        images = tf.clip_by_value(result, 0.0, 1.0)
        images = tf.ensure_shape(images, result.shape)
    return images


class _Seeds(keras.random.SeedGenerator):
    """A stateless seed generator for Keras layers: seeds depend on a key."""

    def __init__(self, key: tf.Tensor):
        # Keras' own constructor is not called, since it creates a variable.
        self.key = key
        self.count = 0

    def next(self, ordered: bool = True) -> tf.Tensor:
        """Returns a new seed in each call."""
        del ordered
        self.count += 1
        return seeds.fold(self.key, self.count)


def _operations(strength: float, channels: int) -> list[Any]:
    """Returns the Keras layers of RandAugment; colour needs 3 channels."""
    layers, shared = keras.layers, {"dtype": "float32"}
    ranged = {**shared, "value_range": (0.0, 1.0)}
    operations = [
        layers.RandomShear(strength, strength, **shared),
        layers.RandomTranslation(strength, strength, **shared),
        layers.RandomRotation(strength / 4, **shared),
        layers.RandomBrightness(strength, **ranged),
        layers.RandomContrast(strength, **ranged),
        layers.RandomSharpness(strength, **ranged),
        layers.RandomPosterization(max(1, round(8 - 6 * strength)), **ranged),
        layers.Solarization(0.0, strength, **ranged),
        layers.AutoContrast(**ranged),
        layers.Equalization(**ranged),
    ]
    if channels == 3:
        operations.append(layers.RandomColorDegeneration(strength, **ranged))
    return operations


def _centers(images: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    size, (height, width) = tf.shape(images)[0], images.shape[1:3]
    return tuple(
        tf.random.stateless_uniform(
            [size], seeds.fold(seed, 2 + axis), 0, length, tf.int32
        )
        for axis, length in enumerate((height, width))
    )


def _boxes(
    images: tf.Tensor,
    rows: tf.Tensor,
    columns: tf.Tensor,
    height: tf.Tensor | int,
    width: tf.Tensor | int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns masks [batch, H, W, 1] of boxes, and their areas in pixels."""

    def inside(centers, length, total):
        first = centers - length // 2
        places = tf.range(total)
        first = first[:, tf.newaxis]
        last = first + tf.reshape(length, [-1, 1])
        return (places >= first) & (places < last)

    down = inside(rows, height, images.shape[1])
    across = inside(columns, width, images.shape[2])
    masks = down[:, :, tf.newaxis] & across[:, tf.newaxis]
    area = tf.reduce_sum(tf.cast(masks, tf.float32), axis=[1, 2])
    return masks[..., tf.newaxis], area
