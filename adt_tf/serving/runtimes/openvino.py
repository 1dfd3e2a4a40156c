"""OpenVINO: Intel's runtime for CPUs."""

from __future__ import annotations

import pathlib

import numpy as np
import openvino

from adt_tf.serving.runtimes.types import Run, Shape

PACKAGE = "OpenVINO"


def convert(source: str, path: pathlib.Path) -> None:
    """Writes an .xml file, and its float32 weights in a .bin file beside it.

    Args:
        source: SavedModel from float images to logits.
        path: File to write.
    """
    model = openvino.convert_model(source)
    openvino.save_model(model, path, compress_to_fp16=False)


def load(path: pathlib.Path) -> tuple[Run, Shape]:
    """Returns a function from images to logits, and the shape of its images.

    Args:
        path: An .xml file, with a .bin beside it.
    """
    # By default OpenVINO computes in bfloat16 on a CPU that has it.
    compiled = openvino.Core().compile_model(
        path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    (image_input,) = compiled.inputs
    named_logits = [
        output for output in compiled.outputs if "logits" in output.get_names()
    ]
    (output,) = named_logits or compiled.outputs
    shape = tuple(
        size.get_length() if size.is_static else None
        for size in image_input.get_partial_shape()
    )

    def run(images: np.ndarray) -> np.ndarray:
        logits = compiled.create_infer_request().infer([images])[output]
        return np.array(logits, np.float32)

    return run, shape
