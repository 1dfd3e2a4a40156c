"""One table of attacks drives every property that all of them share."""

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks
from tests.conftest import make_linear

EPSILON = 0.1
ATTACKS = {
    "fgsm": attacks.fgsm,
    "pgd": attacks.pgd,
    "mim": attacks.mim,
    "cw": attacks.cw,
    "exp": attacks.exp,
}


@pytest.fixture(params=ATTACKS)
def attack(request):
    return ATTACKS[request.param](EPSILON)


def losses(classifier, x, y):
    logits = classifier(x, training=False)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits).numpy()


def test_stays_in_the_ball_and_the_box(attack, convolutional, images):
    x, y = images
    x = np.round(x)  # every pixel at a bound of the box
    x_adv = attack(convolutional, x, y).x_adv.numpy()
    assert np.abs(x_adv - x).max() <= EPSILON + 1e-6
    assert x_adv.min() >= 0 and x_adv.max() <= 1
    attack.threat_model.check(x, x_adv)


def test_raises_the_loss(attack, convolutional, images):
    x, y = images
    x_adv = attack(convolutional, x, y).x_adv
    clean, attacked = (
        losses(convolutional, x, y),
        losses(convolutional, x_adv, y),
    )
    assert (attacked >= clean - 1e-5).all()
    assert attacked.mean() > clean.mean() + 0.05


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
    # Convolutions of other batch sizes round differently, which may flip the
    # sign of a gradient that is zero to rounding.
    close = np.isclose(part, whole[order], atol=1e-4)
    assert close.mean() > 0.99


def test_xla_and_graph_agree(attack, convolutional, images):
    plain = attack(convolutional, *images, jit_compile=False).x_adv.numpy()
    compiled = attack(convolutional, *images, jit_compile=True).x_adv.numpy()
    assert np.isclose(plain, compiled, atol=1e-4).mean() > 0.99


def test_classifier_is_untouched(attack, convolutional, images):
    before = convolutional.get_weights()
    attack(convolutional, *images)
    for old, new in zip(before, convolutional.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_reaches_the_closed_form_on_a_linear_classifier(attack):
    # With two classes the worst perturbation is epsilon * sign of the
    # difference of the weights, clipped to the box.
    classifier = make_linear(num_classes=2)
    generator = np.random.default_rng(3)
    x = generator.uniform(size=(20, 4, 4, 1)).astype("float32")
    y = generator.integers(0, 2, 20).astype("int32")
    kernel, _ = classifier.get_weights()
    towards = (kernel[:, 1] - kernel[:, 0]).reshape(4, 4, 1)
    direction = np.where(y == 0, 1.0, -1.0)[:, None, None, None] * towards
    best = np.clip(x + EPSILON * np.sign(direction), 0, 1)
    x_adv = attack(classifier, x, y).x_adv.numpy()

    def margin(images):
        logits = images.reshape(len(images), -1) @ kernel
        return np.where(
            y == 0, logits[:, 1] - logits[:, 0], logits[:, 0] - logits[:, 1]
        )

    reached = (margin(x_adv) - margin(x)) / (margin(best) - margin(x))
    # A squashed Gaussian has its mass close to the corner, not on it.
    floor = 0.97 if attack.name.startswith("EXP") else 0.9999
    assert reached.min() > floor
    assert reached.max() < 1.0001


def test_returns_a_tfp_distribution(attack, convolutional, images):
    p = attack.distribution(convolutional, *images)
    samples = p.sample(3, seed=1)
    assert samples.shape == (3, 12, 8, 8, 1)
    assert np.abs(samples).max() <= EPSILON + 1e-6
    assert p.log_prob(samples).shape == (3, 12)


def test_names_resolve():
    names = ["fgsm", "pgd-20", "pgd-100", "mim-20", "cw-30", "exp"]
    found = [attacks.get(name, EPSILON).name for name in names]
    assert found == ["FGSM", "PGD-20", "PGD-100", "MIM-20", "C&W-30", "EXP-20"]


@pytest.mark.parametrize("name", ["nope", "fgsm-3", "pgd-0", "pgd-", "", "-"])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match="must be one of.*Received: name="):
        attacks.get(name, EPSILON)
