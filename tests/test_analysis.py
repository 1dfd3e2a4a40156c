"""The analyses against closed forms, and their pictures."""

import dataclasses
import functools
import json
import math
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.text import Text
from scipy import integrate

from adt_tf import analysis, attacks, evaluation, seeds, threat_models
from adt_tf.analysis import (
    convergence,
    diversity,
    entropy_weight,
    epoch_time,
    hessian,
    loss_surface,
    plots,
    transfer,
)
from tests.support.models import make_convolutional, make_linear, predicted

EPSILON = 0.1


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def cross_entropy(logits, y):
    return -np.log(softmax(logits.astype(np.float64))[np.arange(len(y)), y])


def weights_of(linear):
    kernel, bias = linear.get_weights()
    return kernel.astype(np.float64), bias.astype(np.float64)


def is_png(path):
    data = path.read_bytes()
    return data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 8000


@pytest.fixture
def small():
    """Images for a linear classifier, away from the bounds of the box."""
    generator = np.random.default_rng(2)
    x = generator.uniform(0.3, 0.7, size=(5, 4, 4, 1)).astype("float32")
    return x, generator.integers(0, 3, 5).astype("int32")


def smooth_network():
    """Curved between its layers too, unlike a network of ReLUs."""
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(12, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )
    generator = np.random.default_rng(4)
    model.set_weights([generator.normal(size=w.shape) for w in model.weights])
    return model


# Batches


@pytest.mark.parametrize("batch_size", [1, 3, 7, 50])
def test_map_batches_keeps_order_and_shape(batch_size):
    sizes = []

    def function(x, y):
        sizes.append(len(x))
        return {"sum": x + y, "double": 2 * x}

    x, y = np.arange(7), np.arange(7) * 10
    results = analysis.map_batches(function, x, y, batch_size=batch_size)
    np.testing.assert_array_equal(results["sum"], x + y)
    np.testing.assert_array_equal(results["double"], 2 * x)
    assert set(sizes) == {min(batch_size, 7)}


def test_map_batches_refuses_no_batch():
    with pytest.raises(ValueError, match="batch_size=0"):
        analysis.map_batches(lambda x: x, np.arange(3), batch_size=0)


# Diversity


def still(epsilon):
    """EXP that stays where it starts: mu = 0, sigma = log 2."""
    return attacks.exp(epsilon, num_steps=1, step_size=1e-7, num_samples=1)


