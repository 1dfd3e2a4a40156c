"""Finds and names the files of a preset.

    folder = locate("digits_small_cnn_adt_exp")    # in the package
    folder = locate("my_preset/")                  # a directory
    folder = locate("hf://user/repository")        # on the Hugging Face Hub
    read_metadata(folder)["epsilon"]

This module does not import TensorFlow, so that a command starts quickly.
"""

from __future__ import annotations

import importlib
import os
import pathlib
from typing import Any

from adt_tf.files import first_line
from adt_tf.json_files import Each, Maybe, read_json

#: Directory of the presets in the package.
SHIPPED = pathlib.Path(__file__).parent / "zoo"

#: The serialised Keras model, and its weights.
CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
#: The evaluation: as text, as numbers, and as perturbations to replay.
CARD = "README.md"
METADATA = "metadata.json"
ADVERSARIAL = "adversarial.npz"

_HUB = "hf://"
_SHARE = {"accuracy": float, "low": float, "high": float}
_METADATA = {
    "description": str,
    "method": Maybe(str),
    "dataset": str,
    "norm": str,
    "epsilon": float,
    "num_examples": int,
    "results": Each(_SHARE),
    "examples_sha256": Maybe(str),
}


def names() -> list[str]:
    """Returns the names of the presets in the package.

    >>> "digits_small_cnn_adt_exp" in names()
    True
    """
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG}"))


def locate(preset: str | os.PathLike) -> pathlib.Path:
    """Returns the directory of a preset, which it may fetch from the Hub.

    Args:
        preset: A name in `names()`, a directory, or `"hf://user/repository"`,
            which needs the package huggingface_hub.
    """
    if str(preset).startswith(_HUB):
        folder = _fetch(str(preset).removeprefix(_HUB))
    elif str(preset) in names():
        folder = SHIPPED / str(preset)
    else:
        folder = pathlib.Path(preset)
    if not (folder / CONFIG).is_file():
        raise ValueError(
            f"Argument `preset` must be one of {', '.join(names())}, a "
            f"directory that `adt_tf.save_to_preset` wrote, or {_HUB}"
            f"user/repository. Received: preset={str(preset)!r}"
        )
    return folder


def read_metadata(folder: pathlib.Path) -> dict[str, Any] | None:
    """Returns the metadata of a preset, or None if it has none.

    Args:
        folder: Directory of the preset.
    """
    path = folder / METADATA
    return read_json(path, _METADATA) if path.is_file() else None


def _fetch(repository: str) -> pathlib.Path:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise ValueError(
            f"To fetch {_HUB}{repository}, install huggingface_hub: "
            "pip install 'adt_tf[hub]'."
        ) from error
    patterns = [CONFIG, WEIGHTS, CARD, METADATA, ADVERSARIAL]
    try:
        folder = hub.snapshot_download(repository, allow_patterns=patterns)
    except Exception as error:  # no network, no such repository, no permission
        raise ValueError(
            f"Cannot fetch {_HUB}{repository}: {first_line(error)}"
        ) from error
    return pathlib.Path(folder)
