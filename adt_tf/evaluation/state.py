"""What is known of an evaluation while it runs, on disk if asked.

An interrupted evaluation goes on where it stopped: the file is named after a
fingerprint of the weights, the examples and the attacks. Weights alone do not
say what a model does with them, so the file also holds the logits of a few
images, and belongs to the models that give the same.
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

_SAVE_EVERY = 5.0  # seconds
_PROBED = 8  # images


class State:
    """Verdicts so far, and how many parts of each attack are done.

    Args:
        names: "natural", then the attacks' names.
        images: The examples; kept as adversarial ones if `keep_examples`.
        keep_examples: Whether to keep adversarial images.
        directory: Where to save; None keeps it in memory alone.
        key: The fingerprint of the evaluation.
        probe: Logits of the models that take part, from `probe`; what was
            saved with others is not gone on with.

    Attributes:
        resumed: Whether what was saved is gone on with.
        refused: Whether it was not, since its logits are others.
    """

    def __init__(
        self,
        names: list[str],
        images: np.ndarray,
        *,
        keep_examples: bool,
        directory: str | pathlib.Path | None,
        key: str,
        probe: np.ndarray | None = None,
    ):
        shape = (len(names), len(images))
        self.outcomes = np.full(shape, -1, np.int8)
        self.parts_done = np.zeros(shape, np.int16)
        self.seconds = np.zeros(len(names))
        self.examples = np.array(images[:]) if keep_examples else np.zeros(0)
        self.probe = np.zeros(0, np.float32) if probe is None else probe
        self.path = None
        self.resumed = self.refused = False
        self._saved_at = self._batch_saved_at = time.monotonic()
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
            "probe": self.probe,
        }

    def _load(self) -> None:
        # What it must hold, and the headers of its parts.
        size = sum(array.nbytes for array in self._arrays().values())
        found = array_files.read_arrays(self.path, largest=size + (1 << 20))
        if found is None or found.keys() != self._arrays().keys():
            return  # it is worked out again and written anew
        if not agree(found["probe"], self.probe):
            self.refused = True
        elif all(
            (found[k].shape, found[k].dtype) == (v.shape, v.dtype)
            for k, v in self._arrays().items()
        ) and _is_consistent(found):
            for name, array in found.items():
                setattr(self, name, array)
            self.resumed = True

    def reset(self, images: np.ndarray) -> None:
        """Forgets what was saved, so that everything is worked out again.

        Args:
            images: The examples.
        """
        if self.examples.size:
            self.examples = np.array(images[:])
        self.outcomes[:] = -1
        self.parts_done[:] = 0
        self.seconds[:] = 0
        self.resumed, self.refused = False, True

    def save(self, *, now: bool = False) -> None:
        """Writes at most every few seconds, beside and then renamed."""
        if self.path is None:
            return
        if not now and time.monotonic() - self._saved_at < _SAVE_EVERY:
            return
        array_files.write_arrays(self.path, self._arrays())
        self._saved_at = time.monotonic()

    @property
    def _batch_path(self) -> pathlib.Path:
        """The file of the batch that is being attacked."""
        return self.path.with_suffix(".batch.npz")

    def save_batch(self, key: np.ndarray, progress: Any) -> None:
        """Saves how far the attack on one batch is, at most every few seconds.

        Args:
            key: Numbers that tell the batch and the attack from others.
            progress: A nest of tensors.
        """
        if self.path is None:
            return
        if time.monotonic() - self._batch_saved_at < _SAVE_EVERY:
            return
        leaves = enumerate(tf.nest.flatten(progress))
        arrays = {f"leaf{i}": np.asarray(leaf) for i, leaf in leaves}
        array_files.write_arrays(self._batch_path, {"key": key, **arrays})
        self._batch_saved_at = time.monotonic()

    def load_batch(self, key: np.ndarray, start: Any) -> Any:
        """Returns how far the attack on a batch was, or its start.

        Args:
            key: As in `save_batch`.
            start: The nest of tensors to return where nothing was saved.
        """
        if self.path is None or not self.resumed:
            return start
        saved = array_files.read_arrays(self._batch_path)
        leaves = tf.nest.flatten(start)
        names = [f"leaf{i}" for i in range(len(leaves))]
        if saved is None or saved.keys() != {"key", *names}:
            return start
        fits = np.array_equal(saved["key"], key) and all(
            (saved[name].shape, saved[name].dtype)
            == (tuple(leaf.shape), leaf.dtype.as_numpy_dtype)
            for name, leaf in zip(names, leaves, strict=True)
        )
        if not fits:
            return start
        return tf.nest.pack_sequence_as(
            start, [tf.constant(saved[name]) for name in names]
        )

    def remove(self) -> None:
        """The evaluation is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self._batch_path.unlink(missing_ok=True)


def _is_consistent(arrays: dict[str, np.ndarray]) -> bool:
    """Whether saved arrays could have come from an evaluation."""
    outcomes, parts_done = arrays["outcomes"], arrays["parts_done"]
    seconds, examples = arrays["seconds"], arrays["examples"]
    return bool(
        np.isin(outcomes, (-1, 0, 1)).all()
        and np.array_equal(parts_done > 0, outcomes >= 0)
        and (parts_done >= 0).all()
        # Only what is right when clean is attacked.
        and (outcomes[1:, outcomes[0] != 1] == -1).all()
        and np.isfinite(seconds).all()
        and (seconds >= 0).all()
        and np.isfinite(examples).all()
    )


def fingerprint(
    models: Sequence[Any],
    images: np.ndarray,
    labels: np.ndarray,
    settings: Any,
) -> str:
    """A hash of the weights, the examples and the settings.

    What a model does with its weights is told by `probe`.
    """
    weights = [v for model in models for v in getattr(model, "variables", ())]
    found = checks.digest(images, labels, *weights)
    return hashlib.sha256(repr((settings, found)).encode()).hexdigest()


def probe(classifiers: Sequence[Any], images: np.ndarray) -> np.ndarray:
    """The logits of the first images under each classifier, in one row.

    Equal weights may stand under another head or in another precision, and a
    function has none that can be seen: what they answer tells them apart.
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
    """Whether logits are the same, but for the rounding of float32.

    That of float16 is above the tolerance.
    """
    scale = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
    return one.shape == other.shape and np.allclose(
        one, other, rtol=1e-4, atol=1e-5 * scale, equal_nan=True
    )
