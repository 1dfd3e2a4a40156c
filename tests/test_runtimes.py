"""Other runtimes: converted, loaded back, and attacked as they are."""

import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import data
from adt_tf.runs import artifact_job
from adt_tf.serving import artifact, runtimes
from tests.support import in_process
from tests.support.models import make_linear, predicted

PACKAGES = {
    "onnx": ("tf2onnx", "onnxruntime"),
    "litert": ("ai_edge_litert",),
    "openvino": ("openvino",),
}


def skip_without(name):
    for package in PACKAGES[name.partition("-")[0]]:
        pytest.importorskip(package)


@pytest.fixture(scope="module")
def classifier():
    return adt_tf.from_preset("digits_small_cnn_adt_exp")


@pytest.fixture(scope="module")
def images():
    return data.as_arrays(data.load("digits", split="test"))[0][:64]


@pytest.fixture(scope="module")
def int8(classifier, tmp_path_factory):
    """A file of integers, calibrated on training images."""
    skip_without("litert")
    folder = tmp_path_factory.mktemp("int8")
    train = data.as_arrays(data.load("digits", split="train"))[0]
    result = runtimes.convert(
        classifier,
        folder,
        ["litert-int8"],
        images=train[:32],
        calibration=train[32:96],
    )
    return folder / result["litert-int8"]["file"]


@pytest.mark.parametrize("name", ["onnx", "litert", "openvino"])
def test_logits_are_those_of_keras(name, classifier, images, tmp_path):
    skip_without(name)
    names = [name, "litert-float16"] if name == "litert" else [name]
    results = runtimes.convert(classifier, tmp_path, names, images=images[:8])
    assert list(results) == names
    for kind, told in results.items():
        run = runtimes.load(tmp_path / told["file"])
        # Batches of other sizes than before, too.
        for x in (images, images[:1], images[3:10]):
            expected = classifier(x).numpy()
            error = np.abs(run(x) - expected).max()
            assert error < (0.02 if "float16" in kind else 1e-4)
        assert told["label_agreement"] == 1
        assert (told["largest_logit_error"] > 1e-4) == ("float16" in kind)


def test_int8_is_smaller_and_nearly_the_same(int8, classifier, images):
    run = runtimes.load(int8)
    expected = classifier(images).numpy()
    alike = run(images).argmax(-1) == expected.argmax(-1)
    assert 1e-3 < np.abs(run(images) - expected).max() < 1
    assert alike.mean() > 0.95
    size = sum(4 * np.size(w) for w in classifier.get_weights())
    assert int8.stat().st_size < size / 3


def test_a_broken_conversion_is_noticed(classifier, images, tmp_path):
    """Calibrated on black images, int8 tells no class from another."""
    skip_without("litert")
    with pytest.raises(ValueError, match="gives other logits than Keras"):
        runtimes.convert(
            classifier,
            tmp_path,
            ["litert-int8"],
            images=images,
            calibration=0 * images[:4],
        )


def test_an_artefact_has_its_logits_and_its_sources_gradient(
    int8, classifier, images
):
    model = artifact.load(int8, classifier)
    x = tf.constant(images[:4])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        ours = tf.reduce_sum(model(x, training=False)[:, 1])
        theirs = tf.reduce_sum(classifier(x, training=False)[:, 1])
    np.testing.assert_array_equal(model(x), runtimes.load(int8)(images[:4]))
    np.testing.assert_allclose(
        tape.gradient(ours, x), tape.gradient(theirs, x), atol=1e-6
    )
    with pytest.raises(ValueError, match="inference mode only"):
        model(x, training=True)


