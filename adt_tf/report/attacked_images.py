"""What a report measures itself: a few images, and a few radii.

    images = attack_images(classifiers, x, y, epsilon=8 / 255, seed=0)
    sweep = sweep_epsilon(
        classifiers, x, y, epsilon=8 / 255, seed=0, num_images=8)

`classifiers` are a dictionary from a model's name to it. All noise depends on
the seed and the image alone, so that the same image is attacked alike here and
in the evaluation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import attacks, checks, methods, threat_models
from adt_tf.analysis import map_batches
from adt_tf.threat_models import ThreatModel

#: Radii of the sweep, in units of epsilon.
FACTORS = (0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
#: Steps of PGD in the sweep and in the pictures.
NUM_STEPS = 20
_BATCH_SIZE = 100


@dataclasses.dataclass(frozen=True, eq=False)
class AttackedImages:
    """Images attacked at epsilon, for each model.

    Attributes:
        clean: [images, ...].
        labels: [images].
        natural: What each model sees in the clean images [models, images].
        attacked: By PGD [models, images, ...].
        seen: What each model sees in those [models, images].
        sigma: Of ADT-EXP's Gaussians before tanh [models, images, ...].
    """

    clean: np.ndarray
    labels: np.ndarray
    natural: np.ndarray
    attacked: np.ndarray
    seen: np.ndarray
    sigma: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Which withstand: right clean and attacked [models, images]."""
        return (self.natural == self.labels) & (self.seen == self.labels)

    @property
    def largest_change(self) -> float:
        """The largest change of a pixel, in all of the images; never 0."""
        return float(np.abs(self.attacked - self.clean).max()) or 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class EpsilonSweep:
    """PGD at several radii.

    Attributes:
        radii: From 0 on [radii].
        right: Whether each image withstands [models, radii, examples].
        images: The first of them, attacked [models, radii, images, ...].
        seen: What each model sees in those [models, radii, images].
    """

    radii: np.ndarray
    right: np.ndarray
    images: np.ndarray
    seen: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """[models, radii]."""
        return self.right.mean(axis=-1)


def attack_images(
    classifiers: Mapping[str, Any],
    x: np.ndarray,
    y: np.ndarray,
    *,
    epsilon: float | ThreatModel,
    seed: int,
) -> AttackedImages:
    """Attacks a few images by PGD, and finds ADT-EXP's distributions."""
    pgd = attacks.pgd(epsilon, num_steps=NUM_STEPS)
    # As in training: without lambda every sigma would shrink for as long as
    # it climbs.
    exp = methods.adt_exp(epsilon).attack
    attacked = [
        pgd(classifier, x, y, seed=seed).x_adv.numpy()
        for classifier in classifiers.values()
    ]
    sigma = []
    for classifier in classifiers.values():
        p = exp.distribution(classifier, x, y, seed=seed)
        # A Normal, made independent over the pixels, then squashed.
        sigma.append(p.distribution.distribution.scale.numpy())
    models = list(classifiers.values())
    return AttackedImages(
        clean=x,
        labels=y,
        natural=np.stack([_seen(model, x) for model in models]),
        attacked=np.stack(attacked),
        seen=np.stack(
            [_seen(*pair) for pair in zip(models, attacked, strict=True)]
        ),
        sigma=np.stack(sigma),
    )


def sweep_epsilon(
    classifiers: Mapping[str, Any],
    x: np.ndarray,
    y: np.ndarray,
    *,
    epsilon: float | ThreatModel,
    seed: int,
    num_images: int,
) -> EpsilonSweep:
    """Attacks the examples by PGD at radii from 0 to three times epsilon."""
    threat_model = threat_models.get(epsilon)
    largest = threat_model.largest_epsilon(x.shape[1:])
    radii = np.unique(
        np.minimum(threat_model.epsilon * np.array(FACTORS), largest)
    )
    right, images, seen = [], [], []
    for classifier in classifiers.values():
        results = [
            _attacked(
                classifier,
                x,
                y,
                threat_model.with_epsilon(float(radius)),
                seed,
            )
            for radius in radii
        ]
        right.append([classes == y for _, classes in results])
        images.append([x_adv[:num_images] for x_adv, _ in results])
        seen.append([classes[:num_images] for _, classes in results])
    return EpsilonSweep(
        radii, np.array(right), np.array(images), np.array(seen)
    )


def _attacked(classifier, x, y, threat_model, seed):
    if threat_model.epsilon == 0:
        return x, _seen(classifier, x)
    attack = attacks.pgd(threat_model, num_steps=NUM_STEPS)

    def run(x, y):
        x_adv = attack(classifier, x, y, seed=seed).x_adv
        attack.threat_model.check(x, x_adv)
        return x_adv

    x_adv = map_batches(run, x, y, batch_size=_BATCH_SIZE)
    return x_adv, _seen(classifier, x_adv)


def _seen(classifier: Any, x: np.ndarray) -> np.ndarray:
    """The class that the classifier gives each image."""

    def classes(x):
        return tf.argmax(
            checks.as_logits(classifier(x, training=False), classifier), -1
        )

    return map_batches(classes, x, batch_size=_BATCH_SIZE)
