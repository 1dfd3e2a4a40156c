"""Reads the state dict in a file of any form.

    arrays = read(path)                  # {"block1.0.conv1.weight": array, ...}
    arrays = read(path, entry="ema")     # if the file has several

The first bytes show the form. A checkpoint may have a state dict beside an
optimiser and figures, at any depth.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adt_tf.serving.bridge.reading import array_files, torch_files
from adt_tf.serving.bridge.reading.budget import Budget
from adt_tf.serving.bridge.reading.numpy_values import Array, plain_constructors
from adt_tf.serving.bridge.reading.pickles import load
from adt_tf.serving.bridge.reading.tensors import Tensor
from adt_tf.serving.bridge.reading.torch_values import refuse_storage

_MAX_DEPTH = 4


def read(
    path: str | pathlib.Path, *, entry: str | None = None
) -> dict[str, np.ndarray]:
    """Reads the arrays of a state dict, in their order in the file.

    No name in the file is imported or run, and torch is not needed.

    Args:
        path: A file of `torch.save` in the zip or the legacy form, a
            safetensors file, an `.npz` file, or a pickle of NumPy arrays.
        entry: Name of the entry that holds the state dict, if the file has
            several, such as `"model"` and `"ema"`.

    Returns:
        Arrays by name. bfloat16 becomes float32; other types are kept.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        kind = "a directory, not a file" if path.is_dir() else "not there"
        raise ValueError(
            f"Cannot read {path}: it is {kind}. Pass the path of a file of "
            "weights (.pt, .pth, .safetensors, .npz)."
        )
    try:
        with _opened(path) as value:
            return {
                name: _array(value)
                for name, value in _state_dict(value, entry).items()
                if isinstance(name, str) and _is_array(value)
            }
    except Exception as error:  # damaged bytes may raise anything
        raise ValueError(f"Cannot read {path}: {one_line(error)}") from error


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[Any]:
    with path.open("rb") as file:
        start = file.read(512)
    if start[:2] == b"PK":
        if not zipfile.is_zipfile(path):
            raise ValueError(
                "it begins as a zip file but has no end: it is incomplete, so "
                "copy or download it again"
            )
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any(name.endswith(".npy") for name in names):
            yield array_files.npz(path)
            return
        with torch_files.zip_form(path) as value:
            yield value
    elif torch_files.is_legacy_form(start):
        with torch_files.legacy_form(path) as value:
            yield value
    elif _is_safetensors(start):
        yield array_files.safetensors(path)
    elif start[:1] == b"\x80":
        yield _plain_pickle(path.read_bytes())
    else:
        raise ValueError(_other_form(start))


def is_safetensors(path: str | pathlib.Path) -> bool:
    """Returns whether a file is in the safetensors form.

    Args:
        path: The file.
    """
    with pathlib.Path(path).open("rb") as file:
        return _is_safetensors(file.read(9))


def _is_safetensors(start: bytes) -> bool:
    return start[:2] != b"PK" and start[8:9] == b"{"


def _other_form(start: bytes) -> str:
    """Returns what a file of none of the forms seems to be."""
    text = start.lstrip().lower()
    if not start:
        return "it is empty: copy or download it again"
    if start[257:262] == b"ustar":
        return (
            "it is a tar archive: extract the file of weights, or, if torch "
            "wrote it before 2017, load it with torch and save it again"
        )
    if start[:2] == b"\x1f\x8b":
        return "it is compressed by gzip: decompress it"
    if text.startswith((b"<!doctype", b"<html")):
        return "it is a web page: download the file itself"
    if text.startswith(b"version https://git-lfs"):
        return "it is a pointer of Git LFS: fetch the file with `git lfs pull`"
    return "it is not a file of torch.save, safetensors, .npz or pickle"


def _plain_pickle(content: bytes) -> Any:
    budget = Budget(len(content))
    # Reading from the file itself would allocate the length that it claims.
    stream = io.BytesIO(content)
    return load(stream, plain_constructors(budget), refuse_storage, budget)


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, Array, np.ndarray))


def _array(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else value.array()


def _state_dict(value: Any, entry: str | None) -> Mapping[str, Any]:
    """Returns the one state dict in a nest of containers."""
    state_dicts = dict(_all_state_dicts(value, (), set()))
    # Arrays of figures may be beside the state dict.
    state_dicts = {
        path: entries
        for path, entries in state_dicts.items()
        if any(name.split(".")[-1] == "weight" for name in entries)
    } or state_dicts
    names = _names(state_dicts)
    if entry is not None:
        state_dicts = {
            path: state_dict
            for path, state_dict in state_dicts.items()
            if entry in (*path, ".".join(path))
        }
    elif () in state_dicts:
        return state_dicts[()]
    if len(state_dicts) == 1:
        (state_dict,) = state_dicts.values()
        return state_dict
    if len(state_dicts) > 1:
        raise ValueError(
            "it has several state dicts: pass one of "
            f"{_names(state_dicts)} as `entry` to "
            "`adt_tf.load_classifier` or `adt_tf.transplant`"
        )
    if names:
        raise ValueError(
            f"it has no state dict of named arrays under {entry!r}, but "
            f"under {names}: pass one of these as `entry`"
        )
    raise ValueError("it has no state dict of named arrays")


def _names(state_dicts: Mapping[tuple[str, ...], Any]) -> str:
    return ", ".join(repr(".".join(path) or None) for path in state_dicts)


def _all_state_dicts(
    value: Any, path: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if len(path) > _MAX_DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple)) and len(value) <= 16:
        value = {str(index): item for index, item in enumerate(value)}
    if not isinstance(value, dict):
        return
    # The state of an optimiser has numbers as keys.
    entries = {name: v for name, v in value.items() if isinstance(name, str)}
    if any(_is_array(v) and len(v.shape) > 1 for v in entries.values()):
        yield path, entries
    for name, inner in entries.items():
        yield from _all_state_dicts(inner, (*path, name), seen)


def one_line(error: Exception) -> str:
    """Returns an exception's message without control characters."""
    text = str(error).strip() or type(error).__name__
    text = "".join(c if c.isprintable() else " " for c in text[:600])
    return " ".join(text.split())
