"""A twin computes and leaves behind what its model does."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import networks, precision
from adt_tf.kernels import twins
from tests.support.models import snapshot

layers = keras.layers
SHAPE = (8, 8, 3)


def convolution(filters=8, **arguments):
    return layers.Conv2D(
        filters, 3, padding="same", use_bias=False, **arguments
    )


def with_state():
    """Statistics, random states, both kinds of losses, and plain operations."""
    images = keras.Input(SHAPE)
    x = convolution(kernel_regularizer="l2", name="replaced")(images)
    x = layers.BatchNormalization()(x)
    x = layers.Dropout(0.5, seed=1)(x)
    x = keras.ops.add(keras.ops.relu(x), 2) * 0.5
    x = keras.ops.concatenate([x, x], axis=-1)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(4, activity_regularizer="l1")(x)
    model = keras.Model(images, layers.Dense(3)(x))
    model.compile("adam", "mse")
    return model


def sequential():
    return keras.Sequential(
        [
            keras.Input(SHAPE),
            layers.Rescaling(2.0),
            convolution(name="replaced"),
            layers.GaussianNoise(0.1, seed=2),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


def built_late():
    model = keras.Sequential([convolution(name="replaced"), layers.Flatten()])
    model(np.zeros([1, *SHAPE]))
    return model


def model_in_sequential():
    return keras.Sequential(
        [keras.Input(SHAPE), layers.Rescaling(2.0), with_state()]
    )


def frozen_model_inside():
    inner = with_state()
    inner.trainable = False
    images = keras.Input(SHAPE)
    return keras.Model(images, layers.Dense(2)(inner(images, training=False)))


def models_used_twice_and_many_outputs():
    first, second = with_state(), sequential()
    images = keras.Input(SHAPE)
    x = first(images) + second(images) + first(layers.ReLU()(images))
    return keras.Model(images, {"sum": x, "others": [x, layers.Softmax()(x)]})


def layers_used_twice():
    images = keras.Input(SHAPE)
    shared = convolution(3, name="replaced")
    dense = layers.Dense(4, activity_regularizer="l1")
    x = layers.Dense(4)(layers.Flatten()(shared(shared(images))))
    return keras.Model(images, dense(dense(x)))


def with_masks():
    images = keras.Input(SHAPE)
    x = convolution(4, name="replaced")(images)
    x = layers.Reshape((4, 64))(x)
    x = layers.Masking()(keras.ops.where(x[:, :, :1] > 0, x, 0.0))
    x, scores = layers.MultiHeadAttention(2, 2)(
        x, x, return_attention_scores=True, use_causal_mask=True
    )
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True))(x)
    return keras.Model(images, [x, scores])


def with_layers_of_ones_own():
    images = keras.Input(SHAPE)
    x = convolution(3, name="replaced")(images)
    x = layers.Lambda(lambda t: 2 * t)(x)
    x = layers.TimeDistributed(layers.Dense(3))(x)
    return keras.Model(images, Subclassed()(x))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.convolution = convolution(name="replaced")
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(keras.ops.mean(self.convolution(x), [1, 2]))


class Functional(keras.Model):
    def __init__(self):
        images = keras.Input(SHAPE)
        x = convolution(name="replaced")(images)
        super().__init__(images, layers.Dense(2)(layers.Flatten()(x)))


class OwnCall(Functional):
    def call(self, x, training=None):
        return 2 * super().call(x, training=training)


def mixed(name):
    with precision.policy(name):
        return with_state()


MODELS = {
    made.__name__: made
    for made in [
        with_state,
        sequential,
        built_late,
        model_in_sequential,
        frozen_model_inside,
        models_used_twice_and_many_outputs,
        layers_used_twice,
        with_masks,
        with_layers_of_ones_own,
        Functional,
    ]
} | {
    name: lambda name=name: mixed(name)
    for name in ("mixed_bfloat16", "mixed_float16")
}


def calls_of(model):
    """The calls of the layers named "replaced", written in another way."""

    def call_of(layer):
        def call(x):
            kernel = tf.convert_to_tensor(layer.kernel)
            assert x.dtype == kernel.dtype == layer.compute_dtype
            return tf.nn.conv2d(x, kernel, 1, "SAME")

        return call

    return {layer: call_of(layer) for layer in replaced_layers(model)}


def replaced_layers(model):
    for layer in model.layers:
        if layer.name == "replaced":
            yield layer
        elif isinstance(layer, keras.Model):
            yield from replaced_layers(layer)


def outcome_of(model, run, x, training):
    """What a call returns and leaves behind; the model is as before it."""
    before = [variable.numpy() for variable in model.variables]
    outputs = run(x, training=training)
    masks = [
        getattr(t, "_keras_mask", None) is None
        for t in tf.nest.flatten(outputs)
    ]
    losses = [loss.numpy() for loss in model.losses]
    after = [variable.numpy() for variable in model.variables]
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    outputs = tf.nest.map_structure(
        lambda t: tf.cast(t, tf.float32).numpy(), outputs
    )
    return outputs, masks, losses, after


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_twin_is_its_model(name, training):
    model = MODELS[name]()
    x = np.random.default_rng(0).uniform(size=(2, *SHAPE)).astype("float32")
    model(x)
    before = snapshot(model)
    twin = twins.twin(model, calls_of(model))
    assert twin is not model
    expected = outcome_of(model, model, x, training)
    # Twice: losses of one call must not add to those of the last.
    for _ in range(2):
        actual = outcome_of(model, twin, x, training)
        tf.nest.assert_same_structure(actual, expected)
        for one, other in zip(
            tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert snapshot(model) == before


@pytest.mark.parametrize("name", ["with_state", "frozen_model_inside"])
def test_gradients_reach_the_weights_of_the_model(name):
    model = MODELS[name]()
    x = tf.constant(np.random.default_rng(0).uniform(size=(2, *SHAPE)))

    def gradients(run):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(run(x, training=False) ** 2)
            value += tf.add_n(model.losses)
        return tape.gradient(value, model.trainable_variables)

    twin = twins.twin(model, calls_of(model))
    for one, other in zip(gradients(twin), gradients(model), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def own_call_of_an_instance():
    model = Functional()
    model.call = lambda x, training=None: x
    return model


@pytest.mark.parametrize("made", [Subclassed, OwnCall, own_call_of_an_instance])
def test_a_model_that_does_not_run_its_graph_has_no_twin(made):
    model = made()
    model(np.zeros([1, *SHAPE]))
    calls = {layer: layer.call for layer in replaced_layers(model)}
    if made is Subclassed:
        calls = {model.convolution: model.convolution.call}
    assert calls and twins.twin(model, calls) is model


def test_nothing_to_replace_is_no_twin():
    model, unbuilt = with_state(), keras.Sequential([convolution()])
    for other in (model, unbuilt, lambda x: x):
        assert twins.twin(other, {convolution(): None}) is other
    assert twins.twin(unbuilt, {unbuilt.layers[0]: None}) is unbuilt


def test_a_twin_takes_no_names_of_layers_made_later():
    model = with_state()
    first = layers.Dense(2).name
    twins.twin(model, calls_of(model))
    second = layers.Dense(2).name
    assert int(second.split("_")[1]) == int(first.split("_")[1]) + 1


@pytest.mark.slow
def test_a_twin_and_its_model_go_when_no_one_holds_them():
    model = networks.get("wrn-10-1", input_shape=SHAPE)
    layer = model.get_layer("stage1_block1_convolution2")
    twin = twins.twin(model, {layer: layer.call})
    twin(np.zeros([1, *SHAPE]))
    references = [weakref.ref(thing) for thing in (twin, model, layer)]
    del twin
    gc.collect()
    assert [r() is None for r in references] == [True, False, False]
    del model, layer
    gc.collect()
    assert [r() is None for r in references] == [True, True, True]