def test_distance_of_samples_matches_the_density(linear):
    # The perturbations' pixels are independent, each with the variance of
    # epsilon tanh(log 2 * r), so E |delta - delta'|^2 = 2 d variance; in 1024
    # dimensions the mean distance is the root of it to a tenth of a per cent.
    density = lambda r: math.exp(-r * r / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    variance, _ = integrate.quad(
        lambda r: math.tanh(math.log(2) * r) ** 2 * density(r), -9, 9
    )
    size = 32 * 32
    classifier = make_linear((32, 32, 1))
    x = np.full([3, 32, 32, 1], 0.5, "float32")
    x += np.arange(3, dtype="float32")[:, None, None, None] / 100
    results = diversity.measure_diversity(
        classifier,
        (x, np.array([0, 1, 2])),
        [diversity.samples(still(EPSILON))],
        num_samples=20,
    )
    expected = EPSILON * math.sqrt(2 * size * variance)
    np.testing.assert_allclose(results.distances, expected, rtol=0.01)


def test_distance_of_restarts_that_stay_at_their_random_start(linear):
    # Uniform starts: variance epsilon^2 / 3 a pixel.
    classifier = make_linear((32, 32, 1))
    x = np.full([2, 32, 32, 1], 0.5, "float32")
    x[1] += 0.01
    pgd = attacks.pgd(EPSILON, num_steps=1, step_size=1e-9)
    results = diversity.measure_diversity(
        classifier,
        (x, np.array([0, 1])),
        [diversity.restarts(pgd)],
        num_samples=20,
    )
    expected = EPSILON * math.sqrt(2 * 32 * 32 / 3)
    np.testing.assert_allclose(results.distances, expected, rtol=0.01)


def test_points_without_noise_have_no_distance(linear, small):
    results = diversity.measure_diversity(
        linear,
        small,
        [
            diversity.samples(attacks.pgd(EPSILON, num_steps=3)),
            diversity.restarts(attacks.fgsm(EPSILON)),
        ],
        num_samples=4,
    )
    np.testing.assert_array_equal(results.distances, 0)


def test_perturbations_are_the_ends_of_the_attacks(linear, small):
    # By the attacks' own interface, one image at a time, seed by seed.
    x, y = small
    pgd, exp = attacks.pgd(EPSILON, num_steps=2), attacks.exp(EPSILON)
    results = diversity.measure_diversity(
        linear,
        small,
        [diversity.restarts(pgd), diversity.samples(exp)],
        num_samples=3,
        batch_size=2,
        seed=7,
    )
    image = slice(3, 4)
    ends = [
        np.ravel(
            pgd.distribution(
                linear, x[image], y[image], seed=seeds.fold(seeds.make(7), i)
            ).sample(seed=0)
        )
        for i in range(3)
    ]
    pairs = [
        np.linalg.norm(ends[i] - ends[j]) for i, j in [(0, 1), (0, 2), (1, 2)]
    ]
    np.testing.assert_allclose(
        results.distances[0, 3], np.mean(pairs), rtol=1e-5
    )
    # Against a linear classifier the steps leave no doubt: all end in a corner.
    assert results.distances[1].max() < 0.1 * 2 * EPSILON * 4
    for name in results.names:
        assert 0 <= results.fooled[name] <= 1


def test_success_counts_misclassified_perturbations(linear, small):
    x, _ = small
    y = predicted(linear, x)
    y[:2] = (y[:2] + 1) % 3
    source = [diversity.samples(still(1e-4))]
    mixed = diversity.measure_diversity(linear, (x, y), source, num_samples=2)
    np.testing.assert_array_equal(mixed.right, [False] * 2 + [True] * 3)
    np.testing.assert_array_equal(mixed.success, [[1, 1, 0, 0, 0]])
    # No attack is to blame for what is wrong without one.
    assert mixed.fooled == {"EXP-1, samples": 0.0}
    wrong = dataclasses.replace(mixed, right=np.zeros(5, bool))
    assert math.isnan(wrong.fooled["EXP-1, samples"])
    assert wrong.to_dict()["fooled"] == {"EXP-1, samples": None}


def test_projection_keeps_a_plane(linear, small):
    # Points of a plane lose nothing: distances in it stay as they are.
    generator = np.random.default_rng(5)
    plane = np.linalg.qr(generator.normal(size=(16, 2)))[0]
    points = generator.normal(size=(2, 6, 2))

    def source(number):
        deltas = (points[number] @ plane.T).reshape(1, 6, 4, 4, 1)

        def draw(classifier, x, y, num_samples, seed):
            return x[:, tf.newaxis] + tf.constant(deltas, tf.float32)

        return diversity.Source(f"source {number}", draw)

    results = diversity.measure_diversity(
        linear, small, [source(0), source(1)], num_samples=6
    )

    def gram(p):
        flat = p.reshape(-1, 2) - p.reshape(-1, 2).mean(axis=0)
        return flat @ flat.T

    for projected in results.projections:
        np.testing.assert_allclose(gram(projected), gram(points), atol=1e-5)
    np.testing.assert_allclose(results.explained, 1, rtol=1e-6)


# Loss surface


def test_surface_of_a_linear_classifier(linear, small):
    x, y = small
    kernel, bias = weights_of(linear)
    offsets = np.linspace(-1, 1, 5)
    results = loss_surface.measure_loss_surfaces(
        {"linear": linear},
        (x[0], y[0]),
        epsilon=EPSILON,
        offsets=offsets,
        batch_size=7,
        seed=3,
    )
    flat = x[0].ravel().astype(np.float64)
    p = softmax(flat @ kernel + bias)
    along = np.sign(kernel @ (p - np.eye(3)[y[0]]))
    # The random direction is unknown, but its effect on the logits is
    # linear: with no step along the gradient, all losses of a row follow from
    # signs that we can search for, as 2^16 is small.
    signs = np.array(np.meshgrid(*[[-1, 1]] * 16)).reshape(16, -1).T

    def losses(a, b, signs):
        moved = flat + EPSILON * (a * along + b * signs)
        logits = moved @ kernel + bias
        return np.log(np.exp(logits).sum(-1)) - logits[:, y[0]]

    middle = 2
    error = np.max(
        [
            np.abs(losses(0.0, b, signs) - results.loss[0, middle, j])
            for j, b in enumerate(offsets)
        ],
        axis=0,
    )
    across = signs[[error.argmin()]]
    for i, a in enumerate(offsets):
        for j, b in enumerate(offsets):
            np.testing.assert_allclose(
                results.loss[0, i, j], losses(a, b, across)[0], atol=1e-5
            )


def test_surface_needs_no_gradient_left_in_float32(small):
    # Logits of +-60: the cross-entropy and its gradient are 0 in float32.
    linear = make_linear()
    kernel = np.zeros([16, 3], "float32")
    kernel[:, 1] = 1.0
    linear.set_weights([kernel, np.array([60.0, 0.0, 0.0], "float32")])
    x, _ = small
    results = loss_surface.measure_loss_surfaces(
        {"sure": linear}, (x[0], 0), epsilon=1.0, offsets=[0.0, 3.0]
    )
    # Along the gradient every pixel grows by 3: logit 1 gains 48.
    expected = np.log1p(np.exp(x[0].sum() + 48 - 60))
    assert results.loss[0, 1, 0] == pytest.approx(expected, rel=1e-3)


def test_surfaces_share_the_random_direction(small):
    x, y = small
    twice = {"one": make_linear(), "same": make_linear()}
    results = loss_surface.measure_loss_surfaces(
        twice, (x[0], y[0]), epsilon=EPSILON, offsets=[-1, 0, 1]
    )
    np.testing.assert_array_equal(*results.loss)
    other = loss_surface.measure_loss_surfaces(
        twice, (x[0], y[0]), epsilon=EPSILON, offsets=[-1, 0, 1], seed=1
    )
    # Only the random direction changes with the seed.
    np.testing.assert_array_equal(other.loss[:, :, 1], results.loss[:, :, 1])
    assert (other.loss[:, 1, 2] != results.loss[:, 1, 2]).all()


def test_the_outline_of_a_surface_is_that_of_the_ball(small):
    """A diamond in l-infinity; in l2 an ellipse through the same corners."""
    x, y = small
    shapes = {}
    for ball in (threat_models.Linf(0.1), threat_models.L2(0.1)):
        results = loss_surface.measure_loss_surfaces(
            {"one": make_linear()}, (x[0], y[0]), epsilon=ball, offsets=[-1, 1]
        )
        shapes[ball.name] = results.reach[0]
    a, b = np.abs(shapes["l-infinity"].T)
    np.testing.assert_allclose(a + b, 1, atol=1e-4)
    a, b = shapes["l2"].T
    np.testing.assert_allclose((a**2 + b**2)[::16], 1, atol=1e-4)
    # a^2 + b^2 + 2 c a b = 1, with the cosine c of the two directions.
    a, b = a[8::16], b[8::16]
    cosine = (1 - a**2 - b**2) / (2 * a * b)
    np.testing.assert_allclose(cosine, cosine[0], atol=1e-3)
    assert abs(cosine[0]) < 1


def test_surface_refuses_offsets_out_of_order(linear, small):
    x, y = small
    with pytest.raises(ValueError, match="increasing"):
        loss_surface.measure_loss_surfaces(
            {"linear": linear}, (x[0], y[0]), epsilon=0.1, offsets=[1, 0]
        )


# Hessian


def test_eigenvalue_of_a_known_quadratic():
    generator = np.random.default_rng(6)
    basis = np.linalg.qr(generator.normal(size=(16, 16)))[0]
    values = np.linspace(-9, 4, 16)
    matrix = tf.constant(basis @ np.diag(values) @ basis.T, tf.float32)

    def loss(x, y):
        flat = tf.reshape(x, [-1, 16])
        return (
            0.5 * tf.reduce_sum(flat * (flat @ matrix), axis=1) + 3 * flat[:, 0]
        )

    multiply = hessian.hessian_vector_product(loss)
    x, v = generator.normal(size=(2, 1, 4, 4, 1)).astype("float32")
    np.testing.assert_allclose(
        np.ravel(multiply(x, None, v)),
        matrix.numpy() @ v.ravel(),
        rtol=1e-4,
        atol=1e-5,
    )
    eigenvalue = hessian.dominant_eigenvalue(
        lambda u: (
            multiply(x, None, u.reshape(x.shape).astype("f4")).numpy().ravel()
        ),
        v.ravel(),
    )
    assert eigenvalue == pytest.approx(-9, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9])
