"""Callbacks for `AdversarialTrainer.fit` that watch true robustness.

    held_out = data.load("cifar10", split="validation",
                         validation_examples=1000)
    trainer.fit(
        train,
        epochs=200,
        callbacks=[
            RobustCheckpoint(held_out, pgd(8 / 255, num_steps=10),
                             "best.keras"),
            CatastrophicOverfitting(probe, pgd(8 / 255, num_steps=10)),
            keras.callbacks.CSVLogger("metrics.csv"),
        ],
    )

`RobustCheckpoint` comes before every callback that reads its numbers. With
averaged weights, `SGD(use_ema=True)`, the order is: what saves the state for a
resume (it must see the weights that are trained), then
`keras.callbacks.SwapEMAWeights(swap_on_epoch=True)`, then `RobustCheckpoint`,
which so measures and keeps the average. Batch-norm statistics are not averaged
by Keras: they belong to the weights that are trained. A `fit` that is stopped
early leaves the classifier with those weights, so use the file.

`warn_if_test_set` tells whether the held-out images are test images.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import warnings
from typing import Any

import keras
import numpy as np

from adt_tf import attacks
from adt_tf.attacks import Attack
from adt_tf.data import as_arrays, validate_images
from adt_tf.evaluation import NATURAL, evaluate
from adt_tf.threat_models import Linf

# Training accuracy within this of what it was counts as the same.
_SAME_ACCURACY = 0.02


class _Measuring(keras.callbacks.Callback):
    """A callback that measures accuracy under an attack, on fixed data."""

    def __init__(
        self,
        data: Any,
        attack: Attack | float | Linf,
        *,
        batch_size: int,
        seed: int,
    ):
        super().__init__()
        if isinstance(attack, (int, float, Linf)):
            attack = attacks.pgd(attack, num_steps=10)
        if not isinstance(attack, Attack):
            raise ValueError(
                "Argument `attack` must be an attack such as "
                "`adt_tf.attacks.pgd(8 / 255, num_steps=10)`, or epsilon. "
                f"Received: attack={attack!r}"
            )
        self.data = as_arrays(data)
        self.attack = attack
        # `evaluate` fills the last batch up: none larger than the data.
        self.batch_size = min(batch_size, len(self.data[0]))
        self.seed = seed

    @property
    def classifier(self) -> keras.Model:
        """The classifier that is trained."""
        classifier = getattr(self.model, "classifier", None)
        if not isinstance(classifier, keras.Model):
            raise ValueError(
                f"{type(self).__name__} must be given to the `fit` of an "
                "`AdversarialTrainer`, which has a `classifier`. Received: "
                f"model={self.model!r}"
            )
        return classifier

    def measure(self) -> tuple[float, float]:
        """Returns natural and robust accuracy of the classifier as it is."""
        report = evaluate(
            self.classifier,
            self.data,
            [self.attack],
            batch_size=self.batch_size,
            seed=self.seed,
            verbose=False,
        )
        return report.accuracy[NATURAL], report.robust_accuracy


class RobustCheckpoint(_Measuring):
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
    1, as the progress bar does) and accuracies. Each is written beside and
    then renamed, so a killed process leaves a best that is whole. A resumed
    run reads the `.json` file and goes on from that best.

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
        attack: Attack | float | Linf,
        path: str | os.PathLike,
        *,
        batch_size: int = 128,
        seed: int = 0,
    ):
        super().__init__(data, attack, batch_size=batch_size, seed=seed)
        self.path = pathlib.Path(path)
        if self.path.suffix != ".keras":
            raise ValueError(
                "Argument `path` must end in '.keras'. Received: "
                f"path={str(path)!r}"
            )
        self.record_path = self.path.with_suffix(".json")
        self.partial = self.path.with_name(f"partial-{self.path.name}")
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
            "num_examples": len(self.data[0]),
        }

    def _read(self) -> dict[str, Any] | None:
        try:
            best = json.loads(self.record_path.read_text())
            found = {name: best[name] for name in self._measured_on()}
            sha256, _ = best["sha256"], float(best["robust_accuracy"])
        except (OSError, ValueError, TypeError, KeyError):
            sha256 = None
        if sha256 and sha256 == _sha256(self.partial):
            os.replace(self.partial, self.path)
        if not self.path.exists():
            return None
        if sha256 != _sha256(self.path):
            raise ValueError(
                f"{self.path} exists, but {self.record_path} does not say how "
                "robust it is, so nothing was changed. Move it away, or "
                "choose another path."
            )
        if found != self._measured_on():
            raise ValueError(
                f"{self.path} was chosen by {found}, which cannot be compared "
                f"with {self._measured_on()}, so nothing was changed. Choose "
                "another path."
            )
        return best

    def _write(self, best: dict[str, Any]) -> None:
        record = self.record_path.with_name(f"partial-{self.record_path.name}")
        try:
            self.classifier.save(self.partial)
            best["sha256"] = _sha256(self.partial)
            record.write_text(json.dumps(best, indent=2) + "\n")
            os.replace(record, self.record_path)
        except BaseException:
            self.partial.unlink(missing_ok=True)
            record.unlink(missing_ok=True)
            raise
        # Were the process killed here, `_read` would find the whole file that
        # the record names, and rename it.
        os.replace(self.partial, self.path)


def _sha256(path: pathlib.Path) -> str | None:
    if not path.exists():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()


class CatastrophicOverfitting(_Measuring):
    """Warns when training still looks well, but robustness has collapsed.

    Training on a weak attack, of one step above all, may within an epoch turn
    into something else: the classifier withstands the attack that it is
    trained with, and its accuracy under more steps falls to zero. This
    callback attacks a fixed probe with many steps after each epoch and warns,
    once for each collapse, where

        best - robust > drop  and  robust < best / 2

    and training accuracy (`logs["accuracy"]`) is not lower than it was at
    the best.

    Reference: Wong et al., Fast is Better than Free: Revisiting Adversarial
    Training, 2020.

    Args:
        data: The probe, some hundred (images, labels), or an
            `adt_tf.data.ImageData`.
        attack: One of many steps, such as
            `adt_tf.attacks.pgd(8 / 255, num_steps=10)`; epsilon alone means
            that.
        drop: Of robust accuracy, as a share: 0.2 is 20 points. Choose a
            smaller one where the best itself is not far above it.
        patience: Epochs that a collapse lasts until it is told.
        stop_training: Whether to stop training as well.
        batch_size: Images attacked at once.
        seed: Of the attack's noise, the same after every epoch.
    """

    def __init__(
        self,
        data: Any,
        attack: Attack | float | Linf,
        *,
        drop: float = 0.2,
        patience: int = 1,
        stop_training: bool = False,
        batch_size: int = 128,
        seed: int = 0,
    ):
        super().__init__(data, attack, batch_size=batch_size, seed=seed)
        if getattr(self.attack, "num_steps", 2) < 2:
            raise ValueError(
                "Argument `attack` must take many steps: one step does not "
                "notice the collapse. Received: "
                f"attack={self.attack!r}"
            )
        if not 0 < drop < 1:
            raise ValueError(
                "Argument `drop` must lie in (0, 1): it is a share, 0.2 for "
                f"20 points. Received: drop={drop}"
            )
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(
                "Argument `patience` must be a positive integer. Received: "
                f"patience={patience}"
            )
        self.drop = drop
        self.patience = patience
        self.stop_training = stop_training
        self.best: float | None = None
        self.accuracy_at_best = 0.0
        self.epochs_collapsed = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Measures the start: the classifier may be robust already."""
        if self.best is None:
            _, self.best = self.measure()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        """Measures, and warns of a collapse."""
        accuracy = (logs or {}).get("accuracy")
        if accuracy is None:
            raise ValueError(
                "CatastrophicOverfitting compares with training accuracy: "
                'compile the trainer with metrics=["accuracy"]. Received: '
                f"logs={logs}"
            )
        _, robust = self.measure()
        if robust >= self.best:
            self.best, self.accuracy_at_best = robust, accuracy
        if self.best - robust <= self.drop or robust >= self.best / 2:
            self.epochs_collapsed = 0
        elif accuracy >= self.accuracy_at_best - _SAME_ACCURACY:
            self.epochs_collapsed += 1
            if self.epochs_collapsed == self.patience:
                self._tell(epoch, robust, accuracy)

    def _tell(self, epoch: int, robust: float, accuracy: float) -> None:
        warnings.warn(
            f"Catastrophic overfitting in epoch {epoch + 1}: robust accuracy "
            f"under {self.attack.name} is {100 * robust:.2f} % and was "
            f"{100 * self.best:.2f} % at its best, while training accuracy is "
            f"{100 * accuracy:.2f} %. The training attack no longer finds what "
            f"{self.attack.name} finds. Go back to the classifier that "
            "RobustCheckpoint has kept, and try in training a smaller step "
            "size, more steps, a random start, or a smaller learning rate.",
            stacklevel=2,
        )
        if self.stop_training:
            self.model.stop_training = True


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


