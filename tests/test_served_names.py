"""Class names and resizing in the signature of encoded files."""

import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn import datasets

import adt_tf
from adt_tf.data import decoding
from tests.support.models import make_convolutional, make_linear

NAMES = [f"digit {i}" for i in range(10)]


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def resizing(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model"
    classifier = make_convolutional()
    adt_tf.export(classifier, path, class_names=NAMES, resize=True)
    loaded = tf.saved_model.load(str(path))
    return classifier, loaded, loaded.signatures["serving_bytes"]


def test_files_of_any_size_are_resized_as_those_of_folders(resizing):
    """Pillow, which reads folders, is the reference."""
    classifier, _, serve = resizing
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (4, 5, 5), "uint8")
    pictures = [
        Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        for pixels, size in zip(
            coarse, [(8, 8), (31, 17), (5, 5), (64, 9)], strict=True
        )
    ]
    expected = np.stack(
        [p.resize((8, 8), Image.Resampling.BILINEAR) for p in pictures]
    )
    logits = classifier(expected[..., None].astype("float32") / 255).numpy()
    answer = serve(images=tf.constant([png(np.array(p)) for p in pictures]))
    # One of 255 levels of a pixel, by another rounding, moves a logit by less.
    np.testing.assert_allclose(answer["logits"], logits, atol=0.01)
    np.testing.assert_allclose(answer["logits"][0], logits[0], atol=1e-5)
    names = [NAMES[label].encode() for label in logits.argmax(-1)]
    assert answer["class_name"].numpy().tolist() == names


def photographs():
    """JPEG files of several sizes and qualities, colours subsampled or not."""
    for photo in datasets.load_sample_images().images:
        for size in [(640, 427), (100, 75), (64, 64), (32, 32), (20, 50)]:
            for quality in (50, 75, 95):
                for subsampling in (0, 1, 2):
                    file = io.BytesIO()
                    Image.fromarray(photo).resize(size).save(
                        file, "JPEG", quality=quality, subsampling=subsampling
                    )
                    yield size, file.getvalue()


@pytest.mark.parametrize("resize", [False, True])
def test_jpeg_files_have_the_pixels_that_folders_have(resize, tmp_path):
    """Equal at the classifier's size, else within one of 255 levels."""
    shape = (32, 32, 3)
    pixels = keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Flatten(),
            keras.layers.Rescaling(255),
        ]
    )
    adt_tf.export(pixels, tmp_path / "model", resize=resize)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    serve = loaded.signatures["serving_bytes"]
    differences = {}
    for size, file in photographs():
        if resize or size == (32, 32):
            expected = decoding.decode(io.BytesIO(file), shape, name="photo")
            served = serve(images=tf.constant([file]))["logits"].numpy()
            difference = np.abs(np.round(served).reshape(shape) - expected)
            differences.setdefault(size, []).append(difference)
    for size, values in differences.items():
        print(
            f"{size[0]}x{size[1]}: up to {np.max(values):g} of 255 levels, on "
            f"{100 * np.mean(np.greater(values, 0)):.2f} % of the values"
        )
        assert np.max(values) <= (size != (32, 32))
        # Pillow shrinks the height before it enlarges the width.
        assert np.mean(values) < (0.25 if size == (20, 50) else 0.01)


def test_the_bad_file_of_a_request_is_named(resizing, tmp_path):
    good = png(np.zeros((8, 8), "uint8"))
    adt_tf.export(resizing[0], tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    serve = loaded.signatures["serving_bytes"]
    pattern = (
        r"\[Each file must be a PNG or a JPEG of 8 rows and 8 columns "
        r".*--resize .*Received: file 1 \(counted from 0\), which "
    )
    for file, reason in (
        (b"no picture", r"is neither of the two\]"),
        (png(np.zeros((9, 7), "uint8")), r"has 9 rows and 7 columns\]"),
    ):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=pattern + reason
        ):
            serve(images=tf.constant([good, file]))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Received: file 1 .* bytes\]"
    ):
        serve(images=tf.constant([good, good + bytes(200_000)]))


def test_a_picture_that_claims_to_be_huge_is_not_decoded(resizing):
    bomb = bytearray(png(np.zeros((8, 8), "uint8")))
    bomb[16:24] = (100_000).to_bytes(4, "big") * 2
    for file in (bytes(bomb), b"no picture", b""):
        with pytest.raises(tf.errors.InvalidArgumentError, match="16777216"):
            resizing[2](images=tf.constant([file]))


def test_without_names_the_class_is_its_number(tmp_path):
    classifier = make_linear()
    adt_tf.export(classifier, tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    answer = loaded.signatures["serving_bytes"](
        images=tf.constant([png(np.zeros((4, 4), "uint8"))])
    )
    label = int(answer["label"][0])
    assert answer["class_name"].numpy().tolist() == [str(label).encode()]
    assert "class_name" not in loaded.signatures["serving_uint8"](
        images=tf.zeros([1, 4, 4, 1], tf.uint8)
    )


def test_each_class_has_a_name(tmp_path):
    with pytest.raises(ValueError, match="a string for each of the 3 classes"):
        adt_tf.export(make_linear(), tmp_path / "m", class_names=["a", "b"])
    assert not (tmp_path / "m").exists()
