"""Sixty things that a hostile or unlucky user does, and what comes of each.

`CASES` has for each a function of a new folder and a pattern of what it says:
"taken" where it works, or the one line that refuses it.
"""

import io
import json
import os
import time
import unicodedata
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

from adt_tf import (
    attacks,
    data,
    evaluation,
    networks,
)
from adt_tf.runs import (
    checkpoints,
    evaluation_files,
    lint_job,
    metrics,
    protocols,
    provenance,
)
from adt_tf.runs.config import Config
from adt_tf.serving import loading, saved_model
from tests.support import in_process

TRAIN = ["train", "--method=standard", "--train_examples=64", "--epochs=1"]
IMAGES = np.random.default_rng(0).uniform(size=[6, 4, 4, 1]).astype("f4")
LABELS = np.arange(6, dtype=np.int32) % 3


def model():
    return keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    )


def command(*arguments, **options):
    """Runs a command; returns "taken" or what it says in place of that."""

    def call(folder):
        filled = [
            argument.replace("{f}", str(folder)) for argument in arguments
        ]
        done = in_process.run(*filled, **options)
        if done.returncode == 0:
            return "taken"
        lines = done.stderr.strip().splitlines()
        if len(lines) != 1 or not lines[0].startswith("error: "):
            raise AssertionError(done.stderr)
        return lines[0]

    return call


def train(*flags):
    return command(*TRAIN, "--workdir={f}/run", *flags)


def library(call):
    """Calls with the folder; returns "taken" or the message."""

    def called(folder):
        try:
            call(folder)
        except (ValueError, OSError) as error:
            return str(error)
        return "taken"

    return called


def archive(**arrays):
    """Loads an .npz file with these arrays as a test split."""

    def call(folder):
        path = folder / "mine.npz"
        np.savez(path, **{"x_test": IMAGES, "y_test": LABELS, **arrays})
        data.load(str(path), split="test")

    return library(call)


def evaluated(images=IMAGES, labels=LABELS, attack=None, **options):
    return library(
        lambda folder: evaluation.evaluate(
            model(),
            (images, labels),
            [attacks.fgsm(0.1)] if attack is None else attack,
            verbose=False,
            **options,
        )
    )


def flagfile(content, name="mine.flags"):
    def call(folder):
        (folder / name).write_bytes(content)
        Config.from_flagfile(folder / name)

    return library(call)


def linked(target):
    """A folder `link` that leads to another path."""

    def call(folder):
        os.symlink(str(folder / target), folder / "link")
        return train("--workdir={f}/link/run")(folder)

    return call


def with_environment(call, **changes):
    def called(folder):
        environment = {
            name: value
            for name, value in os.environ.items()
            if changes.get(name, "") is not None
        }
        environment |= {k: v for k, v in changes.items() if v is not None}
        with mock.patch.dict(os.environ, environment, clear=True):
            return call(folder)

    return called


def picture(mode, kind, **options):
    """Sends a picture to the bytes signature of an exported model."""

    def call(folder):
        classifier = networks.get(
            "small_cnn", input_shape=(8, 8, 1), num_classes=3, seed=0
        )
        saved_model.export(classifier, folder / "served")
        served = tf.saved_model.load(str(folder / "served")).signatures
        file = io.BytesIO()
        Image.new(mode, (8, 8)).save(file, kind, **options)
        try:
            answer = served["serving_bytes"](images=[file.getvalue()])
        except tf.errors.InvalidArgumentError as error:
            return " ".join(str(error).split())
        assert np.isfinite(answer["logits"]).all()
        return "taken"

    return call


def fifo(name, call):
    """Puts a pipe that nobody writes in the place of a file."""

    def called(folder):
        os.mkfifo(folder / name)
        return call(folder)

    return called


def time_of(path_time):
    def call(folder):
        path = folder / "file"
        path.touch()
        os.utime(path, (path_time, path_time))
        return provenance.written_at(path)

    return library(call)


def moved(folder):
    """The folder of the checkpoints is moved away between two of them."""
    state = tf.train.Checkpoint(x=tf.Variable(1.0))
    (folder / "run").mkdir()
    store = checkpoints.Checkpoints(folder / "run" / "checkpoints", state)
    store.save(step=1, record={"step": 1, "metrics": None})
    os.rename(folder / "run", folder / "moved")
    try:
        store.save(step=2, record={"step": 2, "metrics": None})
    except OSError as error:
        return str(error)
    return "taken"


