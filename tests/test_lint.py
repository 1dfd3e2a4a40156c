"""Each check meets a classifier made to fail it, and an honest one."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks
from adt_tf.linting import CHECKS, Finding, LintReport, counts, lint
from adt_tf.linting.subject import Subject
from adt_tf.threat_models import Linf
from tests.support.models import predicted

EPSILON = 0.15
SIZES = {"num_examples": 64, "batch_size": 32}
layers = keras.layers


def run(classifier, dataset, *checks, **arguments):
    settings = {"epsilon": EPSILON, "verbose": False, **SIZES, **arguments}
    return lint(classifier, dataset, checks=checks or None, **settings)


class Around:
    """A plain object around a model: neither hashable nor a Keras model."""

    __hash__ = None

    def __init__(self, model, before=tf.identity, after=tf.identity):
        self.model, self.before, self.after = model, before, after

    def __call__(self, x, training=False):
        return self.after(self.model(self.before(x), training=training))


def misleading(model, gradient_of):
    """The model's logits, with an input gradient of our own making."""

    @tf.custom_gradient
    def changed(x):
        return tf.identity(x), lambda slope: gradient_of(x, slope)

    return Around(model, before=changed)


def reversed_where(model, condition):
    """A gradient that points the wrong way at images [b, ...] of a kind."""

    def gradient_of(x, slope):
        wrong = tf.reshape(condition(x), [-1, 1, 1, 1])
        return tf.where(wrong, -slope, slope)

    return misleading(model, gradient_of)


def deviation(x, images):
    """|x - nearest image| for each pixel [b, pixels]."""
    flat = tf.reshape(x, [-1, 1, 64]) - tf.reshape(images, [1, -1, 64])
    nearest = tf.argmin(tf.reduce_mean(tf.abs(flat), axis=-1), axis=-1)
    return tf.abs(tf.gather(flat, nearest, axis=1, batch_dims=1))


def test_an_honest_classifier_passes_every_check(honest, digits):
    before = honest.get_weights()
    report = run(honest, digits)
    assert [f.check for f in report.findings] == list(CHECKS)
    assert {
        f.check: f.evidence
        for f in report.findings
        if (f.status != "pass" or f.advice)
    } == {}
    assert report.ok
    for old, new in zip(before, honest.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


# What the classifier takes and gives.


def test_wrong_labels_are_chance(honest, digits):
    x, y = digits
    finding = run(honest, (x, (y + 1) % 10), "accuracy")["accuracy"]
    assert finding.status == "fail"
    assert "chance is 10.0 %" in finding.evidence


def test_the_most_frequent_class_alone_is_a_warning(digits):
    x, y = digits
    y = np.where(np.arange(len(y)) % 4, 3, y)
    constant = Around(
        keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten()]),
        after=lambda z: tf.eye(10)[3] + 0.0 * z[:, :10],
    )
    assert run(constant, (x, y), "accuracy")["accuracy"].status == "warn"


@pytest.mark.parametrize(
    ("conversion", "best"),
    [
        (lambda x: x / 255, "255 * x"),
        (lambda x: x * 0.376 + 0.306, "(x - mean) / std"),
    ],
)
def test_another_input_range(honest, digits, conversion, best):
    model = Around(honest, before=conversion)
    finding = run(model, digits, "input_range")["input_range"]
    assert finding.status == "fail"
    assert f"works best on {best}:" in finding.advice


def test_rescaling_inside(honest, digits):
    def stacked(*first):
        return keras.Sequential([keras.Input((8, 8, 1)), *first, honest])

    small = layers.Rescaling(1 / 255)
    twice = run(stacked(small), digits, "input_range")["input_range"]
    assert twice.status == "fail"
    assert "Rescaling layers multiply x by 0.003922" in twice.evidence
    # Its accuracy is fine, and yet the layer says what it was made for.
    hidden = stacked(small, layers.Lambda(lambda x: 255 * x))
    assert run(hidden, digits, "input_range")["input_range"].status == "warn"
    mended = stacked(layers.Rescaling(255.0), small)
    assert run(mended, digits, "input_range")["input_range"].status == "pass"


