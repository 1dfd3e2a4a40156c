import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, losses, methods, seeds
from adt_tf.data import ImageData
from adt_tf.distributions import Implicit
from adt_tf.runs import generators
from adt_tf.threat_models import Linf
from adt_tf.training import trainer as trainer_module
from tests.support.graphs import reachable_kinds
from tests.support.models import make_convolutional, make_linear, predicted

EPSILON = 0.1
SMALL = {"input_shape": (8, 8, 1), "width_factor": 1 / 32}
AMORTIZED = {
    "exp_am": attacks.exp_am,
    "imp_am": attacks.imp_am,
    "l2l": attacks.l2l,
}


def make_trainer(attack, classifier=None, rate=0.0, attack_rate=0.0, **more):
    trainer = adt_tf.AdversarialTrainer(
        classifier or make_convolutional(), attack, losses.cross_entropy, **more
    )
    trainer.compile(
        keras.optimizers.SGD(rate),
        attack_optimizer=keras.optimizers.SGD(attack_rate),
    )
    return trainer


def weights_of(models):
    return [w for model in models for w in model.get_weights()]


@pytest.mark.parametrize("name", AMORTIZED)
def test_one_pass_of_the_classifier_serves_both(name, images):
    """Counts the convolutions that a whole train_step needs."""
    attack = AMORTIZED[name](EPSILON, **SMALL)
    trainer = make_trainer(attack, rate=0.1, attack_rate=0.1)
    x, y = map(tf.constant, images)
    trainer.train_on_batch(x, y)  # makes the optimisers' variables
    kinds = reachable_kinds(
        tf.function(
            lambda x, y: trainer.train_step((x, y)), autograph=False
        ).get_concrete_function(x, y)
    )
    own = sum(
        isinstance(layer, keras.layers.Conv2D)
        for network in attack.networks
        for layer in network.layers
    )
    # Two convolutions in the classifier, run for g1, for g2 and in the outer
    # step; each run has one backward pass to its input, the outer one alone
    # has one to the weights.
    assert kinds.count("Conv2D") == 3 * 2 + own
    assert kinds.count("Conv2DBackpropFilter") == 2 + own


@pytest.mark.parametrize("name", AMORTIZED)
def test_networks_ascend_the_scalar(name, images):
    """One SGD step moves them by +rate times the slope of S."""
    attack = AMORTIZED[name](EPSILON, **SMALL)
    if name != "l2l":
        attack.entropy_weight = 0.5
    trainer = make_trainer(attack, attack_rate=1e-3)
    x, y = map(tf.constant, images)
    seed = seeds.fold(seeds.fold(seeds.make(0), trainer_module._TRAIN), 0)
    solution = trainer._solve(trainer.attack, x, y, seed)

    def scalar():
        batch, outcome = trainer._outer(
            trainer.attack, x, y, solution, seed, training=True
        )
        return float(
            tf.reduce_mean(outcome.value) + tf.reduce_mean(batch.regularizer)
        )

    heads = [network.trainable_variables[-1] for network in attack.networks]
    starts = [head.numpy() for head in heads]
    trainer.train_on_batch(x, y)
    slopes = [
        (head.numpy() - start) / 1e-3
        for head, start in zip(heads, starts, strict=True)
    ]
    for head, start, slope in zip(heads, starts, slopes, strict=True):
        size = np.linalg.norm(slope)
        assert size > 1e-3
        ends = []
        for step in (2e-3, -2e-3):
            for other, value in zip(heads, starts, strict=True):
                other.assign(value)
            head.assign(start + step * slope / size)
            ends.append(scalar())
        measured = (ends[0] - ends[1]) / 4e-3
        np.testing.assert_allclose(measured, size, rtol=0.06)


