import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, evaluation
from tests.conftest import make_convolutional

EPSILON = 0.1


@pytest.fixture
def classifier():
    return make_convolutional()


@pytest.fixture
def labelled(classifier):
    """Images labelled mostly as the classifier sees them."""
    generator = np.random.default_rng(5)
    x = generator.uniform(size=(30, 8, 8, 1)).astype("float32")
    y = classifier.predict(x, verbose=0).argmax(-1).astype("int32")
    y[:3] = (y[:3] + 1) % 10
    return x, y


def run(classifier, dataset, names=("fgsm", "pgd-5"), **arguments):
    chosen = [attacks.get(name, EPSILON) for name in names]
    return adt_tf.evaluate(
        classifier, dataset, chosen, verbose=False, **arguments
    )


def test_numbers_match_a_computation_by_hand(classifier, labelled):
    x, y = labelled
    report = run(classifier, labelled)
    right = [classifier.predict(x, verbose=0).argmax(-1) == y]
    for name in ("fgsm", "pgd-5"):
        x_adv = attacks.get(name, EPSILON)(classifier, x, y).x_adv
        right.append(classifier.predict(x_adv, verbose=0).argmax(-1) == y)
    np.testing.assert_allclose(
        list(report.accuracy.values()), np.mean(right, axis=1)
    )
    assert report.accuracy["natural"] == 0.9
    assert report.robust_accuracy == np.mean(np.all(right, axis=0))
    assert report.robust_accuracy <= min(report.accuracy.values())


def test_batch_size_and_container_do_not_matter(classifier, labelled):
    x, y = labelled
    slices = tf.data.Dataset.from_tensor_slices(labelled)
    expected = run(classifier, labelled, batch_size=30)
    for dataset, size in (
        (labelled, 7),
        (slices, 16),
        (slices.batch(4), 13),
        (data.ImageData(x, y, 10, "mine"), 32),
    ):
        report = run(classifier, dataset, batch_size=size)
        for name, outcome in expected.outcomes.items():
            np.testing.assert_array_equal(report.outcomes[name], outcome)


def test_prints_a_table(classifier, labelled):
    text = str(run(classifier, labelled))
    for part in ("natural", "90.00 %", "FGSM", "PGD-5", "A_rob", "30 examples"):
        assert part in text


def test_an_attack_that_leaves_the_ball_is_an_error(classifier, labelled):
    class Cheat(type(attacks.fgsm(EPSILON))):
        def sample(self, x, solution, **_):
            return attacks.AdversarialBatch(
                tf.clip_by_value(x[:, None] + 0.2, 0.0, 1.0),
                tf.zeros([tf.shape(x)[0], 1]),
                tf.zeros([tf.shape(x)[0], 1]),
            )

    plain = attacks.fgsm(EPSILON)
    cheat = Cheat(plain.family, plain.objective, plain.step_rule, num_steps=1)
    with pytest.raises(ValueError, match="left its threat model"):
        adt_tf.evaluate(classifier, labelled, [cheat], verbose=False)


def test_more_steps_never_help_the_defender(classifier, labelled):
    report = run(classifier, labelled, ["pgd-20", "pgd-100"])
    assert report.accuracy["PGD-100"] <= report.accuracy["PGD-20"] + 0.005


BAD_DATA = {
    "above 1": (lambda x, y: (x * 255, y), "divide them by 255|in \\[0, 1\\]"),
    "nan": (lambda x, y: (x * np.nan, y), "finite"),
    "rank": (lambda x, y: (x[..., 0], y), "shape"),
    "empty": (lambda x, y: (x[:0], y[:0]), "empty"),
    "label 10": (lambda x, y: (x, y + 10), "Labels go up to"),
    "label -1": (lambda x, y: (x, y - 100), "Labels must be"),
    "one-hot": (lambda x, y: (x, np.eye(10)[y]), "argmax"),
    "count": (lambda x, y: (x, y[:-1]), "one label for each image"),
    "no labels": (lambda x, y: x, "images, labels"),
}


@pytest.mark.parametrize("kind", BAD_DATA)
def test_bad_data_is_refused(kind, classifier, labelled):
    change, message = BAD_DATA[kind]
    with pytest.raises(ValueError, match=message):
        run(classifier, change(*labelled))


def test_softmax_is_refused(classifier, labelled):
    ends = keras.Sequential([classifier, keras.layers.Softmax()])
    with pytest.raises(ValueError, match="must return logits"):
        run(ends, labelled)

    class Hidden(keras.Model):
        def call(self, x):
            return tf.nn.softmax(classifier(x))

    with pytest.raises(ValueError, match="must return logits"):
        run(Hidden(), labelled)


def test_nan_logits_are_refused(classifier, labelled):
    classifier.set_weights([w * np.nan for w in classifier.get_weights()])
    with pytest.raises(ValueError, match="NaN or infinite logits"):
        run(classifier, labelled)


def test_same_names_are_refused(classifier, labelled):
    with pytest.raises(ValueError, match="different names"):
        run(classifier, labelled, ["pgd-5", "pgd-5"])


def test_report_is_json(classifier, labelled):
    import json

    report = run(classifier, labelled)
    again = json.loads(json.dumps(report.to_dict()))
    assert again["A_rob"] == report.robust_accuracy
    assert "epsilon=0.1" in again["attacks"]["FGSM"]
    assert evaluation.NATURAL in again["accuracy"]
