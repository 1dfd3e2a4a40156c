"""Every flagfile parses, names things that exist, and trains."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from absl import flags

from adt_tf import methods
from adt_tf.runs import experiment

ROOT = pathlib.Path(__file__).parents[1]
PARTS = ("data", "methods", "protocols", "recipes")
FLAGFILES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "flags").rglob("*.flags")
    if path.parent.name not in (*PARTS, "flags")
)


@pytest.fixture(scope="module")
def common():
    """The scripts' flags, defined once in this process."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import common

    if "dataset" not in flags.FLAGS:
        common.define_experiment_flags()
    yield common
    sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture
def parse(common, monkeypatch):
    monkeypatch.chdir(ROOT)

    def parsed(*arguments):
        names = list(common.experiment_config())
        for name in names:
            flags.FLAGS[name].unparse()
        flags.FLAGS(["train", *arguments])
        return common.experiment_config()

    yield parsed
    for name in common.experiment_config():
        flags.FLAGS[name].unparse()


def test_every_row_of_the_paper_has_a_flagfile():
    names = {path.removeprefix("flags/") for path in FLAGFILES}
    ours = ["adt_exp", "adt_exp_am", "adt_imp_am"]
    expected = {
        "cifar10": [
            *ours,
            "standard",
            "at_fgsm",
            "at_pgd",
            "alp",
            "fea_scatter",
            "l2l",
        ],
        "cifar100": [*ours, "standard", "at_pgd"],
        "svhn_cropped": [*ours, "standard", "at_pgd"],
        "rice": [*ours, "at_pgd"],
        "trades": [
            f"{name}_beta{beta}" for name in (*ours, "trades") for beta in "16"
        ],
        "digits": methods.list(),
        "mini": methods.list(),
    }
    for folder, rows in expected.items():
        for row in rows:
            assert f"{folder}/{row}.flags" in names


@pytest.mark.parametrize("path", FLAGFILES)
def test_flagfile_parses_and_opens_with_its_command(path, parse):
    config = parse(f"--flagfile={path}")
    text = (ROOT / path).read_text()
    assert f"--flagfile={path}" in text.split("\n--")[0]
    assert "Training time: " in text and "Result to expect" in text
    taken = methods.arguments(config["method"])
    given = {
        name
        for name in experiment._METHOD_ARGUMENTS
        if config[name] is not None
    }
    assert given <= set(taken)
    name = path.removesuffix(".flags").split("/")[-1]
    assert name.startswith(config["method"])
    if "beta" in name or "trades" in name:
        assert config["beta"] in (1.0, 6.0)


def take_a_step(parse, path, tmp_path, *overrides):
    """Builds the run and takes one real step of it."""
    generator = np.random.default_rng(0)
    classes = 100 if "cifar100" in path else 10
    file = tmp_path / "images.npz"
    np.savez(
        file,
        images=generator.integers(0, 256, (5 * classes, 32, 32, 3), "uint8"),
        labels=np.arange(5 * classes) % classes,
    )
    dataset = [] if "digits" in path else [f"--dataset={file}"]
    config = parse(
        f"--flagfile={path}",
        *dataset,
        "--train_examples=8",
        "--batch_size=8",
        "--validation_examples=0",
        "--nokeep_best",
        *overrides,
    )
    run = experiment.Experiment.from_config(config)
    logs = run.trainer.train_on_batch(
        np.random.default_rng(0)
        .uniform(size=(8, *run.train_data.input_shape))
        .astype("float32"),
        np.arange(8) % 10,
        return_dict=True,
    )
    assert np.isfinite(list(logs.values())).all()
    assert int(run.trainer.optimizer.iterations) == 1


@pytest.mark.parametrize("path", [p for p in FLAGFILES if "/digits/" in p])
def test_small_twin_takes_a_step(path, parse, tmp_path):
    take_a_step(parse, path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FLAGFILES if "/digits/" not in p])
def test_paper_scale_takes_a_step(path, parse, tmp_path):
    """The method and recipe as they are, on networks that a CPU can run."""
    narrow = ["--network=wrn-10-1"]
    if "width_factor" in methods.arguments(
        parse(f"--flagfile={path}")["method"]
    ):
        narrow.append("--width_factor=0.0625")
    take_a_step(parse, path, tmp_path, *narrow)


def test_training_script_takes_a_flagfile(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "scripts/train.py",
            "--flagfile=flags/digits/trades.flags",
            "--train_examples=256",
            "--validation_examples=64",
            "--keep_best",
            "--ema_momentum=0.9",
            "--epsilon_warmup=2",
            "--epochs=3",
            f"--workdir={tmp_path}/run",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "best.keras").is_file()
    header = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]
    assert "val_robust_accuracy" in header
