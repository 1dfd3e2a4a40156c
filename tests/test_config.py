"""The configuration of a run: its types, its bounds, its text."""

import dataclasses
import math
import subprocess
import sys

import pytest

from adt_tf.runs import flag_fields
from adt_tf.runs.config import Config
from adt_tf.runs.method_flags import METHOD_FLAGS
from adt_tf.runs.workdir import Workdir

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
FLOATS = [name for name, field in FIELDS.items() if "float" in field.type]
#: Another value than the default, for every field.
CHANGED = {
    "dataset": "my data.npz",
    "image_size": (24, 32),
    "data_dir": "/data/with=equals",
    "download": True,
    "train_examples": 100,
    "validation_examples": 10,
    "stream": True,
    "augment": False,
    "randaugment": 0.25,
    "cutout": 3,
    "cutmix": 1.0,
    "extra_data": "extra.npz",
    "extra_fraction": 0.7,
    "crop": "resized",
    # No such network, but one that goes with all the others.
    "network": "keras:my weights.pt",
    "architecture": "wrn-10-1",
    "weights": "imagenet",
    "frozen_layers": 3,
    "method": "at_pgd",
    "norm": "l2",
    "epsilon": 1 / 3,
    "num_steps": 3,
    "step_size": 1e-300,
    "step_share": 0.5,
    "noise_share": 1.5,
    "num_samples": 2,
    "sample_chunk": 1,
    "entropy_weight": -0.0,
    "entropy_reduction": "sum",
    "entropy": "gaussian",
    "family": "mixture-3",
    "temperature": 0.01,
    "entropy_threshold": -0.9,
    "gradient_decay": 1.0,
    "adam_epsilon": 1.28e-7,
    "gradient_scale": 1 / 64,
    "beta": 6,
    "pairing_weight": 0.5,
    "label_smoothing": 0.5,
    "width_factor": 0.125,
    "outer_samples": 2,
    "sample_temperature": 0.1,
    "awp_size": 0.005,
    "awp_warmup": 10,
    "epochs": 76,
    "batch_size": 1,
    "learning_rate": 0.05,
    "rate_warmup": 2.5,
    "drop_after": (100, 150),
    "optimizer": "adamw",
    "momentum": 0.0,
    "weight_decay": 5e-4,
    "keep_best": True,
    "ema_momentum": 0.999,
    "epsilon_warmup": 5,
    "seed": -3,
    "jit_compile": "true",
    "checkpoint_steps": 7,
    "checkpoint_minutes": 0.1,
    "keep_checkpoints": 1,
    "on_nonfinite": "rollback",
    "precision": "mixed_bfloat16",
    "search_precision": "bfloat16",
    "distribute": "mirrored",
}
#: Those that do not go with all the others.
APART = {"activation": "silu", "schedule": "one_cycle", "clip_norm": 0.5}


def test_every_field_is_changed():
    changed = {**CHANGED, **APART}
    assert changed.keys() == FIELDS.keys()
    default = Config()
    assert all(getattr(default, k) != v for k, v in changed.items() if v)


def test_flags_and_back():
    for config in (Config(), Config(**APART), Config(**CHANGED)):
        flags = config.to_flags().splitlines()
        assert Config.parse(flags) == config
        assert config.to_flags().endswith("\n")
    assert "--drop_after=100,150" in flags and "--noaugment" in flags
    assert "--beta=6.0" in flags and "--keep_best" in flags
    assert "--num_steps" not in Config().to_flags()


def test_defaults_are_those_of_before():
    """flags.txt of a run that was given no flag."""
    assert Config().to_flags().split() == [
        "--awp_size=0.0",
        "--awp_warmup=0",
        "--batch_size=64",
        "--checkpoint_minutes=10.0",
        "--checkpoint_steps=0",
        "--crop=shift",
        "--cutmix=0.0",
        "--cutout=0",
        "--dataset=digits",
        "--distribute=none",
        "--nodownload",
        "--drop_after=",
        "--epochs=30",
        "--epsilon=0.03137254901960784",
        "--epsilon_warmup=0",
        "--frozen_layers=0",
        "--image_size=",
        "--jit_compile=auto",
        "--nokeep_best",
        "--keep_checkpoints=2",
        "--learning_rate=0.1",
        "--method=adt_exp",
        "--momentum=0.9",
        "--network=small_cnn",
        "--norm=linf",
        "--on_nonfinite=stop",
        "--optimizer=sgd",
        "--outer_samples=1",
        "--precision=float32",
        "--randaugment=0.0",
        "--rate_warmup=0.0",
        "--schedule=steps",
        "--search_precision=auto",
        "--seed=0",
        "--validation_examples=0",
        "--weight_decay=0.0002",
    ]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize("name", FLOATS)
