"""Attacks made of attacks."""

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks
from tests.support.models import make_convolutional, predicted

EPSILON = 0.05


@pytest.fixture
def right(convolutional, images):
    """Images with the labels that the classifier gives them."""
    x, _ = images
    return x, predicted(convolutional, x)


def test_transfer_from_itself_is_the_attack(convolutional, right):
    attack = attacks.pgd(EPSILON)
    expected = attack(convolutional, *right).x_adv
    found = attacks.Transfer(convolutional, attack)(convolutional, *right).x_adv
    np.testing.assert_array_equal(found, expected)


def test_transfer_shows_what_was_found_on_the_source(convolutional, right):
    x, y = right
    source, attack = make_convolutional(1), attacks.pgd(EPSILON)
    on_source = attack(source, x, y).x_adv.numpy()
    found = attacks.Transfer(source, attack)(convolutional, x, y).x_adv.numpy()
    taken = (found == on_source).all(axis=(1, 2, 3))
    kept = (found == x).all(axis=(1, 2, 3))
    assert (taken | kept).all() and taken.any()

    def wrong(images):
        return predicted(convolutional, images) != y

    # What keeps the clean image costs no success.
    np.testing.assert_array_equal(wrong(found), wrong(on_source))


def test_generators_are_trained_through_wrappers(right):
    generated = attacks.exp_am(
        EPSILON, input_shape=(8, 8, 1), width_factor=0.03125
    )
    source, other = make_convolutional(1), make_convolutional(2)
    attack = attacks.Transfer(source, attacks.Restarts(generated, 2))
    assert attack.networks == generated.networks
    before = generated.networks[0].get_weights()
    # Against the source: the classifier that it is shown to is not asked.
    attack.fit(None, right, verbose=0)
    after = generated.networks[0].get_weights()
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    attack(other, *right)


@pytest.mark.parametrize(
    "wrap", [lambda a: a, lambda a: attacks.Restarts(a, 2)]
)
def test_an_evaluation_is_told_apart_by_its_source(
    wrap, convolutional, right, tmp_path, monkeypatch
):
    from adt_tf.evaluation.state import State

    monkeypatch.setattr(State, "remove", lambda self: None)
    for seed in (1, 1, 2):
        source = make_convolutional(seed)
        source.name = "source"
        attack = wrap(attacks.Transfer(source, attacks.fgsm(EPSILON)))
        adt_tf.evaluate(
            convolutional, right, [attack], directory=tmp_path, verbose=False
        )
    assert len(list(tmp_path.iterdir())) == 2
