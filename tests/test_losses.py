import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import losses
from tests.support.models import make_convolutional

LOSSES = {
    "cross_entropy": losses.cross_entropy,
    "smoothed": losses.smoothed_cross_entropy(0.5),
    "trades": losses.trades(6.0),
    "alp": losses.alp(),
    "mart": losses.mart(),
}


@pytest.fixture
def batch(linear):
    """A batch with two samples an image, and its logits in float64."""
    generator = np.random.default_rng(2)
    x = generator.uniform(size=(5, 4, 4, 1)).astype("float32")
    x_adv = generator.uniform(size=(5, 2, 4, 4, 1)).astype("float32")
    y = np.array([0, 1, 2, 0, 1], "int32")
    kernel, bias = (w.astype("float64") for w in linear.get_weights())
    clean = x.reshape(5, 16) @ kernel + bias
    logits = x_adv.reshape(5, 2, 16) @ kernel + bias
    return tuple(map(tf.constant, (x, x_adv, y))), clean, logits


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def cross_entropy(logits, y):
    return -np.array(
        [log_softmax(z)[..., c] for z, c in zip(logits, y, strict=True)]
    )


def run(loss, classifier, x, x_adv, y, training=True):
    with tf.GradientTape() as tape:
        outcome = loss(classifier, x, x_adv, y, training=training)
        total = tf.reduce_mean(outcome.value)
    return outcome, tape.gradient(total, classifier.trainable_variables)


def noisy(images, num_samples=2):
    x, y = images
    noise = np.random.default_rng(0).uniform(
        -0.1, 0.1, (len(x), num_samples, *x.shape[1:])
    )
    x_adv = (x[:, None] + noise).astype("float32")
    return tuple(map(tf.constant, (x, x_adv, y)))


def assert_all_close(got, expected, **tolerances):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, **tolerances)


def test_cross_entropy_by_hand(linear, batch):
    (x, x_adv, y), _, logits = batch
    outcome = losses.cross_entropy(linear, x, x_adv, y, training=True)
    expected = cross_entropy(logits, y.numpy()).mean(1)
    np.testing.assert_allclose(outcome.value, expected, rtol=1e-4)


@pytest.mark.parametrize("label_smoothing", [0.1, 0.5])
def test_smoothing_by_hand(linear, batch, label_smoothing):
    (x, x_adv, y), _, logits = batch
    loss = losses.smoothed_cross_entropy(label_smoothing)
    outcome = loss(linear, x, x_adv, y, training=True)
    # Three classes, so that each wrong one has half of the smoothing.
    targets = np.full([5, 3], label_smoothing / 2)
    targets[np.arange(5), y] = 1 - label_smoothing
    expected = -(targets[:, None] * log_softmax(logits)).sum(-1).mean(1)
    np.testing.assert_allclose(outcome.value, expected, rtol=1e-4)
    assert outcome.clean_logits is None


def test_no_smoothing_is_cross_entropy(convolutional, images):
    arguments = noisy(images)
    plain = run(losses.cross_entropy, convolutional, *arguments)
    smoothed = run(
        losses.smoothed_cross_entropy(0.0), convolutional, *arguments
    )
    np.testing.assert_allclose(plain[0].value, smoothed[0].value, rtol=1e-5)
    assert_all_close(smoothed[1], plain[1], rtol=1e-3, atol=1e-5)


def test_trades_by_hand(linear, batch):
    (x, x_adv, y), clean, logits = batch
    outcome = losses.trades(beta=3.0)(linear, x, x_adv, y, training=True)
    log_p, log_q = log_softmax(clean)[:, None], log_softmax(logits)
    kl = (np.exp(log_p) * (log_p - log_q)).sum(-1).mean(1)
    expected = cross_entropy(clean, y.numpy()) + 3 * kl
    np.testing.assert_allclose(outcome.value, expected, rtol=1e-4)
    np.testing.assert_allclose(outcome.clean_logits, clean, rtol=1e-4)
    np.testing.assert_allclose(outcome.adversarial_logits, logits, rtol=1e-4)


