"""--network=package.module:function, which only the command line may name."""

import re
import sys

import pytest

from adt_tf.networks import own_functions
from adt_tf.runs import flagfiles
from adt_tf.runs.config import Config
from adt_tf.runs.experiment import Experiment
from tests.support import in_process

MODULE = """
import pathlib
import keras

with open(pathlib.Path(__file__).with_name("imports.txt"), "a") as file:
    file.write("x")


def tiny(input_shape, num_classes):
    return keras.Sequential([
        keras.Input(input_shape),
        keras.layers.Conv2D(4, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(num_classes),
    ])


def wrong(input_shape, num_classes):
    return tiny(input_shape, num_classes + 1)


def no_model(input_shape, num_classes):
    return "a network"


def failing(input_shape, num_classes):
    raise RuntimeError("no idea")
"""
NAME = "own_networks.small:tiny"


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "own_networks"
    folder.mkdir()
    (folder / "small.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in ("own_networks", "own_networks.small"):
        sys.modules.pop(name, None)


def train(workdir, *flags):
    return in_process.run(
        "train",
        *flags,
        *("--train_examples=64", "--batch_size=32", "--epochs=1"),
        *("--method=standard", f"--workdir={workdir}"),
    )


def test_from_the_command_line(package, tmp_path):
    done = train(tmp_path / "run", f"--network={NAME}")
    assert done.returncode == 0, done.stderr
    # What measures the classifier runs none of this code.
    sys.modules.pop("own_networks.small")
    (package / "small.py").write_text("raise SystemExit('imported')")
    flags = ("--attacks=fgsm", "--test_examples=32")
    done = in_process.run("evaluate", f"--workdir={tmp_path}/run", *flags)
    assert done.returncode == 0, done.stderr
    config = Config.from_workdir(tmp_path / "run")
    assert config.network_function == NAME and config.network_file is None
    with pytest.raises(ValueError, match="on the command line of adt-train"):
        Experiment.from_config(config)


def test_no_file_may_name_code(package, tmp_path):
    (tmp_path / "their.flags").write_text(f"--network={NAME}\n--seed=1\n")
    flagfile = f"--flagfile={tmp_path}/their.flags"
    (tmp_path / "outer.flags").write_text(f"{flagfile}\n")
    for flags in (
        [flagfile],
        ["--network=small_cnn", flagfile],
        [f"--network={NAME}", flagfile],
        [f"--flagfile={tmp_path}/outer.flags"],
    ):
        done = train(tmp_path / "run", *flags)
        assert done.returncode == 1
        assert "their.flags names Python code to run" in done.stderr
        assert not (tmp_path / "run").exists()
    assert not (package / "imports.txt").exists()
    assert Config.parse([flagfile, "--network=small_cnn"]).seed == 1
    config = Config.parse([flagfile, f"--network={NAME}"])
    assert config.network_function == NAME
    # absl takes a value of its own, too.
    assert flagfiles.expand([flagfile, "--network", "small_cnn"])[-1:] == [
        "small_cnn"
    ]


def test_flags_of_a_run_are_a_file(package, tmp_path):
    done = train(tmp_path / "run", f"--network={NAME}")
    assert done.returncode == 0, done.stderr
    done = train(tmp_path / "again", f"--flagfile={tmp_path}/run/flags.txt")
    assert done.returncode == 1 and "names Python code to run" in done.stderr


def test_weights_come_from_the_seed(package):
    function = own_functions.find_function(NAME)
    size = {"input_shape": (8, 8, 1), "num_classes": 3}
    one, same, other = (
        own_functions.build(function, **size, seed=seed).get_weights()[0]
        for seed in (1, 1, 2)
    )
    assert (one == same).all() and not (one == other).all()


@pytest.mark.parametrize(
    "name, message",
    [
        ("own_networks.small:", "'package.module:function'"),
        ("own_networks.gone:tiny", "Cannot import 'own_networks.gone'"),
        ("own_networks.small:huge", "has no function 'huge'"),
        (
            "own_networks.small:wrong",
            "must take images .* and return 10 logits",
        ),
        ("own_networks.small:no_model", "must return a Keras 3 model"),
        ("own_networks.small:failing", "raised RuntimeError: no idea"),
    ],
)
def test_bad_functions(name, message, package, tmp_path):
    done = train(tmp_path / "run", f"--network={name}")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert re.search(message, last), last
    assert not (tmp_path / "run").exists()
