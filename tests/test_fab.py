import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import linprog

from adt_tf import attacks, seeds
from adt_tf.attacks.autoattack_parts.fab import FAB, fab_t
from adt_tf.threat_models import Linf
from adt_tf.threat_models.planes import shortest_steps
from tests.support import sorted_planes
from tests.support.models import make_binary, make_linear

step_to_plane = functools.partial(shortest_steps, pace=tf.ones_like)


def linprog_step(point, value, normal, bounds):
    """The shortest step to the plane, or None: variables d, then t = |d|."""
    size = len(point)
    identity, ones = np.eye(size), np.ones((size, 1))
    result = linprog(
        np.r_[np.zeros(size), 1.0],
        A_ub=np.block([[identity, -ones], [-identity, -ones]]),
        b_ub=np.zeros(2 * size),
        A_eq=np.r_[normal, 0.0][None],
        b_eq=[-value],
        bounds=[*zip(bounds[0] - point, bounds[1] - point, strict=True)]
        + [(0, None)],
    )
    return result.x[-1] if result.status == 0 else None


def planes(bounds, share, count=20, size=12):
    """Points of a box and planes that take a share of all it allows."""
    generator = np.random.default_rng(4)
    low, high = bounds
    points = generator.uniform(low, high, (count, size))
    points[:, :3] = np.where(points[:, :3] > (low + high) / 2, high, low)
    normals = generator.normal(size=(count, size)) * 10.0 ** np.linspace(
        -6, 6, count
    ).reshape(-1, 1)
    normals[:, 5] = 0.0
    sign = np.where(np.arange(count) % 2, 1.0, -1.0)
    ahead = -sign[:, None] * normals > 0
    room = np.where(ahead, high - points, points - low)
    values = sign * share * (np.abs(normals) * room).sum(-1)
    return [a.astype("float32") for a in (points, values, normals)]


@pytest.mark.parametrize("pace", [tf.ones_like, tf.identity])
@pytest.mark.parametrize("share", [1e-3, 0.3, 0.9, 1.5])
def test_newton_finds_what_sorting_finds(pace, share):
    """On 3,072 pixels, many of them at a bound or without a slope."""
    random = np.random.default_rng(0)
    points = random.uniform(-0.3, 1.3, [8, 3072]).clip(0, 1).astype("float32")
    normals = random.standard_t(2, points.shape).astype("float32")
    normals[random.uniform(size=points.shape) < 0.2] = 0
    room = np.where(normals > 0, 1 - points, points)
    values = -share * np.sum(np.abs(normals) * room, axis=1)
    values = values.astype("float32")
    arguments = (points, values, normals)
    settings = {"bounds": (0.0, 1.0), "pace": pace}
    actual = shortest_steps(*map(tf.constant, arguments), **settings)
    expected = sorted_planes.shortest_steps(*arguments, **settings)
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert np.all(np.abs(actual - expected) < 1e-5 * largest + 1e-7)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 2.0)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_step_to_plane_is_the_shortest_in_the_box(bounds, share):
    points, values, normals = planes(bounds, share)
    steps = step_to_plane(points, values, normals, bounds=bounds).numpy()
    low, high = bounds
    assert (points + steps).min() >= low - 1e-6
    assert (points + steps).max() <= high + 1e-6
    for point, value, normal, step in zip(
        points, values, normals, steps, strict=True
    ):
        # Scaled, for the solver's own tolerance is absolute.
        scale = np.abs(normal).max().astype("float64")
        optimum = linprog_step(
            point.astype("float64"), value / scale, normal / scale, bounds
        )
        np.testing.assert_allclose(np.abs(step).max(), optimum, atol=1e-5)
        assert abs(value + normal @ step) / np.abs(normal).sum() < 1e-6


def test_step_to_plane_goes_as_near_as_the_box_allows():
    points, values, normals = planes((0.0, 1.0), 1.5)
    steps = step_to_plane(points, values, normals, bounds=(0.0, 1.0)).numpy()
    for point, value, normal, step in zip(
        points, values, normals, steps, strict=True
    ):
        assert linprog_step(point, value, normal, (0.0, 1.0)) is None
        left = linprog(
            np.sign(value) * normal / np.abs(normal).max(),
            bounds=np.stack([-point, 1 - point], -1),
        )
        nearest = abs(value) + left.fun * np.abs(normal).max()
        np.testing.assert_allclose(
            abs(value + normal @ step), nearest, rtol=1e-4
        )


