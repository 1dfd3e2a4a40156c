"""Tests each check on a classifier that must fail it, and on an honest one."""

import json
import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf import attacks, networks
from adt_tf.linting import CHECKS, Finding, LintReport, counts, lint
from adt_tf.linting.rules import masking
from adt_tf.linting.subject import Subject
from adt_tf.threat_models import Linf
from tests.support.masked_models import (
    EPSILON,
    Around,
    Forgetful,
    make_honest,
    make_linear,
    make_masked,
    misleading,
    random_gradient,
)
from tests.support.models import predicted

SIZES = {"num_examples": 64, "batch_size": 32}
layers = keras.layers


def run(classifier, dataset, *checks, **arguments):
    settings = {"epsilon": EPSILON, "verbose": False, **SIZES, **arguments}
    return lint(classifier, dataset, checks=checks or None, **settings)


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


RANGES = {
    "255 * x": lambda x: x / 255,
    "2 * x - 1": lambda x: (x + 1) / 2,
    "(x - mean) / std": lambda x: x * 0.376 + 0.306,
    "(x - mean) / std of ImageNet": lambda x: (
        x * [0.229, 0.224, 0.225] + [0.485, 0.456, 0.406]
    ),
}


@pytest.mark.parametrize("best", RANGES)
def test_another_input_range(honest, digits, best):
    x, y = digits
    x = np.repeat(x, 3 if "ImageNet" in best else 1, axis=-1)

    def narrow(x):
        # Beyond its range the classifier sees nothing at all.
        converted = RANGES[best](x)
        low, high = tf.reduce_min(converted), tf.reduce_max(converted)
        fits = (abs(low) < 0.02) & (abs(high - 1) < 0.02)
        image = tf.reduce_mean(converted, axis=-1, keepdims=True)
        return tf.where(fits, image, 0.0 * image)

    model = Around(honest, before=narrow)
    finding = run(model, (x, y), "input_range")["input_range"]
    assert finding.status == "fail"
    assert f"works best on {best}:" in finding.advice
    assert f"expects {best}, not" in finding.brief


def test_a_higher_accuracy_by_chance_is_explained(honest, digits):
    x = digits[0]
    plain, doubled = predicted(honest, x), predicted(honest, 2 * x - 1)
    differ = np.flatnonzero(plain != doubled)[:3]
    rows = np.concatenate([np.flatnonzero(plain == doubled)[:40], differ])
    report = run(honest, (x[rows], doubled[rows]), "input_range")
    finding = report["input_range"]
    assert finding.status == "pass"
    assert (
        f"; 2 * x - 1 gains 3 of {len(rows)} examples, which may be chance "
        "(p = 0.1)."
    ) in finding.evidence


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
    finding = run(random_gradient(honest), digits, "randomness")["randomness"]
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
        model,
        digits,
        "differentiable",
        "finite_gradients",
        "black_box",
        "single_step",
        epsilon=0.3,
    )
    statuses = {f.check: f.status for f in report.findings}
    assert statuses == {
        "differentiable": "fail",
        "finite_gradients": "skipped",
        "single_step": "skipped",
        # Square needs no gradient.
        "black_box": "fail",
    }


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
    assert "underflows" not in finding.advice and "margin" in finding.advice


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
    # The gradient is right at the clean image, where FGSM takes it, and wrong
    # wherever PGD does.
    model = make_masked(honest, digits[0])["reversed off the grid"]()
    assert run(model, digits, "single_step")["single_step"].status == "fail"


def test_a_reversed_gradient(honest, digits):
    model = make_masked(honest, digits[0])["reversed gradient"]()
    names = ("random_noise", "black_box", "unbounded")
    report = run(model, digits, *names, epsilon=0.3)
    assert [f.status for f in report.findings] == ["fail"] * 3
    assert all("masking" in f.advice for f in report.findings)


def test_a_random_gradient(honest, digits):
    model = random_gradient(honest)
    assert run(model, digits, "black_box")["black_box"].status == "fail"


def test_a_linear_classifier_is_honest(digits):
    """Its logits are small, so the gradient points to all classes at once."""
    model = make_linear(epochs=5, seed=1)
    finding = run(model, digits, "loss_choice", num_examples=128)["loss_choice"]
    assert finding.status == "pass", finding.evidence


