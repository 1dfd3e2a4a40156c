"""adt-evaluate and adt-lint on models that others made."""

import json
import pathlib
import shutil
import time

import numpy as np
import pytest

import adt_tf
from adt_tf import data
from adt_tf.runs import evaluation_files, evaluation_job, inputs
from adt_tf.runs.config import Config
from adt_tf.serving import bundle, loading
from tests.support import in_process
from tests.support.locks import held_elsewhere
from tests.support.models import make_convolutional, predicted
from tests.support.processes import ROOT, run, start

PROTOCOLS = sorted(ROOT.glob("flags/protocols/*.flags"))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Two models, and images that the first classifies correctly."""
    folder = tmp_path_factory.mktemp("models")
    first, second = make_convolutional(0), make_convolutional(1)
    first.save(folder / "first.keras")
    second.save(folder / "second.keras")
    generator = np.random.default_rng(1)
    x = generator.uniform(size=(200, 8, 8, 1)).astype("float32")
    y = predicted(first, x)
    np.savez(folder / "mine.npz", images=x, labels=y)
    return folder


def arguments(case, *more, model="first"):
    return [
        f"--model={case}/{model}.keras",
        f"--dataset={case}/mine.npz",
        "--epsilon=0.02",
        *more,
    ]


def test_any_model_and_protocol(case, tmp_path):
    output = tmp_path / "out" / "result.json"
    done = run(
        "evaluate",
        *arguments(case, "--attacks=fgsm,pgd-5x2,square-50"),
        f"--output={output}",
        "--keep_examples",
    )
    result = json.loads(output.read_text())
    assert list(result["accuracy"]) == ["natural", "FGSM", "PGD-5 x2", "Square"]
    assert result["accuracy"]["natural"] == 1.0
    assert "--attacks=fgsm,pgd-5x2,square-50" in result["command"]
    assert result["attack_names"] == ["fgsm", "pgd-5x2", "square-50"]
    assert (result["epsilon"], result["test_examples"]) == (0.02, None)
    assert "num_steps=5" in done.stdout and "40 examples" in done.stdout
    assert output.with_suffix(".csv").read_text().count("\n") == 41
    assert "| A_rob |" in output.with_suffix(".md").read_text()
    with np.load(output.with_suffix(".npz")) as arrays:
        assert arrays["x_adv"].shape == (40, 8, 8, 1)
    assert not list(output.parent.glob("*unfinished*"))


def test_no_attack_is_refused(case, tmp_path):
    output = tmp_path / "result.json"
    flags = [*arguments(case, "--attacks="), f"--output={output}"]
    done = run("evaluate", *flags, check=False)
    assert done.returncode and "--attacks must name an attack" in done.stderr
    assert not output.exists()


def test_examples_without_all_classes_are_told(tmp_path, capsys):
    """The first examples of a sorted file."""
    path = tmp_path / "mine.npz"
    x, y = np.zeros([40, 8, 8, 1], "float32"), np.arange(40) // 10
    np.savez(path, x_test=x, y_test=y)
    config = Config(dataset=str(path))
    inputs.load_test_data(config, 15)
    assert "have only 2 of the 4 classes, since" in capsys.readouterr().err
    inputs.load_test_data(config)
    np.savez(path, x_test=x, y_test=np.arange(40) % 4)
    inputs.load_test_data(config, 15)
    assert not capsys.readouterr().err


def test_a_version_is_measured_in_its_own_folder(case, tmp_path):
    """The results lie beside it, and do not hinder the next version."""
    bundle.write(make_convolutional(0), tmp_path / "served")
    flags = ["--model=.", f"--dataset={case}/mine.npz", "--epsilon=0.02"]
    flags += ["--test_examples=10"]
    for command, more in (("evaluate", ["--attacks=fgsm"]), ("lint", [])):
        done = in_process.run(
            command, *flags, *more, cwd=tmp_path / "served" / "1"
        )
        assert "error" not in done.stderr
    for name in ("evaluation.json", "evaluation.csv", "lint.json"):
        assert (tmp_path / "served" / f"1-{name}").is_file()
    result = evaluation_files.read(tmp_path / "served" / "1-evaluation.json")
    assert result["classifier"] == loading.fingerprint(tmp_path / "served")
    bundle.write(make_convolutional(1), tmp_path / "served")
    assert result["classifier"] != loading.fingerprint(tmp_path / "served")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_protocols_take_saved_models(version, case, tmp_path):
    model = tmp_path / f"v{version}"
    adt_tf.export(make_convolutional(0), model)
    attacks = ["fgsm,mim-5,fea-2", "pgd-2,exp-2,exp-am"][version == "1.1"]
    done = in_process.run(
        "evaluate",
        f"--model={model}",
        f"--dataset={case}/mine.npz",
        "--epsilon=0.02",
        f"--protocol={['paper', 'distributional'][version == '1.1']}",
        f"--attacks={attacks}",
        "--test_examples=10",
        "--train_examples=32",
        "--attack_epochs=1",
        "--attack_width_factor=0.03125",
    )
    assert done.returncode == 0, done.stderr
    assert "40 of its 200 examples are used as test split" in done.stdout
    # Each version has a result of its own.
    (path,) = tmp_path.glob(f"v{version}-evaluation-*.json")
    result = json.loads(path.read_text())
    assert len(result["accuracy"]) == 4
    if version == "1.0":
        assert "its logits are used as features" in done.stdout
        assert "logit_similarity" in result["attacks"]["Fea-50x2 (logits)"]


def test_compare_is_paired(case, tmp_path):
    for name in ("first", "second"):
        run(
            "evaluate",
            *arguments(case, "--attacks=fgsm,pgd-5", model=name),
            f"--output={tmp_path}/{name}.json",
        )
    pair = [f"{tmp_path}/first.json", f"{tmp_path}/second.json"]
    done = run("evaluate", "--compare", *pair)
    assert "| A_rob |" in done.stdout and "McNemar p" in done.stdout
    folders = [tmp_path / name for name in ("A", "B")]
    for folder, path in zip(folders, pair, strict=True):
        folder.mkdir()
        shutil.copy(path, folder / "evaluation-quick.json")
    table = evaluation_job.compare(*folders, protocol="quick")
    assert table.splitlines()[2:] == done.stdout.rstrip().splitlines()[2:]
    with pytest.raises(ValueError, match=r"--workdir=.*A$"):
        evaluation_job.compare(*folders)


def test_killed_it_goes_on_where_it_stopped(case, tmp_path):
    command = arguments(case, "--attacks=fgsm,pgd-50x40")
    expected = tmp_path / "expected" / "result.json"
    run("evaluate", *command, f"--output={expected}")
    output = tmp_path / "killed" / "result.json"
    process = start("evaluate", *command, f"--output={output}")
    deadline = time.time() + 120
    while not list(output.parent.glob("unfinished-*")):
        assert time.time() < deadline and process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert not output.exists()
    done = run("evaluate", *command, f"--output={output}")
    assert "Continuing an evaluation" in done.stdout
    first, second = (json.loads(p.read_text()) for p in (expected, output))
    assert first["outcomes"] == second["outcomes"]


def small_assessment(output, names=("fgsm",)):
    x = np.random.default_rng(0).uniform(size=(8, 8, 8, 1)).astype("float32")
    examples = data.ImageData(x, np.arange(8), 10, "mine")
    chosen = evaluation_job.build_attacks(names, 0.1, examples)
    return evaluation_job.assess(
        make_convolutional(), examples, chosen, output, details={}
    )


def test_evaluations_wait_for_each_other(tmp_path, monkeypatch, capsys):
    """Another process is writing into the directory, and takes too long."""
    monkeypatch.setattr(evaluation_files, "_LONGEST_WAIT", 0.1)
    output = tmp_path / "evaluation.json"
    with held_elsewhere(tmp_path):
        with pytest.raises(ValueError, match="Another process .*Repeat the co"):
            small_assessment(output)
        assert not output.exists()
    report = small_assessment(output)
    assert "Continuing an evaluation" in capsys.readouterr().out
    assert evaluation_files.read(output)["report"].to_dict() == report.to_dict()


def test_an_evaluation_cleans_up_in_a_workdir_only(tmp_path):
    for name in ("run", "mine"):
        (tmp_path / name / ".adt_tf-01234567.partial").mkdir(parents=True)
    (tmp_path / "run" / "flags.txt").write_text("")
    for name in ("run", "mine"):
        small_assessment(tmp_path / name / "evaluation.json")
    assert not list((tmp_path / "run").glob(".adt_tf*"))
    assert len(list((tmp_path / "mine").glob(".adt_tf*"))) == 1


def test_distributions_are_sampled(case, tmp_path):
    output = tmp_path / "evaluation-probabilistic.json"
    done = run(
        "evaluate",
        *arguments(case, "--distributions=uniform,exp@0.1", "--attacks=fgsm"),
        "--max_samples=32",
        "--test_examples=10",
        f"--output={output}",
    )
    values = evaluation_files.read(output)
    report = values["probabilistic"]
    assert list(report.failures) == ["uniform", "EXP-20 at 0.1"]
    assert values["distributions"] == ["uniform", "exp@0.1"]
    assert (report.samples["uniform"] == 32).all()
    fooled = np.any([f > 0 for f in report.failures.values()], axis=0)
    assert not (report.report.robust & fooled).any()
    assert "PR(0.001)" in done.stdout
    header = output.with_suffix(".csv").read_text().splitlines()[0]
    assert header.endswith("failures of uniform,failures of EXP-20 at 0.1")
    assert "PR(0) = A_rob" in output.with_suffix(".md").read_text()
    refused = in_process.run(
        "evaluate",
        *arguments(case, "--distributions=uniform@0.1", "--attacks=fgsm"),
        f"--output={tmp_path / 'other.json'}",
    )
    assert refused.returncode == 1 and "exp@0.01" in refused.stderr


@pytest.mark.slow
def test_samples_killed_go_on_and_end_the_same(case, tmp_path):
    def command(folder):
        return [
            "evaluate",
            *arguments(case, "--distributions=exp@1,uniform", "--attacks=fgsm"),
            "--max_samples=8192",
            f"--output={tmp_path / folder / 'result.json'}",
        ]

    run(*command("whole"))
    folder = tmp_path / "killed"
    folder.mkdir()
    process = start(*command("killed"))
    while not list(folder.glob("unfinished-failures-*.npz")):
        assert process.is_alive()
        time.sleep(0.1)
    process.kill()
    process.join()
    assert not (folder / "result.json").exists()
    done = run(*command("killed"))
    assert "Resuming samples of an interrupted evaluation" in done.stdout
    assert not list(folder.glob("unfinished-*"))
    whole, killed = (
        json.loads((tmp_path / name / "result.json").read_text())
        for name in ("whole", "killed")
    )
    assert killed["probabilistic"] == whole["probabilistic"]
    assert killed["outcomes"] == whole["outcomes"]


@pytest.mark.parametrize("path", PROTOCOLS, ids=lambda path: path.stem)
def test_protocols_build(path):
    names = dict(
        line.removeprefix("--").split("=")
        for line in path.read_text().splitlines()
        if "=" in line and line.startswith("--")
    )["attacks"].split(",")
    test = data.load("digits", split="test")
    chosen = evaluation_job.build_attacks(
        names, 0.1, test, width_factor=0.03125
    )
    assert len({attack.name for attack in chosen}) == len(names)
    assert f"--protocol={path.stem}" in path.read_text()


def test_protocols_are_all_there():
    expected = "artifact autoattack budget distributional generalisation paper"
    names = " ".join(path.stem for path in PROTOCOLS)
    assert names == (
        f"{expected} probabilistic quick released rice spsa transfer"
    )


def test_lint_fails_loudly(case, tmp_path):
    output = tmp_path / "lint.json"
    done = run(
        "lint",
        *arguments(case, f"--output={output}", "--test_examples=20"),
        check=False,
    )
    report = json.loads(pathlib.Path(output).read_text())
    failed = any(f["status"] == "fail" for f in report["findings"])
    assert done.returncode == int(failed)
    assert "Traceback" not in done.stderr
