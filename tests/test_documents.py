"""README.md and docs/*.md: their Python runs, and their commands have flags.

A block of Python runs in the order of its document. Where a reader has a model
or a file of their own, `_READERS_OWN` puts a small one in its place.
"""

import re
import shlex

import keras
import numpy as np
import pytest
import tensorflow as tf

from adt_tf.cli import evaluate, export, lint, report, reproduce, train
from adt_tf.runs import flagfiles
from tests.support import reference_weights
from tests.support.processes import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Documents whose Python another test runs, by that test.
ELSEWHERE = {
    "data.md": "test_streaming.py",
    "finetune.md": "test_finetune.py",
    "serving.md": "test_serving_docs.py",
    "own_norm.md": "test_own_norm.py",
    "keras.md": "test_keras_user.py",
}

#: What stands for the reader's own, by document: text in it, and in its place.
_READERS_OWN = {
    "README.md": {
        'split="train")\n': 'split="train", num_examples=64)\n',
        'split="test")\n': 'split="test", num_examples=8)\n',
        "epochs=10": "epochs=1",
    },
    "weights.md": {
        "wrn-34-10": "wrn-16-1",
        "autoattack(8 / 255)": "fgsm(8 / 255)",
    },
}

COMMANDS = {
    "train": train,
    "evaluate": evaluate,
    "lint": lint,
    "report": report,
    "export": export,
    "reproduce": reproduce,
}


def blocks(path, language):
    """Returns the blocks of a document that are in a language."""
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, path.read_text(), re.DOTALL | re.MULTILINE)


def with_readers_own(path, block):
    """Returns a block with small models and files for the reader's own."""
    for text, substitute in _READERS_OWN.get(path.name, {}).items():
        block = block.replace(text, substitute)
    return block


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_of_a_document_runs_somewhere(path):
    known = {"README.md", "own_attack.md", "weights.md", *ELSEWHERE}
    assert path.name in known or not blocks(path, "python")
    for name in ELSEWHERE.values():
        assert (ROOT / "tests" / name).is_file()


def test_python_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = ROOT / "README.md"
    (block,) = blocks(path, "python")
    names = {}
    exec(with_readers_own(path, block), names)
    assert (tmp_path / "saved_model").is_dir()
    assert names["trainer"].history.epoch == [0]


def test_python_on_an_attack_of_ones_own():
    names = {"__name__": "own_attack"}
    for block in blocks(ROOT / "docs" / "own_attack.md", "python"):
        exec(block, names)
    report = names["report"]
    assert list(report.accuracy) == ["natural", "surface", "odds-20", "PGD-20"]
    assert report.accuracy["odds-20"] < report.accuracy["surface"]


def test_python_on_others_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / "weights.md"
    load, normalize, transplant, in_torch, verify = blocks(path, "python")
    assert "torch.from_numpy" in in_torch
    state_dict = reference_weights.state_dict("wrn-16-1-no-bias")
    for file in ("model_cifar_wrn", "rice2020"):
        np.savez(tmp_path / f"{file}.npz", **state_dict)
    images = np.random.default_rng(0).uniform(size=(2, 32, 32, 3))
    names = {"test": (images.astype("float32"), np.arange(2))}
    load, normalize = (
        with_readers_own(path, block).replace(".pt", ".npz")
        for block in (load, normalize)
    )
    exec(load, names)
    assert keras.saving.load_model("model.keras").output_shape[0] is None
    exec(normalize, names)
    verify_with_reference(verify, names)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, use_bias=False),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10, use_bias=False),
        ]
    )
    kernel = np.random.default_rng(1).normal(size=[4, 1, 3, 3])
    np.savez("file.npz", **{"a.weight": kernel, "b.weight": np.ones([10, 4])})
    names["keras_model"] = model
    exec(transplant.replace(".pt", ".npz"), names)
    np.testing.assert_allclose(
        model.get_weights()[0], kernel.transpose(2, 3, 1, 0), rtol=1e-6
    )


def verify_with_reference(block, names):
    """Runs the block that compares, with outputs that are ours and others."""
    images, labels = names["test"]
    x = tf.constant(images)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = names["classifier"](x)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    reference = {
        "images": images.transpose(0, 3, 1, 2),
        "labels": labels,
        "logits": logits.numpy(),
        "gradients": tape.gradient(losses, x).numpy().transpose(0, 3, 1, 2),
    }
    np.savez("reference.npz", **reference)
    exec(block, names)
    np.savez("reference.npz", **{**reference, "logits": logits.numpy() + 1})
    with pytest.raises(ValueError, match="logits"):
        exec(block, names)


def commands():
    """Yields each command of ours in a document, its arguments apart."""
    for path in DOCUMENTS:
        for block in blocks(path, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                match = re.match(
                    r"\s*(?:adt-(\w+)|python scripts/(\w+)\.py)(\s.*)", line
                )
                if match:
                    arguments = shlex.split(match[3], comments=True)
                    yield pytest.param(
                        match[1] or match[2],
                        arguments,
                        id=f"{path.name}: {line.strip()[:60]}",
                    )


@pytest.mark.parametrize("name, arguments", list(commands()))
def test_commands_of_documents_have_these_flags(name, arguments):
    variables = {"$method": "adt_exp", "$seed": "0", "$weight": "0.1"}
    for variable, value in variables.items():
        arguments = [text.replace(variable, value) for text in arguments]
    values = COMMANDS[name].FLAGS
    try:
        expanded = flagfiles.expand(arguments, say=lambda line: None)
        rest = values([name, *expanded])[1:]
        given = {flag for flag in values if values[flag].present}
    finally:
        values.unparse_flags()
        for flag in values:
            values[flag].unparse()
    assert given
    assert not [text for text in rest if text.startswith("-")]
