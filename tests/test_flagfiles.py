"""Every flagfile parses, names things that exist, and trains."""

import dataclasses
import pathlib
import re

import numpy as np
import pytest

from adt_tf import methods
from adt_tf.runs import experiment, flagfiles, method_flags, protocols
from adt_tf.runs.config import Config
from tests.support import processes

ROOT = pathlib.Path(__file__).parents[1]
#: The flagfiles that say "Result: not measured.", and no others do. A result
#: that is measured goes into the flagfile and its name out of this list.
UNMEASURED = {
    f"flags/{folder}/{name}.flags"
    for folder, names in {
        "digits": ("adt_exp_am_trades", "adt_imp_am_trades"),
        "mini": ("fgsm_rs", "mart", "n_fgsm"),
        "small": (
            "adt_exp",
            "adt_exp_am",
            "adt_exp_am_trades",
            "adt_exp_trades",
            "adt_imp_am",
            "adt_imp_am_trades",
            "alp",
            "at_fgsm",
            "fea_scatter",
            "fgsm_rs",
            "l2l",
            "mart",
            "n_fgsm",
            "trades",
        ),
    }.items()
    for name in names
}
#: Folders of the paper's scale, whose flagfiles quote the paper's results.
OF_THE_PAPER = ("cifar10", "cifar100", "svhn_cropped", "rice", "trades")
PARTS = ("data", "methods", "protocols", "recipes")
FLAGFILES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "flags").rglob("*.flags")
    if path.parent.name not in (*PARTS, "flags")
)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty directory, in which the test runs."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


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
        "small": methods.list(),
    }
    for folder, rows in expected.items():
        for row in rows:
            assert f"{folder}/{row}.flags" in names


@pytest.mark.parametrize("path", FLAGFILES)
def test_flagfile_parses_and_opens_with_its_command(path, elsewhere):
    config = Config.from_flagfile(path)
    text = (ROOT / path).read_text()
    assert f"--flagfile={path}" in text.split("\n--")[0]
    comment = " ".join(re.findall(r"(?m)^# ?(.*)$", text))
    numbers = r"\d+\.\d+ % natural(,| and) .*\d+\.\d+ %"
    time, result = r"\d.* (s|minutes|hours) (on|of) .*", numbers
    if path.split("/")[1] in OF_THE_PAPER:
        time = "not measured; days on a GPU"
        result = "not measured with this code. In the paper's Table.*: "
        result += numbers
    if path in UNMEASURED:
        time, result = ".*", "not measured."
    assert re.search(rf"Training time: {time}. Result: {result}", comment)
    taken = methods.arguments(config.method)
    assert set(config.method_arguments()) <= set(taken)
    name = path.removesuffix(".flags").split("/")[-1]
    assert name.startswith(config.method)
    if "beta" in name or "trades" in name:
        assert config.beta in (1.0, 6.0)


def test_flagfiles_without_a_result_are_listed():
    texts = {path: (ROOT / path).read_text() for path in FLAGFILES}
    without = {
        p for p, text in texts.items() if "Result: not measured.\n" in text
    }
    assert without == UNMEASURED


@pytest.mark.parametrize(
    "name",
    [
        "digits/adt_exp",
        "digits/adt_exp.flags",
        "flags/digits/adt_exp",
        "flags/digits/adt_exp.flags",
        str(ROOT / "flags" / "digits" / "adt_exp.flags"),
        str(ROOT / "flags" / "digits" / "adt_exp"),
    ],
)
def test_a_flagfile_is_found_by_each_of_its_names(name, elsewhere):
    expected = ROOT / "flags" / "digits" / "adt_exp.flags"
    assert flagfiles.find(name).samefile(expected)
    config = Config.parse([f"--flagfile={name}", "--epochs=1"])
    assert (config.method, config.epsilon, config.epochs) == (
        "adt_exp",
        0.15,
        1,
    )
    assert Config.parse(["--flagfile", name, "--epochs=1"]) == config