def test_every_float_is_finite(name, text):
    with pytest.raises(ValueError, match=f"^--{name} must be finite. Received"):
        Config.parse([f"--{name}={text}"])
    with pytest.raises(ValueError, match=f"^--{name} must be finite. Received"):
        Config(**{name: float(text)})


@pytest.mark.parametrize("name", FIELDS)
def test_every_bound_holds(name):
    rules = FIELDS[name].metadata
    if rules["at_least"] is not None:
        below = rules["at_least"] - 1
        message = f"--{name} must be at least {rules['at_least']}. Received: "
        with pytest.raises(ValueError, match=f"^{message}"):
            Config(**{name: below})
        assert (
            getattr(Config(**{name: rules["at_least"]}), name)
            == (rules["at_least"])
        )
    if rules["above"] is not None:
        with pytest.raises(ValueError, match=f"^--{name} must be above 0. "):
            Config(**{name: rules["above"]})
    if rules["below"] is not None:
        with pytest.raises(ValueError, match=f"^--{name} must be below 1. "):
            Config(**{name: rules["below"]})
    if rules["at_most"] is not None:
        assert getattr(Config(**{name: rules["at_most"]}), name) == 1.0
        with pytest.raises(ValueError, match=f"^--{name} must be at most 1. "):
            Config(**{name: 1.01})
    for choice in rules["choices"]:
        assert getattr(Config(**{name: choice}), name) == choice
    if rules["choices"]:
        with pytest.raises(ValueError, match=f"^--{name} must be one of"):
            Config(**{name: "other"})


@pytest.mark.parametrize("name", FIELDS)
def test_every_type_holds(name):
    type_name = FIELDS[name].type
    wrong = 3 if "str" in type_name or "bool" in type_name else "3"
    if "tuple" in type_name:
        wrong = 3
    with pytest.raises(ValueError, match=f"^--{name} must be "):
        Config(**{name: wrong})
    if "None" not in type_name:
        with pytest.raises(ValueError, match=f"^--{name} must be "):
            Config(**{name: None})
    assert FIELDS[name].metadata["help"].endswith(".")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--epochs=2.5", "--epochs must be a whole number. Received: 2.5"),
        ("--epochs=", "--epochs must be a whole number. Received: "),
        ("--epochs", "--epochs needs a value: --epochs=... Received: --epochs"),
        ("--noepochs", "--epochs needs a value"),
        ("--augment=maybe", "--augment must be true or false. Received: maybe"),
        ("--noaugment=1", "--noaugment=1 is not a flag of a training run."),
        ("epochs=3", "epochs=3 is not a flag of a training run."),
        ("--workdir=x", "--workdir=x is not a flag of a training run."),
        ("--drop_after=1,,2", "--drop_after must be whole numbers"),
        ("--drop_after=3,3", "--drop_after must be increasing"),
        ("--drop_after=0", "--drop_after must be increasing"),
        ("--keep_best", "--validation_examples=1000"),
        ("--flagfile", "--flagfile needs the name of a file."),
        ("--data_dir=a\n--download", "--data_dir must be one line"),
        ("--data_dir=a\u2028b", "--data_dir must be one line"),
    ],
)
def test_what_is_no_flag(flag, message):
    with pytest.raises(ValueError) as caught:
        Config.parse([flag])
    assert str(caught.value).startswith(message) or message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_switches():
    for flag, value in {
        "--augment": True,
        "--noaugment": False,
        "--augment=true": True,
        "--augment=False": False,
        "--augment=0": False,
    }.items():
        assert Config.parse([flag]).augment is value


def test_parts_of_one_process_take_no_rollback():
    with pytest.raises(ValueError, match="--on_nonfinite=stop"):
        Config(distribute="multiworker", on_nonfinite="rollback")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"awp_warmup": 3}, "--awp_warmup requires --awp_size"),
        ({"extra_data": "x.npz"}, "--extra_data requires --extra_fraction"),
        ({"extra_fraction": 0.7}, "--extra_fraction requires --extra_data"),
        ({"sample_temperature": 1.0}, "requires --outer_samples above 1"),
        (
            {"schedule": "cosine", "drop_after": (3,)},
            "--drop_after requires --schedule=steps",
        ),
        (
            {"rate_warmup": 3.0, "epochs": 3},
            "--rate_warmup must be below --epochs=3. Received: 3",
        ),
        (
            {"clip_norm": 1.0, "distribute": "mirrored"},
            "--clip_norm would clip the gradient of each device",
        ),
        (
            {"activation": "silu", "network": "keras:MobileNetV2"},
            "--activation requires a network of adt_tf",
        ),
        (
            {"activation": "silu", "network": "mine.keras"},
            "--activation requires a network of adt_tf",
        ),
    ],
)
def test_flags_that_do_not_go_together(flags, message):
    with pytest.raises(ValueError) as caught:
        Config(**flags)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_values_are_plain():
    import numpy as np

    config = Config(
        seed=np.int64(3), beta=1, epsilon=np.float32(0.5), drop_after=[1, 2]
    )
    assert type(config.seed) is int and type(config.beta) is float
    assert type(config.epsilon) is float and config.drop_after == (1, 2)
    assert hash(config) == hash(dataclasses.replace(config))
    with pytest.raises(ValueError, match="--drop_after must be whole numbers"):
        Config(drop_after=(1.5,))
    assert math.isclose(config.epsilon, 0.5)


