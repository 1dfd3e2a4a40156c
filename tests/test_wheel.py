"""The wheel, installed where the repository is not: commands and flagfiles."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile

import keras
import pytest

ROOT = pathlib.Path(__file__).parents[1]
FLAGFILES = {
    f"adt_tf/flags/{path.relative_to(ROOT / 'flags').as_posix()}"
    for path in (ROOT / "flags").rglob("*.flags")
}
FOUR_LINES = """
import adt_tf
classifier = adt_tf.from_preset("digits_small_cnn_adt_exp")
test = adt_tf.data.load("digits", split="test", num_examples=50)
print(adt_tf.evaluate(classifier, test, [adt_tf.attacks.pgd(0.15)]))
"""
COMMANDS = ("train", "evaluate", "lint", "report", "export", "reproduce")


def environment():
    """Without what would lead back to the repository."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    variables.pop("PYTHONPATH", None)
    return variables


def call(*command, cwd):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The archives, made of a copy: a build leaves files beside the source."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("adt_tf", "flags"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=ignored
        )
    for pattern in ("pyproject.toml", "README.md", "LICENSE", "require*.txt"):
        for path in ROOT.glob(pattern):
            shutil.copy(path, source)
    build = ("-m", "build", "--no-isolation", "--outdir", folder / "dist")
    call(sys.executable, *build, source, cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The folder of the commands, with the packages of this environment.

    A .pth file adds their folder, and leaves out the .pth files in it: one of
    them may lead to the repository.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    call(
        *(sys.executable, "-m", "pip", "--python", python, "install"),
        *("--quiet", "--no-deps", "--no-index", wheel),
        cwd=folder,
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    others = pathlib.Path(keras.__file__).parents[1]
    (packages / "others.pth").write_text(f"{others}\n")
    return folder / "bin"


@pytest.mark.slow
def test_archives_hold_the_flagfiles(built):
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert names >= FLAGFILES
    assert not [name for name in names if name.startswith(("tests", "scripts"))]
    with tarfile.open(archive) as file:
        members = {m.name.partition("/")[2]: m for m in file.getmembers()}
    assert members.keys() >= FLAGFILES
    assert all(members[name].isfile() for name in FLAGFILES)


@pytest.mark.slow
def test_commands_run_in_any_directory(installed, tmp_path):
    where = call(
        installed / "python",
        "-c",
        "import adt_tf; print(adt_tf.__file__)",
        cwd=tmp_path,
    )
    assert str(installed.parent) in where.stdout
    for command in COMMANDS:
        start = time.monotonic()
        done = call(installed / f"adt-{command}", "--help", cwd=tmp_path)
        print(command, time.monotonic() - start)
        assert f"adt-{command} --" in done.stdout
    call(
        *(installed / "adt-train", "--flagfile=digits/adt_exp", "--epochs=1"),
        *("--train_examples=128", "--num_steps=2", "--workdir=w"),
        cwd=tmp_path,
    )
    assert (tmp_path / "w" / "classifier.keras").is_file()
    flags = (tmp_path / "w" / "flags.txt").read_text().splitlines()
    assert "--epsilon=0.15" in flags and "--method=adt_exp" in flags
    done = call(
        *(installed / "adt-evaluate", "--workdir=w", "--protocol=rice"),
        "--test_examples=20",
        cwd=tmp_path,
    )
    assert "PGD-100" in done.stdout
    assert (tmp_path / "w" / "evaluation-rice.json").is_file()
    call(installed / "adt-export", "--workdir=w", cwd=tmp_path)
    done = call(installed / "python", "-c", FOUR_LINES, cwd=tmp_path)
    assert "PGD-20" in done.stdout
    preset = "--preset=digits_small_cnn_adt_exp"
    done = call(installed / "adt-evaluate", preset, "--replay", cwd=tmp_path)
    assert "as the card says" in done.stdout
    call(
        *(installed / "adt-reproduce", "--target=table11", "--output=o"),
        cwd=tmp_path,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o", "w"]
