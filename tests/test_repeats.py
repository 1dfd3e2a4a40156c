"""Climbs that repeat themselves end early, with the same verdicts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks
from adt_tf.attacks.repeats import MEMORY, Repeats
from adt_tf.attacks.resumable import Pieces


def points(*numbers):
    return tf.constant(numbers, tf.float32)[:, tf.newaxis]


def test_an_exact_repeat_settles_an_example():
    repeats = Repeats.none(2)
    for step, numbers in enumerate([(1, 1), (2, 2), (3, 1), (4, 2)]):
        assert not np.any(repeats.settled) or step > 2
        repeats = repeats.noted(points(*numbers), tf.constant(step))
    assert repeats.settled.numpy().tolist() == [False, True]


def test_zeros_before_the_first_step_are_no_points(monkeypatch):
    monkeypatch.setattr(
        tf, "fingerprint", lambda x: tf.zeros([len(x), 8], tf.uint8)
    )
    repeats = Repeats.none(1).noted(points(5), tf.constant(0))
    assert not repeats.settled[0]
    assert repeats.noted(points(5), tf.constant(1)).settled[0]


def test_the_memory_is_a_ring():
    repeats = Repeats.none(1)
    for step in range(MEMORY + 1):
        repeats = repeats.noted(points(step), tf.constant(step))
    assert not repeats.settled[0]
    # Point 0 was overwritten, point 1 was not.
    again = tf.constant(MEMORY + 1)
    assert not repeats.noted(points(0), again).settled[0]
    assert repeats.noted(points(1), again).settled[0]


def bowl():
    """A classifier of one pixel whose loss is highest at 0.5 of two pixels."""
    inputs = keras.Input((1, 2, 1))
    x = keras.layers.Flatten()(inputs)
    peak = -keras.ops.sum(keras.ops.abs(x - 0.53), axis=-1, keepdims=True)
    return keras.Model(
        inputs, keras.ops.concatenate([-peak, 0 * peak + 5.0], axis=-1)
    )


@pytest.mark.parametrize("size", [1, 4])
def test_pgd_ends_where_it_goes_round(size):
    """Sign steps around a peak swing between two points for ever."""
    model, x = bowl(), np.full([size, 1, 2, 1], 0.5, "float32")
    y = np.zeros(size, "int32")
    attack = attacks.pgd(0.25, num_steps=60)
    pieces = Pieces(attack, model, x, y)
    steps = 0
    while not pieces.done:
        pieces.advance(1)
        steps += 1
    assert steps < 12
    assert np.all(pieces.progress.state[2].settled)
    whole = to_the_end(attacks.pgd(0.25, num_steps=60), model, x, y)
    assert_same_strength(pieces.progress.best, whole)


def to_the_end(attack, model, x, y):
    """The best image of a climb that watches for no repeats."""
    attack._may_repeat = lambda: False
    pieces = Pieces(attack, model, x, y)
    assert pieces.progress.state[2] == ()
    pieces.advance(attack.num_steps)
    return pieces.progress.best


def assert_same_strength(one, other):
    np.testing.assert_array_equal(one.wrong, other.wrong)
    np.testing.assert_array_equal(one.loss, other.loss)


def test_verdicts_on_real_images_are_those_of_the_whole_climb(digits):
    """Some of the images have come back to a point after 70 steps."""
    model = adt_tf.from_preset("digits_small_cnn_at_pgd")
    x, y = (array[:24] for array in digits)
    pieces = Pieces(attacks.pgd(0.15, num_steps=70), model, x, y)
    pieces.advance(70)
    settled = pieces.progress.state[2].settled.numpy()
    assert settled.any()
    whole = to_the_end(attacks.pgd(0.15, num_steps=70), model, x, y)
    assert_same_strength(pieces.progress.best, whole)


def test_only_what_must_circle_is_watched():
    def watched(attack):
        return attack._may_repeat()

    assert watched(attacks.pgd(0.1)) and watched(attacks.cw(0.1))
    assert not watched(attacks.pgd(0.1, last_iterate=True))
    assert not watched(attacks.mim(0.1))
    assert not watched(attacks.exp(0.1))
    assert not watched(attacks.spsa(0.1))
