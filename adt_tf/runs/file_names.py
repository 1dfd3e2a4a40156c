"""Names of the files in the directory of a run.

This module does not import TensorFlow, so that commands can use it at once.
"""

from __future__ import annotations

import os
import pathlib

FLAGS = "flags.txt"
PROVENANCE = "provenance.json"
METRICS = "metrics.csv"
TENSORBOARD = "tensorboard"
CHECKPOINTS = "checkpoints"
CLASSIFIER = "classifier.keras"
BEST = "best.keras"
LINT = "lint.json"
SAVED_MODEL = "saved_model"
LOCK = ".lock"


def evaluation(protocol: str | None = None) -> str:
    """Returns the name of the JSON file of an evaluation.

    Args:
        protocol: Name of the protocol, or None.
    """
    return f"evaluation-{protocol}.json" if protocol else "evaluation.json"


def artifact(name: str) -> str:
    """Returns the name of the JSON file of an evaluated artefact.

    Args:
        name: Name of the exported file.
    """
    return f"artifact-{name}.json"


def beside(model: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a result file beside a model.

    Args:
        model: File or directory of the model.
        name: Name of the file in a workdir.
    """
    if model.name in ("", ".."):
        model = pathlib.Path(os.path.abspath(model))
    # The stem is v1.0 for both a SavedModel v1.0/ and a file v1.0.keras.
    stem = model.name if model.is_dir() else model.stem
    return model.with_name(f"{stem}-{name}")
