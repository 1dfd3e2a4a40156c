"""How often samples have fooled a classifier so far, on disk if asked.

An interrupted count goes on where it stopped, as evaluations do: the file is
named after a fingerprint of all that decides it, and belongs to the models that
give the logits in it.
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
    """For each distribution and example, the samples seen and those that fool.

    Args:
        num_distributions: Number of distributions.
        is_counted: Whether each example is sampled at all: those that are
            right when clean.
        max_samples: Number of samples after which an image is given up.
        directory: Directory of the file; None keeps all in memory.
        key: Fingerprint of the count.
        probe: Logits of the models that take part.

    Attributes:
        failures: Numbers of samples that fool [distributions, examples].
        samples: Numbers of samples seen [distributions, examples].
        seconds: Time that each distribution has taken.
        resumed: Whether what was saved is gone on with.
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
        self.path = None
        self.resumed = False
        self._saved_at = time.monotonic()
        if directory is not None:
            name = f"unfinished-failures-{key[:16]}.npz"
            self.path = pathlib.Path(directory) / name
            self._load(is_counted, max_samples)

    def _arrays(self) -> dict[str, np.ndarray]:
        names = ("failures", "samples", "seconds", "probe")
        return {name: getattr(self, name) for name in names}

    def _load(self, is_counted: np.ndarray, max_samples: int) -> None:
        expected = self._arrays()
        size = sum(array.nbytes for array in expected.values())
        found = array_files.read_arrays(self.path, largest=size + (1 << 20))
        if found is None or found.keys() != expected.keys():
            return  # it is worked out again and written anew
        if any(
            (found[k].shape, found[k].dtype) != (v.shape, v.dtype)
            for k, v in expected.items()
        ):
            return
        failures, samples = found["failures"], found["samples"]
        if not (
            agree(found["probe"], self.probe)
            and (failures >= 0).all()
            and (failures <= samples).all()
            and (samples <= max_samples).all()
            and (samples % BLOCK == 0).all()
            and not samples[:, ~is_counted].any()
            and np.isfinite(found["seconds"]).all()
            and (found["seconds"] >= 0).all()
        ):
            return
        self.failures, self.samples = failures, samples
        self.seconds = found["seconds"]
        self.resumed = bool(samples.any())

    def save(self, *, now: bool = False) -> None:
        """Writes at most every few seconds, whole or not at all."""
        if self.path is None:
            return
        if not now and time.monotonic() - self._saved_at < _SAVE_EVERY:
            return
        array_files.write_arrays(self.path, self._arrays())
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """The count is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
