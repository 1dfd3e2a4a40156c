import functools

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, gradients, objectives, seeds, step_rules
from adt_tf.attacks import GradientAscent
from adt_tf.distributions import Dirac, TanhGaussian
from adt_tf.threat_models import Linf
from tests.support.graphs import kinds_of_solving
from tests.support.models import make_linear

EPSILON = 0.1


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def numpy_step(classifier, x, y, noise, entropy_weight):
    """One ascent step from mu = rho = 0 on a linear classifier, by hand."""
    kernel, bias = (w.astype("float64") for w in classifier.get_weights())
    x, noise = x.astype("float64"), noise.astype("float64")
    sigma = np.log(2.0)
    u = sigma * noise
    raw = x[:, None] + EPSILON * np.tanh(u)
    inside = (raw >= 0) & (raw <= 1)
    logits = np.clip(raw, 0, 1).reshape(*noise.shape[:2], -1) @ kernel + bias
    error = softmax(logits) - np.eye(logits.shape[-1])[y][:, None]
    d_image = (error @ kernel.T).reshape(noise.shape) * inside
    d_u = d_image * EPSILON * (1 - np.tanh(u) ** 2)
    size = np.prod(x.shape[1:])
    d_u += entropy_weight * -2 * np.tanh(u) / size
    d_mu = d_u.mean(1)
    d_sigma = (d_u * noise).mean(1) + entropy_weight / sigma / size
    d_rho = d_sigma * 0.5  # the slope of softplus at 0
    return {
        name: 0.3 * g / (np.abs(g) + 1e-8)
        for name, g in (("mu", d_mu), ("rho", d_rho))
    }, {"mu": d_mu, "rho": d_rho}


def explicit(num_steps=1, num_samples=4, entropy_weight=0.01, **arguments):
    return GradientAscent(
        TanhGaussian(Linf(EPSILON)),
        objectives.cross_entropy,
        step_rules.adam(0.3),
        num_steps=num_steps,
        num_samples=num_samples,
        entropy_weight=entropy_weight,
        **arguments,
    )


@pytest.mark.parametrize(
    "objective",
    [
        objectives.cross_entropy,
        objectives.transport_distance,
        functools.partial(objectives.transport_distance, num_iterations=20),
    ],
    ids=["apart", "coupled", "coupled, with an argument"],
)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_halves_side_by_side_climb_as_the_whole_batch(objective, size):
    classifier = make_linear()
    generator = np.random.default_rng(0)
    x = tf.constant(generator.uniform(size=(size, 4, 4, 1)), tf.float32)
    y = tf.constant(generator.integers(0, 3, size), tf.int32)
    attack = attacks.pgd(EPSILON, num_steps=3, objective=objective)

    def solve(x, y):
        return attack.solve(classifier, x, y, seed=seeds.make(0))

    # An eager call climbs with the whole batch at once.
    whole = solve(x, y)
    halves = tf.function(solve, autograph=False)(x, y)
    np.testing.assert_allclose(halves, whole, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("sample_chunk", [1, 3])
def test_samples_in_pieces_give_the_same_result(sample_chunk, jit_compile):
    classifier = make_linear()
    generator = np.random.default_rng(0)
    x = tf.constant(generator.uniform(size=(5, 4, 4, 1)), tf.float32)
    y = tf.constant(generator.integers(0, 3, 5), tf.int32)

    class Plain(step_rules.StepRule):
        """Plain gradient steps: Adam's are signs, which blow rounding up."""

        def init(self, params):
            return ()

        def update(self, params, gradients, state, threat_model):
            return tf.nest.map_structure(
                lambda p, g: p + 5.0 * g, params, gradients
            ), state

    rule = Plain()
    whole, pieces = (
        GradientAscent(
            TanhGaussian(Linf(EPSILON)),
            objectives.cross_entropy,
            rule,
            num_steps=3,
            num_samples=6,
            gradient=gradients.backpropagation(chunk),
            entropy_weight=0.01,
        )
        for chunk in (None, sample_chunk)
    )
    assert pieces.images_per_example == sample_chunk
    expected = whole.solve(classifier, x, y, seed=seeds.make(1))
    actual = pieces.solve(
        classifier, x, y, seed=seeds.make(1), jit_compile=jit_compile
    )
    assert np.abs(expected["mu"]).max() > 0.01
    for name in ("mu", "rho"):
        np.testing.assert_allclose(
            actual[name], expected[name], rtol=1e-5, atol=1e-6
        )
    found, same = (
        attack(classifier, x, y, seed=1, jit_compile=jit_compile).x_adv
        for attack in (whole, pieces)
    )
    np.testing.assert_allclose(found, same, atol=1e-6)


@pytest.mark.parametrize("sample_chunk", [0, -1, 3, 8])
def test_a_chunk_must_divide_the_samples(sample_chunk):
    with pytest.raises(ValueError, match="sample_chunk"):
        explicit(
            num_samples=4, gradient=gradients.backpropagation(sample_chunk)
        )


@pytest.mark.parametrize("entropy_weight", [0.0, 0.01, 1.0])
def test_one_step_matches_numpy_given_the_same_noise(entropy_weight):
    classifier = make_linear()
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(6, 4, 4, 1)).astype("float32")
    y = generator.integers(0, 3, 6).astype("int32")
    attack = explicit(entropy_weight=entropy_weight)
    seed = seeds.make(5)
    noise = attack.family.noise(tf.constant(x), 4, seeds.fold(seed, 0))
    actual = attack.solve(classifier, tf.constant(x), tf.constant(y), seed=seed)
    expected, gradients = numpy_step(
        classifier, x, y, noise.numpy(), entropy_weight
    )
    for name in ("mu", "rho"):
        # Where the gradient is near zero its sign is not settled by float32.
        clear = np.abs(gradients[name]) > 1e-5
        assert clear.mean() > 0.9
        np.testing.assert_allclose(
            actual[name].numpy()[clear], expected[name][clear], rtol=5e-3
        )


