"""Tests that a misleading robust accuracy is shown with a warning."""

import csv
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, linting, threat_models
from adt_tf.evaluation import Report
from adt_tf.markdown import escape
from adt_tf.runs import evaluation_files, evaluation_job
from tests.support.masked_models import Forgetful

EPSILON = 0.1
layers = keras.layers


def stacked(*stack):
    return keras.Sequential([keras.Input((8, 8, 1)), *stack])


def dropping(model):
    return Forgetful(layers.Dropout(0.3, seed=1), model)


# What is wrong with a model, which check finds it, and what it says in brief.
WRONG = {
    "rounded input": (
        lambda m: stacked(
            layers.Lambda(lambda x: keras.ops.round(16 * x) / 16), m
        ),
        "differentiable",
        "no input gradient on 100 % of the examples",
    ),
    "gradient of zero": (
        lambda m: stacked(
            layers.Lambda(lambda x: keras.ops.round(16 * x) / 16 + 0 * x), m
        ),
        "vanishing_gradients",
        "zero input gradient on 100 % of the examples",
    ),
    "dropout": (dropping, "randomness", "its outputs or gradients are random"),
    "batch norm": (
        lambda m: Forgetful(layers.BatchNormalization(), m),
        "batch_independence",
        "its outputs depend on the rest of the batch",
    ),
    "0 to 255": (
        lambda m: stacked(layers.Rescaling(1 / 255), m),
        "input_range",
        "it expects 255 * x, not images x in [0, 1]",
    ),
    "-1 to 1": (
        lambda m: stacked(layers.Rescaling(0.5, offset=0.5), m),
        "input_range",
        "it expects 2 * x - 1, not images x in [0, 1]",
    ),
}


@pytest.fixture(scope="module")
def examples(digits):
    x, y = digits
    return x[:48], y[:48]


def run(model, examples, **arguments):
    return adt_tf.evaluate(
        model, examples, [attacks.fgsm(EPSILON)], verbose=False, **arguments
    )


@pytest.mark.parametrize("kind", WRONG)
def test_a_misleading_number_does_not_stand_alone(kind, honest, examples):
    make, check, brief = WRONG[kind]
    report = run(make(honest), examples)
    assert check in [warning.check for warning in report.warnings]
    assert brief in report.caveat
    (line,) = (s for s in str(report).splitlines() if s.startswith("A_rob"))
    assert line.endswith(f"({report.caveat})")
    row = next(s for s in report.to_markdown().splitlines() if "A_rob" in s)
    cell = f"{100 * report.robust_accuracy:.2f} ({escape(report.caveat)})"
    assert f"{cell} |" in row
    advice = next(w.advice for w in report.warnings if w.check == check)
    assert advice and escape(advice) in report.to_markdown()
    again = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again.warnings == report.warnings


def test_query_attacks_on_a_blind_classifier_count(honest, examples):
    """Only the attacks that need the gradient are not to be trusted."""
    chosen = [
        attacks.fgsm(EPSILON),
        attacks.get("spsa-2", EPSILON),
        attacks.square(EPSILON, num_queries=30),
    ]
    model = WRONG["rounded input"][0](honest)
    report = adt_tf.evaluate(model, examples, chosen, verbose=False)
    assert report.untrusted == ["FGSM"]
    assert report.caveat.startswith("an upper bound by query attacks alone: no")
    lines = str(report).splitlines()
    marked = [line.split()[0] for line in lines if "not to be trusted" in line]
    assert marked == ["FGSM"]
    again = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again.caveat == report.caveat
    # A random classifier spoils queries as well.
    report = adt_tf.evaluate(dropping(honest), examples, chosen, verbose=False)
    assert report.untrusted == list(report.attacks)
    assert report.caveat.startswith("not to be trusted")


def test_the_csv_file_says_so(honest, examples):
    head = run(WRONG["dropout"][0](honest), examples).to_csv().splitlines()[0]
    _, natural, fgsm, *robust = next(csv.reader([head]))[0:4]
    assert natural == "natural" and fgsm == "FGSM (not to be trusted)"
    assert robust[0].startswith("A_rob (not to be trusted: its outputs")
    head = run(honest, examples).to_csv().splitlines()[0]
    assert head == "example,natural,FGSM,A_rob"


def test_normalised_input_is_noticed(honest, digits):
    """Close ranges need more examples than 0..1 and 0..255 do."""
    x, y = digits
    mean, deviation = float(x.mean()), float(x.std())
    model = stacked(layers.Rescaling(deviation, offset=mean), honest)
    report = run(model, (x, y))
    assert "expects (x - mean) / std, not images x in" in report.caveat


@pytest.mark.parametrize(
    "make", [lambda m: m, dropping], ids=["honest", "drop"]
)
def test_the_checks_change_no_verdict(make, honest, examples, monkeypatch):
    report = run(make(honest), examples)
    monkeypatch.setattr(linting, "quick_failures", lambda *_, **__: ())
    without = run(make(honest), examples)
    for name, outcome in without.outcomes.items():
        np.testing.assert_array_equal(report.outcomes[name], outcome)


def test_an_honest_classifier_gets_no_warning(honest, examples):
    report = run(honest, examples)
    assert report.warnings == () and report.caveat == ""
    assert "trusted" not in str(report) + report.to_markdown()


