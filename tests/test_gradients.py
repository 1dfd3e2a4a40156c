"""Gradient estimators against the gradients they estimate."""

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, gradients, objectives, seeds


def setting(convolutional, images):
    x, y = map(tf.constant, images)
    value = objectives.cross_entropy(convolutional, x, y, seed=None)

    def climbed(params, offset):
        x_adv = params[:, tf.newaxis]
        moved = x_adv if offset is None else x_adv + offset
        values, logits = value(moved)
        return values, x_adv, logits

    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(value(x[:, tf.newaxis])[0])
    return x, climbed, tape.gradient(loss, x).numpy()


def test_backpropagation_is_the_gradient(convolutional, images):
    x, climbed, expected = setting(convolutional, images)
    found, x_adv, logits = gradients.backpropagation().estimate(climbed, x, ())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(x_adv[:, 0], x)
    assert logits.shape == (12, 1, 10)


@pytest.mark.parametrize("num_samples", [64, 1024])
def test_spsa_is_right_within_its_standard_error(
    num_samples, convolutional, images
):
    x, climbed, expected = setting(convolutional, images)
    estimator = gradients.spsa(num_samples, 1e-3)
    noise = estimator.noise(x, seeds.make(3))
    assert set(np.unique(noise)) == {-1.0, 1.0}
    assert noise.shape == (1, num_samples // 2, 8, 8, 1)
    found, _, _ = estimator.estimate(climbed, x, noise)
    error = (found.numpy() - expected).reshape(12, -1)
    # Of component j each term is g_j + sum_{i != j} g_i v_i v_j, whose variance
    # is |g|^2 - g_j^2.
    flat = expected.reshape(12, -1)
    variance = np.square(flat).sum(1, keepdims=True) - flat**2
    variance /= num_samples // 2
    scores = error / np.sqrt(variance)
    assert abs(scores.mean()) < 0.3
    # All images share the directions, and the loss is not quite linear.
    assert 0.8 < np.sqrt(np.square(scores).mean()) < 1.25


@pytest.mark.parametrize("num_samples", [2, 256])
def test_spsa_asks_for_as_many_values_as_its_name_says(num_samples, images):
    """And averages v (f+ - f-) / 2r over the pairs, as computed by NumPy."""
    x = tf.constant(images[0])
    asked = []

    def climbed(params, offset):
        x_adv = params[:, tf.newaxis]
        moved = x_adv if offset is None else x_adv + offset
        if offset is not None:
            asked.append(moved)
        values = tf.reduce_sum(tf.sin(3 * moved), axis=[2, 3, 4])
        return values, x_adv, values

    estimator = gradients.spsa(num_samples, 0.01)
    noise = estimator.noise(x, seeds.make(0))
    found, _, _ = estimator.estimate(climbed, x, noise)
    (queries,) = asked
    assert queries.shape[1] == num_samples == estimator.images_per_example
    directions = noise.numpy()[0].astype("float64")
    expected = np.zeros(x.shape)
    for v in directions:
        plus, minus = (
            np.sin(3 * (images[0] + side * 0.01 * v)).sum(axis=(1, 2, 3))
            for side in (1, -1)
        )
        slope = (plus - minus)[:, None, None, None] / 0.02
        expected += slope * v / (num_samples / 2)
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("num_samples", [0, 1, 7, -2, 2.0])
def test_spsa_makes_its_queries_in_pairs(num_samples):
    with pytest.raises(ValueError, match="must be an even number of queries"):
        attacks.spsa(0.1, num_samples=num_samples)


def test_spsa_does_not_look_at_gradients(images):
    kernel = np.random.default_rng(0).normal(size=(64, 10)).astype("float32")

    @tf.custom_gradient
    def opaque(x):
        logits = tf.reshape(x, [-1, 64]) @ kernel
        return logits, lambda upstream: tf.zeros_like(x) * np.nan

    class Black:
        def __call__(self, x, training=False):
            return opaque(x)

    x, _ = images
    black = Black()
    y = black(tf.constant(x)).numpy().argmax(-1).astype("int32")
    attack = attacks.spsa(0.1, num_samples=64, num_steps=30)
    x_adv = attack(black, x, y).x_adv
    assert (black(x_adv).numpy().argmax(-1) != y).all()


def test_without_gradients_backpropagation_is_blind_not_broken(images):
    class Rounded:
        def __call__(self, x, training=False):
            return tf.cast(
                tf.round(tf.reshape(x, [-1, 64]))[:, :10], tf.float32
            )

    x, y = images
    x_adv = attacks.fgsm(0.1)(Rounded(), x, y).x_adv
    np.testing.assert_array_equal(x_adv, x)
