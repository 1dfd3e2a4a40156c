"""Reads and writes named arrays in .npz files, with a format number.

write_arrays("state.npz", {"outcomes": outcomes})
read_arrays("state.npz")          # None if it cannot be used
"""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from adt_tf import files

#: Errors of NumPy for a file that is damaged or not an .npz file.
DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    AttributeError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
# Largest size of all arrays in bytes.
_LARGEST = 1 << 30


def write_arrays(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    *,
    compress: bool = False,
) -> None:
    """Writes arrays and their format to a file, atomically.

    Args:
        path: Path of the file.
        arrays: Arrays by name.
        compress: Whether to compress the file.
    """
    entries: Mapping[str, Any] = arrays
    save = np.savez_compressed if compress else np.savez
    with files.atomic_write(path) as partial:
        save(partial, format=np.array(files.FORMAT), **entries)


def read_arrays(
    path: str | os.PathLike, *, largest: int = _LARGEST
) -> dict[str, np.ndarray] | None:
    """Reads a file that `write_arrays` wrote.

    Args:
        path: Path of the file.
        largest: Largest size of all arrays in bytes.

    Returns:
        The arrays by name, or None if the file is missing, damaged, too large
        or of another format.
    """
    try:
        with files.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            if sum(part.file_size for part in archive.infolist()) > largest:
                return None
            file.seek(0)
            with np.load(file, allow_pickle=False) as loaded:
                arrays = dict(loaded)
    except DAMAGED:
        return None
    # Files of version 0.1.0 have no format.
    written = arrays.pop("format", np.array(files.FORMAT))
    return arrays if written.tolist() == files.FORMAT else None
