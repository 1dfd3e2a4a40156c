"""What flags make of a trainer's parts, and SiLU in every network."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import data, losses, methods, networks
from adt_tf.optimizers import SGD
from adt_tf.runs import recipes
from adt_tf.runs.config import Config
from adt_tf.threat_models import Linf
from tests.support.models import make_linear

NETWORKS = ["small_cnn", "wrn-10-1", "dm-wrn-10-1", "lenet5", "resnet18"]
NETWORKS += ["trades_small_cnn"]


def activations(model):
    """The names of all activations, those within other layers too."""
    found = []
    for layer in model.layers:
        function = getattr(layer, "activation", None)
        if isinstance(layer, keras.layers.ReLU):
            found.append("relu")
        elif function is not None and function.__name__ != "linear":
            found.append(function.__name__)
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_silu_in_every_network(name):
    arguments = {"input_shape": (28, 28, 1), "seed": 3}
    if name.startswith("dm-"):
        arguments["input_shape"] = (32, 32, 3)
    if name.startswith("resnet"):
        arguments["width"] = 4
    relu, silu = (
        networks.get(name, **arguments, activation=activation)
        for activation in ("relu", "silu")
    )
    assert set(activations(silu)) == {"silu"}
    assert activations(relu) == ["relu"] * len(activations(silu))
    for a, b in zip(relu.get_weights(), silu.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    own = networks.get(name, **arguments)
    expected = silu if name.startswith("dm-") else relu
    assert activations(own) == activations(expected)
    features = silu.get_layer("features")
    assert features.output.shape == relu.get_layer("features").output.shape


def test_silu_in_a_large_network(monkeypatch):
    """It is handed on; the network itself takes seconds to build."""
    monkeypatch.setitem(networks._CLASSIFIERS, "preact_resnet18", dict)
    made = networks.get("preact_resnet18", activation="silu", seed=1)
    assert made["variant"].activation == "silu" and made["seed"] == 1
    assert networks.get("preact_resnet18", seed=1) == {"seed": 1}


def test_silu_by_hand():
    """x * sigmoid(x) of what the network without it would rectify."""
    images = np.random.default_rng(0).uniform(size=(2, 8, 8, 1))
    model = networks.get("small_cnn", input_shape=(8, 8, 1), activation="silu")
    layer = model.get_layer("relu1")
    before, after = keras.Model(model.input, [layer.input, layer.output])(
        images.astype("float32")
    )
    z = before.numpy().astype("float64")
    np.testing.assert_allclose(after, z / (1 + np.exp(-z)), atol=1e-6)


def test_keras_networks_keep_their_activation():
    with pytest.raises(ValueError, match="`activation` must be left out"):
        networks.get("keras:MobileNetV2", activation="silu")


def test_optimizers():
    sgd = recipes.optimizer(Config(drop_after=(2,), clip_norm=0.5), 10)
    assert type(sgd) is SGD and sgd.l2 == 2e-4
    assert sgd.global_clipnorm == 0.5 and not sgd.use_ema
    assert recipes.learning_rate(sgd, 19) == pytest.approx(0.1)
    assert recipes.learning_rate(sgd, 20) == pytest.approx(0.01)
    config = Config(optimizer="adamw", schedule="one_cycle", epochs=4)
    adamw = recipes.optimizer(config, 10)
    assert type(adamw) is keras.optimizers.AdamW
    assert adamw.weight_decay == 2e-4
    assert recipes.learning_rate(adamw, 11) == pytest.approx(0.1)
    assert recipes.learning_rate(adamw, 39) == pytest.approx(0.1 / 28)


def test_clipping_by_hand():
    """A step of a gradient (3, 4) that is clipped to a length of 0.5."""
    optimizer = recipes.optimizer(
        Config(clip_norm=0.5, momentum=0.0, weight_decay=0.0), 1
    )
    weights = keras.Variable([1.0, 1.0])
    optimizer.apply([tf.constant([3.0, 4.0])], [weights])
    np.testing.assert_allclose(weights, [1 - 0.03, 1 - 0.04], rtol=1e-5)


@pytest.mark.parametrize("method", sorted(methods.list()))
def test_label_smoothing_for_every_method(method):
    """The loss of the method, of smoothed labels; feature scattering's own."""
    digits = data.load("digits", num_examples=10)
    arguments = {"method": method, "label_smoothing": 0.2}
    if "width_factor" in methods.arguments(method):
        arguments["width_factor"] = 0.03125
    made = recipes.method(Config(**arguments), digits, Linf(0.1))
    classifier = make_linear()
    generator = np.random.default_rng(0)
    x = tf.constant(generator.uniform(size=(4, 4, 4, 1)), tf.float32)
    x_adv = tf.constant(generator.uniform(size=(4, 1, 4, 4, 1)), tf.float32)
    y = tf.constant([0, 1, 2, 0])
    got = made.loss(classifier, x, x_adv, y, training=True).value
    shares = tf.where(tf.one_hot(y, 3) > 0, 0.8, 0.1)
    arguments.pop("label_smoothing")
    plain = recipes.method(Config(**arguments), digits, Linf(0.1)).loss
    if method == "fea_scatter":
        plain = losses.cross_entropy
    expected = plain(classifier, x, x_adv, shares, training=True).value
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_weighted_samples_and_perturbed_weights():
    digits = data.load("digits", num_examples=10)
    config = Config(
        method="trades",
        outer_samples=3,
        sample_temperature=0.5,
        awp_size=0.01,
        awp_warmup=3,
        ema_momentum=0.9,
    )
    loss = recipes.method(config, digits, Linf(0.1)).loss
    assert loss.__name__ == "weighted(trades(beta=6), 0.5)"
    step = recipes.outer_step(config, 20)
    assert (step.size, step.warmup_steps) == (0.01, 60)
    assert recipes.average(config).momentum == 0.9
    assert recipes.outer_step(Config(), 20) is None
    assert recipes.average(Config()) is None
