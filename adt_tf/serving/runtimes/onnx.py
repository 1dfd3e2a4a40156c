"""ONNX, run by ONNX Runtime: servers without TensorFlow."""

from __future__ import annotations

import pathlib

import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx

from adt_tf import files
from adt_tf.serving.runtimes.types import Run, Shape

PACKAGE = "ONNX Runtime"
# tf2onnx writes all layers in it, and runtimes of the last years read it.
_OPSET = 17


def convert(source: str, path: pathlib.Path) -> None:
    """Writes an .onnx file of float32 weights.

    Args:
        source: SavedModel from float images to logits.
        path: File to write.
    """
    loaded = tf.saved_model.load(source)
    serve = loaded.signatures["serving_default"]
    (spec,) = serve.structured_input_signature[1].values()
    function = tf.function(
        lambda images: serve(images=images), input_signature=[spec]
    )
    model, _ = tf2onnx.convert.from_function(
        function, input_signature=[spec], opset=_OPSET
    )
    files.write_bytes(path, model.SerializeToString())


def load(path: pathlib.Path) -> tuple[Run, Shape]:
    """Returns a function from images to logits, and the shape of its images.

    Args:
        path: An .onnx file.
    """
    session = onnxruntime.InferenceSession(
        files.read_bytes(path, largest=2 << 30),
        providers=["CPUExecutionProvider"],
    )
    (image_input,) = session.get_inputs()
    names = [output.name for output in session.get_outputs()]
    if "logits" in names:
        names = ["logits"]
    (name,) = names
    # A size that is not fixed has a name, or none.
    shape = tuple(
        size if isinstance(size, int) else None for size in image_input.shape
    )

    def run(images: np.ndarray) -> np.ndarray:
        (logits,) = session.run([name], {image_input.name: images})
        return logits.astype(np.float32)

    return run, shape
