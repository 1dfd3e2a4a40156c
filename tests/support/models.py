"""Small classifiers with known weights."""

import keras
import numpy as np


def make_linear(shape=(4, 4, 1), num_classes=3, seed=0):
    model = keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes),
        ]
    )
    generator = np.random.default_rng(seed)
    model.set_weights(
        [generator.normal(size=w.shape) for w in model.get_weights()]
    )
    return model


def make_binary():
    """A classifier of one logit z, and the same with the logits [0, z]."""
    one, two = make_linear(num_classes=1), make_linear(num_classes=2)
    kernel, bias = one.get_weights()
    two.set_weights([np.pad(kernel, ((0, 0), (1, 0))), np.pad(bias, (1, 0))])
    return one, two


def make_convolutional(seed=0):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(8, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(8, 3, strides=2),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    generator = np.random.default_rng(seed)
    # Positive, because some of them are variances.
    model.set_weights(
        [
            generator.uniform(0.1, 0.9, size=w.shape)
            if w.ndim == 1
            else generator.normal(scale=0.3, size=w.shape)
            for w in model.get_weights()
        ]
    )
    return model


def predicted(classifier, x):
    """The classes [batch] that a classifier gives images.

    A call: `predict` would trace a function first.
    """
    return np.argmax(classifier(x, training=False), axis=-1).astype("int32")


def snapshot(model):
    """What must not change of a model: graph, calls, attributes and weights."""
    return (
        model.get_config() if hasattr(model, "inputs") else None,
        [
            (
                id(layer),
                sorted(vars(layer)),
                getattr(layer.call, "__func__", None),
                len(layer._inbound_nodes),
                len(layer._outbound_nodes),
                [id(child) for child in layer._layers],
                layer.trainable,
                layer.path,
            )
            for layer in model._flatten_layers()
        ],
        [(id(weight), weight.numpy().tobytes()) for weight in model.weights],
    )
