"""LiteRT (TensorFlow Lite): phones and small devices, also in int8."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from adt_tf import files

PACKAGE = "LiteRT"
# The precisions of activations that a file may take or give.
_INTEGERS = (np.int8, np.uint8, np.int16)


def convert(
    source: str,
    path: pathlib.Path,
    *,
    precision: str,
    calibration: np.ndarray | None,
) -> None:
    """Writes a .tflite file.

    An int8 file computes in integers and still takes and gives floats.

    Args:
        source: SavedModel of floats and logits.
        path: File to write.
        precision: "float32", "float16" (weights alone) or "int8".
        calibration: Images that show an int8 model the range of each layer.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(
        source, signature_keys=["serving_default"]
    )
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision == "int8":
        if calibration is None:
            raise ValueError(
                "An int8 model needs images to calibrate it on. Received: "
                "calibration=None"
            )
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8
        ]
        converter.representative_dataset = lambda: (
            [image[np.newaxis]] for image in calibration
        )
    files.write_bytes(path, converter.convert())


def load(
    path: pathlib.Path,
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[int | None, ...]]:
    """Returns a function from images to logits, and the shape of its images.

    Args:
        path: A .tflite file.
    """
    interpreter = Interpreter(model_content=files.read_bytes(path))
    (taken,) = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    named = interpreter.get_signature_list().get("serving_default", {})
    if len(outputs) > 1 and "logits" in named.get("outputs", ()):
        index = interpreter.get_signature_runner("serving_default")
        index = index.get_output_details()["logits"]["index"]
        outputs = [each for each in outputs if each["index"] == index]
    (given,) = outputs
    shape = tuple(
        None if size == -1 else int(size) for size in taken["shape_signature"]
    )
    # An interpreter holds one request.
    lock = threading.Lock()

    def run(images: np.ndarray) -> np.ndarray:
        with lock:
            if (
                tuple(interpreter.get_input_details()[0]["shape"])
                != images.shape
            ):
                interpreter.resize_tensor_input(taken["index"], images.shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(taken["index"], _quantized(images, taken))
            interpreter.invoke()
            return _real(interpreter.get_tensor(given["index"]), given)

    return run, shape


def _quantized(images: np.ndarray, details: dict) -> np.ndarray:
    """Returns images in the type that a file takes."""
    dtype = details["dtype"]
    if dtype not in _INTEGERS:
        return images.astype(dtype)
    scale, zero = details["quantization"]
    limits = np.iinfo(dtype)
    values = np.round(images / (scale or 1.0)) + zero
    return np.clip(values, limits.min, limits.max).astype(dtype)


def _real(values: np.ndarray, details: dict) -> np.ndarray:
    """Returns float32 logits of what a file gives."""
    if details["dtype"] not in _INTEGERS:
        return values.astype(np.float32)
    scale, zero = details["quantization"]
    return ((values.astype(np.float32) - zero) * (scale or 1.0)).astype(
        np.float32
    )
