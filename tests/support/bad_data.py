"""Bad input in folders, .npy and array_record files, and in own networks.

Each row: a name, a call that must raise ValueError, and a pattern of the
message. A call is given a folder that `make` has filled.
"""

import os
import shutil

import numpy as np

from adt_tf import data
from adt_tf.networks import own_functions
from adt_tf.runs.config import Config
from adt_tf.runs.experiment import Experiment
from tests.support import disk_data


def make(folder):
    """Fills the folder."""
    good = disk_data.write_folder(folder / "good", 3)
    _folders(folder)
    _arrays(folder, good)
    _records(folder / "tfds", good)
    (folder / "theirs.flags").write_text("--network=mine.networks:tiny\n")
    return folder


def _folders(folder):
    for name in (
        "one class",
        "no test",
        "unknown",
        "no image",
        "cut header",
        "cut pixels",
        "two sizes",
    ):
        shutil.copytree(folder / "good", folder / name)
    (folder / "empty").mkdir()
    for split in ("train", "test"):
        shutil.rmtree(folder / "one class" / split / "dog")
    shutil.rmtree(folder / "no test" / "test")
    os.rename(
        folder / "unknown" / "test" / "dog", folder / "unknown" / "test" / "cow"
    )
    for file in (folder / "no image" / "train" / "dog").iterdir():
        file.rename(file.with_suffix(".txt"))
    file = folder / "cut header" / "train" / "dog" / "00001.jpg"
    file.write_bytes(file.read_bytes()[:12])
    file = folder / "cut pixels" / "train" / "dog" / "00001.jpg"
    file.write_bytes(file.read_bytes()[:-150])
    disk_data.write_jpegs(folder / "two sizes" / "train", 1, size=(5, 7))


def _arrays(folder, good):
    x = data.load(good, stream=False).images
    y = np.arange(len(x)) % 2
    for name, contents in {
        "npy names": {"pictures": x, "labels": y},
        "npy range": {"images": x.astype("float32"), "labels": y},
        "npy fewer": {"images": x, "labels": y[:-1]},
        "npy pickle": {"images": x, "labels": np.array([{}] * len(x))},
        "npy cut": {"images": x, "labels": y},
        "npy text": {"images": x, "labels": y},
        "npy shape": {"images": x.reshape(len(x), -1), "labels": y},
        "npy floats": {"images": x / 255, "labels": y},
    }.items():
        (folder / name).mkdir()
        for key, array in contents.items():
            np.save(folder / name / f"{key}.npy", array)
    path = folder / "npy cut" / "images.npy"
    path.write_bytes(path.read_bytes()[:-100])
    (folder / "npy text" / "images.npy").write_text("no array")


def _records(folder, good):
    disk_data.write_records(folder, good, name="whole", any_size=True)
    for name in ("cut", "flipped", "gone"):
        shutil.copytree(folder / "whole", folder / name)
        file = next((folder / name / "1.0.0").glob("*-train.array_record*"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content if name == "flipped" else content[:-100])
        if name == "gone":
            file.unlink()


def loaded(name, **arguments):
    def call(folder):
        for split in ("train", "test"):
            data.load(f"{folder}/{name}", split=split, **arguments)

    return call


def recorded(name, **arguments):
    return lambda folder: data.load(
        name, data_dir=f"{folder}/tfds", **arguments
    )


def streamed(name):
    def call(folder):
        examples = data.load(f"{folder}/{name}", stream=True)
        for index in range(len(examples)):
            examples.images[index]

    return call


def function(name):
    return lambda folder: own_functions.find_function(name)


def built(build):
    return lambda folder: own_functions.build(
        build, input_shape=(8, 8, 1), num_classes=10
    )


def crop(folder):
    examples = data.load(f"{folder}/good")
    data.train_pipeline(
        examples, batch_size=2, seed=0, augment=True, crop="random"
    )


ROWS = {
    # Folders of images.
    "an empty folder": (loaded("empty"), "Received: no subfolder"),
    "a folder of one class": (loaded("one class"), "Received: cat"),
    "a folder without test/": (
        loaded("no test"),
        "train or test, but not both",
    ),
    "a test class that training lacks": (
        loaded("unknown"),
        "classes that .*train lacks: cow",
    ),
    "a class without images": (loaded("no image"), "dog contains no images"),
    "images of several sizes": (
        loaded("two sizes"),
        "have 2 sizes, such as .*--image_size",
    ),
    "an unreadable JPEG": (
        loaded("cut header"),
        "00001.jpg cannot be read as an image",
    ),
    "a JPEG cut off": (
        loaded("cut pixels"),
        "00001.jpg cannot be read as an image",
    ),
    "a JPEG cut off, streamed": (
        streamed("cut pixels"),
        "00001.jpg cannot be read as an image",
    ),
    # Folders of .npy files.
    "other names of .npy files": (
        loaded("npy names"),
        "must have the arrays .* but has labels, pictures",
    ),
    "pixels up to 255 in an .npy file": (loaded("npy range"), "divide them by"),
    "fewer labels in an .npy file": (loaded("npy fewer"), "6 images and 5"),
    "a pickle in an .npy file": (loaded("npy pickle"), "Cannot read .*pickle"),
    "an .npy file cut off": (loaded("npy cut"), "Cannot read '.*npy cut'"),
    "text in an .npy file": (
        loaded("npy text"),
        "images.npy is not an .npy file",
    ),
    "vectors in an .npy file": (loaded("npy shape"), r"shape \[N, H, W, C\]"),
    "another size of .npy files": (
        loaded("npy floats", image_size=(4, 4)),
        "Only the images of a folder.* can be resized",
    ),
    # array_record files.
    "an array_record file cut off": (
        recorded("cut", image_size=(8, 8)),
        "Cannot read .*damaged or incomplete",
    ),
    "an array_record file with a bit flipped": (
        recorded("flipped", image_size=(8, 8)),
        "Cannot read .*damaged or incomplete",
    ),
    "no array_record file": (
        recorded("gone", image_size=(8, 8)),
        "Cannot read .*No such file",
    ),
    "array_record images of any size": (
        recorded("whole"),
        "have several sizes: set the size",
    ),
    # Streaming and crops.
    "digits from the disk": (
        lambda folder: data.load("digits", stream=True),
        "cannot be streamed",
    ),
    "an unknown crop": (crop, "`crop` must be one of 'shift', 'resized'"),
    # Own networks.
    "a function without a name": (function("mine:"), "package.module:function"),
    "a module that is not there": (
        function("mine.networks:tiny"),
        "Cannot import 'mine.networks'",
    ),
    "a function that is not there": (
        function("adt_tf.networks:tiny"),
        "has no function 'tiny'",
    ),
    "a function that fails": (
        built(lambda input_shape: None),
        "raised TypeError",
    ),
    "a function that returns no model": (
        built(lambda input_shape, num_classes: "net"),
        "must return a Keras 3 model. Received: str",
    ),
    "code named by a flagfile": (
        lambda folder: Config.parse([f"--flagfile={folder}/theirs.flags"]),
        "names Python code to run.*on the command line only",
    ),
    "code named by a configuration": (
        lambda folder: Experiment.from_config(
            Config(network="mine.networks:tiny")
        ),
        "Python code, which runs only if",
    ),
}