@pytest.mark.parametrize(
    ("activation", "words"),
    [
        (tf.nn.softmax, "every row sums to one"),
        (tf.sigmoid, "as probabilities do"),
        (lambda z: z / 0.0, "64 of 64 rows of logits hold NaN or infinity"),
    ],
)
def test_outputs_that_are_no_logits(honest, digits, activation, words):
    report = run(Around(honest, after=activation), digits, "logits")
    assert report["logits"].status == "fail"
    assert words in report["logits"].evidence


# What should be the same from call to call.


class Forgetful(keras.Model):
    """Runs its first layer in training mode, whatever it is told."""

    def __init__(self, first, model):
        super().__init__()
        self.first, self.model = first, model

    def call(self, x, training=False):
        return self.model(self.first(x, training=True), training=training)


def test_dropout_that_never_ends(honest, digits):
    model = Forgetful(layers.Dropout(0.3, seed=1), honest)
    model(digits[0][:1])
    states = [np.array(v) for v in model.variables]
    report = run(model, digits, "randomness", "batch_independence", "state")
    statuses = [f.status for f in report.findings]
    assert statuses == ["fail", "skipped", "pass"]
    for old, new in zip(states, model.variables, strict=True):
        np.testing.assert_array_equal(old, np.array(new))


def test_random_gradients_of_a_steady_classifier(honest, digits):
    generator = tf.random.Generator.from_seed(0)
    model = misleading(
        honest, lambda x, slope: generator.normal(tf.shape(slope))
    )
    finding = run(model, digits, "randomness")["randomness"]
    assert finding.status == "fail"
    assert "up to 0 %" in finding.evidence
    assert "gradients on 100.0 %" in finding.evidence


def test_batch_norm_in_training_mode(honest, digits):
    model = Forgetful(layers.BatchNormalization(), honest)
    model(digits[0][:1])
    before = model.get_weights()
    report = run(model, digits, "randomness", "batch_independence", "state")
    statuses = [f.status for f in report.findings]
    assert statuses == ["pass", "fail", "fail"]
    assert report["state"].evidence.startswith("2 of 21 variables")
    assert "moving_mean" in report["state"].evidence
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_mean_of_the_batch(honest, digits):
    model = Around(
        honest, before=lambda x: x - 0.1 * tf.reduce_mean(x, 0, keepdims=True)
    )
    report = run(model, digits, "batch_independence")
    assert report["batch_independence"].status == "fail"


def test_the_place_in_the_batch(honest, digits):
    model = Around(
        honest,
        after=lambda z: (
            z + 0.1 * tf.range(len(z), dtype=z.dtype)[:, None] * tf.eye(10)[0]
        ),
    )
    report = run(model, digits, "batch_independence")
    assert report["batch_independence"].status == "fail"
    assert "among black images 0 %" in report["batch_independence"].evidence


# The input gradient.


def test_rounding_has_no_gradient(honest, digits):
    model = Around(honest, before=lambda x: tf.round(8 * x) / 8)
    report = run(
        model, digits, "differentiable", "finite_gradients", "black_box"
    )
    statuses = [f.status for f in report.findings]
    assert statuses == ["fail", "skipped", "skipped"]


def test_a_root_at_zero(honest, digits):
    # Two infinite slopes that should cancel give NaN.
    model = Around(honest, before=lambda x: x + tf.sqrt(x) - tf.pow(x, 0.5))
    # A NaN must neither stop an attack nor count as its success: it is a slope
    # of zero, and FGSM moves the other pixels.
    report = run(model, digits, "finite_gradients", "single_step")
    assert report["finite_gradients"].status == "fail"
    words = report["single_step"].evidence.split()
    assert words[:2] == ["FGSM", "breaks"] and words[3] == "of"
    assert 0 < int(words[2]) < int(words[4])


