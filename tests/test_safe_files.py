"""What is read runs no code, and what is written stays where it belongs."""

import ast
import json
import os
import pathlib
import pickle
import subprocess
import sys
import types
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, files
from adt_tf.callbacks import RobustCheckpoint
from adt_tf.evaluation.state import State
from adt_tf.runs import evaluation_job, experiment, workdir
from adt_tf.serving import loading
from tests.support.models import make_convolutional

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("adt_tf/**/*.py"), *ROOT.glob("scripts/*.py")])
# Modules that run what they read, and calls that run code or load it.
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
    "torch",
}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile_command",
    "import_module",
    "__import__",
    "run_path",
    "run_module",
    "enable_unsafe_deserialization",
    "py_function",
    "numpy_function",
}


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            owner = getattr(getattr(function, "value", None), "id", "")
            yield owner, name, {k.arg: k.value for k in node.keywords}


def problems(tree):
    """What a source file does that could run what it reads."""
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            if module.split(".")[0] in FORBIDDEN_MODULES:
                yield f"imports {module}"
    for owner, name, keywords in calls(tree):
        given = {key: getattr(v, "value", None) for key, v in keywords.items()}
        if name in FORBIDDEN_CALLS:
            yield f"calls {name}"
        from_numpy = owner in ("np", "numpy") and name == "load"
        if from_numpy and given.get("allow_pickle") is not False:
            yield "calls np.load without allow_pickle=False"
        if name == "load_model" and given.get("safe_mode") is not True:
            yield "calls load_model without safe_mode=True"
        if name == "system" or given.get("shell"):
            yield "starts a shell"


@pytest.mark.parametrize(
    "path", SOURCES, ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_source_runs_what_it_reads(path):
    assert list(problems(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import numpy as np\nnp.load(path)",
        "np.load(path, allow_pickle=True)",
        "keras.saving.load_model(path)",
        "keras.saving.load_model(path, safe_mode=False)",
        "keras.config.enable_unsafe_deserialization()",
        "eval(text)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
    ],
)
def test_the_search_finds(source):
    assert list(problems(ast.parse(source)))


class Bomb:
    """Unpickled, it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def refused(call, *patterns):
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for pattern in patterns:
        assert pattern in message
    return message


def test_a_pickle_in_an_npz_is_not_unpickled(tmp_path):
    path, proof = tmp_path / "evil.npz", tmp_path / "proof"
    labels = np.array([Bomb(proof)] * 5)
    np.savez(path, images=np.zeros([5, 2, 2, 1]), labels=labels)
    refused(lambda: data.load(str(path)), "evil.npz", "pickle")
    path.write_bytes(pickle.dumps(Bomb(proof)))
    refused(lambda: data.load(str(path)), "evil.npz")
    assert not proof.exists()


def test_an_unfinished_evaluation_is_not_unpickled(tmp_path):
    proof = tmp_path / "proof"
    path = tmp_path / "unfinished-evaluation-key.npz"
    np.savez(path, outcomes=np.array([Bomb(proof)]))
    state = State(
        ["natural"],
        np.zeros([3, 2, 2, 1]),
        keep_examples=False,
        directory=tmp_path,
        key="key",
    )
    assert state.path == path and not state.resumed
    assert not proof.exists()


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_lambda_in_a_model_is_not_run(tmp_path, suffix):
    proof = str(tmp_path / "proof")
    evil = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Lambda(
                lambda x: (__import__("os").mkdir(proof), x)[1]
            ),
        ]
    )
    os.rmdir(proof)  # the layer ran once, when it was built
    path = tmp_path / f"evil{suffix}"
    evil.save(path)
    refused(lambda: loading.load(path), f"evil{suffix}", "safe mode")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "classifier.keras").write_bytes(path.read_bytes())
    refused(lambda: workdir.load_classifier(folder), "classifier.keras")
    assert not os.path.exists(proof)


def test_a_model_cannot_name_code(tmp_path):
    """The configuration asks for a function of Python's own library."""
    good, evil = tmp_path / "good.keras", tmp_path / "evil.keras"
    make_convolutional().save(good)
    proof = tmp_path / "proof"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(evil, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                config = json.loads(content)
                layer = config["config"]["layers"][-1]
                layer["module"], layer["class_name"] = "os", "mkdir"
                layer["config"] = {"path": str(proof)}
                content = json.dumps(config)
            new.writestr(name, content)
    refused(lambda: loading.load(evil), "evil.keras")
    assert not proof.exists()


def test_no_code_of_a_workdir_is_imported(tmp_path, monkeypatch):
    """Modules in it, named as those that a load needs, stay unread."""
    make_convolutional().save(tmp_path / "classifier.keras")
    for name in ("keras", "adt_tf", "classifier", "sitecustomize", "json"):
        source = "import os; os.mkdir(os.environ['PROOF'])"
        (tmp_path / f"{name}.py").write_text(source)
    proof = tmp_path / "proof"
    monkeypatch.setenv("PROOF", str(proof))
    workdir.load_classifier(tmp_path)
    assert not proof.exists()


@pytest.fixture
def outside(tmp_path):
    """A file that a link in a workdir leads to."""
    path = tmp_path / "outside"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine" and not path.is_symlink()


@pytest.mark.parametrize("name", ["report.md", "partial-report.md"])
def test_text_is_not_written_through_a_link(name, tmp_path, outside):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).symlink_to(outside)
    files.write_text(folder / "report.md", "ours")
    assert (folder / "report.md").read_text() == "ours"
    assert not (folder / "report.md").is_symlink()


def test_two_processes_write_one_file(tmp_path):
    """Neither takes away what the other is about to rename."""
    program = (
        "import pathlib, sys\n"
        "sys.path.insert(0, sys.argv[3])\n"
        "import files\n"
        "for _ in range(300):\n"
        "    files.write_text(pathlib.Path(sys.argv[1]), sys.argv[2] * 5000)\n"
    )
    path = tmp_path / "costs.json"
    # The module alone, without what the package imports.
    folder = str(pathlib.Path(files.__file__).parent)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), letter, folder]
        )
        for letter in "ab"
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    assert path.read_text() in ("a" * 5000, "b" * 5000)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_models_are_not_written_through_a_link(tmp_path, outside):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("partial-classifier.keras", "partial-best.keras"):
        (folder / name).symlink_to(outside)
    classifier = make_convolutional()
    workdir.save_classifier(classifier, folder / "classifier.keras")
    x = np.zeros([2, 8, 8, 1], "float32")
    best = RobustCheckpoint((x, np.array([0, 1])), 0.1, folder / "best.keras")
    best.set_model(types.SimpleNamespace(classifier=classifier))
    best._write({"robust_accuracy": 0.5})
    for name in ("classifier.keras", "best.keras"):
        assert not (folder / name).is_symlink()
        loading.load(folder / name)


