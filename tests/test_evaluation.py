import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, evaluation
from adt_tf.attacks.resumable import Pieces
from tests.support.models import make_convolutional, predicted

EPSILON = 0.1


@pytest.fixture
def classifier():
    return make_convolutional()


@pytest.fixture
def labelled(classifier):
    """Images labelled mostly as the classifier sees them."""
    generator = np.random.default_rng(5)
    x = generator.uniform(size=(30, 8, 8, 1)).astype("float32")
    y = predicted(classifier, x)
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
    right = [predicted(classifier, x) == y]
    for name in ("fgsm", "pgd-5"):
        x_adv = attacks.get(name, EPSILON)(classifier, x, y).x_adv
        right.append(predicted(classifier, x_adv) == y)
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


def test_survivors_alone_are_attacked_unless_asked(classifier, labelled):
    names = ["fgsm", "pgd-5", "cw-5"]
    alone = run(classifier, labelled, names, independent=True)
    turns = run(classifier, labelled, names)
    assert alone.robust_accuracy == turns.robust_accuracy
    np.testing.assert_array_equal(alone.robust, turns.robust)
    standing = np.ones(30, bool)
    for name, outcome in turns.outcomes.items():
        # What has fallen is not run again; what stands has a verdict.
        np.testing.assert_array_equal(outcome == -1, ~standing)
        standing &= alone.outcomes[name] == 1
        assert turns.accuracy[name] == standing.mean()
    for name in ("FGSM", "PGD-5", "C&W-5"):
        ran = alone.outcomes[name] != -1
        np.testing.assert_array_equal(ran, alone.outcomes["natural"] == 1)


def test_parts_run_on_what_still_stands(classifier, labelled, monkeypatch):
    seen, original = [], Pieces.__init__

    def counting(self, attack, classifier, x, y, *, part, **keywords):
        seen.append((part, len(x)))
        original(self, attack, classifier, x, y, part=part, **keywords)

    monkeypatch.setattr(Pieces, "__init__", counting)
    attack = attacks.Restarts(attacks.pgd(0.02, num_steps=2), 5)
    report = adt_tf.evaluate(
        classifier, labelled, [attack], batch_size=16, verbose=False
    )
    parts = [part for part, _ in seen]
    assert parts == sorted(parts) and set(parts) <= set(range(5))
    images = np.array([[part, n] for part, n in seen])
    shown = [images[images[:, 0] == p, 1].sum() for p in range(5)]
    # 27 of 30 are right when clean: a batch of 16 and one padded to 16.
    assert shown[0] == 32
    assert shown == sorted(shown, reverse=True)
    assert set(images[:, 1]) <= {16, 4}
    whole = attacks.Restarts(attacks.pgd(0.02, num_steps=2), 5)
    x, y = labelled
    x_adv = whole(classifier, x, y).x_adv
    right = predicted(classifier, x_adv) == y
    np.testing.assert_array_equal(report.robust, right)


def test_keeps_the_images_that_break_it(classifier, labelled):
    x, y = labelled
    report = run(classifier, labelled, keep_examples=True)
    assert np.abs(report.examples - x).max() <= EPSILON + 1e-6
    right = predicted(classifier, report.examples) == y
    np.testing.assert_array_equal(right, report.robust)
    # What is wrong by nature is kept as it is.
    np.testing.assert_array_equal(report.examples[:3], x[:3])


@pytest.mark.parametrize("stop_at", [1, 3, 6])
def test_goes_on_where_it_stopped(
    stop_at, classifier, labelled, tmp_path, monkeypatch
):
    from adt_tf.evaluation import state

    monkeypatch.setattr(state, "_SAVE_EVERY", 0.0)
    names, options = ["fgsm", "pgd-3x3"], {"batch_size": 8}
    expected = run(classifier, labelled, names, **options)
    calls = []
    original = Pieces.__init__

    def counted(self, attack, *arguments, **keywords):
        calls.append(attack.name)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        original(self, attack, *arguments, **keywords)

    monkeypatch.setattr(Pieces, "__init__", counted)
    options["directory"] = tmp_path
    with pytest.raises(KeyboardInterrupt):
        run(classifier, labelled, names, **options)
    assert list(tmp_path.iterdir())
    stopped, stop_at = len(calls), 0
    report = run(classifier, labelled, names, **options)
    for name, outcome in expected.outcomes.items():
        np.testing.assert_array_equal(report.outcomes[name], outcome)
    assert not list(tmp_path.iterdir())
    once = len(calls) - stopped
    calls.clear()
    run(classifier, labelled, names, **options)
    # The batch that was interrupted is run twice, the others once.
    assert once + stopped - 1 == len(calls)