@pytest.mark.parametrize("name", ["exp_am", "imp_am"])
def test_the_classifier_sees_no_entropy(name, images):
    ends = []
    for entropy_weight in (0.0, 10.0):
        attack = AMORTIZED[name](
            EPSILON, entropy_weight=entropy_weight, **SMALL
        )
        trainer = make_trainer(attack, rate=0.1)
        trainer.train_on_batch(*images)
        ends.append(trainer.classifier.get_weights())
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_hinge_of_the_released_code_is_of_the_batchs_mean(images):
    """relu(mean(-log q) - threshold), whatever single examples are."""
    x, y = map(tf.constant, images)
    paper = attacks.imp_am(EPSILON, **SMALL)
    solution = paper.solve(make_convolutional(), x, y, seed=seeds.make(0))
    arguments = {"num_samples": 2, "seed": seeds.make(0)}
    _, entropy, regularizer = paper.sample(x, solution, **arguments)
    np.testing.assert_allclose(regularizer, 0.01 * entropy, rtol=1e-6)
    entropy = entropy.numpy().astype("float64")
    # Between the least and the largest, the hinge of single examples would
    # differ from that of the mean.
    spread = np.quantile(-entropy, [0.25, 0.75]) + entropy.mean()
    assert spread[0] < 0 < spread[1]
    for threshold in (-entropy.mean() + spread).tolist() + [-9.0, 9.0]:
        hinge = attacks.imp_am(EPSILON, entropy_threshold=threshold, **SMALL)
        assert hinge.entropy_weight == 1
        released = hinge.sample(x, solution, **arguments).regularizer.numpy()
        np.testing.assert_allclose(
            released.mean(),
            -max((-entropy).mean() - threshold, 0),
            atol=1e-6,
        )


def hinge_slope(heads, z, threshold):
    """The slope of -relu(mean(-log q) - threshold), in NumPy.

    Returns the gradient in the bias of q's last layer: -d log q / d(mean, raw).
    """
    mean, raw = np.split(heads, 2, axis=-1)
    variance = np.log1p(np.exp(raw))
    log_q = -0.5 * np.log(2 * np.pi * variance) - (z - mean) ** 2 / 2 / variance
    if -log_q.mean() <= threshold:
        return np.zeros(heads.shape[-1])
    d_mean = (z - mean) / variance
    d_variance = ((z - mean) ** 2 / variance - 1) / 2 / variance
    d_raw = d_variance / (1 + np.exp(-raw))
    slopes = np.concatenate([d_mean, d_raw], axis=-1) / z.shape[-1]
    return slopes.mean(axis=0)


@pytest.mark.parametrize("push", [True, False])
def test_hinge_moves_the_posterior_as_computed_by_hand(push, images):
    """One step of SGD of a whole trainer against the closed form."""
    x, y = map(tf.constant, images)
    attack = attacks.imp_am(EPSILON, entropy_threshold=0.0, **SMALL)
    trainer = make_trainer(attack, attack_rate=1.0)
    generator, posterior = attack.networks
    seed = seeds.fold(seeds.fold(seeds.make(0), trainer_module._TRAIN), 0)
    solution = attack.solve(trainer.classifier, x, y, seed=seed)
    z = attack.family.noise(x, 1, seeds.fold(seed, trainer_module._SAMPLE))
    z = z.numpy()[:, 0].astype("float64")
    direction = generator([solution, tf.constant(z, tf.float32)], training=True)
    heads = posterior(direction, training=True).numpy().astype("float64")
    log_q = attack.sample(
        x,
        solution,
        num_samples=1,
        seed=seeds.fold(seed, trainer_module._SAMPLE),
        training=True,
    ).entropy.numpy()
    # Some examples are beyond the threshold, whatever the mean is.
    threshold = float(np.quantile(-log_q, 0.2 if push else 0.8))
    assert (-log_q.mean() > threshold) == push
    attack.entropy_threshold = threshold
    bias = posterior.layers[-1].bias
    before = bias.numpy()
    trainer.train_on_batch(x, y)
    np.testing.assert_allclose(
        bias.numpy() - before, hinge_slope(heads, z, threshold), atol=2e-6
    )


def test_hinge_says_that_it_couples_the_batch():
    for name, recipe in AMORTIZED.items():
        assert not recipe(EPSILON, **SMALL).couples_examples, name
    hinge = attacks.imp_am(EPSILON, entropy_threshold=0.9, **SMALL)
    assert hinge.couples_examples
    assert attacks.Restarts(hinge, 2).couples_examples
    assert "entropy_threshold=0.9 of the batch" in repr(hinge)


