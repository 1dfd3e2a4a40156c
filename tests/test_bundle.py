"""A bundle: versions, warm-up requests, and what is known of a classifier."""

import io
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import adt_tf
from adt_tf import checks, data, evaluation
from adt_tf.linting import Finding
from adt_tf.runs import export_job
from adt_tf.serving import bundle, cards, facts, loading, warmup
from tests.support.models import make_convolutional, make_linear, predicted

NAMES = tuple("abc")


@pytest.fixture(scope="module")
def test_data():
    x = np.random.default_rng(0).uniform(size=(20, 4, 4, 1))
    y = predicted(make_linear(), x.astype("float32"))
    return data.ImageData(x, y, 3, "mine", NAMES)


@pytest.fixture(scope="module")
def report(test_data):
    return adt_tf.evaluate(
        make_linear(), test_data, [adt_tf.attacks.fgsm(0.05)], verbose=False
    )


@pytest.fixture(scope="module")
def exported(test_data, report, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "mine"
    values = {
        "report": report,
        "protocol": "autoattack",
        "dataset": "mine",
        "norm": "linf",
        "epsilon": 0.05,
        "commit": "c0ffee",
    }
    origin = facts.Origin(
        "at_pgd",
        "small_cnn",
        "linf",
        0.05,
        "mine",
        {"name": "mine", "examples": 20, "sha256": "ab" * 32},
        "c0ffee",
        "Apache-2.0",
    )
    version = export_job.export(
        make_linear(), test_data, path, origin=origin, evaluations=[values]
    )
    assert version == path / "1"
    return version


def test_each_warm_up_request_is_answered(exported):
    signatures = tf.saved_model.load(str(exported)).signatures
    requests = [log.predict_log.request for log in warmup.read(exported)]
    asked = set()
    for request in requests:
        assert request.model_spec.name == "mine"
        name = request.model_spec.signature_name
        images = tf.make_ndarray(request.inputs["images"])
        answer = signatures[name](images=tf.constant(images))
        assert np.isfinite(answer["logits"]).all()
        assert (answer["label"].numpy() >= 0).all()
        asked.add((name, len(images)))
    assert asked == {(name, n) for name in signatures for n in (1, 8)}


def test_what_is_known(exported, report):
    known = facts.read(exported)
    assert known["name"] == "mine" and known["version"] == 1
    assert known["class_names"] == list(NAMES)
    assert known["input"]["shape"] == [4, 4, 1]
    assert known["threat_model"] == {"norm": "linf", "epsilon": 0.05}
    assert known["robust"]["accuracy"] == report.robust_accuracy
    assert known["natural"]["interval"] == list(report.intervals["natural"])
    (measured,) = known["evaluations"]
    assert "num_steps=1" in measured["attacks"]["FGSM"]["description"]
    assert known["training_data"]["sha256"] == "ab" * 32
    assert known["commit"] == "c0ffee" and known["licence"] == "Apache-2.0"


def test_the_card_is_read_by_the_hub(exported, report):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard.load(exported / "README.md")
    assert card.data.license == "apache-2.0"
    results = {r.metric_name: r.metric_value for r in card.data.eval_results}
    robust = "robust accuracy (l-infinity ball of radius 0.05, protocol "
    assert results == {
        "natural accuracy": 1.0,
        f"{robust}autoattack)": report.robust_accuracy,
    }


def test_the_front_matter_is_a_field_a_line(exported):
    """Each line is JSON, which YAML holds: nobody's name ends the block."""
    text = (exported / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    fields = {name: json.loads(value) for name, value in fields.items()}
    (index,) = fields["model-index"]
    assert index["name"] == "mine"
    assert index["results"][0]["metrics"][0]["value"] == 1.0
    assert "Classes, from 0: a, b, c." in body


def test_the_entry_has_the_fields_of_robustbench(exported, report):
    entry = json.loads((exported / "robustbench.json").read_text())
    accuracy = f"{100 * report.robust_accuracy:.2f}"
    assert entry["clean_acc"] == "100.00"
    assert entry["autoattack_acc"] == entry["reported"] == accuracy
    assert (entry["eps"], entry["dataset"]) == ("0.05", "mine")
    assert entry["unreliable"] is False


def test_an_easier_evaluation_is_not_the_entry(report):
    """As the files evaluation-autoattack*.json of a run are sorted."""
    easy = evaluation.Report(
        {name: np.ones_like(v) for name, v in report.outcomes.items()},
        report.attacks,
        0,
    )
    ball = {"norm": "linf", "epsilon": 0.05, "dataset": "mine"}
    others = [{"norm": "l2"}, {"epsilon": 0.001}, {"dataset": "easy"}]
    values = [
        {**ball, **other, "report": each, "protocol": "autoattack"}
        for other, each in [*((o, easy) for o in others), ({}, report)]
    ]
    contract = facts.Contract("mine", 1, (4, 4, 1), 3)
    origin = facts.Origin(norm="linf", epsilon=0.05, dataset="mine")
    known = facts.describe(contract, origin, values)
    assert known["robust"]["accuracy"] == report.robust_accuracy < 1
    entry = cards.robustbench_entry(known)
    accuracy = f"{100 * report.robust_accuracy:.2f}"
    assert entry["autoattack_acc"] == entry["reported"] == accuracy
    # Without an evaluation in its threat model, the entry has no number.
    known = facts.describe(contract, origin, values[:-1])
    entry = cards.robustbench_entry(known)
    for name in ("clean_acc", "reported", "autoattack_acc"):
        assert entry[name] is None


def test_a_doubtful_number_never_stands_alone(report):
    warning = Finding("differentiable", "fail", "None.", "", "no gradient")
    doubtful = evaluation.Report(
        report.outcomes, report.attacks, 0, warnings=(warning,)
    )
    contract = facts.Contract("mine", 1, (4, 4, 1), 3)
    values = {"report": doubtful, "protocol": "quick"}
    known = facts.describe(contract, facts.Origin(), [values])
    caveat = "not to be trusted: no gradient"
    assert known["robust"]["caveat"] == caveat
    entry = cards.robustbench_entry(known)
    assert entry["unreliable"] and caveat in entry["footnote"]
    assert entry["autoattack_acc"] is None
    for line in cards.model_card(known).splitlines():
        if "A_rob" in line or line.startswith("model-index"):
            assert caveat in line


def test_a_card_without_a_measurement_says_so():
    contract = facts.Contract("mine", 1, (4, 4, 1), 3)
    known = facts.describe(contract, facts.Origin())
    assert known["robust"] is None
    card = cards.model_card(known)
    assert "This export has no evaluation" in card and "model-index" not in card
    assert cards.robustbench_entry(known)["clean_acc"] is None


def test_the_next_export_is_the_next_version(exported, tmp_path):
    path = tmp_path / "mine"
    shutil.copytree(exported, path / "1")
    shutil.copytree(exported, path / "9")
    before = (path / "9" / "saved_model.pb").stat().st_mtime_ns
    assert bundle.write(make_linear(seed=1), path) == path / "10"
    assert bundle.newest(path) == path / "10"
    assert (path / "9" / "saved_model.pb").stat().st_mtime_ns == before
    x = np.random.default_rng(2).uniform(size=(2, 4, 4, 1)).astype("float32")
    np.testing.assert_allclose(
        loading.load(path)(tf.constant(x)), make_linear(seed=1)(x), atol=1e-5
    )


def test_another_process_is_faster(exported, tmp_path):
    """It takes the number that this one had chosen."""
    path = tmp_path / "mine"

    def complete(folder, number):
        if number == 1:
            shutil.copytree(exported, path / "1")

    assert bundle.write(make_linear(seed=1), path, complete) == path / "2"
    assert sorted(p.name for p in path.iterdir()) == ["1", "2"]


def test_a_failed_export_leaves_nothing(tmp_path):
    def complete(folder, number):
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        bundle.write(make_linear(), tmp_path / "mine", complete)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["file", "saved model", "other files"])
def test_nothing_is_overwritten(name, exported, tmp_path):
    path = tmp_path / "mine"
    if name == "file":
        path.write_text("mine")
    elif name == "saved model":  # as version 0.1.0 wrote it
        shutil.copytree(exported, path)
    else:
        (path / "1").mkdir(parents=True)
        (path / "notes.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="nothing is overwritten"):
        bundle.write(make_linear(), path)
    assert sorted(tmp_path.rglob("*")) == before


def test_names_of_other_classes_are_refused(test_data, tmp_path):
    with pytest.raises(
        ValueError, match="has 10 classes, but mine has 3 class names"
    ):
        export_job.export(make_convolutional(), test_data, tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_names_reach_the_served_model(exported):
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), "uint8")).save(buffer, "PNG")
    serve = tf.saved_model.load(str(exported)).signatures["serving_bytes"]
    answer = serve(images=tf.constant([buffer.getvalue()]))
    label = int(answer["label"][0])
    assert answer["class_name"].numpy()[0].decode() == NAMES[label]


@pytest.mark.parametrize("kind", ["one logit", "several outputs"])
def test_any_form_of_logits_is_exported(kind, test_data, tmp_path):
    images = keras.Input((4, 4, 1))
    flat = keras.layers.Flatten()(images)
    if kind == "one logit":
        outputs, labels = keras.layers.Dense(1)(flat), test_data.labels % 2
        examples = data.ImageData(test_data.images, labels, 2, "two")
    else:
        outputs = {"flat": flat, "logits": keras.layers.Dense(3)(flat)}
        examples = test_data
    classifier = keras.Model(images, outputs)
    version = export_job.export(classifier, examples, tmp_path / "new")
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    x = examples.images.astype("float32")
    np.testing.assert_allclose(
        serve(images=tf.constant(x))["logits"],
        checks.as_logits(classifier(x), classifier),
        atol=1e-5,
    )
