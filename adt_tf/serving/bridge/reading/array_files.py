"""Reads state dicts in files of arrays: safetensors and `.npz`.

    arrays = safetensors(path)    # {"fc.weight": array, ...}
    arrays = npz(path)

A safetensors file is the length of a header, the header in JSON, and the
numbers. The package of that name cannot give bfloat16 to NumPy; this reader
can.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import pathlib
import struct
import zipfile
from typing import Any

import numpy as np

from adt_tf.serving.bridge.reading.budget import Budget
from adt_tf.serving.bridge.reading.tensors import NUMBERS, decode

_MAX_HEADER = 16 * 2**20

_SAFETENSORS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads a safetensors file, in the order of its header.

    Args:
        path: The file.
    """
    with path.open("rb") as file:
        # It stays open: arrays may point into it.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (header_size,) = struct.unpack("<Q", content.read(8))
    start = 8 + header_size
    if start > len(content) or header_size > _MAX_HEADER:
        raise ValueError(
            f"its header claims {header_size} bytes; the file has "
            f"{len(content)}, and a header at most {_MAX_HEADER}"
        )
    header = json.loads(content.read(header_size).decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    budget = Budget(len(content))
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        number, shape, first, last = _parse_entry(name, entry)
        count = math.prod(shape)
        budget.spend(last - first, f"the array {name!r}")
        if last - first != count * np.dtype(NUMBERS[number]).itemsize:
            raise ValueError(
                f"its array {name!r} has a size that does not fit its shape"
            )
        values = decode(content, number, count, offset=start + first)
        arrays[name] = values.reshape(shape)
    return arrays


def _parse_entry(name: str, entry: Any) -> tuple[str, list[int], int, int]:
    """Returns the type, the shape, and the first and last byte of an array."""
    match entry:
        case {
            "dtype": str(dtype),
            "shape": [*shape],
            "data_offsets": [int(first), int(last)],
        } if dtype in _SAFETENSORS:
            sizes = [*shape, first, last - first]
            if all(isinstance(s, int) and 0 <= s < 2**63 for s in sizes):
                return _SAFETENSORS[dtype], shape, first, last
    raise ValueError(
        f"its array {name!r} must have a dtype of {', '.join(_SAFETENSORS)}, "
        "a shape and data_offsets"
    )


def npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads an `.npz` file, compressed or not.

    Args:
        path: The file.
    """
    file_size = path.stat().st_size
    budget = Budget(file_size)
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name == info.filename:
                raise ValueError(f"its member {name!r} is not a .npy file")
            if info.compress_size > file_size:
                raise ValueError(f"its array {name!r} claims too many bytes")
            budget.spend(info.file_size, f"the array {name!r}")
            arrays[name] = _npy(name, archive.read(info))
    return arrays


def _npy(name: str, content: bytes) -> np.ndarray:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"its array {name!r} has an unknown version")
    shape, fortran, dtype = readers[version](stream)
    if dtype.kind not in "fiub":
        raise ValueError(f"its array {name!r} has {dtype}, not numbers")
    values = np.frombuffer(content, dtype, offset=stream.tell())
    if math.prod(shape) != len(values):
        raise ValueError(
            f"its array {name!r} has a size that does not fit its shape"
        )
    return values.reshape(shape, order="F" if fortran else "C")
