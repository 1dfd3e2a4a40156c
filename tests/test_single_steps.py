"""The single-step methods, beside their closed forms and limits."""

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, methods, seeds
from adt_tf.threat_models import L2, Linf
from tests.support.models import make_linear

EPSILON = 0.1
SEED = seeds.make(5)


@pytest.fixture
def batch():
    """Images in the middle of the box, so that no bound is met."""
    generator = np.random.default_rng(2)
    x = generator.uniform(0.4, 0.6, size=(6, 4, 4, 1)).astype("float32")
    return tf.constant(x), tf.constant([0, 1, 2, 0, 1, 2])


def slopes(classifier, x, y):
    """The gradient of the cross-entropy of a linear classifier, in NumPy."""
    kernel, bias = (w.astype("float64") for w in classifier.get_weights())
    logits = np.reshape(x, [len(x), -1]) @ kernel + bias
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return ((shares - np.eye(3)[y]) @ kernel.T).reshape(x.shape)


def test_fgsm_rs_by_hand(batch):
    x, y = batch
    classifier, attack = make_linear(), methods.fgsm_rs(EPSILON).attack
    start = Linf(EPSILON).random_start(x, seeds.fold(SEED, -2)).numpy()
    assert 0.9 * EPSILON < np.abs(start - x).max() <= EPSILON + 1e-6
    moved = start + 1.25 * EPSILON * np.sign(slopes(classifier, start, y))
    expected = np.clip(moved, x - EPSILON, x + EPSILON)
    got = attack.solve(classifier, x, y, seed=SEED)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_n_fgsm_by_hand(batch):
    """Noise of up to two epsilons, then a step of one; no projection."""
    x, y = batch
    classifier, attack = make_linear(), methods.n_fgsm(EPSILON).attack
    start = Linf(2 * EPSILON).random_start(x, seeds.fold(SEED, -2)).numpy()
    expected = start + EPSILON * np.sign(slopes(classifier, start, y))
    got = attack.solve(classifier, x, y, seed=SEED).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert 2 * EPSILON < np.abs(got - x).max() <= 3 * EPSILON + 1e-6


@pytest.mark.parametrize("ball", [Linf(EPSILON), L2(0.3)])
def test_n_fgsm_without_noise_is_fgsm(ball, batch):
    x, y = batch
    classifier = make_linear()
    ours, theirs = (
        attack.solve(classifier, x, y, seed=SEED)
        for attack in (
            methods.n_fgsm(ball, noise_share=0.0).attack,
            attacks.fgsm(ball),
        )
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_epsilon_scales_noise_and_step(batch):
    x, y = batch
    classifier = make_linear()
    ours, theirs = (
        attack.solve(classifier, x, y, seed=SEED)
        for attack in (
            methods.n_fgsm(EPSILON).attack.scaled(0.5),
            methods.n_fgsm(EPSILON / 2).attack,
        )
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    "arguments", [{"noise_share": -1.0}, {"step_share": 0.0}]
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be"):
        methods.n_fgsm(EPSILON, **arguments)
