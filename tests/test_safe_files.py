"""What is read runs no code, and what is written stays where it belongs."""

import ast
import contextlib
import json
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import types
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import array_files, attacks, data, files
from adt_tf.analysis import plots
from adt_tf.callbacks import RobustCheckpoint
from adt_tf.evaluation.state import State
from adt_tf.linting import Finding, LintReport
from adt_tf.reproduction import costs
from adt_tf.runs import (
    evaluation_files,
    evaluation_job,
    experiment,
    lint_job,
    metrics,
    provenance,
)
from adt_tf.runs.checkpoints import Checkpoints
from adt_tf.runs.workdir import Workdir
from adt_tf.serving import loading
from tests.support.disks import fill
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


# Modules that are imported when they are first used, by names that stand in the
# source; and by `configs`, which looks up names of adt_tf alone
# (tests/test_configs.py).
ALLOWED = {
    "adt_tf/__init__.py": ["calls import_module"] * 2,
    "adt_tf/configs.py": ["calls import_module"],
    # The modules of a fixed table.
    "adt_tf/keras_registry.py": ["calls import_module"],
    # A function of the user's own, which only the command line names.
    "adt_tf/networks/own_functions.py": ["calls import_module"],
    "adt_tf/serving/preset_files.py": ["calls import_module"],
    # The runtimes of a fixed table, and the run of the one that was loaded.
    "adt_tf/serving/runtimes/__init__.py": ["calls import_module"],
    "adt_tf/serving/artifact.py": ["calls numpy_function"],
    "adt_tf/serving/bridge/onnx_graphs/conversion.py": ["calls import_module"],
}


@pytest.mark.parametrize("path", [str(p.relative_to(ROOT)) for p in SOURCES])
def test_no_source_runs_what_it_reads(path):
    found = list(problems(ast.parse((ROOT / path).read_text())))
    assert found == ALLOWED.get(path, [])


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
    refused(lambda: Workdir(folder).load_classifier(), "classifier.keras")
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
    Workdir(tmp_path).load_classifier()
    assert not proof.exists()


@pytest.fixture
def outside(tmp_path):
    """A file that a link in a workdir leads to."""
    path = tmp_path / "outside"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine" and not path.is_symlink()


def test_text_is_not_written_through_a_link(tmp_path, outside):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "report.md").symlink_to(outside)
    files.write_text(folder / "report.md", "ours")
    assert (folder / "report.md").read_text() == "ours"
    assert not (folder / "report.md").is_symlink()


def save_best(path):
    x = np.zeros([2, 8, 8, 1], "float32")
    best = RobustCheckpoint((x, np.array([0, 1])), 0.1, path)
    best.set_model(types.SimpleNamespace(classifier=make_convolutional()))
    best._write({"robust_accuracy": 0.5})


def assess(path, keep_examples=True):
    x = np.random.default_rng(0).uniform(size=(4, 8, 8, 1)).astype("float32")
    evaluation_job.assess(
        make_convolutional(),
        data.ImageData(x, np.arange(4), 10, "mine"),
        [attacks.fgsm(0.1)],
        path,
        details={},
        keep_examples=keep_examples,
        verbose=False,
    )


def save_state(path):
    state = tf.train.Checkpoint(weights=tf.Variable(0.0))
    Checkpoints(path.parent, state).save(step=1, record={})


