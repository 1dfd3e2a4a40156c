"""Hostile and damaged files of weights: one line each, and nothing is run.

The rows are in bad_weights.py; docs/bad_input.md has what is said of each.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys

import pytest

from tests.support import bad_files, bad_weights, mutated_weights

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    bad_files.arrays(folder)
    (folder / "weights").mkdir()
    bad_weights.make(folder / "weights")
    return folder


def contents(folder):
    return {
        p: (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*")
    }


def assert_refused(row, folder):
    call, pattern = row
    before = contents(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError) as error:
        call(folder)
    message = str(error.value)
    assert re.search(pattern, message), message
    assert message.isprintable()
    assert contents(folder) == before
    assert not pathlib.Path(bad_weights.TRACE).exists()
    # Kilobytes: what Keras needs to build a network of its own.
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < 300_000, f"{grown} kB"


@pytest.mark.parametrize("name", bad_weights.ROWS)
def test_weights(name, folder):
    assert_refused(bad_weights.ROWS[name], folder)


@pytest.mark.parametrize("name", bad_weights.GRAPHS)
def test_graphs(name, folder):
    pytest.importorskip("onnx")
    assert_refused(bad_weights.GRAPHS[name], folder)


def test_the_hostile_pickle_would_run():
    """What is refused is not harmless for want of care in writing it."""
    assert b"cposix\nsystem\n" in bad_weights.pickles()["system"]


@pytest.mark.slow
def test_ten_thousand_damaged_files(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            mutated_weights.__name__,
            str(tmp_path),
            "10000",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, re.findall(r"\d+", done.stdout))
    assert read + refused == 10_000
    assert refused > 5_000