def test_eigenvalue_of_any_magnitude(scale):
    values = scale * np.linspace(-1, 2, 30)
    start = np.random.default_rng(7).normal(size=30)
    eigenvalue = hessian.dominant_eigenvalue(lambda v: values * v, start)
    assert eigenvalue == pytest.approx(2 * scale, rel=1e-3)


def test_no_curvature_is_zero():
    assert hessian.dominant_eigenvalue(lambda v: 0 * v, np.ones(9)) == 0
    with pytest.raises(ValueError, match="NaN or infinite"):
        hessian.dominant_eigenvalue(lambda v: np.nan * v, np.ones(9))


def test_eigenvalues_of_a_linear_classifier(linear, small):
    # H = W (diag(p) - p p^T) W^T, with pixels in the rows of W.
    x, y = small
    kernel, bias = weights_of(linear)
    expected = []
    for image in x:
        p = softmax(image.ravel().astype(np.float64) @ kernel + bias)
        matrix = kernel @ (np.diag(p) - np.outer(p, p)) @ kernel.T
        expected.append(np.linalg.eigvalsh(matrix)[-1])
    results = hessian.measure_eigenvalues({"linear": linear}, small)
    np.testing.assert_allclose(results.eigenvalues[0], expected, rtol=2e-3)
    assert results.mean["linear"] == pytest.approx(np.mean(expected), rel=2e-3)
    assert results.standard_deviation["linear"] == pytest.approx(
        np.std(expected), rel=5e-3
    )


