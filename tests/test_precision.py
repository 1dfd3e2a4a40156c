"""Half precision: what stays in float32, loss scaling, the same robustness."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import data, methods, networks, objectives, precision

EPSILON = 0.15
HALVES = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


@pytest.fixture(scope="module")
def digits():
    return data.as_arrays(data.load("digits", num_examples=64))


def make_trainer(policy, name="at_pgd", optimizer=None):
    arguments = {"num_steps": 2}
    if name.endswith("am"):
        arguments = {"input_shape": (8, 8, 1), "width_factor": 0.02}
    with precision.policy(policy):
        method = methods.get(name, epsilon=EPSILON, **arguments)
        trainer = adt_tf.AdversarialTrainer(
            networks.get("small_cnn", input_shape=(8, 8, 1), width=8),
            method.attack,
            method.loss,
        )
        trainer.compile(optimizer or keras.optimizers.SGD(0.05))
    return trainer


@pytest.mark.parametrize("policy", HALVES)
def test_first_and_last_layers_compute_in_float32(policy):
    with precision.policy(policy):
        models = [
            networks.get("small_cnn", input_shape=(8, 8, 1)),
            networks.get("wrn-10-1"),
            networks.point_generator((8, 8, 1), width_factor=0.05),
            networks.explicit_generator((8, 8, 1), width_factor=0.05),
            networks.implicit_generator((8, 8, 1), width_factor=0.05),
            networks.posterior((8, 8, 1), width_factor=0.1),
        ]
    for model in models:
        weighted = [layer for layer in model.layers if layer.weights]
        for layer in (weighted[0], model.layers[-1]):
            assert layer.compute_dtype == "float32", (model.name, layer.name)
        assert all(v.dtype == "float32" for v in model.weights)
        assert {v.dtype for v in model.inputs + model.outputs} == {"float32"}
        dtypes = [layer.compute_dtype for layer in weighted]
        assert dtypes.count(HALVES[policy]) >= len(dtypes) // 2
    assert keras.config.dtype_policy().name == "float32"


def test_unknown_policies_are_refused():
    with (
        pytest.raises(ValueError, match="Received: name='float8'"),
        precision.policy("float8"),
    ):
        pass


@pytest.mark.parametrize("policy", HALVES)
def test_threat_model_holds_exactly(policy, digits):
    x, y = digits
    classifier = make_trainer(policy).classifier
    attack = adt_tf.attacks.pgd(EPSILON, num_steps=3)
    x_adv = attack(classifier, x, y).x_adv
    assert x_adv.dtype == tf.float32
    attack.threat_model.check(tf.constant(x), x_adv)
    # The steps of float32, not of the half format's grid.
    moved = np.abs(x_adv.numpy() - x)
    assert len(np.unique(np.float32(x_adv))) > 256
    assert moved.max() > 0.99 * EPSILON


def test_gradient_in_the_image_does_not_vanish_in_float16(digits):
    """A classifier that is sure: gradients near the least float16, 6e-8."""
    x, y = map(tf.constant, digits)
    models = {}
    for policy in ("float32", "mixed_float16"):
        models[policy] = make_trainer(policy).classifier
    weights = models["float32"].get_weights()
    weights[-2] = weights[-2] * 0 + 1e-7 * np.sign(weights[-2])
    slopes = {}
    for policy, model in models.items():
        model.set_weights(weights)
        with tf.GradientTape() as tape:
            tape.watch(x)
            logits = objectives.logits_of(model, x[:, tf.newaxis])
            total = tf.reduce_sum(objectives.cross_entropy_of(logits, y))
        slopes[policy] = tape.gradient(total, x).numpy()
    exact, half = slopes["float32"], slopes["mixed_float16"]
    cosine = (exact * half).sum() / np.linalg.norm(exact) / np.linalg.norm(half)
    assert cosine > 0.9
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = models["mixed_float16"](x)[:, tf.newaxis]
        total = tf.reduce_sum(objectives.cross_entropy_of(logits, y))
    bare = tape.gradient(total, x).numpy()
    assert np.mean(bare == 0) > 2 * np.mean(half == 0)


def test_both_optimisers_are_scaled_in_float16_only():
    scaling = keras.optimizers.LossScaleOptimizer
    for policy, expected in (
        ("float32", False),
        ("mixed_bfloat16", False),
        ("mixed_float16", True),
    ):
        trainer = make_trainer(policy, "adt_exp_am")
        found = [trainer.optimizer, trainer.attack_optimizer]
        assert [isinstance(o, scaling) for o in found] == [expected] * 2


@pytest.mark.parametrize(
    "name", ["at_pgd", pytest.param("adt_exp_am", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("policy", HALVES)
def test_steps_are_close_to_those_of_float32(name, policy, digits):
    ends, starts = [], []
    for one in ("float32", policy):
        trainer = make_trainer(one, name)
        models = [trainer.classifier, *trainer.attack_networks]
        starts.append([w for m in models for w in m.get_weights()])
        for _ in range(2):
            logs = trainer.train_on_batch(*digits, return_dict=True)
            assert np.isfinite(list(logs.values())).all()
        ends.append([w for m in models for w in m.get_weights()])
    for a, b in zip(*starts, strict=True):
        np.testing.assert_array_equal(a, b)
    moved = np.concatenate(
        [(a - b).ravel() for a, b in zip(ends[0], starts[0], strict=True)]
    )
    apart = np.concatenate(
        [(a - b).ravel() for a, b in zip(*ends, strict=True)]
    )
    assert np.linalg.norm(apart) < 0.3 * np.linalg.norm(moved)


def test_an_overflow_skips_the_step_but_not_the_clock(digits):
    trainer = make_trainer("mixed_float16", "adt_exp_am")
    trainer.checkpoint()
    huge = 2.0**60
    trainer.optimizer.dynamic_scale.assign(huge)
    trainer.attack_optimizer.dynamic_scale.assign(huge)
    models = [trainer.classifier, *trainer.attack_networks]
    before = [v.numpy() for m in models for v in m.trainable_variables]
    trainer.train_on_batch(*digits)
    after = [v.numpy() for m in models for v in m.trainable_variables]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(trainer.optimizer.iterations) == 1
    for optimizer in (trainer.optimizer, trainer.attack_optimizer):
        assert float(optimizer.dynamic_scale) == huge / 2
