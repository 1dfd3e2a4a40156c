"""The export of a classifier: what adt-export does."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import keras
import numpy as np

from adt_tf import data
from adt_tf.serving import saved_model

# How many test images a SavedModel is compared on.
_IMAGES = 64


def export(
    classifier: Any, test: data.ImageData, path: str | os.PathLike
) -> None:
    """Exports a classifier, and loads it back elsewhere.

    Args:
        classifier: A Keras model from images to logits.
        test: Examples, on which the SavedModel must give the same logits.
        path: Directory of the SavedModel.
    """
    path = pathlib.Path(path)
    if not isinstance(classifier, keras.Model):
        raise ValueError(
            "What is exported must be a Keras model. Received: a SavedModel, "
            "which need not be exported again."
        )
    images = data.as_examples(test)[0][:_IMAGES]
    if _is_there(path) or not _write(classifier, path):
        print(f"{path} is there already; it is checked, not written again.")
    logits = np.asarray(classifier(images, training=False))
    error = saved_model.verify(path, images, logits)
    print(
        f"SavedModel in {path}: float, uint8 and PNG/JPEG signatures, loaded "
        f"back in a process without adt_tf, largest logit error {error:.1e}"
    )


def _is_there(path: pathlib.Path) -> bool:
    return path.is_dir() and any(path.iterdir())


def _write(classifier: Any, path: pathlib.Path) -> bool:
    """Whether it was this process that wrote the SavedModel, not another."""
    try:
        saved_model.export(classifier, path)
    except (OSError, ValueError):
        if not _is_there(path):
            raise
        return False
    return True