def test_bound_lies_below_the_true_entropy():
    """delta is epsilon or -epsilon by the sign of z, so H(delta) = log 2.

    H(z) = log 2, and the bound is E log q(z | delta) + H(z): log 2 for the
    true posterior, which is uniform on (0, 1) or (-1, 0), less for any other.
    """
    conditioning = keras.Input((2, 2, 3))
    z = keras.Input((1,))
    plane = keras.layers.Lambda(
        lambda inputs: keras.ops.broadcast_to(
            keras.ops.sign(inputs[1])[:, None, None],
            (keras.ops.shape(inputs[1])[0], 2, 2, 1),
        ),
        output_shape=(2, 2, 1),
    )([conditioning, z])
    generator = keras.Model([conditioning, z], plane)
    x = np.random.default_rng(0).uniform(size=(2000, 2, 2, 1))
    x = tf.constant(0.4 + 0.2 * x, tf.float32)

    def bound(slope, variance):
        direction = keras.Input((2, 2, 1))
        heads = keras.layers.Dense(2)(keras.layers.Flatten()(direction))
        posterior = keras.Model(direction, heads)
        raw = np.log(np.expm1(variance))  # undoes softplus
        posterior.set_weights(
            [np.array([[slope, 0.0]] + [[0.0, 0.0]] * 3), np.array([0.0, raw])]
        )
        family = Implicit(
            Linf(EPSILON),
            generator,
            posterior,
            latent_size=1,
            entropy_reduction="sum",
        )
        noise = family.noise(x, 5, seeds.make(0))
        x_adv, log_q = family.sample(x, tf.repeat(x, 3, axis=-1), noise)
        delta = np.unique(np.round((x_adv - x[:, None]).numpy(), 5))
        np.testing.assert_allclose(delta, [-EPSILON, EPSILON], atol=1e-5)
        return float(tf.reduce_mean(log_q)) + np.log(2)

    entropy = np.log(2)
    # The best Gaussian has mean +-1/2 and variance 1/12 and loses 0.176 nats.
    best = bound(0.5, 1 / 12)
    np.testing.assert_allclose(
        best, entropy - 0.5 * np.log(2 * np.pi * np.e / 12), atol=0.01
    )
    for slope, variance in ((0.0, 1 / 3), (0.5, 0.5), (-0.5, 1 / 12)):
        assert bound(slope, variance) < best < entropy


def test_l2l_is_imp_am_without_its_noise(images):
    x, y = map(tf.constant, images)
    point = attacks.l2l(EPSILON, seed=3, **SMALL)
    implicit = attacks.imp_am(EPSILON, entropy_weight=0.0, **SMALL)
    (source,), (target, _) = point.networks, implicit.networks
    for layer in source.layers:
        if not layer.get_weights():
            continue
        weights = layer.get_weights()
        if layer.name == "stem":  # z's channel comes last: weight zero
            kernel = weights[0]
            weights = [
                np.concatenate([kernel, np.zeros_like(kernel[:, :, :1])], 2)
            ]
        target.get_layer(layer.name).set_weights(weights)
    classifier = make_convolutional()
    np.testing.assert_allclose(
        point(classifier, x, y).x_adv,
        implicit(classifier, x, y).x_adv,
        atol=1e-6,
    )


