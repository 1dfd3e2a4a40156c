import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, objectives, seeds
from adt_tf.attacks.autoattack_parts import apgd
from adt_tf.attacks.autoattack_parts.apgd import APGD, apgd_ce, apgd_dlr, apgd_t
from adt_tf.threat_models import Linf
from tests.support.graphs import kinds_of_solving
from tests.support.models import make_binary, make_linear

EPSILON = 0.1
RECIPES = {"ce": apgd_ce, "t": apgd_t, "dlr": apgd_dlr}


@pytest.fixture(params=RECIPES)
def recipe(request):
    return RECIPES[request.param]


def wrong(classifier, x, y):
    return np.asarray(classifier(x)).argmax(-1) != y


def random_images(count, shape=(4, 4, 1), seed=3):
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(count, *shape)).astype("float32")


# The ratio.


def dlr_by_hand(z, y, target=None):
    ordered = sorted(z, reverse=True)
    if target is None:
        other = max(value for c, value in enumerate(z) if c != y)
        return -(z[y] - other) / (ordered[0] - ordered[2])
    below = (ordered[2] + ordered[3]) / 2
    return -(z[y] - z[target]) / (ordered[0] - below)


@pytest.mark.parametrize("num_classes", [3, 4, 10])
def test_dlr_matches_numpy(num_classes):
    generator = np.random.default_rng(num_classes)
    z = generator.normal(size=(50, num_classes)) * 5
    y = generator.integers(0, num_classes, 50)
    # The true class is on top in some rows and not in others.
    assert 0 < np.mean(z.argmax(-1) == y) < 1
    actual = objectives.dlr_of(tf.constant(z, tf.float32), tf.constant(y))
    expected = [dlr_by_hand(*row) for row in zip(z, y, strict=True)]
    np.testing.assert_allclose(actual, expected, rtol=1e-4)
    np.testing.assert_array_equal(np.array(actual) > 0, z.argmax(-1) != y)


@pytest.mark.parametrize("num_classes", [4, 10])
def test_targeted_dlr_matches_numpy(num_classes):
    generator = np.random.default_rng(num_classes)
    z = generator.normal(size=(50, num_classes)) * 5
    y = generator.integers(0, num_classes, 50)
    target = (y + generator.integers(1, num_classes, 50)) % num_classes
    actual = objectives.targeted_dlr_of(
        tf.constant(z, tf.float32), tf.constant(y), tf.constant(target)
    )
    expected = [dlr_by_hand(*row) for row in zip(z, y, target, strict=True)]
    np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_dlr_of_few_classes_is_the_margin():
    y = tf.constant([0, 1])
    two = tf.constant([[3.0, 1.0], [2.5, -1.0]])
    np.testing.assert_allclose(objectives.dlr_of(two, y), [-2.0, 3.5])
    np.testing.assert_allclose(
        objectives.targeted_dlr_of(two, y, 1 - y), [-2.0, 3.5]
    )
    three = tf.constant([[3.0, 1.0, -4.0], [2.5, -1.0, 0.0]])
    target = tf.constant([2, 2])
    np.testing.assert_allclose(
        objectives.targeted_dlr_of(three, y, target), [-7.0, 1.0]
    )


def test_dlr_ignores_scale_and_shift():
    z = tf.constant(np.random.default_rng(0).normal(size=(9, 5)), tf.float32)
    y, target = tf.zeros([9], tf.int32), tf.ones([9], tf.int32)
    moved = 1e4 * z + 7.0
    np.testing.assert_allclose(
        objectives.dlr_of(moved, y), objectives.dlr_of(z, y), rtol=1e-3
    )
    np.testing.assert_allclose(
        objectives.targeted_dlr_of(moved, y, target),
        objectives.targeted_dlr_of(z, y, target),
        rtol=1e-3,
    )


def test_dlr_of_equal_logits_is_finite():
    z = tf.ones([1, 5])
    y = tf.constant([2])
    for value in (
        lambda z: objectives.dlr_of(z, y),
        lambda z: objectives.targeted_dlr_of(z, y, y - 1),
    ):
        with tf.GradientTape() as tape:
            tape.watch(z)
            result = value(z)
        assert result.numpy() == [0.0]
        assert np.isfinite(tape.gradient(result, z)).all()