def test_trades_without_beta_is_standard_training(convolutional, images):
    x, x_adv, y = noisy(images)
    outcome, gradients = run(losses.trades(0.0), convolutional, x, x_adv, y)
    with tf.GradientTape() as tape:
        logits = convolutional(x, training=True)
        value = keras.losses.sparse_categorical_crossentropy(
            y, logits, from_logits=True
        )
        total = tf.reduce_mean(value)
    expected = tape.gradient(total, convolutional.trainable_variables)
    np.testing.assert_allclose(outcome.value, value, rtol=1e-5)
    assert_all_close(gradients, expected, rtol=1e-4, atol=1e-6)


def test_trades_sends_the_gradient_through_both_passes(linear, batch):
    (x, x_adv, y), clean, logits = batch
    _, (_, bias) = run(losses.trades(2.0), linear, x, x_adv, y)
    p, q = np.exp(log_softmax(clean)), np.exp(log_softmax(logits))
    log_ratio = log_softmax(clean)[:, None] - log_softmax(logits)
    kl = (p[:, None] * log_ratio).sum(-1, keepdims=True)
    # d KL / dz = p (log p/q - KL) of the clean and q - p of the other logits.
    both = p[:, None] * (log_ratio - kl) + q - p[:, None]
    expected = (p - np.eye(3)[y] + 2 * both.mean(1)).mean(0)
    np.testing.assert_allclose(bias, expected, rtol=1e-3, atol=1e-5)


def test_trades_normalises_each_pass_by_its_own_statistics(images):
    x, x_adv, y = noisy(images)
    classifier, reference = make_convolutional(), make_convolutional()
    outcome = losses.trades()(classifier, x, x_adv, y, training=True)
    clean = reference(x, training=True)
    flat = tf.reshape(x_adv, [24, 8, 8, 1])
    logits = tf.reshape(reference(flat, training=True), [12, 2, 10])
    np.testing.assert_allclose(outcome.clean_logits, clean, rtol=1e-4)
    np.testing.assert_allclose(
        outcome.adversarial_logits, logits, rtol=1e-3, atol=1e-4
    )
    # The moving averages have seen the clean, then the adversarial batch.
    assert_all_close(
        classifier.get_weights(), reference.get_weights(), rtol=1e-4, atol=1e-6
    )


def test_alp_by_hand(linear, batch):
    (x, x_adv, y), clean, logits = batch
    outcome = losses.alp(weight=0.7)(linear, x, x_adv, y, training=True)
    expected = (
        0.5 * cross_entropy(clean, y.numpy())
        + 0.5 * cross_entropy(logits, y.numpy()).mean(1)
        + 0.7 * ((clean[:, None] - logits) ** 2).mean((1, 2))
    )
    np.testing.assert_allclose(outcome.value, expected, rtol=1e-4)
    np.testing.assert_allclose(outcome.clean_logits, clean, rtol=1e-4)
    np.testing.assert_allclose(outcome.adversarial_logits, logits, rtol=1e-4)


