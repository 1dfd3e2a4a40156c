"""The export of a run's classifier: what adt-export does."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

from adt_tf import data
from adt_tf.runs import inputs
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir
from adt_tf.serving import saved_model

# How many test images a SavedModel is compared on.
_IMAGES = 64


def export(
    workdir: str | os.PathLike,
    config: Config,
    *,
    output: str | os.PathLike | None = None,
) -> None:
    """Exports the classifier of a workdir, and loads it back elsewhere.

    Args:
        workdir: Directory of a finished run.
        config: Its configuration.
        output: Directory of the SavedModel; by default the workdir's own.
    """
    workdir = Workdir(workdir)
    classifier = workdir.load_classifier()
    path = pathlib.Path(output or workdir.saved_model)
    images, _ = data.as_arrays(inputs.load_data(config, "test"))
    images = images[:_IMAGES]
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
