import functools

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from adt_tf import attacks, objectives, seeds
from adt_tf.kernels import transport


@pytest.fixture
def case(linear):
    generator = np.random.default_rng(2)
    x = generator.uniform(size=(5, 4, 4, 1)).astype("float32")
    x_adv = generator.uniform(size=(5, 2, 4, 4, 1)).astype("float32")
    kernel, bias = linear.get_weights()
    logits = x_adv.reshape(5, 2, 16) @ kernel + bias
    y = np.array([0, 1, 2, 0, 1], "int32")
    return linear, tf.constant(x), tf.constant(y), x_adv, logits


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def take(values, y):
    return np.take_along_axis(values, y[:, None, None], -1)[..., 0]


def test_cross_entropy(case):
    classifier, x, y, x_adv, logits = case
    value = objectives.cross_entropy(classifier, x, y, seed=seeds.make(0))
    expected = -take(log_softmax(logits), y.numpy())
    np.testing.assert_allclose(value(x_adv)[0], expected, rtol=1e-4, atol=1e-6)


def test_targeted_cross_entropy_never_targets_the_truth(case):
    classifier, x, y, x_adv, logits = case
    seen = set()
    for number in range(20):
        value = objectives.targeted_cross_entropy(
            classifier, x, y, seed=seeds.make(number)
        )(x_adv)[0].numpy()
        for i, label in enumerate(y.numpy()):
            losses = log_softmax(logits)[i]
            error = np.abs(value[i][:, None] - losses).max(0)
            target = int(error.argmin())
            assert error[target] < 1e-4
            assert target != label
            seen.add((i, target))
    # Both wrong classes of each of the five examples are drawn at some time.
    assert len(seen) == 10


@pytest.mark.parametrize("confidence", [0.0, 1.0, 50.0])
def test_margin(case, confidence):
    classifier, x, y, x_adv, logits = case
    true = take(logits, y.numpy())
    others = logits.copy()
    np.put_along_axis(others, y.numpy()[:, None, None], -np.inf, -1)
    expected = -np.maximum(true - others.max(-1) + confidence, 0)
    value = objectives.margin(confidence)(classifier, x, y, seed=seeds.make(0))
    np.testing.assert_allclose(value(x_adv)[0], expected, rtol=1e-4, atol=1e-5)


def test_logits_must_be_a_matrix():
    def segments(x, training):
        return x

    with pytest.raises(ValueError, match="must return logits of shape"):
        objectives.logits_of(segments, tf.zeros([2, 1, 4, 4, 1]))


def linear_logits(classifier, x):
    kernel, bias = (w.astype("float64") for w in classifier.get_weights())
    return np.reshape(x, [len(x), -1]).astype("float64") @ kernel + bias


def test_kl_from_clean(case):
    classifier, x, y, x_adv, logits = case
    log_p = log_softmax(linear_logits(classifier, x.numpy()))[:, None]
    log_q = log_softmax(logits.astype("float64"))
    expected = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    value = objectives.kl_from_clean(classifier, x, y, seed=seeds.make(0))
    np.testing.assert_allclose(value(x_adv)[0], expected, rtol=1e-4, atol=1e-6)


def test_kl_from_clean_is_stationary_at_the_image(convolutional, images):
    x, y = map(tf.constant, images)
    value = objectives.kl_from_clean(convolutional, x, y, seed=seeds.make(0))
    x_adv = tf.repeat(x[:, tf.newaxis], 2, axis=1)
    with tf.GradientTape() as tape:
        tape.watch(x_adv)
        kl, _ = value(x_adv)
    np.testing.assert_allclose(kl, np.zeros([12, 2]), atol=1e-6)
    np.testing.assert_allclose(tape.gradient(kl, x_adv), 0 * x_adv, atol=1e-5)


