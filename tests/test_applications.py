"""Pretrained and own models: the right pixels in, logits out."""

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf import attacks, networks
from tests.support import graphs, in_process

SHAPE = (32, 32, 3)


@pytest.fixture(scope="module")
def mobile():
    return networks.get(
        "keras:MobileNetV2", input_shape=SHAPE, num_classes=4, frozen_layers=20
    )


@pytest.fixture
def photos():
    x = np.random.default_rng(0).uniform(size=(3, *SHAPE)).astype("float32")
    return x, np.array([0, 1, 2])


def test_preprocessing_is_inside(mobile, photos):
    x, _ = photos
    body = mobile.get_layer("mobilenetv2_1.00_32")
    pixels = keras.applications.mobilenet_v2.preprocess_input(255 * x)
    features = body(pixels, training=False)
    expected = mobile.get_layer("logits")(features)
    np.testing.assert_allclose(
        mobile(x, training=False), expected, rtol=1e-4, atol=1e-5
    )
    frozen = [layer.trainable for layer in body.layers]
    assert not any(frozen[:20]) and all(frozen[20:])


def test_another_convention_of_pixels(photos):
    """ResNet50 takes BGR pixels less a mean."""
    x, _ = photos
    model = networks.from_application(
        "ResNet50", input_shape=SHAPE, num_classes=2
    )
    pixels = keras.applications.resnet50.preprocess_input(255 * x)
    features = model.get_layer("resnet50")(pixels, training=False)
    np.testing.assert_allclose(
        model(x, training=False),
        model.get_layer("logits")(features),
        rtol=1e-3,
        atol=1e-3,
    )


def test_saved_attacked_and_trained(mobile, photos, tmp_path):
    x, y = photos
    mobile.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(x), mobile(x), atol=1e-5)
    with graphs.run_eagerly():
        x_adv = attacks.fgsm(8 / 255)(again, x, y).x_adv
    assert 0 < np.abs(x_adv - x).max() <= 8 / 255 + 1e-6


def test_weights_from_a_file(mobile, photos, tmp_path):
    x, _ = photos
    body = mobile.get_layer("mobilenetv2_1.00_32")
    path = tmp_path / "body.weights.h5"
    body.save_weights(path)
    other = networks.from_application(
        "MobileNetV2", input_shape=SHAPE, num_classes=3, weights=path, seed=7
    )
    again = other.get_layer("mobilenetv2_1.00_32")
    for one, two in zip(body.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="must have the weights of VGG16"):
        networks.from_application(
            "VGG16", input_shape=SHAPE, num_classes=3, weights=path
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "MobileNetV9"}, "must be one of .*MobileNetV2"),
        ({"num_classes": 1}, "`num_classes`"),
        ({"input_shape": (8, 8, 3)}, "must suit MobileNetV2"),
        ({"frozen_layers": 9999}, "`frozen_layers` must be at most"),
        ({"weights": "nowhere.h5"}, "a file that exists"),
    ],
)
def test_what_is_refused(changes, message):
    settings = {"name": "MobileNetV2", "input_shape": SHAPE, "num_classes": 2}
    settings |= changes
    with pytest.raises(ValueError, match=message) as raised:
        networks.from_application(settings.pop("name"), **settings)
    assert "\n" not in str(raised.value)


def test_from_the_command_line(tmp_path, mobile):
    folder, path = tmp_path / "run", tmp_path / "body.weights.h5"
    mobile.get_layer("mobilenetv2_1.00_32").save_weights(path)
    x = np.random.default_rng(0).integers(0, 256, (10, *SHAPE), np.uint8)
    np.savez(tmp_path / "mine.npz", images=x, labels=np.arange(10) % 2)
    flags = (
        f"--dataset={tmp_path}/mine.npz",
        *("--network=keras:MobileNetV2", "--method=standard", "--epochs=1"),
        *("--batch_size=4", "--frozen_layers=150", f"--weights={path}"),
    )
    done = in_process.run("train", *flags, f"--workdir={folder}")
    assert done.returncode == 0, done.stderr
    classifier = keras.saving.load_model(folder / "classifier.keras")
    body = classifier.get_layer("mobilenetv2_1.00_32")
    first = body.layers[1].get_weights()[0]
    np.testing.assert_array_equal(
        first, mobile.get_layer(body.name).layers[1].get_weights()[0]
    )
    done = in_process.run(
        "train", "--network=small_cnn", "--weights=imagenet", "--workdir=w"
    )
    assert done.returncode and "network of keras.applications" in done.stderr


def small(*last):
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.Flatten(),
            *last,
        ]
    )


LAST = {
    "logits": [keras.layers.Dense(10)],
    "softmax in the layer": [keras.layers.Dense(10, activation="softmax")],
    "a layer of softmax": [keras.layers.Dense(10), keras.layers.Softmax()],
    "an activation": [
        keras.layers.Dense(10),
        keras.layers.Activation("softmax"),
    ],
}


@pytest.mark.parametrize("name", LAST)
def test_logits_of_a_model_that_ends_in(name, images):
    model = small(*LAST[name])
    classifier = adt_tf.as_classifier(model, pixels=(0, 255))
    x, y = images
    probabilities = model(255 * x).numpy()
    if name == "logits":
        probabilities = keras.ops.softmax(probabilities)
    logits = classifier(x)
    np.testing.assert_allclose(
        keras.ops.softmax(logits), probabilities, rtol=1e-4, atol=1e-7
    )
    report = adt_tf.evaluate(
        classifier, (x, y), [attacks.fgsm(0.1)], verbose=False
    )
    assert 0 <= report.robust_accuracy <= 1


def test_normalised_input(images):
    model = small(keras.layers.Dense(10))
    classifier = adt_tf.as_classifier(model, mean=[0.3], std=[0.2])
    np.testing.assert_allclose(
        classifier(images[0]), model((images[0] - 0.3) / 0.2), rtol=1e-4
    )
    kernel = model.layers[0].kernel
    assert any(kernel is weight for weight in classifier.trainable_variables)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: small(keras.layers.Dense(3, activation="sigmoid")), "sigmoid"),
        (lambda: lambda x: x, "Keras 3 model"),
    ],
)
def test_models_that_cannot_be_adapted(build, message):
    with pytest.raises(ValueError, match=message):
        adt_tf.as_classifier(build())
