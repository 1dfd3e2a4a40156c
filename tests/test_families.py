"""The richer families: densities, entropies and limits that are known."""

import math

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, networks, seeds, step_rules
from adt_tf.distributions import (
    Empirical,
    Flow,
    Generated,
    ImplicitStein,
    TanhGaussian,
    TanhLowRank,
    TanhMixture,
    named,
    stein,
)
from adt_tf.threat_models import L2, Linf
from tests.support import graphs
from tests.support.models import make_convolutional

EPSILON = 0.3
BALLS = {"Linf": Linf(EPSILON), "L2": L2(EPSILON)}
SEED = seeds.make(0)
TWO_PIXELS = tf.fill([1, 1, 2, 1], 0.5)


def draws(family, params, num_samples, x=TWO_PIXELS):
    return family.sample(x, params, family.noise(x, num_samples, SEED))


def mixture(ball):
    family = TanhMixture(ball, num_components=2)
    shape = [1, 2, 1, 2, 1]
    mu = tf.reshape([0.9, -0.5, -0.6, 0.4], shape)
    return family, {"mu": mu, "rho": tf.reshape([0.1, -0.5, 0.0, -1.0], shape)}


def low_rank(ball):
    family = TanhLowRank(ball, rank=1)
    params = {
        "mu": tf.reshape([0.3, -0.2], [1, 1, 2, 1]),
        "rho": tf.reshape([-1.0, -0.5], [1, 1, 2, 1]),
        "factors": tf.reshape([0.6, -0.8], [1, 1, 1, 2, 1]),
    }
    return family, params


def flow(ball):
    generator = networks.explicit_generator((1, 2, 1), width_factor=1 / 32)
    couplings = [
        networks.coupling((1, 2, 1), width_factor=1 / 8, seed=i)
        for i in range(2)
    ]
    random = np.random.default_rng(1)
    for network in couplings:
        head = network.get_layer("head")
        head.set_weights(
            [random.normal(0, 4, w.shape) for w in head.get_weights()]
        )
    conditioning = tf.constant(random.normal(size=[1, 1, 2, 3]), tf.float32)
    return Flow(ball, generator, couplings), conditioning


MAKERS = {"mixture": mixture, "low-rank": low_rank, "flow": flow}


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", MAKERS)
def test_density_integrates_to_one_and_entropy_is_its_own(name, ball):
    """In two dimensions, by quadrature over the ball."""
    family, params = MAKERS[name](BALLS[ball])
    p = family.as_tfp(TWO_PIXELS, params)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    if ball == "Linf":
        grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2) * EPSILON
        areas = np.outer(weights, weights).ravel() * EPSILON**2
    else:
        radius = EPSILON * (nodes + 1) / 2
        angle = np.pi * (nodes + 1)
        r, a = (v.ravel() for v in np.meshgrid(radius, angle))
        grid = np.stack([r * np.cos(a), r * np.sin(a)], -1)
        areas = np.outer(weights, weights).ravel() * EPSILON / 2 * np.pi * r
    delta = tf.constant(grid.reshape(-1, 1, 1, 2, 1), tf.float32)
    log_density = p.log_prob(delta).numpy().ravel().astype("float64")
    density = np.exp(log_density)
    assert abs(areas @ density - 1) < 4e-3
    entropy = -areas @ (density * np.maximum(log_density, -700))
    num_samples = 100_000
    x_adv, estimate = draws(family, params, num_samples)
    estimate = 2 * estimate.numpy().astype("float64")  # a mean over two
    error = estimate.std() / np.sqrt(num_samples)
    assert abs(estimate.mean() - entropy) < 5 * error + 1e-2
    # The samples are of the density: the mean of each pixel agrees.
    mean = areas @ (grid * density[:, None])
    moved = np.reshape(x_adv - 0.5, [-1, 2])
    spread = moved.std(axis=0) / np.sqrt(num_samples)
    assert (np.abs(moved.mean(axis=0) - mean) < 5 * spread + 1e-3).all()


