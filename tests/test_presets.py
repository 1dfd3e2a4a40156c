"""Presets: their cards, the replay of their verdicts, and their files."""

import json
import os
import pathlib
import re
import shutil
import sys
import types

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf import data
from adt_tf.runs import export_job
from adt_tf.serving import loading, preset_files, preset_models, replay
from tests.support import in_process
from tests.support.models import make_convolutional

CIFAR10 = [f"cifar10_wrn_10_1_{method}" for method in ("at_pgd", "standard")]
NAMES = CIFAR10 + [
    f"digits_small_cnn_{method}"
    for method in (
        *("adt_exp", "adt_exp_am", "adt_imp_am"),
        *("at_pgd", "standard", "trades"),
    )
]
HUB = "huggingface_hub"
ADT_EXP = "digits_small_cnn_adt_exp"
TEST = data.as_arrays(data.load("digits", split="test"))
#: Directory of CIFAR-10 as TFDS prepares it, without which two tests skip.
DATA = os.environ.get("ADT_TF_DATA")


def test_these_are_there():
    assert list(adt_tf.presets()) == NAMES
    paths = [p for p in preset_files.SHIPPED.rglob("*") if p.is_file()]
    assert {path.name for path in paths} == {
        *("config.json", "model.weights.h5"),
        *("metadata.json", "README.md", "adversarial.npz"),
    }
    assert sum(path.stat().st_size for path in paths) < 10e6


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_the_metadata_say(name):
    metadata = adt_tf.presets()[name]
    results = metadata["results"]
    card = (preset_files.SHIPPED / name / preset_files.CARD).read_text()
    assert list(results) == ["natural", "PGD-20", "AutoAttack"]
    for row, result in results.items():
        low, share, high = (
            100 * result[end] for end in ("low", "accuracy", "high")
        )
        assert f"| {row} | {share:.1f} | {low:.1f} to {high:.1f} |" in card
    assert f"On {metadata['num_examples']:,} test images" in card
    assert re.search(r"Commit\s[0-9a-f]{40}, ", card)
    assert "data_dir=/" not in card


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_true(name):
    metadata = adt_tf.presets()[name]
    if metadata["dataset"] != "digits" and DATA is None:
        pytest.skip("ADT_TF_DATA names no folder")
    images, labels = data.as_arrays(
        data.load(
            metadata["dataset"],
            split="test",
            data_dir=DATA,
            num_examples=metadata["num_examples"],
        )
    )
    logits = adt_tf.from_preset(name).predict(images, verbose=0)
    accuracy = float(np.mean(np.argmax(logits, -1) == labels))
    results = metadata["results"]
    assert results["natural"]["accuracy"] == pytest.approx(accuracy)
    result = replay.replay(name, data_dir=DATA)
    assert result.agrees and len(result.standing) == 100
    # Of all images about as many stand as of the first hundred.
    low, high = (results["AutoAttack"][end] for end in ("low", "high"))
    assert low - 0.1 < result.standing.mean() < high + 0.1


def test_a_model_becomes_a_preset_and_comes_back(tmp_path):
    model = make_convolutional()
    model.compile("sgd", "mse")
    folder = adt_tf.save_to_preset(model, tmp_path / "mine")
    # Arguments that Keras 3.12 does not have.
    text = (folder / preset_files.CONFIG).read_text()
    assert "input_axes" not in text and "renorm" not in text
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.json",
        "model.weights.h5",
    ]
    loaded = adt_tf.from_preset(folder)
    x = TEST[0][:8]
    np.testing.assert_array_equal(loaded(x), model(x))
    with pytest.raises(ValueError, match="new or an empty directory"):
        adt_tf.save_to_preset(model, folder)
    with pytest.raises(ValueError, match="A preset to replay must have"):
        replay.replay(folder)


@keras.saving.register_keras_serializable(package="mine")
class Mine(keras.layers.Layer):
    def call(self, x):
        return x


def test_layers_of_one_s_own_are_refused(tmp_path):
    model = keras.Sequential([keras.Input((8, 8, 1)), Mine()])
    with pytest.raises(ValueError, match="must consist of Keras' layers"):
        adt_tf.save_to_preset(model, tmp_path / "mine")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def copied(tmp_path):
    return pathlib.Path(
        shutil.copytree(preset_files.SHIPPED / ADT_EXP, tmp_path / "copy")
    )


def test_code_in_a_config_is_not_run(copied):
    path = copied / "config.json"
    config = json.loads(path.read_text())
    config["config"]["layers"][1] |= {"module": "os", "class_name": "system"}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="only modules of Keras, .* 'os'"):
        adt_tf.from_preset(copied)
    path.write_text(json.dumps({"class_name": "Nothing", "config": {}}))
    with pytest.raises(ValueError, match="Cannot read .*config.json"):
        adt_tf.from_preset(copied)


def rewrite(copied, **changes):
    path = copied / "adversarial.npz"
    with np.load(path) as arrays:
        arrays = {**arrays, **{k: f(arrays[k]) for k, f in changes.items()}}
    np.savez(path, **arrays)


