import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import adt_tf
from adt_tf.serving import saved_model
from tests.support.models import make_convolutional


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model"
    classifier = make_convolutional()
    adt_tf.export(classifier, path)
    return classifier, path, tf.saved_model.load(str(path)).signatures


@pytest.fixture
def pixels():
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (5, 8, 8, 1)).astype("uint8")


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def encode(pixels, kind):
    files = []
    for image in pixels[..., 0]:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, kind)
        files.append(buffer.getvalue())
    return tf.constant(files)


def test_signatures_agree(served, pixels):
    classifier, _, signatures = served
    x = pixels.astype("float32") / 255
    logits = classifier.predict(x, verbose=0)
    answers = [
        signatures["serving_default"](images=tf.constant(x)),
        signatures["serving_uint8"](images=tf.constant(pixels)),
        signatures["serving_bytes"](images=encode(pixels, "PNG")),
    ]
    for answer in answers:
        np.testing.assert_allclose(answer["logits"], logits, atol=1e-4)
        np.testing.assert_allclose(
            answer["probabilities"], softmax(logits), atol=1e-5
        )
        np.testing.assert_array_equal(answer["label"], logits.argmax(-1))


@pytest.mark.parametrize("size", [1, 3])
def test_batch_is_dynamic_and_jpeg_is_taken(served, pixels, size):
    _, _, signatures = served
    files = encode(pixels[:size], "JPEG")
    answer = signatures["serving_bytes"](images=files)
    assert answer["label"].shape == (size,)


def test_loads_without_adt_tf_in_a_clean_process(served, pixels):
    classifier, path, _ = served
    x = pixels.astype("float32") / 255
    logits = classifier.predict(x, verbose=0)
    assert saved_model.verify(path, x, logits) < 1e-4
    with pytest.raises(ValueError, match="serves other results"):
        saved_model.verify(path, x, logits + 1)


def test_checks_do_not_depend_on_the_interpreters_mode(
    served, pixels, tmp_path, monkeypatch
):
    """python -O leaves out assertions; modules may lie in this directory."""
    classifier, path, _ = served
    x = pixels.astype("float32") / 255
    (tmp_path / "tensorflow.py").write_text("open('proof', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    logits = classifier.predict(x, verbose=0)
    with pytest.raises(ValueError, match="the logits differ by 1") as caught:
        saved_model.verify(path, x, logits + 1)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["tensorflow.py"]


def test_signatures_that_differ_are_noticed(tmp_path, pixels):
    """The floats are right, but bytes are not scaled."""
    classifier = make_convolutional()

    def serve(images):
        logits = classifier(tf.cast(images, tf.float32), training=False)
        return {"logits": logits, "label": tf.argmax(logits, -1)}

    archive = keras.export.ExportArchive()
    archive.track(classifier)
    for name, dtype in (
        ("serving_default", tf.float32),
        ("serving_uint8", tf.uint8),
    ):
        spec = tf.TensorSpec([None, 8, 8, 1], dtype, "images")
        archive.add_endpoint(name, serve, input_signature=[spec])
    archive.add_endpoint(
        "serving_bytes",
        lambda images: serve(
            tf.map_fn(
                lambda file: tf.ensure_shape(
                    tf.io.decode_png(file, 1), [8, 8, 1]
                ),
                images,
                fn_output_signature=tf.uint8,
            )
        ),
        input_signature=[tf.TensorSpec([None], tf.string, "images")],
    )
    archive.write_out(str(tmp_path / "model"), verbose=False)
    x = pixels.astype("float32") / 255
    logits = classifier.predict(x, verbose=0)
    with pytest.raises(ValueError, match="floats and uint8 differ by"):
        saved_model.verify(tmp_path / "model", x, logits)


@pytest.mark.parametrize("file", [b"no picture", b""])
def test_bad_bytes_are_an_error(served, file):
    with pytest.raises(tf.errors.InvalidArgumentError):
        served[2]["serving_bytes"](images=tf.constant([file]))


def test_images_of_another_size_are_an_error(served):
    big = np.zeros((1, 9, 8, 1), "uint8")
    with pytest.raises(tf.errors.InvalidArgumentError, match="8 rows and 8"):
        served[2]["serving_bytes"](images=encode(big, "PNG"))


def test_nothing_is_overwritten(served, tmp_path):
    classifier, path, _ = served
    with pytest.raises(ValueError, match="nothing is overwritten"):
        adt_tf.export(classifier, path)
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match="nothing is overwritten"):
        adt_tf.export(classifier, file)
    assert file.read_text() == "mine"


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(10)

    def call(self, x):
        return self.dense(self.flatten(x))


def test_subclassed_classifiers(tmp_path):
    classifier = Subclassed()
    with pytest.raises(ValueError, match="must have a fixed image shape"):
        adt_tf.export(classifier, tmp_path / "unbuilt")
    x = np.random.default_rng(0).uniform(size=(2, 8, 8, 1)).astype("float32")
    logits = classifier(x).numpy()
    adt_tf.export(classifier, tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model")).signatures
    answer = served["serving_default"](images=tf.constant(x))
    np.testing.assert_allclose(answer["logits"], logits, atol=1e-5)


def test_softmax_is_refused(tmp_path):
    classifier = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    with pytest.raises(ValueError, match="must return logits"):
        adt_tf.export(classifier, tmp_path / "model")
