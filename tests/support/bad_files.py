"""A folder of files that are damaged, hostile or of another kind."""

import json
import pathlib
import shutil

import keras
import numpy as np
import tensorflow as tf

import adt_tf
from adt_tf import evaluation
from adt_tf.runs.config import Config
from tests.support.models import make_convolutional

TINY = [
    "--dataset=digits",
    "--train_examples=128",
    "--epochs=2",
    "--epsilon=0.15",
    "--method=at_pgd",
    "--num_steps=2",
]


def make(folder: pathlib.Path) -> pathlib.Path:
    """Fills the folder."""
    arrays(folder)
    models(folder)
    data_sets(folder / "tfds")
    workdirs(folder)
    return folder


def arrays(folder):
    x = np.random.default_rng(0).uniform(size=(50, 8, 8, 1))
    y = np.arange(50) % 10
    one_hot = np.eye(10)[y]
    for name, contents in {
        "good": {"images": x, "labels": y},
        "range": {"images": x * 99, "labels": y},
        "nan": {"images": x * np.nan, "labels": y},
        "below": {"images": x, "labels": y - 5},
        "onehot": {"images": x, "labels": one_hot},
        "nothing": {"images": x[:0], "labels": y[:0]},
        "keys": {"pictures": x},
        "pickle": {"images": x, "labels": np.array([{}] * 50)},
        "half": {"x_train": np.zeros(2)},
        "none of it": {},
        "fewer": {"images": x, "labels": y[:4]},
        "one class": {"images": x, "labels": 0 * y},
        "scalar": {"images": np.array(1.0), "labels": y},
        "extra": {"image": x, "label": y},
        "extra_shape": {"image": x[:, :4], "label": y},
        "extra_classes": {"image": x, "label": y + 1},
        "extra_few": {"image": x[:3], "label": y[:3]},
    }.items():
        np.savez(folder / f"{name}.npz", **contents)
    content = (folder / "good.npz").read_bytes()
    (folder / "cut.npz").write_bytes(content[: len(content) // 2])
    (folder / "empty.npz").write_bytes(b"")
    (folder / "text.npz").write_bytes(b"not a zip file")
    (folder / "folder.npz").mkdir()
    np.save(folder / "npy.npy", x)
    (folder / "npy.npy").rename(folder / "npy.npz")


@keras.saving.register_keras_serializable(package="elsewhere")
class Elsewhere(keras.layers.Layer):
    """A layer that a reader of the file does not have."""

    def call(self, x):
        return x


def models(folder):
    classifier = make_convolutional()
    classifier.save(folder / "good.keras")
    content = (folder / "good.keras").read_bytes()
    middle = len(content) // 2
    (folder / "cut.keras").write_bytes(content[:middle])
    (folder / "damaged.keras").write_bytes(
        content[: middle - 500] + bytes(1000) + content[middle + 500 :]
    )
    (folder / "text.keras").write_bytes(b"hello")
    (folder / "empty.keras").write_bytes(b"")
    evil = keras.Sequential(
        [keras.Input((2,)), keras.layers.Lambda(lambda x: x * 2)]
    )
    evil.save(folder / "lambda.keras")
    evil.save(folder / "lambda.h5")
    custom = keras.Sequential([keras.Input((2,)), Elsewhere()])
    custom.save(folder / "custom.keras")
    keras.saving.get_custom_objects().pop("elsewhere>Elsewhere")
    served = {
        "bytes only": (
            lambda x: {"o": tf.strings.length(x)},
            tf.TensorSpec([None], tf.string),
        ),
        "one batch": (
            lambda x: {"o": x[:, 0, 0]},
            tf.TensorSpec([4, 8, 8, 1], tf.float32),
        ),
        "two outputs": (
            lambda x: {"a": x[:, 0, :, 0], "b": x[:, 1, :, 0]},
            tf.TensorSpec([None, 8, 8, 1], tf.float32),
        ),
    }
    for name, (function, spec) in served.items():
        signature = tf.function(function, input_signature=[spec])
        tf.saved_model.save(tf.Module(), str(folder / name), signature)
    tf.saved_model.save(tf.Module(), str(folder / "no signature"))
    artefacts(folder)
    for name in ("cut model", "no weights"):
        adt_tf.export(classifier, folder / name)
    graph = folder / "cut model" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:5000])
    shutil.rmtree(folder / "no weights" / "variables")


