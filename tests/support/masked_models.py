"""Classifiers of the digits whose gradients mislead, and honest ones.

    masked = make_masked(model, images)["reversed gradient"]()
    honest = make_honest()["linear"]()

Masked, the decisions of a model are the same or nearly so; what is gone are
the gradients that attacks need.
"""

import functools

import keras
import tensorflow as tf

from adt_tf import attacks, data
from adt_tf.training.trainer import AdversarialTrainer

layers = keras.layers
EPSILON = 0.15


class Around:
    """A plain object around a model: neither hashable nor a Keras model."""

    __hash__ = None

    def __init__(self, model, before=tf.identity, after=tf.identity):
        self.model, self.before, self.after = model, before, after

    def __call__(self, x, training=False):
        return self.after(self.model(self.before(x), training=training))


class Forgetful(keras.Model):
    """Always runs its first layer in training mode."""

    def __init__(self, first, model):
        super().__init__()
        self.first, self.model = first, model

    def call(self, x, training=False):
        return self.model(self.first(x, training=True), training=training)


def misleading(model, gradient_of):
    """The model's logits, with an input gradient of our own making."""

    @tf.custom_gradient
    def changed(x):
        return tf.identity(x), lambda slope: gradient_of(x, slope)

    return Around(model, before=changed)


def reversed_where(model, condition):
    """A gradient that points the wrong way at images [b, ...] of a kind."""

    def gradient_of(x, slope):
        wrong = tf.reshape(condition(x), [-1, 1, 1, 1])
        return tf.where(wrong, -slope, slope)

    return misleading(model, gradient_of)


def everywhere(x):
    return tf.ones(tf.shape(x)[:1], tf.bool)


def off_grid(x):
    """Whether a pixel is no multiple of 1/16, as all of the digits' are."""
    return tf.reduce_any(16 * x != tf.round(16 * x), axis=[1, 2, 3])


def deviation(x, images):
    """|x - nearest image| for each pixel [b, pixels]."""
    flat = tf.reshape(x, [-1, 1, 64]) - tf.reshape(images, [1, -1, 64])
    nearest = tf.argmin(tf.reduce_mean(tf.abs(flat), axis=-1), axis=-1)
    return tf.abs(tf.gather(flat, nearest, axis=1, batch_dims=1))


def random_gradient(model):
    generator = tf.random.Generator.from_seed(0)
    return misleading(model, lambda x, slope: generator.normal(tf.shape(slope)))


def detached_where_bright(x):
    """No gradient for the brighter half of the images."""
    bright = tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True) > 0.3
    return tf.where(bright, tf.stop_gradient(x), x)


def make_masked(model, images):
    """Functions that build twelve masked models around an honest one.

    Args:
        model: A classifier of the digits.
        images: The test images.
    """

    def far(x):
        return tf.reduce_max(deviation(x, images), axis=1) > 0.16

    # Right at a random start, wrong as soon as steps lead away from it.
    def away(x):
        return tf.reduce_mean(deviation(x, images), axis=1) > 0.45 * EPSILON

    around = functools.partial(functools.partial, Around, model)
    return {
        "large logits": around(after=lambda z: 1e4 * z),
        "rounded input": around(before=lambda x: tf.round(16 * x) / 16),
        "rounded input, gradient of zero": around(
            before=lambda x: tf.round(16 * x) / 16 + 0 * x
        ),
        "steep input": around(before=lambda x: tf.sigmoid(1e4 * (x - 0.47))),
        "root at zero": around(
            before=lambda x: x + tf.sqrt(x) - tf.pow(x, 0.5)
        ),
        "detached where bright": around(before=detached_where_bright),
        "dropout": lambda: Forgetful(layers.Dropout(0.3, seed=1), model),
        "random gradient": functools.partial(random_gradient, model),
        "reversed gradient": lambda: reversed_where(model, everywhere),
        "reversed off the grid": lambda: reversed_where(model, off_grid),
        "reversed far away": lambda: reversed_where(model, far),
        "reversed after steps": lambda: reversed_where(model, away),
    }


def trained(*stack, epochs=10, rate=0.01, attack=None, seed=0):
    """A classifier trained on the digits, with or without an attack."""
    x, y = data.as_arrays(data.load("digits", split="train"))
    keras.utils.set_random_seed(seed)
    stack = [
        s() if callable(s) and not isinstance(s, keras.Layer) else s
        for s in stack
    ]
    model = keras.Sequential([keras.Input((8, 8, 1)), *stack])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(rate)
    if attack is None:
        model.compile(optimizer, loss)
        model.fit(x, y, batch_size=64, epochs=epochs, verbose=0)
    else:
        trainer = AdversarialTrainer(model, attack)
        trainer.compile(optimizer)
        trainer.fit(x, y, batch_size=64, epochs=epochs, verbose=0)
    return model


def make_linear(**settings):
    """A trained linear softmax."""
    return trained(layers.Flatten(), layers.Dense(10), **settings)


def _dense(activation):
    return [
        layers.Flatten(),
        layers.Dense(64, activation=activation),
        layers.Dense(10),
    ]


def _convolutional():
    return [
        layers.Conv2D(12, 3, padding="same"),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(12, 3, strides=2),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Flatten(),
        layers.Dense(10),
    ]


def make_honest(model):
    """Functions that build nine honest models.

    Args:
        model: A classifier of the digits, one of them.
    """
    return {
        "small network": lambda: model,
        "small logits": lambda: Around(model, after=lambda z: 0.1 * z),
        "linear": make_linear,
        "linear, hardly trained": lambda: make_linear(epochs=5, seed=1),
        "linear, slowly trained": lambda: make_linear(
            epochs=30, rate=0.001, seed=1
        ),
        "dense, ReLU": lambda: trained(*_dense("relu")),
        "dense, tanh": lambda: trained(*_dense("tanh")),
        "batch norm": lambda: trained(*_convolutional()),
        "adversarially trained": lambda: trained(
            *_convolutional(),
            attack=attacks.pgd(0.1, num_steps=5),
        ),
    }