def test_verdicts_that_differ_are_named(copied):
    rewrite(
        copied, deltas=lambda d: d * (np.arange(100) > 50)[:, None, None, None]
    )
    result = replay.replay(copied)
    assert not result.agrees and max(result.differences) <= 50
    assert "other verdicts than the card's on the images" in str(result)
    done = in_process.run("evaluate", f"--preset={copied}", "--replay")
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deltas": lambda d: 2 * d}, "left its threat model"),
        ({"deltas": lambda d: d[:, :4]}, "deltas of shape"),
        ({"deltas": lambda d: d.astype("int8")}, "deltas of shape"),
        ({"natural": lambda v: v[:4]}, "two verdicts"),
        ({"deltas": lambda d: d * np.nan}, "left its threat model"),
    ],
)
def test_perturbations_are_checked(changes, message, copied):
    rewrite(copied, **changes)
    with pytest.raises(ValueError, match=message):
        replay.replay(copied)


def test_other_images_are_seen(copied):
    path = copied / "metadata.json"
    for digest in ("0" * 64, None):
        values = {**json.loads(path.read_text()), "examples_sha256": digest}
        if digest is None:
            del values["examples_sha256"]
        path.write_text(json.dumps(values))
        with pytest.raises(ValueError, match="other images"):
            replay.replay(copied)


def hub(monkeypatch, download):
    module = types.SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, HUB, module)


def test_the_hub(monkeypatch, copied):
    def offline(repository, allow_patterns):
        raise OSError("no network\nat all")

    hub(monkeypatch, lambda repository, allow_patterns: str(copied))
    assert adt_tf.from_preset("hf://me/mine").output_shape == (None, 10)
    hub(monkeypatch, offline)
    with pytest.raises(ValueError, match="Cannot fetch hf://me/mine") as error:
        adt_tf.from_preset("hf://me/mine")
    assert "\n" not in str(error.value)
    monkeypatch.setitem(sys.modules, HUB, None)
    with pytest.raises(ValueError, match=r"pip install 'adt_tf\[hub\]'"):
        adt_tf.from_preset("hf://me/mine")


def test_an_unknown_preset_is_told_the_names():
    with pytest.raises(ValueError, match=f"{ADT_EXP}, .*Received: .*'nope'"):
        preset_models.from_preset("nope")


def test_commands_take_presets(tmp_path):
    done = in_process.run(
        "evaluate", f"--preset={ADT_EXP}", "--replay", cwd=tmp_path
    )
    assert "as the card says" in done.stdout and not done.returncode
    arguments = ["--attacks=fgsm", "--test_examples=8"]
    done = in_process.run(
        "evaluate", f"--preset={ADT_EXP}", *arguments, cwd=tmp_path
    )
    assert not done.returncode, done.stderr
    result = json.loads((tmp_path / f"{ADT_EXP}-evaluation.json").read_text())
    assert (result["epsilon"], result["dataset"]) == (0.15, "digits")


def test_an_evaluation_belongs_to_the_preset_it_is_of(tmp_path, capsys):
    """Two directories of the same name, as on the Hub."""
    presets = [tmp_path / name / "mine" for name in ("first", "second")]
    for seed, preset in enumerate(presets):
        adt_tf.save_to_preset(make_convolutional(seed), preset)
    known = [loading.fingerprint(preset) for preset in presets]
    assert None not in known and known[0] != known[1]
    done = in_process.run(
        "evaluate",
        f"--preset={presets[0]}",
        *("--dataset=digits", "--epsilon=0.1"),
        *("--attacks=fgsm", "--test_examples=8"),
        cwd=tmp_path,
    )
    assert not done.returncode, done.stderr
    path = tmp_path / "mine-evaluation.json"
    assert len(export_job.evaluations_of([path], known[0])) == 1
    assert not export_job.evaluations_of([path], known[1])
    assert "of another classifier" in capsys.readouterr().out
    # A report is about the weights that were evaluated.
    page = ["report", f"--workdirs={path}", f"--output={tmp_path}/page"]
    page += ["--noanalyses", "--images=2"]
    assert not in_process.run(*page).returncode
    shutil.rmtree(presets[0])
    shutil.copytree(presets[1], presets[0])
    done = in_process.run(*page)
    assert f"adt-evaluate --preset={presets[0]}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset=nope"], "preset='nope'"),
        (
            [f"--preset={ADT_EXP}", "--model=x.keras"],
            "Give exactly one of --workdir",
        ),
        (
            [f"--preset={ADT_EXP}", "--architecture=lenet"],
            "architecture: remove",
        ),
        (["--replay"], "--preset is required"),
        (
            [f"--preset={ADT_EXP}", "--replay", "--seed=1"],
            "no other flags .*--seed",
        ),
    ],
)
def test_flags_that_do_not_go_together(arguments, message, tmp_path):
    done = in_process.run("evaluate", *arguments, cwd=tmp_path)
    assert done.returncode == 1 and not list(tmp_path.iterdir())
    (line,) = done.stderr.splitlines()
    assert re.match(f"error: .*{message}", line), line
