import keras
import numpy as np
import tensorflow as tf

from adt_tf.optimizers import SGD


def test_updates_match_the_formula_of_pytorch():
    # torch.optim.SGD: g += decay * w; buffer = momentum * buffer + g;
    # w -= rate * buffer. At a constant rate Keras' velocity is -rate * buffer.
    generator = np.random.default_rng(0)
    weight, buffer = np.array([1.0, -2.0, 3.0]), 0.0
    variable = keras.Variable(weight.astype("float32"))
    optimizer = SGD(0.1, momentum=0.9, l2=0.02)
    for _ in range(5):
        gradient = generator.normal(size=3)
        optimizer.apply([tf.constant(gradient, tf.float32)], [variable])
        buffer = 0.9 * buffer + (gradient + 0.02 * weight)
        weight = weight - 0.1 * buffer
        np.testing.assert_allclose(variable, weight, rtol=1e-5)


def test_keras_own_weight_decay_is_another_thing():
    plain, decoupled = (keras.Variable([1.0]) for _ in "ab")
    ours = SGD(0.1, momentum=0.9, l2=0.5)
    theirs = keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.5)
    for _ in range(3):
        ours.apply([tf.constant([1.0])], [plain])
        theirs.apply([tf.constant([1.0])], [decoupled])
    assert abs(float(plain[0] - decoupled[0])) > 1e-3


def test_config_round_trip():
    optimizer = SGD(0.1, momentum=0.9, l2=0.02)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again, SGD) and again.l2 == 0.02