def test_step_to_plane_stays_without_a_gradient():
    step = step_to_plane(
        tf.fill([2, 3], 0.5),
        tf.constant([1.0, -1.0]),
        tf.zeros([2, 3]),
        bounds=(0.0, 1.0),
    )
    np.testing.assert_array_equal(step, np.zeros((2, 3)))


def two_classes(shape=(4, 4, 1), shift=0.0, count=10):
    """A linear classifier, images it gets right, and its normal z_1 - z_0."""
    classifier = make_linear(shape, num_classes=2)
    generator = np.random.default_rng(5)
    x = generator.uniform(0.4, 0.6, (count, *shape)).astype("float32")
    kernel, bias = classifier.get_weights()
    normal = kernel[:, 1] - kernel[:, 0]
    bias[1] = bias[0] - x.reshape(count, -1).mean(0) @ normal + shift
    classifier.set_weights([kernel, bias])
    values = x.reshape(count, -1) @ normal + bias[1] - bias[0]
    return classifier, x, (values > 0).astype("int32"), normal, values


def scalar_walk(num_steps, alpha_max=0.1, eta=1.05, beta=0.9):
    """FAB along the one direction of a linear model, the boundary at 1."""
    place, best = 0.0, np.inf
    for _ in range(num_steps):
        gap = abs(1 - place)
        alpha = min(gap / (gap + 1), alpha_max)
        ahead = place + eta * (1 - place)
        place = (1 - alpha) * ahead + alpha * eta
        if place > 1:
            best = min(best, place)
            place *= beta
    return best


@pytest.mark.parametrize("num_steps", [1, 2, 100])
def test_distance_on_a_linear_model_is_the_closed_form(num_steps):
    classifier, x, y, normal, values = two_classes()
    smallest = np.abs(values) / np.abs(normal).sum()
    attack = fab_t(0.1, num_steps=num_steps)
    closest, distance = attack.closest(classifier, x, y)
    expected = scalar_walk(num_steps)
    np.testing.assert_allclose(distance / smallest, expected, rtol=1e-3)
    assert 1 < expected < (1.006 if num_steps == 100 else 1.06)
    np.testing.assert_allclose(
        np.abs(closest - x).max((1, 2, 3)), distance, atol=1e-7
    )
    assert (classifier(closest).numpy().argmax(-1) != y).all()


def test_distance_on_a_linear_model_in_the_box_is_the_optimum():
    classifier, x, _, normal, _ = two_classes(shift=-4.5)
    # Half the pixels have next to no room on the way to the boundary.
    ahead = np.where(normal > 0, 0.98, 0.02).reshape(4, 4, 1)
    x[:, :2] = ahead[:2]
    values = np.diff(classifier(x).numpy())[:, 0]
    assert (values < 0).all()
    y = np.zeros(len(x), "int32")
    flat = x.reshape(len(x), -1).astype("float64")
    optimum = np.array(
        [
            linprog_step(p, v, normal, (0.0, 1.0))
            for p, v in zip(flat, values, strict=True)
        ]
    )
    unboxed = np.abs(values) / np.abs(normal).sum()
    assert (optimum > 1.2 * unboxed).all()
    _, distance = fab_t(0.1).closest(classifier, x, y)
    ratio = distance.numpy() / optimum
    assert ratio.min() > 0.9999 and ratio.max() < 1.02


def test_breaks_an_example_where_the_boundary_is_within_epsilon():
    classifier, x, y, normal, values = two_classes()
    smallest = np.abs(values) / np.abs(normal).sum()
    for radius, broken in [(0.99, False), (1.01, True)]:
        for i in range(2):
            attack = fab_t(float(radius * smallest[i]), num_targets=1)
            x_adv = attack.solve(
                classifier, x[i : i + 1], y[i : i + 1], seed=seeds.make(0)
            )
            wrong = classifier(x_adv).numpy().argmax(-1) != y[i]
            assert wrong == broken
            attack.threat_model.check(x[i : i + 1], x_adv)
            moved = np.abs(x_adv - x[i]).max()
            # What lies outside is projected: it fills the ball.
            reached = attack.threat_model.epsilon if not broken else smallest[i]
            np.testing.assert_allclose(moved, reached, rtol=0.02)


