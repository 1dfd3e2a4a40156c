import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import AdversarialTrainer, attacks, methods, networks
from adt_tf.kernels import winograd


def random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@pytest.mark.parametrize("height, width", [(2, 2), (4, 8), (6, 4)])
def test_convolve_is_the_convolution(height, width):
    x, kernel = random(3, height, width, 5), random(3, 3, 5, 7)
    actual = winograd.convolve(tf.constant(x), winograd.transformed(kernel))
    expected = tf.nn.conv2d(
        x.astype("float64"), kernel.astype("float64"), 1, "SAME"
    )
    np.testing.assert_allclose(actual, expected, atol=2e-5)


@pytest.mark.parametrize("height, width", [(2, 2), (4, 8), (6, 4)])
def test_kernel_gradient_is_that_of_the_convolution(height, width):
    x, dy = random(3, height, width, 5), random(3, height, width, 7)
    actual = winograd.kernel_gradient(tf.constant(x), tf.constant(dy))
    kernel = tf.zeros([3, 3, 5, 7], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        y = tf.nn.conv2d(x.astype("float64"), kernel, 1, "SAME")
    expected = tape.gradient(y, kernel, dy.astype("float64"))
    np.testing.assert_allclose(actual, expected, atol=2e-5)


def wide_model(size=8, channels=128, **arguments):
    images = keras.Input((size, size, channels))
    x = keras.layers.Conv2D(
        channels, 3, padding="same", use_bias=False, name="wide", **arguments
    )(images)
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x))
    return keras.Model(images, keras.layers.Dense(3)(x))


def input_gradient(model, x):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        value = tf.reduce_sum(model(x, training=False)[:, 0])
    return tape.gradient(value, x)


@pytest.mark.parametrize("size", [8, 7])
def test_values_and_gradients_of_a_model_are_the_same(size):
    model, x = wide_model(size), tf.constant(random(2, size, size, 128))
    expected = model(x), input_gradient(model, x)
    plain_call = model.get_layer("wide").call
    with winograd.convolutions(model):
        assert model.get_layer("wide").call != plain_call
        actual = model(x), input_gradient(model, x)
    assert model.get_layer("wide").call == plain_call
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dilation_rate": 2},
        {"groups": 2},
        {"activation": "relu"},
        {"dtype": "mixed_bfloat16"},
    ],
)
def test_other_convolutions_stay_as_they_are(arguments):
    assert not winograd.wide_convolutions(wide_model(**arguments))


def test_wide_convolutions_are_found_in_models_inside_models():
    inner = networks.get("wrn-10-2")
    assert [c.name for c in winograd.wide_convolutions(inner)] == [
        "stage3_block1_convolution2"
    ]
    outer = keras.Sequential(
        [keras.Input((32, 32, 3)), keras.layers.Rescaling(2.0), inner]
    )
    assert len(winograd.wide_convolutions(outer)) == 1


def test_the_model_is_restored_when_the_block_fails():
    model = wide_model()
    with pytest.raises(RuntimeError), winograd.convolutions(model):
        raise RuntimeError
    assert "call" not in vars(model.get_layer("wide"))


def test_an_attack_is_the_same_with_and_without(monkeypatch):
    classifier = networks.get("wrn-10-2", input_shape=(8, 8, 3))
    x = tf.constant(np.random.default_rng(0).uniform(size=(4, 8, 8, 3)))
    x, y = tf.cast(x, tf.float32), tf.constant([0, 1, 2, 3])
    fast = attacks.pgd(0.1, num_steps=3)(classifier, x, y).x_adv
    monkeypatch.setattr(winograd, "MIN_CHANNELS", 10_000)
    plain = attacks.pgd(0.1, num_steps=3)(classifier, x, y).x_adv
    # Where a gradient is near zero, rounding decides its sign.
    assert np.mean(np.abs(fast - plain) > 1e-5) < 0.01


@pytest.mark.parametrize("channels", [64, 128])
@pytest.mark.parametrize("size", [8, 7])
def test_a_trained_model_has_the_same_gradients(channels, size):
    model = wide_model(size, channels)
    x = tf.constant(random(2, size, size, channels))

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(model(x, training=True)[:, 0] ** 2)
        return tape.gradient(value, [x, *model.trainable_variables])

    expected = gradients()
    with winograd.convolutions(model, trained=True):
        assert "call" in vars(model.get_layer("wide"))
        actual = gradients()
    for one, other in zip(actual, expected, strict=True):
        scale = np.max(np.abs(other))
        np.testing.assert_allclose(one, other, atol=2e-5 * scale)


def test_a_training_step_is_the_same_with_and_without(monkeypatch):
    x = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
    y = np.arange(4)

    def trained():
        parts = methods.adt_exp_am(
            0.1, input_shape=(8, 8, 3), width_factor=0.25
        )
        classifier = networks.get("wrn-10-2", input_shape=(8, 8, 3))
        trainer = AdversarialTrainer(classifier, parts.attack, parts.loss)
        trainer.compile("sgd", "sgd")
        trainer.train_on_batch(x, y)
        generator = parts.attack.networks[0]
        assert winograd.wide_convolutions(generator, 64)
        return classifier.get_weights() + generator.get_weights()

    fast = trained()
    monkeypatch.setattr(winograd, "pays", lambda: False)
    for one, other in zip(fast, trained(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