def test_masking_cannot_be_told_at_chance(digits):
    model = networks.get("small_cnn", input_shape=(8, 8, 1), width=4)
    x, y = digits
    # As many of each class as it names: at chance for sure.
    y = np.random.default_rng(0).permutation(y)
    report = run(model, (x, y), "accuracy", *masking.CHECKS, num_examples=500)
    assert report["accuracy"].status == "fail"
    for name in masking.CHECKS:
        assert report[name].status == "skipped"
        assert "at chance" in report[name].evidence
        assert report[name].advice == "See `accuracy` first."


@pytest.mark.slow
def test_the_score_on_masked_and_honest_models(honest, digits):
    """All twelve masked models fail; no honest one fails or gets a warning."""

    def statuses(models):
        return {
            name: {
                finding.check: finding.status
                for finding in run(make(), digits, num_examples=128).findings
            }
            for name, make in models.items()
        }

    masked = statuses(make_masked(honest, digits[0]))
    assert len(masked) == 12
    assert all("fail" in by_check.values() for by_check in masked.values()), (
        masked
    )
    others = statuses(make_honest(honest))
    assert len(others) == 9
    assert {s for by_check in others.values() for s in by_check.values()} == {
        "pass"
    }


def test_accuracy_that_rises_with_epsilon(honest, digits):
    model = make_masked(honest, digits[0])["reversed far away"]()
    report = run(model, digits, "larger_epsilon")
    assert report["larger_epsilon"].status == "fail"
    assert "withstand epsilon 0.3" in report["larger_epsilon"].evidence


def test_accuracy_that_rises_with_steps(honest, digits):
    model = make_masked(honest, digits[0])["reversed after steps"]()
    report = run(model, digits, "more_steps")
    assert report["more_steps"].status == "fail"


# Statistics, report, arguments.


def tail(count, n, share):
    return sum(
        math.comb(n, k) * share**k * (1 - share) ** (n - k)
        for k in range(count, n + 1)
    )


@pytest.mark.parametrize("n", [16, 64, 128])
def test_a_count_is_judged_by_the_binomial_tail(n):
    statuses = set()
    for count in range(n // 4):
        p = tail(count, n, 0.02)
        status, reported = counts.judge(count, n)
        assert reported == pytest.approx(p, rel=1e-6)
        assert status == ("fail" if p < 0.01 else "warn" if p < 0.1 else "pass")
        statuses.add(status)
        stricter, _ = counts.judge(count, n, comparisons=3)
        assert (stricter == "fail") == (p < 0.01 / 3)
    assert statuses == {"pass", "warn", "fail"}
    assert counts.judge(1, n)[0] != "fail"  # one example is no pattern


def test_monotone_counts_what_any_weaker_attack_broke():
    fallen = np.zeros([3, 100], bool)
    fallen[0, :30] = True
    fallen[1, 20:60] = True  # 20 of the first stand again
    fallen[2, 50:90] = True  # 50 of the first two do
    status, evidence = counts.monotone(fallen, ["a", "b", "c"])
    assert status == "fail"
    assert "30 with a, 40 with b, 40 with c; 50 of" in evidence
    p = tail(50, 100, 0.02)
    assert evidence.endswith(f"withstand c (p = {p:.1g}).")
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


class Unbroken:
    """A stand-in for a subject on which no attack succeeds."""

    threat_model, epsilon = Linf(EPSILON), EPSILON
    images, labels = np.zeros([4, 8, 8, 1], np.float32), np.zeros(4, int)
    correct, num_classes, spread = np.ones(4, bool), 10, 100.0
    batch_size, seed = 4, 0

    def standing(self, attack, scale=1.0):
        return np.ones(4, bool)

    def predict(self, x):
        return np.eye(10)[np.zeros(len(x), int)]


@pytest.mark.parametrize("name", masking.CHECKS)
def test_a_warning_has_advice_of_its_own(name, monkeypatch):
    advice = {}
    for status in ("warn", "fail"):
        verdict = (status, 0.05)
        monkeypatch.setattr(counts, "judge", lambda *a, j=verdict, **k: j)
        returned, _, advice[status] = CHECKS[name](Unbroken())
        assert returned == status
    doubt = re.compile("may be (chance|a weak objective)")
    assert doubt.search(advice["warn"])
    assert not doubt.search(advice["fail"])


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
        ({"checks": ["nope"]}, "names from .*Received: checks=.'nope'"),
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
    *checks, end = capsys.readouterr().out.split("\r")[1:]
    assert [text.rstrip() for text in checks] == [
        "Check 1 of 2: accuracy",
        "Check 2 of 2: logits",
    ]
    assert re.fullmatch(
        r"2 checks in \d+\.\d s; longest: \w+ \d+\.\d s, \w+ \d+\.\d s\n", end
    )
