"""Bad input of the library: what is passed, and what is said.

Each row: a name, a call that must raise ValueError, and a pattern of the
message. A call is given the folder of `bad_files.make`.
"""

import keras
import numpy as np
import tensorflow as tf

import adt_tf
from adt_tf import (
    attacks,
    checks,
    data,
    evaluation,
    methods,
    networks,
    report,
    step_rules,
    threat_models,
)
from adt_tf.runs import evaluation_files
from adt_tf.serving import loading
from adt_tf.threat_models import Linf
from tests.support.models import make_convolutional, make_linear

GOOD = np.zeros([5, 8, 8, 1], "float32"), np.arange(5)
NUMBERED = data.ImageData(np.zeros([10, 4, 4, 1]), np.arange(10) % 2, 2, "ten")


def attack(x=GOOD[0], y=GOOD[1], classifier=None, **arguments):
    chosen = attacks.pgd(0.1, num_steps=1)
    return chosen(classifier or make_convolutional(), x, y, **arguments)


def probabilistic(**arguments):
    arguments = {"distributions": 0.1, **arguments}
    return adt_tf.evaluate_probabilistic(
        make_convolutional(), GOOD, verbose=False, **arguments
    )


def labels(values):
    return data.validate_labels(values, 3, num_examples=3)


def softmax():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


class Unstored(Linf):
    def __init__(self, epsilon, shares):
        super().__init__(epsilon)


class Flipped(Linf):
    def steepest(self, gradient):
        return -super().steepest(gradient)


def trainer(attack):
    made = adt_tf.AdversarialTrainer(make_convolutional(), attack)
    made.compile("sgd")
    return made


def npz(name):
    return lambda folder: data.load(str(folder / name))


FOREIGN = "names Python code that is not part of TensorFlow.*'antigravity.Fly'"


def tfds(name):
    return lambda folder: data.load(name, data_dir=str(folder / "tfds"))


def model(name):
    return lambda folder: loading.load(folder / name)


def pixels(value, shape=(1, 2, 2, 1)):
    return lambda folder: data.validate_images(np.full(shape, value))


def images(array):
    return lambda folder: data.validate_images(array)


