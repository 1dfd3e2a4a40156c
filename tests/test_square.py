import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.autoattack_parts.square import Square, patch_shares, square
from adt_tf.threat_models import Linf
from tests.support.models import make_linear

EPSILON = 0.1


class Recorder:
    """A black box in NumPy that remembers what it was shown."""

    def __init__(self, logits):
        self.logits = logits
        self.queries = []

    def __call__(self, x, training=False):
        assert not training
        self.queries.append(x.numpy())
        return tf.constant(self.logits(x.numpy()), tf.float32)


def constant(x):
    """Class 0, whatever is done to the image."""
    return np.tile([1.0, 0.0, 0.5], (len(x), 1))


def linear_logits(shape, num_classes=3, seed=0):
    kernel = np.random.default_rng(seed).normal(
        size=(int(np.prod(shape)), num_classes)
    )
    return lambda x: x.reshape(len(x), -1).astype("float64") @ kernel


def margins(logits, y):
    """z_y - max z_c: below 0 is misclassified."""
    true = logits[np.arange(len(y)), y]
    others = logits.copy()
    others[np.arange(len(y)), y] = -np.inf
    return true - others.max(-1)


def draw_images(shape, count=4, seed=1):
    generator = np.random.default_rng(seed)
    return generator.uniform(0.2, 0.8, (count, *shape)).astype("float32")


def solve(attack, classifier, x, y, seed=0):
    """Runs eagerly, so that a recorder sees every query."""
    return attack.solve(
        classifier, tf.constant(x), tf.constant(y), seed=seeds.make(seed)
    ).numpy()


def published_share(number, p_init=0.8):
    """The paper's table, for 10,000 iterations."""
    table = [
        (10, 1),
        (50, 2),
        (200, 4),
        (500, 8),
        (1000, 16),
        (2000, 32),
        (4000, 64),
        (6000, 128),
        (8000, 256),
    ]
    for last, divisor in table:
        if number <= last:
            return p_init / divisor
    return p_init / 512


@pytest.mark.parametrize("num_queries", [1, 2, 137, 1000, 5000, 10000])
def test_shares_follow_the_published_schedule(num_queries):
    shares = patch_shares(num_queries)
    assert shares.shape == (num_queries - 1,)
    expected = [
        published_share(int(np.floor(10000 * i / num_queries + 1e-9)))
        for i in range(num_queries - 1)
    ]
    np.testing.assert_allclose(shares, expected)


def test_sides_on_cifar():
    sides = Square(Linf(EPSILON))._sides(tf.zeros([1, 32, 32, 3])).numpy()
    values, first = np.unique(-sides, return_index=True)
    # round(32 sqrt(0.8 / 2^k)), and of 10,000 / 5,000 = 2 the numbers at
    # which a threshold is passed: 2 i > 10 from i = 6 on.
    np.testing.assert_array_equal(-values, [29, 20, 14, 10, 7, 5, 4, 3, 2, 1])
    np.testing.assert_array_equal(
        first, [0, 6, 26, 101, 251, 501, 1001, 2001, 3001, 4001]
    )


def test_sides_are_limited_to_the_image():
    sides = Square(Linf(EPSILON))._sides(tf.zeros([1, 4, 100, 1])).numpy()
    assert sides.max() == 4 and sides.min() == 1


