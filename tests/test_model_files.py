"""Files of others in the commands: --model, --architecture and --network."""

import json
import re
import shutil

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks, data, files, networks
from adt_tf.runs.config import Config
from tests.support import in_process, reference_weights

TEST = data.load("digits", split="test", num_examples=24)
# For digits: images of one channel, ten classes.
WEIGHTS = reference_weights.state_dict(
    "wrn-16-1-no-bias", conv1_weight=(16, 1, 3, 3), fc_weight=(10, 64)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Weights in PyTorch's names, Keras' own, and a model."""
    folder = tmp_path_factory.mktemp("files")
    np.savez(folder / "torch.npz", **WEIGHTS)
    model = networks.small_cnn(input_shape=(8, 8, 1), width=32, seed=1)
    model.save_weights(folder / "mine.weights.h5")
    model.save(folder / "model.keras")
    return folder


def run(command, *arguments):
    done = in_process.run(command, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("file", "architecture"),
    [
        ("torch.npz", None),
        ("torch.npz", "wrn-16-1"),
        ("mine.weights.h5", "small_cnn"),
        ("model.keras", None),
    ],
)
def test_evaluate_takes_every_file(file, architecture, folder, tmp_path):
    output = tmp_path / "result.json"
    run(
        "evaluate",
        f"--model={folder / file}",
        *([f"--architecture={architecture}"] if architecture else []),
        "--dataset=digits",
        "--test_examples=24",
        "--epsilon=0.1",
        "--attacks=fgsm",
        f"--output={output}",
    )
    classifier = adt_tf.load_classifier(
        folder / file, architecture, input_shape=(8, 8, 1)
    )
    expected = adt_tf.evaluate(
        classifier, TEST, [attacks.fgsm(0.1)], verbose=False
    )
    result = json.loads(output.read_text())
    assert result["outcomes"] == expected.to_dict()["outcomes"]


def test_lint_and_export_take_weights(folder, tmp_path):
    named = (f"--model={folder}/torch.npz", "--architecture=wrn-16-1")
    digits = "--dataset=digits"
    done = in_process.run(
        "lint",
        *named,
        digits,
        "--test_examples=8",
        f"--output={tmp_path}/lint.json",
    )
    assert not done.stderr
    assert json.loads((tmp_path / "lint.json").read_text())["findings"]
    out = run("export", *named, digits, f"--output={tmp_path}/served")
    assert "largest logit error" in out
    x, _ = data.as_arrays(TEST)
    served = adt_tf.load_classifier(tmp_path / "served")
    own = adt_tf.load_classifier(folder / "torch.npz", input_shape=(8, 8, 1))
    np.testing.assert_allclose(served(x), own(x), atol=1e-4)


@pytest.fixture
def fine_tuned(folder, tmp_path):
    """A run from weights, at rate 0, with the flags that made it."""
    weights = tmp_path / "weights.npz"
    shutil.copy(folder / "torch.npz", weights)
    flags = [
        f"--network={weights}",
        "--architecture=wrn-16-1",
        "--method=standard",
        "--train_examples=64",
        "--batch_size=32",
        "--epochs=1",
        "--learning_rate=0",
        f"--workdir={tmp_path / 'run'}",
    ]
    run("train", *flags)
    return weights, tmp_path / "run", flags


def test_training_starts_from_weights(fine_tuned):
    weights, workdir, flags = fine_tuned
    trained = adt_tf.load_classifier(workdir / "classifier.keras")
    start = adt_tf.load_classifier(weights, input_shape=(8, 8, 1))
    for ours, theirs in zip(
        trained.trainable_variables, start.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    (entry,) = json.loads((workdir / "provenance.json").read_text())["starts"]
    assert entry["network_file"] == {
        "name": "weights.npz",
        "sha256": files.sha256(weights),
    }
    assert "is finished" in run("train", *flags)
    changed = {**WEIGHTS, "fc.weight": WEIGHTS["fc.weight"] + 1}
    np.savez(weights, **changed)
    done = in_process.run("train", *flags)
    assert done.returncode == 1
    assert "was started from other weights: weights.npz" in done.stderr
    # The classifier of the run stands without the file that it came from.
    weights.unlink()
    run(
        "evaluate",
        f"--workdir={workdir}",
        "--attacks=fgsm",
        "--test_examples=8",
    )
    result = json.loads((workdir / "evaluation.json").read_text())
    assert result["network"] == str(weights)
    done = in_process.run(
        "evaluate", f"--workdir={workdir}", "--architecture=wrn-16-1"
    )
    assert "--architecture is a flag of training" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--architecture=wrn-16-1"],
            "--architecture requires a file of weights",
        ),
        (
            ["--network={f}/model.keras", "--architecture=wrn-16-1"],
            "belong to files of weights",
        ),
        (["--network={f}/mine.weights.h5"], "pass architecture="),
        (
            ["--network={f}/torch.npz", "--architecture=small_cnn"],
            "Argument `architecture` must be",
        ),
        (["--network={f}/none.pt"], "There is no file or directory"),
        (
            ["--network={f}/model.keras", "--dataset={f}/wide.npz"],
            "must take images .* as .* requires",
        ),
        (
            ["--network={f}/model.keras", "--precision=mixed_bfloat16"],
            "keeps its precision",
        ),
    ],
)
def test_names_that_do_not_go_together(arguments, message, folder, tmp_path):
    x = np.zeros([20, 8, 8, 3], "float32")
    np.savez(folder / "wide.npz", images=x, labels=np.arange(20) % 2)
    done = in_process.run(
        "train",
        f"--workdir={tmp_path}/run",
        "--method=standard",
        *(argument.format(f=folder) for argument in arguments),
    )
    assert done.returncode == 1 and not (tmp_path / "run").exists()
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert re.search(message, line), line


def test_a_network_file_is_told_by_its_name():
    assert Config(network="wrn-28-10").network_file is None
    assert Config(network="a/wrn").network_file == "a/wrn"
    assert Config(network="w.pt", architecture="lenet").network_file == "w.pt"