def test_eigenvalues_of_a_curved_network_match_the_dense_hessian(small):
    x, y = small
    network = smooth_network()
    results = hessian.measure_eigenvalues({"tanh": network}, small)
    for i in range(len(y)):
        image = tf.constant(x[i : i + 1])
        with tf.GradientTape() as outer:
            outer.watch(image)
            with tf.GradientTape() as inner:
                inner.watch(image)
                loss = keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True
                )(y[i : i + 1], network(image))
            gradient = inner.gradient(loss, image)
        dense = outer.jacobian(gradient, image).numpy().reshape(16, 16)
        values = np.linalg.eigvalsh((dense + dense.T) / 2)
        dominant = values[np.abs(values).argmax()]
        assert results.eigenvalues[0, i] == pytest.approx(dominant, rel=5e-3)


def test_eigenvalues_repeat_and_ignore_the_start(small):
    network = smooth_network()
    first, again, other = (
        hessian.measure_eigenvalues({"tanh": network}, small, seed=seed)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.eigenvalues, again.eigenvalues)
    np.testing.assert_allclose(other.eigenvalues, first.eigenvalues, rtol=2e-3)


# Transfer


@pytest.fixture
def labelled(images):
    """Labels that the convolutional network mostly agrees with."""
    x, _ = images
    y = predicted(make_convolutional(), x)
    y[:2] = (y[:2] + 1) % 10
    return x, y.astype("int32")


