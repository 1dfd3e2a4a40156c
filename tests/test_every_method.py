"""One table of methods drives every property that all of them share."""

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf import methods
from tests.conftest import make_convolutional

EPSILON = 0.1
METHODS = list(methods.list())


def train(name, images, jit_compile=False, seed=0):
    classifier = make_convolutional()
    method = methods.get(name, epsilon=EPSILON)
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=seed
    )
    trainer.compile(keras.optimizers.SGD(0.05), jit_compile=jit_compile)
    logs = [trainer.train_on_batch(*images, return_dict=True) for _ in "ab"]
    return classifier, logs


@pytest.mark.parametrize("name", METHODS)
def test_two_steps_with_and_without_xla(name, images):
    start = make_convolutional().get_weights()
    ends = []
    for jit_compile in (False, True):
        classifier, logs = train(name, images, jit_compile)
        assert np.isfinite([list(log.values()) for log in logs]).all()
        ends.append(classifier.get_weights())
        assert any(
            np.abs(a - b).max() > 1e-4
            for a, b in zip(start, ends[-1], strict=True)
        )
    # The noise is the same, so only rounding tells the two apart.
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_bits(name, images):
    first, again = (train(name, images)[0].get_weights() for _ in "ab")
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_list_has_one_line_each():
    for name, line in methods.list().items():
        assert callable(getattr(methods, name))
        assert line.endswith(".") and len(line) < 80


def test_unknown_names_and_arguments_are_refused():
    with pytest.raises(ValueError, match="at_pgd.*Received: name='at_pdg'"):
        methods.get("at_pdg")
    with pytest.raises(ValueError, match="does not take.*num_samples"):
        methods.get("at_pgd", num_samples=3)