@pytest.mark.parametrize("shape", [(8, 8, 1), (6, 11, 3)])
def test_every_query_is_stripes_or_one_square(shape):
    height, width, channels = shape
    x = draw_images(shape, count=3)
    box = Recorder(constant)
    y = np.zeros(3, "int32")
    attack = square(EPSILON, num_queries=150)
    result = solve(attack, box, x, y)
    assert len(box.queries) == 150
    deltas = np.stack(box.queries, axis=1) - x[:, None]
    np.testing.assert_allclose(np.abs(deltas), EPSILON, atol=1e-6)
    signs = np.sign(deltas)
    start = signs[:, 0]
    assert (start == start[:, :1]).all()  # the same all along a column
    np.testing.assert_allclose(result - x, deltas[:, 0], atol=1e-6)

    seen, corners = [], set()
    for i in range(149):
        area = published_share(10000 * i // 150) * height * width
        side = int(np.clip(round(np.sqrt(area)), 1, min(height, width)))
        for new, old in zip(signs[:, 1 + i], start, strict=True):
            # Nothing is ever accepted, so every square is on the stripes.
            colours = []
            for channel in range(channels):
                rows, columns = np.nonzero(
                    new[..., channel] != old[..., channel]
                )
                if not len(rows):
                    continue
                assert np.ptp(rows) < side and np.ptp(columns) < side
                assert len(np.unique(rows)) == side  # whole columns of it
                colours.append(new[rows[0], columns[0], channel])
                if side == 1:
                    corners.add((rows[0], columns[0]))
            seen += colours
    # Both colours, and places up to the last row and column.
    assert abs(np.mean(seen)) < 0.2
    places = np.array(sorted(corners))
    np.testing.assert_array_equal(places.min(0), [0, 0])
    np.testing.assert_array_equal(places.max(0), [height - 1, width - 1])


@pytest.mark.parametrize("shape", [(6, 6, 1), (5, 7, 3)])
def test_keeps_what_lowers_the_margin_and_nothing_else(shape):
    x = draw_images(shape, count=5)
    logits = linear_logits(shape)
    y = logits(x).argmax(-1).astype("int32")

    def confident(images):
        return logits(images) + 1000.0 * np.eye(3)[y]

    box = Recorder(confident)
    attack = square(EPSILON, num_queries=200)
    result = solve(attack, box, x, y)
    best = box.queries[0].copy()
    lowest = margins(confident(best), y)
    accepted = 0
    for i, query in enumerate(box.queries[1:]):
        changed = (query != best).any(-1)
        area = published_share(10000 * i // 200) * shape[0] * shape[1]
        side = int(np.clip(round(np.sqrt(area)), 1, min(shape[:2])))
        # The proposal is the best image so far but for one square.
        for image in changed:
            rows, columns = np.nonzero(image)
            if len(rows):
                assert np.ptp(rows) < side and np.ptp(columns) < side
        margin = margins(confident(query), y)
        better = margin.astype("float32") < lowest.astype("float32")
        best[better] = query[better]
        lowest = np.where(better, margin, lowest)
        accepted += better.sum()
    np.testing.assert_array_equal(result, best)
    assert accepted > 5 * len(x)


def test_an_image_is_left_alone_once_it_is_broken():
    shape = (6, 6, 3)
    x = draw_images(shape, count=6)
    logits = linear_logits(shape)
    y = logits(x).argmax(-1).astype("int32")
    gap = margins(logits(x), y)
    # Each needs another share of the largest change there is.
    kernel = logits(np.eye(108).reshape(108, *shape))
    gains = [
        max(np.abs(kernel[:, c] - kernel[:, k]).sum() for c in range(3))
        for k in y
    ]
    shift = np.linspace(0.1, 0.7, 6) * EPSILON * np.array(gains) - gap

    def shifted(images):
        return logits(images) + shift[:, None] * np.eye(3)[y]

    box = Recorder(shifted)
    result = solve(square(EPSILON, num_queries=1000), box, x, y)
    wrong = np.array([shifted(q).argmax(-1) != y for q in box.queries])
    assert wrong.any(0).all()
    first = wrong.argmax(0)
    # It ends with the last image to break, which took more than the first.
    assert len(box.queries) == first.max() + 1 < 1000
    assert first.min() < first.max()
    for i, query in enumerate(first):
        np.testing.assert_array_equal(result[i], box.queries[query][i])


@pytest.mark.parametrize("num_queries", [1, 2, 102])
def test_number_of_queries(num_queries):
    x = draw_images((4, 4, 1), count=2)
    box = Recorder(constant)
    solve(square(EPSILON, num_queries=num_queries), box, x, [0, 0])
    assert len(box.queries) == num_queries


def test_reaches_the_closed_form_on_a_linear_classifier():
    classifier = make_linear(num_classes=2)
    x = draw_images((4, 4, 1), count=3)
    kernel, bias = classifier.get_weights()
    normal = kernel[:, 1] - kernel[:, 0]
    bias[1] = bias[0] - x.reshape(3, -1).mean(0) @ normal
    bias[1] -= 0.1 * np.abs(normal).sum()
    classifier.set_weights([kernel, bias])
    values = np.diff(classifier(x).numpy())[:, 0]
    y = (values > 0).astype("int32")
    # No pixel is this near to the box: each can take all of epsilon.
    smallest = np.abs(values) / np.abs(normal).sum()
    assert (smallest > 0.05).all() and (smallest < 0.19).all()
    for i in range(3):
        for radius, broken in [(0.999, False), (1.02, True)]:
            attack = square(float(radius * smallest[i]), num_queries=1000)
            x_adv = attack(classifier, x[i : i + 1], y[i : i + 1]).x_adv
            wrong = classifier(x_adv).numpy().argmax(-1) != y[i]
            assert wrong == broken


def make_quantized(shape=(6, 6, 3), num_classes=3):
    """Whole numbers only: no gradients, and no rounding either."""
    classifier = keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Lambda(lambda t: tf.round(t * 16.0)),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes),
        ]
    )
    generator = np.random.default_rng(2)
    classifier.set_weights(
        [
            generator.integers(-8, 9, w.shape).astype("float32")
            for w in classifier.get_weights()
        ]
    )
    return classifier


