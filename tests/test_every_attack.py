"""One table of attacks drives every property that all of them share."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, configs, seeds
from adt_tf.threat_models import L2
from tests.support import graphs
from tests.support.models import make_convolutional, make_linear, predicted
from tests.support.tables import (
    ATTACKS,
    CLIMBING,
    GROWING,
    STRONG,
    THREAT_MODELS,
    make_attack,
    targets,
)

EPSILON = 0.1


def make(name, ball):
    return make_attack(name, ball, many=True)


@functools.cache
def built(name, ball="Linf"):
    """An attack that all tests share, so that it is traced once for them."""
    return make(name, THREAT_MODELS[ball])


def pairs(names, is_slow):
    """Returns (attack, norm) pairs, some of them as slow tests."""
    return [
        pytest.param(
            (name, ball), marks=[pytest.mark.slow] * is_slow(name, ball)
        )
        for ball in THREAT_MODELS
        for name in names
    ]


def in_every_norm(names):
    """A variant of an attack in the second norm is a slow test."""
    return pairs(names, lambda name, ball: " " in name and ball != "Linf")


def compiled():
    """XLA takes seconds an attack: only plain ones in one norm are fast."""
    return pairs(STRONG, lambda name, ball: " " in name or ball != "Linf")


def label(pair):
    return f"{pair[1]}-{pair[0]}"


@pytest.fixture(scope="module", params=in_every_norm(STRONG), ids=label)
def attack(request):
    return built(*request.param)


@pytest.fixture(scope="module", params=in_every_norm(CLIMBING), ids=label)
def gradient_attack(request):
    return built(*request.param)


@pytest.fixture(scope="module")
def convolutional():
    """One classifier for all attacks, which leave it as it is."""
    return make_convolutional()


def radius(attack):
    return attack.threat_model.epsilon


def lengths(attack, delta):
    """The norm of each perturbation, by NumPy."""
    order = 2 if isinstance(attack.threat_model, L2) else np.inf
    flat = np.reshape(delta, [-1, np.prod(np.shape(delta)[-3:])])
    return np.linalg.norm(flat.astype("float64"), order, axis=-1)


def losses(classifier, x, y):
    logits = classifier(x, training=False)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits).numpy()


def assert_alike(classifier, y, one, other, share):
    """The same images, but for few that part, whose verdicts are the same.

    Convolutions of other batch sizes round differently, which may flip the
    sign of a gradient that is zero to rounding, or a decision of APGD.
    """
    close = np.isclose(one, other, atol=1e-4)
    if close.mean() > share:
        return
    parted = ~close.reshape(len(one), -1).all(axis=-1)
    assert parted.mean() < 0.5
    wrong = [predicted(classifier, x_adv) != y for x_adv in (one, other)]
    np.testing.assert_array_equal(*wrong)


def test_stays_in_the_ball_and_the_box(attack, convolutional, images):
    x, y = images
    x = np.round(x)  # every pixel at a bound of the box
    x_adv = attack(convolutional, x, y).x_adv.numpy()
    assert lengths(attack, x_adv - x).max() <= radius(attack) * (1 + 1e-5)
    assert x_adv.min() >= 0 and x_adv.max() <= 1
    attack.threat_model.check(x, x_adv)


def test_never_lowers_the_loss(attack, convolutional, images):
    x, y = images
    # A misclassified image may have less loss than the clean one: it counts.
    seen = predicted(convolutional, x)
    for labels in (y, seen):
        x_adv = attack(convolutional, x, labels).x_adv
        clean, attacked = (
            losses(convolutional, images, labels) for images in (x, x_adv)
        )
        found = predicted(convolutional, x_adv)
        fooled = (found != labels) & (seen == labels)
        assert ((attacked >= clean - 1e-5) | fooled).all()


def test_raises_the_loss(gradient_attack, convolutional, images):
    x, y = images
    x_adv = gradient_attack(convolutional, x, y).x_adv
    clean, attacked = (losses(convolutional, part, y) for part in (x, x_adv))
    assert attacked.mean() > clean.mean() + 0.05


@pytest.mark.parametrize("ball", THREAT_MODELS)
def test_epsilon_0_is_the_identity(ball, convolutional, images):
    nothing = THREAT_MODELS[ball].with_epsilon(0.0)
    for name in STRONG:
        attack = make_attack(name, nothing)
        with graphs.run_eagerly():
            x_adv = attack(convolutional, *images).x_adv
        np.testing.assert_array_equal(x_adv, images[0], err_msg=name)


@pytest.mark.parametrize("ball", THREAT_MODELS)
@pytest.mark.parametrize("name", ["pgd", "mim", "cw"])
def test_more_steps_never_help_the_defender(name, ball, convolutional, images):
    """The steps of the shorter attack are the first ones of the longer."""
    x, y = images
    recipe, threat_model = getattr(attacks, name), THREAT_MODELS[ball]
    few, many = (
        recipe(threat_model, num_steps=num_steps, step_size=0.02)
        for num_steps in (2, 6)
    )
    objective = many.objective(
        convolutional, tf.constant(x), tf.constant(y), seed=seeds.make(0)
    )
    values = [
        objective(attack(convolutional, x, y).x_adv[:, tf.newaxis])[0].numpy()
        for attack in (few, many)
    ]
    assert (values[1] >= values[0] - 1e-6).all()
    assert values[1].sum() > values[0].sum()


@pytest.mark.parametrize("ball", THREAT_MODELS)
@pytest.mark.parametrize("name", GROWING)
def test_a_longer_attack_fools_no_fewer_images(
    name, ball, convolutional, images
):
    x, _ = images
    y = predicted(convolutional, x)
    threat_model = THREAT_MODELS[ball].scaled(0.3)
    wrong = []
    for number in (1, 4):
        attack = make_attack(
            name, threat_model, **{ATTACKS[name].grows: number}
        )
        with graphs.run_eagerly():
            x_adv = attack(convolutional, x, y).x_adv
        wrong.append(predicted(convolutional, x_adv) != y)
    assert (wrong[1] >= wrong[0]).all()


def test_what_is_already_wrong_stays_wrong(attack, convolutional, images):
    x, _ = images
    seen = predicted(convolutional, x)
    wrong = ((seen + 1) % 10).astype("int32")
    x_adv = attack(convolutional, x, wrong).x_adv
    again = predicted(convolutional, x_adv)
    assert (again != wrong).all()


def test_same_seed_same_bits(attack, convolutional, images):
    first = attack(convolutional, *images, seed=1)
    again = attack(convolutional, *images, seed=1)
    np.testing.assert_array_equal(first.x_adv, again.x_adv)
    np.testing.assert_array_equal(first.entropy, again.entropy)


def test_result_does_not_depend_on_the_batch(attack, convolutional, images):
    x, y = images
    whole = attack(convolutional, x, y, seed=1).x_adv.numpy()
    order = np.array([7, 2, 9])
    part = attack(convolutional, x[order], y[order], seed=1).x_adv.numpy()
    assert_alike(convolutional, y[order], part, whole[order], 0.99)


@pytest.mark.parametrize("pair", compiled(), ids=label)
def test_xla_and_graph_agree(pair, convolutional, images):
    attack = built(*pair)
    plain, by_xla = (
        attack(convolutional, *images, jit_compile=jit_compile).x_adv.numpy()
        for jit_compile in (False, True)
    )
    assert_alike(convolutional, images[1], by_xla, plain, 0.98)


def test_classifier_is_untouched(attack, convolutional, images):
    before = convolutional.get_weights()
    attack(convolutional, *images)
    for old, new in zip(before, convolutional.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_reaches_the_closed_form_on_a_linear_classifier(gradient_attack):
    """With two classes the most to gain is epsilon times the dual norm.

    Of the difference of the weights, where the box is out of reach.
    """
    attack, epsilon = gradient_attack, radius(gradient_attack)
    classifier = make_linear(num_classes=2)
    generator = np.random.default_rng(3)
    x = 0.5 + generator.uniform(-0.02, 0.02, size=(20, 4, 4, 1))
    x = x.astype("float32")
    y = generator.integers(0, 2, 20).astype("int32")
    kernel, _ = classifier.get_weights()
    towards = kernel[:, 1] - kernel[:, 0]
    dual = 2 if isinstance(attack.threat_model, L2) else 1
    most = epsilon * np.linalg.norm(towards, dual)
    x_adv = attack(classifier, x, y).x_adv.numpy()
    gain = (x_adv - x).reshape(20, -1) @ towards
    reached = np.where(y == 0, gain, -gain) / most
    # A squashed Gaussian has its mass close to the surface, not on it.
    floor = 0.97 if attack.name.startswith("EXP") else 0.999
    assert reached.min() > floor
    assert reached.max() < 1.0001


def test_spsa_reaches_the_closed_form_on_a_linear_classifier():
    # It stops at a misclassified image, so only one that cannot be had shows
    # how far the climb goes: here class 0 is ahead by 100.
    classifier = make_linear(num_classes=2)
    kernel, _ = classifier.get_weights()
    classifier.set_weights([kernel, np.array([100.0, 0.0])])
    x = np.random.default_rng(3).uniform(size=(20, 4, 4, 1)).astype("float32")
    y = np.zeros(20, "int32")
    towards = (kernel[:, 1] - kernel[:, 0]).reshape(4, 4, 1)
    best = np.clip(x + EPSILON * np.sign(towards), 0, 1)
    attack = attacks.spsa(EPSILON, num_samples=512, num_steps=60)
    x_adv = attack(classifier, x, y).x_adv.numpy()
    gain = np.sum((x_adv - x) * towards, axis=(1, 2, 3))
    assert (gain / np.sum((best - x) * towards, axis=(1, 2, 3))).min() > 0.999


def test_fea_reaches_the_closed_form_on_linear_features():
    # The features are the pixels. Where a box [low, high] limits x, the cosine
    # with t is largest at clip(s t, low, high) for some s: inside of the box
    # its gradient is zero only where x is in the direction of t.
    classifier = make_linear(num_classes=2)
    kernel, _ = classifier.get_weights()
    classifier.set_weights([kernel, np.array([100.0, 0.0])])
    generator = np.random.default_rng(3)
    x = generator.uniform(0.2, 0.8, size=(20, 4, 4, 1)).astype("float32")
    target = generator.uniform(0.2, 0.8, size=(1, 4, 4, 1)).astype("float32")
    attack = attacks.fea(
        EPSILON, targets=(target, np.array([1])), num_targets=1
    )
    y = np.zeros(20, "int32")
    delta = attack.distribution(classifier, x, y).mean().numpy()

    def cosine(images):
        one, other = images.reshape(len(images), -1), target.reshape(-1)
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other)
        return one @ other / norms

    scales = np.linspace(0, 5, 2001)
    low, high = np.maximum(x - EPSILON, 0), np.minimum(x + EPSILON, 1)
    best = np.max(
        [cosine(np.clip(s * target, low, high)) for s in scales], axis=0
    )
    reached = (cosine(x + delta) - cosine(x)) / (best - cosine(x))
    # Steps of epsilon / 8 go to and fro about a point inside of the box.
    assert reached.min() > 0.95 and reached.max() < 1.0001


@pytest.mark.parametrize("name", [*CLIMBING, "fab_t"])
def test_a_slope_that_is_no_number_is_taken_for_zero(name, images):
    # The slope of sqrt(x^2) is NaN at 0, where one pixel of each image is.
    attack = built(name)
    classifier = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Lambda(lambda t: tf.sqrt(tf.square(t))),
            make_convolutional(),
        ]
    )
    x, _ = images
    x = x.copy()
    x[:, 0, 0] = 0.0
    y = predicted(classifier, x)
    x_adv = attack(classifier, x, y, part=0).x_adv
    attack.threat_model.check(x, x_adv)
    assert (predicted(classifier, x_adv) != y).any()


@pytest.mark.parametrize("name", ["apgd_ce", "exp_am", "fab_t"])
def test_without_gradients_an_attack_is_blind_not_broken(name, images):
    """An image stays or goes to its random start, whatever the classifier."""
    x, _ = images
    attack = built(name)
    seeing = make_convolutional()
    blind = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Lambda(lambda t: tf.round(4 * t) / 4),
            make_convolutional(),
        ]
    )

    def is_led(classifier):
        """Whether other weights lead the attack to other places."""
        deltas = []
        for seed in (0, 1):
            classifier.set_weights(make_convolutional(seed).get_weights())
            y = np.argmax(classifier(x), axis=-1).astype("int32")
            p = attack.distribution(classifier, x, y)
            deltas.append(p.sample(seed=tf.constant([0, 1])).numpy())
        return [
            one.any() and other.any() and (one != other).any()
            for one, other in zip(*deltas, strict=True)
        ]

    assert not any(is_led(blind))
    assert all(is_led(seeing))
    y = np.argmax(blind(x), axis=-1).astype("int32")
    attack.threat_model.check(x, attack(blind, x, y).x_adv)


def test_returns_a_tfp_distribution(attack, convolutional, images):
    if attack.name.startswith("IMP-AM"):
        with pytest.raises(ValueError, match="has no density"):
            attack.distribution(convolutional, *images)
        return
    p = attack.distribution(convolutional, *images)
    samples = p.sample(3, seed=1)
    assert samples.shape == (3, 12, 8, 8, 1)
    assert lengths(attack, samples).max() <= radius(attack) * (1 + 1e-5)
    assert p.log_prob(samples).shape == (3, 12)


def test_names_resolve():
    expected = {
        "fgsm": "FGSM",
        "pgd-20": "PGD-20",
        "PGD-100": "PGD-100",
        "pgd-20x10": "PGD-20 x10",
        "mim-20": "MIM-20",
        "mim-random-20": "MIM-20 (random start)",
        "mim-random-last-20x2": "MIM-20 (random start, last) x2",
        "pgd-last-100": "PGD-100 (last)",
        "cw-last": "C&W-30 (last)",
        "cw-30": "C&W-30",
        "exp": "EXP-20",
        "spsa-512": "SPSA-512",
        "apgd-ce": "APGD-CE",
        "apgd-dlr-50": "APGD-DLR",
        "apgd-t": "APGD-T",
        "fab-t": "FAB-T",
        "square": "Square",
        "fea-100": "Fea-50x100",
        "fea-pooled": "Fea-50x200 (pooled)",
        "exp-am": "EXP-AM",
        "imp-am": "IMP-AM",
    }
    context = {
        "targets": targets((8, 8, 1), 10),
        "input_shape": (8, 8, 1),
        "width_factor": 0.03125,
    }
    found = {n: attacks.get(n, EPSILON, **context).name for n in expected}
    assert found == expected


@pytest.mark.parametrize(
    "name", ["fgsm-last", "pgd-random", "mim-pooled-20", "fea-last-5"]
)
def test_a_form_that_an_attack_does_not_have_is_refused(name):
    with pytest.raises(ValueError, match="has no form.*Received: name="):
        attacks.get(name, EPSILON, targets=targets((8, 8, 1), 10))


@pytest.mark.parametrize("name", ["last", "pgd-first", "pgd-20-last", "mim-"])
def test_names_of_no_attack_are_refused(name):
    with pytest.raises(ValueError, match="Argument `name` must be one of"):
        attacks.get(name, EPSILON)


def test_fea_takes_logits_where_there_is_no_feature_map(convolutional, images):
    x, _ = images
    y = predicted(convolutional, x)

    def bare(x, training):
        return convolutional(x, training=training)

    pool = targets((8, 8, 1), 10)
    plain, on_logits = (
        attacks.fea(EPSILON, targets=pool, num_targets=3, features=features)
        for features in ("map", "logits")
    )
    with pytest.raises(ValueError, match='features="logits"'):
        adt_tf.evaluate(bare, (x, y), [attacks.fgsm(EPSILON), plain])
    assert "logit_similarity" in repr(on_logits)
    assert on_logits.name == "Fea-50x3 (logits)"
    report = adt_tf.evaluate(bare, (x, y), [on_logits], verbose=False)
    assert report.robust_accuracy < 1


def test_different_attacks_are_told_apart():
    pool = targets((8, 8, 1), 10)
    shape = {"input_shape": (8, 8, 1), "width_factor": 0.03125}
    pairs = [
        (attacks.mim(0.1), attacks.mim(0.1, random_start=True)),
        (
            attacks.exp(0.1, entropy_weight=1.0),
            attacks.exp(0.1, entropy_weight=1.0, entropy_reduction="sum"),
        ),
        *(
            (
                recipe(0.1, **shape),
                recipe(0.1, entropy_reduction="sum", **shape),
            )
            for recipe in (attacks.exp_am, attacks.imp_am)
        ),
        (
            attacks.fea(0.1, targets=pool),
            attacks.fea(0.1, targets=(pool[0][::-1], pool[1])),
        ),
        (
            attacks.fea(0.1, targets=pool),
            attacks.fea(0.1, targets=pool, features="pooled"),
        ),
        (attacks.pgd(0.1), attacks.pgd(0.1, last_iterate=True)),
        (attacks.exp(0.1), attacks.exp(0.1, adam_epsilon=1.28e-7)),
        *(
            (recipe(0.1, **more), recipe(0.1, entropy="gaussian", **more))
            for recipe, more in ((attacks.exp, {}), (attacks.exp_am, shape))
        ),
        (
            attacks.l2l(0.1, **shape),
            attacks.l2l(0.1, gradient_scale=1 / 64, **shape),
        ),
    ]
    for one, other in pairs:
        assert configs.fingerprint(one) != configs.fingerprint(other)
    # Those that are stored in results stay as they are.
    assert repr(attacks.mim(0.1)).startswith("<MIM-20: Dirac in ")


def test_autoattack_has_its_four_parts():
    parts = [(a.name, a.num_parts) for a in attacks.autoattack(EPSILON)]
    expected = [("APGD-CE", 1), ("APGD-T", 9), ("FAB-T", 9), ("Square", 1)]
    assert parts == expected


def test_more_parts_never_help_the_defender(convolutional, images):
    x, y = images
    one, ten = attacks.pgd(0.02), attacks.Restarts(attacks.pgd(0.02), 4)
    first = losses(convolutional, one(convolutional, x, y).x_adv, y)
    best = losses(convolutional, ten(convolutional, x, y).x_adv, y)
    assert (best >= first - 1e-6).all() and best.sum() > first.sum()
    again = ten(convolutional, x, y, part=0).x_adv
    np.testing.assert_array_equal(again, one(convolutional, x, y).x_adv)