@pytest.mark.parametrize("ball", BALLS)
def test_one_component_or_no_direction_is_the_gaussian(ball, images):
    x = tf.constant(images[0][:3])
    gaussian = TanhGaussian(BALLS[ball])
    params = gaussian.init(x, SEED)
    params["mu"] += 0.3
    noise = tf.random.stateless_normal([3, 4, 8, 8, 1], SEED)
    expected = gaussian.sample(x, params, noise)
    flat = tf.reshape(noise, [3, 4, 64])

    one = TanhMixture(BALLS[ball], num_components=1)
    start = one.init(x, SEED)
    np.testing.assert_array_equal(start["mu"], tf.zeros([3, 1, 8, 8, 1]))
    found = one.sample(
        x,
        {"mu": start["mu"] + 0.3, "rho": start["rho"]},
        tf.concat([flat, tf.ones([3, 4, 1])], axis=-1),
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)

    straight = TanhLowRank(BALLS[ball], rank=2)
    found = straight.sample(
        x,
        {**params, "factors": tf.zeros([3, 2, 8, 8, 1])},
        tf.concat([flat, tf.ones([3, 4, 2])], axis=-1),
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_flow_starts_as_the_generated_gaussian_and_then_leaves_it():
    x = 0.4 + 0.2 * tf.random.stateless_uniform([3, 8, 8, 1], SEED)
    conditioning = tf.concat([x, x, -x], axis=-1)
    generator = networks.explicit_generator((8, 8, 1), width_factor=1 / 32)
    coupling = networks.coupling((8, 8, 1), width_factor=1 / 16)
    flow = Flow(Linf(EPSILON), generator, [coupling, coupling])
    plain = Generated(TanhGaussian(Linf(EPSILON)), generator)
    noise = flow.noise(x, 2, SEED)
    found = flow.sample(x, conditioning, noise)
    expected = plain.sample(x, conditioning, noise)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    head = coupling.get_layer("head")
    head.set_weights([0.5 * np.ones(w.shape) for w in head.get_weights()])
    x_adv, entropy = flow.sample(x, conditioning, noise)
    assert np.abs(x_adv - expected[0]).max() > 0.01
    # Minus its log-density, through the inverse of all layers.
    delta = tf.transpose(x_adv - x[:, tf.newaxis], [1, 0, 2, 3, 4])
    p = flow.as_tfp(x, conditioning)
    np.testing.assert_allclose(
        entropy, -tf.transpose(p.log_prob(delta)) / 64, atol=0.02
    )


def test_components_start_apart_and_entropy_keeps_them_apart():
    x = tf.fill([2, 4, 4, 1], 0.5)
    family = TanhMixture(Linf(EPSILON), num_components=3, spread=2.0)
    params = family.init(x, SEED)
    mu = params["mu"].numpy().reshape(2, 3, -1)
    for i in range(3):
        assert np.abs(mu[:, i] - mu[:, i - 1]).mean() > 1
    np.testing.assert_allclose(mu.mean(axis=1), 0, atol=1e-6)
    _, apart = draws(family, params, 500, x)
    alone = []
    for i in range(3):
        mu = tf.repeat(params["mu"][:, i : i + 1], 3, axis=1)
        alone.append(draws(family, {**params, "mu": mu}, 500, x)[1])
    # What each has, and log 3 for all, over 16 values.
    gain = float(tf.reduce_mean(apart) - tf.reduce_mean(alone))
    assert gain == pytest.approx(math.log(3) / 16, abs=0.04)


def test_empirical_distribution_draws_each_point_alike(images):
    x = tf.constant(images[0][:2])
    family = Empirical(Linf(0.1), num_points=4)
    points = family.init(x, SEED)
    x_adv, entropy = family.sample(x, points, family.noise(x, 2000, SEED))
    assert not np.any(entropy)
    distance = np.abs(x_adv[:, :, None] - points[:, None]).max((3, 4, 5))
    assert (distance.min(axis=2) == 0).all()
    shares = np.mean(distance.argmin(axis=2)[..., None] == range(4), axis=1)
    np.testing.assert_allclose(shares, 0.25, atol=0.05)
    p = family.as_tfp(x, points)
    np.testing.assert_allclose(
        p.mean(), tf.reduce_mean(points, 1) - x, atol=1e-6
    )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_steins_score_is_that_of_a_gaussian(size):
    random = np.random.default_rng(size)
    mean, deviation = random.normal(size=size), 0.5 + np.arange(size) / size
    samples = mean + deviation * random.normal(size=[10, 400, size])
    found = stein.score(tf.constant(samples, tf.float32)).numpy()
    expected = (mean - samples) / deviation**2
    inner = np.abs((samples - mean) / deviation).max(axis=-1) < 1.5
    error = np.square(found - expected)[inner].mean()
    assert error < 0.15 * np.square(expected)[inner].mean()


def test_steins_entropy_has_the_gradient_and_the_value_of_a_gaussian():
    """dH / dsigma = 1 / sigma, and H = log(2 pi e) / 2 + log sigma, twice."""
    noise = tf.random.stateless_normal([300, 2], SEED)
    sigma = tf.constant([0.5, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(sigma)
        entropy = stein.entropy(sigma * noise)
    slope = tape.gradient(entropy, sigma)
    np.testing.assert_allclose(slope, [2.0, 0.5], rtol=0.2)
    expected = math.log(2 * math.pi * math.e) + math.log(0.5 * 2.0)
    assert float(entropy) == pytest.approx(expected, abs=0.15)


def test_steins_score_of_equal_samples_is_finite():
    assert np.isfinite(stein.score(tf.ones([3, 4, 5]))).all()
    assert np.isfinite(stein.entropy(tf.ones([3, 4, 5]))).all()


def test_steins_entropy_spreads_an_implicit_distribution(images):
    """Without a loss, an ascent on the entropy makes perturbations differ."""
    x = tf.constant(images[0][:4])
    generator = networks.implicit_generator((8, 8, 1), width_factor=1 / 32)
    family = ImplicitStein(Linf(EPSILON), generator, num_particles=6)
    conditioning = tf.concat([x, x, x], axis=-1)
    weights = generator.trainable_variables

    def spread():
        noise = family.noise(x, 6, SEED)
        x_adv, entropy = family.sample(x, conditioning, noise)
        return np.std(x_adv, axis=1).mean(), float(tf.reduce_mean(entropy))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            _, entropy = family.sample(
                x, conditioning, family.noise(x, 1, SEED), training=True
            )
            total = tf.reduce_mean(entropy)
        for variable, slope in zip(
            weights, tape.gradient(total, weights), strict=True
        ):
            variable.assign_add(0.02 * tf.sign(slope))

    before = spread()
    for _ in range(8):
        step()
    after = spread()
    assert after[0] > 2 * before[0] and after[1] > before[1]


def test_langevin_follows_its_stationary_density():
    """On a slope of 1, exp(p / T) in the interval, whose mean is known."""
    temperature, ball = 0.5, Linf(0.2, (-10.0, 10.0))
    rule = step_rules.langevin(share=0.004, temperature=temperature)
    keys = tf.random.stateless_normal([10, 1], SEED)

    @tf.function
    def walk(points):
        for t in tf.range(1000):
            state = rule.init(points)
            state = rule.draw(state, keys, seeds.fold(SEED, t))
            points, _ = rule.update(points, tf.ones_like(points), state, ball)
            points = tf.clip_by_value(points, -0.2, 0.2)
        return points

    found = walk(tf.zeros([10, 200])).numpy().ravel() / 0.2
    # exp(u / T) on [-1, 1] has the mean coth(1 / T) - T.
    expected = 1 / np.tanh(1 / temperature) - temperature
    assert found.mean() == pytest.approx(expected, abs=0.06)
    cold = step_rules.langevin(0.02, temperature=0.0)
    point = tf.zeros([1, 1])
    moved, _ = cold.update(point, point + 1, point + 9, ball)
    np.testing.assert_allclose(moved, 0.02)


def test_a_chain_gives_the_distribution_of_its_last_points(images):
    x, y = map(tf.constant, images)
    classifier = make_convolutional()
    attack = attacks.langevin(0.1, num_steps=6, temperature=0.05, num_points=3)
    with graphs.run_eagerly():
        p = attack.distribution(classifier, x, y, seed=1)
        again = attack.distribution(classifier, x[:2], y[:2], seed=1)
    assert p.batch_shape == (12,) and p.event_shape == (8, 8, 1)
    points = p.components_distribution.mean().numpy()
    assert points.shape == (12, 3, 8, 8, 1)
    assert np.abs(points[:, 1] - points[:, 0]).max() > 0
    assert np.abs(points).max() <= 0.1 + 1e-6
    np.testing.assert_allclose(
        again.components_distribution.mean(), points[:2], atol=1e-5
    )
    # At temperature 0 the last point is where PGD of the same seed ends.
    cold = attacks.langevin(0.1, num_steps=6, temperature=0.0, num_points=1)
    pgd = attacks.pgd(0.1, num_steps=6)
    with graphs.run_eagerly():
        last, expected = (
            each.distribution(classifier, x, y, seed=1).mean()
            for each in (cold, pgd)
        )
    np.testing.assert_allclose(last, expected, atol=1e-5)


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda: TanhMixture(Linf(0.1), num_components=0), "num_components=0"),
        (lambda: TanhLowRank(Linf(0.1), rank=0), "rank=0"),
        (lambda: named.named("cauchy", Linf(0.1)), "family='cauchy'"),
        (lambda: named.named("gaussian-2", Linf(0.1)), "family='gaussian-2'"),
        (
            lambda: attacks.exp(0.1, family="mixture", entropy="gaussian"),
            "entropy='gaussian'",
        ),
        (
            lambda: attacks.imp_am(
                0.1, input_shape=(8, 8, 1), entropy="posterior-2"
            ),
            "entropy='posterior'",
        ),
        (lambda: step_rules.langevin(temperature=-1.0), "temperature=-1.0"),
        (
            lambda: attacks.langevin(0.1, num_steps=2, num_points=3),
            "num_points=3",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