def test_what_decides_a_run():
    undecided = {
        "data_dir",
        "download",
        "stream",
        "checkpoint_steps",
        "checkpoint_minutes",
        "keep_checkpoints",
        "on_nonfinite",
    }
    for name in FIELDS:
        # Each of these is needed by another flag.
        others = {
            "validation_examples": 11,
            "network": "keras:other.pt",
            "extra_data": "other.npz",
            "extra_fraction": 0.5,
            "outer_samples": 3,
            "awp_size": 0.01,
        }
        config = Config(**(APART if name in APART else CHANGED))
        other = others.get(name, getattr(Config(), name))
        other = dataclasses.replace(config, **{name: other})
        is_same = config.deciding_flags() == other.deciding_flags()
        assert is_same == (name in undecided), name


def test_method_arguments():
    assert Config(epsilon=0.1).method_arguments() == {"epsilon": 0.1}
    assert Config(**CHANGED).method_arguments().keys() == set(METHOD_FLAGS)


def claim(path, config):
    """Claims a workdir, as training does, and lets go of it."""
    with Workdir(path).claim(config.to_flags()):
        pass


def test_a_workdir_is_claimed_once(tmp_path):
    workdir = tmp_path / "run"
    config = Config(**CHANGED)
    claim(workdir, config)
    text = (workdir / "flags.txt").read_text()
    assert text.endswith(config.to_flags())
    elsewhere = dataclasses.replace(
        config, data_dir=None, download=False, keep_checkpoints=9
    )
    claim(workdir, elsewhere)
    with pytest.raises(ValueError, match="holds another configuration") as told:
        claim(workdir, dataclasses.replace(config, seed=4))
    assert "Only in the file: ['--seed=-3']" in str(told.value)
    assert "only in this command: ['--seed=4']" in str(told.value)
    assert (workdir / "flags.txt").read_text() == text
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="is not the workdir of a run"):
        claim(full, config)


def test_a_run_of_a_version_that_did_not_know_a_flag_goes_on(tmp_path):
    workdir, config = tmp_path / "run", Config(seed=3)
    claim(workdir, config)
    path = workdir / "flags.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(x for x in lines if not x.startswith("--norm")))
    claim(workdir, config)
    with pytest.raises(ValueError, match="holds another configuration") as told:
        claim(workdir, dataclasses.replace(config, norm="l2", epsilon=0.5))
    assert "--norm=linf" in str(told.value)


def test_flags_of_a_workdir_are_read_back(tmp_path):
    config = Config(**CHANGED)
    claim(tmp_path / "run", config)
    back = Config.from_workdir(tmp_path / "run")
    assert back == dataclasses.replace(config, download=False)
    assert Config.from_workdir(tmp_path / "run", epsilon=0.1).epsilon == 0.1
    assert Config.from_workdir(tmp_path / "run", download=True).download
    path = tmp_path / "run" / "flags.txt"
    for line, message in {
        "--flagfile=digits/adt_exp": "is not a flag of a training run",
        "--output=x": "is not a flag of a training run",
        "--epochs=many": "--epochs must be a whole number. Received: many",
        "--epochs=0": "--epochs must be at least 1. Received: 0",
        "--learning_rate=nan": "--learning_rate must be finite",
    }.items():
        path.write_text(f"{line}\n")
        with pytest.raises(ValueError, match=f"flags.txt: .*{message}"):
            Config.from_workdir(tmp_path / "run")
    # What is not written there is what runs of before did.
    path.write_text("--epochs=3\n")
    assert Config.from_workdir(tmp_path / "run") == Config(
        epochs=3, search_precision="float32"
    )


def test_no_tensorflow_is_needed():
    """Nor NumPy, which takes a tenth of a second."""
    program = (
        "import sys, adt_tf, adt_tf.cli.train, adt_tf.cli.evaluate, "
        "adt_tf.cli.lint, adt_tf.cli.export, adt_tf.cli.report, "
        "adt_tf.cli.reproduce\n"
        "print([m for m in ('tensorflow', 'keras', 'numpy', 'sklearn') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_switch_is_known():
    switches = {n for n, f in FIELDS.items() if flag_fields.is_switch(f)}
    assert switches == {"download", "stream", "augment", "keep_best"}
