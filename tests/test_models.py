"""Classifiers from files: they must give the same logits and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks
from adt_tf.serving import loading
from tests.support.models import make_convolutional, predicted


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    classifier = make_convolutional()
    classifier.save(folder / "model.keras")
    adt_tf.export(classifier, folder / "ours")
    classifier.export(folder / "keras", verbose=False)
    signature = tf.function(
        lambda pixels: {"scores": classifier(pixels, training=False)},
        input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32)],
    )
    module = tf.Module()
    module.classifier = classifier
    tf.saved_model.save(module, str(folder / "module"), signature)
    generator = np.random.default_rng(1)
    x = generator.uniform(size=(20, 8, 8, 1)).astype("float32")
    y = predicted(classifier, x)
    return folder, classifier, x, y


@pytest.mark.parametrize("name", ["model.keras", "ours", "keras", "module"])
def test_logits_gradients_and_verdicts_are_the_same(name, case):
    folder, classifier, x, y = case
    loaded = loading.load(folder / name)
    np.testing.assert_allclose(
        loaded(tf.constant(x), training=False),
        classifier(x, training=False),
        atol=1e-5,
    )
    chosen = [attacks.pgd(0.02, num_steps=5), attacks.square(0.02)]
    chosen[1] = attacks.square(0.02, num_queries=50)
    expected, report = (
        adt_tf.evaluate(model, (x, y), chosen, verbose=False)
        for model in (classifier, loaded)
    )
    assert expected.accuracy == report.accuracy
    assert 0 < report.robust_accuracy < 1


def test_probabilities_are_attacked_through_their_logarithms(case, tmp_path):
    folder, classifier, x, y = case
    ends = keras.Sequential([classifier, keras.layers.Softmax()])
    ends.save(tmp_path / "ends.keras")
    refused = loading.load(tmp_path / "ends.keras")
    with pytest.raises(ValueError, match="must return logits"):
        adt_tf.evaluate(refused, (x, y), [attacks.fgsm(0.02)], verbose=False)
    loaded = loading.load(tmp_path / "ends.keras", probabilities=True)
    np.testing.assert_allclose(
        tf.nn.softmax(loaded(tf.constant(x))),
        tf.nn.softmax(classifier(x)),
        atol=1e-6,
    )
    reports = [
        adt_tf.evaluate(m, (x, y), [attacks.pgd(0.02)], verbose=False)
        for m in (classifier, loaded)
    ]
    assert reports[0].accuracy == reports[1].accuracy


def test_one_probability_stands_for_two(case, tmp_path):
    *_, x, _ = case
    ends = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    p = ends(x).numpy()[:, 0]
    y = (p > 0.5).astype(int)
    y[0] = 1 - y[0]
    ends.save(tmp_path / "one.keras")
    loaded = loading.load(tmp_path / "one.keras", probabilities=True)
    np.testing.assert_allclose(
        tf.nn.softmax(loaded(tf.constant(x)))[:, 1], p, atol=1e-6
    )
    report = adt_tf.evaluate(loaded, (x, y), [], verbose=False)
    assert report.accuracy["natural"] == 0.95