def numpy_fab(weights, x, y, target, num_steps, bounds):
    """FAB on a tanh network of one hidden layer, in float64."""
    first, hidden, second, last = (w.astype("float64") for w in weights)
    x = x.astype("float64")
    low, high = bounds

    def logits(image):
        return np.tanh(image @ first + hidden) @ second + last

    def to_plane(point, value, normal):
        towards = -np.sign(value) * np.sign(normal)
        room = np.where(towards > 0, high - point, point - low)
        left, right = 0.0, high - low
        for _ in range(80):
            middle = (left + right) / 2
            reached = np.abs(normal) @ np.minimum(middle, room)
            if reached < abs(value):
                left = middle
            else:
                right = middle
        return towards * np.minimum(right, room)

    place, best, distance = x, x, np.inf
    for _ in range(num_steps):
        activation = np.tanh(place @ first + hidden)
        z = logits(place)
        value = z[target] - z[y]
        outwards = (second[:, target] - second[:, y]) * (1 - activation**2)
        normal = first @ outwards
        step = to_plane(place, value, normal)
        step_x = to_plane(x, value + normal @ (x - place), normal)
        sizes = np.abs(step).max(), np.abs(step_x).max()
        alpha = min(sizes[0] / sum(sizes), 0.1)
        place = (1 - alpha) * (place + 1.05 * step) + alpha * (
            x + 1.05 * step_x
        )
        place = np.clip(place, low, high)
        if logits(place).argmax() != y:
            far = np.abs(place - x).max()
            if far < distance:
                best, distance = place, far
            place = x + 0.9 * (place - x)
    return best, distance


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-0.2, 1.3)])
def test_whole_walk_matches_numpy(bounds):
    classifier = keras.Sequential(
        [
            keras.Input((2, 3, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dense(4),
        ]
    )
    generator = np.random.default_rng(6)
    classifier.set_weights(
        [generator.normal(size=w.shape) for w in classifier.get_weights()]
    )
    x = generator.uniform(size=(24, 2, 3, 1)).astype("float32")
    clean = classifier(x).numpy()
    y = clean.argmax(-1).astype("int32")
    ranked = np.argsort(-clean, axis=-1)
    attack = FAB(Linf(0.1, bounds), num_steps=6, num_targets=3)
    for part in range(3):
        best, distance = attack.closest(classifier, x, y, part=part)
        expected = [
            numpy_fab(
                classifier.get_weights(),
                x[i].ravel(),
                y[i],
                ranked[i, 1 + part],
                6,
                bounds,
            )
            for i in range(len(x))
        ]
        assert np.isfinite(distance).mean() > 0.7
        np.testing.assert_allclose(
            distance, [far for _, far in expected], rtol=1e-3
        )
        np.testing.assert_allclose(
            best.numpy().reshape(len(x), -1),
            [image for image, _ in expected],
            atol=1e-3,
        )


def pixel_classes(num_classes):
    """z_0 = 1; z_c = (0.9 - c / 20) + pixel c, so each target has a pixel."""
    classifier = make_linear((1, num_classes, 1), num_classes)
    kernel = np.diag([0.0] + [1.0] * (num_classes - 1))
    bias = 0.9 - np.arange(num_classes) / 20
    bias[0] = 1.0
    classifier.set_weights([kernel, bias])
    return classifier


@pytest.mark.parametrize("num_classes", [2, 3, 5, 12])
def test_each_part_is_the_target_of_the_next_logit(num_classes):
    classifier = pixel_classes(num_classes)
    x = np.zeros((1, 1, num_classes, 1), "float32")
    attack = fab_t(0.5)
    assert attack.num_parts == 9
    for part in range(9):
        target = part + 1
        batch = attack(classifier, x, np.array([0]), part=part)
        moved = np.flatnonzero(batch.x_adv)
        if target >= num_classes:
            # All have been tried: there is nothing left to do.
            assert moved.size == 0
            continue
        np.testing.assert_array_equal(moved, [target])
        needed = 0.1 + target / 20
        far = batch.x_adv.numpy().max()
        if needed < 0.5:
            assert needed < far < 1.01 * needed
        else:
            np.testing.assert_allclose(far, 0.5)
    find = attack.function(classifier, "find", False)
    assert find.experimental_get_tracing_count() == 1


def test_one_logit_is_attacked_as_two():
    x, y = np.full((2, 4, 4, 1), 0.5, "float32"), np.array([0, 1])
    attack = fab_t(0.1, num_steps=3)
    one, two = (attack.closest(model, x, y)[1] for model in make_binary())
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_a_misclassified_image_is_its_own_closest():
    classifier, x, y, _, _ = two_classes()
    attack = fab_t(0.1, num_steps=3)
    closest, distance = attack.closest(classifier, x, 1 - y)
    np.testing.assert_array_equal(closest, x)
    np.testing.assert_array_equal(distance, np.zeros(len(x)))


def test_without_gradients_it_finds_nothing_and_says_so():
    classifier, x, y, _, _ = two_classes()
    quantized = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Lambda(lambda t: tf.round(t * 256) / 256),
            classifier,
        ]
    )
    y = quantized(x).numpy().argmax(-1).astype("int32")
    closest, distance = fab_t(0.1, num_steps=3).closest(quantized, x, y)
    np.testing.assert_array_equal(closest, x)
    assert np.isinf(distance).all()