@pytest.mark.parametrize("name", AMORTIZED)
def test_fit_leaves_the_classifier_alone_and_strengthens_the_attack(
    name, images
):
    classifier = make_convolutional()
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(96, 8, 8, 1)).astype("float32")
    y = predicted(classifier, x)
    attack = AMORTIZED[name](EPSILON, **SMALL)

    def loss():
        logits = classifier(attack(classifier, x, y).x_adv)
        return float(
            tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
            )
        )

    before, weights = loss(), classifier.get_weights()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    attack.fit(classifier, dataset, epochs=25, verbose=0)
    for old, new in zip(weights, classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert loss() > before + 0.02
    attack.threat_model.check(x, attack(classifier, x, y).x_adv)


def test_networks_are_trained_against_any_classifier(images):
    x, y = images
    network = make_convolutional()

    def bare(x, training):
        assert not training
        return network(x, training=training)

    attack = attacks.l2l(EPSILON, **SMALL)
    before = attack.networks[0].get_weights()
    attack.fit(bare, (x, y), verbose=0)
    after = attack.networks[0].get_weights()
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    with pytest.raises(ValueError, match="must be a Keras 3 model"):
        adt_tf.AdversarialTrainer(bare, attack)


@pytest.mark.parametrize("name", AMORTIZED)
def test_conditioning_of_the_released_code(name, images):
    """Gradients of a batch's mean loss, by hand for a linear classifier."""
    x, y = images
    classifier = make_linear((8, 8, 1), 10)
    kernel, bias = (
        w.astype("float64") for w in classifier.layers[-1].get_weights()
    )

    def gradient_of_the_mean_loss(images):
        logits = images.reshape(len(images), -1) @ kernel + bias
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        slope = (p - np.eye(10)[y]) @ kernel.T / len(images)
        return slope.reshape(images.shape)

    first = gradient_of_the_mean_loss(x.astype("float64"))
    point = np.clip(x + EPSILON * np.sign(first), 0, 1)
    second = gradient_of_the_mean_loss(point)
    expected = np.concatenate([x, first, second], axis=-1)
    attack = AMORTIZED[name](EPSILON, gradient_scale=1 / len(x), **SMALL)

    def conditioning(x, y):
        return attack.solve(
            classifier, tf.constant(x), tf.constant(y), seed=seeds.make(0)
        ).numpy()

    whole = conditioning(x, y)
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    # The factor is a number, so the size of the batch changes nothing.
    padded = conditioning(np.tile(x, [3, 1, 1, 1]), np.tile(y, 3))
    np.testing.assert_allclose(padded[: len(x)], whole, atol=1e-7)


@pytest.mark.parametrize("gradient_scale", [None, 1 / 64])
@pytest.mark.parametrize("name", AMORTIZED)
def test_result_does_not_depend_on_the_batch(name, gradient_scale, images):
    x, y = images
    classifier = make_convolutional()
    attack = AMORTIZED[name](EPSILON, gradient_scale=gradient_scale, **SMALL)
    whole = attack(classifier, x, y).x_adv.numpy()
    part = attack(classifier, x[4:7], y[4:7]).x_adv.numpy()
    np.testing.assert_allclose(part, whole[4:7], atol=1e-5)


def test_explicit_gives_a_tfp_distribution_and_implicit_says_why_not(images):
    classifier = make_convolutional()
    p = attacks.exp_am(EPSILON, **SMALL).distribution(classifier, *images)
    samples = p.sample(2, seed=0)
    assert np.abs(samples).max() <= EPSILON + 1e-6
    assert np.isfinite(p.log_prob(samples)).all()
    with pytest.raises(ValueError, match="has no density"):
        attacks.imp_am(EPSILON, **SMALL).distribution(classifier, *images)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="entropy_weight"):
        attacks.exp_am(EPSILON, entropy_weight=-1.0, **SMALL)
    with pytest.raises(ValueError, match="entropy_reduction"):
        attacks.imp_am(EPSILON, entropy_reduction="max", **SMALL)
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="`gradient_scale` must be"):
            attacks.l2l(EPSILON, gradient_scale=scale, **SMALL)
    with pytest.raises(ValueError, match="has nothing to train"):
        make_trainer(attacks.pgd(EPSILON), train_classifier=False)


def test_trades_weighs_the_entropy_alike():
    plain = methods.adt_exp_am(EPSILON, beta=6.0, **SMALL)
    assert plain.attack.entropy_weight == pytest.approx(0.06)
    for threshold, weight in {None: 0.06, 0.9: 6.0}.items():
        hinge = methods.adt_imp_am(
            EPSILON, beta=6.0, entropy_threshold=threshold, **SMALL
        )
        assert hinge.attack.entropy_weight == pytest.approx(weight)


def test_trained_networks_are_kept_until_an_assessment_has_ended(
    tmp_path, images, monkeypatch
):
    """Interrupted, it goes on with the same attack; another model's is not."""
    x, y = images
    train = ImageData(x, y, 10, "some")

    def train_them(classifier):
        attack = attacks.imp_am(EPSILON, **SMALL)
        start = weights_of(attack.networks)
        return (
            attack,
            start,
            generators.trained_generators(
                [attacks.pgd(EPSILON), attack],
                classifier,
                lambda: train,
                epochs=1,
                directory=tmp_path,
            ),
        )

    classifier = make_convolutional()
    attack, start, trained = train_them(classifier)
    with pytest.raises(KeyboardInterrupt), trained:
        raise KeyboardInterrupt
    first = weights_of(attack.networks)
    assert not np.array_equal(first[0], start[0])
    (file,) = tmp_path.iterdir()

    # Cut short it counts as missing, and is written anew.
    file.write_bytes(file.read_bytes()[:200])
    _, _, trained = train_them(classifier)
    with pytest.raises(KeyboardInterrupt), trained:
        raise KeyboardInterrupt

    other = make_convolutional()
    other.layers[-1].bias.assign_add(np.arange(10.0))
    _, _, trained = train_them(other)
    with trained:
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == [file]

    monkeypatch.setattr(
        attacks.Amortized, "fit", lambda *_, **__: pytest.fail("trained again")
    )
    attack, _, trained = train_them(classifier)
    with trained:
        for one, again in zip(first, weights_of(attack.networks), strict=True):
            np.testing.assert_allclose(one, again, atol=1e-6)
    assert not list(tmp_path.iterdir())