@pytest.mark.parametrize(
    "name", ["digits/adt_exp", "digits/adt_exp.flags", "flags/digits/adt_exp"]
)
def test_a_local_file_wins(name, elsewhere):
    path = elsewhere / name
    path.parent.mkdir(parents=True)
    path.write_text("--epochs=77\n")
    assert Config.from_flagfile(name).epochs == 77


def test_a_file_beside_wins_over_one_that_comes_with_the_package(tmp_path):
    (tmp_path / "base.flags").write_text("--epochs=77\n")
    mine = tmp_path / "mine.flags"
    mine.write_text(
        "# mine\n// too\n\n--flagfile=base\n  --method=at_pgd  \n"
        "--flagfile=recipes/trades\n"
    )
    config = Config.from_flagfile(mine)
    assert (config.epochs, config.method) == (77, "at_pgd")
    assert (config.epsilon, config.network) == (0.031, "wrn-34-10")


def test_later_flags_win(elsewhere):
    (elsewhere / "mine").write_text("--epochs=5\n--epochs=6\n--augment\n")
    file = "--flagfile=mine"
    assert Config.parse([file]).epochs == 6
    assert Config.parse(["--epochs=7", file]).epochs == 6
    assert Config.parse([file, "--epochs=7"]).epochs == 7
    assert Config.parse([file, "--noaugment"]).augment is False


def test_a_file_may_be_named_twice_but_not_within_itself(elsewhere):
    (elsewhere / "one").write_text("--flagfile=two\n--flagfile=two\n")
    (elsewhere / "two").write_text("--seed=3\n")
    assert Config.from_flagfile("one").seed == 3
    (elsewhere / "two").write_text("--flagfile=three\n")
    (elsewhere / "three").write_text("--flagfile=../elsewhere/two\n")
    with pytest.raises(ValueError, match="two -> .*three -> .*two$"):
        Config.from_flagfile("one")


def test_a_file_asks_for_no_download(elsewhere):
    for flag in ("--download", "--download=true", "-download"):
        (elsewhere / "mine").write_text(f"{flag}\n--seed=3\n")
        assert Config.from_flagfile("mine").download is False
        config = Config.parse(["--download", "--flagfile=mine"])
        assert config.download is True and config.seed == 3


@pytest.mark.parametrize("method", methods.list())
def test_flags_of_methods_are_their_arguments(method):
    """The table that is there without TensorFlow, beside the functions."""
    others = {"input_shape", "seed", "label_smoothing"}  # not of one method
    taken = set(methods.arguments(method)) - others
    known = method_flags.METHOD_FLAGS
    assert taken == {flag for flag in known if method_flags.takes(method, flag)}
    assert method_flags.takes(method, "epochs")
    assert method_flags.takes("no method", "beta")


RELEASED = {
    "adt_exp": {"gradient_decay": 1.0, "adam_epsilon": 1e-8 * 64 / 5},
    "adt_exp_am": {"gradient_scale": 1 / 64},
    "adt_imp_am": {"gradient_scale": 1 / 64, "entropy_threshold": 0.9},
    "l2l": {"gradient_scale": 1 / 64},
    "at_pgd": {},
}


@pytest.mark.parametrize("method", RELEASED)
def test_the_released_recipe_sets_what_the_method_takes(method, capsys):
    run = Config.from_flagfile(f"cifar10/{method}")
    files = [f"cifar10/{method}", "recipes/released"]
    config = Config.parse([f"--flagfile={file}" for file in files])
    text = capsys.readouterr().out
    changed = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if value != getattr(run, name)
    }
    assert changed == pytest.approx(RELEASED[method])
    # It names the rest, in one line.
    others = {
        name for values in RELEASED.values() for name in values
    } - changed.keys()
    assert text.startswith("recipes/released: dropped --")
    assert text.count("\n") == 1
    assert all(f"--{name}=" in text for name in others)
    assert not any(f"--{name}=" in text for name in changed)
    generator = {"input_shape": (8, 8, 1), "width_factor": 0.02}
    more = generator if method_flags.takes(method, "width_factor") else {}
    assert methods.get(method, **config.method_arguments(), **more)


