import numpy as np
import pytest
import tensorflow as tf

from adt_tf import seeds, threat_models
from adt_tf.threat_models import Linf


def test_perturb_and_project_against_numpy():
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(50, 4, 4, 3)).astype("float32")
    delta = generator.normal(size=x.shape).astype("float32")
    expected = np.clip(x + np.clip(delta, -0.1, 0.1), 0, 1)
    threat_model = Linf(0.1)
    np.testing.assert_allclose(
        threat_model.perturb(x, delta), expected, atol=1e-7
    )
    np.testing.assert_allclose(
        threat_model.project(x, x + delta), expected, atol=1e-7
    )
    once = threat_model.project(x, x + delta)
    np.testing.assert_array_equal(threat_model.project(x, once), once)


def test_other_bounds_are_respected():
    threat_model = Linf(20.0, bounds=(0.0, 255.0))
    x = tf.constant([[0.0, 128.0, 250.0]])
    x_adv = threat_model.perturb(x, tf.constant([[-30.0, 30.0, 30.0]]))
    np.testing.assert_allclose(x_adv, [[0.0, 148.0, 255.0]])
    threat_model.check(x, x_adv)


def test_random_start_fills_the_ball():
    x = np.full((4, 32, 32, 3), 0.5, "float32")
    x += np.arange(4)[:, None, None, None] * 0.01
    start = Linf(0.1).random_start(tf.constant(x), seeds.make(0))
    delta = (start - x).numpy()
    assert np.abs(delta).max() <= 0.1 + 1e-6
    # Uniform on [-0.1, 0.1]: mean 0, standard deviation 0.1 / sqrt(3).
    assert abs(delta.mean()) < 2e-3
    assert abs(delta.std() - 0.1 / np.sqrt(3)) < 1e-3


def test_random_start_is_clipped_to_the_box():
    start = Linf(0.1).random_start(tf.zeros([2, 8, 8, 1]), seeds.make(0))
    assert float(tf.reduce_min(start)) == 0.0


def test_bijector_fills_the_ball():
    u = tf.constant([-50.0, 0.0, 1.0, 50.0])
    np.testing.assert_allclose(
        Linf(0.1).bijector().forward(u), 0.1 * np.tanh(u), atol=1e-7
    )


@pytest.mark.parametrize(
    "x_adv",
    [[[0.7]], [[1.01]], [[-0.01]], [[float("nan")]], [[float("inf")]]],
)
def test_check_refuses_what_left_the_ball_or_the_box(x_adv):
    with pytest.raises(ValueError, match="left its threat model"):
        Linf(0.1).check(tf.constant([[0.5]]), tf.constant(x_adv))


def test_check_takes_rounding():
    Linf(0.1).check(tf.constant([[0.5]]), tf.constant([[0.6000001]]))


def test_get_takes_numbers_and_threat_models():
    threat_model = Linf(0.1)
    assert threat_models.get(threat_model) is threat_model
    assert threat_models.get(0.25).epsilon == 0.25