def test_the_cost_of_a_file_without_a_cost_is_0(tmp_path):
    """A SavedModel of the source itself is the degenerate limit."""
    source = make_linear((8, 8, 1), 10)
    x = np.random.default_rng(0).uniform(size=(40, 8, 8, 1))
    y = predicted(source, x.astype("float32"))
    np.savez(tmp_path / "mine.npz", x_test=x, y_test=y)
    source.save(tmp_path / "source.keras")
    adt_tf.export(source, tmp_path / "served")
    done = in_process.run(
        "evaluate",
        f"--artifact={tmp_path}/served",
        f"--source={tmp_path}/source.keras",
        f"--dataset={tmp_path}/mine.npz",
        "--epsilon=0.02",
        "--attacks=fgsm,square-10",
        "--independent",
    )
    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "source-artifact-served.json").read_text())
    assert [row["name"] for row in values["cost"]] == [
        "natural",
        "FGSM (transfer)",
        "Square",
        "A_rob",
    ]
    for row in values["cost"]:
        assert row["points"] == 0 and row["source"] == row["artifact"]
    assert values["cost"][1]["source"] < values["cost"][0]["source"]
    assert "costs +0.00 points of natural" in done.stdout
    text = (tmp_path / "source-artifact-served.md").read_text()
    assert "| A_rob |" in text and "costs +0.00 points of natural" in text


def test_the_cost_of_int8_is_counted_on_the_file_itself(int8, classifier):
    """The verdicts are those of the interpreter on the images of the source."""
    test = data.load("digits", split="test", num_examples=60)
    x, y = data.as_arrays(test)
    attack = adt_tf.attacks.pgd(0.15, num_steps=5)
    before = adt_tf.evaluate(
        classifier, test, [attack], keep_examples=True, verbose=False
    )
    transfer = adt_tf.attacks.Transfer(classifier, attack)
    model = artifact.load(int8, classifier)
    after = adt_tf.evaluate(
        model, test, [transfer], independent=True, verbose=False
    )
    run = runtimes.load(int8)
    right = run(x).argmax(-1) == y
    both = right & (before.outcomes["natural"] == 1)
    shown = run(before.examples).argmax(-1) == y
    np.testing.assert_array_equal(
        after.outcomes[transfer.name][both] == 1, shown[both]
    )
    assert not after.caveat
    rows = artifact_job.differences(before, after)
    natural = 100 * (np.mean(before.outcomes["natural"] == 1) - right.mean())
    assert rows[0]["points"] == pytest.approx(natural)


@pytest.mark.slow
def test_the_export_command_writes_them(tmp_path):
    skip_without("litert")
    done = in_process.run(
        "export",
        "--preset=digits_small_cnn_at_pgd",
        f"--output={tmp_path}/digits",
        "--runtimes=litert,litert-int8",
        "--resize",
    )
    assert done.returncode == 0, done.stderr
    known = json.loads((tmp_path / "digits/1/robustness.json").read_text())
    assert known["runtimes"]["litert-int8"]["file"] == "model_int8.tflite"
    assert known["input"]["resize"]
    assert (tmp_path / "digits/1/model.tflite").is_file()


def test_files_that_are_no_classifiers(tmp_path, images):
    skip_without("litert")
    (tmp_path / "text.tflite").write_text("no model" * 99)
    with pytest.raises(ValueError, match="Cannot load .* in LiteRT") as caught:
        runtimes.load(tmp_path / "text.tflite")
    assert "\n" not in str(caught.value)
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    )
    runtimes.convert(model, tmp_path, ["litert"], images=images)
    digits = data.load("digits", split="test", num_examples=10)
    with pytest.raises(ValueError, match="must give 10 logits.* It gives: 3"):
        artifact.load(tmp_path / "model.tflite", model, like=digits)
    content = (tmp_path / "model.tflite").read_bytes()
    for length in (0, 4, 100, len(content) // 2, len(content) - 50):
        (tmp_path / "cut.tflite").write_bytes(content[:length])
        with pytest.raises(ValueError, match="Cannot load"):
            runtimes.load(tmp_path / "cut.tflite")


def test_a_runtime_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.delitem(
        sys.modules, "adt_tf.serving.runtimes.openvino", raising=False
    )
    with pytest.raises(ValueError, match=r"pip install 'adt_tf\[openvino\]'"):
        runtimes.check_names(["openvino"])
