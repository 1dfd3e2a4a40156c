"""One table of methods drives every property that all of them share."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import methods
from tests.support.models import make_convolutional
from tests.support.tables import METHODS, THREAT_MODELS, make_method

EPSILON = 0.1
# A variant of a method that has its own test is a slow test.
MOST = [
    pytest.param(name, marks=[pytest.mark.slow] * (" x " in name))
    for name in METHODS
]
# So is every norm but the first.
IN_EVERY_NORM = [
    pytest.param(
        name,
        ball,
        id=f"{ball}-{name}",
        marks=[pytest.mark.slow] * (" x " in name or ball != "Linf"),
    )
    for ball in THREAT_MODELS
    for name in METHODS
]


def make_trainer(name, jit_compile=False, seed=0, ball=EPSILON):
    method = make_method(name, ball)
    trainer = adt_tf.AdversarialTrainer(
        make_convolutional(), method.attack, method.loss, seed=seed
    )
    trainer.compile(
        keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=jit_compile
    )
    return trainer


def weights_of(trainer):
    models = [trainer.classifier, *trainer.attack_networks]
    return [w for model in models for w in model.get_weights()]


@pytest.mark.parametrize("name, ball", IN_EVERY_NORM)
def test_two_steps_with_and_without_xla(name, ball, images):
    threat_model = THREAT_MODELS[ball]
    start = weights_of(make_trainer(name))
    ends = []
    for jit_compile in (False, True):
        trainer = make_trainer(name, jit_compile, ball=threat_model)
        for _ in range(2):
            logs = trainer.train_on_batch(*images, return_dict=True)
            assert np.isfinite(list(logs.values())).all()
        ends.append(weights_of(trainer))
        # All but the biases of convolutions, which batch norm cancels.
        for a, b in zip(start, ends[-1], strict=True):
            assert a.ndim == 1 or np.abs(a - b).max() > 0
    # The noise is the same, so only rounding tells the two apart.
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)


@pytest.mark.parametrize("name", METHODS)
def test_inner_problem_touches_nothing(name, images):
    trainer = make_trainer(name)
    before = weights_of(trainer)
    x, y = map(tf.constant, images)
    trainer._solve(trainer.attack, x, y, tf.constant([0, 0]))
    for old, new in zip(before, weights_of(trainer), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", MOST)
def test_saved_reloaded_and_gone_on_alike(name, images, tmp_path):
    """Also shows that the same seed gives the same bits."""
    trainer = make_trainer(name)
    for _ in range(2):
        trainer.train_on_batch(*images)
    path = trainer.checkpoint().write(str(tmp_path / "state"))
    trainer.train_on_batch(*images)
    again = make_trainer(name)
    again.checkpoint().read(path).assert_consumed()
    again.train_on_batch(*images)
    for a, b in zip(weights_of(trainer), weights_of(again), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(
        trainer.optimizer.variables, again.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", MOST)
def test_classifier_is_exported_alone(name, images, tmp_path):
    trainer = make_trainer(name)
    trainer.train_on_batch(*images)
    adt_tf.export(trainer.classifier, tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model"))
    x = tf.constant(images[0])
    answer = served.signatures["serving_default"](images=x)
    np.testing.assert_allclose(
        answer["logits"], trainer.classifier(x, training=False), atol=1e-5
    )


def test_list_has_one_line_each():
    for name, line in methods.list().items():
        assert callable(getattr(methods, name))
        assert line.endswith(".") and len(line) < 80


def test_unknown_names_and_arguments_are_refused():
    with pytest.raises(ValueError, match="at_pgd.*Received: name='at_pdg'"):
        methods.get("at_pdg")
    with pytest.raises(ValueError, match="does not take num_samples"):
        methods.get("at_pgd", num_samples=3)
