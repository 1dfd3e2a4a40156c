"""The l2 ball and what attacks ask of it, against closed forms and NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.optimize import minimize

from adt_tf import attacks, distributions, seeds
from adt_tf.threat_models import L2, planes, windows
from adt_tf.threat_models.radial import RadialSquash
from tests.support.models import make_linear

tfd = tfp.distributions


def vectors(size, scale=1.0, count=4):
    generator = np.random.default_rng(size)
    return (scale * generator.normal(size=(count, size))).astype("float32")


@pytest.mark.parametrize("size", [2, 3, 48])
def test_radial_squash_is_a_bijector(size):
    squash, u = RadialSquash([size]), tf.constant(vectors(size, 2.0))
    with tf.GradientTape() as tape:
        tape.watch(u)
        delta = squash.forward(u)
    jacobian = tape.batch_jacobian(delta, u).numpy().astype("float64")
    assert (np.linalg.norm(delta, axis=-1) < 1).all()
    # A new tensor: the bijector remembers what it has made of which.
    np.testing.assert_allclose(squash.inverse(delta + 0.0), u, rtol=1e-4)
    np.testing.assert_allclose(
        squash.forward_log_det_jacobian(u, 1),
        np.linalg.slogdet(jacobian)[1],
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        squash.inverse_log_det_jacobian(delta + 0.0, 1),
        -squash.forward_log_det_jacobian(u, 1),
        rtol=1e-3,
    )


@pytest.mark.parametrize("size", [2, 3])
def test_density_in_the_ball_integrates_to_one(size):
    """By a sum over a grid of the ball."""
    params = {
        "mu": tf.constant(vectors(size, 0.7, 1)),
        "rho": tf.constant(vectors(size, 0.3, 1)),
    }
    family = distributions.TanhGaussian(L2(0.5))
    density = family.as_tfp(tf.zeros([1, size]), params)
    count = {2: 601, 3: 101}[size]
    axis = np.linspace(-0.5, 0.5, count, dtype="float32")
    points = np.stack(np.meshgrid(*[axis] * size), -1).reshape(-1, size)
    points = points[np.linalg.norm(points, axis=-1) < 0.4999]
    total = np.exp(density.log_prob(points)).sum() * (axis[1] - axis[0]) ** size
    assert total == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("shape", [(32, 32, 3), (224, 224, 3)])
def test_entropy_is_minus_the_log_density_in_high_dimension(shape):
    family = distributions.TanhGaussian(L2(0.5), entropy_reduction="sum")
    x = tf.fill([1, *shape], 0.5)
    params = family.init(x, seed=None)
    noise = family.noise(x, 1, seeds.make(0))
    x_adv, entropy = family.sample(x, params, noise)
    # In float64, with tanh's counterpart written out.
    u = np.log(2) * noise.numpy().astype("float64").ravel()
    size = u.size
    length = np.sum(u**2) / size
    log_density = (
        -0.5 * np.sum(noise.numpy().astype("float64") ** 2)
        - size * (0.5 * np.log(2 * np.pi) + np.log(np.log(2)))
        + (size + 2) / 2 * np.log1p(length)
        + size / 2 * np.log(size)
        - size * np.log(0.5)
    )
    # A sum of 150,528 float32 numbers.
    assert float(entropy[0, 0]) == pytest.approx(-log_density, rel=2e-4)
    # Well inside at the start, whatever the dimension.
    distance = float(L2(0.5).distance(x, x_adv[:, 0])[0])
    assert 0.2 < distance < 0.35


@pytest.mark.parametrize("shape", [(4, 4, 1), (32, 32, 3), (224, 224, 3)])
def test_projection_stays_inside_and_leaves_alone_what_is(shape):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(3, *shape)).astype("float32")
    ball = L2(0.5)
    far = x + generator.normal(size=x.shape).astype("float32")
    moved = ball.project(x, far)
    ball.check(tf.constant(x), moved)
    np.testing.assert_allclose(
        ball.project(x, moved), moved, rtol=1e-5, atol=1e-6
    )
    near = np.clip(x + 0.01 / np.sqrt(x[0].size), 0, 1)
    np.testing.assert_array_equal(ball.project(x, near), near)
    np.testing.assert_array_equal(L2(0.0).project(x, far), x)


def test_what_is_outside_is_refused():
    x = np.full([1, 4, 4, 1], 0.5, "float32")
    outside = x + 0.5 * 1.0001 / 4
    with pytest.raises(ValueError, match="left its threat model"):
        L2(0.5).check(tf.constant(x), tf.constant(outside))


def test_steepest_has_length_one_even_where_squares_vanish():
    gradient = np.zeros([3, 4, 4, 1], "float32")
    gradient[0] = 1e-30
    gradient[1, 0, 0] = -3.0
    steepest = L2(1.0).steepest(gradient).numpy()
    np.testing.assert_allclose(
        np.linalg.norm(steepest.reshape(3, -1), axis=-1), [1, 1, 0], rtol=1e-6
    )
    assert steepest[1, 0, 0, 0] == -1.0


def test_random_starts_have_a_length_that_is_uniform():
    x = np.full([2000, 2, 1, 1], 0.5, "float32")
    x += np.linspace(0, 1e-3, 2000, dtype="float32")[:, None, None, None]
    start = L2(0.2).random_start(tf.constant(x), seeds.make(1)).numpy()
    radius = np.linalg.norm((start - x).reshape(2000, -1), axis=-1) / 0.2
    assert np.mean(radius) == pytest.approx(0.5, abs=0.03)
    assert np.mean(radius < 0.25) == pytest.approx(0.25, abs=0.04)
    # Every direction is as likely as its opposite.
    assert np.abs(np.mean(start - x, axis=0)).max() < 0.01


def test_uniform_noise_fills_the_ball():
    x = np.full([500, 3, 2, 1], 0.5, "float32")
    x += np.linspace(0, 1e-3, 500, dtype="float32")[:, None, None, None]
    noise = attacks.uniform(L2(0.2)).sample(
        tf.constant(x), (), num_samples=4, seed=seeds.make(1)
    )
    delta = (noise.x_adv.numpy() - x[:, None]).reshape(2000, 6)
    radius = np.linalg.norm(delta, axis=-1) / 0.2
    # The volume within a radius grows with its sixth power.
    for share in (0.25, 0.5, 0.75):
        inside = np.mean(radius <= share ** (1 / 6))
        assert inside == pytest.approx(share, abs=0.04)
    assert np.abs(np.mean(delta, axis=0)).max() < 0.01


@pytest.mark.parametrize("number", range(6))
def test_step_to_plane_is_the_shortest_in_the_box(number):
    generator = np.random.default_rng(number)
    point = generator.uniform(size=6)
    normal = generator.normal(size=6)
    corner = np.where(normal > 0, 1 - point, -point)
    value = -0.7 * float(normal @ corner)
    step = (
        L2(1.0)
        .step_to_plane(
            tf.constant(point[None], tf.float32),
            tf.constant([value], tf.float32),
            tf.constant(normal[None], tf.float32),
        )[0]
        .numpy()
    )
    best = minimize(
        lambda d: d @ d,
        corner / 2,
        jac=lambda d: 2 * d,
        bounds=list(zip(-point, 1 - point, strict=True)),
        constraints={"type": "eq", "fun": lambda d: value + normal @ d},
    )
    assert best.success
    assert value + normal @ step == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(step, best.x, atol=1e-3)


def reference_bump(side, turned):
    """The windows of the paper's code, written from its description."""

    def half(height, width):
        image, (row, column) = (
            np.zeros([height, width]),
            (
                height // 2,
                width // 2,
            ),
        )
        for k in range(max(height // 2, width // 2) + 1):
            rows = slice(max(row - k, 0), row + k + 1)
            columns = slice(max(column - k, 0), column + k + 1)
            image[rows, columns] += 1 / (k + 1) ** 2
        return image / np.linalg.norm(image)

    top = side // 2
    bump = np.concatenate([half(top, side), -half(side - top, side)])
    bump /= np.linalg.norm(bump)
    return bump.T if turned else bump


@pytest.mark.parametrize("side", [3, 5, 9, 13])
@pytest.mark.parametrize("turned", [False, True])
def test_bump_matches_numpy(side, turned):
    rows, columns = tf.range(16)[None] - 2, tf.range(16)[None] - 1
    bump = windows.bump(
        rows, columns, tf.constant(side), tf.constant([turned])
    )[0].numpy()
    expected = np.zeros([16, 16])
    expected[2 : 2 + side, 1 : 1 + side] = reference_bump(side, turned)
    np.testing.assert_allclose(bump, expected, atol=1e-6)


def test_square_proposal_matches_numpy():
    generator = np.random.default_rng(0)
    delta = generator.normal(scale=0.01, size=[1, 16, 16, 3])
    draws = generator.uniform(size=[1, 8])
    side, epsilon = 5, 0.5
    places = [int(draw * (16 - side + 1)) for draw in draws[0, :4]]
    (row, column), (row2, column2) = places[:2], places[2:]
    window = np.s_[row : row + side, column : column + side]
    emptied = np.s_[row2 : row2 + side, column2 : column2 + side]
    image, result = delta[0], delta[0].copy()
    covered = np.zeros([16, 16, 1], bool)
    covered[window] = covered[emptied] = True
    both = np.sum((image * covered) ** 2)
    lacking = max(epsilon**2 - np.sum(image**2), 0)
    bump = reference_bump(side, draws[0, 4] >= 0.5)[..., None]
    bump = bump * np.where(draws[0, 5:] < 0.5, -1, 1)

    def unit(part):
        return part / np.linalg.norm(part, axis=(0, 1), keepdims=True)

    new = unit(bump + unit(image[window])) * np.sqrt(lacking / 3 + both)
    result[emptied] = 0
    result[window] = new
    actual = windows.moved_bump(
        tf.constant(delta, tf.float32),
        tf.constant(draws, tf.float32),
        tf.constant(side),
        epsilon,
    )
    np.testing.assert_allclose(actual[0], result, atol=1e-5)


def test_the_start_of_square_covers_the_image_with_bumps():
    x = tf.random.stateless_uniform([2, 32, 32, 3], [1, 2])
    bumps = windows.grid_of_bumps(x, seeds.make(0)).numpy()
    assert np.linalg.norm(bumps[0, 1:7, 1:7, 0]) == pytest.approx(1, rel=1e-5)
    lengths = np.linalg.norm(bumps.reshape(2, -1), axis=-1)
    np.testing.assert_allclose(lengths, np.sqrt(25 * 3), rtol=1e-5)
    assert np.abs(bumps[0] - bumps[1]).max() > 0.1


GRADIENT_ATTACKS = {
    "FGSM": attacks.fgsm,
    "PGD": attacks.pgd,
    "MIM": attacks.mim,
    "C&W": attacks.cw,
    "APGD-CE": attacks.apgd_ce,
    "APGD-DLR": attacks.apgd_dlr,
}


@pytest.mark.parametrize("name", GRADIENT_ATTACKS)
def test_the_closed_form_on_a_linear_classifier(name):
    """The optimal perturbation of two classes is epsilon g / |g|."""
    classifier = make_linear(num_classes=2)
    noise = np.random.default_rng(0).uniform(-0.05, 0.05, [5, 4, 4, 1])
    x = (0.5 + noise).astype("float32")
    y = classifier(x).numpy().argmax(-1).astype("int32")
    kernel = classifier.get_weights()[0]
    gradient = (kernel[:, 1 - y] - kernel[:, y]).T
    x_adv = GRADIENT_ATTACKS[name](L2(0.1))(classifier, x, y).x_adv
    gain = np.sum((x_adv - x).numpy().reshape(5, -1) * gradient, axis=-1)
    best = 0.1 * np.linalg.norm(gradient, axis=-1)
    # A step of epsilon / 4 settles a little beside it.
    np.testing.assert_allclose(gain, best, rtol=1e-3)


def test_adam_in_l2_goes_along_the_gradient():
    from adt_tf import step_rules

    rule, ball = step_rules.adam(0.3), L2(1.0)
    params = tf.zeros([2, 2, 2, 1])
    gradient = tf.constant(vectors(8, 1.0, 1).reshape([2, 2, 2, 1]))
    moved, _ = rule.update(params, gradient, rule.init(params), ball)
    rms = np.sqrt(np.mean(gradient.numpy() ** 2, axis=(1, 2, 3), keepdims=True))
    np.testing.assert_allclose(moved, 0.3 * gradient / rms, rtol=1e-5)


def test_a_generator_fills_the_ball_and_q_reads_what_it_gives():
    seen = []

    class Reader(keras.Model):
        def call(self, direction, training=False):
            seen.append(direction)
            return tf.zeros([tf.shape(direction)[0], 4])

    class Ones(keras.Model):
        def call(self, inputs, training=False):
            return tf.ones([tf.shape(inputs[1])[0], 4, 4, 1])

    family = distributions.Implicit(L2(0.5), Ones(), Reader(), latent_size=2)
    x = tf.fill([1, 4, 4, 1], 0.4)
    x_adv, _ = family.sample(x, x, family.noise(x, 1, seeds.make(0)))
    np.testing.assert_allclose(L2(0.5).distance(x, x_adv[:, 0]), 0.5, rtol=1e-5)
    np.testing.assert_allclose(tf.norm(seen[0]), 1.0, rtol=1e-5)


def test_planes_of_both_norms_share_one_solver():
    points = tf.constant([[0.5, 0.5]])
    values, normals = tf.constant([-1.0]), tf.constant([[3.0, 4.0]])
    box = (-9.0, 9.0)
    in_l2 = planes.shortest_steps(
        points, values, normals, bounds=box, pace=tf.identity
    )
    in_linf = planes.shortest_steps(
        points, values, normals, bounds=box, pace=tf.ones_like
    )
    np.testing.assert_allclose(in_l2, [[3 / 25, 4 / 25]], rtol=1e-5)
    np.testing.assert_allclose(in_linf, [[1 / 7, 1 / 7]], rtol=1e-5)