def record_that_names(target):
    """A checkpoint whose record names another file."""

    def call(folder):
        state = tf.train.Checkpoint(x=tf.Variable(1.0))
        store = checkpoints.Checkpoints(folder / "checkpoints", state)
        store.save(step=1, record={"step": 1, "metrics": None})
        path = folder / "checkpoints" / "step-00000001" / "record.json"
        record = json.loads(path.read_text())
        record["sha256"][target] = "0" * 64
        path.write_text(json.dumps(record))
        store.restore()

    return library(call)


def normal_forms(folder):
    """Two names that look alike are two workdirs."""
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "é")
        (folder / name).mkdir()
    assert len(list(folder.iterdir())) == 2
    name = unicodedata.normalize("NFD", "é")
    return command(*TRAIN, f"--workdir={folder}/{name}")(folder)


def jumping_clock(folder):
    """The clock goes back by a day at every look."""
    times = iter(range(1_700_000_000, 0, -86_400))
    with mock.patch.object(time, "time", lambda: float(next(times))):
        return train()(folder)


def clock_of_1970(folder):
    """As of a machine without a battery."""
    with mock.patch.object(time, "time", lambda: 1000.0):
        return train()(folder)


CASES = {
    # Paths.
    "a workdir that is a loop of links": (linked("link"), "error: .*link"),
    "a workdir behind a link that leads nowhere": (linked("none"), "error"),
    "a workdir with a name of 300 letters": (
        train("--workdir={f}/" + "x" * 300),
        "too long",
    ),
    "a path of 5,000 letters": (
        train("--workdir={f}/" + "x/" * 2500),
        "too long",
    ),
    "an empty name for a workdir": (train("--workdir="), "workdir"),
    "a workdir with a zero byte": (train("--workdir={f}/a\0b"), "null byte"),
    "a workdir in /proc": (train("--workdir=/proc/adt_tf/run"), "error: "),
    "a workdir that is a device": (train("--workdir=/dev/null"), "error: "),
    "a workdir with a newline": (train("--workdir={f}/a\nb"), "taken"),
    "a workdir with letters of two normal forms": (normal_forms, "taken"),
    "a workdir that begins with a dash": (train("--workdir={f}/-x"), "taken"),
    "a workdir with a per cent sign": (train("--workdir={f}/%s{0}"), "taken"),
    "the workdir is moved while it trains": (moved, "moved or removed"),
    "flags.txt that is a pipe": (
        fifo("flags.txt", command("evaluate", "--workdir={f}")),
        "is not the workdir of a run",
    ),
    "a flagfile that is a pipe": (
        fifo("mine", train("--flagfile={f}/mine")),
        "no flagfile",
    ),
    "a data set that is a pipe": (
        fifo("mine.npz", train("--dataset={f}/mine.npz")),
        "no such file",
    ),
    "a model that is a pipe": (
        fifo("mine.keras", library(lambda f: loading.load(f / "mine.keras"))),
        "must be a .keras file",
    ),
    "a model that is an endless device": (
        library(lambda f: loading.load("/dev/zero")),
        "must be a .keras file",
    ),
    "an evaluation that is a pipe": (
        fifo("evaluation.json", library(lambda f: evaluation_files.read(f))),
        "not a regular file",
    ),
    "findings that are a pipe": (
        fifo("lint.json", library(lambda f: lint_job.read(f / "lint.json"))),
        "not a regular file",
    ),
    "metrics that are a pipe": (
        fifo("metrics.csv", library(lambda f: metrics.read(f / "metrics.csv"))),
        "not a regular file",
    ),
    "a record that names an endless device": (
        record_that_names("/dev/zero"),
        "are damaged",
    ),
    "a record that names a file that is not there": (
        record_that_names("none"),
        "are damaged",
    ),
    "an output that is a folder": (
        library(
            lambda f: evaluation_files.checked_output(
                (f / "x.json").mkdir() or f / "x.json"
            )
        ),
        "was not written by an evaluation",
    ),
    "an output behind a link that leads nowhere": (
        library(
            lambda f: evaluation_files.checked_output(
                (f / "x.json").symlink_to(f / "none") or f / "x.json"
            )
        ),
        "was not written by an evaluation",
    ),
    # Flags.
    "a flag twice": (train("--epochs=0", "--epochs=1"), "taken"),
    "epochs beyond 64 bits": (train(f"--epochs={10**30}"), "--epochs must"),
    "a batch beyond 64 bits": (
        train(f"--batch_size={10**30}"),
        "batch_size",
    ),
    "a seed of 2^31": (train(f"--seed={2**31}"), "taken"),
    "a seed beyond 64 bits": (train(f"--seed={10**30}"), "--seed must"),
    "a negative seed": (train("--seed=-1"), "`seed` must be an integer"),
    "a number in other digits": (train("--epochs=１"), "taken"),
    "a number with an underscore": (train("--batch_size=3_2"), "taken"),
    "a number in hexadecimal": (train("--epochs=0x1"), "--epochs must"),
    "5,000 digits": (train("--epochs=" + "9" * 5000), "--epochs must"),
    "more examples than there are": (
        train(f"--train_examples={10**12}"),
        "at most 1297",
    ),
    "epsilon 1e9": (train("--method=at_pgd", "--epsilon=1e9"), "epsilon"),
    "a rate of 1e308": (train("--learning_rate=1e308"), "not finite"),
    "a flag of half a character": (train("--network=\udcff"), "error: "),
    "a flagfile of an unknown user": (
        train("--flagfile=~nobody_at_all/x"),
        "no flagfile",
    ),
    "a flagfile without a name": (train("--flagfile="), "no flagfile"),
    "a flagfile that names itself": (
        flagfile(b"--flagfile=mine.flags\n"),
        "include each other",
    ),
    "an empty flagfile": (flagfile(b""), "taken"),
    "a flagfile with the mark of its byte order": (
        flagfile(b"\xef\xbb\xbf--epochs=3\n"),
        "taken",
    ),
    "a flagfile with the line ends of Windows": (
        flagfile(b"--epochs=3\r\n"),
        "taken",
    ),
    "a flagfile with zero bytes": (flagfile(b"--epochs=3\0\n"), "--epochs"),
    "an empty protocol": (library(lambda f: protocols.read("")), "must be one"),
    "a protocol in capitals": (
        library(lambda f: protocols.read("QUICK")),
        "must be one",
    ),
    "no attack at all": (evaluated(attack=[]), "taken"),
    "an attack of no steps": (
        library(lambda f: attacks.get("pgd-0", 0.1)),
        "num_steps|name=",
    ),
    # The environment.
    "HOME is not set": (
        with_environment(train("--flagfile=~/none"), HOME=None),
        "no flagfile",
    ),
    "TMPDIR is not there": (
        with_environment(train(), TMPDIR="/none/at/all"),
        "taken",
    ),
    "a clock that goes back": (jumping_clock, "taken"),
    "a clock that stands at 1970": (clock_of_1970, "before 1980"),
    "a file of the year 1901": (time_of(-(2**31)), "taken"),
    "a file of the year 33658": (time_of(10**12), "taken"),
    # Images and labels.
    "images of 16 bits": (
        archive(x_test=(IMAGES * 65535).astype(np.uint16)),
        "Images must be uint8",
    ),
    "images with alpha": (archive(x_test=np.repeat(IMAGES, 4, 3)), "taken"),
    "complex images": (archive(x_test=IMAGES + 0j), "Images must be uint8"),
    "images of text": (archive(x_test=np.full([6, 4, 4, 1], "x")), "Images"),
    "labels that are true or false": (
        archive(y_test=LABELS > 0),
        "Labels must be integers",
    ),
    "labels of 64 bits without sign": (
        archive(y_test=LABELS.astype(np.uint64) + 2**63),
        "Labels must be in",
    ),
    "one image": (evaluated(IMAGES[:1], LABELS[:1]), "taken"),
    "a batch larger than the data": (evaluated(batch_size=10**9), "taken"),
    "a seed beyond 64 bits in Python": (evaluated(seed=10**30), "taken"),
    "a PNG with alpha": (picture("RGBA", "PNG"), "taken"),
    "a PNG of 16 bits": (picture("I;16", "PNG"), "taken"),
    "a PNG with a palette": (picture("P", "PNG"), "taken"),
    "a JPEG in CMYK": (picture("CMYK", "JPEG"), "Invalid JPEG"),
    "an animated GIF": (
        picture(
            "L", "GIF", save_all=True, append_images=[Image.new("L", (8, 8), 9)]
        ),
        "must be a PNG or a JPEG",
    ),
}
