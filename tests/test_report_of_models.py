"""A model file from adt-evaluate to the page, without a workdir."""

import json
import shutil

import numpy as np
import pytest

from adt_tf import attacks, data, report
from adt_tf.report import evaluated_runs, origin_sections
from adt_tf.runs import evaluation_job
from tests.support import in_process
from tests.support.models import make_convolutional, predicted
from tests.support.report_runs import NAMES, make_workdir


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two model files and their evaluations at an epsilon of 0.02."""
    folder = tmp_path_factory.mktemp("models")
    x = np.random.default_rng(1).uniform(size=(24, 8, 8, 1)).astype("float32")
    for seed, name in enumerate(("first", "second")):
        model = make_convolutional(seed)
        model.save(folder / f"{name}.keras")
        if name == "first":
            np.savez(folder / "mine.npz", x_test=x, y_test=predicted(model, x))
    for name in ("first", "second"):
        assert evaluate(folder, "--epsilon=0.02", name=name).returncode == 0
    return folder


def evaluate(folder, *more, name="first"):
    return in_process.run(
        "evaluate",
        f"--model={folder}/{name}.keras",
        f"--dataset={folder}/mine.npz",
        "--attacks=fgsm,pgd-2",
        *more,
    )


def test_from_model_files_to_the_page(folder, tmp_path):
    paths = [folder / f"{n}-evaluation.json" for n in ("first", "second")]
    done = in_process.run(
        "report",
        f"--workdirs={paths[0]},{paths[1]}",
        f"--output={tmp_path / 'page'}",
        *("--noanalyses", "--images=2"),
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page" / "index.html").read_text()
    assert f"{folder}/second.keras" in text
    lint = f"adt-lint --model={folder}/first.keras --dataset={folder}/mine.npz"
    assert f"{lint} --epsilon=0.02" in text
    assert "training ended" not in text and "This call runs it" not in text


def test_a_page_is_not_about_other_images(folder, tmp_path):
    """The data set was written anew after the evaluation."""
    shutil.copytree(folder, tmp_path / "moved")
    path = tmp_path / "moved" / "mine.npz"
    result = tmp_path / "moved" / "first-evaluation.json"
    values = json.loads(result.read_text()) | {"dataset": str(path)}
    result.write_text(json.dumps(values))
    (run,) = evaluated_runs.read_runs([result])
    assert len(evaluated_runs.load_examples(run, 5)) == 5
    with np.load(path) as arrays:
        x, y = arrays["x_test"], arrays["y_test"]
    np.savez(path, x_test=x[::-1], y_test=y)
    with pytest.raises(ValueError, match="mine.npz are not those of the eval"):
        evaluated_runs.load_examples(run, 5)


def test_what_lint_finds_on_a_model_file_is_on_the_page(folder):
    done = in_process.run(
        "lint",
        f"--model={folder}/second.keras",
        f"--dataset={folder}/mine.npz",
        *("--epsilon=0.02", "--test_examples=8"),
    )
    assert "Traceback" not in done.stderr
    (run,) = evaluated_runs.read_runs([folder / "second-evaluation.json"])
    assert run.lint["num_examples"] == 8 and run.workdir is None


def test_another_threat_model_is_not_overwritten(folder, tmp_path):
    folder = shutil.copytree(folder, tmp_path / "copy")
    files = {p: p.read_bytes() for p in folder.glob("first-evaluation*")}
    done = evaluate(folder)
    assert done.returncode == 1
    (line,) = (s for s in done.stderr.splitlines() if s.startswith("error:"))
    free = f"{folder}/first-evaluation-linf-0.03137.json"
    for text in (
        "linf epsilon 0.02,",
        "linf epsilon 0.0313725 (the default)",
        f"--output={free}",
        f"--workdirs={free}",
    ):
        assert text in line
    assert {p: p.read_bytes() for p in files} == files
    done = evaluate(folder, f"--output={free}")
    assert "linf epsilon 0.0313725 (the default)" in done.stdout
    head = (folder / free).with_suffix(".md").read_text().splitlines()[0]
    assert head.endswith("linf epsilon 0.0313725 (the default)")
    assert evaluate(folder, "--norm=l2", "--epsilon=0.02").returncode == 1
    # The same evaluation, with other attacks, and of the model trained again.
    assert evaluate(folder, "--epsilon=0.02", "--attacks=fgsm").returncode == 0
    shutil.copy(folder / "second.keras", folder / "first.keras")
    assert evaluate(folder, "--epsilon=0.02").returncode == 0


def test_another_classifier_or_other_data_are_not_overwritten(folder, tmp_path):
    output = f"--output={tmp_path / 'result.json'}"
    assert evaluate(folder, "--epsilon=0.02", output).returncode == 0
    before = (tmp_path / "result.json").read_bytes()
    done = evaluate(folder, "--epsilon=0.02", output, name="second")
    assert "first.keras on" in done.stderr and "second.keras on" in done.stderr
    with np.load(folder / "mine.npz") as arrays:
        x, y = arrays["x_test"], arrays["y_test"]
    np.savez(tmp_path / "mine.npz", x_test=1 - x, y_test=y)
    done = evaluate(
        folder, "--epsilon=0.02", output, f"--dataset={tmp_path / 'mine.npz'}"
    )
    assert "the images or labels differ" in done.stderr
    assert (tmp_path / "result.json").read_bytes() == before


def test_help_says_the_default_of_epsilon():
    text = " ".join(in_process.run("evaluate", "--help").stdout.split())
    assert "of a model 0.0313725" in text


def test_python_needs_no_more_than_a_method(tmp_path):
    """The evaluation names its data, and the page is written from it."""
    model = make_convolutional(0)
    model.save(tmp_path / "classifier.keras")
    x = np.random.default_rng(0).uniform(size=(8, 8, 8, 1)).astype("float32")
    test = data.ImageData(x, np.arange(8), 10, "mine")
    evaluation_job.assess(
        model,
        test,
        [attacks.fgsm(0.1)],
        tmp_path / "evaluation.json",
        details={"method": "mine"},
        verbose=False,
    )
    head = (tmp_path / "evaluation.md").read_text().split("\n\n")
    assert head[0] == "# mine on mine, linf epsilon 0.1"
    assert head[1].startswith("| attack |")
    report.write(
        [tmp_path], tmp_path / "page", test=test, analyses=False, num_images=2
    )
    text = (tmp_path / "page" / "index.html").read_text()
    assert "training ended" not in text
    assert "This call runs it" in text and "adt_tf.lint(" in text


def test_a_run_says_when_its_training_ended(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    (folder / "classifier.keras").write_bytes(b"one")
    (run,) = evaluated_runs.read_runs([folder])
    assert "training ended" in origin_sections.setup([run])["facts"]
    (folder / "flags.txt").unlink()
    (run,) = evaluated_runs.read_runs([folder])
    assert "training ended" not in origin_sections.setup([run])["facts"]


def test_errors_lead_to_the_page(folder, tmp_path):
    with pytest.raises(ValueError, match=r"adt-evaluate --model=.*first.keras"):
        evaluated_runs.read_runs([folder / "first.keras"])
    with pytest.raises(ValueError, match=r"--workdirs=.*first-evaluation.json"):
        evaluated_runs.read_runs([folder])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="adt-evaluate --model=FILE"):
        evaluated_runs.read_runs([tmp_path / "empty"])
    done = in_process.run("evaluate", f"--workdir={folder}")
    assert "--model=FILE" in done.stderr
    path = folder / "second-evaluation.json"
    copy = tmp_path / "moved.json"
    copy.write_text(json.dumps(json.loads(path.read_text())))
    with pytest.raises(ValueError, match="no longer in .*second.keras"):
        evaluated_runs.read_runs([copy])