def test_kl_is_finite_where_probabilities_underflow():
    clean = tf.constant([[1e4, 0.0, -1e4]])
    logits = tf.constant([[-1e4, 0.0, 1e4]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        kl = objectives.kl_divergence_of(clean, logits)
    np.testing.assert_allclose(kl, [2e4])
    np.testing.assert_allclose(tape.gradient(kl, logits), [[-1, 0, 1]])


def test_reference_logits_are_computed_once(case):
    classifier, x, y, x_adv, _ = case
    sizes = []

    def counted(images, training):
        assert not training
        sizes.append(len(images))
        return classifier(images, training=training)

    for objective in (
        objectives.kl_from_clean,
        objectives.transport_distance,
    ):
        sizes.clear()
        value = objective(counted, x, y, seed=seeds.make(0))
        value(x_adv)
        value(x_adv)
        assert sizes == [5, 10, 10]


def test_transport_distance_adds_up_for_each_sample(case):
    classifier, x, y, x_adv, logits = case
    value = objectives.transport_distance(classifier, x, y, seed=seeds.make(0))
    shares = value(x_adv)[0].numpy()
    assert shares.shape == (5, 2)
    clean = linear_logits(classifier, x.numpy()).astype("float32")
    for sample in range(2):
        np.testing.assert_allclose(
            shares[:, sample].sum(),
            tf.reduce_sum(transport.transport_costs(logits[:, sample], clean)),
            rtol=1e-4,
        )


def test_transport_distance_solves_the_assignment(case):
    classifier, x, y, x_adv, logits = case
    value = functools.partial(
        objectives.transport_distance, regularization=1e-3, num_iterations=500
    )(classifier, x, y, seed=seeds.make(0))
    shares = tf.function(value, autograph=False)(x_adv)[0].numpy()
    clean = linear_logits(classifier, x.numpy())
    clean /= np.linalg.norm(clean, axis=1, keepdims=True)
    for sample in range(2):
        z = logits[:, sample]
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        cost = 1 - z @ clean.T
        exact = cost[scipy.optimize.linear_sum_assignment(cost)] / 5
        np.testing.assert_allclose(shares[:, sample], exact, atol=2e-3)


def test_transport_distance_sends_gradients_to_every_image(case):
    classifier, x, y, x_adv, _ = case
    value = objectives.transport_distance(classifier, x, y, seed=seeds.make(0))
    x_adv = tf.constant(x_adv)
    with tf.GradientTape() as tape:
        tape.watch(x_adv)
        total = tf.reduce_sum(value(x_adv)[0])
    gradient = tape.gradient(total, x_adv).numpy()
    assert (np.abs(gradient).max(axis=(2, 3, 4)) > 1e-4).all()
    moved, _ = value(x_adv + 1e-2 * np.sign(gradient))
    assert float(tf.reduce_sum(moved)) > float(total)


@pytest.mark.parametrize(
    "objective", [objectives.kl_from_clean, objectives.transport_distance]
)
def test_xla_and_graph_agree_with_eager(objective, convolutional, images):
    x, y = map(tf.constant, images)
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, (12, 2, 8, 8, 1))
    x_adv = tf.constant(x[:, tf.newaxis] + noise, tf.float32)

    def run(x, y, x_adv):
        value = objective(convolutional, x, y, seed=seeds.make(0))
        with tf.GradientTape() as tape:
            tape.watch(x_adv)
            total, _ = value(x_adv)
        return total, tape.gradient(total, x_adv)

    expected = run(x, y, x_adv)
    assert np.abs(expected[1]).max() > 1e-4
    for jit_compile in (False, True):
        got = tf.function(run, jit_compile=jit_compile, autograph=False)(
            x, y, x_adv
        )
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


def test_transport_distance_climbs_in_the_loop(convolutional, images):
    x, y = map(tf.constant, images)
    attack = attacks.pgd(
        0.1, num_steps=10, objective=objectives.transport_distance
    )
    distance = objectives.transport_distance(
        convolutional, x, y, seed=seeds.make(0)
    )
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, x.shape)
    start = np.clip(x + noise, 0, 1).astype("float32")
    for jit_compile in (False, True):
        x_adv = attack(convolutional, x, y, jit_compile=jit_compile).x_adv
        found, random = (
            float(tf.reduce_sum(distance(tf.constant(images)[:, None])[0]))
            for images in (x_adv, start)
        )
        assert found > 2 * random
