"""Loads an exported file in order to attack the file itself.

    model = artifact.load("model_int8.tflite", source, like=test)
    logits = model(images, training=False)       # logits of the file

Integer arithmetic has no gradient, and TensorFlow cannot differentiate other
runtimes. So a file is attacked by queries, and with adversarial images of its
float source.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import checks, data
from adt_tf.serving import bundle, loading, runtimes
from adt_tf.serving.runtimes.types import LoadedFile


def load(
    path: str | os.PathLike,
    source: Any,
    *,
    like: data.ImageData | None = None,
) -> Any:
    """Loads a file of another runtime, or a SavedModel, for an attack.

    Args:
        path: A .tflite, .onnx or (OpenVINO) .xml file, or the directory of a
            SavedModel or of its versions.
        source: Classifier from which the file was converted.
        like: Examples whose shape and number of classes the file must have,
            or None to accept any.
    """
    path = pathlib.Path(path)
    directory = path if (path / "saved_model.pb").is_file() else None
    directory = directory or bundle.newest(path)
    if directory is not None:
        return _check(loading.load(directory), path, like)
    if path.suffix not in runtimes.SUFFIXES:
        raise ValueError(
            f"An artefact must be a SavedModel, or a file that ends in one of "
            f"{', '.join(runtimes.SUFFIXES)}. Received: {path}; a Keras model "
            "or weights are measured with --model."
        )
    model = Artifact(runtimes.load(path), source, name=path.name)
    return _check(model, path, like)


def _check(model: Any, path: pathlib.Path, like: data.ImageData | None) -> Any:
    """Returns the model, or raises if it does not fit the examples."""
    if like is None:
        return model
    shape = tuple(model.input_shape[1:])
    if shape != like.input_shape:
        raise ValueError(
            f"{path} must take images of shape {like.input_shape}, the shape "
            f"of {like.name}. It takes: {shape}"
        )
    number = model(tf.zeros([1, *shape]), training=False).shape[-1]
    if number != like.num_classes:
        raise ValueError(
            f"{path} must give {like.num_classes} logits, one for each class "
            f"of {like.name}. It gives: {number}"
        )
    return model


class Artifact:
    """The logits of a file, with the gradient of its float source.

        forward:   z(x)  of the file
        backward:  dz/dx of the source

    So a gradient attack on the file is BPDA (Athalye et al., 2018), and lint
    checks the gradients that the attack uses.

    Args:
        run: Function from images to logits, from `runtimes.load`.
        source: Classifier from which the file was converted.
        name: Name of the file in reports.
    """

    def __init__(
        self,
        run: LoadedFile,
        source: Any,
        *,
        name: str = "artefact",
    ) -> None:
        self.source = source
        self.name = name
        self.input_shape = (None, *run.image_shape)
        self.num_classes = run.num_classes
        self._run = run

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the logits; a file has an inference mode only."""
        loading.refuse_training(training, "an artefact")
        x = tf.cast(x, tf.float32)
        return self._with_gradient(x)

    def _with_gradient(self, x: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def logits(x: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
            z = tf.numpy_function(self._run, [x], tf.float32)
            z = tf.ensure_shape(z, [x.shape[0], self.num_classes])

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    source = self.source(x, training=False)
                    source = checks.as_logits(source, self.source)
                return tape.gradient(source, x, output_gradients=upstream)

            return z, gradient

        return logits(x)
