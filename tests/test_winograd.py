import collections
import copy
import gc
import threading
import weakref
from concurrent import futures

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import (
    AdversarialTrainer,
    attacks,
    methods,
    networks,
    objectives,
    seeds,
)
from adt_tf.kernels import twins, winograd
from tests.support.graphs import reachable_kinds
from tests.support.models import snapshot


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
    # Logits of nearly zero would make much of rounding.
    keras.utils.set_random_seed(0)
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
    with winograd.convolutions(model):
        fast = twins.fast(model)
        assert fast is not model
        actual = fast(x), input_gradient(fast, x)
    assert twins.fast(model) is model
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dilation_rate": 2},
        {"groups": 2},
        {"activation": "relu"},
        {"activity_regularizer": "l2"},
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


def test_a_block_that_fails_ends():
    model = wide_model()
    with pytest.raises(RuntimeError), winograd.convolutions(model):
        raise RuntimeError
    assert twins.fast(model) is model


def test_a_layer_with_a_call_of_the_users_keeps_it():
    model = wide_model()
    model.get_layer("wide").call = lambda x: 0 * x
    assert not winograd.wide_convolutions(model)


def waiting(attack, meeting):
    """The attack with an objective that waits inside the traced loop."""

    def objective(*arguments, **settings):
        value = attack.objective(*arguments, **settings)

        def waited(x_adv):
            meeting()
            return value(x_adv)

        return waited

    other = copy.copy(attack)
    other.objective = objectives.get(objective)
    return other


def images_and_labels(size, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=(size, 8, 8, 3)).astype("float32")
    return tf.constant(x), tf.constant(np.arange(size) % 10)


def test_two_threads_attack_one_classifier_at_once():
    classifier = networks.get("wrn-10-2", input_shape=(8, 8, 3))
    batches = [images_and_labels(4, seed=0), images_and_labels(6, seed=1)]
    expected = [
        attacks.pgd(0.1, num_steps=3)(classifier, x, y).x_adv
        for x, y in batches
    ]
    barrier, meetings = threading.Barrier(2, timeout=60), []

    def attacked(batch):
        def meeting():
            meetings.append(barrier.wait())

        attack = waiting(attacks.pgd(0.1, num_steps=3), meeting)
        try:
            return attack(classifier, *batch).x_adv
        except Exception:
            barrier.abort()
            raise

    with futures.ThreadPoolExecutor(2) as pool:
        actual = list(pool.map(attacked, batches))
    assert meetings
    for one, other in zip(actual, expected, strict=True):
        # Where a gradient is near zero, rounding decides its sign.
        assert np.mean(np.abs(one - other) > 1e-5) < 0.01


def test_a_classifier_is_the_same_before_in_and_after_an_attack():
    classifier = networks.get("wrn-10-2", input_shape=(8, 8, 3))
    before, seen = snapshot(classifier), []

    def meeting():
        with tf.init_scope():
            seen.append(snapshot(classifier))

    attack = waiting(attacks.pgd(0.1, num_steps=3), meeting)
    attack(classifier, *images_and_labels(4))
    assert seen and all(one == before for one in seen)
    assert snapshot(classifier) == before


@pytest.mark.slow
def test_a_classifier_goes_when_no_one_holds_it():
    classifier = networks.get("wrn-10-2", input_shape=(8, 8, 3))
    trainer = AdversarialTrainer(classifier, attacks.pgd(0.1, num_steps=2))
    trainer.compile("sgd")
    trainer.train_on_batch(*images_and_labels(4))
    reference = weakref.ref(classifier)
    del classifier, trainer
    gc.collect()
    assert reference() is None


def test_kernels_are_transformed_once_outside_the_loop(monkeypatch):
    classifier = networks.get("wrn-10-2", input_shape=(8, 8, 3))
    attack = attacks.exp(0.1, num_steps=3)
    graphs = collections.defaultdict(list)
    for name in ("transformed", "convolve"):
        function = getattr(winograd, name)

        def recorded(*arguments, name=name, function=function):
            graphs[name].append(tf.compat.v1.get_default_graph())
            return function(*arguments)

        monkeypatch.setattr(winograd, name, recorded)

    @tf.function(autograph=False)
    def solve(x, y):
        return attack.solve(classifier, x, y, seed=seeds.make(0))

    kinds = reachable_kinds(solve.get_concrete_function(*images_and_labels(4)))
    # The one wide convolution and its way back to the image.
    assert len(graphs["transformed"]) == len(graphs["convolve"]) == 2
    (outside,), (inside,) = set(graphs["transformed"]), set(graphs["convolve"])
    assert outside is inside.outer_graph
    # Two transforms, 16 products each way, and the last layer's two.
    assert kinds.count("MatMul") == 2 + 2 * 16 + 2


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

    def gradients(run):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(run(x, training=True)[:, 0] ** 2)
        return tape.gradient(value, [x, *model.trainable_variables])

    expected = gradients(model)
    with winograd.convolutions(model, trained=True):
        run = twins.fast(model)
        assert run is not model
        actual = gradients(run)
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
