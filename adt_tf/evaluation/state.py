"""The verdicts of an evaluation while it runs, on disk if asked.

An interrupted evaluation is resumed: its file is named after a fingerprint of
the weights, the examples and the attacks. Models with equal weights may compute
different functions, so the file also holds the logits of a few images, which
the models must reproduce.
"""

from __future__ import annotations

import hashlib
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import array_files, checks
from adt_tf.attacks.results import Progress
from adt_tf.data import DiskImages
from adt_tf.evaluation.sharing import Workers

_SAVE_EVERY = 5.0  # seconds
_PROBED = 8  # images
# Above twice the number of parts of any attack.
_FALLEN = 1 << 20


class State:
    """Verdicts so far, and how many parts of each attack are done.

    Args:
        names: "natural", then the attacks' names.
        images: Clean images, the start of the adversarial ones.
        keep_examples: Whether to keep adversarial images.
        directory: Directory of the files; None keeps everything in memory.
        key: Fingerprint of the evaluation.
        probe: Logits of the models, from `probe`. A file with other logits is
            not used.
        worker: Number of this process; each has a file of its own, and reads
            those of the others at its start.

    Attributes:
        resumed: Whether verdicts were read from a file.
        refused: Whether a file was not used because of its logits.
    """

    def __init__(
        self,
        names: Sequence[str],
        images: np.ndarray | DiskImages,
        *,
        keep_examples: bool,
        directory: str | pathlib.Path | None,
        key: str,
        probe: np.ndarray | None = None,
        worker: int = 0,
    ):
        shape = (len(names), len(images))
        self.outcomes = np.full(shape, -1, np.int8)
        self.parts_done = np.zeros(shape, np.int16)
        self.seconds = np.zeros(len(names))
        self.examples = np.array(images[:]) if keep_examples else np.zeros(0)
        self.probe = np.zeros(0, np.float32) if probe is None else probe
        self.path: pathlib.Path | None = None
        self.resumed = self.refused = False
        self._saved_at = self._batch_saved_at = time.monotonic()
        self._is_chief = worker == 0
        if directory is not None:
            stem = f"unfinished-evaluation-{key[:16]}"
            name = f"{stem}.worker-{worker}" if worker else stem
            self.path = pathlib.Path(directory) / f"{name}.npz"
            self._others = f"{stem}.worker-*.npz"
            self._load(self.path)
            for path in self._paths_of_others(self.path):
                self._load(path)

    def _paths_of_others(self, own: pathlib.Path) -> list[pathlib.Path]:
        """Returns the files of other workers, batches left out."""
        chief = own.with_name(self._others.partition(".")[0] + ".npz")
        paths = [chief, *sorted(own.parent.glob(self._others))]
        return [
            path
            for path in paths
            if path != own and not path.name.endswith(".batch.npz")
        ]

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            "outcomes": self.outcomes,
            "parts_done": self.parts_done,
            "seconds": self.seconds,
            "examples": self.examples,
            "probe": self.probe,
        }

    def _load(self, path: pathlib.Path) -> None:
        """Adds the verdicts of a file, if it belongs to this evaluation."""
        # The expected arrays, and the headers of the file's parts.
        size = sum(array.nbytes for array in self._arrays().values())
        saved = array_files.read_arrays(path, largest=size + (1 << 20))
        if saved is None or saved.keys() != self._arrays().keys():
            return
        if not agree(saved["probe"], self.probe):
            self.refused = not self.resumed
        elif all(
            (saved[k].shape, saved[k].dtype) == (v.shape, v.dtype)
            for k, v in self._arrays().items()
        ) and _is_consistent(saved):
            if path == self.path:
                self.seconds = saved["seconds"]
                self.examples = saved["examples"]
            codes = _codes(saved["outcomes"], saved["parts_done"])
            self._set(np.maximum(codes, _codes(self.outcomes, self.parts_done)))
            self.resumed, self.refused = True, False

    def merge(self, workers: Workers) -> None:
        """Takes over the verdicts of all workers.

        Args:
            workers: Processes that share the evaluation.
        """
        self._set(workers.merged(_codes(self.outcomes, self.parts_done)))
        milliseconds = (1000 * self.seconds).astype(np.int64)
        self.seconds = np.maximum(
            self.seconds, workers.merged(milliseconds) / 1000
        )

    def _set(self, codes: np.ndarray) -> None:
        is_right = np.where(codes & 1, 1, -1)
        self.outcomes[:] = np.where(codes >= _FALLEN, 0, is_right)
        self.parts_done[:] = codes % _FALLEN >> 1

    def reset(self, images: np.ndarray | DiskImages) -> None:
        """Discards all verdicts.

        Args:
            images: Clean images.
        """
        if self.examples.size:
            self.examples = np.array(images[:])
        self.outcomes[:] = -1
        self.parts_done[:] = 0
        self.seconds[:] = 0
        self.resumed, self.refused = False, True

    def save(self, *, now: bool = False) -> None:
        """Writes the file atomically, at most every few seconds."""
        if self.path is None:
            return
        if not now and time.monotonic() - self._saved_at < _SAVE_EVERY:
            return
        array_files.write_arrays(self.path, self._arrays())
        self._saved_at = time.monotonic()

    @property
    def batch_is_due(self) -> bool:
        """Whether `save_batch` was last called a few seconds ago."""
        since = time.monotonic() - self._batch_saved_at
        return self.path is not None and since >= _SAVE_EVERY

    def save_batch(
        self, place: tuple[int, int], rows: np.ndarray, progress: Progress
    ) -> None:
        """Saves the progress of the attack on one batch.

        Args:
            place: Row of the attack, and its part.
            rows: Indices of the examples.
            progress: Progress of these examples, in this order.
        """
        if self.path is None:
            return
        leaves = enumerate(tf.nest.flatten(progress))
        arrays = {f"leaf{i}": np.asarray(leaf) for i, leaf in leaves}
        keys = {"place": np.array(place), "rows": np.array(rows)}
        array_files.write_arrays(_batch_path(self.path), {**keys, **arrays})
        self._batch_saved_at = time.monotonic()

    def batch_rows(self, place: tuple[int, int]) -> np.ndarray:
        """Returns the examples of the batch saved for one part of an attack.

        Args:
            place: Row of the attack, and its part.
        """
        saved = self._saved_batch(place)
        return np.zeros(0, int) if saved is None else saved["rows"]

    def load_batch(
        self, place: tuple[int, int], rows: np.ndarray, start: Progress
    ) -> Progress | None:
        """Returns the saved progress of some examples, or None.

        Args:
            place: Row of the attack, and its part.
            rows: Indices of the examples; the batch may hold more.
            start: Progress of the same attack on the same examples, which the
                saved one must match in structure, shapes and types.
        """
        saved = self._saved_batch(place)
        if saved is None or not np.isin(rows, saved["rows"]).all():
            return None
        index = {int(row): i for i, row in enumerate(saved["rows"])}
        places = [index[int(row)] for row in rows]
        size = len(saved["rows"])
        leaves = []
        for i, leaf in enumerate(tf.nest.flatten(start)):
            array = saved.get(f"leaf{i}", np.zeros(0))
            if array.ndim:
                array = array[places] if len(array) == size else array[:0]
            shape, dtype = tuple(leaf.shape), leaf.dtype.as_numpy_dtype
            if (array.shape, array.dtype) != (shape, dtype):
                return None
            leaves.append(tf.constant(array))
        if len(saved) != len(leaves) + 2:
            return None
        return tf.nest.pack_sequence_as(start, leaves)

    def _saved_batch(self, place: tuple[int, int]) -> Any:
        """Returns the arrays saved for one part of an attack, or None."""
        if self.path is None or not self.resumed:
            return None
        saved = array_files.read_arrays(_batch_path(self.path))
        if saved is None or not {"place", "rows"} <= saved.keys():
            return None
        rows = saved["rows"]
        is_index = rows.ndim == 1 and np.issubdtype(rows.dtype, np.integer)
        if not is_index or not np.array_equal(saved["place"], place):
            return None
        return saved

    def remove(self) -> None:
        """Removes the files of a finished evaluation."""
        if self.path is None:
            return
        self.path.unlink(missing_ok=True)
        _batch_path(self.path).unlink(missing_ok=True)
        if self._is_chief:
            for path in self.path.parent.glob(self._others):
                path.unlink(missing_ok=True)


