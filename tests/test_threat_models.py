import json

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, seeds, threat_models
from adt_tf.distributions import TanhGaussian
from adt_tf.threat_models import Linf, ThreatModel
from tests.support.euclidean import Euclidean
from tests.support.models import make_linear


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
        Linf(0.1).bijector(u.shape).forward(u), 0.1 * np.tanh(u), atol=1e-7
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


def test_identity_is_the_config():
    threat_model = Linf(0.1, (-1.0, 1.0))
    config = threat_model.get_config()
    assert json.loads(json.dumps(config)) == config
    assert Linf.from_config(config) == threat_model
    assert hash(Linf.from_config(config)) == hash(threat_model)
    assert threat_model != Linf(0.1) and threat_model != Euclidean(0.1)
    assert threat_model.with_epsilon(0.2) == Linf(0.2, (-1.0, 1.0))


def test_scaled_by_a_number_is_a_threat_model_like_any():
    threat_model = Linf(0.25)
    assert threat_model.scaled(0.5) == Linf(0.125)
    assert threat_model.epsilon == 0.25
    with pytest.raises(ValueError, match="Received: epsilon=1.25"):
        threat_model.scaled(5)


def test_scaled_by_a_tensor_flows_through_one_trace():
    x = tf.constant(
        np.random.default_rng(0).uniform(size=(3, 4, 4, 1)), "float32"
    )
    traces = []

    @tf.function
    def start(share):
        traces.append(share)
        threat_model = Linf(0.25).scaled(share)
        assert "a tensor" in repr(threat_model)
        with pytest.raises(ValueError, match="has no config"):
            threat_model.get_config()
        x_adv = threat_model.random_start(x, seeds.make(0))
        return threat_model.assert_inside(x, x_adv[:, tf.newaxis], "start")

    for share in (0.5, 0.25, 1.0):
        expected = Linf(0.25 * share).random_start(x, seeds.make(0))
        ours = start(tf.constant(share))[:, 0]
        np.testing.assert_allclose(ours, expected, atol=1e-7)
    assert len(traces) == 1


NORMS = [Linf(0.1), Euclidean(0.5)]


@pytest.mark.parametrize("threat_model", NORMS, ids=repr)
def test_steepest_beats_every_other_unit_vector(threat_model):
    generator = np.random.default_rng(0)
    gradient = generator.normal(size=(5, 4, 4, 1)).astype("float32")
    best = np.sum(threat_model.steepest(gradient) * gradient, axis=(1, 2, 3))
    np.testing.assert_allclose(
        threat_model.norm(threat_model.steepest(gradient)), 1.0, rtol=1e-6
    )
    for seed in range(20):
        other = threat_model.random_direction(
            tf.constant(gradient), seeds.make(seed)
        )
        np.testing.assert_allclose(threat_model.norm(other), 1.0, rtol=1e-6)
        assert np.all(np.sum(other * gradient, axis=(1, 2, 3)) <= best)


@pytest.mark.parametrize("threat_model", NORMS, ids=repr)
def test_the_squash_is_the_bijector(threat_model):
    """The entropy by `squash` is that of TFP's own density."""
    generator = np.random.default_rng(0)
    x = tf.constant(generator.uniform(0.4, 0.6, (2, 2, 2, 1)), tf.float32)
    family = TanhGaussian(threat_model, entropy_reduction="sum")
    params = {
        "mu": tf.constant(generator.normal(size=x.shape), tf.float32),
        "rho": tf.constant(generator.normal(size=x.shape), tf.float32),
    }
    noise = family.noise(x, 3, seeds.make(0))
    x_adv, entropy = family.sample(x, params, noise)
    density = family.as_tfp(x, params)
    delta = tf.transpose(x_adv - x[:, tf.newaxis], [1, 0, 2, 3, 4])
    np.testing.assert_allclose(
        entropy, -tf.transpose(density.log_prob(delta)), rtol=2e-3
    )


@pytest.mark.parametrize("threat_model", NORMS, ids=repr)
def test_noise_and_starts_lie_in_the_ball(threat_model):
    x = tf.constant(
        np.random.default_rng(0).uniform(0.4, 0.6, (4, 4, 4, 1)), tf.float32
    )
    noisy = threat_model.random_noise(x, 6, seeds.make(0))
    for draw in range(6):
        threat_model.check(x, noisy[:, draw])
    on_surface = [threat_model.random_surface(x, seeds.make(0))]
    on_surface += [noisy[:, draw] for draw in (1, 3, 5)]
    for x_adv in on_surface:
        np.testing.assert_allclose(
            threat_model.distance(x, x_adv), threat_model.epsilon, rtol=1e-5
        )
    threat_model.check(x, threat_model.random_start(x, seeds.make(0)))
    size = threat_model.relative_size(noisy - x[:, tf.newaxis])
    assert 0 < float(tf.reduce_mean(size)) <= 1.00001
    most = threat_model.largest_epsilon(x.shape[1:])
    corner = tf.cast(x < 0.5, tf.float32)
    assert np.all(threat_model.distance(x, corner) <= most)


def recipes():
    targets = (
        np.random.default_rng(1).uniform(size=(6, 4, 4, 1)),
        np.arange(6) % 3,
    )
    targets = (targets[0].astype("float32"), targets[1].astype("int32"))
    made = {
        "fgsm": {},
        "pgd": {"num_steps": 3},
        "mim": {"num_steps": 3},
        "cw": {"num_steps": 3},
        "fea": {
            "num_steps": 2,
            "num_targets": 2,
            "targets": targets,
            "features": "logits",
        },
        "spsa": {"num_steps": 2, "num_samples": 4},
        "exp": {"num_steps": 3, "num_samples": 2},
        "l2l": {"input_shape": (4, 4, 1), "width_factor": 0.1},
        "exp_am": {"input_shape": (4, 4, 1), "width_factor": 0.1},
        "imp_am": {"input_shape": (4, 4, 1), "width_factor": 0.1},
        "apgd_ce": {"num_steps": 5},
        "apgd_t": {"num_steps": 5, "num_targets": 2},
    }
    return made.items()


@pytest.mark.parametrize(("name", "arguments"), recipes())
def test_a_norm_of_ones_own_is_one_class(name, arguments):
    """Every attack that needs no optional hook works in another norm."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(6, 4, 4, 1)).astype("float32")
    y = generator.integers(0, 3, 6).astype("int32")
    threat_model = Euclidean(0.3)
    attack = getattr(attacks, name)(threat_model, **arguments)
    x_adv = attack(make_linear(), x, y, seed=0).x_adv
    threat_model.check(x, x_adv)
    assert float(tf.reduce_max(threat_model.distance(x, x_adv))) > 0
    half = attack.scaled(0.5)(make_linear(), x, y, seed=0).x_adv
    threat_model.scaled(0.5).check(x, half)


@pytest.mark.parametrize("name", ["fab_t", "square"])
def test_an_attack_refuses_a_norm_without_the_hooks_it_needs(name):
    with pytest.raises(ValueError, match="cannot attack in the l2 norm"):
        getattr(attacks, name)(Euclidean(0.1))


def test_the_interface_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        ThreatModel(0.1)
