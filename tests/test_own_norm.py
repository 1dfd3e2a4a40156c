"""docs/own_norm.md: its class is a threat model, and its lines run."""

import re

import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, methods, seeds, threat_models
from adt_tf.threat_models import ThreatModel
from tests.support.processes import ROOT


@pytest.fixture(scope="module")
def blocks():
    text = (ROOT / "docs" / "own_norm.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def names(blocks):
    """What the first block of code defines."""
    defined = {"__name__": "own_norm"}
    exec(blocks[0], defined)
    return defined


def test_the_class_is_without_faults(blocks, names):
    exec(blocks[1], names)


def test_the_nearest_point_of_the_ball(names):
    """Against a search over thresholds, by NumPy."""
    delta = np.random.default_rng(0).normal(size=(5, 4, 4, 1))
    delta = delta.astype("float32")
    limited = names["L1"](2.0).limit(tf.constant(delta)).numpy()
    for one, near in zip(delta, limited, strict=True):
        low, high = 0.0, np.abs(one).max()
        for _ in range(60):
            middle = (low + high) / 2
            size = np.maximum(np.abs(one) - middle, 0).sum()
            low, high = (middle, high) if size > 2.0 else (low, middle)
        expected = np.sign(one) * np.maximum(np.abs(one) - high, 0)
        np.testing.assert_allclose(near, expected, atol=1e-5)
    small = delta / 50
    np.testing.assert_array_equal(names["L1"](2.0).limit(small), small)


def test_the_bijector(names):
    squash = names["Squash"]([3])
    u = tf.constant(np.random.default_rng(1).normal(size=(6, 3)), tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(u)
        delta = squash.forward(u)
    jacobian = tape.batch_jacobian(delta, u).numpy()
    assert (np.abs(delta).sum(-1) < 1).all()
    np.testing.assert_allclose(squash.inverse(delta + 0.0), u, rtol=1e-9)
    np.testing.assert_allclose(
        squash.forward_log_det_jacobian(u, 1),
        np.linalg.slogdet(jacobian)[1],
        rtol=1e-9,
    )


def test_draws_are_inside(names):
    ball = names["L1"](0.5)
    x = tf.random.stateless_uniform([7, 4, 4, 1], [0, 1])
    seed = seeds.make(0)
    for drawn in (ball.random_start(x, seed), ball.random_surface(x, seed)):
        ball.check(x, drawn)
    for k in range(4):
        ball.check(x, ball.random_noise(x, 4, seed)[:, k])


def test_training_and_evaluation(blocks, names, capsys):
    exec(blocks[2], names)
    report = names["report"]
    assert report.accuracy["natural"] > 0.5
    assert report.robust_accuracy < report.accuracy["natural"]
    assert "L1(epsilon=1" in report.attacks["PGD-10"]
    assert "A_rob" in capsys.readouterr().out


def test_a_norm_that_the_box_deforms(blocks, names, monkeypatch, capsys):
    """Its own methods keep attacks inside; without them they are refused."""
    if "classifier" not in names:
        exec(blocks[2], names)
    names["threat_models"] = threat_models
    exec(blocks[3], names)
    assert "brightness" in capsys.readouterr().out.lower()
    ball = names["Brightness"](0.2)
    x, y = data.as_arrays(names["test"])
    method = methods.at_pgd(ball, num_steps=2)
    trainer = adt_tf.AdversarialTrainer(
        names["classifier"], method.attack, method.loss
    )
    trainer.compile("sgd")
    logs = trainer.train_on_batch(x[:32], y[:32], return_dict=True)
    assert 0 < logs["perturbation"] <= 1.00001
    monkeypatch.setattr(names["Brightness"], "distance", ThreatModel.distance)
    pgd = attacks.pgd(ball, num_steps=2)
    with pytest.raises(ValueError, match="must override `project` and"):
        adt_tf.evaluate(names["classifier"], (x[:8], y[:8]), pgd)
