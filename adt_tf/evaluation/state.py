"""What is known of an evaluation while it runs, on disk if asked.

An interrupted evaluation goes on where it stopped: the file is named after a
fingerprint of everything that decides the outcome, so it never belongs to
another evaluation.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import time
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf import files

_SAVE_EVERY = 5.0  # seconds


class State:
    """Verdicts so far, and how many parts of each attack are done.

    Args:
        names: "natural", then the attacks' names.
        images: The examples; kept as adversarial ones if `keep_examples`.
        keep_examples: Whether to keep adversarial images.
        directory: Where to save; None keeps it in memory alone.
        key: The fingerprint of the evaluation.
    """

    def __init__(
        self,
        names: list[str],
        images: np.ndarray,
        *,
        keep_examples: bool,
        directory: str | pathlib.Path | None,
        key: str,
    ):
        shape = (len(names), len(images))
        self.outcomes = np.full(shape, -1, np.int8)
        self.parts_done = np.zeros(shape, np.int16)
        self.seconds = np.zeros(len(names))
        self.examples = np.array(images) if keep_examples else np.zeros(0)
        self.path = None
        self.resumed = False
        self._saved_at = time.monotonic()
        if directory is not None:
            name = f"unfinished-evaluation-{key[:16]}.npz"
            self.path = pathlib.Path(directory) / name
            self._load()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            "outcomes": self.outcomes,
            "parts_done": self.parts_done,
            "seconds": self.seconds,
            "examples": self.examples,
        }

    def _load(self) -> None:
        if not self.path.is_file():
            return
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in self._arrays()}
        except (
            OSError,
            ValueError,
            KeyError,
            EOFError,
            AttributeError,
            zipfile.BadZipFile,
            zlib.error,
        ):
            return  # unreadable: it is worked out again and written anew
        if all(found[k].shape == v.shape for k, v in self._arrays().items()):
            for name, array in found.items():
                setattr(self, name, array)
            self.resumed = True

    def save(self, *, now: bool = False) -> None:
        """Writes at most every few seconds, beside and then renamed."""
        if self.path is None:
            return
        if not now and time.monotonic() - self._saved_at < _SAVE_EVERY:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = files.beside(self.path)
        np.savez(partial, **self._arrays())
        os.replace(partial, self.path)
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """The evaluation is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def fingerprint(
    models: Sequence[Any],
    images: np.ndarray,
    labels: np.ndarray,
    settings: Any,
) -> str:
    """A hash of the weights, the examples and the settings."""
    digest = hashlib.sha256(repr(settings).encode())
    weights = [v for model in models for v in getattr(model, "variables", ())]
    for array in (images, labels, *weights):
        array = np.ascontiguousarray(array)
        digest.update(repr((array.shape, str(array.dtype))).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
