import numpy as np
import pytest
import tensorflow as tf

from adt_tf import objectives, seeds


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
    np.testing.assert_allclose(value(x_adv), expected, rtol=1e-4, atol=1e-6)


def test_targeted_cross_entropy_never_targets_the_truth(case):
    classifier, x, y, x_adv, logits = case
    seen = set()
    for number in range(20):
        value = objectives.targeted_cross_entropy(
            classifier, x, y, seed=seeds.make(number)
        )(x_adv).numpy()
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
    np.testing.assert_allclose(value(x_adv), expected, rtol=1e-4, atol=1e-5)


def test_logits_must_be_a_matrix():
    def segments(x, training):
        return x

    with pytest.raises(ValueError, match="must return logits of shape"):
        objectives.logits_of(segments, tf.zeros([2, 1, 4, 4, 1]))
