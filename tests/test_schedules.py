"""Learning rates beside their formulas."""

import keras
import numpy as np
import pytest

from adt_tf import schedules


def rates(schedule, steps):
    return np.array([float(schedule(t)) for t in range(steps)])


def test_one_cycle_by_hand():
    schedule = schedules.get("one_cycle", 0.2, total_steps=20, warmup_steps=5)
    steps = np.arange(20)
    expected = 0.2 * np.where(
        steps < 5, (steps + 1) / 5, (20 - steps) / (20 - 5)
    )
    np.testing.assert_allclose(rates(schedule, 20), expected, rtol=1e-5)
    assert float(schedule(20)) == 0.0
    default = schedules.get("one_cycle", 0.2, total_steps=20)
    assert default.warmup_steps == 6


@pytest.mark.parametrize("warmup", [0, 4])
def test_cosine_by_hand(warmup):
    schedule = schedules.get("cosine", 0.2, total_steps=20, warmup_steps=warmup)
    steps = np.arange(20)
    expected = 0.1 * (1 + np.cos(np.pi * (steps - warmup) / (20 - warmup)))
    if warmup:
        rise = 0.05 + (0.2 - 0.05) * steps / warmup
        expected = np.where(steps < warmup, rise, expected)
    np.testing.assert_allclose(rates(schedule, 20), expected, rtol=1e-4)


def test_drops_as_they_were():
    """The same object of Keras as ever; without drops, a number."""
    assert schedules.get("steps", 0.1, total_steps=9) == 0.1
    schedule = schedules.get("steps", 0.1, total_steps=9, drops=[3, 6])
    assert type(schedule) is keras.optimizers.schedules.PiecewiseConstantDecay
    expected = [0.1] * 3 + [0.01] * 3 + [0.001] * 3
    np.testing.assert_allclose(rates(schedule, 9), expected, rtol=1e-5)
    warm = schedules.get(
        "steps", 0.1, total_steps=9, drops=[3, 6], warmup_steps=2
    )
    expected[0] /= 2
    np.testing.assert_allclose(rates(warm, 9), expected, rtol=1e-5)


@pytest.mark.parametrize("name", schedules.NAMES)
def test_saved_and_made_again(name):
    schedule = schedules.get(name, 0.1, total_steps=9, warmup_steps=3)
    optimizer = keras.optimizers.SGD(schedule)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    config = again.get_config()["learning_rate"]
    same = keras.optimizers.schedules.deserialize(config)
    np.testing.assert_array_equal(rates(schedule, 9), rates(same, 9))


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "linear"},
        {"warmup_steps": 9},
        {"warmup_steps": -1},
        {"name": "cosine", "drops": [3]},
    ],
)
def test_nonsense_is_refused(arguments):
    given = {"name": "steps", "rate": 0.1, "total_steps": 9, **arguments}
    with pytest.raises(ValueError, match="must be"):
        schedules.get(**given)
