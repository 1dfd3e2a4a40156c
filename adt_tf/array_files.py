"""Named arrays in .npz files, which say their format.

write_arrays("state.npz", {"outcomes": outcomes})
read_arrays("state.npz")          # or None where it is of no use
"""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from adt_tf import files

#: What NumPy raises of a file that is no .npz file, or is damaged.
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
_LARGEST = 1 << 30  # bytes


def write_arrays(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    *,
    compress: bool = False,
) -> None:
    """Writes arrays with their format, whole or not at all."""
    save = np.savez_compressed if compress else np.savez
    with files.atomic_write(path) as partial:
        save(partial, format=np.array(files.FORMAT), **arrays)


def read_arrays(
    path: str | os.PathLike, *, largest: int = _LARGEST
) -> dict[str, np.ndarray] | None:
    """Reads what `write_arrays` wrote.

    Returns None where that is missing, damaged, of another format, or larger
    than `largest` bytes when unpacked: it is then to be worked out again.
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
    # Version 0.1.0 wrote no format.
    written = arrays.pop("format", np.array(files.FORMAT))
    return arrays if np.array_equal(written, files.FORMAT) else None