# The schedule and the whole trajectory.


def published_checkpoints(num_steps):
    """w_j = ceil(p_j N), p_(j+1) = p_j + max(p_j - p_(j-1) - 0.03, 0.06)."""
    shares = [0.0, 0.22]
    while shares[-1] < 1:
        stretch = max(shares[-1] - shares[-2] - 0.03, 0.06)
        shares.append(shares[-1] + stretch)
    # 0.41 * 100 is a little above 41.
    steps = [int(np.ceil(round(p * num_steps, 6))) for p in shares[1:]]
    return [step for step in steps if step <= num_steps]


@pytest.mark.parametrize("num_steps", [100, 200, 1000])
def test_checkpoints_are_the_published_ones(num_steps):
    assert apgd.checkpoints(num_steps) == published_checkpoints(num_steps)


@pytest.mark.parametrize("num_steps", [1, 2, 5, 10, 20, 50, 73])
def test_short_runs_round_each_stretch_down(num_steps):
    stretches = np.diff([0, *apgd.checkpoints(num_steps)])
    shares = np.maximum(0.22 - 0.03 * np.arange(len(stretches)), 0.06)
    assert (stretches >= 1).all()
    assert stretches[0] == max(int(0.22 * num_steps), 1)
    assert (np.abs(stretches - shares * num_steps) <= len(shares) + 1).all()
    assert (np.diff(stretches) <= 0).all()
    # The next stretch would not fit any more.
    assert num_steps - sum(stretches) < stretches[-1]


def wells(u, coefficients, roll):
    """A quartic whose neighbouring pixels are coupled, its terms [..., i]."""
    slope, bend, quartic, coupling = coefficients
    return slope * u - bend * u**2 - quartic * u**4 + coupling * u * roll(u, 1)


def wells_gradient(u, coefficients):
    slope, bend, quartic, coupling = coefficients
    own = slope - 2 * bend * u - 4 * quartic * u**3
    return own + coupling * np.roll(u, 1) + np.roll(coupling * u, -1)


def reference_ascent(value, gradient, x, start, num_steps):
    """Algorithm 1 of the paper for one image, with the published checkpoints.

    Returns the points met and, for each checkpoint, which conditions held.
    """

    def inside(point):
        low, high = np.maximum(x - EPSILON, 0), np.minimum(x + EPSILON, 1)
        return np.clip(point, low, high)

    points, values, rises, decisions = [start], [value(start, 0)], [], []
    current, current_value, before = start, values[0], start
    best, eta = 0, 2 * EPSILON
    marks = [0, *published_checkpoints(num_steps)]
    # The step size and the best value that each checkpoint finds.
    eta_at, best_at = {0: eta}, {0: values[0]}
    for k in range(1, num_steps + 1):
        ahead = inside(current + eta * np.sign(gradient(current)))
        share = 1.0 if k == 1 else 0.75
        drift = (1 - share) * (current - before)
        new = inside(current + share * (ahead - current) + drift)
        points.append(new)
        values.append(value(new, k))
        rises.append(values[k] > current_value)
        before, current, current_value = current, new, values[k]
        if values[k] > values[best]:
            best = k
        if k in marks:
            last = marks[marks.index(k) - 1]
            eta_at[k], best_at[k] = eta, values[best]
            few = sum(rises[last:k]) < 0.75 * (k - last)
            stalled = eta_at[last] == eta_at[k] and best_at[last] == best_at[k]
            if few or stalled:
                eta /= 2
                current, current_value = points[best], values[best]
            decisions.append((bool(few), bool(stalled)))
    return points, decisions


