import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import step_rules
from adt_tf.threat_models import Linf
from tests.support.euclidean import Euclidean

THREAT_MODEL = Linf(0.4)


def run(rule, gradients, start):
    params = tf.constant(start)
    state = rule.init(params)
    for gradient in gradients:
        params, state = rule.update(
            params, tf.constant(gradient), state, THREAT_MODEL
        )
    return params.numpy()


@pytest.fixture
def gradients():
    generator = np.random.default_rng(0)
    return generator.normal(size=(6, 3, 4, 4, 1)).astype("float32")


START = np.full((3, 4, 4, 1), 0.5, "float32")


def test_sign(gradients):
    expected = START + 0.1 * np.sign(gradients).sum(0)
    np.testing.assert_allclose(
        run(step_rules.sign(0.1), gradients, START), expected, rtol=1e-5
    )
    for rule in (step_rules.steepest(share=0.25), step_rules.steepest()):
        np.testing.assert_array_equal(
            run(rule, gradients, START),
            run(step_rules.steepest(0.1), gradients, START),
        )


def test_a_share_follows_epsilon_into_a_graph():
    rule = step_rules.steepest(share=0.5)

    @tf.function
    def moved(share):
        threat_model = THREAT_MODEL.scaled(share)
        return rule.update(tf.zeros([1, 1]), tf.ones([1, 1]), (), threat_model)

    for share in (1.0, 0.25):
        np.testing.assert_allclose(moved(share)[0], [[0.2 * share]], rtol=1e-6)


def test_rules_with_the_same_data_are_equal():
    assert step_rules.momentum(0.1) == step_rules.momentum(0.1)
    assert step_rules.momentum(0.1) != step_rules.momentum(0.2)
    assert step_rules.steepest(share=0.1) != step_rules.steepest(0.1)
    assert hash(step_rules.adam(0.3)) == hash(step_rules.adam(0.3))


def test_rules_describe_the_step_that_they_take():
    rule = step_rules.momentum(decay=0.5)
    assert rule.describe(THREAT_MODEL) == "accumulate(sign(0.1), 0.5)"
    rule = step_rules.steepest()
    assert rule.describe(Euclidean(0.4)) == "steepest(0.1)"
    assert step_rules.adam(0.3).describe(THREAT_MODEL) == "adam(0.3, 0, 0)"


def test_momentum_normalises_each_example(gradients):
    # Gradients of very different sizes must weigh the same.
    gradients = gradients * np.array([1, 1e3, 1e-3]).reshape(3, 1, 1, 1)
    gradients = gradients.astype("float32")
    average, expected = 0, START.copy()
    for gradient in gradients:
        scale = np.abs(gradient).mean((1, 2, 3), keepdims=True)
        average = 0.9 * average + gradient / scale
        expected += 0.1 * np.sign(average)
    actual = run(step_rules.momentum(0.1, decay=0.9), gradients, START)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_momentum_of_a_zero_gradient_stays_put():
    zeros = np.zeros((2, *START.shape), "float32")
    np.testing.assert_array_equal(
        run(step_rules.momentum(0.1), zeros, START), START
    )


@pytest.mark.parametrize("betas", [(0.0, 0.0), (0.9, 0.999), (0.5, 0.9)])
def test_adam_matches_keras(gradients, betas):
    variable = keras.Variable(START)
    optimizer = keras.optimizers.Adam(0.3, *betas, epsilon=1e-8)
    for gradient in gradients:
        optimizer.apply([-tf.constant(gradient)], [variable])
    np.testing.assert_allclose(
        run(step_rules.adam(0.3, *betas), gradients, START),
        variable,
        rtol=2e-3,
    )


def test_adam_with_betas_zero_is_a_sign_step_that_fades():
    gradient = np.array([[1.0, -1e-3, 1e-8, 0.0]], "float32")
    moved = run(step_rules.adam(0.3), [gradient], np.zeros((1, 4), "float32"))
    np.testing.assert_allclose(moved, [[0.3, -0.3, 0.15, 0.0]], rtol=1e-3)


def test_accumulate_adds_up_the_gradients(gradients):
    rule = step_rules.accumulate(step_rules.sign(0.1), 1.0)
    expected = START + 0.1 * np.sign(np.cumsum(gradients, 0)).sum(0)
    np.testing.assert_allclose(run(rule, gradients, START), expected, rtol=1e-5)


def test_rules_take_nests(gradients):
    params = {"mu": tf.constant(START), "rho": tf.constant(START)}
    given = {"mu": gradients[0], "rho": gradients[1]}
    for rule in (step_rules.sign(0.1), step_rules.adam(0.1)):
        moved, _ = rule.update(params, given, rule.init(params), THREAT_MODEL)
        for name in params:
            expected = START + 0.1 * np.sign(given[name])
            np.testing.assert_allclose(moved[name], expected, rtol=1e-3)


@pytest.mark.parametrize(
    "make", [step_rules.sign, step_rules.momentum, step_rules.adam]
)
def test_refuses_a_step_of_zero(make):
    with pytest.raises(ValueError, match="above 0. Received"):
        make(0.0)
