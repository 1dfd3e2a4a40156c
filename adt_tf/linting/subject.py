"""A classifier under examination, with all that was measured on it so far.

    subject = Subject(classifier, images, labels, threat_model=Linf(8 / 255))
    subject.logits, subject.correct
    subject.gradients("margin")             # None: nothing to differentiate
    subject.standing(attacks.pgd(8 / 255))  # of the correct examples

Everything is measured once: checks that need the same attack share its run.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks, configs, objectives
from adt_tf.attacks import Attack
from adt_tf.threat_models import ThreatModel

# Images that an attack by queries may show the classifier at once.
_MOST_IMAGES = 1024
# What has variables, and perhaps layers.
_HOLDERS = (keras.Layer, tf.Module)


class Subject:
    """A classifier, and the examples on which it is examined.

    Args:
        classifier: Called as `classifier(x, training=False)`, gives logits.
        images: In [0, 1], [n, height, width, channels].
        labels: Integers [n].
        threat_model: What the attacks may do.
        batch_size: Images at once.
        seed: Of all noise.
    """

    def __init__(
        self,
        classifier: Any,
        images: np.ndarray,
        labels: np.ndarray,
        *,
        threat_model: ThreatModel,
        batch_size: int = 64,
        seed: int = 0,
    ):
        self.classifier = classifier
        self.images = images
        self.labels = labels
        self.threat_model = threat_model
        self.epsilon = threat_model.epsilon
        self.batch_size = min(batch_size, len(labels))
        self.seed = seed
        self._gradients: dict[str, np.ndarray | None] = {}
        self._standing: dict[tuple[str, float], np.ndarray] = {}
        self._scaled: dict[float, _Scaled] = {}

    def call(self, x: np.ndarray) -> tf.Tensor:
        """Runs the classifier once, eagerly, as whoever uses it does.

        Not in a graph: what Python draws or counts would be frozen there.
        """
        outputs = self.classifier(tf.convert_to_tensor(x), training=False)
        return tf.convert_to_tensor(
            checks.named_logits(outputs, self.classifier)
        )

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Returns float32 logits [n, classes], batch by batch."""
        rows = range(0, len(x), self.batch_size)
        batches = [self.call(x[i : i + self.batch_size]) for i in rows]
        return np.concatenate([checks.as_logits(b) for b in batches])

    @functools.cached_property
    def logits(self) -> np.ndarray:
        """Of the clean examples [n, classes]."""
        logits = self.predict(self.images)
        if logits.ndim != 2 or self.labels.max() >= logits.shape[-1]:
            raise ValueError(
                f"Labels go up to {self.labels.max()}, so the classifier must "
                f"return logits (batch, {self.labels.max() + 1} or more). "
                f"Received: logits of shape {logits.shape}; end it with a "
                "Dense layer without activation, one output a class."
            )
        return logits

    @property
    def num_classes(self) -> int:
        """How many logits there are."""
        return self.logits.shape[-1]

    @property
    def correct(self) -> np.ndarray:
        """Which clean examples are classified correctly [n]."""
        return self.logits.argmax(-1) == self.labels

    @property
    def num_correct(self) -> int:
        """How many they are."""
        return int(np.sum(self.correct))

    @functools.cached_property
    def spread(self) -> float:
        """The median over the examples of max_c z_c - min_c z_c."""
        spread = float(np.median(np.ptp(self.logits, axis=-1)))
        return spread if spread > 0 else 1.0

    @property
    def _parts(self) -> list[Any]:
        """The classifier or, where it is a plain object, its attributes."""
        if isinstance(self.classifier, _HOLDERS):
            return [self.classifier]
        attributes = getattr(self.classifier, "__dict__", {}).values()
        return [part for part in attributes if isinstance(part, _HOLDERS)]

    @property
    def variables(self) -> list[Any]:
        """The classifier's variables, as far as they can be found."""
        return [variable for part in self._parts for variable in part.variables]

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Puts back, in the end, the variables that calls have changed."""
        to_numpy = keras.ops.convert_to_numpy
        before = [(variable, to_numpy(variable)) for variable in self.variables]
        try:
            yield
        finally:
            for variable, old in before:
                if not np.array_equal(to_numpy(variable), old):
                    variable.assign(old)

    @property
    def layers(self) -> list[Any]:
        """The Keras layers, models and those inside of them included."""
        found = self._parts
        for part in found:
            found += getattr(part, "layers", ())
        return found

    @functools.cached_property
    def half_precision(self) -> list[str]:
        """The 16-bit types in which layers compute or outputs come."""
        dtypes = {getattr(layer, "compute_dtype", "") for layer in self.layers}
        dtypes.add(self.call(self.images[:1]).dtype.name)
        return sorted(dtypes & {"float16", "bfloat16"})

    def gradients(self, loss: str = "cross_entropy") -> np.ndarray | None:
        """Returns each example's input gradient, or None if there is none.

        Args:
            loss: "cross_entropy" or "margin".
        """
        if loss not in self._gradients:
            self._gradients[loss] = self.measured_gradients(loss)
        return self._gradients[loss]

    def measured_gradients(self, loss: str) -> np.ndarray | None:
        """Works `gradients` out afresh."""
        values_of = {
            "cross_entropy": objectives.cross_entropy_of,
            "margin": objectives.margin_of,
        }[loss]
        gradients = []
        for start in range(0, len(self.labels), self.batch_size):
            rows = slice(start, start + self.batch_size)
            x, y = tf.constant(self.images[rows]), self.labels[rows]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(x)
                logits = self.classifier(x, training=False)
                logits = checks.as_logits(logits, self.classifier)
                logits = logits[:, tf.newaxis]
                total = tf.reduce_sum(values_of(logits, tf.constant(y)))
            gradient = tape.gradient(total, x)
            if gradient is None:
                return None
            gradients.append(gradient)
        return np.concatenate(gradients)

    def standing(self, attack: Attack, *, scale: float = 1.0) -> np.ndarray:
        """Which of the correct examples withstand an attack [num_correct].

        Args:
            attack: Run once, however often it is asked for.
            scale: The attack sees the logits divided by it.
        """
        key = (configs.fingerprint(attack), scale)
        if key not in self._standing:
            self._standing[key] = self._attacked(attack, scale)
        return self._standing[key]

    def _attacked(self, attack: Attack, scale: float) -> np.ndarray:
        images, labels = self.images[self.correct], self.labels[self.correct]
        model = self._scaled.setdefault(scale, _Scaled(self.classifier, scale))
        most = max(1, _MOST_IMAGES // attack.images_per_example)
        size = min(self.batch_size, most, len(labels))
        standing = np.zeros(len(labels), bool)
        for start in range(0, len(labels), size):
            # Wraps round to a full batch: one shape, one trace.
            rows = np.arange(start, start + size) % len(labels)
            x, y = images[rows], labels[rows]
            # The classifier may hold what XLA cannot compile.
            batch = attack(model, x, y, seed=self.seed, jit_compile=False)
            x_adv = batch.x_adv.numpy()
            # An image of NaN, as gradients of NaN give, breaks nothing.
            finite = np.isfinite(x_adv).all(axis=(1, 2, 3), keepdims=True)
            x_adv = np.where(finite, x_adv, x)
            attack.threat_model.check(x, x_adv)
            standing[rows] = self.predict(x_adv).argmax(-1) == y
        return standing


class _Scaled:
    """The classifier with its logits as float32, divided by a number.

    An object of our own is hashable and can be referred to weakly, which an
    attack asks of a classifier, whatever the user's callable is.
    """

    def __init__(self, classifier: Any, scale: float):
        self.classifier = classifier
        self.scale = scale

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        outputs = self.classifier(x, training=training)
        return checks.as_logits(outputs, self.classifier) / self.scale