ROWS = {
    # Images.
    "images of rank 3": (
        images(np.zeros([2, 4, 4], np.uint8)),
        r"images\[..., None\]",
    ),
    "images of rank 2": (
        images(np.zeros([2, 16])),
        r"\[N, H, W, C\]\. Received: .*\(2, 16\)",
    ),
    "no images": (images(np.zeros([0, 4, 4, 1])), "must not be empty"),
    "channels first": (
        images(np.zeros([2, 3, 32, 32])),
        r"transpose\(0, 2, 3, 1\)",
    ),
    "integer images": (
        images(np.zeros([2, 4, 4, 1], int)),
        "uint8.*Received: int64",
    ),
    "pixels that are NaN": (pixels(np.nan), "4 NaN or infinite"),
    "infinite pixels": (pixels(np.inf), "4 NaN or infinite"),
    "pixels up to 255": (pixels(200.0), "the largest possible value"),
    "negative pixels": (pixels(-1.0), "undo the normalisation"),
    "pixels above 1": (pixels(1.01), "undo the normalisation"),
    "pixels beyond rounding": (pixels(1 + 3e-6), r"in \[0, 1\]"),
    # Labels.
    "one-hot labels": (lambda f: labels(np.eye(3)), r"labels\.argmax\(-1\)"),
    "labels of rank 3": (
        lambda f: labels(np.zeros([2, 2, 2], int)),
        r"shape \[N\]\. Received",
    ),
    "float labels": (
        lambda f: labels(np.zeros(3)),
        r"astype\('int32'\).*float64",
    ),
    "a negative label": (
        lambda f: labels(np.array([-1, 0, 1])),
        r"0 \.\. 2: .* from -1 to 1",
    ),
    "a label too large": (
        lambda f: labels(np.array([1, 2, 3])),
        r"0 \.\. 2: .* from 1 to 3",
    ),
    "too few labels": (
        lambda f: labels(np.array([0, 1])),
        "3 images and 2 labels",
    ),
    "a negative label, any number of classes": (
        lambda f: data.validate_labels(np.array([-1, 0])),
        "must be 0 or more: number the classes from 0. Received: .*-1 to 0",
    ),
    "a label beyond int32": (
        lambda f: data.validate_labels(np.array([0, 2**40])),
        "0 .. 2147483647.* to 1099511627776",
    ),
    "no labels": (
        lambda f: data.validate_labels(np.array([], int)),
        "must not be empty",
    ),
    "one class": (
        lambda f: data.validate_labels(np.array([0]), 1),
        "two classes",
    ),
    # Data sets by name.
    "an unknown split": (
        lambda f: data.load("digits", split="dev"),
        "'validation', 'test'. Received: split='dev'",
    ),
    "validation of nothing": (
        lambda f: data.load("digits", split="validation"),
        "validation_examples above 0",
    ),
    "validation of everything": (
        lambda f: data.load("digits", validation_examples=1297),
        "leave some of the 1297",
    ),
    "negative validation": (
        lambda f: data.load("digits", validation_examples=-1),
        "Received: validation_examples=-1",
    ),
    "more examples than there are": (
        lambda f: data.load("digits", num_examples=1298),
        "at most 1297",
    ),
    "zero examples": (
        lambda f: data.load("digits", num_examples=0),
        "must be an integer of at least 1.*None takes all",
    ),
    # .npz files.
    "an .npz file that is not there": (npz("none.npz"), "no such file.*none"),
    "an empty .npz file": (npz("empty.npz"), "Cannot read .*empty.npz"),
    "text in an .npz file": (npz("text.npz"), "Cannot read .*text.npz"),
    "an .npz file cut off": (npz("cut.npz"), "Cannot read .*cut.npz"),
    "an .npy file named .npz": (npz("npy.npz"), "Cannot read .*npy.npz"),
    "a folder named .npz": (npz("folder.npz"), "no such file.*folder.npz"),
    "a pickle in an .npz file": (npz("pickle.npz"), "Cannot read.*pickle"),
    "half the arrays of an .npz file": (
        npz("half.npz"),
        "or images and labels, but has x_train",
    ),
    "no array in an .npz file": (npz("none of it.npz"), "but has none"),
    "one-hot labels in an .npz file": (npz("onehot.npz"), "argmax"),
    "fewer labels than images in a file": (
        npz("fewer.npz"),
        "50 images and 4 labels",
    ),
    "one class in an .npz file": (npz("one class.npz"), "at least two classes"),
    "a number for images in a file": (npz("scalar.npz"), "0 images and 50"),
    # TFDS.
    "a truncated TFRecord": (
        tfds("cut"),
        r"Cannot read .*cut/1.0.0' beyond example \d+ of 20.*prepare the data",
    ),
    "a TFRecord with a bit flipped": (
        tfds("flipped"),
        "Cannot read .*flipped.*damaged or incomplete",
    ),
    "a TFRecord with fewer examples": (
        tfds("fewer"),
        "Cannot read .*fewer.*damaged or incomplete",
    ),
    "a TFDS folder without its TFRecord": (
        tfds("gone"),
        "Cannot read .*gone.*damaged or incomplete",
    ),
    "a data set that names foreign code": (tfds("foreign"), FOREIGN),
    "foreign code in snake case": (tfds("foreign_snake"), FOREIGN),
    "foreign code under an escaped name": (tfds("foreign_escaped"), FOREIGN),
    "foreign code in TFDS' older form": (tfds("foreign_legacy"), FOREIGN),
    "foreign code in JSON within JSON": (tfds("foreign_text"), FOREIGN),
    "a features.json that is no JSON": (
        tfds("features"),
        "Cannot read .*features.json, which must be JSON",
    ),
    "a dataset_info.json that is no JSON": (
        tfds("info"),
        "Cannot read .*dataset_info.json, which must be JSON",
    ),
    "an unknown TFDS name": (tfds("nothing"), "no data set 'nothing'"),
    # Pipelines and datasets.
    "a batch larger than the data": (
        lambda f: data.train_pipeline(NUMBERED, batch_size=11, seed=0),
        r"in 1 \.\. 10.*batch_size=11",
    ),
    "a negative first step": (
        lambda f: data.train_pipeline(
            NUMBERED, batch_size=2, seed=0, start_step=-1
        ),
        "start_step=-1",
    ),
    "an evaluation batch of 0": (
        lambda f: data.eval_pipeline(NUMBERED, 0),
        "batch_size=0",
    ),
    "an endless dataset": (
        lambda f: data.as_arrays(tf.data.Dataset.from_tensors(GOOD).repeat()),
        "must be finite",
    ),
    "a dataset of dicts": (
        lambda f: data.as_arrays(tf.data.Dataset.from_tensors({"a": 1})),
        "must have one field out of",
    ),
    "a dataset without an element": (
        lambda f: data.as_arrays(tf.data.Dataset.from_tensors(GOOD).take(0)),
        "0 batches",
    ),
    "data of no kind": (lambda f: data.as_arrays("digits"), "Received: str"),
    # Threat models, attacks, methods, networks, by name and number.
    "epsilon below 0": (lambda f: Linf(-0.1), "Received: epsilon=-0.1"),
    "epsilon NaN": (lambda f: Linf(float("nan")), "Received: epsilon=nan"),
    "epsilon above 1": (lambda f: Linf(1.5), "Received: epsilon=1.5"),
    "bounds in the wrong order": (
        lambda f: Linf(0.1, bounds=(1.0, 0.0)),
        r"Received: bounds=\(1.0, 0.0\)",
    ),
    "infinite bounds": (
        lambda f: Linf(0.1, bounds=(0.0, float("inf"))),
        "must be finite",
    ),
    "a threat model of text": (
        lambda f: threat_models.get("0.1"),
        "must be a number or a threat model",
    ),
    "zero steps": (
        lambda f: attacks.pgd(0.1, num_steps=0),
        "integer of at least 1. Received: num_steps=0",
    ),
    "half a step": (lambda f: attacks.pgd(0.1, num_steps=2.5), "num_steps=2.5"),
    "a step of size 0": (lambda f: step_rules.sign(0.0), "above 0"),
    "a negative entropy weight": (
        lambda f: attacks.exp(0.1, entropy_weight=-1.0),
        "must not be negative",
    ),
    "an unknown reduction": (
        lambda f: attacks.exp(0.1, entropy_reduction="max"),
        "entropy_reduction='max'",
    ),
    **{
        f"the attack {name!r}": (
            lambda f, name=name: attacks.get(name, 0.1),
            "must be one of.*Received: name=",
        )
        for name in (
            "nope",
            "fgsm-3",
            "pgd-0",
            "pgd-",
            "",
            "-",
            "pgd-20x0",
            "pgdx",
            "../../pgd",
        )
    },
    "an attack without its targets": (
        lambda f: attacks.get("fea", 0.1),
        r"'fea' also needs \['targets'\]",
    ),
    "an attack without its image size": (
        lambda f: attacks.get("exp-am", 0.1),
        r"also needs \['input_shape'\]",
    ),
    "an unknown method": (
        lambda f: methods.get("at_pdg"),
        "Received: name='at_pdg'",
    ),
    "an argument that a method lacks": (
        lambda f: methods.get("at_pgd", beta=1.0),
        "does not take beta",
    ),
    "an unknown network": (
        lambda f: networks.get("vgg", input_shape=(8, 8, 1)),
        "vgg",
    ),
    # Batches that an attack is given.
    "an attack on NaN": (
        lambda f: attack(np.full_like(GOOD[0], np.nan)),
        "must be finite and lie in",
    ),
    "an attack on integers": (
        lambda f: attack(GOOD[0].astype("int32")),
        "must be floats .* uint8 .*dtype=int32",
    ),
    "an attack on one image": (
        lambda f: attack(GOOD[0][0], 0),
        "batch the data set",
    ),
    "an attack with labels of several classes": (
        lambda f: attack(y=np.ones([5, 10])),
        "add up to 1 in each row",
    ),
    "an attack with a label too large": (
        lambda f: attack(y=GOOD[1] + 6),
        r"in 0..9, the classifier's outputs. Received: labels from 6 to 10",
    ),
    "an attack with a negative label": (
        lambda f: attack(y=GOOD[1] - 1),
        "Received: labels from -1 to 3",
    ),
    "an attack with fewer labels": (
        lambda f: attack(y=GOOD[1][:4]),
        "5 images and 4 labels",
    ),
    "an attack with a seed of text": (
        lambda f: attack(seed="zero"),
        "`seed` must be an integer",
    ),
    # Evaluations.
    "a classifier that ends in softmax": (
        lambda f: checks.check_classifier(softmax()),
        "must return logits.*`adt_tf.as_classifier.*--probabilities",
    ),
    "an evaluation by a name": (
        lambda f: evaluation.evaluate(make_linear(), GOOD, ["pgd"]),
        "must hold attacks such as",
    ),
    "two attacks of one name": (
        lambda f: evaluation.evaluate(
            make_linear(), GOOD, [attacks.fgsm(0.1), attacks.fgsm(0.2)]
        ),
        "with different names",
    ),
    "an evaluation in batches of 0": (
        lambda f: evaluation.evaluate(make_linear(), GOOD, [], batch_size=0),
        "Received: batch_size=0",
    ),
    "a classifier with too few outputs": (
        lambda f: evaluation.evaluate(
            make_linear((8, 8, 1)), GOOD, [], verbose=False
        ),
        "Labels go up to 4.* count from 1, subtract 1.* labels from 0 to 4",
    ),
    "an evaluation file that is a list": (
        lambda f: evaluation_files.read(f / "list.json"),
        "list.json: the file must be an object with fields",
    ),
    "an evaluation file with other letters": (
        lambda f: evaluation_files.read(f / "letters.json"),
        "letters.json: `outcomes` must hold the letters",
    ),
    "an evaluation file with lost verdicts": (
        lambda f: evaluation_files.read(f / "lost.json"),
        r"lost.json: .*verdicts on \[2, 3\] examples",
    ),
    # Models.
    "a model that is not there": (
        model("none.keras"),
        "no file or directory .*none.keras",
    ),
    "a folder for a model": (model("full"), "must be a .keras file"),
    "text in a .keras file": (model("text.keras"), "Cannot load .*text.keras"),
    "an empty .keras file": (model("empty.keras"), "Cannot load .*empty.keras"),
    "a .keras file cut in half": (
        model("cut.keras"),
        "Cannot load .*cut.keras",
    ),
    "a .keras file with other bytes": (
        model("damaged.keras"),
        "Cannot load .*damaged.keras",
    ),
    "code in a .keras file": (model("lambda.keras"), "safe mode.*Lambda|safe"),
    "code in an .h5 file": (model("lambda.h5"), "Cannot load .*safe mode"),
    "a model of code that is not here": (
        model("custom.keras"),
        "Cannot load .*safe mode, which runs no code",
    ),
    "a SavedModel that takes bytes only": (
        model("bytes only"),
        "must take float images",
    ),
    "a SavedModel of one batch size": (
        model("one batch"),
        "batches of any size",
    ),
    "a SavedModel with two outputs": (
        model("two outputs"),
        "an output named 'logits'",
    ),
    "a SavedModel without a signature": (
        model("no signature"),
        "no signature 'serving_default'",
    ),
    "a SavedModel cut off": (model("cut model"), "Cannot load .*cut model"),
    "a SavedModel without its weights": (
        model("no weights"),
        "Cannot load .*no weights",
    ),
    "an export over a file": (
        lambda f: adt_tf.export(make_convolutional(), f / "file"),
        "nothing is overwritten",
    ),
    "an export over a folder with files": (
        lambda f: adt_tf.export(make_convolutional(), f / "full"),
        "nothing is overwritten",
    ),
    "an export with too few class names": (
        lambda f: adt_tf.export(
            make_convolutional(), f / "new", class_names=["cat", "dog"]
        ),
        "must hold a string for each of the 10 classes",
    ),
    "an export of a softmax": (
        lambda f: adt_tf.export(softmax(), f / "new"),
        "must return logits",
    ),
    "a report on a path for a protocol": (
        lambda f: report.write([f / "run"], f / "new", protocol="../../x"),
        "must be a name, not a path",
    ),
    "a family that is not there": (
        lambda _: attacks.exp(0.1, family="cauchy"),
        "family='cauchy'",
    ),
    "a mixture of no component": (
        lambda _: attacks.exp(0.1, family="mixture-0"),
        "num_components=0",
    ),
    "the Gaussian's entropy of a mixture": (
        lambda _: attacks.exp(0.1, family="mixture", entropy="gaussian"),
        "entropy='gaussian'",
    ),
    "a negative temperature": (
        lambda _: attacks.langevin(0.1, temperature=-1.0),
        "temperature=-1.0",
    ),
    "more points than steps of a chain": (
        lambda _: attacks.langevin(0.1, num_steps=2, num_points=3),
        "num_points=3",
    ),
    "no distributions to sample": (
        lambda _: probabilistic(distributions=[]),
        "distributions=\\[\\]",
    ),
    "a threshold of 0": (
        lambda _: probabilistic(thresholds=[0.0]),
        "thresholds=0.0",
    ),
    "samples that are no multiple of 32": (
        lambda _: probabilistic(max_samples=100),
        "multiple of 32",
    ),
    "a norm with an argument that is not stored": (
        lambda _: Unstored(0.1, shares=(1.0, 0.5)).scaled(0.5),
        "set self.shares in the constructor",
    ),
    "a norm with a sign error": (
        lambda _: threat_models.check(Flipped(0.1), (8, 8, 1)),
        "steepest: must rise along the gradient",
    ),
    "a norm that is not registered, in a file": (
        lambda f: trainer(attacks.fgsm(Flipped(0.1))).save(f / "new.keras"),
        "register_keras_serializable",
    ),
    "labels beside those of a dictionary": (
        lambda _: checks.unpack(({"image": 0, "label": 1}, 2)),
        "separate values for \\['label'\\]",
    ),
    "weights of examples below 0": (
        lambda _: trainer(attacks.fgsm(0.1)).train_on_batch(
            *GOOD, sample_weight=-np.ones(5)
        ),
        "lowest and highest weight -1 -1",
    ),
}