def _codes(outcomes: np.ndarray, parts_done: np.ndarray) -> np.ndarray:
    """Returns numbers that are larger for later verdicts.

    A wrong answer is final; else the verdict after more parts counts.
    """
    codes = 2 * parts_done.astype(np.int64) + (outcomes == 1)
    return codes + _FALLEN * (outcomes == 0)


def _is_consistent(arrays: dict[str, np.ndarray]) -> bool:
    """Returns whether saved arrays are consistent."""
    outcomes, parts_done = arrays["outcomes"], arrays["parts_done"]
    seconds, examples = arrays["seconds"], arrays["examples"]
    return bool(
        np.isin(outcomes, (-1, 0, 1)).all()
        and np.array_equal(parts_done > 0, outcomes >= 0)
        and (parts_done >= 0).all()
        # Only examples that are right when clean are attacked.
        and (outcomes[1:, outcomes[0] != 1] == -1).all()
        and np.isfinite(seconds).all()
        and (seconds >= 0).all()
        and np.isfinite(examples).all()
    )


def fingerprint(
    models: Sequence[Any],
    images: np.ndarray | DiskImages,
    labels: np.ndarray,
    settings: Any,
) -> str:
    """Returns a hash of the weights, the examples and the settings.

    Args:
        models: Models whose weights count; `probe` says what they compute.
        images: Images of the examples.
        labels: Labels of the examples.
        settings: Further values, by their `repr`.
    """
    weights = [v for model in models for v in getattr(model, "variables", ())]
    digest = checks.digest(images, labels, *weights)
    return hashlib.sha256(repr((settings, digest)).encode()).hexdigest()


def _batch_path(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the progress of the batch under attack."""
    return path.with_suffix(".batch.npz")


def probe(
    classifiers: Sequence[Any], images: np.ndarray | DiskImages
) -> np.ndarray:
    """Returns the logits of the first images under each classifier, joined.

    They distinguish models with equal weights but another head or precision,
    and functions whose weights are not accessible.

    Args:
        classifiers: Functions from images to logits.
        images: Images of the examples.
    """
    first = tf.constant(images[:_PROBED])
    answers = [
        checks.as_logits(classifier(first, training=False), classifier)
        for classifier in classifiers
    ]
    return np.concatenate(
        [np.ravel(tf.cast(answer, tf.float32)) for answer in answers]
    )


def agree(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether logits are equal up to the rounding of float32.

    The rounding of float16 is above the tolerance.
    """
    scale = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
    return one.shape == other.shape and np.allclose(
        one, other, rtol=1e-4, atol=1e-5 * scale, equal_nan=True
    )
