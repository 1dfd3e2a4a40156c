"""Loads Keras' HDF5 files of weights, which have no model.

    load("model.weights.h5", model)

An HDF5 file may refer to other files, or claim arrays far larger than itself.
Both are refused before Keras reads the file.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import h5py
import keras
import numpy as np

from adt_tf.files import first_line
from adt_tf.serving.bridge.reading.budget import Budget

_MAGIC = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: str | pathlib.Path) -> bool:
    """Returns whether a path is a file that begins as HDF5 files do.

    Args:
        path: Any path.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def has_model(path: str | pathlib.Path) -> bool:
    """Returns whether an HDF5 file has a whole Keras model.

    Args:
        path: An HDF5 file.
    """
    try:
        with h5py.File(path, "r") as file:
            return "model_config" in file.attrs
    except Exception:  # a damaged file may raise anything
        return False


def load(path: str | pathlib.Path, model: keras.Model) -> None:
    """Fills a model with the weights of a `.weights.h5` or `.h5` file.

    Args:
        path: File that `model.save_weights` wrote.
        model: Model of the same layers.
    """
    path = pathlib.Path(path)
    try:
        budget = Budget(path.stat().st_size)
        with h5py.File(path, "r") as file:
            for dataset in _datasets(file, ""):
                if dataset.dtype.kind in "fiub":
                    num_bytes = dataset.size * dataset.dtype.itemsize
                    budget.spend(num_bytes, f"the array {dataset.name}")
        model.load_weights(path)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(
            f"Cannot read {path} as weights of {model.name!r}: "
            f"{first_line(error)}"
        ) from error
    not_finite = [
        weight.path
        for weight in model.weights
        if not np.isfinite(keras.ops.convert_to_numpy(weight)).all()
    ]
    if not_finite:
        raise ValueError(
            f"Weights must be finite. Not finite: {', '.join(not_finite)}"
        )


def _datasets(group: h5py.Group, path: str) -> Iterator[h5py.Dataset]:
    if path.count("/") > 32:
        raise ValueError("its groups are nested too deeply")
    for name in group:
        where = f"{path}/{name}"
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{where} is a link to another place")
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _datasets(item, where)
        elif isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise ValueError(f"{where} is stored in another file")
            yield item
