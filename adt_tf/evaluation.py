"""Robust accuracy: which examples withstand which attacks.

report = evaluate(classifier, test, attacks=[pgd(8 / 255), cw(8 / 255)])
print(report)
report.accuracy["PGD-20"], report.robust_accuracy
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks, data
from adt_tf.attacks import Attack

NATURAL = "natural"


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of an evaluation.

    Attributes:
        outcomes: For "natural" and for each attack, whether each example is
            classified correctly, a boolean array.
        attacks: For each attack, its full description.
        seed: Of the attacks' noise.
    """

    outcomes: dict[str, np.ndarray]
    attacks: dict[str, str]
    seed: int

    @property
    def num_examples(self) -> int:
        """How many examples were evaluated."""
        return len(self.outcomes[NATURAL])

    @property
    def accuracy(self) -> dict[str, float]:
        """The share of correct examples, natural and under each attack."""
        return {
            name: float(np.mean(correct))
            for name, correct in self.outcomes.items()
        }

    @property
    def robust_accuracy(self) -> float:
        """A_rob: the share that no attack (nor nature) gets wrong."""
        return float(np.mean(np.all(list(self.outcomes.values()), axis=0)))

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "num_examples": self.num_examples,
            "accuracy": self.accuracy,
            "A_rob": self.robust_accuracy,
            "attacks": self.attacks,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        rows = [*self.accuracy.items(), ("A_rob", self.robust_accuracy)]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {100 * v:6.2f} %" for name, v in rows]
        rule = "-" * (width + 10)
        counted = f"{self.num_examples} examples, seed {self.seed}"
        return "\n".join([rule, *lines[:-1], rule, lines[-1], rule, counted])


def evaluate(
    classifier: Any,
    dataset: Any,
    attacks: Sequence[Attack],
    *,
    batch_size: int = 128,
    seed: int = 0,
    verbose: bool = True,
) -> Report:
    """Measures natural accuracy, accuracy under each attack, and A_rob.

    Every attack runs on every example, the classifier in inference mode. Each
    batch of adversarial images is checked against the threat model before it
    is counted. The result does not depend on `batch_size`.

    Args:
        classifier: A Keras model from images in [0, 1] to logits.
        dataset: (images, labels), a `tf.data.Dataset` of such, batched or
            not, or an `adt_tf.data.ImageData`.
        attacks: Such as `[adt_tf.attacks.pgd(8 / 255)]`.
        batch_size: Images at once.
        seed: Of the attacks' noise.
        verbose: Whether to show a progress bar.
    """
    checks.check_classifier(classifier)
    for attack in attacks:
        if not isinstance(attack, Attack):
            raise ValueError(
                "Argument `attacks` must hold attacks such as "
                "`adt_tf.attacks.get('pgd-20', epsilon=8 / 255)`. Received: "
                f"{attack!r}"
            )
    if batch_size < 1:
        raise ValueError(
            "Argument `batch_size` must be at least 1. Received: "
            f"batch_size={batch_size}"
        )
    names = [attack.name for attack in attacks]
    if len({NATURAL, "A_rob", *names}) != len(names) + 2:
        raise ValueError(
            "Argument `attacks` must hold attacks with different names, none "
            f"of them {NATURAL!r} or 'A_rob'. Received: {names}; set "
            "`attack.name` to tell them apart."
        )
    images, labels = data.as_arrays(dataset)
    predict = _predict_function(classifier)
    outcomes = {name: np.zeros(len(labels), bool) for name in (NATURAL, *names)}
    starts = range(0, len(labels), batch_size)
    bar = keras.utils.Progbar(
        len(starts) * len(outcomes),
        stateful_metrics=list(outcomes),
        verbose=int(verbose),
        unit_name="batch",
    )
    for name, attack in zip(outcomes, (None, *attacks), strict=True):
        for start in starts:
            rows = slice(start, start + batch_size)
            x, y = _padded(images[rows], labels[rows], batch_size)
            x_adv = x
            if attack is not None:
                x_adv = attack(classifier, x, y, seed=seed).x_adv
                attack.threat_model.check(x, x_adv)
            logits = _checked_logits(predict(x_adv).numpy(), labels)
            correct = logits.argmax(-1) == y.numpy()
            outcomes[name][rows] = correct[: len(labels[rows])]
            done = outcomes[name][: start + batch_size]
            bar.add(1, [(name, float(np.mean(done)))])
    descriptions = {attack.name: repr(attack) for attack in attacks}
    return Report(outcomes, descriptions, seed)


_PREDICT = weakref.WeakKeyDictionary()


def _predict_function(classifier: Any) -> Any:
    """Traces a classifier once, and forgets it with it."""
    if classifier not in _PREDICT:
        # A strong reference here would keep the classifier alive for ever.
        reference = weakref.ref(classifier)
        _PREDICT[classifier] = tf.function(
            lambda x: tf.cast(reference()(x, training=False), tf.float32),
            autograph=False,
            reduce_retracing=True,
        )
    return _PREDICT[classifier]


def _padded(x: np.ndarray, y: np.ndarray, size: int):
    """Repeats the last example up to a full batch: one shape, one trace."""
    index = np.minimum(np.arange(size), len(x) - 1)
    return tf.constant(x[index]), tf.constant(y[index])


def _checked_logits(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if logits.ndim != 2 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"Labels go up to {labels.max()}, so the classifier must return "
            f"logits (batch, {labels.max() + 1} or more). Received: logits of "
            f"shape {logits.shape}."
        )
    if not np.isfinite(logits).all():
        raise ValueError(
            "The classifier returned NaN or infinite logits: no accuracy can "
            "be told from them. Check its weights (did training diverge?)."
        )
    if bool(checks.looks_like_softmax(tf.constant(logits))):
        raise ValueError(checks.SOFTMAX_MESSAGE)
    return logits