def test_nothing_is_lost_where_the_report_cannot_be_written(
    classifier, labelled, tmp_path, monkeypatch
):
    settings = evaluation.Settings(directory=tmp_path, verbose=False)
    arguments = (classifier, labelled, [attacks.fgsm(0.1)], settings)
    with (
        pytest.raises(OSError, match="No space"),
        evaluation.evaluated(*arguments),
    ):
        raise OSError("No space left on device")
    monkeypatch.setattr(Pieces, "__init__", None)
    with evaluation.evaluated(*arguments) as report:
        assert list(tmp_path.iterdir())
    assert set(report.accuracy) == {"natural", "FGSM"}
    assert not list(tmp_path.iterdir())


def test_another_evaluation_is_not_gone_on_with(
    classifier, labelled, tmp_path, monkeypatch
):
    original = Pieces.__init__

    def broken(self, *arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pieces, "__init__", broken)
    with pytest.raises(KeyboardInterrupt):
        run(classifier, labelled, directory=tmp_path)
    monkeypatch.setattr(Pieces, "__init__", original)
    weights = classifier.get_weights()
    classifier.set_weights([weights[0] * 1.5, *weights[1:]])
    expected = run(classifier, labelled)
    report = run(classifier, labelled, directory=tmp_path)
    assert report.accuracy == expected.accuracy
    # The other's file is left alone.
    assert len(list(tmp_path.iterdir())) == 1