class EpsilonWarmup(keras.callbacks.Callback):
    """Lets epsilon grow over the first epochs, to help a start that fails.

        epsilon_e = epsilon * min(1, (e + 1) / num_epochs),  e = 0, 1, ...

    The step is traced anew in each of these epochs. Step sizes that are a
    share of epsilon, as those of `attacks.pgd` are by default, grow with it.
    The validation that `fit` runs has the epoch's epsilon as well.

    Args:
        num_epochs: After so many epochs epsilon has its value.
    """

    def __init__(self, num_epochs: int):
        super().__init__()
        if not isinstance(num_epochs, int) or num_epochs < 1:
            raise ValueError(
                "Argument `num_epochs` must be a positive integer. "
                f"Received: num_epochs={num_epochs}"
            )
        self.num_epochs = num_epochs

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Remembers the value to reach."""
        self.epsilon = self.model.attack.threat_model.epsilon

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Sets the epsilon of this epoch."""
        self._set(self.epsilon * min(1.0, (epoch + 1) / self.num_epochs))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Gives the value back, should training end before it is reached."""
        self._set(self.epsilon)

    def _set(self, epsilon: float) -> None:
        threat_model = self.model.attack.threat_model
        if threat_model.epsilon != epsilon:
            threat_model.epsilon = epsilon
            self.model.make_train_function(force=True)
            self.model.make_test_function(force=True)