def test_transfer_to_itself_is_white_box(labelled):
    x, y = labelled
    classifiers = {
        "one": make_convolutional(),
        "twin": make_convolutional(),
        "other": make_convolutional(seed=1),
    }
    attack = attacks.pgd(0.03, num_steps=5)
    results = transfer.measure_transfer(classifiers, labelled, attack)
    accuracy = results.accuracy
    x_adv = attack(classifiers["one"], x, y).x_adv
    predictions = predicted(classifiers["one"], x_adv)
    assert 0 < np.mean(predictions == y) < 1
    np.testing.assert_allclose(accuracy[:2, :2], np.mean(predictions == y))
    # Equal as sources and as targets.
    np.testing.assert_array_equal(accuracy[0], accuracy[1])
    np.testing.assert_array_equal(accuracy[:, 0], accuracy[:, 1])
    np.testing.assert_allclose(results.natural[:2], 10 / 12)
    other = classifiers["other"]
    right = [predicted(other, images) == y for images in (x, x_adv)]
    assert accuracy[0, 2] == np.mean(right[0] & right[1])
    assert results.to_dict()["accuracy"]["one"]["other"] == accuracy[0, 2]


def test_transfer_does_not_undo_natural_mistakes():
    # Attacking the source brightens the image, which brings the target from
    # wrong to right: a mistake all the same.
    def source(x, training=False):
        mean = tf.reduce_mean(x, axis=[1, 2])
        return tf.concat([-mean, mean], axis=-1)

    def target(x, training=False):
        mean = tf.reduce_mean(x, axis=[1, 2])
        return tf.concat([mean, 0.5 * tf.ones_like(mean)], axis=-1)

    x, y = np.full([1, 4, 4, 1], 0.3, "float32"), np.array([0])
    attack = attacks.fgsm(0.4)
    x_adv = attack(source, x, y).x_adv
    assert np.argmax(target(tf.constant(x))) == 1
    assert np.argmax(target(x_adv)) == 0
    results = transfer.measure_transfer(
        {"source": source, "target": target}, (x, y), attack
    )
    np.testing.assert_array_equal(results.accuracy[0], [0, 0])


def test_transfer_refuses_what_is_no_attack(linear, small):
    with pytest.raises(ValueError, match="must be an attack"):
        transfer.measure_transfer({"linear": linear}, small, "pgd")


# Entropy


