"""--norm from training to the page: another ball in every command."""

import json

import numpy as np
import pytest

from adt_tf import report, threat_models
from adt_tf.runs import (
    evaluation_job,
    evaluation_settings,
    flagfiles,
    inputs,
)
from adt_tf.runs.config import Config
from tests.support import in_process

TRAIN = (
    "--flagfile=flags/digits/at_pgd.flags",
    *("--norm=l2", "--epsilon=0.6", "--epochs=2", "--num_steps=3"),
    *("--train_examples=512", "--drop_after="),
)
ATTACKS = ("--attacks=fgsm,pgd-5", "--test_examples=60")


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A run trained in l2, evaluated in l2, and linted."""
    folder = tmp_path_factory.mktemp("norms") / "run"
    in_process.run("train", *TRAIN, f"--workdir={folder}")
    in_process.run(
        "evaluate", f"--workdir={folder}", *ATTACKS, "--keep_examples"
    )
    in_process.run("lint", f"--workdir={folder}", "--test_examples=16")
    return folder


def test_attacks_fill_the_l2_ball(workdir, digits):
    result = json.loads((workdir / "evaluation.json").read_text())
    assert (result["norm"], result["epsilon"]) == ("l2", 0.6)
    assert "L2(epsilon=0.6" in result["attacks"]["PGD-5"]
    with np.load(workdir / "evaluation.npz") as arrays:
        change = arrays["x_adv"] - digits[0][:60]
    length = np.sqrt(np.sum(np.square(change), axis=(1, 2, 3)))
    assert length.max() <= 0.6 * (1 + 1e-5)
    assert np.median(length) > 0.4
    assert np.abs(change).max() > 0.1  # no l-infinity ball of 0.6 / 8


def test_lint_says_the_norm(workdir):
    values = json.loads((workdir / "lint.json").read_text())
    assert (values["norm"], values["epsilon"]) == ("l2", 0.6)


def test_the_page_says_the_norm(workdir, tmp_path):
    page = report.write([workdir], tmp_path, analyses=False, num_images=2)
    text = page.read_text()
    assert "move the image by up to 0.6 in l2" in text
    assert "l2, 0.6" in text
    assert "every pixel by up to" not in text
    assert "l2 ball of radius 0.6" in (tmp_path / "report.md").read_text()


def test_another_norm_than_that_of_training(workdir, tmp_path):
    other = (*ATTACKS, "--norm=linf", "--epsilon=0.05")
    done = in_process.run("evaluate", f"--workdir={workdir}", *other)
    assert done.returncode == 1 and "nothing was overwritten" in done.stderr
    assert "l2 epsilon 0.6" in done.stderr
    linf = workdir / "evaluation-other.json"
    in_process.run(
        "evaluate",
        f"--workdir={workdir}",
        *ATTACKS,
        *("--norm=linf", "--epsilon=0.05", f"--output={linf}"),
    )
    assert json.loads(linf.read_text())["norm"] == "linf"
    page = report.write(
        [workdir], tmp_path, protocol="other", analyses=False, num_images=2
    )
    text = page.read_text()
    assert "change every pixel by up to 0.05" in text
    assert "it was trained in l2, with an epsilon of 0.6" in text
    with pytest.raises(ValueError, match="differ in their norm"):
        evaluation_job.compare(workdir / "evaluation.json", linf)


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("train", ["--norm=l2"], "--norm=l2 needs --epsilon"),
        ("train", ["--norm=l7", "--epsilon=1"], "--norm must be one of"),
        ("evaluate", ["--norm=l2"], "--norm=l2 needs --epsilon"),
        ("lint", ["--norm=l2"], "--norm=l2 needs --epsilon"),
    ],
)
def test_a_norm_without_a_radius(command, flags, message, workdir, tmp_path):
    folder = tmp_path / "w" if command == "train" else workdir
    done = in_process.run(command, f"--workdir={folder}", *flags)
    assert done.returncode and message in done.stderr
    assert not (tmp_path / "w").exists()


def test_a_norm_beside_the_radius_of_a_flagfile(tmp_path):
    """The radius of the file is for the norm of the file."""
    shipped = "--flagfile=digits/adt_exp"
    for norm in (["--norm=l2"], ["--norm", "l2"]):
        with pytest.raises(ValueError, match="needs --epsilon after") as told:
            flagfiles.expand([shipped, *norm])
        assert "Received: --epsilon=0.15 of " in str(told.value)
    assert flagfiles.expand([shipped, "--norm=l2", "--epsilon=0.5"])
    file = tmp_path / "mine.flags"
    file.write_text(f"{shipped}\n--norm=l2\n--epsilon=0.5\n")
    assert flagfiles.expand([f"--flagfile={file}"])
    assert flagfiles.expand([f"--flagfile={file}", "--epsilon=0.3"])
    folder = tmp_path / "w"
    done = in_process.run("train", shipped, "--norm=l2", f"--workdir={folder}")
    assert done.returncode == 1 and "--norm=l2 needs" in done.stderr
    assert done.stderr.strip().count("\n") == 0 and not folder.exists()


def test_configurations_name_threat_models():
    config = Config(norm="l2", epsilon=0.5)
    assert inputs.threat_model(config) == threat_models.L2(0.5)
    assert inputs.threat_model(Config()) == threat_models.Linf(8 / 255)
    assert Config.parse(config.to_flags().split()) == config
    with pytest.raises(ValueError, match="must be one of linf, l2"):
        threat_models.from_norm("l1", 0.5)


def test_verdicts_in_one_norm_are_not_current_in_another():
    def settings(**changes):
        return evaluation_settings.describe(
            Config(epsilon=0.5, **changes), ["pgd-20"], classifier="9f"
        )

    linf, l2 = settings(), settings(norm="l2")
    before = {k: v for k, v in linf.items() if k != "norm"}
    assert evaluation_settings.is_current(before, linf)
    assert not evaluation_settings.is_current(before, l2)
    assert not evaluation_settings.is_current(linf, l2)


def test_files_say_the_norm_of_the_attacks(tmp_path, convolutional, images):
    from adt_tf import attacks, data

    test = data.ImageData(*images, num_classes=10, name="mine")
    output = tmp_path / "evaluation.json"
    evaluation_job.assess(
        convolutional,
        test,
        [attacks.fgsm(threat_models.L2(0.5))],
        output,
        details={},
    )
    assert json.loads(output.read_text())["norm"] == "l2"