def artefacts(folder):
    """Files of LiteRT: of other classes, of another size, and none."""
    for name, shape, num_classes in (
        ("three classes", (8, 8, 1), 3),
        ("small images", (4, 4, 1), 10),
    ):
        serve = tf.function(
            lambda x, n=num_classes: {"logits": x[:, 0, :1, 0] + tf.zeros([n])},
            input_signature=[tf.TensorSpec([None, *shape], tf.float32)],
        )
        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [serve.get_concrete_function()]
        )
        (folder / f"{name}.tflite").write_bytes(converter.convert())
    content = (folder / "three classes.tflite").read_bytes()
    (folder / "cut.tflite").write_bytes(content[: len(content) // 2])
    (folder / "text.tflite").write_bytes(b"hello" * 100)


def data_sets(folder):
    """Prepared by TFDS itself, then damaged."""
    import tensorflow_datasets as tfds

    images = np.random.default_rng(0).integers(0, 256, [20, 4, 4, 3], np.uint8)
    whole = tf.data.Dataset.from_tensor_slices(
        {"image": images, "label": np.arange(20) % 3}
    )
    tfds.dataset_builders.store_as_tfds_dataset(
        name="whole",
        version="1.0.0",
        data_dir=folder,
        features=tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(4, 4, 3)),
                "label": tfds.features.ClassLabel(num_classes=3),
            }
        ),
        split_datasets={"train": whole.take(20), "test": whole.take(6)},
        disable_shuffling=True,
    )
    # Each names a class that TFDS would import, in a form that it reads.
    hostile = {
        "foreign": '"pythonClassName": "antigravity.Fly"',
        "foreign_snake": '"python_class_name": "antigravity.Fly"',
        "foreign_escaped": '"pythonClass\\u004eame": "antigravity.Fly"',
        "foreign_legacy": '{"type": "antigravity.Fly", "content": {}}',
        "foreign_text": json.dumps(
            {"jsonFeature": {"json": '{"a": {"type": "antigravity.Fly"}}'}}
        ),
    }
    names = ("cut", "flipped", "fewer", "gone", "info", "features")
    for name in (*names, *hostile):
        shutil.copytree(folder / "whole", folder / name)
    record = {
        name: next((folder / name / "1.0.0").glob("*train.tfrecord*"))
        for name in ("cut", "flipped", "fewer", "gone")
    }
    content = record["cut"].read_bytes()
    record["cut"].write_bytes(content[: len(content) - 100])
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    record["flipped"].write_bytes(flipped)
    test = next((folder / "fewer" / "1.0.0").glob("*test.tfrecord*"))
    record["fewer"].write_bytes(test.read_bytes())
    record["gone"].unlink()
    whole = (folder / "whole" / "1.0.0" / "features.json").read_text()
    image = "tensorflow_datasets.core.features.image_feature.Image"
    for name, text in hostile.items():
        if not text.startswith("{"):
            text = whole.replace(f'"pythonClassName": "{image}"', text)
        assert text != whole
        (folder / name / "1.0.0" / "features.json").write_text(text)
    (folder / "info" / "1.0.0" / "dataset_info.json").write_text("{")
    (folder / "features" / "1.0.0" / "features.json").write_text("{")


def resolved(*arguments):
    """The flags.txt of a run."""
    return Config.parse(arguments).to_flags()


def workdirs(folder):
    (folder / "file").write_text("mine")
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("mine")
    flags = resolved(*TINY)
    report = evaluation.Report(
        {"natural": np.int8([1, 0, 1]), "FGSM": np.int8([1, -1, 0])},
        {"FGSM": "<FGSM>"},
        seed=0,
    ).to_dict()
    details = {
        "method": "at_pgd",
        "dataset": "digits",
        "epsilon": 0.15,
        "command": "evaluate.py",
    }
    evaluated = {**details, **report}
    for name, text in {
        "run": flags,
        "unfinished": flags,
        "other version": flags + "--frobnicate=1\n",
        "no number": flags.replace("--epochs=2", "--epochs=many"),
        "hostile": flags + f"--output={folder}/stolen\n",
        "binary": "\xff\xfe--epochs\x80",
        "damaged": flags,
        "spoiled": flags,
    }.items():
        (folder / name).mkdir()
        (folder / name / "flags.txt").write_bytes(text.encode("latin-1"))
        if name != "unfinished":
            shutil.copy(
                folder / "good.keras", folder / name / "classifier.keras"
            )
        text = json.dumps(evaluated)
        (folder / name / "evaluation.json").write_text(text)
    shutil.copy(folder / "cut.keras", folder / "damaged" / "classifier.keras")
    (folder / "spoiled" / "evaluation.json").write_text('{"outcomes": ')
    outcomes = evaluated["outcomes"]
    for name, value in {
        "list": [evaluated],
        "letters": {**evaluated, "outcomes": {"natural": "1x1"}},
        "lost": {**evaluated, "outcomes": {**outcomes, "FGSM": "10"}},
        "half": {"outcomes": outcomes},
        "other epsilon": {**evaluated, "epsilon": 0.1},
        "other seed": {**evaluated, "seed": 7},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    for name, text in {
        "other": "--epsilon=0.1\n--frobnicate=1\n",
        "dangling": "--flagfile=gone.flags\n",
        "circle": "--flagfile=round.flags\n",
        "round": "--flagfile=circle\n",
    }.items():
        (folder / f"{name}.flags").write_text(text)
