"""Every public part of the core is in a table and keeps its interface."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import (
    attacks,
    configs,
    distributions,
    gradients,
    methods,
    objectives,
    seeds,
    step_rules,
    threat_models,
)
from adt_tf.distributions import AmortizedFamily, Family
from adt_tf.objectives import Objective
from adt_tf.threat_models import ThreatModel
from adt_tf.training.trainer import AdversarialTrainer
from tests.support import graphs, tables
from tests.support.models import make_convolutional

SEED = seeds.make(3)
BALLS = tables.THREAT_MODELS


@pytest.fixture(scope="module")
def classifier():
    return make_convolutional()


@pytest.fixture
def x(images):
    return tf.constant(images[0])


@pytest.fixture
def y(images):
    return tf.constant(images[1])


def is_interface(value):
    return inspect.isabstract(value) or getattr(value, "_is_protocol", False)


def public(module, names):
    """The names of a module that stand for parts, not for interfaces."""
    return {name for name in names if not is_interface(getattr(module, name))}


def test_no_public_attack_is_missing():
    values = {"AdversarialBatch", "Problem", "Progress"}
    others = values | {"Attack", "PointAttack", "autoattack", "get"}
    covered = {n for case in tables.ATTACKS.values() for n in case.covers}
    assert covered == set(attacks.__all__) - others


def test_no_public_threat_model_is_missing():
    tools = {"NORMS", "check", "from_norm", "get", "norm_of"}
    names = public(threat_models, threat_models.__all__) - tools
    assert names == set(tables.THREAT_MODELS)
    assert set(threat_models.NORMS.values()) == {
        type(b) for b in BALLS.values()
    }
    assert names == {type(ball).__name__ for ball in BALLS.values()}


def test_no_public_method_is_missing():
    assert {name.split(" ")[0] for name in tables.METHODS} == set(
        methods.list()
    )


def test_no_public_family_is_missing():
    entries = (*tables.FAMILIES, *tables.AMORTIZED_FAMILIES)
    names = public(distributions, distributions.__all__)
    assert names == {entry.split(",")[0] for entry in entries}


def test_no_public_objective_is_missing():
    tools = {"Value", "couples_examples", "get", "logits_of", "of_logits"}
    names = public(objectives, objectives.__all__) - tools
    functions_of_logits = {name for name in names if name.endswith("_of")}
    assert names - functions_of_logits == set(tables.OBJECTIVES)


def test_no_public_step_rule_is_missing():
    names = {
        name
        for name, value in vars(step_rules).items()
        if name.islower()
        and not name.startswith("_")
        and getattr(value, "__module__", "") == step_rules.__name__
    }
    assert names - {"normalize_gradient"} == set(tables.STEP_RULES)


def test_no_public_gradient_is_missing():
    names = {
        name
        for name, value in vars(gradients).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == gradients.__name__
    }
    assert names - {"finite"} == set(tables.GRADIENTS)


SAVED = {
    **{name: tables.make_attack(name, 0.1) for name in tables.ATTACKS},
    **tables.THREAT_MODELS,
    **tables.OBJECTIVES,
    **tables.STEP_RULES,
    **{
        f"{name} in {ball}": make(BALLS[ball])
        for name, make in tables.FAMILIES.items()
        for ball in BALLS
    },
    **{f"gradient {name}": g for name, g in tables.GRADIENTS.items()},
}


@pytest.mark.parametrize("name", SAVED)
def test_identity_is_the_configuration(name):
    part = SAVED[name]
    assert configs.fingerprint(part) == configs.fingerprint(part)
    if name in tables.NOT_SAVED:
        return
    text = json.dumps(configs.serialize(part), allow_nan=False)
    again = configs.deserialize(json.loads(text))
    assert configs.fingerprint(again) == configs.fingerprint(part)


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", tables.ATTACKS)
def test_an_attack_of_half_the_size(name, ball, classifier, x, y):
    attack = tables.make_attack(name, BALLS[ball])
    assert isinstance(attack.threat_model, ThreatModel)
    half = attack.scaled(0.5)
    assert half.threat_model == attack.threat_model.scaled(0.5)
    assert half.networks == attack.networks
    assert attack.threat_model.epsilon == 2 * half.threat_model.epsilon
    with graphs.run_eagerly():
        x_adv = half(classifier, x[:3], y[:3], part=0).x_adv
    half.threat_model.check(x[:3], x_adv)


@pytest.mark.parametrize("ball", BALLS)
def test_a_threat_model_projects_and_perturbs_alike(ball, x):
    threat_model = BALLS[ball]
    assert isinstance(threat_model, ThreatModel) and threat_model.name
    noise = tf.random.stateless_normal(x.shape, SEED)
    inside = threat_model.project(x, x + noise)
    threat_model.check(x, inside)
    np.testing.assert_allclose(
        threat_model.perturb(x, noise), inside, atol=1e-6
    )
    np.testing.assert_allclose(
        threat_model.project(x, inside), inside, atol=1e-6
    )
    steepest = threat_model.steepest(noise)
    np.testing.assert_allclose(threat_model.norm(steepest), 1, rtol=1e-5)
    threat_model.check(x, threat_model.from_unit(x, steepest))
    # Samples are examples of their own.
    samples = tf.stack([noise, 2 * noise], axis=1)
    limited = threat_model.limit(samples)
    assert threat_model.norm(limited).shape == (12, 2)
    np.testing.assert_allclose(
        limited[:, 1], threat_model.limit(2 * noise), atol=1e-6
    )


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", tables.FAMILIES)
def test_a_family_keeps_its_interface(name, ball, x):
    family = tables.FAMILIES[name](BALLS[ball])
    assert isinstance(family, Family)
    params = family.init(x, SEED)
    noise = family.noise(x, 4, SEED)
    piece = family.noise(x, 4, SEED, piece=(tf.constant(1), 2))
    np.testing.assert_array_equal(piece, noise[:, 1:3])
    x_adv, entropy = family.sample(x, params, noise)
    assert x_adv.shape == (12, 4, 8, 8, 1) and entropy.shape == (12, 4)
    for k in range(4):
        family.threat_model.check(x, x_adv[:, k])
    projected = family.project(x, params)
    tf.nest.assert_same_structure(projected, params)
    assert family.as_tfp(x, params).event_shape == x.shape[1:]
    scaled = family.scaled(0.5)
    assert type(scaled) is type(family)
    assert scaled.threat_model == BALLS[ball].scaled(0.5)
    assert scaled.describe() == family.describe()


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", tables.AMORTIZED_FAMILIES)
def test_an_amortized_family_keeps_its_interface(name, ball, x):
    family = tables.AMORTIZED_FAMILIES[name](BALLS[ball])
    assert isinstance(family, AmortizedFamily)
    conditioning = tf.concat([x, x, x], axis=-1)
    noise = family.noise(x, 2, SEED)
    with tf.GradientTape() as tape:
        x_adv, entropy = family.sample(x, conditioning, noise, training=True)
        total = tf.reduce_sum(x_adv)
    assert x_adv.shape == (12, 2, 8, 8, 1) and entropy.shape == (12, 2)
    for k in range(2):
        family.threat_model.check(x, x_adv[:, k])
    weights = family.networks[0].trainable_variables
    assert any(g is not None for g in tape.gradient(total, weights))
    scaled = family.scaled(0.5)
    assert scaled.networks == family.networks
    assert scaled.threat_model == BALLS[ball].scaled(0.5)


@pytest.mark.parametrize("name", tables.OBJECTIVES)
def test_an_objective_keeps_its_interface(name, classifier, x, y):
    objective = objectives.get(tables.OBJECTIVES[name])
    assert isinstance(objective, Objective) and objective.name
    objective.check(classifier)
    more = {"target": (y + 1) % 10} if name == "targeted_dlr" else {}
    value = objective(classifier, x, y, seed=SEED, **more)
    start = tf.clip_by_value(x + 0.05, 0.0, 1.0)
    x_adv = tf.stack([x, start, 1 - x], axis=1)
    with tf.GradientTape() as tape:
        tape.watch(x_adv)
        values, logits = value(x_adv)
        total = tf.reduce_sum(values[:, 1])
    assert values.shape == (12, 3) and logits.shape == (12, 3, 10)
    np.testing.assert_allclose(
        logits[:, 0], classifier(x, training=False), atol=1e-4
    )
    gradient = tape.gradient(total, x_adv).numpy()
    assert np.isfinite(gradient).all() and np.abs(gradient[:, 1]).max() > 0
    # A sample's value depends on no other sample.
    assert np.abs(gradient[:, [0, 2]]).max() < 1e-7


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", tables.STEP_RULES)
def test_a_step_rule_keeps_its_interface(name, ball, x):
    rule, threat_model = tables.STEP_RULES[name], BALLS[ball]
    params = {"mu": x, "rho": 0.5 * x}
    slopes = {
        key: tf.random.stateless_normal(x.shape, seeds.fold(SEED, i))
        for i, key in enumerate(params)
    }

    def two_steps(params, slopes):
        state = rule.init(params)
        for _ in range(2):
            params, state = rule.update(params, slopes, state, threat_model)
        return params, state

    expected = two_steps(params, slopes)
    tf.nest.assert_same_structure(expected[1], rule.init(params))
    for key in params:
        gain = tf.reduce_sum(slopes[key] * (expected[0][key] - params[key]))
        assert float(gain) > 0
    for jit_compile in (False, True):
        moved, _ = tf.function(two_steps, jit_compile=jit_compile)(
            params, slopes
        )
        for key in params:
            np.testing.assert_allclose(moved[key], expected[0][key], atol=1e-5)
    assert rule.describe(threat_model)


@pytest.mark.parametrize("name", tables.GRADIENTS)
def test_a_gradient_finds_the_slope_of_a_linear_function(name, x):
    estimator = tables.GRADIENTS[name]
    weights = tf.random.stateless_normal(x.shape[1:], SEED)

    def climbed(params, offset):
        x_adv = params[:, tf.newaxis]
        moved = x_adv if offset is None else x_adv + offset
        values = tf.reduce_sum(weights * moved, axis=[2, 3, 4])
        return values, x_adv, values[..., tf.newaxis]

    noise = estimator.noise(x, SEED)
    slopes, x_adv, logits = estimator.estimate(climbed, x, noise)
    assert slopes.shape == x.shape and x_adv.shape == (12, 1, 8, 8, 1)
    assert logits.shape == (12, 1, 1) and estimator.images_per_example >= 1
    cosine = np.corrcoef(np.ravel(slopes[0]), np.ravel(weights))[0, 1]
    assert cosine > (0.999 if name == "backpropagation" else 0.8)


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", tables.METHODS)
def test_a_method_trains_in_every_norm(name, ball, images):
    method = tables.make_method(name, BALLS[ball])
    # N-FGSM's noise and step lead up to three epsilons away.
    expected = BALLS[ball].scaled(3 if name == "n_fgsm" else 1)
    assert method.attack.threat_model in (expected, threat_models.get(1.0))
    trainer = AdversarialTrainer(
        make_convolutional(), method.attack, method.loss
    )
    trainer.compile(keras.optimizers.SGD(0.05), jit_compile=False)
    before = trainer.classifier.get_weights()
    with graphs.run_eagerly():
        logs = trainer.train_on_batch(*images, return_dict=True)
    assert np.isfinite(list(logs.values())).all()
    # How much of the ball is used: never more than all of it.
    assert 0 <= logs["perturbation"] <= 1 + 1e-5
    assert (logs["perturbation"] > 0) == (name != "standard")
    after = trainer.classifier.get_weights()
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
