"""Builds classifiers from keras.applications, from images in [0, 1] to logits.

    classifier = from_application(
        "MobileNetV2", input_shape=(224, 224, 3), num_classes=2,
        weights="imagenet", frozen_layers=100)

The model includes the preprocessing of its training, so that epsilon is in
pixels of [0, 1].
"""

from __future__ import annotations

import inspect
import os
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras

from adt_tf.checks import arguments
from adt_tf.files import first_line


def from_application(
    name: str,
    *,
    input_shape: Sequence[int],
    num_classes: int,
    weights: str | os.PathLike | None = None,
    frozen_layers: int = 0,
    seed: int = 0,
) -> keras.Model:
    """Builds a classifier around a network of keras.applications.

    Args:
        name: A name in keras.applications, such as "MobileNetV2".
        input_shape: Height, width and channels of an image; three channels.
        num_classes: Number of outputs of the new head.
        weights: "imagenet", which Keras downloads once; a file that Keras
            saved of the network without its head (`include_top=False`); or
            None for random weights.
        frozen_layers: Number of layers, starting at the input, whose weights
            are not trained.
        seed: Seed of the random weights.

    Returns:
        A functional model from images in [0, 1] to logits.
    """
    build, preprocess = _find(name)
    arguments.integer_at_least(2, num_classes=num_classes)
    arguments.integer_at_least(0, frozen_layers=frozen_layers)
    keras.utils.set_random_seed(seed)
    is_file = weights is not None and weights != "imagenet"
    try:
        body = build(
            include_top=False,
            weights=None if is_file else weights,
            input_shape=tuple(input_shape),
            pooling="avg",
        )
    except ValueError as error:
        raise arguments.error(
            f"suit {name}: {first_line(error)}", input_shape=input_shape
        ) from error
    except Exception as error:
        if weights != "imagenet":
            raise
        raise ValueError(
            f"The ImageNet weights of {name} are not on this machine and could "
            f"not be downloaded ({first_line(error)}). Pass weights=FILE, a "
            "file of them without the head (include_top=False), or "
            "weights=None for random weights."
        ) from error
    if weights is not None and is_file:
        _load_weights(body, weights, name)
    if frozen_layers > len(body.layers):
        raise arguments.error(
            f"be at most {len(body.layers)}, the number of layers of {name}",
            frozen_layers=frozen_layers,
        )
    for layer in body.layers[:frozen_layers]:
        layer.trainable = False
    inputs = keras.Input(tuple(input_shape))
    pixels = keras.layers.Rescaling(255.0, name="to_pixels")(inputs)
    features = body(preprocess(pixels))
    head = keras.layers.Dense(
        num_classes,
        kernel_initializer=keras.initializers.GlorotUniform(seed),
        name="logits",
    )
    return keras.Model(inputs, head(features), name=name.lower())


def _find(name: str) -> tuple[Callable[..., keras.Model], Callable[[Any], Any]]:
    """Returns the network's function and the preprocessing of its module."""
    builders = {}
    for module in vars(keras.applications).values():
        if isinstance(module, types.ModuleType) and hasattr(
            module, "preprocess_input"
        ):
            for key, function in vars(module).items():
                has_head = inspect.isfunction(function) and (
                    "include_top" in inspect.signature(function).parameters
                )
                if has_head:
                    builders[key] = (function, module.preprocess_input)
    arguments.one_of(
        builders, "See keras.applications for the networks.", name=name
    )
    return builders[name]


def _load_weights(
    body: keras.Model, weights: str | os.PathLike, name: str
) -> None:
    path = os.fspath(weights)
    if not os.path.isfile(os.path.expanduser(path)):
        raise ValueError(
            'Argument `weights` must be "imagenet", None or a file that '
            f"exists. Received: weights={path!r}"
        )
    try:
        with warnings.catch_warnings():
            # Keras only warns about layers that it does not fill.
            warnings.simplefilter("error", UserWarning)
            body.load_weights(os.path.expanduser(path))
    except Exception as error:
        raise ValueError(
            f"{path} must have the weights of {name} without its head "
            "(include_top=False), saved by Keras. It does not: "
            f"{first_line(error)}"
        ) from error
