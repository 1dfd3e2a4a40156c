"""Choices of the paper's released code, beside NumPy in float64.

Each computation here is written from what that code does, without PyTorch and
without a line of this package: gradients are closed forms of small models.
"""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from adt_tf import attacks, methods, networks, objectives, seeds
from adt_tf.distributions import TanhGaussian
from adt_tf.objectives.features import PooledFeatureMap
from adt_tf.threat_models import Linf
from tests.support.models import make_convolutional, make_linear

EPSILON = 8 / 255


def softmax(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def linear_slope(classifier, x, y):
    """The gradient at each image of its own cross-entropy."""
    kernel, bias = (np.float64(w) for w in classifier.get_weights())
    logits = x.reshape(len(x), -1) @ kernel + bias
    slope = (softmax(logits) - np.eye(len(bias))[y]) @ kernel.T
    return slope.reshape(x.shape)


# The inner loop of ADT-EXP.


def released_adt_exp(slope_at, x, noise, *, step_size=0.3, entropy_weight=0.01):
    """Adam with betas 0 on the batch's mean, gradients never set to zero.

    Args:
        slope_at: The gradient of each example's loss, at images.
        x: Images.
        noise: [steps, batch, samples, ...].
    """
    mu, rho = np.zeros_like(x), np.zeros_like(x)
    sums = [np.zeros_like(x), np.zeros_like(x)]
    for of_step in noise:
        for r in np.moveaxis(of_step, 1, 0):
            sigma = np.log1p(np.exp(rho))
            a = np.tanh(mu + r * sigma)
            slack = 1 - a**2
            loss = slope_at(np.clip(x + EPSILON * a, 0, 1)) / len(x)
            entropy = -2 * a / (slack + 1e-8) / x.size
            d_u = (EPSILON * loss + entropy_weight * entropy) * slack
            d_sigma = d_u * r + entropy_weight / (sigma + 1e-8) / x.size
            sums[0] += d_u
            sums[1] += d_sigma / (1 + np.exp(-rho))
        mu += step_size * sums[0] / (np.abs(sums[0]) + 1e-8)
        rho += step_size * sums[1] / (np.abs(sums[1]) + 1e-8)
    return mu, rho


@pytest.fixture(scope="module")
def released_climb():
    """A linear classifier on 32 x 32 images, and the end of their loop."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0.1, 0.9, size=(16, 32, 32, 3))
    y = generator.integers(0, 10, 16)
    classifier = make_linear((32, 32, 3), 10)
    # A slope of a pixel of the order of 1e-3, as a trained network has it.
    classifier.set_weights([0.003 * w for w in classifier.get_weights()])
    seed = seeds.make(5)
    family = TanhGaussian(Linf(EPSILON))
    images = tf.constant(x, tf.float32)
    noise = [family.noise(images, 5, seeds.fold(seed, t)) for t in range(7)]
    ends = released_adt_exp(
        lambda images: linear_slope(classifier, images, y),
        x,
        np.float64(tf.stack(noise)),
    )
    labels = tf.constant(y, tf.int32)

    def apart(attack):
        """The share of mu and of rho that lies more than 1e-3 away."""
        params = attack.solve(classifier, images, labels, seed=seed)
        return [
            float(np.mean(np.abs(params[name].numpy() - end) > 1e-3))
            for name, end in zip(("mu", "rho"), ends, strict=True)
        ]

    return apart


def test_adam_epsilon_is_that_of_the_batchs_mean(released_climb):
    arguments = {"gradient_decay": 1.0}
    plain = methods.adt_exp(EPSILON, **arguments).attack
    factor = methods.adt_exp(
        EPSILON, adam_epsilon=1e-8 * 16 / 5, **arguments
    ).attack
    before, after = released_climb(plain), released_climb(factor)
    print(f"\nmu and rho more than 1e-3 away: {before}, then {after}")
    assert min(before) > 0.2
    assert max(after) < 0.01


def test_our_default_of_adams_epsilon_does_not_know_the_batch(images):
    x, y = map(tf.constant, images)
    attack = methods.adt_exp(EPSILON).attack
    classifier = make_convolutional()
    whole = attack.solve(classifier, x, y, seed=seeds.make(0))
    part = attack.solve(classifier, x[2:5], y[2:5], seed=seeds.make(0))
    for name, tensor in whole.items():
        apart = np.abs(tensor[2:5] - part[name]) > 1e-3
        assert apart.mean() < 0.02


# The attacks of the evaluation.


def released_mim(slope_at, x, start, num_steps, step_size):
    x_adv, momentum = start, np.zeros_like(x)
    for _ in range(num_steps):
        slope = slope_at(x_adv)
        momentum += slope / np.abs(slope).mean(axis=(1, 2, 3), keepdims=True)
        x_adv = x_adv + step_size * np.sign(momentum)
        x_adv = np.clip(x_adv, x - EPSILON, x + EPSILON)
        x_adv = np.clip(x_adv, 0, 1)
    return x_adv


def test_mim_starts_at_random_and_gives_the_last_iterate():
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(20, 8, 8, 1)).astype("float32")
    classifier = make_linear((8, 8, 1), 10)
    y = classifier.predict(x, verbose=0).argmax(-1).astype("int32")
    attack = attacks.get("mim-random-last-5", EPSILON)
    seed = seeds.make(3)
    start = attack.family.init(tf.constant(x), seeds.fold(seed, -2)).numpy()
    assert 0.9 * EPSILON < np.abs(start - x).max() <= 1.001 * EPSILON
    expected = released_mim(
        lambda images: linear_slope(classifier, images, y),
        np.float64(x),
        np.float64(start),
        5,
        EPSILON / 4,
    )
    end = attack.solve(classifier, tf.constant(x), tf.constant(y), seed=seed)
    np.testing.assert_allclose(end, expected, atol=1e-6)
    usual = attacks.get("mim-5", EPSILON)
    end = usual.solve(classifier, tf.constant(x), tf.constant(y), seed=seed)
    assert np.abs(end.numpy() - expected).max() > EPSILON / 2


@pytest.mark.parametrize("name", ["pgd", "mim", "cw"])
def test_last_iterate_is_where_the_climb_ends(name, images):
    """Or the clean image, where that is the stronger one."""
    x, y = images
    classifier = make_convolutional()
    recipe = getattr(attacks, name)
    attack = recipe(0.3, num_steps=3, step_size=0.3, last_iterate=True)
    seed = seeds.make(0)
    end = attack.solve(
        classifier, tf.constant(x), tf.constant(y), seed=seeds.fold(seed, 0)
    ).numpy()
    found = attack(classifier, x, y, seed=seed, jit_compile=False).x_adv
    is_end = np.isclose(found, end, atol=1e-6).all(axis=(1, 2, 3))
    is_clean = np.isclose(found, x, atol=1e-6).all(axis=(1, 2, 3))
    assert (is_end | is_clean).all() and is_end.any()
    best = recipe(0.3, num_steps=3, step_size=0.3)(
        classifier, x, y, seed=seed, jit_compile=False
    ).x_adv
    losses = [
        keras.losses.sparse_categorical_crossentropy(
            y, classifier(images), from_logits=True
        ).numpy()
        for images in (found, best)
    ]
    wrong = [
        classifier(images).numpy().argmax(-1) != y for images in (found, best)
    ]
    assert (wrong[1] >= wrong[0]).all()
    assert (losses[1] >= losses[0] - 1e-5)[wrong[0] == wrong[1]].all()


def make_with_pooling():
    """Images -> 1x1 convolution, ReLU -> mean over positions -> logits."""
    images = keras.Input((4, 4, 2))
    x = keras.layers.Conv2D(5, 1, activation="relu", name="features")(images)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(images, keras.layers.Dense(3)(x))
    generator = np.random.default_rng(0)
    model.set_weights(
        [generator.normal(size=w.shape) for w in model.get_weights()]
    )
    return model


def test_fea_attack_after_the_pooling():
    """The cosine of the features' means over all positions."""
    classifier = make_with_pooling()
    kernel, bias = (np.float64(w) for w in classifier.layers[1].get_weights())
    generator = np.random.default_rng(1)
    x = generator.uniform(size=(6, 4, 4, 2)).astype("float32")
    x_adv = generator.uniform(size=(6, 3, 4, 4, 2)).astype("float32")
    target = generator.uniform(size=(1, 4, 4, 2)).astype("float32")
    y = np.zeros(6, "int32")
    targets = (target, np.array([1], "int32"))

    def features(images):
        return np.maximum(images @ kernel[0, 0] + bias, 0)

    def cosine(one, other):
        norms = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
        return (one * other).sum(-1) / norms

    pooled = cosine(
        features(x_adv).mean(axis=(2, 3)), features(target).mean(axis=(1, 2))
    )
    whole = cosine(
        features(x_adv).reshape(6, 3, -1), features(target).reshape(1, 1, -1)
    )
    for objective, expected in (
        (objectives.pooled_feature_similarity, pooled),
        (objectives.feature_similarity, whole),
    ):
        value = objective(targets)(
            classifier, tf.constant(x), tf.constant(y), seed=seeds.make(0)
        )
        values, logits = value(tf.constant(x_adv))
        np.testing.assert_allclose(values, expected, atol=1e-6)
        flat = classifier(x_adv.reshape(-1, 4, 4, 2))
        np.testing.assert_allclose(
            logits, tf.reshape(flat, [6, 3, 3]), atol=1e-6
        )
    assert np.abs(pooled - whole).max() > 0.05
    attack = attacks.fea(
        0.1, targets=targets, num_targets=2, num_steps=3, features="pooled"
    )
    attack.check(classifier)
    attack.threat_model.check(x, attack(classifier, x, y).x_adv)
    assert "pooled_feature_similarity" in repr(attack)


def test_pooled_features_of_a_wide_resnet_are_those_before_its_logits():
    classifier = networks.get("wrn-10-1", input_shape=(8, 8, 3))
    x = np.random.default_rng(0).uniform(size=(3, 8, 8, 3)).astype("float32")
    both = PooledFeatureMap().extractor(classifier)
    features, logits = both(x, training=False)
    kernel, bias = classifier.get_layer("logits").get_weights()
    np.testing.assert_allclose(features @ kernel + bias, logits, atol=1e-5)


def test_unknown_features_are_refused():
    targets = (np.zeros([1, 4, 4, 1]), np.zeros([1], "int32"))
    with pytest.raises(ValueError, match="'map', 'pooled' or 'logits'"):
        attacks.fea(0.1, targets=targets, features="mean")


# The entropy of Figure 1.


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_entropy_of_the_gaussian_before_tanh(reduction):
    generator = np.random.default_rng(0)
    x = tf.fill([3, 4, 4, 2], 0.5)
    mu, rho = generator.normal(size=(2, *x.shape))
    family = TanhGaussian(
        Linf(EPSILON), entropy="gaussian", entropy_reduction=reduction
    )
    params = {
        "mu": tf.constant(mu, tf.float32),
        "rho": tf.constant(rho, tf.float32),
    }
    noise = family.noise(x, 5, seeds.make(0))
    with tf.GradientTape() as tape:
        tape.watch(params)
        x_adv, entropy = family.sample(x, params, noise)
        total = tf.reduce_sum(entropy)
    slopes = tape.gradient(
        total, params, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    sigma = np.log1p(np.exp(rho))
    reduce = {"mean": np.mean, "sum": np.sum}[reduction]
    expected = reduce(scipy.stats.norm.entropy(0, sigma), axis=(1, 2, 3))
    np.testing.assert_allclose(
        entropy, np.tile(expected[:, None], 5), rtol=1e-5
    )
    # d log softplus(rho) = sigmoid(rho) / softplus(rho), for each sample.
    slope = 5 / (1 + np.exp(-rho)) / sigma / (32 if reduction == "mean" else 1)
    np.testing.assert_allclose(slopes["rho"], slope, rtol=1e-4)
    np.testing.assert_array_equal(slopes["mu"], 0)
    usual = TanhGaussian(Linf(EPSILON), entropy_reduction=reduction)
    np.testing.assert_allclose(
        usual.sample(x, params, noise)[0], x_adv, atol=1e-7
    )


def test_which_entropy_is_climbed_decides_how_wide_it_ends():
    """Without a loss, Eq. 11's has a maximum in sigma and the other none.

    The entropy of tanh(N(0, sigma)) by quadrature, beside which both climbs
    are measured.
    """

    def squashed_entropy(sigma):
        u, weight = np.polynomial.hermite_e.hermegauss(200)
        weight = weight / weight.sum()
        log_det = 2 * np.log(1 / np.cosh(sigma * u))
        return np.log(sigma) + (weight * log_det).sum()

    grid = np.linspace(0.3, 3, 271)
    best = grid[np.argmax([squashed_entropy(s) for s in grid])]

    class Flat:
        def __call__(self, x, training=False):
            return 0.0 * tf.reshape(x, [-1, 16])[:, :10]

    x = np.full([8, 4, 4, 1], 0.5, "float32")
    y = np.zeros(8, "int32")
    sigmas = []
    for entropy in ("perturbation", "gaussian"):
        attack = attacks.exp(
            EPSILON,
            num_steps=30,
            num_samples=50,
            step_size=0.1,
            entropy_weight=1.0,
            entropy=entropy,
        )
        params = attack.solve(
            Flat(), *map(tf.constant, (x, y)), seed=seeds.make(0)
        )
        sigmas.append(tf.nn.softplus(params["rho"]).numpy())
    assert abs(np.median(sigmas[0]) - best) < 0.15
    # Every step is a whole one: rho ends at 30 * 0.1.
    np.testing.assert_allclose(sigmas[1], np.log1p(np.exp(3.0)), rtol=1e-3)


def test_an_unknown_entropy_is_refused():
    with pytest.raises(ValueError, match="'gaussian', 'perturbation'"):
        TanhGaussian(Linf(0.1), entropy="differential")