def test_entropy_of_the_starting_distribution(linear, small):
    # delta = epsilon tanh(sigma r): by the change of variables its entropy is
    # E[r^2]/2 + log sqrt(2 pi) + log sigma + log epsilon + E log(1 - tanh^2).
    sigma = math.log(2)
    density = lambda r: math.exp(-r * r / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    squash, _ = integrate.quad(
        lambda r: -2 * math.log(math.cosh(sigma * r)) * density(r), -12, 12
    )
    expected = (
        0.5
        + 0.5 * math.log(2 * math.pi)
        + math.log(sigma)
        + math.log(EPSILON)
        + squash
    )
    entropy = entropy_weight.mean_entropy(
        linear, small, still(EPSILON), num_samples=1000, batch_size=2
    )
    assert entropy == pytest.approx(expected, abs=0.02)


def test_entropy_of_a_point_is_zero(linear, small):
    assert entropy_weight.mean_entropy(linear, small, attacks.pgd(EPSILON)) == 0


def test_entropy_grows_with_its_weight(linear, small):
    attack, entropies = attacks.exp(EPSILON), []
    for attack.entropy_weight in (0.0, 1.0):
        entropies.append(entropy_weight.mean_entropy(linear, small, attack))
    # No density in the ball has more than the uniform one.
    assert entropies[0] < entropies[1] < math.log(2 * EPSILON)


def runs():
    weights = [1.0, 0.0, 0.1, 0.001, 0.01]
    return [
        entropy_weight.Record(
            w, {"natural": 0.9 - w / 10, "PGD-20": 0.5 + w / 20}, -5 + w
        )
        for w in weights
    ]


def test_runs_are_sorted_by_weight():
    results = entropy_weight.collect_entropy_weights(runs())
    assert results.entropy_weights.tolist() == [0, 0.001, 0.01, 0.1, 1]
    np.testing.assert_allclose(results.entropy, -5 + results.entropy_weights)
    np.testing.assert_allclose(
        results.accuracy[:, results.attacks.index("PGD-20")],
        0.5 + results.entropy_weights / 20,
    )


def test_reach_is_that_of_the_widest_interval():
    accuracy = {"natural": 0.9, "PGD-20": 0.0}
    (low, high), (_, top) = (
        evaluation.wilson_interval(k, 100) for k in (90, 0)
    )
    record = entropy_weight.Record(1.0, accuracy, -3.0, num_examples=100)
    results = entropy_weight.collect_entropy_weights([record])
    assert results.reach == pytest.approx(max(0.9 - low, high - 0.9, top))
    assert entropy_weight.collect_entropy_weights(runs()).reach is None


def test_runs_under_other_attacks_are_refused():
    odd = entropy_weight.Record(0.5, {"natural": 0.9}, 0.0)
    with pytest.raises(ValueError, match="same attacks"):
        entropy_weight.collect_entropy_weights([*runs(), odd])
    with pytest.raises(ValueError, match="same attacks"):
        entropy_weight.collect_entropy_weights([*runs(), runs()[0]])


# Convergence


@pytest.mark.parametrize(
    "recipe, epsilon, arguments",
    [
        (attacks.exp, EPSILON, {"num_samples": 3}),
        (attacks.exp, EPSILON, {"entropy_weight": 0.1, "gradient_decay": 1.0}),
        (attacks.mim, EPSILON, {"step_size": 0.03}),
    ],
    ids=["exp", "exp with entropy and memory", "mim"],
)
def test_one_climb_agrees_with_climbs_of_every_length(
    small, recipe, epsilon, arguments
):
    x, y = (tf.constant(part) for part in small)
    network = smooth_network()
    attack = recipe(epsilon, num_steps=6, **arguments)
    results = convergence.measure_convergence(
        {"tanh": network}, small, attack, seed=3
    )
    assert results.loss.shape == results.accuracy.shape == (1, 7)
    key = seeds.fold(seeds.make(3), 0)
    repeated = np.repeat(y, attack.num_samples)
    for steps in (1, 3, 6):
        attack.num_steps = steps
        params = attack.solve(network, x, y, seed=key)
        noise = attack.family.noise(
            x, attack.num_samples, seeds.fold(key, steps)
        )
        x_adv, _ = attack.family.sample(x, params, noise)
        logits = network(np.reshape(x_adv, [-1, 4, 4, 1])).numpy()
        loss = cross_entropy(logits, repeated).mean()
        assert results.loss[0, steps] == pytest.approx(loss, rel=1e-4)
        right = np.mean(logits.argmax(-1) == repeated)
        assert results.accuracy[0, steps] == pytest.approx(right, abs=1e-6)
    assert results.loss[0, -1] > results.loss[0, 0]


def test_convergence_starts_at_the_starting_distribution(linear, small):
    # Before any step the images are x + epsilon tanh(log(2) r); a PGD without
    # a random start is at x itself.
    x, y = small
    attack = attacks.fgsm(EPSILON)
    results = convergence.measure_convergence({"linear": linear}, small, attack)
    kernel, bias = weights_of(linear)
    clean = cross_entropy(x.reshape(5, -1) @ kernel + bias, y)
    assert results.loss[0, 0] == pytest.approx(clean.mean(), rel=1e-5)


def test_convergence_does_not_depend_on_the_batch_size(linear, small):
    attack = attacks.mim(EPSILON, num_steps=4)
    whole, parts = (
        convergence.measure_convergence(
            {"linear": linear}, small, attack, batch_size=size
        )
        for size in (5, 2)
    )
    np.testing.assert_allclose(whole.loss, parts.loss, rtol=1e-5)
    np.testing.assert_array_equal(whole.accuracy, parts.accuracy)


def test_convergence_refuses_an_attack_without_steps(linear, small):
    with pytest.raises(ValueError, match="gradient ascent"):
        convergence.measure_convergence(
            {"linear": linear}, small, attacks.identity()
        )


# Time


def timings():
    """Three rounds of two methods, one of which the paper has a ratio for."""
    seconds = np.array([[2.0, 4.0, 1.0], [8.2, 12.0, 4.4]])
    return epoch_time.EpochTimes(
        ("at_pgd", "adt_exp"), seconds, {"adt_exp": 5.0}, "wrn-16-4"
    )


def test_times_are_relative_to_at_pgd_round_by_round():
    results = timings()
    # The median of 4.1, 3 and 4.4, not 8.2 / 2.
    np.testing.assert_allclose(results.ratios, [1.0, 4.1])
    np.testing.assert_allclose(results.quartiles[1], [3.55, 4.25])
    values = results.to_dict()
    assert values["seconds_per_step"] == {"at_pgd": 2.0, "adt_exp": 8.2}
    assert values["relative_to_at_pgd"]["at_pgd"] == 1.0
    with pytest.raises(ValueError, match="must contain 'at_pgd'"):
        epoch_time.EpochTimes(("adt_exp",), np.ones([1, 3]))


# Pictures


def make_results(name):
    """One small result of each analysis, and what draws it."""
    generator = np.random.default_rng(8)
    names = ("Standard", "ADT-EXP")
    offsets = np.linspace(-2, 2, 9)
    curves = np.linspace(0, 1, 11) * np.array([[3.0], [1.0]])
    return {
        "diversity": lambda: (
            diversity.Diversity(
                ("PGD, restarts", "ADT-EXP by Eq. 11, samples"),
                generator.uniform(1, 2, [2, 9]),
                generator.normal(size=[3, 2, 12, 2]),
                np.array([0.4, 0.5, 0.6]),
                generator.uniform(size=[2, 9]),
                np.arange(9) < 5,
                0,
            ),
            diversity.draw_diversity,
        ),
        "loss surface": lambda: (
            loss_surface.LossSurfaces(
                names,
                offsets,
                np.array(
                    [np.logaddexp.outer(k * offsets, offsets) for k in (3, 1)]
                ),
                8 / 255,
                0,
            ),
            loss_surface.draw_loss_surfaces,
        ),
        "hessian": lambda: (
            hessian.Eigenvalues(names, generator.normal(size=[2, 20]), 0),
            hessian.draw_eigenvalues,
        ),
        "transfer": lambda: (
            transfer.TransferMatrix(
                names,
                generator.uniform(size=[2, 2]),
                np.ones(2),
                "PGD-20",
                9,
                0,
            ),
            transfer.draw_transfer,
        ),
        "entropy weight": lambda: (
            entropy_weight.collect_entropy_weights(runs()),
            entropy_weight.draw_entropy_weights,
        ),
        "convergence": lambda: (
            convergence.Convergence(names, curves, curves / 3, "EXP-10", 9, 0),
            convergence.draw_convergence,
        ),
        "epoch time": lambda: (
            timings(),
            epoch_time.draw_epoch_times,
        ),
    }[name]()


PICTURES = [
    "diversity",
    "loss surface",
    "hessian",
    "transfer",
    "entropy weight",
    "convergence",
    "epoch time",
]


@functools.cache
def draw_figure(name):
    """The figure itself, as it would be saved, and what it shows."""
    results, draw = make_results(name)
    with mock.patch.object(plots, "save") as save:
        draw(results, "picture.png")
    figure, _ = save.call_args.args
    figure.canvas.draw()
    return figure, results


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_have_titles_axes_and_names(name):
    figure, results = draw_figure(name)
    texts = [text.get_text() for text in figure.findobj(Text)]
    titles = [figure.get_suptitle(), *(a.get_title() for a in figure.axes)]
    assert any(titles)
    for axis in ("x", "y"):
        labels = [getattr(a, f"get_{axis}label")() for a in figure.axes]
        # An axis of names needs no label.
        ticks = [
            tick.get_text()
            for axes in figure.axes
            for tick in getattr(axes, f"get_{axis}ticklabels")()
        ]
        named = any(tick[:1].isalpha() for tick in ticks)
        assert any(labels) or named, axis
    for name in getattr(results, "names", ()):
        assert any(name in text for text in texts), name


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_is_cut_off(name):
    figure, _ = draw_figure(name)
    width, height = figure.canvas.get_width_height()
    texts = [*figure.texts, figure._suptitle, figure._supxlabel]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    for legend in figure.legends:
        texts += legend.get_texts()
    for text in texts:
        if text is not None and text.get_text().strip():
            box = text.get_window_extent()
            inside = box.x0 >= 0 and box.y0 >= 0
            assert inside and box.x1 <= width and box.y1 <= height, text


def test_eight_attacks_are_told_apart(tmp_path, monkeypatch):
    """Figure 5 draws clean images, six attacks and A_rob."""
    figures = []
    monkeypatch.setattr(
        plots, "save", lambda figure, path: figures.append(figure)
    )
    accuracy = {f"attack {i}": 0.1 * i for i in range(8)}
    results = entropy_weight.collect_entropy_weights(
        [entropy_weight.Record(w, accuracy, w) for w in (0.0, 1.0)]
    )
    entropy_weight.draw_entropy_weights(results, tmp_path / "picture.png")
    lines = figures[0].axes[0].get_lines()
    assert len({line.get_color() for line in lines}) == 8
    assert len({line.get_marker() for line in lines}) == 8


def test_loss_surfaces_share_their_scales():
    """Height and colour mean the same for both models."""
    figure, results = draw_figure("loss surface")
    solid = [a for a in figure.axes if hasattr(a, "get_zlim")]
    assert len(solid) == 2
    assert solid[0].get_zlim() == solid[1].get_zlim()
    assert solid[0].get_zlim()[1] >= results.loss.max()
    mapped = [
        c
        for a in figure.axes
        for c in a.collections
        if c.get_array() is not None
    ]
    scales = {c.get_clim() for c in mapped if len(c.get_array()) > 20}
    assert len(scales) == 1


@pytest.mark.parametrize("name", PICTURES)
def test_results_are_drawn_and_fit_into_json(name, tmp_path):
    results, draw = make_results(name)
    path = tmp_path / "new folder" / "picture.png"
    draw(results, path)
    assert is_png(path)
    assert [p.name for p in path.parent.iterdir()] == ["picture.png"]
    # Strict JSON has no NaN.
    text = json.dumps(results.to_dict(), allow_nan=False)
    assert json.loads(text) == results.to_dict()
    again = tmp_path / "again.png"
    draw(results, again)
    assert again.read_bytes() == path.read_bytes()


def test_pictures_leave_pyplot_alone(tmp_path):
    import matplotlib
    from matplotlib import pyplot

    before = dict(matplotlib.rcParams)
    open_figures = pyplot.get_fignums()
    results, draw = make_results("transfer")
    draw(results, tmp_path / "picture.png")
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == open_figures


def test_pictures_are_png(tmp_path):
    with pytest.raises(ValueError, match="must end in .png"):
        plots.save(plots.make_figure(2), tmp_path / "picture.jpg")


def test_a_classifier_with_softmax_is_refused(small):
    ends = keras.Sequential([*make_linear().layers, keras.layers.Softmax()])
    x, y = small
    classifiers, attack = {"softmax": ends}, attacks.exp(EPSILON)
    for measure in (
        lambda: diversity.measure_diversity(
            ends, small, [diversity.samples(attack)]
        ),
        lambda: loss_surface.measure_loss_surfaces(
            classifiers, (x[0], y[0]), epsilon=EPSILON
        ),
        lambda: hessian.measure_eigenvalues(classifiers, small),
        lambda: transfer.measure_transfer(classifiers, small, attack),
        lambda: convergence.measure_convergence(classifiers, small, attack),
        lambda: entropy_weight.mean_entropy(ends, small, attack),
    ):
        with pytest.raises(ValueError, match="must return logits"):
            measure()


def test_any_callable_is_a_classifier(small):
    kernel = np.random.default_rng(9).normal(size=(16, 3)).astype("float32")

    def classifier(x, training=False):
        return tf.reshape(x, [-1, 16]) @ kernel

    x, y = small
    both = {"one": classifier}
    attack = attacks.fgsm(threat_models.Linf(EPSILON))
    diversity.measure_diversity(
        classifier, small, [diversity.samples(attack)], num_samples=2
    )
    loss_surface.measure_loss_surfaces(
        both, (x[0], y[0]), epsilon=EPSILON, offsets=[0, 1]
    )
    assert hessian.measure_eigenvalues(both, small).eigenvalues.min() > 0
    transfer.measure_transfer(both, small, attack)
    convergence.measure_convergence(both, small, attack)