def test_other_bounds_are_meant(honest, examples):
    """A classifier of [-1, 1] is correct for attacks with these bounds."""
    x, y = examples
    model = stacked(layers.Rescaling(0.5, offset=0.5), honest)
    ball = threat_models.Linf(2 * EPSILON, (-1.0, 1.0))
    report = adt_tf.evaluate(
        model, (2 * x - 1, y), [attacks.fgsm(ball)], verbose=False
    )
    assert report.warnings == ()
    assert (
        report.accuracy["natural"] == run(honest, examples).accuracy["natural"]
    )


def test_a_classifier_of_one_batch_size_is_evaluated(honest, examples):
    """The checks need other batch sizes, so they are reported as skipped."""

    def fixed(x, training=False):
        return honest(tf.ensure_shape(x, [16, 8, 8, 1]), training=training)

    # Ascents show a classifier the halves of a batch; this attack does not.
    square = [attacks.square(EPSILON, num_queries=3)]
    settings = {"batch_size": 16, "verbose": False}
    report = adt_tf.evaluate(fixed, examples, square, **settings)
    (warning,) = report.warnings
    assert warning.status == "skipped" and report.caveat == ""
    assert "could not be checked" in str(report)
    plain = adt_tf.evaluate(honest, examples, square, **settings)
    assert report.accuracy == plain.accuracy


def test_the_warning_is_printed_before_the_attacks(honest, examples, capsys):
    model = WRONG["rounded input"][0](honest)
    adt_tf.evaluate(model, examples, [attacks.fgsm(EPSILON)])
    printed = " ".join(capsys.readouterr().out.split())
    assert "The gradient of the loss with respect to the image is" in printed


# Accuracy of each class.


def test_accuracy_of_each_class_by_hand(honest, examples):
    x, y = examples
    names = [f"digit {i}" for i in range(10)]
    test = data.ImageData(x, y, 10, "mine", names)
    report = run(honest, test)
    rows = {row.name: row for row in report.classes}
    assert list(rows) == names
    for label, row in enumerate(rows.values()):
        of_class = [i for i in range(len(y)) if y[i] == label]
        robust = [report.robust[i] for i in of_class]
        natural = [report.outcomes["natural"][i] == 1 for i in of_class]
        assert row.num_examples == len(of_class)
        assert row.robust == sum(robust) / len(of_class)
        assert row.natural == sum(natural) / len(of_class)
        assert row.interval[0] <= row.robust <= row.interval[1]
    values = json.loads(json.dumps(report.to_dict()))
    assert [row["name"] for row in values["classes"]] == names
    assert Report.from_dict(values).classes == report.classes
    unnamed = run(honest, examples).classes
    assert [row.name for row in unnamed] == [str(i) for i in range(10)]
    assert [row.robust for row in unnamed] == [r.robust for r in report.classes]
    renamed = run(honest, examples, class_names=names[::-1]).classes
    assert [row.name for row in renamed] == names[::-1]


@pytest.mark.parametrize("names", ["abcdefghij", ["a", "b"], [1] * 10, 3])
def test_wrong_names_are_refused(names, honest, examples):
    with pytest.raises(ValueError, match="`class_names` must hold a string"):
        run(honest, examples, class_names=names)


def test_an_earlier_evaluation_is_read_without_them(honest, examples):
    values = run(honest, examples).to_dict()
    for name in ("warnings", "classes", "class_names", "labels"):
        del values[name]
    report = Report.from_dict(values)
    assert report.warnings is None and report.caveat == ""
    assert report.classes == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("warnings", [{"check": "logits", "status": "odd", "evidence": ""}]),
        ("warnings", "none"),
        ("labels", "1 2 3"),
        ("labels", "a " * 48),
        ("labels", "-1 " * 48),
        ("labels", "99999999999999999999 " * 48),
        ("class_names", ["a"]),
    ],
)
def test_spoiled_details_are_refused(field, value, honest, examples, tmp_path):
    path = tmp_path / "evaluation.json"
    values = run(honest, examples).to_dict() | {field: value}
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="evaluation.json"):
        evaluation_files.read(path)


def test_a_comparison_says_so(honest, examples, tmp_path):
    x, y = examples
    test = data.ImageData(x, y, 10, "mine")
    models = {"good": honest, "bad": WRONG["rounded input"][0](honest)}
    for name, model in models.items():
        evaluation_job.assess(
            model,
            test,
            [attacks.fgsm(EPSILON)],
            tmp_path / f"{name}.json",
            details={},
            verbose=False,
        )
    text = evaluation_job.compare(*(tmp_path / f"{n}.json" for n in models))
    assert text.count("not to be trusted: no input gradient") == 1
    assert "bad.json: not to be" in text


def test_names_come_with_the_data(tmp_path, digits):
    x, y = (part[:20] for part in digits)
    names = np.array([f"digit {i}" for i in range(10)])
    path = tmp_path / "mine.npz"
    np.savez(path, images=x, labels=y, class_names=names)
    loaded = data.load(str(path), split="test")
    assert loaded.class_names == tuple(names)
    np.savez(path, images=x, labels=y, class_names=np.arange(10))
    with pytest.raises(ValueError, match="class_names"):
        data.load(str(path), split="test")