def test_the_released_hinge_has_weight_one():
    config = Config.parse(
        ["--flagfile=digits/adt_imp_am", "--flagfile=recipes/released"]
    )
    attack = methods.get(
        "adt_imp_am", input_shape=(8, 8, 1), **config.method_arguments()
    ).attack
    assert (attack.entropy_weight, attack.entropy_threshold) == (1.0, 0.9)
    assert attack.couples_examples


def test_what_is_typed_is_not_left_out(capsys):
    """Only a recipe's own flags give way, wherever the method is named."""
    recipe = "--flagfile=recipes/released"
    typed = Config.parse([recipe, "--method=at_pgd", "--gradient_decay=1"])
    assert typed.gradient_decay == 1.0
    with pytest.raises(ValueError, match="does not take gradient_decay"):
        methods.get("at_pgd", **typed.method_arguments())
    assert Config.parse(["--method=at_pgd", recipe]).gradient_decay is None
    assert Config.parse([recipe, "--method=adt_exp"]).gradient_decay == 1.0
    lines = []
    arguments = flagfiles.expand([recipe, "--method", "l2l"], say=lines.append)
    assert arguments[-2:] == ["--method", "l2l"]
    assert "--gradient_decay=1.0" not in arguments
    assert len(lines) == 1 and flagfiles.expand([]) == []
    assert flagfiles.expand(["--", recipe]) == ["--", recipe]


def test_protocols_are_found_as_flagfiles_are(elsewhere):
    shipped = sorted(p.stem for p in (ROOT / "flags/protocols").iterdir())
    assert protocols.names() == shipped
    assert protocols.attacks_of("rice") == ["pgd-10", "pgd-20", "pgd-100"]
    folder = elsewhere / "flags" / "protocols"
    folder.mkdir(parents=True)
    (folder / "mine.flags").write_text("--attacks=fgsm,pgd-3\n")
    (folder / "rice.flags").write_text("--attacks=fgsm\n")
    assert protocols.names() == sorted([*shipped, "mine"])
    assert protocols.attacks_of("mine") == ["fgsm", "pgd-3"]
    assert protocols.attacks_of("rice") == ["fgsm"]
    for name in ("nope", "../base", "", "paper.flags", "/etc/passwd"):
        with pytest.raises(ValueError, match="--protocol must be one of"):
            protocols.read(name)


def take_a_step(path, tmp_path, *overrides):
    """Builds the run and takes one real step of it."""
    generator = np.random.default_rng(0)
    classes = 100 if "cifar100" in path else 10
    file = tmp_path / "images.npz"
    np.savez(
        file,
        images=generator.integers(0, 256, (5 * classes, 32, 32, 3), "uint8"),
        labels=np.arange(5 * classes) % classes,
    )
    config = dataclasses.replace(
        Config.parse([f"--flagfile={path}", *overrides]),
        train_examples=8,
        batch_size=8,
        validation_examples=0,
        keep_best=False,
    )
    if "digits" not in path:
        config = dataclasses.replace(config, dataset=str(file))
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
def test_small_twin_takes_a_step(path, tmp_path):
    take_a_step(path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FLAGFILES if "/digits/" not in p])
def test_paper_scale_takes_a_step(path, tmp_path):
    """The method and recipe as they are, on networks that a CPU can run."""
    narrow = ["--network=wrn-10-1"]
    if "width_factor" in methods.arguments(Config.from_flagfile(path).method):
        narrow.append("--width_factor=0.0625")
    take_a_step(path, tmp_path, *narrow)


def test_training_script_takes_a_flagfile(tmp_path):
    processes.run(
        "train",
        "--flagfile=flags/digits/trades.flags",
        "--train_examples=256",
        "--validation_examples=64",
        "--keep_best",
        "--ema_momentum=0.9",
        "--epsilon_warmup=2",
        "--epochs=3",
        f"--workdir={tmp_path}/run",
    )
    assert (tmp_path / "run" / "best.keras").is_file()
    header = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]
    assert "val_robust_accuracy" in header
