"""What an attack climbs: per-example values of adversarial images.

An objective is a function (classifier, x, y, seed) -> value, where
value(x_adv [batch, k, ...]) gives the values [batch, k] and the logits
[batch, k, classes] on the way to them, by which an attack knows the strongest
image it has met. What does not depend on x_adv (a target, the clean logits) is
worked out once, before the loop.

    value = cross_entropy(classifier, x, y, seed=seed)
    values, logits = value(x_adv)

Parts: `cross_entropy`, `targeted_cross_entropy`, `margin(confidence)`,
`kl_from_clean`, `transport_distance`, `feature_similarity(targets)`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import checks, configs, networks, precision, seeds
from adt_tf.kernels import transport

Value = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
Objective = Callable[..., Value]


def logits_of(
    classifier: Any, x: tf.Tensor, *, training: bool = False
) -> tf.Tensor:
    """Runs the classifier on images [batch, k, ...] -> [batch, k, classes]."""
    shape = tf.shape(x)
    flat = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    flat = tf.ensure_shape(flat, [None, *x.shape[2:]])

    def run(images):
        return tf.cast(classifier(images, training=training), tf.float32)

    logits = run(flat) if training else precision.guarded(classifier, run, flat)
    if len(logits.shape) != 2:
        raise ValueError(
            "The classifier must return logits of shape (batch, classes). "
            f"Received: shape={tuple(logits.shape)} for images of shape "
            f"{tuple(x.shape[2:])}; end it with pooling or Flatten and a "
            "Dense layer without activation."
        )
    return tf.reshape(logits, [shape[0], shape[1], logits.shape[-1]])


def cross_entropy_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Cross-entropy [batch, k] of logits [batch, k, classes], y [batch]."""
    labels = tf.repeat(y[:, tf.newaxis], tf.shape(logits)[1], axis=1)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits
    )


def margin_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """max_{c != y} z_c - z_y [batch, k], above 0 where the prediction is wrong.

    Args:
        logits: [batch, k, classes].
        y: Labels [batch].
    """
    is_true = tf.one_hot(y, logits.shape[-1], True, False)[:, tf.newaxis]
    true = tf.reduce_sum(tf.where(is_true, logits, 0.0), axis=-1)
    other = tf.where(is_true, logits.dtype.min, logits)
    return tf.reduce_max(other, axis=-1) - true


def kl_divergence_of(clean_logits: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """KL(clean || adversarial) over the last axis; the other axes broadcast.

        sum_c p_c (log p_c - log q_c),   p of `clean_logits`, q of `logits`

    Logarithms of softmax stay finite where a probability underflows to 0.
    """
    log_p = tf.nn.log_softmax(clean_logits)
    log_q = tf.nn.log_softmax(logits)
    return tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1)


