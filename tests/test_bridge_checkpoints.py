"""Real files of others, where they are at hand.

ADT_TF_CHECKPOINTS names a folder with cifar10_resnet2b.pth,
mnist_trades_smallcnn.pt, mnist_colt_convmed.pt, mnist_1000.npz and
reference_logits.npz, torch's logits; ADT_TF_DATA one with CIFAR-10 as TFDS
prepares it. Without them these tests are skipped.
"""

import os
import pathlib

import numpy as np
import pytest

import adt_tf
from adt_tf import data
from tests.support import published_networks

FOLDER = pathlib.Path(os.environ.get("ADT_TF_CHECKPOINTS", "none"))
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="ADT_TF_CHECKPOINTS names no folder"
)


def mnist():
    with np.load(FOLDER / "mnist_1000.npz") as arrays:
        return arrays["x_test"].astype("float32") / 255, arrays["y_test"]


def cifar10(number):
    if "ADT_TF_DATA" not in os.environ:
        pytest.skip("ADT_TF_DATA names no folder")
    test = data.load(
        "cifar10",
        split="test",
        data_dir=os.environ["ADT_TF_DATA"],
        num_examples=number,
    )
    return data.as_arrays(test)


# Torch's accuracy on the images that each is measured on.
@pytest.mark.parametrize(
    ("name", "images", "accuracy"),
    [
        ("mnist_trades_smallcnn", mnist, 0.994),
        ("mnist_colt_convmed", mnist, 0.990),
        ("cifar10_resnet2b", lambda: cifar10(500), 0.706),
    ],
)
def test_logits_and_accuracy_are_torch_s(name, images, accuracy):
    classifier = published_networks.load(name, FOLDER)
    x, y = images()
    logits = classifier.predict(x, verbose=0)
    with np.load(FOLDER / "reference_logits.npz") as expected:
        np.testing.assert_allclose(logits[:100], expected[name], atol=1e-4)
    assert (logits.argmax(-1) == y).mean() == pytest.approx(accuracy)


def test_entries_that_are_no_weights_are_named():
    with pytest.raises(ValueError, match="no weights: .*2.deepz_lambda"):
        adt_tf.transplant(
            FOLDER / "mnist_colt_convmed.pt", published_networks.colt()
        )