def half_precision(classifier):
    """The same network and weights, computed in mixed_float16."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        twin = make_convolutional()
    finally:
        keras.config.set_dtype_policy("float32")
    twin.set_weights(classifier.get_weights())
    return twin


SAME_WEIGHTS = {
    "another head": (
        lambda m: m,
        lambda m: keras.Sequential([m, keras.layers.Rescaling(1e4)]),
    ),
    "a function": (
        lambda m: lambda x, training: m(x, training=training),
        lambda m: lambda x, training: -m(x, training=training),
    ),
    "half precision": (lambda m: m, half_precision),
}


@pytest.mark.parametrize("kind", SAME_WEIGHTS)
def test_another_model_of_the_same_weights_starts_anew(
    kind, classifier, labelled, tmp_path, monkeypatch, capsys
):
    original = Pieces.__init__

    def broken(self, *arguments, **keywords):
        raise KeyboardInterrupt

    one, other = (make(classifier) for make in SAME_WEIGHTS[kind])
    monkeypatch.setattr(Pieces, "__init__", broken)
    chosen = [attacks.fgsm(EPSILON)]
    with pytest.raises(KeyboardInterrupt):
        adt_tf.evaluate(one, labelled, chosen, directory=tmp_path)
    (path,) = tmp_path.iterdir()
    kept = path.read_bytes()
    monkeypatch.setattr(Pieces, "__init__", original)
    for model, told in ((one, "Continuing an"), (other, "Starting anew: ")):
        path.write_bytes(kept)
        capsys.readouterr()
        report = adt_tf.evaluate(model, labelled, chosen, directory=tmp_path)
        assert told in capsys.readouterr().out
        expected = adt_tf.evaluate(model, labelled, chosen, verbose=False)
        assert report.accuracy == expected.accuracy


def test_an_unreadable_state_is_worked_out_again(
    classifier, labelled, tmp_path, monkeypatch
):
    from adt_tf.evaluation.state import State

    remove = State.remove
    monkeypatch.setattr(State, "remove", lambda self: None)
    expected = run(classifier, labelled, directory=tmp_path)
    monkeypatch.setattr(State, "remove", remove)
    # A slow machine has saved a batch as well.
    (path,) = (p for p in tmp_path.iterdir() if ".batch" not in p.name)
    path.write_bytes(path.read_bytes()[:100])
    report = run(classifier, labelled, directory=tmp_path)
    assert report.accuracy == expected.accuracy


def test_wilson_interval_solves_its_equation():
    # Its ends are the shares from which the measured one is z deviations off.
    for count, total in ((0, 10), (3, 10), (500, 1000), (999, 1000)):
        low, high = evaluation.wilson_interval(count, total)
        for end in (low, high):
            if end in (0.0, 1.0):
                continue
            deviation = np.sqrt(end * (1 - end) / total)
            assert abs(abs(count / total - end) / deviation - 1.959964) < 1e-4
        assert low <= count / total <= high


def test_mcnemar_by_hand():
    first = np.array([1, 1, 1, 1, 1, 1, 0, 0, 1, 1], bool)
    second = np.array([0, 0, 0, 0, 0, 1, 1, 0, 1, 1], bool)
    test = evaluation.mcnemar(first, second)
    assert (test.first_only, test.second_only) == (5, 1)
    # 2 * P(at most 1 of 6 falls the other way) = 2 * (1 + 6) / 64
    assert test.p_value == pytest.approx(14 / 64)
    assert test.difference == pytest.approx(0.4)
    assert evaluation.mcnemar(first, first).p_value == 1.0
    with pytest.raises(ValueError, match="same examples"):
        evaluation.mcnemar(first, second[:5])


def test_reports_are_compared_pair_by_pair(classifier, labelled):
    first = run(classifier, labelled, independent=True)
    other = run(make_convolutional(seed=1), labelled, independent=True)
    tests = evaluation.compare(first, other)
    assert set(tests) == {"natural", "FGSM", "PGD-5", "A_rob"}
    difference = first.robust_accuracy - other.robust_accuracy
    assert tests["A_rob"].difference == pytest.approx(difference)
    with pytest.raises(ValueError, match="can be compared only if"):
        evaluation.compare(first, run(classifier, labelled, ["fgsm"]))


def test_only_the_same_examples_are_compared(classifier, labelled):
    x, y = labelled
    first = run(classifier, labelled, ["fgsm"])
    other = run(classifier, (x[::-1], y[::-1]), ["fgsm"])
    with pytest.raises(ValueError, match="different images or labels"):
        evaluation.compare(first, other)
    # What an earlier version wrote says nothing of them.
    values = other.to_dict()
    del values["examples_sha256"]
    evaluation.compare(first, evaluation.Report.from_dict(values))
    with pytest.raises(ValueError, match="the same seed, such as --seed=0"):
        evaluation.compare(first, run(classifier, labelled, ["fgsm"], seed=1))


def test_report_survives_json_and_has_a_matrix(classifier, labelled):
    import json

    report = run(classifier, labelled)
    again = evaluation.Report.from_dict(
        json.loads(json.dumps(report.to_dict()))
    )
    for name, outcome in report.outcomes.items():
        np.testing.assert_array_equal(again.outcomes[name], outcome)
    header, *rows = report.to_csv().splitlines()
    assert header == "example,natural,FGSM,PGD-5,A_rob"
    assert len(rows) == 30 and rows[0] == "0,0,-,-,0"
    table = report.to_markdown()
    assert "| natural | 90.00 | 74.4 to 96.5 |" in table
    with pytest.raises(ValueError, match="not a valid evaluation"):
        evaluation.Report.from_dict({"accuracy": {}})


def test_prints_a_table(classifier, labelled):
    text = str(run(classifier, labelled))
    for part in ("natural", "90.00 %", "FGSM", "PGD-5", "A_rob", "30 examples"):
        assert part in text


def test_an_attack_that_leaves_the_ball_is_an_error(classifier, labelled):
    class Cheat(type(attacks.fgsm(EPSILON))):
        def finish(self, problem, progress):
            batch = super().finish(problem, progress)
            far = tf.clip_by_value(problem.x + 0.2, 0.0, 1.0)
            return batch._replace(x_adv=far)

    plain = attacks.fgsm(EPSILON)
    cheat = Cheat(plain.family, plain.objective, plain.step_rule, num_steps=1)
    with pytest.raises(ValueError, match="left its threat model"):
        adt_tf.evaluate(classifier, labelled, [cheat], verbose=False)


def test_more_steps_never_help_the_defender(classifier, labelled):
    report = run(classifier, labelled, ["pgd-20", "pgd-100"])
    assert report.accuracy["PGD-100"] <= report.accuracy["PGD-20"] + 0.005


BAD_DATA = {
    "above 1": (lambda x, y: (x * 255, y), "divide them by the|in \\[0, 1\\]"),
    "nan": (lambda x, y: (x * np.nan, y), "finite"),
    "rank": (lambda x, y: (x[..., 0], y), "shape"),
    "empty": (lambda x, y: (x[:0], y[:0]), "empty"),
    "label 10": (lambda x, y: (x, y + 10), "Labels go up to"),
    "label -1": (lambda x, y: (x, y - 100), "Labels must be"),
    "two-hot": (lambda x, y: (x, 2 * np.eye(10)[y]), "add up to 1"),
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


def test_logits_that_only_an_attack_spoils_are_told_apart(labelled):
    x, _ = labelled
    x = np.minimum(x, 0.5)
    network = make_convolutional()
    y = predicted(network, x)

    def overflows(x, training):
        logits = network(x, training=training)
        limit = tf.reduce_max(x, axis=[1, 2, 3]) > 0.5
        return tf.where(limit[:, None], logits / 0.0, logits)

    class Bright(attacks.PointAttack):
        length = 0

        def finish(self, problem, progress):
            brighter = tf.clip_by_value(problem.x + EPSILON, 0.0, 1.0)
            return attacks.AdversarialBatch(brighter, problem.y, problem.y)

    attack = Bright(attacks.fgsm(EPSILON).threat_model, "Bright")
    with pytest.raises(ValueError, match="example 0 under Bright, though not"):
        adt_tf.evaluate(overflows, (x, y), [attack], verbose=False)


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


@pytest.mark.parametrize("row", [[0.4, 0.6], [1.0]], ids=["two", "one"])
def test_logits_of_one_image_may_add_up_to_one(row, images):
    x, _ = images

    def classifier(x, training=False):
        return tf.constant([row]) + 0 * tf.reduce_sum(x, [1, 2, 3])[:, None]

    report = adt_tf.evaluate(classifier, (x[:1], [1]), [], verbose=False)
    assert report.accuracy["natural"] == 1.0
    softmax = np.tile([[0.4, 0.6]], [len(x), 1])
    with pytest.raises(ValueError, match="look like softmax"):
        adt_tf.evaluate(
            lambda x, training: tf.constant(softmax[: x.shape[0]]),
            (x, np.ones(len(x), int)),
            [],
            verbose=False,
        )


def test_a_softmax_in_bfloat16_is_refused(images):
    x, y = images
    z = tf.random.stateless_normal([len(x), 10], [0, 0], dtype=tf.float32)
    p = tf.nn.softmax(tf.cast(3 * z, tf.bfloat16))
    with pytest.raises(ValueError, match="look like softmax"):
        adt_tf.evaluate(
            lambda images, training: p[: images.shape[0]],
            (x, y),
            [],
            verbose=False,
        )


@pytest.mark.parametrize("role", ["classifier", "source"])
def test_an_object_may_exchange_its_model(role, images):
    class Holder:
        def __call__(self, x, training=False):
            return self.model(x, training=training)

    holder, (x, _) = Holder(), images
    attack, target = attacks.pgd(0.1, num_steps=3), holder
    if role == "source":
        target = make_convolutional(3)
        attack = attacks.Transfer(holder, attack)
    for seed in (0, 1):
        holder.model = make_convolutional(seed)
        direct = attack
        if role == "source":
            direct = attacks.Transfer(
                holder.model, attacks.pgd(0.1, num_steps=3)
            )
        classifier = holder.model if role == "classifier" else target
        y = predicted(classifier, x)
        one, other = (
            adt_tf.evaluate(*each, verbose=False, keep_examples=True)
            for each in (
                (target, (x, y), [attack]),
                (classifier, (x, y), [direct]),
            )
        )
        np.testing.assert_array_equal(one.examples, other.examples)
        assert one.accuracy == other.accuracy