def cross_entropy(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """The loss of the true class, which FGSM, PGD, MIM and EXP climb."""
    del x, seed
    return _of_logits(classifier, lambda z: cross_entropy_of(z, y))


def targeted_cross_entropy(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """Minus the loss of a class drawn uniformly among the wrong ones.

    Reference: Kurakin et al., Adversarial Machine Learning at Scale, 2017.
    """
    num_classes = logits_of(classifier, x[:, tf.newaxis]).shape[-1]
    offset = seeds.per_example(
        lambda s: tf.random.stateless_uniform(
            [], s, 1, num_classes, dtype=tf.int32
        ),
        x,
        seed,
        dtype=tf.int32,
    )
    target = (tf.cast(y, tf.int32) + offset) % num_classes
    return _of_logits(classifier, lambda z: -cross_entropy_of(z, target))


@configs.recorded
def margin(confidence: float = 50.0) -> Objective:
    """Carlini and Wagner's margin, climbed until it reaches `confidence`.

        value = -max(z_y - max_{c != y} z_c + confidence, 0)

    Args:
        confidence: The margin of the wrong class at which the climb ends.

    Reference: Carlini and Wagner, Towards Evaluating the Robustness of
    Neural Networks, 2017; the paper uses a confidence of 50.
    """

    def objective(classifier, x, y, *, seed):
        del x, seed
        return _of_logits(
            classifier, lambda z: -tf.nn.relu(confidence - margin_of(z, y))
        )

    objective.__name__ = f"margin({confidence:g})"
    return objective


def kl_from_clean(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """How far the predicted distribution is from that of the clean image.

        value = sum_c p_c(x) (log p_c(x) - log p_c(x_adv))

    The direction is that of TRADES' code: the clean prediction is the target.
    The value is least, with a gradient of zero, at x_adv = x: climb it from a
    random start or with a distribution that has some width.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    del y, seed
    clean = tf.stop_gradient(logits_of(classifier, x[:, tf.newaxis]))
    return _of_logits(classifier, lambda z: kl_divergence_of(clean, z))


def transport_distance(
    classifier: Any,
    x: tf.Tensor,
    y: tf.Tensor,
    *,
    seed: tf.Tensor,
    regularization: float = 0.01,
    num_iterations: int = 50,
) -> Value:
    """The optimal-transport distance of the batch's logits from the clean ones.

        value_i = sum_j P_ij (1 - cos(z(x_adv_i), z(x_j)))

    with the plan P of `adt_tf.kernels.transport`, one for each of the k
    samples. The values of a batch add up to its distance, so each is of the
    order of 1 / batch.

    This is the one objective that couples the examples of a batch: an image
    may move towards the logits of any other, so the result for one depends on
    which others it is attacked with. The features are the logits, as in the
    authors' code (the paper says feature space). Start at random, as they do:
    at x_adv = x an image's distance from itself has no gradient.

    Args:
        classifier: From images to logits.
        x: Clean images [batch, ...].
        y: Not used: the objective needs no labels.
        seed: Not used.
        regularization: Weight of the plan's entropy.
        num_iterations: Sinkhorn's iterations.

    Reference: Zhang and Wang, Defense Against Adversarial Attacks Using
    Feature Scattering-based Adversarial Training, 2019.
    """
    del y, seed
    clean = tf.stop_gradient(logits_of(classifier, x[:, tf.newaxis])[:, 0])

    def distance(logits):
        costs = transport.transport_costs(
            tf.transpose(logits, [1, 0, 2]),
            clean,
            regularization=regularization,
            num_iterations=num_iterations,
        )
        return tf.transpose(costs)

    return _of_logits(classifier, distance)


transport_distance.couples_examples = True


def couples_examples(objective: Objective) -> bool:
    """Says whether the value of an example depends on others in its batch.

    An objective of your own that does sets `objective.couples_examples = True`:
    otherwise parts of a batch may be attacked apart.
    """
    while isinstance(objective, functools.partial):
        objective = objective.func
    return getattr(objective, "couples_examples", False)


@configs.recorded
def feature_similarity(
    targets: tuple[Any, Any], *, features: str = "map"
) -> Objective:
    """The cosine of the features of x_adv and of an image of another class.

        value = <h(x_adv), h(x')> / (|h(x_adv)| |h(x')|)

    h is the feature map before the global pooling, or the logits. The target
    x' is drawn, for each example, among the targets of other classes.

    Args:
        targets: (images, labels) to draw from, such as the test set.
        features: "map"; or "logits", for a classifier that is no functional
            Keras model, so that its feature map cannot be had.

    Reference: Lin et al., a feature attack on feature scattering, 2019.
    """
    if features not in ("map", "logits"):
        raise ValueError(
            "Argument `features` must be 'map' or 'logits'. Received: "
            f"features={features!r}"
        )
    pool = tuple(
        tf.convert_to_tensor(part) for part in checks.as_batch(*targets)
    )

    def objective(classifier, x, y, *, seed):
        both = _features_and_logits(classifier, features)
        images, labels = pool
        scores = seeds.per_example(
            lambda s: tf.random.stateless_uniform(tf.shape(labels), s), x, seed
        )
        other = labels[tf.newaxis] != tf.cast(y, labels.dtype)[:, tf.newaxis]
        chosen = tf.argmax(tf.where(other, scores, -1.0), axis=-1)
        wanted = tf.stop_gradient(
            _unit(both(tf.gather(images, chosen), training=False)[0])
        )

        def value(x_adv):
            shape = tf.shape(x_adv)
            flat = tf.reshape(x_adv, tf.concat([[-1], shape[2:]], axis=0))
            features, logits = both(
                tf.ensure_shape(flat, [None, *x_adv.shape[2:]]), training=False
            )
            features = tf.reshape(_unit(features), [shape[0], shape[1], -1])
            values = tf.einsum("bkd,bd->bk", features, wanted)
            logits = tf.cast(logits, tf.float32)
            return values, tf.reshape(
                logits, [shape[0], shape[1], logits.shape[-1]]
            )

        return value

    def check(classifier):
        if features == "map":
            _features_and_logits(classifier, features)

    kind = "feature" if features == "map" else "logit"
    objective.__name__ = f"{kind}_similarity({len(pool[1])} targets)"
    objective.check = check
    return objective


def _features_and_logits(classifier: Any, features: str) -> Any:
    """Returns a function of images that gives (features, logits)."""
    if features == "logits":

        def both(images, training):
            logits = classifier(images, training=training)
            return logits, logits

        return both
    try:
        return networks.feature_extractor(classifier, with_outputs=True)
    except ValueError as error:
        raise ValueError(
            "FeaAttack cannot find the classifier's feature map; with "
            '`attacks.fea(..., features="logits")` it takes the logits in its '
            f"place. {error}"
        ) from error


def _unit(features: tf.Tensor) -> tf.Tensor:
    """Flattens and normalises each example's features."""
    features = tf.cast(features, tf.float32)
    size = math.prod(features.shape[1:])
    return tf.math.l2_normalize(tf.reshape(features, [-1, size]), axis=-1)


def _of_logits(
    classifier: Any, values: Callable[[tf.Tensor], tf.Tensor]
) -> Value:
    def value(x_adv):
        logits = logits_of(classifier, x_adv)
        return values(logits), logits

    return value
