"""Bad input gets one clear line, an exit code that says so, and no file.

    python -m tests.test_bad_input          # the table, as Markdown

The rows are in bad_library.py and bad_scripts.py, and the files that they
name are made by bad_files.py. Those of bad_weights.py are tested in
test_bridge_hostile.py; the table ends with those of bad_data.py.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

from tests.support import (
    bad_data,
    bad_files,
    bad_library,
    bad_scripts,
    bad_weights,
    in_process,
)

WEIGHTS = {**bad_weights.ROWS, **bad_weights.GRAPHS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bad_files.make(tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    return bad_data.make(tmp_path_factory.mktemp("bad_data"))


def contents(folder):
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
    }


def message_of(call, folder):
    """What a call of the library says, or None where it says nothing."""
    try:
        call(folder)
    except ValueError as error:
        return str(error)
    return None


def command_of(row, folder):
    return [argument.format(f=folder) for argument in row]


@pytest.mark.parametrize("name", bad_library.ROWS)
def test_library(name, folder):
    refuses(*bad_library.ROWS[name], folder)


@pytest.mark.parametrize("name", bad_data.ROWS)
def test_data(name, data_folder):
    refuses(*bad_data.ROWS[name], data_folder)


def refuses(call, pattern, folder):
    before = contents(folder)
    message = message_of(call, folder)
    assert message is not None, "it was taken"
    assert re.search(pattern, message), message
    assert "\n" not in message
    assert contents(folder) == before


def assert_one_line(done, pattern):
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines and lines[-1].startswith("error: "), done.stderr
    assert re.search(pattern, lines[-1]), lines[-1]
    assert "Traceback" not in done.stderr
    return lines


@pytest.mark.parametrize("name", bad_scripts.ROWS)
def test_scripts(name, folder):
    command, pattern = bad_scripts.ROWS[name]
    before = contents(folder)
    done = in_process.run(*command_of(command, folder))
    assert_one_line(done, pattern)
    assert contents(folder) == before


@pytest.mark.parametrize("name", bad_scripts.REAL)
def test_real_processes(name, folder):
    (script, *arguments), pattern = bad_scripts.ROWS[name]
    before = contents(folder)
    done = subprocess.run(
        [
            sys.executable,
            f"scripts/{script}.py",
            *command_of(arguments, folder),
        ],
        cwd=in_process.ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    lines = assert_one_line(done, pattern)
    assert len(lines) == 1, done.stderr
    assert contents(folder) == before


def test_document_has_every_row():
    """docs/bad_input.md lists what is tested, with messages that match."""
    text = (in_process.ROOT / "docs" / "bad_input.md").read_text()
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ")
    ][2:]
    tested = [("library", k, v[1]) for k, v in bad_library.ROWS.items()]
    tested += [
        (f"adt-{command[0]}", name, pattern)
        for name, (command, pattern) in bad_scripts.ROWS.items()
    ]
    tested += [("weights", k, v[1]) for k, v in WEIGHTS.items()]
    tested += [("data", k, v[1]) for k, v in bad_data.ROWS.items()]
    assert [row[:2] for row in rows] == [[*row[:2]] for row in tested]
    assert f"the answers to {len(rows)} bad inputs" in text
    for (_, name, message), (_, _, pattern) in zip(rows, tested, strict=True):
        message = message.replace("\\|", "|").replace("&lt;", "<")
        assert re.search(pattern, message), (name, message)


def markdown(folder):
    """Each input with what was really said of it."""

    def row(kind, name, message):
        message = message.replace(str(folder), "DIR").replace("|", "\\|")
        message = message.replace(str(pathlib.Path.cwd()), "DIR")
        message = message.replace(str(pathlib.Path.home()), "~")
        message = message.replace("<", "&lt;")
        return f"| {kind} | {name} | {message} |"

    yield "| where | input | message |"
    yield "| --- | --- | --- |"
    for name, (call, _) in bad_library.ROWS.items():
        yield row("library", name, message_of(call, folder))
    for name, (command, _) in bad_scripts.ROWS.items():
        done = in_process.run(*command_of(command, folder))
        message = done.stderr.splitlines()[-1]
        yield row(f"adt-{command[0]}", name, message)
    for name, (call, _) in WEIGHTS.items():
        yield row("weights", name, message_of(call, folder))
    for name, (call, _) in bad_data.ROWS.items():
        yield row("data", name, message_of(call, folder / "data"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as path:
        with contextlib.redirect_stdout(sys.stderr):  # TFDS tells what it makes
            folder = bad_files.make(pathlib.Path(path))
            (folder / "weights").mkdir()
            bad_weights.make(folder / "weights")
            (folder / "data").mkdir()
            bad_data.make(folder / "data")
        for line in markdown(folder):
            print(line)