def test_large_logits_underflow_the_loss(honest, digits):
    model = Around(honest, after=lambda z: 1e4 * z)
    report = run(model, digits, "vanishing_gradients", "loss_choice")
    assert not report.ok
    assert [f.status for f in report.findings] == ["fail", "fail"]
    assert "on 0 the margin's" in report["vanishing_gradients"].evidence
    assert "The loss underflows" in report["vanishing_gradients"].advice


def test_tiny_gradients_are_a_warning(honest, digits):
    finding = run(
        Around(honest, after=lambda z: 4 * z), digits, "vanishing_gradients"
    )["vanishing_gradients"]
    assert finding.status == "warn"
    assert "exactly zero on 0 and" in finding.evidence


def test_a_flat_classifier(honest, digits):
    model = misleading(honest, lambda x, slope: tf.zeros_like(slope))
    report = run(model, digits, "vanishing_gradients")
    assert report["vanishing_gradients"].status == "fail"
    assert "exactly zero on 64" in report["vanishing_gradients"].evidence
    assert "itself is flat" in report["vanishing_gradients"].advice


def test_half_precision(honest, digits):
    def in_half(layer):
        config = {**layer.get_config(), "dtype": "mixed_float16"}
        return type(layer).from_config(config)

    model = keras.models.clone_model(honest, clone_function=in_half)
    weights = honest.get_weights()
    model.set_weights(weights)
    model.get_layer("logits").set_weights([2 * w for w in weights[-2:]])
    finding = run(model, digits, "precision")["precision"]
    assert finding.status == "fail"
    assert "float16;" in finding.evidence
    model.get_layer("logits").set_weights([0.1 * w for w in weights[-2:]])
    assert run(model, digits, "precision")["precision"].status == "warn"


# Gradient masking.


def test_single_step_beats_multi_step(honest, digits):
    # The digits' pixels are multiples of 1/16, so the gradient is right at
    # the clean image, where FGSM takes it, and wrong wherever PGD does.
    def off_grid(x):
        return tf.reduce_any(16 * x != tf.round(16 * x), axis=[1, 2, 3])

    model = reversed_where(honest, off_grid)
    assert run(model, digits, "single_step")["single_step"].status == "fail"


def test_a_reversed_gradient(honest, digits):
    model = reversed_where(honest, lambda x: tf.ones(tf.shape(x)[:1], tf.bool))
    names = ("random_noise", "black_box", "unbounded")
    report = run(model, digits, *names, epsilon=0.3)
    assert [f.status for f in report.findings] == ["fail"] * 3
    assert all("masking" in f.advice for f in report.findings)


def test_a_random_gradient(honest, digits):
    generator = tf.random.Generator.from_seed(0)
    model = misleading(
        honest, lambda x, slope: generator.normal(tf.shape(slope))
    )
    assert run(model, digits, "black_box")["black_box"].status == "fail"


def test_accuracy_that_rises_with_epsilon(honest, digits):
    images = digits[0]

    def far(x):
        return tf.reduce_max(deviation(x, images), axis=1) > 0.16

    report = run(reversed_where(honest, far), digits, "larger_epsilon")
    assert report["larger_epsilon"].status == "fail"
    assert "stand again with epsilon 0.3" in report["larger_epsilon"].evidence


def test_accuracy_that_rises_with_steps(honest, digits):
    images = digits[0]

    # Right at a random start, wrong as soon as steps lead away from it.
    def away(x):
        return tf.reduce_mean(deviation(x, images), axis=1) > 0.45 * EPSILON

    report = run(reversed_where(honest, away), digits, "more_steps")
    assert report["more_steps"].status == "fail"


# Statistics, report, arguments.


def tail(count, n, share):
    return sum(
        math.comb(n, k) * share**k * (1 - share) ** (n - k)
        for k in range(count, n + 1)
    )


