"""Where results come from: the commit, and the data of each start."""

import json
import os
import subprocess

import numpy as np
import pytest

from adt_tf.data import ImageData
from adt_tf.runs import provenance

ROOT = provenance._ROOT


def git(folder, *arguments):
    environment = {k: v for k, v in os.environ.items() if "GIT_" not in k}
    done = subprocess.run(
        ["git", "-c", "user.name=me", "-c", "user.email=me@localhost"]
        + list(arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make_repository(folder):
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "file").write_text(folder.name)
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "--message", "first")
    return git(folder, "rev-parse", "HEAD")


def test_the_commit_is_that_of_this_code():
    if not (ROOT / ".git").exists():
        pytest.skip("the code is in no repository")
    head = git(ROOT, "rev-parse", "HEAD")
    assert provenance.commit().removesuffix("-dirty") == head


def test_no_other_repository_is_taken_for_ours(tmp_path, monkeypatch):
    ours = make_repository(tmp_path / "ours")
    theirs = make_repository(tmp_path / "theirs")
    assert ours != theirs
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "theirs" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "theirs"))
    assert provenance.commit(tmp_path / "ours") == ours
    assert provenance.commit(tmp_path) == "unknown"


def test_changes_are_told(tmp_path):
    head = make_repository(tmp_path / "ours")
    (tmp_path / "ours" / "file").write_text("changed")
    assert provenance.commit(tmp_path / "ours") == f"{head}-dirty"


def test_no_program_of_the_repository_is_run(tmp_path):
    make_repository(tmp_path / "ours")
    proof, program = tmp_path / "proof", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {proof}\n")
    program.chmod(0o755)
    git(tmp_path / "ours", "config", "core.fsmonitor", str(program))
    provenance.commit(tmp_path / "ours")
    assert not proof.exists()


def examples(name="mine"):
    return ImageData(np.zeros([4, 8, 8, 1], "uint8"), np.arange(4), 4, name)


def test_starts_of_version_0_1_0_are_read(tmp_path):
    path = tmp_path / "provenance.json"
    old = {
        "started": "2026-01-01 00:00 UTC",
        "data": provenance.describe(examples()),
        "git commit": "unknown",
    }
    path.write_text(json.dumps([old]))
    assert provenance.read(path) == [old]
    provenance.check_data(path, examples(), examples())
    provenance.record(path, examples(), examples())
    first, second = provenance.read(path)
    assert first == old and second["validation_data"] == second["data"]
    assert json.loads(path.read_text())["format"] == 1


@pytest.mark.parametrize(
    "content",
    ["{", "[1]", "{}", '{"format": 2}', '{"starts": [{"data": {}}]}', "null"],
)
def test_what_is_no_provenance_is_refused(content, tmp_path):
    path = tmp_path / "provenance.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="adt-train did not") as told:
        provenance.read(path)
    assert str(path) in str(told.value) and "\n" not in str(told.value)