def compared_with_the_reference(x, script=None, num_steps=100):
    """Checks each point met; returns points, images found and decisions.

    The pixels are the logits. The values are those of the wells, or those of
    a script [steps, batch]; the slope is that of the wells.
    """
    count = len(x)
    y = np.random.default_rng(0).integers(0, 6, count).astype("int32")
    generator = np.random.default_rng(5)
    lowest = np.reshape([-2.0, -1.0, 0.0, -2.0], [4, 1, 1])
    coefficients = generator.uniform(lowest, 2.0, size=(4, count, 6))
    flat, met = x.reshape(count, -1), []

    def objective(logits, y):
        k = len(met)
        met.append(np.array(logits))
        u = (logits - flat) / EPSILON
        terms = wells(
            u,
            tf.unstack(tf.constant(coefficients, tf.float32)),
            lambda u, by: tf.roll(u, by, axis=-1),
        )
        values = tf.reduce_sum(terms, axis=-1)
        if script is None:
            return values
        return script[k] + (values - tf.stop_gradient(values))

    classifier = keras.Sequential(
        [keras.Input(x.shape[1:]), keras.layers.Flatten()]
    )
    attack = APGD(Linf(EPSILON), objective, num_steps=num_steps)
    # Outside a graph the loop runs in Python, point by point.
    found = attack.solve(
        classifier, tf.constant(x), tf.constant(y), seed=seeds.make(1)
    )
    assert len(met) == num_steps + 1
    every_decision = []
    for i, image in enumerate(flat.astype("float64")):

        def value(point, k, i=i, image=image):
            if script is not None:
                return script[k, i]
            u = (point - image) / EPSILON
            return wells(u, coefficients[:, i], np.roll).sum()

        def gradient(point, i=i, image=image):
            return wells_gradient((point - image) / EPSILON, coefficients[:, i])

        start = met[0][i].astype("float64")
        points, decisions = reference_ascent(
            value, gradient, image, start, num_steps
        )
        np.testing.assert_allclose(
            [points_then[i] for points_then in met], points, atol=2e-6
        )
        every_decision += decisions
    return np.array(met), y, found.numpy().reshape(count, -1), every_decision


@functools.cache
def ascent():
    x = random_images(32, (2, 3, 1))
    return x.reshape(32, -1), *compared_with_the_reference(x)


def test_every_point_is_that_of_the_published_algorithm():
    *_, decisions = ascent()
    assert (False, False) in decisions
    assert (True, False) in decisions


def test_every_point_is_that_of_the_published_algorithm_on_any_values():
    # Values that rise with every probability, some from below an early peak,
    # put each condition to the test alone and both together.
    generator = np.random.default_rng(2)
    count = 64
    rising = generator.uniform(size=(101, count)) < np.linspace(0.5, 1, count)
    script = np.cumsum(np.where(rising, 1.0, -2.0), axis=0)
    script[0, ::2] += 20
    script[30, ::3] += 50
    *_, decisions = compared_with_the_reference(
        random_images(count, (2, 3, 1)), script.astype("float32")
    )
    kinds = [(a, b) for a in (False, True) for b in (False, True)]
    counts = {kind: decisions.count(kind) for kind in kinds}
    assert min(counts.values()) >= 10


def test_returns_the_strongest_point_met():
    flat, met, y, found, _ = ascent()
    for i in range(32):
        points = np.concatenate([flat[i : i + 1], met[:, i]]).astype("float64")
        loss = np.log(np.exp(points).sum(-1)) - points[:, y[i]]
        is_wrong = points.argmax(-1) != y[i]
        rank = np.where(is_wrong, loss, loss - 1e6)
        index = np.abs(points - found[i]).sum(-1).argmin()
        np.testing.assert_array_equal(points[index], found[i])
        assert rank[index] >= rank.max() - 1e-6


def test_starts_on_the_surface_of_the_ball():
    flat, met, *_ = ascent()
    delta = (met[0] - flat)[((flat > EPSILON) & (flat < 0.9)).all(-1)]
    assert len(delta) > 5
    np.testing.assert_allclose(np.abs(delta).max(-1), EPSILON, rtol=1e-5)
    # Uniform otherwise: neither all at corners, nor all of one sign.
    assert 0.3 < np.mean(np.abs(delta) < EPSILON / 2) < 0.6
    assert 0.3 < np.mean(delta > 0) < 0.7