#: All that write a file or a directory, by the name that they give it.
WRITERS = {
    "note.md": lambda path: files.write_text(path, "text"),
    "arrays.npz": lambda path: array_files.write_arrays(
        path, {"x": np.zeros(9)}
    ),
    "picture.png": lambda path: plots.save(plots.make_figure(1.0), path),
    "classifier.keras": lambda path: Workdir(path.parent).save_classifier(
        make_convolutional()
    ),
    "best.keras": save_best,
    "model": lambda path: adt_tf.export(make_convolutional(), path),
    "evaluation.json": assess,
    "step-00000001": save_state,
}


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("name", WRITERS)
def test_no_file_of_anybody_else_is_removed(name, kind, tmp_path):
    mine = tmp_path / f"partial-{name}"
    others = [mine.with_suffix(suffix) for suffix in (".csv", ".md", ".npz")]
    for path in [mine, *others]:
        if kind == "folder":
            path.mkdir(exist_ok=True)
            path = path / "thesis.tex"
        path.write_text("mine")
    before = {p: p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    WRITERS[name](tmp_path / name)
    assert (tmp_path / name).exists()
    assert {p: p.read_text() for p in before} == before
    assert not list(tmp_path.glob(".*"))


@contextlib.contextmanager
def limited_file_size(size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fails_and_leaves_nothing(name, folder, reason):
    if name == "classifier.keras":  # A workdir that is not there was moved.
        (folder / "new").mkdir()
    before = sorted(folder.rglob("*"))
    with pytest.raises(OSError) as caught:
        WRITERS[name](folder / "new" / name)
    message = str(caught.value)
    assert reason in message and "\n" not in message
    assert str(folder / "new") in message and ".adt_tf" not in message
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_limit_of_the_file_size_leaves_nothing(name, tmp_path):
    with limited_file_size(3):
        fails_and_leaves_nothing(name, tmp_path, "File too large")


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_nothing(name, small_disk):
    fill(small_disk, 0)
    fails_and_leaves_nothing(name, small_disk, "No space left on device")


@pytest.mark.parametrize("name", WRITERS)
def test_a_directory_that_may_not_be_written(name, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o555)
    root = os.geteuid() == 0
    try:
        if root:  # who may write anywhere
            os.seteuid(65534)
        with pytest.raises(OSError, match="Permission denied") as caught:
            WRITERS[name](folder / name)
    finally:
        if root:
            os.seteuid(0)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(folder.iterdir())


def test_leftovers_of_a_process_that_still_writes_stay(tmp_path):
    with files.atomic_write(tmp_path / "file") as partial:
        files.remove_leftovers(tmp_path)
        partial.write_text("whole")
    assert (tmp_path / "file").read_text() == "whole"
    dead = tmp_path / ".adt_tf-01234567.partial"
    dead.mkdir()
    (tmp_path / ".adt_tf-89abcdef.partial").symlink_to(tmp_path)
    files.remove_leftovers(tmp_path)
    assert not dead.exists()
    assert (tmp_path / ".adt_tf-89abcdef.partial").is_symlink()


@pytest.mark.parametrize("moment", ["open", "lock"])
def test_a_process_that_ends_meanwhile_takes_its_partial_file(
    moment, tmp_path, monkeypatch
):
    partial = tmp_path / ".adt_tf-01234567.partial"
    partial.mkdir()
    module, name = {"open": (os, "open"), "lock": (files, "_try_lock")}[moment]
    work = getattr(module, name)

    def later(*arguments):
        if partial.is_dir():
            partial.rmdir()
        return work(*arguments)

    monkeypatch.setattr(module, name, later)
    files.remove_leftovers(tmp_path)
    assert not partial.exists()


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


@pytest.mark.parametrize("name", ["classifier.keras", "best.keras"])
def test_models_are_not_written_through_a_link(name, tmp_path, outside):
    path = tmp_path / "run" / name
    path.parent.mkdir()
    path.symlink_to(outside)
    WRITERS[name](path)
    assert not path.is_symlink()
    loading.load(path)


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
        (elsewhere / ".adt_tf-01234567.partial").mkdir(parents=True)
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
    (tmp_path / "model").symlink_to(elsewhere)
    with pytest.raises(OSError, match="model could not be written"):
        adt_tf.export(make_convolutional(), tmp_path / "model")
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    "name, others",
    [
        ("README.json", {"README.md": "mine"}),
        ("e.json", {"e.json": "mine"}),
        ("e.json", {"e.json": '{"format": 1}'}),
        ("data.json", {"data.npz": "mine"}),
        ("e.json", {"e.json/mine": "mine"}),
        ("e.json", {"e.md/mine": "mine"}),
        # In a workdir.
        ("metrics.json", {"flags.txt": "", "metrics.csv": "mine"}),
    ],
)
def test_an_evaluation_overwrites_nothing_else(
    name, others, tmp_path, monkeypatch
):
    def evaluate(*_, **__):
        pytest.fail("it was begun")

    for path, text in others.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr("adt_tf.evaluation.evaluated", evaluate)
    refused(lambda: assess(tmp_path / name), "was not written by an evaluation")
    for path, text in others.items():
        assert (tmp_path / path).read_text() == text


def test_a_data_set_is_not_overwritten_by_images(tmp_path):
    """The evaluation was written without images first."""
    x = np.zeros([4, 8, 8, 1], "float32")
    assess(tmp_path / "mine.json", keep_examples=False)
    np.savez(tmp_path / "mine.npz", images=x, labels=np.arange(4))
    refused(lambda: assess(tmp_path / "mine.json"), "mine.npz exists and")
    assess(tmp_path / "mine.json", keep_examples=False)
    (tmp_path / "mine.npz").unlink()
    for _ in range(2):  # its own files are written anew
        assess(tmp_path / "mine.json")


def test_findings_overwrite_nothing_else(tmp_path):
    path = tmp_path / "package.json"
    path.write_text('{"name": "mine"}')
    refused(lambda: lint_job.checked_output(path), "is not overwritten")
    report = LintReport([Finding("logits", "pass", "Fine.")], 9, 0.1, 0)
    lint_job.write(report, path)
    assert lint_job.checked_output(path) == path


@pytest.mark.parametrize(
    "check", [evaluation_files.checked_output, lint_job.checked_output]
)
def test_a_name_that_is_too_long_is_refused_at_once(check, tmp_path):
    with pytest.raises(OSError, match="File name too long"):
        check(tmp_path / ("x" * 260 + ".json"))


#: All that is read back, by its name, and how.
READERS = {
    "evaluation.json": evaluation_files.read,
    "lint.json": lint_job.read,
    "provenance.json": provenance.read,
    "costs.json": lambda path: costs.Book(path.parent),
    "metrics.csv": lambda path: metrics.drop_epochs(path, 3),
    "flags.txt": lambda path: Workdir(path.parent).check_flags("--epochs=1"),
}
HOSTILE = {
    "format 2": b'{"format": 2}',
    "deep": b"[" * 10_000,
    "number": b"7",
    "null": b"null",
    "table": b"epoch,loss\nNaN,NaN\n",
    "not finite": b'{"outcomes": NaN}',
    "newer flags": b"# Flags of a run of adt_tf, format 2\n",
    "no text": b"epoch\nNaN,\xff\xfe\x00\n",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("name", READERS)
def test_what_is_read_back_is_checked(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    # Lines alone may be anything; but these say what they are.
    if name == "metrics.csv" and b"NaN," not in content:
        READERS[name](path)
    else:
        refused(lambda: READERS[name](path), str(path))


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
