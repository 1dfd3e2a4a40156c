"""Reads files of `torch.save` without torch: the zip and the legacy form.

    with zip_form(path) as value:       # torch 1.6 and later
        array = value["state_dict"]["fc.weight"].array()
    with legacy_form(path) as value:    # earlier torch
        ...

The zip form is an archive of uncompressed members: `data.pkl`, a pickle, and
each storage's bytes in `data/<key>`. The legacy form is a sequence of pickles
(a magic number, a version, the machine, the value, the keys of the storages),
followed by the storages, each after its size.
"""

from __future__ import annotations

import contextlib
import functools
import io
import mmap
import pathlib
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from adt_tf.serving.bridge.reading import pickles
from adt_tf.serving.bridge.reading.budget import Budget
from adt_tf.serving.bridge.reading.numpy_values import plain_constructors
from adt_tf.serving.bridge.reading.tensors import NUMBERS, Storage, decode
from adt_tf.serving.bridge.reading.torch_values import (
    refuse_storage,
    storage_id,
    tensor_constructors,
)

# The legacy form begins with a pickle of this number, in any protocol.
_LEGACY_MAGIC = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")


def is_legacy_form(start: bytes) -> bool:
    """Returns whether a file is in the legacy form.

    Args:
        start: The first bytes of the file.
    """
    return start[:1] == b"\x80" and _LEGACY_MAGIC in start[:32]


@contextlib.contextmanager
def zip_form(path: pathlib.Path) -> Iterator[Any]:
    """Yields the value in torch's zip form, with a `Tensor` for each tensor.

    The tensors can be read inside the context.

    Args:
        path: The file.
    """
    file_size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        prefix = _prefix(members)
        _refuse_bomb(members.values(), file_size)

        def member(name: str) -> bytes:
            if f"{prefix}/{name}" not in members:
                raise ValueError(f"its storage {name} is not in the file")
            return archive.read(f"{prefix}/{name}")

        big = f"{prefix}/byteorder" in members and member("byteorder") == b"big"

        def read(key: str, number: str, size: int) -> np.ndarray:
            return decode(member(f"data/{key}"), number, size, big=big)

        @functools.cache
        def storage(key: str, number: str, size: int) -> Storage:
            return Storage(
                number, size, functools.partial(read, key, number, size)
            )

        def persistent_load(persistent_id: Any) -> Storage:
            number, key, size, view = storage_id(persistent_id)
            if view is not None:
                raise ValueError("it has a view of a storage in the zip form")
            return storage(key, number, size)

        yield _load(
            io.BytesIO(member("data.pkl")), persistent_load, Budget(file_size)
        )


@contextlib.contextmanager
def legacy_form(path: pathlib.Path) -> Iterator[Any]:
    """Yields the value in torch's legacy form, as `zip_form` does.

    Args:
        path: The file.
    """
    with path.open("rb") as file:
        # It stays open: arrays may point into it.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    budget = Budget(len(content))
    for _ in ("magic number", "version", "machine"):
        _load(content, refuse_storage, budget)
    types: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}

    def read(key: str, number: str, size: int) -> np.ndarray:
        if key not in places:
            raise ValueError(f"its storage {key} is not in the file")
        offset, num_elements = places[key]
        if size > num_elements:
            raise ValueError(
                f"its storage {key} has only {num_elements} elements"
            )
        return decode(content, number, size, offset=offset)

    def persistent_load(persistent_id: Any) -> Storage:
        number, key, size, view = storage_id(persistent_id)
        if types.setdefault(key, number) != number:
            raise ValueError(f"its storage {key} is of two types")
        if view is None:
            return Storage(
                number, size, functools.partial(read, key, number, size)
            )
        start, view_size = view
        return Storage(
            number,
            view_size,
            lambda: read(key, number, size)[start : start + view_size],
        )

    value = _load(content, persistent_load, budget)
    keys = _load(content, refuse_storage, budget)
    places |= _places(content, keys, types)
    yield value


def _prefix(members: dict[str, zipfile.ZipInfo]) -> str:
    pickle_names = [
        name for name in members if name.split("/", 1)[1:] == ["data.pkl"]
    ]
    if len(pickle_names) != 1:
        raise ValueError(
            "it is a zip file without torch's data.pkl: if the weights are "
            "in a file inside it, extract that"
        )
    prefix = pickle_names[0].split("/")[0]
    if any(name.startswith(f"{prefix}/code/") for name in members):
        raise ValueError(
            "it is a TorchScript program: save its `state_dict()` with torch"
        )
    return prefix


def _refuse_bomb(members: Iterable[zipfile.ZipInfo], file_size: int) -> None:
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise ValueError(
            "it is compressed, unlike the files of torch: save it again with "
            "torch"
        )
    claimed = sum(max(info.file_size, info.compress_size) for info in members)
    if claimed > file_size:
        raise ValueError("its members claim more bytes than the file has")


def _places(
    content: mmap.mmap, keys: Any, types: dict[str, str]
) -> dict[str, tuple[int, int]]:
    """Returns the position and the number of elements of each storage."""
    if not isinstance(keys, list):
        raise ValueError("it has no list of storages")
    places = {}
    for key in keys:
        if not isinstance(key, str) or key not in types:
            raise ValueError("it has a storage that no tensor uses")
        (size,) = struct.unpack("<q", content.read(8))
        num_bytes = size * np.dtype(NUMBERS[types[key]]).itemsize
        if size < 0 or content.tell() + num_bytes > len(content):
            raise ValueError(
                f"its storage {key} of {size} elements is outside the file"
            )
        places[key] = (content.tell(), size)
        content.seek(num_bytes, 1)
    return places


def _load(
    stream: BinaryIO | mmap.mmap,
    persistent_load: Callable[[Any], Any],
    budget: Budget,
) -> Any:
    constructors = plain_constructors(budget) | tensor_constructors(budget)
    return pickles.load(stream, constructors, persistent_load, budget)