@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_the_scale_of_the_logits_does_not_matter(scale):
    classifier, x, y, _, _ = two_classes()
    attack = fab_t(0.1, num_steps=10)
    _, expected = attack.closest(classifier, x, y)
    classifier.set_weights([scale * w for w in classifier.get_weights()])
    _, distance = attack.closest(classifier, x, y)
    np.testing.assert_allclose(distance, expected, rtol=1e-3)


@pytest.fixture
def right(convolutional, images):
    """A network with images it gets right."""
    x, _ = images
    return convolutional, x, convolutional(x).numpy().argmax(-1).astype("int32")


def test_stays_in_the_ball_and_the_box(right):
    classifier, x, y = right
    x = np.round(x)
    attack = fab_t(0.02, num_steps=10, num_targets=2)
    x_adv = attack(classifier, x, y).x_adv
    attack.threat_model.check(x, x_adv)
    assert np.abs(x_adv - x).max() > 0.01


def test_finds_no_less_than_pgd_on_a_network(right):
    classifier, x, y = right
    # Where half the examples can be broken, and both attacks are sure of it.
    _, distance = fab_t(0.1, num_steps=20).closest(classifier, x, y)
    epsilon = float(np.median(distance))
    outcomes = [
        classifier(attack(classifier, x, y).x_adv).numpy().argmax(-1) != y
        for attack in (
            fab_t(epsilon, num_steps=20, num_targets=3),
            attacks.pgd(epsilon, num_steps=20),
        )
    ]
    assert 0.3 < outcomes[0].mean() < 0.9
    assert (outcomes[0] >= outcomes[1]).all()


def test_xla_and_graph_agree(right):
    classifier, x, y = right
    attack = fab_t(0.1, num_steps=10, num_targets=1)
    plain = attack(classifier, x, y, jit_compile=False).x_adv.numpy()
    compiled = attack(classifier, x, y, jit_compile=True).x_adv.numpy()
    assert np.isclose(plain, compiled, atol=1e-4).mean() > 0.99


def test_result_does_not_depend_on_the_batch(right):
    classifier, x, y = right
    attack = fab_t(0.1, num_steps=10, num_targets=1)
    whole = attack(classifier, x, y).x_adv.numpy()
    order = np.array([7, 2, 9])
    part = attack(classifier, x[order], y[order]).x_adv.numpy()
    assert np.isclose(part, whole[order], atol=1e-4).mean() > 0.99


def test_epsilon_zero_is_the_identity(right):
    classifier, x, y = right
    x_adv = fab_t(0.0, num_steps=3, num_targets=1)(classifier, x, y).x_adv
    np.testing.assert_array_equal(x_adv, x)


def test_says_what_it_is():
    assert fab_t(0.1).name == "FAB-T"
    assert repr(fab_t(0.1, num_steps=7)) == (
        "<FAB-T: Linf(epsilon=0.1, bounds=(0.0, 1.0)), num_steps=7, "
        "num_targets=9, alpha_max=0.1, eta=1.05, beta=0.9>"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_steps": 0},
        {"num_steps": 2.5},
        {"num_targets": 0},
        {"alpha_max": 1.5},
        {"eta": 0.9},
        {"beta": 1.0},
        {"beta": float("nan")},
    ],
)
def test_bad_arguments_are_refused(arguments):
    (key,) = arguments
    with pytest.raises(ValueError, match=f"`{key}` must.*Received: {key}="):
        FAB(Linf(0.1), **arguments)