@pytest.mark.parametrize("n", [16, 64, 128])
def test_a_count_is_judged_by_the_binomial_tail(n):
    seen = set()
    for count in range(n // 4):
        p = tail(count, n, 0.02)
        status, reported = counts.judged(count, n)
        assert reported == pytest.approx(p, rel=1e-6)
        assert status == ("fail" if p < 0.01 else "warn" if p < 0.1 else "pass")
        seen.add(status)
        stricter, _ = counts.judged(count, n, comparisons=3)
        assert (stricter == "fail") == (p < 0.01 / 3)
    assert seen == {"pass", "warn", "fail"}
    assert counts.judged(1, n)[0] != "fail"  # one example is no pattern


def test_monotone_counts_what_any_weaker_attack_broke():
    fallen = np.zeros([3, 100], bool)
    fallen[0, :30] = True
    fallen[1, 20:60] = True  # 20 of the first stand again
    fallen[2, 50:90] = True  # 50 of the first two do
    status, evidence = counts.monotone(fallen, ["a", "b", "c"])
    assert status == "fail"
    assert "30 with a, 40 with b, 40 with c; 50 that" in evidence
    p = tail(50, 100, 0.02)
    assert evidence.endswith(f"stand again with c (p = {p:.1g}).")
    assert counts.monotone(np.sort(fallen, 0), ["a", "b", "c"])[0] == "pass"


def test_an_attack_runs_once(honest, digits):
    x, y = (part[:20] for part in digits)
    subject = Subject(honest, x, y, threat_model=Linf(EPSILON), batch_size=8)
    attack = attacks.pgd(EPSILON, num_steps=5)
    standing = subject.standing(attack)
    right = predicted(honest, x) == y
    x_adv = attack(honest, x[right], y[right]).x_adv
    expected = predicted(honest, x_adv) == y[right]
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(standing, expected)
    again = subject.standing(attacks.pgd(EPSILON, num_steps=5))
    assert again is standing
    assert subject.standing(attacks.pgd(0.2, num_steps=5)) is not standing


def test_too_few_correct_examples(honest, digits):
    report = run(honest, digits, "single_step", num_examples=12)
    assert report["single_step"].status == "skipped"
    assert "of 12 examples" in report["single_step"].evidence


def test_the_table_and_the_dictionary():
    report = LintReport(
        [
            Finding("good", "pass", "All is well."),
            Finding("odd", "warn", "Strange.", "Look."),
            Finding("bad", "fail", "word " * 30, "act " * 40),
        ],
        num_examples=7,
        epsilon=0.1,
        seed=3,
    )
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    order = [line.split()[1] for line in lines if line[:4].strip("- ")][:3]
    assert order == ["bad", "odd", "good"]
    advice = next(line for line in lines if "->" in line)
    assert advice.index("->") > lines[1].index("word")
    assert lines[-1].startswith("1 fail, 1 warn, 0 skipped, 1 pass; 7 examples")
    read = json.loads(json.dumps(report.to_dict()))
    assert read["ok"] is False and read["findings"][1]["advice"] == "Look."
    assert report["odd"].evidence == "Strange."
    with pytest.raises(KeyError, match="No finding of 'other'"):
        report["other"]
    with pytest.raises(ValueError, match="status"):
        Finding("mine", "passed", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"checks": ["nope"]}, "names out of .*Received: checks=.'nope'"),
        ({"checks": "accuracy"}, "must be a list"),
        ({"checks": []}, "must be a list"),
        ({"epsilon": 0.0}, "above 0"),
        ({"epsilon": Linf(0.1, (-1.0, 1.0))}, "pixels of"),
        ({"num_examples": 0}, "num_examples=0"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_wrong_arguments(honest, digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        lint(honest, digits, **arguments)


def test_outputs_of_another_shape(honest, digits):
    with pytest.raises(ValueError, match=r"shape \(64, 5\)"):
        run(Around(honest, after=lambda z: z[:, :5]), digits, "accuracy")


def test_progress_is_shown(honest, digits, capsys):
    run(honest, digits, "accuracy", "logits", verbose=True)
    assert "2/2" in capsys.readouterr().out
