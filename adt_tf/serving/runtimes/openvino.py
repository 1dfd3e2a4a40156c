"""OpenVINO: Intel's runtime for CPUs."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import openvino

PACKAGE = "OpenVINO"


def convert(
    source: str,
    path: pathlib.Path,
    *,
    precision: str,
    calibration: np.ndarray | None,
) -> None:
    """Writes an .xml file of float32 weights, which lie in a .bin beside it.

    Args:
        source: SavedModel of floats and logits.
        path: File to write.
        precision: "float32".
        calibration: Not used.
    """
    del precision, calibration
    model = openvino.convert_model(source)
    openvino.save_model(model, path, compress_to_fp16=False)


def load(
    path: pathlib.Path,
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[int | None, ...]]:
    """Returns a function from images to logits, and the shape of its images.

    Args:
        path: An .xml file, with a .bin beside it.
    """
    # By default a CPU that has bfloat16 computes in it.
    compiled = openvino.Core().compile_model(
        path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    (taken,) = compiled.inputs
    given = [
        output for output in compiled.outputs if "logits" in output.get_names()
    ]
    (output,) = given or compiled.outputs
    shape = tuple(
        size.get_length() if size.is_static else None
        for size in taken.get_partial_shape()
    )

    def run(images: np.ndarray) -> np.ndarray:
        logits = compiled.create_infer_request().infer([images])[output]
        return np.array(logits, np.float32)

    return run, shape
