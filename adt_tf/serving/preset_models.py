"""Trained classifiers by name: `adt_tf.from_preset`.

    classifier = from_preset("digits_small_cnn_adt_exp")
    presets()["digits_small_cnn_adt_exp"]["epsilon"]     # 0.15
    save_to_preset(classifier, "my_preset")

A preset is a directory in Keras' convention: config.json, the serialised
model, and model.weights.h5. No code in it is run. The presets of the package
also have a card, README.md, and the strongest perturbations of their
evaluation, which `replay` classifies again.
"""

from __future__ import annotations

import inspect
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import keras

from adt_tf import files
from adt_tf.json_files import read_json
from adt_tf.serving import preset_files
from adt_tf.serving.bridge.reading import keras_weights


def presets() -> dict[str, dict[str, Any]]:
    """Returns the metadata of the presets in the package, by name.

    >>> presets()["digits_small_cnn_standard"]["dataset"]
    'digits'
    """
    return {
        name: preset_files.read_metadata(preset_files.SHIPPED / name) or {}
        for name in preset_files.names()
    }


def from_preset(preset: str | os.PathLike) -> keras.Model:
    """Loads a trained classifier from images in [0, 1] to logits.

    Args:
        preset: A name in `presets()`, a directory that `save_to_preset` wrote,
            or `"hf://user/repository"`, which needs the package
            huggingface_hub (`pip install 'adt_tf[hub]'`).

    Example:

    >>> from_preset("digits_small_cnn_adt_exp").output_shape
    (None, 10)
    """
    folder = preset_files.locate(preset)
    path = folder / preset_files.CONFIG
    config = read_json(path, {"class_name": str, "config": object})
    foreign = [name for name in _modules(config) if not _is_keras(name)]
    if foreign:
        raise ValueError(
            f"{path} must name only modules of Keras, because no other code "
            f"is run. Received: {foreign[0]!r:.80}"
        )
    try:
        model = keras.saving.deserialize_keras_object(config, safe_mode=True)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(
            f"Cannot read {path} as a Keras model: {files.first_line(error)}"
        ) from error
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"{path} must be a Keras model. Received: {type(model).__name__}"
        )
    keras_weights.load(folder / preset_files.WEIGHTS, model)
    return model


def save_to_preset(
    model: keras.Model, preset_dir: str | os.PathLike
) -> pathlib.Path:
    """Writes a classifier as a preset, either complete or not at all.

    Args:
        model: A built Keras model that consists of Keras' layers.
        preset_dir: A directory that does not exist yet, or is empty.

    Returns:
        The directory.
    """
    folder = pathlib.Path(preset_dir)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            "Argument `preset_dir` must be a new or an empty directory, so "
            "that nothing is overwritten. Received: "
            f"preset_dir={str(preset_dir)!r}"
        )
    config = _portable(keras.saving.serialize_keras_object(model))
    config.pop("compile_config", None)
    foreign = [name for name in _modules(config) if not _is_keras(name)]
    if foreign:
        raise ValueError(
            "A preset must consist of Keras' layers, so that others can load "
            f"it. Received: a part of {foreign[0]}"
        )
    with files.atomic_write(folder) as partial:
        partial.mkdir()
        text = json.dumps(config, indent=1)
        (partial / preset_files.CONFIG).write_text(text + "\n")
        model.save_weights(partial / preset_files.WEIGHTS)
    return folder


def _portable(config: Any) -> Any:
    """Drops arguments of Keras' classes that have their default value.

    Older versions of Keras lack some of them.
    """
    if isinstance(config, list):
        return [_portable(value) for value in config]
    if not isinstance(config, dict):
        return config
    values = {name: _portable(value) for name, value in config.items()}
    cls = None
    if values.get("module") in ("keras.layers", "keras.initializers"):
        module = getattr(keras, values["module"].removeprefix("keras."))
        cls = getattr(module, values["class_name"], None)
    if cls is not None:
        parameters = inspect.signature(cls).parameters
        values["config"] = {
            name: value
            for name, value in values["config"].items()
            if name not in parameters or parameters[name].default != value
        }
    return values


def _is_keras(module: str) -> bool:
    return module == "keras" or module.startswith("keras.")


def _modules(config: Any) -> Iterator[str]:
    """Yields the modules that a serialised model names, at any depth."""
    if isinstance(config, dict):
        if config.get("module") is not None:
            yield str(config["module"])
        for value in config.values():
            yield from _modules(value)
    elif isinstance(config, list):
        for value in config:
            yield from _modules(value)
