"""Classifiers and images that many tests share."""

import os
import signal
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Processes with cores of their own do more than processes that share them.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[number % len(cores) :: count])
# A shell starts background jobs with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import keras
import numpy as np
import pytest

from tests.support.models import make_convolutional, make_linear


@pytest.fixture
def linear():
    """A linear classifier on 4x4 images with known weights."""
    return make_linear()


@pytest.fixture
def convolutional():
    """A small network with batch norm whose statistics are not trivial."""
    return make_convolutional()


@pytest.fixture
def images():
    """Twelve images away from nothing in particular, and their labels."""
    generator = np.random.default_rng(1)
    x = generator.uniform(size=(12, 8, 8, 1)).astype("float32")
    return x, generator.integers(0, 10, 12).astype("int32")


@pytest.fixture(scope="session")
def digits():
    """The test images of scikit-learn's digits, and their labels."""
    from adt_tf import data

    return data.as_arrays(data.load("digits", split="test"))


@pytest.fixture(scope="session")
def honest():
    """A small network trained on the digits; leave its weights alone."""
    from adt_tf import data, networks

    x, y = data.as_arrays(data.load("digits", split="train"))
    model = networks.get("small_cnn", input_shape=(8, 8, 1), width=12)
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    keras.utils.set_random_seed(0)
    model.fit(x, y, batch_size=64, epochs=6, verbose=0)
    return model


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MB of its own, where one may be mounted."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)
