"""The objective of FeaAttack: similarity to features of another class."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar

import tensorflow as tf

from adt_tf import checks, networks, seeds
from adt_tf.configs import Configured
from adt_tf.kernels import twins
from adt_tf.objectives.base import Objective, Value


@dataclasses.dataclass(frozen=True)
class Features(Configured, abc.ABC):
    """The features of a classifier that are compared.

    Attributes:
        kind: Name of the features in reports.
        suffix: End of the name of an attack on them.
    """

    kind: ClassVar[str]
    suffix: ClassVar[str] = ""

    @abc.abstractmethod
    def extractor(self, classifier: Any) -> Any:
        """Returns a function (images, training) -> (features, logits)."""

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the classifier has no such features."""
        self.extractor(classifier)


@dataclasses.dataclass(frozen=True)
class FeatureMap(Features):
    """The feature map before the global pooling."""

    kind = "feature"

    def extractor(self, classifier: Any) -> Any:
        """Returns the feature map of a functional Keras model."""
        try:
            return networks.feature_extractor(classifier, with_outputs=True)
        except ValueError as error:
            raise ValueError(
                "FeaAttack cannot find the classifier's feature map; use "
                '`attacks.fea(..., features="logits")` to compare logits '
                f"instead. {error}"
            ) from error


@dataclasses.dataclass(frozen=True)
class PooledFeatureMap(FeatureMap):
    """The mean of the feature map over its positions, as in released code."""

    kind = "pooled_feature"
    suffix = " (pooled)"

    def extractor(self, classifier: Any) -> Any:
        """Returns the pooled feature map."""
        extract = super().extractor(classifier)

        def both(
            images: tf.Tensor, training: bool
        ) -> tuple[tf.Tensor, tf.Tensor]:
            features, logits = twins.fast(extract)(images, training=training)
            features = tf.cast(features, tf.float32)
            positions = list(range(1, len(features.shape) - 1))
            return tf.reduce_mean(features, axis=positions), logits

        return both


@dataclasses.dataclass(frozen=True)
class Logits(Features):
    """The logits, for a classifier that is not a functional Keras model."""

    kind = "logit"
    suffix = " (logits)"

    def extractor(self, classifier: Any) -> Any:
        """Returns the logits, as features and as logits."""

        def both(
            images: tf.Tensor, training: bool
        ) -> tuple[tf.Tensor, tf.Tensor]:
            logits = twins.fast(classifier)(images, training=training)
            logits = checks.as_logits(logits, classifier)
            return logits, logits

        return both


_FEATURES = {
    "map": FeatureMap(),
    "pooled": PooledFeatureMap(),
    "logits": Logits(),
}


def get_features(features: str | Features) -> Features:
    """Returns the features of a name: "map", "pooled" or "logits"."""
    if isinstance(features, Features):
        return features
    if features not in _FEATURES:
        raise ValueError(
            "Argument `features` must be 'map', 'pooled' or 'logits'. "
            f"Received: features={features!r}"
        )
    return _FEATURES[features]


class FeatureSimilarity(Objective):
    """The cosine between the features of x_adv and of a target image.

        value = <h(x_adv), h(x')> / (|h(x_adv)| |h(x')|)

    h is the feature map before the global pooling, its mean over positions (the
    form of the released code), or the logits. The target x' of each example is
    drawn from the targets of other classes.

    Args:
        targets: (images, labels) to draw from, such as the test set.
        features: "map" or "pooled"; or "logits", for a classifier that is not
            a functional Keras model, whose feature map is not accessible.

    Reference: Lin et al., a feature attack on feature scattering, 2019.
    """

    def __init__(
        self, targets: tuple[Any, Any], *, features: str | Features = "map"
    ) -> None:
        self.features = get_features(features)
        images, labels = checks.as_batch(*targets)
        self.targets = (images, checks.classes_of(labels))
        size = len(self.targets[1])
        self.name = f"{self.features.kind}_similarity({size} targets)"

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the classifier has no such features."""
        self.features.check(classifier)

    def __call__(
        self, classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
    ) -> Value:
        """Draws the targets, and returns the similarity to them."""
        both = self.features.extractor(classifier)
        images, labels = self.targets
        scores = seeds.per_example(
            lambda s: tf.random.stateless_uniform(tf.shape(labels), s), x, seed
        )
        classes = tf.cast(checks.classes_of(y), labels.dtype)
        other = labels[tf.newaxis] != classes[:, tf.newaxis]
        index = tf.argmax(tf.where(other, scores, -1.0), axis=-1)
        target = tf.stop_gradient(
            _unit(both(tf.gather(images, index), training=False)[0])
        )

        def value(x_adv: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            shape = tf.shape(x_adv)
            flat = tf.reshape(x_adv, tf.concat([[-1], shape[2:]], axis=0))
            features, logits = twins.fast(both)(
                tf.ensure_shape(flat, [None, *x_adv.shape[2:]]), training=False
            )
            features = tf.reshape(_unit(features), [shape[0], shape[1], -1])
            values = tf.einsum("bkd,bd->bk", features, target)
            logits = checks.as_logits(logits, classifier)
            return values, tf.reshape(
                logits, [shape[0], shape[1], logits.shape[-1]]
            )

        return value


feature_similarity = FeatureSimilarity


def pooled_feature_similarity(targets: tuple[Any, Any]) -> FeatureSimilarity:
    """The cosine of the features after the global pooling.

    This is the form of the paper's released code; the paper takes the features
    before the pooling.

    Args:
        targets: (images, labels) to draw from, such as the test set.
    """
    return FeatureSimilarity(targets, features="pooled")


def _unit(features: tf.Tensor) -> tf.Tensor:
    """Flattens and normalises each example's features."""
    features = tf.cast(features, tf.float32)
    size = math.prod(features.shape[1:])
    return tf.math.l2_normalize(tf.reshape(features, [-1, size]), axis=-1)