def test_small_sigma_without_entropy_is_the_point_attack():
    # Two classes: the best corner of the ball is the same all the way.
    classifier = make_linear(num_classes=2)
    generator = np.random.default_rng(1)
    x = generator.uniform(0.3, 0.7, size=(6, 4, 4, 1)).astype("float32")
    y = generator.integers(0, 2, 6).astype("int32")

    class Narrow(TanhGaussian):
        def init(self, x, seed):
            params = super().init(x, seed)
            return {**params, "rho": params["rho"] - 30.0}

    narrow = GradientAscent(
        Narrow(Linf(EPSILON)),
        objectives.cross_entropy,
        step_rules.adam(0.3),
        num_steps=30,
        num_samples=2,
    )
    point = attacks.pgd(EPSILON, num_steps=30)
    np.testing.assert_allclose(
        narrow(classifier, x, y).x_adv,
        point(classifier, x, y).x_adv,
        atol=1e-4,
    )


def test_gradient_decay_adds_up_gradients():
    classifier = make_linear()
    generator = np.random.default_rng(1)
    x = generator.uniform(size=(6, 4, 4, 1)).astype("float32")
    y = generator.integers(0, 3, 6).astype("int32")
    fresh = attacks.exp(EPSILON, num_steps=5, num_samples=1)
    summed = attacks.exp(
        EPSILON, num_steps=5, num_samples=1, gradient_decay=1.0
    )
    first = fresh(classifier, x, y).x_adv
    assert np.abs(first - summed(classifier, x, y).x_adv).max() > 1e-3
    # One step has nothing to add.
    one = [
        attacks.exp(EPSILON, num_steps=1, gradient_decay=decay)
        for decay in (0.0, 1.0)
    ]
    np.testing.assert_array_equal(
        *(attack(classifier, x, y).x_adv for attack in one)
    )


@pytest.mark.parametrize("jit_compile", [False, True])
def test_no_weight_gradient_is_computed(convolutional, images, jit_compile):
    attack = explicit(num_steps=3)

    kinds = kinds_of_solving(attack, convolutional, images, jit_compile)
    assert kinds.count("Conv2D") == 2
    assert kinds.count("Conv2DBackpropInput") == 2
    assert kinds.count("Conv2DBackpropFilter") == 0


def test_loop_is_traced_once_whatever_its_length(convolutional, images):
    calls = []

    def counting(classifier, x, y, *, seed):
        value = objectives.cross_entropy(classifier, x, y, seed=seed)

        def counted(x_adv):
            calls.append(1)
            return value(x_adv)

        return counted

    attack = GradientAscent(
        Dirac(Linf(EPSILON)), counting, step_rules.sign(0.02), num_steps=50
    )
    for _ in range(3):
        attack(convolutional, *images)
    assert len(calls) == 1


def test_compiled_functions_are_forgotten_with_the_classifier(images):
    import gc

    from tests.support.models import make_convolutional

    attack = attacks.fgsm(EPSILON)
    classifier = make_convolutional()
    attack(classifier, *images)
    assert len(attack._compiled) == 1
    del classifier
    gc.collect()
    assert len(attack._compiled) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_steps": 0},
        {"num_steps": 2.5},
        {"num_samples": 0},
        {"entropy_weight": -1.0},
    ],
)
def test_refuses_bad_arguments(arguments):
    name = next(iter(arguments))
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}="):
        explicit(**arguments)


def test_what_stops_early_keeps_the_strongest_image(images):
    # A rough classifier that is never wrong: most steps lose what was gained.
    x, _ = images
    scale = tf.constant([1.0, -1.0])

    def rough(x, training):
        waves = tf.reduce_sum(tf.sin(3000.0 * x), axis=[1, 2, 3])
        return (2.0 + 0.02 * waves)[:, None] * scale

    def loss(x):
        logits = rough(x, training=False)
        return tf.nn.softplus(logits[:, 1] - logits[:, 0]).numpy()

    attack = attacks.spsa(0.1, num_samples=4, num_steps=7)
    y = np.zeros(len(x), "int32")
    x_adv = attack(rough, x, y).x_adv
    assert (loss(x_adv) >= loss(x) - 1e-6).all()