def test_alp_normalises_the_mixed_batch(convolutional, images):
    x, x_adv, y = noisy(images, num_samples=1)
    outcome = losses.alp()(convolutional, x, x_adv, y, training=True)
    mixed = convolutional(tf.concat([x, x_adv[:, 0]], axis=0), training=True)
    np.testing.assert_allclose(
        outcome.clean_logits, mixed[:12], rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("name", ["trades", "alp"])
def test_clean_images_pay_no_penalty(convolutional, images, name):
    x, _, y = noisy(images)
    x_adv = tf.repeat(x[:, tf.newaxis], 3, axis=1)
    outcome = LOSSES[name](convolutional, x, x_adv, y, training=False)
    expected = losses.cross_entropy(convolutional, x, x_adv, y, training=False)
    np.testing.assert_allclose(
        outcome.value, expected.value, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", LOSSES)
def test_graph_and_xla_agree_with_eager(images, name):
    arguments = noisy(images)
    loss, classifier = LOSSES[name], make_convolutional()
    eager = run(loss, classifier, *arguments)
    assert eager[0].value.shape == (12,)
    assert eager[0].adversarial_logits.shape == (12, 2, 10)
    for jit_compile in (False, True):

        @tf.function(jit_compile=jit_compile, autograph=False)
        def compiled(x, x_adv, y):
            outcome, gradients = run(loss, classifier, x, x_adv, y)
            return outcome.value, gradients

        value, gradients = compiled(*arguments)
        np.testing.assert_allclose(value, eager[0].value, rtol=1e-3, atol=1e-4)
        assert_all_close(gradients, eager[1], rtol=1e-2, atol=1e-3)


def test_names_show_the_parameters():
    assert losses.trades(6.0).__name__ == "trades(beta=6)"
    assert "alp(weight=0.5)" in repr(losses.alp())
    assert "smoothed_cross_entropy(0.1)" in repr(
        losses.smoothed_cross_entropy(0.1)
    )


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: losses.trades(-1.0), "Argument `beta` must .* beta=-1.0"),
        (lambda: losses.trades(float("nan")), "beta=nan"),
        (lambda: losses.alp(-0.5), "Argument `weight` must .* weight=-0.5"),
        (lambda: losses.smoothed_cross_entropy(1.0), "label_smoothing=1.0"),
        (
            lambda: losses.smoothed_cross_entropy(-0.1),
            r"label_smoothing` must be a number in \[0, 1\)",
        ),
    ],
)
def test_bad_arguments(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_smoothing_of_one_logit_is_that_of_two():
    def single(x, training):
        return tf.zeros([len(x), 1])

    outcome = losses.smoothed_cross_entropy(0.3)(
        single,
        tf.zeros([2, 4, 4, 1]),
        tf.zeros([2, 1, 4, 4, 1]),
        tf.zeros([2], tf.int32),
        training=True,
    )
    np.testing.assert_allclose(outcome.value, np.log([2.0, 2.0]), rtol=1e-6)


def test_mart_by_hand(linear, batch):
    """The authors' formula in float64, without their 1e-4 in the logarithm."""
    (x, x_adv, y), clean, logits = batch
    outcome = losses.mart(3.0)(linear, x, x_adv, y, training=True)
    labels, expected = y.numpy(), np.zeros([5, 2])
    p = np.exp(log_softmax(clean))
    for i in range(5):
        for k in range(2):
            q = np.exp(log_softmax(logits[i, k]))
            rival = max(q[c] for c in range(3) if c != labels[i])
            boosted = -np.log(q[labels[i]]) - np.log(1 - rival)
            kl = (p[i] * (np.log(p[i]) - np.log(q))).sum()
            expected[i, k] = boosted + 3.0 * kl * (1 - p[i, labels[i]])
    np.testing.assert_allclose(outcome.sample_values, expected, rtol=1e-4)
    np.testing.assert_allclose(outcome.value, expected.mean(1), rtol=1e-4)


def test_mart_is_finite_where_a_wrong_class_is_certain(linear, batch):
    (x, x_adv, y), _, _ = batch
    kernel, bias = linear.get_weights()
    linear.set_weights([1e3 * kernel, bias])
    outcome, gradients = run(losses.mart(), linear, x, x_adv, y)
    assert np.isfinite(outcome.value).all()
    assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("name", LOSSES)
def test_value_is_the_mean_over_samples(name, linear, batch):
    (x, x_adv, y), _, _ = batch
    outcome = LOSSES[name](linear, x, x_adv, y, training=True)
    assert outcome.sample_values.shape == (5, 2)
    np.testing.assert_allclose(
        outcome.value, outcome.sample_values.numpy().mean(1), rtol=1e-5
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
@pytest.mark.parametrize("name", LOSSES)
def test_any_loss_smoothed(name, label_smoothing, linear, batch):
    """A loss is linear in the labels: by NumPy, from its value at classes."""
    (x, x_adv, y), _, _ = batch
    loss = losses.smoothed(LOSSES[name], label_smoothing)
    outcome = loss(linear, x, x_adv, y, training=True)
    if name == "smoothed":
        shares = np.where(np.eye(3)[y], 0.5, 0.25)
    else:
        shares = np.eye(3)[y]
    on, off = 1 - label_smoothing, label_smoothing / 2
    shares = on * shares + off * (1 - shares)
    if name in ("cross_entropy", "smoothed"):
        logs = log_softmax(linear(x_adv.numpy().reshape(10, 4, 4, 1)).numpy())
        expected = -(shares[:, None] * logs.reshape(5, 2, 3)).sum(-1).mean(1)
    else:
        plain = LOSSES[name](linear, x, x_adv, y, training=True)
        changes = shares - np.eye(3)[y]
        logs = log_softmax(linear(x).numpy())
        adversarial = log_softmax(plain.adversarial_logits.numpy()).mean(1)
        terms = {
            "trades": logs,
            "mart": adversarial,
            "alp": (logs + adversarial) / 2,
        }[name]
        expected = plain.value - (changes * terms).sum(-1)
    np.testing.assert_allclose(outcome.value, expected, rtol=2e-4)


def test_smoothed_cross_entropy_has_two_names(linear, batch):
    (x, x_adv, y), _, _ = batch
    values = [
        loss(linear, x, x_adv, y, training=True).value
        for loss in (
            losses.smoothed(losses.cross_entropy, 0.2),
            losses.smoothed_cross_entropy(0.2),
        )
    ]
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("name", LOSSES)
def test_weighted_samples_between_mean_and_maximum(name, linear, batch):
    (x, x_adv, y), _, _ = batch
    values = LOSSES[name](linear, x, x_adv, y, training=True).sample_values
    for temperature, expected in (
        (1e6, values.numpy().mean(1)),
        (1e-4, values.numpy().max(1)),
    ):
        loss = losses.weighted(LOSSES[name], temperature)
        got = loss(linear, x, x_adv, y, training=True).value
        np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_weighted_samples_by_hand(linear, batch):
    """The value in NumPy; the gradient is that of the soft maximum."""
    (x, x_adv, y), _, logits = batch
    temperature = 0.5
    loss = losses.weighted(losses.cross_entropy, temperature)
    outcome, gradients = run(loss, linear, x, x_adv, y)
    values = cross_entropy(logits, y.numpy())
    shares = np.exp(values / temperature)
    shares /= shares.sum(1, keepdims=True)
    expected = (shares * values).sum(1)
    np.testing.assert_allclose(outcome.value, expected, rtol=1e-4)

    def soft_maximum(*arguments, **options):
        outcome = losses.cross_entropy(*arguments, **options)
        scaled = outcome.sample_values / temperature
        value = temperature * tf.reduce_logsumexp(scaled, axis=1)
        return outcome._replace(value=value)

    _, slopes = run(soft_maximum, linear, x, x_adv, y)
    assert_all_close(gradients, slopes, rtol=1e-4, atol=1e-6)


def test_one_sample_has_all_the_weight(linear, batch):
    (x, x_adv, y), _, _ = batch
    plain, weighted = (
        loss(linear, x, x_adv[:, :1], y, training=True).value
        for loss in (losses.trades(), losses.weighted(losses.trades(), 0.1))
    )
    np.testing.assert_array_equal(plain, weighted)


def test_weights_need_values_of_samples(linear, batch):
    (x, x_adv, y), _, _ = batch

    def mine(classifier, x, x_adv, y, *, training):
        return tf.zeros([5])

    with pytest.raises(ValueError, match="a value for each sample"):
        losses.weighted(mine, 1.0)(linear, x, x_adv, y, training=True)


@pytest.mark.parametrize(
    "name", ["sparse_categorical_crossentropy", "binary_crossentropy"]
)
def test_functions_of_keras_must_take_logits(name):
    loss = getattr(keras.losses, name)
    with pytest.raises(ValueError, match=rf"{name}\(from_logits=False\)"):
        losses.get(loss)


@pytest.mark.parametrize("name", ["KLDivergence", "kl_divergence", "Poisson"])
def test_losses_of_probabilities_are_refused(name):
    loss = getattr(keras.losses, name)
    with pytest.raises(ValueError, match=rf"`keras.losses.{name}` takes prob"):
        losses.get(loss() if isinstance(loss, type) else loss)


def test_functions_of_keras_take_logits(linear, batch):
    (x, x_adv, y), *_ = batch
    loss = functools.partial(
        keras.losses.sparse_categorical_crossentropy, from_logits=True
    )
    np.testing.assert_allclose(
        losses.get(loss)(linear, x, x_adv, y, training=False).value,
        losses.cross_entropy(linear, x, x_adv, y, training=False).value,
        rtol=1e-5,
    )
