"""LiteRT (TensorFlow Lite), for phones and small devices, also in int8."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from adt_tf import files
from adt_tf.serving.runtimes.types import Run, Shape

PACKAGE = "LiteRT"
# Integer types of a file's input or output.
_INTEGERS = (np.int8, np.uint8, np.int16)


def convert(
    source: str,
    path: pathlib.Path,
    *,
    precision: str,
    calibration: np.ndarray | None,
) -> None:
    """Writes a .tflite file.

    An int8 file computes in integers; its input and output are floats.

    Args:
        source: SavedModel from float images to logits.
        path: File to write.
        precision: "float32", "float16" (weights only) or "int8".
        calibration: Images from which an int8 model takes the range of each
            layer.
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
                "Argument `calibration` must have images for an int8 model. "
                "Received: calibration=None"
            )
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8
        ]
        converter.representative_dataset = lambda: (
            [image[np.newaxis]] for image in calibration
        )
    files.write_bytes(path, converter.convert())


def load(path: pathlib.Path) -> tuple[Run, Shape]:
    """Returns a function from images to logits, and the shape of its images.

    Args:
        path: A .tflite file.
    """
    interpreter = Interpreter(model_content=files.read_bytes(path))
    (image_input,) = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    signature = interpreter.get_signature_list().get("serving_default", {})
    if len(outputs) > 1 and "logits" in signature.get("outputs", ()):
        runner = interpreter.get_signature_runner("serving_default")
        index = runner.get_output_details()["logits"]["index"]
        outputs = [each for each in outputs if each["index"] == index]
    (logits_output,) = outputs
    shape = tuple(
        None if size == -1 else int(size)
        for size in image_input["shape_signature"]
    )
    # An interpreter runs one request at a time.
    lock = threading.Lock()

    def run(images: np.ndarray) -> np.ndarray:
        with lock:
            index = image_input["index"]
            (current,) = interpreter.get_input_details()
            if tuple(current["shape"]) != images.shape:
                interpreter.resize_tensor_input(index, images.shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(index, _quantize(images, image_input))
            interpreter.invoke()
            logits = interpreter.get_tensor(logits_output["index"])
            return _dequantize(logits, logits_output)

    return run, shape


def _quantize(images: np.ndarray, details: dict[str, Any]) -> np.ndarray:
    """Returns images in the type of a file's input."""
    dtype = details["dtype"]
    if dtype not in _INTEGERS:
        return images.astype(dtype)
    scale, zero = details["quantization"]
    limits = np.iinfo(dtype)
    values = np.round(images / (scale or 1.0)) + zero
    return np.clip(values, limits.min, limits.max).astype(dtype)


def _dequantize(values: np.ndarray, details: dict[str, Any]) -> np.ndarray:
    """Returns a file's output as float32."""
    if details["dtype"] not in _INTEGERS:
        return values.astype(np.float32)
    scale, zero = details["quantization"]
    return ((values.astype(np.float32) - zero) * (scale or 1.0)).astype(
        np.float32
    )