@pytest.fixture
def quantized():
    classifier = make_quantized()
    x = draw_images((6, 6, 3), count=12)
    return classifier, x, classifier(x).numpy().argmax(-1).astype("int32")


def test_breaks_a_classifier_without_gradients(quantized):
    classifier, x, y = quantized
    by_square = square(EPSILON, num_queries=200)(classifier, x, y).x_adv
    with tf.GradientTape() as tape:
        images = tf.Variable(x)
        total = tf.reduce_sum(classifier(images))
    assert tape.gradient(total, images) is None
    assert (classifier(by_square).numpy().argmax(-1) != y).mean() > 0.7


def test_same_seed_same_bits(quantized):
    classifier, x, y = quantized
    attack = square(0.02, num_queries=50)
    first, again, other = (
        attack(classifier, x, y, seed=seed).x_adv.numpy() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any((1, 2, 3)).all()


def test_result_does_not_depend_on_the_batch(quantized):
    classifier, x, y = quantized
    # Some break, at other queries in another batch, and some do not.
    attack = square(0.05, num_queries=150)
    whole = solve_graph(attack, classifier, x, y)
    wrong = classifier(whole).numpy().argmax(-1) != y
    assert 0 < wrong.mean() < 1
    for rows in ([7, 2, 9], [4], list(range(11, -1, -1))):
        part = solve_graph(attack, classifier, x[rows], y[rows])
        np.testing.assert_array_equal(part, whole[rows])


def solve_graph(attack, classifier, x, y, jit_compile=False):
    return attack.function(classifier, "solve", jit_compile)(
        tf.constant(x), tf.constant(y), seeds.make(3), tf.constant(0)
    ).numpy()


def test_xla_and_graph_and_eager_agree(quantized):
    classifier, x, y = quantized
    attack = square(0.05, num_queries=120)
    plain = solve_graph(attack, classifier, x, y)
    compiled = solve_graph(attack, classifier, x, y, jit_compile=True)
    np.testing.assert_allclose(compiled, plain, atol=1e-6)
    eager = attack.solve(
        classifier, x, y, seed=seeds.fold(seeds.make(3), 0)
    ).numpy()
    np.testing.assert_array_equal(eager, plain)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 2.0)])
def test_stays_in_the_ball_and_the_box(bounds):
    classifier = make_quantized((5, 9, 3), num_classes=4)
    generator = np.random.default_rng(7)
    x = generator.choice(bounds, (6, 5, 9, 3)).astype("float32")
    y = classifier(x).numpy().argmax(-1).astype("int32")
    attack = square(Linf(EPSILON, bounds), num_queries=100)
    x_adv = solve_graph(attack, classifier, x, y)
    attack.threat_model.check(x, x_adv)
    np.testing.assert_allclose(np.abs(x_adv - x).max(), EPSILON, atol=1e-6)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_few_classes(num_classes):
    classifier = make_quantized(num_classes=num_classes)
    x = draw_images((6, 6, 3), count=6)
    y = classifier(x).numpy().argmax(-1).astype("int32")
    x_adv = square(0.3, num_queries=300)(classifier, x, y).x_adv
    assert (classifier(x_adv).numpy().argmax(-1) != y).mean() > 0.7


def test_epsilon_zero_is_the_identity(quantized):
    classifier, x, y = quantized
    x_adv = square(0.0, num_queries=5)(classifier, x, y).x_adv
    np.testing.assert_array_equal(x_adv, x)


def test_says_what_it_is():
    assert square(0.1).name == "Square"
    assert repr(square(0.1, num_queries=7)) == (
        "<Square: Linf(epsilon=0.1, bounds=(0.0, 1.0)), num_queries=7, "
        "p_init=0.8>"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_queries": 0},
        {"num_queries": 10.0},
        {"p_init": 0.0},
        {"p_init": 1.5},
        {"p_init": float("nan")},
    ],
)
def test_bad_arguments_are_refused(arguments):
    (key,) = arguments
    with pytest.raises(ValueError, match=f"`{key}` must.*Received: {key}="):
        Square(Linf(0.1), **arguments)
