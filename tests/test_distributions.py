import numpy as np
import pytest
import tensorflow as tf

from adt_tf import seeds
from adt_tf.distributions import Dirac, TanhGaussian
from adt_tf.threat_models import Linf

EPSILON = 0.3


def one_pixel(mu, rho, entropy_reduction="mean"):
    family = TanhGaussian(Linf(EPSILON), entropy_reduction=entropy_reduction)
    x = tf.fill([1, 1, 1, 1], 0.5)
    params = {"mu": tf.fill(x.shape, mu), "rho": tf.fill(x.shape, rho)}
    return family, x, params


@pytest.mark.parametrize("mu, rho", [(0.0, 0.0), (1.0, -1.0), (-0.7, 0.3)])
def test_density_integrates_to_one_and_entropy_matches_quadrature(mu, rho):
    family, x, params = one_pixel(mu, rho)
    p = family.as_tfp(x, params)

    nodes, weights = np.polynomial.legendre.leggauss(4000)
    delta = tf.constant(EPSILON * nodes.reshape(-1, 1, 1, 1, 1), tf.float32)
    density = p.prob(delta).numpy().ravel().astype("float64")
    weights = EPSILON * weights
    assert abs(weights @ density - 1) < 1e-3
    entropy = -weights @ (density * np.log(np.maximum(density, 1e-300)))
    num_samples = 200_000
    noise = family.noise(x, num_samples, seeds.make(0))
    _, estimate = family.sample(x, params, noise)
    estimate = estimate.numpy()
    error = estimate.std() / np.sqrt(num_samples)
    assert abs(estimate.mean() - entropy) < 5 * error + 1e-3


def test_entropy_is_minus_log_prob_per_dimension():
    family = TanhGaussian(Linf(EPSILON))
    x = tf.fill([2, 4, 4, 3], 0.5)
    generator = np.random.default_rng(0)
    params = {
        "mu": tf.constant(generator.normal(0, 0.5, x.shape), tf.float32),
        "rho": tf.constant(generator.normal(0, 0.5, x.shape), tf.float32),
    }
    noise = family.noise(x, 3, seeds.make(0))
    x_adv, entropy = family.sample(x, params, noise)
    p = family.as_tfp(x, params)
    delta = tf.transpose(x_adv - x[:, tf.newaxis], [1, 0, 2, 3, 4])
    expected = -tf.transpose(p.log_prob(delta)) / 48
    np.testing.assert_allclose(entropy, expected, rtol=1e-3)
    summed = TanhGaussian(Linf(EPSILON), entropy_reduction="sum")
    np.testing.assert_allclose(
        summed.sample(x, params, noise)[1], 48 * entropy, rtol=1e-5
    )


@pytest.mark.parametrize("mu", [-50.0, 50.0])
def test_gradients_stay_finite_where_tanh_saturates(mu):
    family, x, params = one_pixel(mu, 0.0)
    noise = family.noise(x, 5, seeds.make(0))
    with tf.GradientTape() as tape:
        tape.watch(params)
        x_adv, entropy = family.sample(x, params, noise)
        total = tf.reduce_sum(x_adv) + tf.reduce_sum(entropy)
    gradients = tape.gradient(total, params)
    assert np.isfinite(total)
    for gradient in gradients.values():
        assert np.isfinite(gradient).all()
    # Entropy falls as the mass is pushed to the wall: d/du log(1 - tanh^2 u)
    # = -2 tanh(u) = -+2 for each of the five samples.
    np.testing.assert_allclose(
        gradients["mu"], np.full([1, 1, 1, 1], -10 * np.sign(mu)), rtol=1e-5
    )


def test_samples_follow_the_tfp_distribution():
    family, x, params = one_pixel(0.4, -0.3)
    noise = family.noise(x, 50_000, seeds.make(0))
    ours = np.sort((family.sample(x, params, noise)[0] - 0.5).numpy().ravel())
    theirs = family.as_tfp(x, params).sample(50_000, seed=1).numpy().ravel()
    # Two-sample Kolmogorov-Smirnov distance, 1 % level: 1.63 sqrt(2/n).
    both = np.sort(np.concatenate([ours, theirs]))
    gap = np.searchsorted(ours, both) - np.searchsorted(np.sort(theirs), both)
    assert np.abs(gap).max() / 50_000 < 1.63 * np.sqrt(2 / 50_000)


def test_samples_are_clipped_to_the_box():
    family = TanhGaussian(Linf(EPSILON))
    x = tf.ones([1, 2, 2, 1])
    noise = family.noise(x, 100, seeds.make(0))
    x_adv, _ = family.sample(x, family.init(x, None), noise)
    assert float(tf.reduce_max(x_adv)) == 1.0


def test_refuses_an_unknown_reduction():
    with pytest.raises(ValueError, match="entropy_reduction='max'"):
        TanhGaussian(Linf(0.1), entropy_reduction="max")


def test_dirac_as_tfp_is_the_point():
    family = Dirac(Linf(0.1))
    x = tf.fill([2, 4, 4, 1], 0.5)
    params = family.init(x, seeds.make(0))
    p = family.as_tfp(x, params)
    np.testing.assert_array_equal(p.sample(seed=0), params - x)
    assert p.batch_shape == (2,)


def test_dirac_repeats_its_point_for_many_samples():
    family = Dirac(Linf(0.1), random_start=False)
    x = tf.fill([2, 4, 4, 1], 0.5)
    x_adv, entropy = family.sample(x, x, family.noise(x, 3, None))
    assert x_adv.shape == (2, 3, 4, 4, 1)
    assert entropy.shape == (2, 3)