# Closed forms.


def largest_margins(classifier, x, y):
    """max over the ball and box of z_t - z_y for each class t, in closed form.

    The margin is linear, so each pixel goes to the end that its weight wants.
    """
    kernel, bias = (w.astype("float64") for w in classifier.get_weights())
    flat = x.reshape(len(x), -1).astype("float64")
    low, high = np.maximum(flat - EPSILON, 0), np.minimum(flat + EPSILON, 1)
    weights = kernel.T[None] - kernel.T[y][:, None]
    best = np.where(weights > 0, high[:, None], low[:, None])
    margins = (weights * best).sum(-1) + bias - bias[y][:, None]
    margins[np.arange(len(x)), y] = -np.inf
    return margins


def margins_of(classifier, x, y):
    z = np.asarray(classifier(x), "float64")
    return z - z[np.arange(len(z)), y][:, None]


def test_two_classes_reach_the_closed_form(recipe):
    classifier = make_linear(num_classes=2)
    x = random_images(40)
    y = np.arange(40, dtype="int32") % 2
    x_adv = recipe(EPSILON, num_steps=20)(classifier, x, y).x_adv.numpy()
    other = (np.arange(40), 1 - y)
    np.testing.assert_allclose(
        margins_of(classifier, x_adv, y)[other],
        largest_margins(classifier, x, y)[other],
        atol=1e-4,
    )


@pytest.mark.parametrize("num_classes", [3, 10])
def test_targets_break_what_the_closed_form_says(num_classes):
    classifier = make_linear(num_classes=num_classes)
    x = random_images(80)
    y = np.asarray(classifier(x)).argmax(-1).astype("int32")
    breakable = largest_margins(classifier, x, y).max(-1) > 0
    assert 10 < breakable.sum() < 75
    x_adv = apgd_t(EPSILON, num_steps=20)(classifier, x, y).x_adv.numpy()
    np.testing.assert_array_equal(wrong(classifier, x_adv, y), breakable)


def test_three_classes_reach_each_target_in_closed_form():
    classifier = make_linear(num_classes=3)
    x = random_images(40)
    y = np.asarray(classifier(x)).argmax(-1).astype("int32")
    bound = largest_margins(classifier, x, y)
    attack = apgd_t(EPSILON, num_steps=20)
    clean = np.asarray(classifier(x))
    for part in range(2):
        target = np.argsort(-clean, axis=-1)[:, 1 + part]
        towards = (np.arange(40), target)
        x_adv = attack(classifier, x, y, part=part).x_adv.numpy()
        reached = margins_of(classifier, x_adv, y)
        # The best point for the target is misclassified or of most loss among
        # those met, unless the third class is the stronger one on the way.
        clear = reached[towards] == reached.max(-1)
        assert clear.any()
        np.testing.assert_allclose(
            reached[towards][clear], bound[towards][clear], atol=1e-3
        )


# Targets and parts.


def test_targets_are_the_wrong_classes_by_clean_logit():
    classifier = make_linear(num_classes=5)
    x = random_images(20)
    y = np.random.default_rng(1).integers(0, 5, 20).astype("int32")
    clean = np.asarray(classifier(x))
    assert (clean.argmax(-1) != y).any()
    for part in range(4):
        seen = []

        def objective(logits, y, target, seen=seen):
            seen.append(np.array(target))
            return objectives.targeted_dlr_of(logits, y, target)

        attack = APGD(Linf(EPSILON), objective, num_steps=1, num_targets=4)
        attack.solve(
            classifier,
            tf.constant(x),
            tf.constant(y),
            seed=seeds.make(0),
            part=part,
        )
        for row, label, target in zip(clean, y, seen[0], strict=True):
            ranked = [c for c in np.argsort(-row) if c != label]
            assert target == ranked[part]


