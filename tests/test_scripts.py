"""The scripts as a user runs them: real processes, exit codes, files."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from tests.support import processes, runs
from tests.support.bad_files import TINY
from tests.support.disks import fill
from tests.support.processes import fails, run


def run_python(script, *arguments):
    """As a user does it: a new interpreter."""
    return subprocess.run(
        [sys.executable, f"scripts/{script}.py", *map(str, arguments)],
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    attacks = "--attacks=fgsm,pgd-3"
    for command in (["train", *TINY], ["evaluate", attacks]):
        done = run_python(*command, f"--workdir={path}")
        assert done.returncode == 0, done.stderr
    return path


def test_workdir_holds_everything(workdir):
    assert (workdir / "classifier.keras").is_file()
    assert list((workdir / "tensorboard").rglob("events*"))
    assert (workdir / "checkpoints" / "step-00000004").is_dir()
    with open(workdir / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert {"loss", "accuracy", "perturbation"} <= set(rows[0])
    classifier = keras.saving.load_model(workdir / "classifier.keras")
    assert classifier(np.zeros((1, 8, 8, 1))).shape == (1, 10)


def test_resolved_flags_are_a_flagfile(workdir, tmp_path):
    again = tmp_path / "again"
    run("train", f"--flagfile={workdir}/flags.txt", f"--workdir={again}")
    assert (again / "flags.txt").read_text() == (
        workdir / "flags.txt"
    ).read_text()
    first, second = (
        keras.saving.load_model(path / "classifier.keras").get_weights()
        for path in (workdir, again)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_configuration_is_refused(workdir):
    before = {p: p.stat().st_mtime_ns for p in workdir.rglob("*")}
    done = run("train", *TINY, "--seed=3", f"--workdir={workdir}", check=False)
    fails(done, "holds another configuration")
    assert "--seed=3" in done.stderr
    assert before == {p: p.stat().st_mtime_ns for p in workdir.rglob("*")}


def test_a_finished_run_is_left_alone(workdir):
    done = run("train", *TINY, f"--workdir={workdir}")
    assert "is finished" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_stopped_goes_on(number, workdir, tmp_path):
    """Within an epoch, of which it has saved the first of two steps."""
    path = tmp_path / "stopped"
    process = runs.start(path, *TINY, "--checkpoint_steps=1")
    while not list(path.glob("checkpoints/step-00000001")):
        assert process.is_alive(), "it has ended before it was stopped"
        time.sleep(0.002)
    os.kill(process.pid, number)
    process.join()
    told = path.with_name("told.txt").read_text()
    if number == signal.SIGTERM:
        assert process.exitcode == 143 and "Traceback" not in told
        assert "Stopped by SIGTERM after step" in told
        assert "repeat the command to continue" in told
    # How often it is saved may change, and so does not make it another run.
    done = run("train", *TINY, f"--workdir={path}", "--keep_checkpoints=1")
    assert "Resuming after step" in done.stdout
    first, second = (
        keras.saving.load_model(p / "classifier.keras").get_weights()
        for p in (workdir, path)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    rows = [(p / "metrics.csv").read_text() for p in (workdir, path)]
    assert rows[0] == rows[1]


LONGER = [
    *("--method=at_pgd", "--num_steps=2", "--epsilon=0.15", "--augment"),
    *("--train_examples=64", "--validation_examples=32", "--batch_size=32"),
    *("--drop_after=3", "--keep_best", "--checkpoint_steps=1"),
    "--ema_momentum=0.9",
]


@pytest.fixture(scope="module")
def four_epochs(tmp_path_factory):
    path = tmp_path_factory.mktemp("longer") / "four"
    runs.finish(path, *LONGER, "--epochs=4")
    return path


@pytest.mark.parametrize(
    "ended", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_more_epochs_than_before(ended, four_epochs, tmp_path):
    """The run ends as if it had been longer from the start, bit for bit."""
    path = tmp_path / "run"
    if ended:
        runs.finish(path, *LONGER, "--epochs=2")
    else:
        process = runs.start(path, *LONGER, "--epochs=2")
        runs.kill_when(process, lambda: runs.last_step(path) >= 1)
    done = run("train", *LONGER, f"--workdir={path}", "--epochs=4")
    assert "Extending the run from 2 to 4 epochs" in done.stdout
    assert (
        "learning rate of the new epochs is 0.1 and 0.01 at the end"
        in done.stdout
    )
    assert runs.differences(runs.end_of(path), runs.end_of(four_epochs)) == []
    for name in ("metrics.csv", "flags.txt"):
        texts = [(p / name).read_bytes() for p in (path, four_epochs)]
        assert texts[0] == texts[1]
    assert (path / "classifier-epoch-2.keras").exists() == ended
    if ended:
        kept = (path / "classifier.keras").read_bytes()
        for epochs, message in ((3, "more epochs but not fewer"), (4, "")):
            arguments = (*LONGER, f"--workdir={path}", f"--epochs={epochs}")
            done = run("train", *arguments, check=not message)
            assert done.returncode == bool(message) and message in done.stderr
        assert (path / "classifier.keras").read_bytes() == kept


def test_a_rate_that_depends_on_the_epochs_cannot_be_made_longer(tmp_path):
    flags = [*TINY, "--schedule=cosine", f"--workdir={tmp_path / 'run'}"]
    run("train", *flags, "--epochs=1")
    before = (tmp_path / "run" / "flags.txt").read_text()
    done = run("train", *flags, "--epochs=2", check=False)
    processes.fails(done, "cannot be extended")
    assert (tmp_path / "run" / "flags.txt").read_text() == before


def test_a_full_disk(workdir, small_disk, tmp_path):
    """Full at the first checkpoint, then at the second; then no more."""
    path = small_disk / "run"
    for free in (300_000, 1_000_000):
        ballast = fill(small_disk, free)
        (told,) = runs.finish(path, *TINY, code=1).splitlines()
        assert told.startswith("error: "), told
        assert "No space left on device" in told and "free some space" in told
    assert runs.last_step(path) == 0
    ballast.unlink()
    assert runs.finish(path, *TINY) == ""
    assert runs.differences(runs.end_of(path), runs.end_of(workdir)) == []


def test_evaluation_is_json(workdir):
    result = json.loads((workdir / "evaluation.json").read_text())
    assert list(result["accuracy"]) == ["natural", "FGSM", "PGD-3"]
    assert result["A_rob"] <= result["accuracy"]["PGD-3"]
    assert result["epsilon"] == 0.15 and result["num_examples"] == 500


def test_export_and_report(workdir, tmp_path):
    target = tmp_path / "served"
    done = run("export", f"--workdir={workdir}", f"--output={target}")
    assert "in a process without adt_tf" in done.stdout
    done = run("export", f"--workdir={workdir}", f"--output={target}")
    assert f"SavedModel in {target / '2'}" in done.stdout
    assert [p.name for p in sorted(target.iterdir())] == ["1", "2"]
    known = json.loads((target / "2" / "robustness.json").read_text())
    measured = json.loads((workdir / "evaluation.json").read_text())
    assert known["robust"]["accuracy"] == measured["A_rob"]
    assert known["training_data"]["examples"] == 128
    output = tmp_path / "report"
    done = run(
        "report",
        f"--workdirs={workdir}",
        f"--output={output}",
        "--noanalyses",
    )
    assert f"The page is {output / 'index.html'}" in done.stdout
    page = (output / "index.html").read_text(encoding="utf-8")
    assert page.count("at_pgd classifies")
    assert page.count("128 images of 8")
    assert "| at_pgd |" in (output / "report.md").read_text()
    for name in ("accuracy.png", "images.png"):
        assert (output / name).stat().st_size > 5000


@pytest.mark.slow
def test_several_processes_on_one_workdir(workdir, tmp_path):
    """Three evaluations and three exports at once, all of the same name."""
    path = tmp_path / "run"
    shutil.copytree(workdir, path)
    commands = [
        *[["evaluate", "--attacks=fgsm,pgd-3", "--keep_examples"]] * 3,
        *[["export"]] * 3,
    ]
    started = [
        subprocess.Popen(
            [
                sys.executable,
                f"scripts/{script}.py",
                f"--workdir={path}",
                *more,
            ],
            cwd=processes.ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script, *more in commands
    ]
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert "Traceback" not in err
    before, after = (
        json.loads((folder / "evaluation.json").read_text())
        for folder in (workdir, path)
    )
    assert before["outcomes"] == after["outcomes"]
    for version in ("1", "2", "3"):
        assert (path / "saved_model" / version / "saved_model.pb").is_file()
    assert not [p for p in path.iterdir() if "partial" in p.name]
    assert not list(path.glob("unfinished-*"))


def test_a_diverged_run_says_so(tmp_path):
    done = run(
        "train",
        *TINY,
        "--learning_rate=1e30",
        f"--workdir={tmp_path}/run",
        check=False,
    )
    fails(done, "of step 2 is not finite. The batch holds the examples ")
    assert len(done.stderr.strip().splitlines()) == 1
