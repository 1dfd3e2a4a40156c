"""Saves the classifier with the best robust accuracy on held-out images."""

from __future__ import annotations

import hashlib
import os
import pathlib
import warnings
from typing import Any

import numpy as np

from adt_tf import checks, configs, files
from adt_tf.attacks import Attack
from adt_tf.callbacks.measuring import Measuring
from adt_tf.checks import arguments
from adt_tf.data import validate_images
from adt_tf.json_files import Maybe, read_json, write_json
from adt_tf.threat_models import ThreatModel

_BEST = {
    "epoch": int,
    "natural_accuracy": float,
    "robust_accuracy": float,
    "attack": str,
    "fingerprint": str,
    "num_examples": int,
    "sha256": str,
    # Earlier files have neither.
    "seed": Maybe(int),
    "examples_sha256": Maybe(str),
}
_SCHEMA = {**_BEST, "replaces": Maybe(_BEST)}


class RobustCheckpoint(Measuring):
    """Saves the classifier of the epoch with the best robust accuracy.

    Adversarial training overfits: robust accuracy on new images is best soon
    after the first decrease of the learning rate and then falls, while the
    training loss continues to fall. Choose the best epoch on images held out of
    the *training* set. If it is chosen on the test set, its test accuracy is
    biased upwards (see `warn_if_test_set`).

    After each epoch, this callback adds `val_natural_accuracy` and
    `val_robust_accuracy` to the logs, for the callbacks after it in the list.
    If robust accuracy is higher than before, it writes two files: the
    classifier as a plain `.keras` file and, beside it, a `.json` file with the
    `epoch` (counted from 1), its accuracies and, as `replaces`, the record of
    the previous best epoch. Each file is written atomically. If the process is
    killed between the two, the previous best classifier remains valid. A
    resumed run reads the `.json` file and continues from that best.

    Reference: Rice et al., Overfitting in Adversarially Robust Deep Learning,
    2020.

    Args:
        data: Held-out examples, (images, labels) or an
            `adt_tf.data.ImageData`.
        attack: Attack, or epsilon, which stands for
            `adt_tf.attacks.pgd(epsilon, num_steps=10)`.
        path: File of the classifier; ends in ".keras".
        batch_size: Number of images in a batch.
        seed: Seed of the attack's noise, the same after every epoch.
    """

    def __init__(
        self,
        data: Any,
        attack: Attack | float | ThreatModel,
        path: str | os.PathLike,
        *,
        batch_size: int = 128,
        seed: int = 0,
    ):
        super().__init__(data, attack, batch_size=batch_size, seed=seed)
        self.path = pathlib.Path(path)
        if self.path.suffix != ".keras":
            raise arguments.error("end in '.keras'", path=str(path))
        self.record_path = self.path.with_suffix(".json")
        self.best: dict[str, Any] | None = None

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Reads the best epoch of an earlier part of the run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.best = self._read()
        if self.best and int(self.model.optimizer.iterations) == 0:
            warnings.warn(
                f"{self.path} holds a classifier of an earlier run (robust "
                f"accuracy {100 * self.best['robust_accuracy']:.2f} %). This "
                "run starts from the beginning and replaces it only with a "
                "better one. Choose another path to save the best epoch of "
                "this run.",
                stacklevel=2,
            )

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        """Adds the accuracies to the logs, and saves a better classifier."""
        natural, robust = self.measure()
        if logs is not None:
            logs["val_natural_accuracy"] = natural
            logs["val_robust_accuracy"] = robust
        if self.best and robust <= self.best["robust_accuracy"]:
            return
        best = {
            "epoch": epoch + 1,
            "natural_accuracy": natural,
            "robust_accuracy": robust,
            **self._measured_on(),
        }
        self._write(best)
        self.best = best

    def _measured_on(self) -> dict[str, Any]:
        return {
            "attack": repr(self.attack),
            "fingerprint": configs.fingerprint(self.attack),
            "num_examples": len(self.data[0]),
            "seed": self.seed,
            "examples_sha256": checks.digest(*self.data),
        }

    def _read(self) -> dict[str, Any] | None:
        if not self.path.exists():
            return None
        sha256 = files.sha256(self.path)
        try:
            best = read_json(self.record_path, _SCHEMA)
            # The record is written before the classifier. If a process was
            # killed in between, the classifier is still the previous one.
            if best["sha256"] != sha256:
                best = best.get("replaces") or {}
            is_recorded = best.get("sha256") == sha256
            reason = ""
        except (OSError, ValueError) as error:
            is_recorded, reason = False, f" ({error})"
        if not is_recorded:
            raise ValueError(
                f"{self.path} exists, but {self.record_path} does not state "
                f"its robust accuracy{reason}. Nothing was changed. Move the "
                "file away, or choose another path."
            )
        now = self._measured_on()
        measured_on = {name: best.get(name) for name in now}
        if any(v not in (None, now[k]) for k, v in measured_on.items()):
            raise ValueError(
                f"{self.path} was chosen with {measured_on}, which cannot be "
                f"compared with {now}. Nothing was changed. Choose another "
                "path."
            )
        return best

    def _write(self, best: dict[str, Any]) -> None:
        with files.atomic_write(self.path) as partial:
            self.classifier.save(partial)
            files.sync(partial)  # The record must not precede the data.
            best["sha256"] = files.sha256(partial)
            previous = {k: (self.best or {}).get(k) for k in best}
            replaces = previous if self.best else None
            write_json(self.record_path, {**best, "replaces": replaces})


def warn_if_test_set(
    validation_images: np.ndarray, test_images: np.ndarray
) -> int:
    """Warns if held-out images are also in the test set; returns how many.

    Images are compared by a hash of their pixels, rounded to 8 bits, so that
    floats in [0, 1] can be compared with uint8. Some data sets contain the same
    image in both parts, so a few matches do not mean that the split is wrong.

    Args:
        validation_images: Images [N, H, W, C] by which a classifier is chosen.
        test_images: Images [M, H, W, C] on which it is reported.

    Example:

    >>> zeros, ones = np.zeros([2, 8, 8, 1]), np.ones([3, 8, 8, 1])
    >>> warn_if_test_set(zeros, ones)
    0
    """
    test = set(_fingerprints(test_images))
    num_shared = sum(key in test for key in _fingerprints(validation_images))
    if num_shared:
        warnings.warn(
            f"{num_shared} of {len(validation_images)} validation images are "
            "in the test set, so the test accuracy of a classifier chosen by "
            "them is biased upwards. Hold out a part of the training set "
            "instead, e.g. adt_tf.data.load(name, split='validation', "
            "validation_examples=1000).",
            stacklevel=2,
        )
    return num_shared


def _fingerprints(images: np.ndarray) -> list[bytes]:
    images = validate_images(images)
    if images.dtype != np.uint8:
        images = np.rint(images * 255).astype(np.uint8)
    return [hashlib.sha256(image.tobytes()).digest() for image in images]
