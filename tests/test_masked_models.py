"""Tests models with masked gradients, which look robust under PGD only.

The classifier is trained without any attack and falls to PGD as it is. Masked,
its decisions are the same or nearly so, and only the gradients are gone.
"""

import keras
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks

EPSILON = 0.15
NUM = 48


class Masked(keras.Model):
    """A model with functions before and after it."""

    def __init__(self, model, before=tf.identity, after=tf.identity):
        super().__init__()
        self.model, self.before, self.after = model, before, after

    def call(self, x, training=False):
        return self.after(self.model(self.before(x), training=training))


# What hides the gradients, which part of AutoAttack does not need them, and
# what `lint` finds.
MASKS = {
    "large logits": (
        {"after": lambda z: 1e4 * z},
        "APGD-T",
        {"vanishing_gradients", "loss_choice"},
    ),
    "quantised input": (
        {"before": lambda x: tf.round(16 * x) / 16},
        "Square",
        {"differentiable", "black_box"},
    ),
    "quantised input with a gradient of zero": (
        {"before": lambda x: tf.round(16 * x) / 16 + 0 * x},
        "Square",
        {"vanishing_gradients", "black_box"},
    ),
}


def autoattack():
    """The four parts, with smaller budgets than the published ones."""
    return [
        attacks.apgd_ce(EPSILON, num_steps=20),
        attacks.apgd_t(EPSILON, num_steps=20),
        attacks.fab_t(EPSILON, num_steps=20),
        attacks.square(EPSILON, num_queries=1000),
    ]


@pytest.fixture(scope="module")
def examples(digits):
    x, y = digits
    return x[:NUM], y[:NUM]


@pytest.fixture(params=MASKS)
def case(request, honest):
    mask, part, failing = MASKS[request.param]
    return Masked(honest, **mask), part, failing


def test_unmasked_the_classifier_is_not_robust(honest, examples):
    pgd = [attacks.pgd(EPSILON)]
    report = adt_tf.evaluate(honest, examples, pgd, verbose=False)
    assert report.robust_accuracy < 0.3


def test_pgd_is_blind_and_autoattack_is_not(case, examples):
    classifier, part, _ = case
    report = adt_tf.evaluate(
        classifier,
        examples,
        [attacks.pgd(EPSILON), *autoattack()],
        independent=True,
        verbose=False,
    )
    accuracy = report.accuracy
    assert accuracy["natural"] > 0.9
    assert accuracy["PGD-20"] > accuracy["natural"] - 0.15
    assert accuracy[part] < accuracy["PGD-20"] - 0.4
    assert report.robust_accuracy < 0.3


def test_lint_fails(case, examples):
    classifier, _, failing = case
    report = adt_tf.lint(
        classifier,
        examples,
        epsilon=EPSILON,
        checks=sorted(failing),
        verbose=False,
    )
    assert {f.check for f in report.findings if f.status == "fail"} == failing
    assert all(f.advice for f in report.findings)
