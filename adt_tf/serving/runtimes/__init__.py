"""Runtimes other than TensorFlow: ONNX, LiteRT and OpenVINO.

    convert(classifier, folder, ["onnx", "litert-int8"], images=x,
            calibration=train_images)
    run = load("model_int8.tflite")
    logits = run(images)                    # NumPy arrays, floats in [0, 1]

A runtime is a module with two functions: `convert` writes its file from a
SavedModel that returns only logits, and `load` returns a function from images
to logits with the shape of its images. This module checks their results.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks
from adt_tf.files import first_line
from adt_tf.serving import saved_model
from adt_tf.serving.runtimes.types import LoadedFile


class _Format(NamedTuple):
    """A format that `convert` writes.

    Attributes:
        file: Name of the file.
        runtime: Name of the module that writes and runs it.
        precision: Type of the weights, or None if the runtime has only one.
        tolerance: Largest error of a logit, relative to the largest logit,
            or None to compare only the labels.
    """

    file: str
    runtime: str
    precision: str | None = None
    tolerance: float | None = 1e-3


_FORMATS = {
    "onnx": _Format("model.onnx", "onnx"),
    "litert": _Format("model.tflite", "litert", "float32"),
    "litert-float16": _Format(
        "model_float16.tflite", "litert", "float16", 0.05
    ),
    "litert-int8": _Format("model_int8.tflite", "litert", "int8", None),
    "openvino": _Format("model.xml", "openvino"),
}
#: Names of the formats that `convert` writes.
NAMES = tuple(_FORMATS)
_BY_SUFFIX = {".onnx": "onnx", ".tflite": "litert", ".xml": "openvino"}
#: Suffixes of the files that `load` runs.
SUFFIXES = tuple(_BY_SUFFIX)
# If fewer labels agree, the conversion has broken the model.
_MIN_AGREEMENT = 0.5


def check_names(names: Sequence[str]) -> None:
    """Raises if a format does not exist or its package is not installed.

    Args:
        names: Names from `NAMES`.
    """
    for name in names:
        if name not in _FORMATS:
            raise ValueError(
                f"A runtime must be one of {', '.join(NAMES)}. Received: "
                f"{name!r}"
            )
        _module(_FORMATS[name].runtime)


def needs_calibration(names: Sequence[str]) -> bool:
    """Returns whether one of the formats needs images for calibration.

    Args:
        names: Names from `NAMES`.
    """
    return any(_FORMATS[name].precision == "int8" for name in names)


def convert(
    classifier: keras.Model,
    folder: str | os.PathLike,
    names: Sequence[str],
    *,
    images: np.ndarray,
    calibration: np.ndarray | None = None,
) -> dict[str, dict[str, Any]]:
    """Writes a classifier for other runtimes, and compares it with Keras.

    Args:
        classifier: A Keras model from images to logits.
        folder: Directory to write into.
        names: Names from `NAMES`.
        images: Real images, on which the results are compared.
        calibration: Images from which an int8 model takes the range of each
            layer.

    Returns:
        For each name the `file`, the `largest_logit_error` and the
        `label_agreement`, the share of images with the same label as Keras.

    Raises:
        ValueError: The logits differ from Keras' by more than 0.1 % of the
            largest logit in float32 or 5 % in float16, or more than half of
            the labels differ.
    """
    check_names(names)
    if not names:
        return {}
    expected = _logits(classifier, images)
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        source = str(pathlib.Path(temporary) / "logits")
        _write_logits(classifier, source)
        for name in names:
            target = _FORMATS[name]
            path = pathlib.Path(folder) / target.file
            settings: dict[str, Any] = {}
            if target.precision is not None:
                settings["precision"] = target.precision
                settings["calibration"] = calibration
            _module(target.runtime).convert(source, path, **settings)
            results[name] = {
                "file": target.file,
                **_compare(load(path)(images), expected, name),
            }
    return results


def load(path: str | os.PathLike) -> LoadedFile:
    """Returns a function from float images in [0, 1] to logits.

    Args:
        path: An .onnx, .tflite or (OpenVINO) .xml file.
    """
    path = pathlib.Path(path)
    if path.suffix not in _BY_SUFFIX or not path.is_file():
        raise ValueError(
            f"A model of another runtime must be a file that ends in one of "
            f"{', '.join(SUFFIXES)}. Received: {path}"
        )
    module = _module(_BY_SUFFIX[path.suffix])
    try:
        run, shape = module.load(path)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(
            f"Cannot load {path} in {module.PACKAGE}: {first_line(error)}"
        ) from error
    if len(shape) != 4 or shape[0] is not None or None in shape[1:]:
        raise ValueError(
            f"{path} must take images [batch, height, width, channels] in "
            f"batches of any size. It takes: {list(shape)}"
        )
    logits = run(np.zeros([2, *shape[1:]], np.float32))
    if logits.ndim != 2 or len(logits) != 2 or logits.shape[1] < 2:
        raise ValueError(
            f"{path} must give logits [batch, classes]. It gives, for two "
            f"images: {list(logits.shape)}"
        )
    run.image_shape, run.num_classes = tuple(shape[1:]), logits.shape[1]
    return run


def _module(name: str) -> Any:
    """Imports the module of a runtime, which imports its package."""
    try:
        return importlib.import_module(f"adt_tf.serving.runtimes.{name}")
    except ImportError as error:
        raise ValueError(
            f"The runtime {name} is not installed ({error}): pip install "
            f"'adt_tf[{name}]'."
        ) from error


def _write_logits(classifier: keras.Model, path: str) -> None:
    """Writes a SavedModel from floats to logits, for all converters."""

    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        logits = classifier(images, training=False)
        return {"logits": checks.as_logits(logits, classifier)}

    shape = [None, *saved_model.image_shape(classifier)]
    archive = keras.export.ExportArchive()
    archive.track(classifier)
    archive.add_endpoint(
        "serving_default",
        serve,
        input_signature=[tf.TensorSpec(shape, tf.float32, "images")],
    )
    archive.write_out(path, verbose=False)


def _logits(classifier: keras.Model, images: np.ndarray) -> np.ndarray:
    outputs = classifier(images, training=False)
    return checks.as_logits(outputs, classifier).numpy()


def _compare(
    logits: np.ndarray, expected: np.ndarray, name: str
) -> dict[str, float]:
    error = float(np.abs(logits - expected).max())
    agreement = float(np.mean(logits.argmax(-1) == expected.argmax(-1)))
    tolerance = _FORMATS[name].tolerance
    largest = np.inf
    if tolerance is not None:
        largest = tolerance * max(1.0, float(np.abs(expected).max()))
    # A comparison with NaN is false.
    is_close = error <= largest and np.isfinite(error)
    if not is_close or agreement < _MIN_AGREEMENT:
        raise ValueError(
            f"The {name} model gives other logits than Keras, so nothing was "
            f"written: largest error {error:.2g}, same label for "
            f"{100 * agreement:.1f} % of {len(logits)} images. Export without "
            "this runtime."
        )
    return {"largest_logit_error": error, "label_agreement": agreement}
