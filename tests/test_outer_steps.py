"""Adversarial weight perturbation, beside NumPy and its limits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import methods
from adt_tf.training.outer_steps import AWP, Pass
from tests.support import graphs
from tests.support.models import make_convolutional, make_linear

EPSILON = 0.1


def with_dropout():
    model = make_convolutional()
    *layers, last = model.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            *layers,
            keras.layers.Dropout(0.3, seed=4),
            last,
        ]
    )
    return model


def trained(
    images, outer_step, steps=2, make=make_convolutional, method=None, rate=0.1
):
    """The classifier's and the attack's variables after some steps."""
    method = method or methods.at_pgd(EPSILON, num_steps=1)
    trainer = adt_tf.AdversarialTrainer(
        make(), method.attack, method.loss, outer_step=outer_step
    )
    trainer.compile(keras.optimizers.SGD(rate))
    for _ in range(steps):
        trainer.train_on_batch(*images)
    models = [trainer.classifier, *trainer.attack_networks]
    return [v.numpy() for model in models for v in model.variables]


def assert_same_bits(ours, theirs):
    assert [w.tobytes() for w in ours] == [w.tobytes() for w in theirs]


GENERATED = {"input_shape": (8, 8, 1), "width_factor": 0.03125}
METHODS = {
    "at_pgd": lambda: methods.at_pgd(EPSILON, num_steps=1),
    "trades": lambda: methods.trades(EPSILON, num_steps=1),
    "adt_exp": lambda: methods.adt_exp(EPSILON, num_steps=1, num_samples=2),
    "adt_exp_am": lambda: methods.adt_exp_am(EPSILON, **GENERATED),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_size_of_0_is_the_method_itself(name, images):
    plain, awp = (
        trained(images, step, make=with_dropout, method=METHODS[name]())
        for step in (None, AWP(0.0))
    )
    assert_same_bits(awp, plain)


def softmax(logits):
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


@pytest.mark.parametrize("size", [0.01, 0.5])
def test_one_step_by_hand(size):
    """A linear classifier on clean images, in float64."""
    generator = np.random.default_rng(3)
    x = generator.uniform(size=(6, 4, 4, 1)).astype("float32")
    y = generator.integers(0, 3, 6).astype("int32")
    kernel, bias = (w.astype("float64") for w in make_linear().get_weights())
    flat, targets = x.reshape(6, 16).astype("float64"), np.eye(3)[y]

    def slopes(kernel, bias):
        excess = (softmax(flat @ kernel + bias) - targets) / 6
        return flat.T @ excess, excess.sum(0)

    slope = slopes(kernel, bias)[0]
    moved = size * np.linalg.norm(kernel) * slope / np.linalg.norm(slope)
    # The bias is a vector, which is not perturbed.
    steps = slopes(kernel + moved, bias)
    got = trained(
        (x, y), AWP(size), 1, make_linear, methods.standard(), rate=0.1
    )
    np.testing.assert_allclose(got[0], kernel - 0.1 * steps[0], rtol=1e-4)
    np.testing.assert_allclose(got[1], bias - 0.1 * steps[1], rtol=1e-4)


def test_batch_norm_statistics_are_those_of_the_weights_themselves(images):
    plain, awp = (trained(images, step, 1) for step in (None, AWP(0.5)))
    names = [v.path for v in make_convolutional().variables]
    moving = [i for i, name in enumerate(names) if "moving" in name]
    assert len(moving) == 4
    assert_same_bits([awp[i] for i in moving], [plain[i] for i in moving])
    assert np.abs(awp[0] - plain[0]).max() > 1e-4


def test_off_during_warm_up(images):
    plain, warm, on = (
        [trained(images, step, steps) for steps in (2, 3)]
        for step in (None, AWP(0.1, warmup_steps=2), AWP(0.1))
    )
    assert_same_bits(warm[0], plain[0])
    assert np.abs(warm[1][0] - plain[1][0]).max() > 1e-5
    assert np.abs(on[0][0] - plain[0][0]).max() > 1e-5


def test_the_report_is_of_the_weights_themselves(images):
    method, logs = methods.at_pgd(EPSILON, num_steps=1), []
    for step in (None, AWP(1.0)):
        trainer = adt_tf.AdversarialTrainer(
            make_convolutional(), method.attack, method.loss, outer_step=step
        )
        trainer.compile("sgd")
        with graphs.run_eagerly():
            logs.append(trainer.train_on_batch(*images, return_dict=True))
    assert logs[0] == logs[1]


def test_the_loss_is_worse_at_the_perturbed_weights(images):
    """Which the gradient of one step is taken at."""
    classifier, (x, y) = make_convolutional(), images
    trainer = adt_tf.AdversarialTrainer(
        classifier, methods.standard().attack, outer_step=AWP(0.05)
    )
    seen = []

    def saddle():
        logits = classifier(x, training=True)
        loss = keras.losses.sparse_categorical_crossentropy(
            y, logits, from_logits=True
        )
        seen.append(float(tf.reduce_mean(loss)))
        return tf.reduce_mean(loss), None

    theta = classifier.trainable_variables
    trainer.outer_step.gradients(
        Pass(saddle, classifier, theta, [], tf.constant(0))
    )
    assert seen[1] > seen[0]


@pytest.mark.parametrize(
    "arguments", [{"size": -0.1}, {"size": np.nan}, {"warmup_steps": -1}]
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be"):
        AWP(**arguments)
