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
    found, _, _ = estimator.estimate(climbed, x, noise)
    error = (found.numpy() - expected).reshape(12, -1)
    # Of component j each term is g_j + sum_{i != j} g_i v_i v_j, whose variance
    # is |g|^2 - g_j^2.
    flat = expected.reshape(12, -1)
    variance = (np.square(flat).sum(1, keepdims=True) - flat**2) / num_samples
    scores = error / np.sqrt(variance)
    assert abs(scores.mean()) < 0.3
    # All images share the directions, and the loss is not quite linear.
    assert 0.8 < np.sqrt(np.square(scores).mean()) < 1.25


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