@pytest.mark.parametrize("num_classes", [2, 3])
def test_parts_without_a_target_take_no_step(num_classes):
    classifier = make_linear(num_classes=num_classes)
    x = random_images(10)
    y = np.asarray(classifier(x)).argmax(-1).astype("int32")
    attack = apgd_t(EPSILON, num_steps=5)
    assert attack.num_parts == 9
    for part in range(9):
        x_adv = attack(classifier, x, y, part=part).x_adv
        moved = np.abs(x_adv - x).max()
        assert (moved > 0.05) == (part < num_classes - 1)
    every = wrong(classifier, attack(classifier, x, y).x_adv, y)
    fewer = apgd_t(EPSILON, num_steps=5, num_targets=num_classes - 1)
    np.testing.assert_array_equal(
        every, wrong(classifier, fewer(classifier, x, y).x_adv, y)
    )


def test_all_parts_share_one_trace(convolutional, images):
    calls = []

    def objective(logits, y, target):
        calls.append(1)
        return objectives.targeted_dlr_of(logits, y, target)

    attack = APGD(Linf(EPSILON), objective, num_steps=3, num_targets=9)
    attack(convolutional, *images)
    assert len(calls) == 1


# What is expected of every attack.


@pytest.fixture(scope="module")
def wavy():
    """A small network that is far from linear in the ball."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            layers.Flatten(),
            layers.Dense(32, activation="tanh"),
            layers.Dense(32, activation="tanh"),
            layers.Dense(6),
        ]
    )
    generator = np.random.default_rng(0)
    model.set_weights(
        [
            generator.normal(size=w.shape, scale=8 / w.shape[0] ** 0.5)
            for w in model.get_weights()
        ]
    )
    return model


@pytest.fixture(scope="module")
def recognized(wavy):
    """Images that the network gets right."""
    x = random_images(100)
    return x, np.asarray(wavy(x)).argmax(-1).astype("int32")


@pytest.fixture(scope="module", params=RECIPES)
def attack(request):
    return RECIPES[request.param](0.03, num_steps=10)


def test_stays_in_the_ball_and_the_box(attack, wavy, recognized):
    x, y = np.round(recognized[0]), recognized[1]
    x_adv = attack(wavy, x, y).x_adv
    attack.threat_model.check(x, x_adv)
    assert np.abs(x_adv - x).max() > 0.029


def test_obeys_other_bounds(wavy, recognized):
    x, y = 2 * np.round(recognized[0]) - 1, recognized[1]
    threat_model = Linf(0.3, bounds=(-1.0, 1.0))
    x_adv = apgd_ce(threat_model, num_steps=10)(wavy, x, y).x_adv
    threat_model.check(x, x_adv)
    assert np.abs(x_adv - x).max() > 0.29


def test_never_helps(attack, wavy, recognized):
    x, y = recognized
    y = (y + np.arange(len(y), dtype="int32") % 2) % 6
    x_adv = attack(wavy, x, y).x_adv
    before, after = (wrong(wavy, images, y) for images in (x, x_adv))
    assert before.sum() == len(y) // 2
    assert (after >= before).all()


def test_same_seed_same_bits_and_another_seed_others(attack, wavy, recognized):
    first = attack(wavy, *recognized, seed=1).x_adv
    again = attack(wavy, *recognized, seed=1).x_adv
    np.testing.assert_array_equal(first, again)
    other = attack(wavy, *recognized, seed=2).x_adv
    assert np.abs(first - other).max() > 1e-3


def agree(one, other, y, classifier):
    """Same images, and the same ones misclassified.

    Past the boundary the ratio is flat wherever y ranks third (it is 1), and
    the sign of its slope nothing but rounding, so images are compared before.
    """
    broken = wrong(classifier, one, y)
    np.testing.assert_array_equal(wrong(classifier, other, y), broken)
    assert 5 < broken.sum() < len(y) - 5
    standing = np.isclose(one, other, atol=1e-4)[~broken]
    assert standing.mean() > 0.99


def test_result_does_not_depend_on_the_batch(attack, wavy, recognized):
    x, y = recognized
    order = np.arange(98, 0, -2)
    whole = attack(wavy, x, y).x_adv.numpy()[order]
    part = attack(wavy, x[order], y[order]).x_adv.numpy()
    agree(whole, part, y[order], wavy)


def test_xla_and_graph_agree(attack, wavy, recognized):
    plain, compiled = (
        attack(wavy, *recognized, jit_compile=jit_compile).x_adv.numpy()
        for jit_compile in (False, True)
    )
    agree(plain, compiled, recognized[1], wavy)


def test_restarts_try_all_targets_again(wavy, recognized):
    single = apgd_t(0.05, num_steps=1, num_targets=2)
    attack = attacks.Restarts(single, 3)
    assert attack.num_parts == 6
    first = single(wavy, *recognized, part=1).x_adv
    again, restarted = (
        attack(wavy, *recognized, part=part).x_adv for part in (1, 3)
    )
    np.testing.assert_array_equal(again, first)
    assert np.abs(restarted - first).max() > 1e-3


def test_epsilon_zero_gives_the_image_back(recipe, wavy, recognized):
    x_adv = recipe(0.0, num_steps=5)(wavy, *recognized).x_adv
    np.testing.assert_array_equal(x_adv, recognized[0])


def test_more_steps_never_lower_the_success(recipe, wavy, recognized):
    x, y = recognized
    counts = [
        wrong(wavy, recipe(0.05, num_steps=steps)(wavy, x, y).x_adv, y).sum()
        for steps in (1, 5, 100)
    ]
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1] < len(y)


def test_breaks_more_than_as_many_plain_steps(wavy, recognized):
    x, y = recognized
    plain, auto, targeted = (
        wrong(wavy, attack(wavy, x, y).x_adv, y).sum()
        for attack in (
            attacks.pgd(0.05, num_steps=50),
            apgd_ce(0.05, num_steps=50),
            apgd_t(0.05, num_steps=50),
        )
    )
    assert plain < auto < targeted


def test_the_ratio_breaks_a_classifier_too_sure_for_cross_entropy(
    wavy, recognized
):
    x, y = recognized
    sure = keras.Sequential([wavy, keras.layers.Rescaling(1e4)])

    def success(classifier, recipe):
        attack = recipe(0.05, num_steps=25)
        return wrong(classifier, attack(classifier, x, y).x_adv, y).mean()

    # The cross-entropy has no slope in float32 there, and finds next to
    # nothing that its random start does not.
    assert success(sure, apgd_ce) < 0.2
    assert success(sure, apgd_dlr) > 0.7
    assert success(sure, apgd_t) == success(wavy, apgd_t) > 0.8


@pytest.mark.parametrize("jit_compile", [False, True])
def test_each_step_runs_the_classifier_once(convolutional, images, jit_compile):
    attack = apgd_t(EPSILON, num_steps=7)

    kinds = kinds_of_solving(attack, convolutional, images, jit_compile)
    # Two layers, for the clean image and for the one step of the loop.
    assert kinds.count("Conv2D") == 4
    assert kinds.count("Conv2DBackpropInput") == 2
    assert kinds.count("Conv2DBackpropFilter") == 0


def test_describes_itself_in_full():
    assert repr(apgd_t(8 / 255, num_steps=50, num_targets=4)) == (
        "<APGD-T: Linf(epsilon=0.0313725, bounds=(0.0, 1.0)), "
        "targeted_dlr_of, num_steps=50, num_targets=4>"
    )
    assert repr(apgd_ce(Linf(0.5, (-1, 1)))) == (
        "<APGD-CE: Linf(epsilon=0.5, bounds=(-1.0, 1.0)), "
        "cross_entropy_of, num_steps=100>"
    )
    assert apgd_dlr(0.1).name == "APGD-DLR"


@pytest.mark.parametrize("key", ["num_steps", "num_targets"])
@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_refuses_numbers_that_make_no_sense(key, value):
    with pytest.raises(ValueError, match=f"`{key}` must be.*Received: {key}="):
        apgd_t(EPSILON, **{key: value})


def test_one_logit_is_attacked_as_two():
    x, y = random_images(2), np.array([0, 1], "int32")
    attack = apgd_ce(EPSILON, num_steps=3)
    one, two = (attack(model, x, y).x_adv for model in make_binary())
    np.testing.assert_allclose(one, two, atol=1e-6)
