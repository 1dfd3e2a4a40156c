"""The networks of published checkpoints, to be filled by transplant.

classifier = load("mnist_colt_convmed", folder)
"""

import keras
import numpy as np

import adt_tf

layers = keras.layers


def resnet_2b():
    """ResNet-2B of alpha-beta-CROWN for CIFAR-10: no batch norm, biases."""
    images = keras.Input((32, 32, 3))
    x = layers.Normalization(
        mean=[0.4914, 0.4822, 0.4465],
        variance=np.square([0.2471, 0.2435, 0.2616]),
    )(images)
    x = _convolution(x, 8, 3, strides=2, padding=1, activation="relu")
    for strides in (2, 1):
        y = _convolution(
            x, 16, 3, strides=strides, padding=1, activation="relu"
        )
        y = _convolution(y, 16, 3, padding=1)
        if strides == 2:
            x = layers.Conv2D(16, 1, strides=2)(x)
        x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.Dense(100, activation="relu")(layers.Flatten()(x))
    return keras.Model(images, layers.Dense(10)(x), name="resnet_2b")


def colt():
    """The ConvMed network of colt for MNIST."""
    images = keras.Input((28, 28, 1))
    x = layers.Normalization(mean=[0.1307], variance=[0.3081**2])(images)
    x = _convolution(x, 32, 5, strides=2, padding=2, activation="relu")
    x = _convolution(x, 64, 4, strides=2, padding=1, activation="relu")
    x = layers.Dense(100, activation="relu")(layers.Flatten()(x))
    return keras.Model(images, layers.Dense(10)(x), name="colt")


def _convolution(x, filters, size, *, padding, strides=1, activation=None):
    x = layers.ZeroPadding2D(padding)(x)
    return layers.Conv2D(filters, size, strides=strides, activation=activation)(
        x
    )


def load(name, folder):
    """Returns a published classifier with its weights."""
    if name == "mnist_trades_smallcnn":
        return adt_tf.load_classifier(folder / f"{name}.pt")
    if name == "mnist_colt_convmed":
        model = colt()
        adt_tf.transplant(folder / f"{name}.pt", model, skip="*.deepz_lambda")
        return model
    model = resnet_2b()
    adt_tf.transplant(folder / f"{name}.pth", model)
    return model
