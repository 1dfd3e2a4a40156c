"""Keeps the best epoch by robust accuracy on held-out images."""

from __future__ import annotations

import hashlib
import os
import pathlib
import warnings
from typing import Any

import numpy as np

from adt_tf import configs, files
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
}
_SCHEMA = {**_BEST, "replaces": Maybe(_BEST)}


class RobustCheckpoint(Measuring):
    """Keeps the classifier of the epoch with the best robust accuracy.

    Adversarial training overfits: robust accuracy on new images reaches its
    best soon after the first drop of the learning rate and then falls, while
    the training loss goes on falling. So the last epoch is not the one to use.
    Choose the best on a part held out of the *training* set; chosen on the
    test set, its accuracy there is too good (see `warn_if_test_set`).

    After each epoch it adds `val_natural_accuracy` and `val_robust_accuracy`
    to the logs, for the callbacks after it in the list, and, where robust
    accuracy is higher than ever, writes two files: the classifier as a plain
    `.keras` file and, beside it, a `.json` file with its `epoch` (counted from
    1, as the progress bar does) and accuracies, and, as `replaces`, those of
    the best before it. Each file is whole or not there: of a process that is
    killed between the two, the best before it is left. A resumed run reads the
    `.json` file and goes on from that best.

    Reference: Rice et al., Overfitting in Adversarially Robust Deep Learning,
    2020.

    Args:
        data: Held-out (images, labels), or an `adt_tf.data.ImageData`.
        attack: Such as `adt_tf.attacks.pgd(8 / 255, num_steps=10)`; epsilon
            alone means that.
        path: Of the classifier, ends in ".keras".
        batch_size: Images attacked at once.
        seed: Of the attack's noise, the same after every epoch.
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
        """Reads what an earlier part of the run has kept."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.best = self._read()
        if self.best and int(self.model.optimizer.iterations) == 0:
            warnings.warn(
                f"{self.path} holds a classifier of an earlier run (robust "
                f"accuracy {100 * self.best['robust_accuracy']:.2f} %). It "
                "stays until this run, which starts anew, does better: choose "
                "another path for a best of its own.",
                stacklevel=2,
            )

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        """Measures, adds to the logs, and keeps the classifier if best."""
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
        }

    def _read(self) -> dict[str, Any] | None:
        if not self.path.exists():
            return None
        sha256 = files.sha256(self.path)
        try:
            best = read_json(self.record_path, _SCHEMA)
            # A process that was killed between the record and the classifier
            # has left the classifier before it.
            if best["sha256"] != sha256:
                best = best.get("replaces") or {}
            known = best.get("sha256") == sha256
            reason = ""
        except (OSError, ValueError) as error:
            known, reason = False, f" ({error})"
        if not known:
            raise ValueError(
                f"{self.path} exists, but {self.record_path} does not say how "
                f"robust it is{reason}, so nothing was changed. Move it away, "
                "or choose another path."
            )
        measured_on = {name: best[name] for name in self._measured_on()}
        if measured_on != self._measured_on():
            raise ValueError(
                f"{self.path} was chosen by {measured_on}, which cannot be "
                f"compared with {self._measured_on()}, so nothing was "
                "changed. Choose another path."
            )
        return best

    def _write(self, best: dict[str, Any]) -> None:
        with files.atomic_write(self.path) as partial:
            self.classifier.save(partial)
            files.sync(partial)  # before a record vouches for it
            best["sha256"] = files.sha256(partial)
            before = {k: (self.best or {}).get(k) for k in best}
            replaces = before if self.best else None
            write_json(self.record_path, {**best, "replaces": replaces})


def warn_if_test_set(
    validation_images: np.ndarray, test_images: np.ndarray
) -> int:
    """Warns where held-out images are test images; returns how many are.

    Images are compared by the hash of their pixels, at 8 bits: floats in
    [0, 1] and uint8 in 0 .. 255 may meet. Some data sets hold the same image
    in both parts: a few are no fault of the split.

    Args:
        validation_images: [N, H, W, C], by which a classifier is chosen.
        test_images: [M, H, W, C], on which it is reported.

    Example:

    >>> zeros, ones = np.zeros([2, 8, 8, 1]), np.ones([3, 8, 8, 1])
    >>> warn_if_test_set(zeros, ones)
    0
    """
    test = set(_fingerprints(test_images))
    shared = sum(key in test for key in _fingerprints(validation_images))
    if shared:
        warnings.warn(
            f"{shared} of {len(validation_images)} validation images are in "
            "the test set: a classifier chosen by them looks better on the "
            "test set than it is. Hold a part out of the training set "
            "instead, e.g. adt_tf.data.load(name, split='validation', "
            "validation_examples=1000).",
            stacklevel=2,
        )
    return shared


def _fingerprints(images: np.ndarray) -> list[bytes]:
    images = validate_images(images)
    if images.dtype != np.uint8:
        images = np.rint(images * 255).astype(np.uint8)
    return [hashlib.sha256(image.tobytes()).digest() for image in images]