@pytest.mark.parametrize(
    "name",
    [
        "checkpoints",
        "tensorboard",
        "metrics.csv",
        ".lock",
        "checkpoints/step-00000001",
        "tensorboard/train",
    ],
)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_run_does_not_train_through_a_link(name, dangling, tmp_path):
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    if not dangling:
        (elsewhere / "partial-thesis").mkdir(parents=True)
    link.symlink_to(elsewhere)
    before = sorted(tmp_path.rglob("*"))
    run = experiment.Experiment(
        types.SimpleNamespace(distribute_strategy=tf.distribute.get_strategy()),
        *(None, None, 1, 1, 0, False),
    )
    refused(lambda: run.train(tmp_path / "run"), str(link), "symbolic link")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_export_is_not_written_through_a_link(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    (tmp_path / "partial-model").symlink_to(elsewhere)
    adt_tf.export(make_convolutional(), tmp_path / "model")
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]
    assert (tmp_path / "model" / "saved_model.pb").is_file()


def test_an_attack_named_as_a_path_writes_where_it_was_told(tmp_path):
    x = np.random.default_rng(0).uniform(size=(4, 8, 8, 1)).astype("float32")
    attack = attacks.fgsm(0.1, name="../../escaped")
    folder = tmp_path / "a" / "b" / "run"
    evaluation_job.assess(
        make_convolutional(),
        data.ImageData(x, np.arange(4), 10, "../../name"),
        [attack],
        folder / "evaluation.json",
        details={"method": "../../method"},
        keep_examples=True,
        verbose=False,
    )
    written = {p.relative_to(tmp_path) for p in tmp_path.rglob("*.*")}
    suffixes = (".json", ".csv", ".md", ".npz")
    expected = {f"a/b/run/evaluation{suffix}" for suffix in suffixes}
    assert {str(path) for path in written} == expected
