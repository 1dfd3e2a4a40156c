"""Numbers of samples that fool a classifier, kept on disk while they grow.

An interrupted count is resumed: its file is named after a fingerprint of
everything that determines the result, and holds logits that the models must
reproduce.
"""

from __future__ import annotations

import pathlib
import time

import numpy as np

from adt_tf import array_files
from adt_tf.evaluation.state import agree

#: Number of samples of an image that are drawn at once.
BLOCK = 32
_SAVE_EVERY = 5.0  # seconds


class FailureCounts:
    """Numbers of samples and of failures, by distribution and example.

    Args:
        num_distributions: Number of distributions.
        is_counted: Whether each example is sampled: those that are right when
            clean.
        max_samples: Largest number of samples of an image.
        directory: Directory of the file; None keeps everything in memory.
        key: Fingerprint of the evaluation.
        probe: Logits of the models, from `state.probe`.

    Attributes:
        failures: Numbers of samples that fool [distributions, examples].
        samples: Numbers of samples seen [distributions, examples].
        seconds: Time that each distribution has taken.
        resumed: Whether counts were read from the file.
    """

    def __init__(
        self,
        num_distributions: int,
        is_counted: np.ndarray,
        *,
        max_samples: int,
        directory: str | pathlib.Path | None,
        key: str,
        probe: np.ndarray,
    ):
        shape = (num_distributions, len(is_counted))
        self.failures = np.zeros(shape, np.int32)
        self.samples = np.zeros(shape, np.int32)
        self.seconds = np.zeros(num_distributions)
        self.probe = probe
        self.path: pathlib.Path | None = None
        self.resumed = False
        self._saved_at = time.monotonic()
        if directory is not None:
            name = f"unfinished-failures-{key[:16]}.npz"
            self.path = pathlib.Path(directory) / name
            self._load(self.path, is_counted, max_samples)

    def _arrays(self) -> dict[str, np.ndarray]:
        names = ("failures", "samples", "seconds", "probe")
        return {name: getattr(self, name) for name in names}

    def _load(
        self, path: pathlib.Path, is_counted: np.ndarray, max_samples: int
    ) -> None:
        expected = self._arrays()
        size = sum(array.nbytes for array in expected.values())
        saved = array_files.read_arrays(path, largest=size + (1 << 20))
        if saved is None or saved.keys() != expected.keys():
            return  # an unusable file: start from zero
        if any(
            (saved[k].shape, saved[k].dtype) != (v.shape, v.dtype)
            for k, v in expected.items()
        ):
            return
        failures, samples = saved["failures"], saved["samples"]
        if not (
            agree(saved["probe"], self.probe)
            and (failures >= 0).all()
            and (failures <= samples).all()
            and (samples <= max_samples).all()
            and (samples % BLOCK == 0).all()
            and not samples[:, ~is_counted].any()
            and np.isfinite(saved["seconds"]).all()
            and (saved["seconds"] >= 0).all()
        ):
            return
        self.failures, self.samples = failures, samples
        self.seconds = saved["seconds"]
        self.resumed = bool(samples.any())

    def save(self, *, now: bool = False) -> None:
        """Writes the file atomically, at most every few seconds."""
        if self.path is None:
            return
        if not now and time.monotonic() - self._saved_at < _SAVE_EVERY:
            return
        array_files.write_arrays(self.path, self._arrays())
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Removes the file of a finished evaluation."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
