import functools

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from adt_tf import attacks, objectives, seeds
from adt_tf.kernels import transport
from adt_tf.threat_models import Linf


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


@pytest.mark.parametrize("num_classes", [2, 3, 4, 6])
def test_functions_of_logits_take_samples_as_rows(num_classes):
    generator = np.random.default_rng(0)
    logits = tf.constant(generator.normal(size=(5, 3, num_classes)), tf.float32)
    y = tf.constant(generator.integers(0, num_classes, 5), tf.int32)
    target = (y + 1) % num_classes
    for function, labels in (
        (objectives.cross_entropy_of, [y]),
        (objectives.margin_of, [y]),
        (objectives.dlr_of, [y]),
        (objectives.targeted_dlr_of, [y, target]),
    ):
        together = function(logits, *labels)
        assert together.shape == (5, 3)
        for k in range(3):
            np.testing.assert_array_equal(
                together[:, k], function(logits[:, k], *labels)
            )


def test_a_function_of_logits_becomes_an_objective(case):
    classifier, x, y, x_adv, logits = case

    def first_logit(logits, y):
        assert logits.shape == (10, 3) and y.shape == (10,)
        return logits[:, 0]

    objective = objectives.get(first_logit)
    assert objective.name == "first_logit" and not objective.couples_examples
    value = objective(classifier, x, y, seed=seeds.make(0))
    np.testing.assert_allclose(
        value(x_adv)[0], logits[:, :, 0], rtol=1e-4, atol=1e-5
    )
    assert objectives.get(objective) is objective
    renamed = objectives.of_logits(first_logit, name="other")
    assert renamed.name == "other"


def test_a_curried_function_becomes_an_objective(case):
    classifier, x, y, x_adv, _ = case

    def mine(classifier, x, y, *, seed):
        return objectives.cross_entropy(classifier, x, y, seed=seed)

    mine.couples_examples = True
    refused = []
    mine.check = refused.append
    for function in (mine, functools.partial(mine, seed=None)):
        objective = objectives.get(function)
        assert objective.couples_examples
        assert objectives.couples_examples(function)
        objective.check("a classifier")
        value = objective(classifier, x, y, seed=seeds.make(0))
        expected = objectives.cross_entropy(
            classifier, x, y, seed=seeds.make(0)
        )
        np.testing.assert_array_equal(value(x_adv)[0], expected(x_adv)[0])
    assert refused == ["a classifier"] * 2
    assert objectives.get(mine).name == "mine"
    with pytest.raises(ValueError, match="Received: objective='margin'"):
        objectives.get("margin")


@pytest.mark.parametrize(
    "objective",
    [
        objectives.dlr,
        objectives.dlr_of,
        objectives.margin(5.0),
        objectives.kl_from_clean,
        objectives.targeted_cross_entropy,
    ],
    ids=lambda objective: objectives.get(objective).name,
)
def test_both_ascents_climb_the_same_objectives(
    objective, convolutional, images
):
    x, y = map(tf.constant, images)
    threat_model = Linf(0.1)
    found = [
        attack(convolutional, x, y).x_adv
        for attack in (
            attacks.pgd(threat_model, num_steps=5, objective=objective),
            attacks.APGD(threat_model, objective, num_steps=5),
        )
    ]
    for x_adv in found:
        threat_model.check(x, x_adv)
        clean, attacked = (
            objectives.cross_entropy_of(convolutional(part), y)
            for part in (x, x_adv)
        )
        assert float(tf.reduce_sum(attacked)) > float(tf.reduce_sum(clean))


def test_objectives_with_the_same_data_are_equal():
    assert objectives.margin(1.0) == objectives.margin(1.0)
    assert objectives.margin(1.0) != objectives.margin(2.0)
    assert objectives.margin(1.0).name == "margin(1)"
    assert objectives.of_logits(objectives.dlr_of) == objectives.get(
        objectives.dlr_of
    )


def test_features_are_named_at_the_boundary(images):
    with pytest.raises(ValueError, match="Received: features='pixels'"):
        objectives.feature_similarity(images, features="pixels")
    plain = objectives.feature_similarity(images, features="logits")
    same = objectives.feature_similarity(images, features=plain.features)
    assert same.name == plain.name
    assert plain.name == "logit_similarity(12 targets)"
