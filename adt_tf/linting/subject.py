"""The classifier that lint examines, with a cache of its measurements.

    subject = Subject(classifier, images, labels, threat_model=Linf(8 / 255))
    subject.logits, subject.correct
    subject.gradients("margin")             # None if there is no gradient
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

# Largest number of images in one call of the classifier by a query attack.
_MOST_IMAGES = 1024
# Types of objects that have variables.
_HOLDERS = (keras.Layer, tf.Module)


class Subject:
    """A classifier and the examples on which it is examined.

    Args:
        classifier: Callable `classifier(x, training=False)` that returns
            logits.
        images: Images in [0, 1], [n, height, width, channels].
        labels: Integer labels [n].
        threat_model: Set of perturbations that the attacks may use.
        batch_size: Number of images in a batch.
        seed: Seed of all noise.
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
        """Calls the classifier once, eagerly.

        A graph would freeze random numbers and counters of Python code.
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
        """The logits of the clean examples [n, classes]."""
        logits = self.predict(self.images)
        if logits.ndim != 2 or self.labels.max() >= logits.shape[-1]:
            raise ValueError(
                f"The largest label is {self.labels.max()}, so the classifier "
                f"must return logits (batch, {self.labels.max() + 1} or more). "
                f"Received: logits of shape {logits.shape}. Use a Dense layer "
                "without activation, with one output for each class, as the "
                "last layer."
            )
        return logits

    @property
    def num_classes(self) -> int:
        """Number of logits."""
        return self.logits.shape[-1]

    @property
    def correct(self) -> np.ndarray:
        """Whether each clean example is classified correctly [n]."""
        return self.logits.argmax(-1) == self.labels

    @property
    def num_correct(self) -> int:
        """Number of clean examples that are classified correctly."""
        return int(np.sum(self.correct))

    @functools.cached_property
    def spread(self) -> float:
        """Median over the examples of max_c z_c - min_c z_c."""
        spread = float(np.median(np.ptp(self.logits, axis=-1)))
        return spread if spread > 0 else 1.0

    @property
    def _parts(self) -> list[Any]:
        """The classifier or, if it is a plain object, its attributes."""
        if isinstance(self.classifier, _HOLDERS):
            return [self.classifier]
        attributes = getattr(self.classifier, "__dict__", {}).values()
        return [part for part in attributes if isinstance(part, _HOLDERS)]

    @property
    def variables(self) -> list[Any]:
        """Variables of the classifier, as far as they can be found."""
        return [variable for part in self._parts for variable in part.variables]

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restores, on exit, the variables that calls have changed."""
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
        """The Keras layers, including models and the layers inside them."""
        layers = self._parts
        for part in layers:  # grows while it is iterated
            layers += getattr(part, "layers", ())
        return layers

    @functools.cached_property
    def half_precision(self) -> list[str]:
        """The 16-bit types of the layers' computation and of the outputs."""
        dtypes = {getattr(layer, "compute_dtype", "") for layer in self.layers}
        dtypes.add(self.call(self.images[:1]).dtype.name)
        return sorted(dtypes & {"float16", "bfloat16"})

    def gradients(self, loss: str = "cross_entropy") -> np.ndarray | None:
        """Returns the input gradient of each example; None without a path.

        Args:
            loss: "cross_entropy" or "margin".
        """
        if loss not in self._gradients:
            self._gradients[loss] = self.compute_gradients(loss)
        return self._gradients[loss]

    def compute_gradients(self, loss: str) -> np.ndarray | None:
        """Computes `gradients` again, without the cache."""
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
        """Returns whether each correct example withstands an attack.

        Args:
            attack: Attack to run. Repeated calls reuse the first run.
            scale: Number by which the logits are divided for the attack.

        Returns:
            Booleans [num_correct].
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
            # The last batch wraps around to full size: one shape, one trace.
            rows = np.arange(start, start + size) % len(labels)
            x, y = images[rows], labels[rows]
            # XLA cannot compile every operation that a classifier may use.
            batch = attack(model, x, y, seed=self.seed, jit_compile=False)
            x_adv = batch.x_adv.numpy()
            # A gradient of NaN gives an image of NaN, which is no success.
            finite = np.isfinite(x_adv).all(axis=(1, 2, 3), keepdims=True)
            x_adv = np.where(finite, x_adv, x)
            attack.threat_model.check(x, x_adv)
            standing[rows] = self.predict(x_adv).argmax(-1) == y
        return standing


class _Scaled:
    """The classifier with float32 logits, divided by a number.

    Attacks require a classifier that is hashable and weakly referenceable,
    which a user's callable may not be; this object is.
    """

    def __init__(self, classifier: Any, scale: float):
        self.classifier = classifier
        self.scale = scale

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        outputs = self.classifier(x, training=training)
        return checks.as_logits(outputs, self.classifier) / self.scale
