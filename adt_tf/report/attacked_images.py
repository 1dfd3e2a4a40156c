"""Attacks a few images for the page, at epsilon and at other radii.

    images = attack_images(classifiers, x, y, epsilon=8 / 255, seed=0)
    sweep = sweep_epsilon(
        classifiers, x, y, epsilon=8 / 255, seed=0, num_images=8)

`classifiers` is a dictionary from names to classifiers. All noise depends on
the seed and the image only, so that the evaluation and the page attack an image
in the same way.
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
#: Steps of PGD in the sweep and for the images.
NUM_STEPS = 20
_BATCH_SIZE = 100


@dataclasses.dataclass(frozen=True, eq=False)
class AttackedImages:
    """Images attacked at epsilon, for each model.

    Attributes:
        clean: Clean images [images, ...].
        labels: Labels [images].
        natural: Predicted classes of the clean images [models, images].
        attacked: Images attacked by PGD [models, images, ...].
        predicted: Predicted classes of the attacked images [models, images].
        sigma: Standard deviations of ADT-EXP's Gaussians before tanh
            [models, images, ...].
    """

    clean: np.ndarray
    labels: np.ndarray
    natural: np.ndarray
    attacked: np.ndarray
    predicted: np.ndarray
    sigma: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Whether images are correct both clean and attacked."""
        return (self.natural == self.labels) & (self.predicted == self.labels)

    @property
    def largest_change(self) -> float:
        """Largest change of a pixel in any image; 1 if nothing changes."""
        return float(np.abs(self.attacked - self.clean).max()) or 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class EpsilonSweep:
    """Results of PGD at several radii.

    Attributes:
        radii: Radii from 0 on [radii].
        right: Whether each example withstands [models, radii, examples].
        images: First examples, attacked [models, radii, images, ...].
        predicted: Predicted classes of these images [models, radii, images].
    """

    radii: np.ndarray
    right: np.ndarray
    images: np.ndarray
    predicted: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """Accuracies [models, radii]."""
        return self.right.mean(axis=-1)


def attack_images(
    classifiers: Mapping[str, Any],
    x: np.ndarray,
    y: np.ndarray,
    *,
    epsilon: float | ThreatModel,
    seed: int,
) -> AttackedImages:
    """Attacks a few images by PGD, and finds ADT-EXP's distributions.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        x: Images [images, height, width, channels].
        y: Labels [images].
        epsilon: Radius of the attacks, or a threat model.
        seed: Seed of all noise.
    """
    pgd = attacks.pgd(epsilon, num_steps=NUM_STEPS)
    # The settings of training: without entropy, sigma shrinks in every step.
    exp = methods.adt_exp(epsilon).attack
    attacked = [
        pgd(classifier, x, y, seed=seed).x_adv.numpy()
        for classifier in classifiers.values()
    ]
    sigma = []
    for classifier in classifiers.values():
        p = exp.distribution(classifier, x, y, seed=seed)
        # p is TransformedDistribution(Independent(Normal)).
        sigma.append(p.distribution.distribution.scale.numpy())
    models = list(classifiers.values())
    return AttackedImages(
        clean=x,
        labels=y,
        natural=np.stack([_predict(model, x) for model in models]),
        attacked=np.stack(attacked),
        predicted=np.stack(
            [_predict(*pair) for pair in zip(models, attacked, strict=True)]
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
    """Attacks the examples by PGD at radii from 0 to three times epsilon.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        x: Images [n, height, width, channels].
        y: Labels [n].
        epsilon: Radius of the evaluation, or a threat model.
        seed: Seed of all noise.
        num_images: Number of attacked images to return.
    """
    threat_model = threat_models.get(epsilon)
    largest = threat_model.largest_epsilon(x.shape[1:])
    radii = np.unique(
        np.minimum(threat_model.epsilon * np.array(FACTORS), largest)
    )
    right, images, predicted = [], [], []
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
        predicted.append([classes[:num_images] for _, classes in results])
    return EpsilonSweep(
        radii, np.array(right), np.array(images), np.array(predicted)
    )


def _attacked(
    classifier: Any,
    x: np.ndarray,
    y: np.ndarray,
    threat_model: ThreatModel,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images after PGD, and their predicted classes."""
    if threat_model.epsilon == 0:
        return x, _predict(classifier, x)
    attack = attacks.pgd(threat_model, num_steps=NUM_STEPS)

    def run(x, y):
        x_adv = attack(classifier, x, y, seed=seed).x_adv
        attack.threat_model.check(x, x_adv)
        return x_adv

    x_adv = map_batches(run, x, y, batch_size=_BATCH_SIZE)
    return x_adv, _predict(classifier, x_adv)


def _predict(classifier: Any, x: np.ndarray) -> np.ndarray:
    """Returns the predicted class of each image."""

    def classes(x):
        return tf.argmax(
            checks.as_logits(classifier(x, training=False), classifier), -1
        )

    return map_batches(classes, x, batch_size=_BATCH_SIZE)
