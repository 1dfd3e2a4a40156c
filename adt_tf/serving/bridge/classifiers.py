"""Loads a classifier from a file of weights or from an ONNX graph.

classifier = load("file.pt", "wrn-28-10")
classifier = load("file.pt")            # recognised by the names in the file
classifier = load("model.onnx")
classifier = load("adv_trained/checkpoint-70000.index")
classifier = load("model.weights.h5", "small_cnn")
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import keras

from adt_tf import networks
from adt_tf.serving.bridge import architectures
from adt_tf.serving.bridge.layouts.base import Normalization
from adt_tf.serving.bridge.onnx_graphs import conversion
from adt_tf.serving.bridge.reading import (
    keras_weights,
    state_dicts,
    tensorflow_checkpoints,
)


def load(
    path: str | pathlib.Path,
    architecture: str | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    num_classes: int | None = None,
    normalization: Normalization | None = None,
    entry: str | None = None,
) -> keras.Model:
    """Loads a classifier from images in [0, 1] to logits.

    Args:
        path: A file that `state_dicts.read` takes, an `.onnx` file, Keras'
            `.h5` file of weights, or a checkpoint of TensorFlow 1.
        architecture: Name of the architecture, or None to recognise it by the
            names in the file; an `.onnx` file needs none.
        input_shape: Shape of an image, or None for the default of the
            architecture.
        num_classes: Number of logits, or None for that of the file. Keras'
            weights alone need it, if it is not the architecture's default.
        normalization: Mean and standard deviation of each channel, or None
            for those in the file or the default of the architecture.
        entry: Name of the entry that holds the state dict, if the file has
            several.
    """
    path = pathlib.Path(path)
    if keras_weights.is_hdf5(path):
        return _from_keras(path, architecture, input_shape, num_classes)
    if path.suffix == ".onnx":
        if architecture is not None or normalization is not None:
            raise ValueError(
                "An .onnx file has its architecture and its normalisation "
                f"inside: pass the path alone. Received: {path} with "
                f"architecture={architecture!r}"
            )
        model = conversion.load(path, input_shape=input_shape)
        _check_classes(path, model, num_classes)
        return model
    index = tensorflow_checkpoints.index_file(path)
    if index is None:
        arrays = state_dicts.read(path, entry=entry)
    else:
        arrays = tensorflow_checkpoints.read(index)
    try:
        model = architectures.build(
            arrays,
            architecture,
            input_shape=input_shape,
            normalization=normalization,
        )
    except ValueError as error:
        raise ValueError(f"Cannot load {path}: {error}") from error
    _check_classes(path, model, num_classes)
    return model


def _check_classes(
    path: pathlib.Path, model: keras.Model, num_classes: int | None
) -> None:
    if num_classes is not None and num_classes != model.output_shape[-1]:
        raise ValueError(
            f"Argument `num_classes` must be the number of logits of {path}, "
            f"{model.output_shape[-1]}, or None. "
            f"Received: num_classes={num_classes!r}"
        )


def _from_keras(
    path: pathlib.Path,
    architecture: str | None,
    input_shape: Sequence[int] | None,
    num_classes: int | None,
) -> keras.Model:
    if architecture is None:
        raise ValueError(
            f"{path} has weights without a model: pass architecture=..., a "
            "name of `adt_tf.networks.get`, or fill a model of your own with "
            "`adt_tf.transplant(path, keras_model)`."
        )
    settings = {"input_shape": input_shape, "num_classes": num_classes}
    settings = {k: v for k, v in settings.items() if v is not None}
    model = networks.get(architecture, **settings)
    keras_weights.load(path, model)
    return model
