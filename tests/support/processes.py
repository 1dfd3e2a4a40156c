"""Runs commands as real processes that start fast.

Each is a process of its own that can be killed, forked from one that has
imported TensorFlow, which takes most of the time of a short run. It leaves
the same files, output and exit code as `adt-COMMAND`.
"""

import importlib
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["adt_tf", "adt_tf.runs.experiment", "tensorflow_probability"]
)


def start(script, *arguments, stdout=os.devnull, stderr=os.devnull):
    """Starts a command such as "train", with its output in two files."""
    process = _FORKS.Process(
        target=_main, args=(script, [*map(str, arguments)], stdout, stderr)
    )
    process.start()
    return process


def run(script, *arguments, check=True):
    """Runs a script to its end; returns a `CompletedProcess`."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("out", "err")]
        process = start(script, *arguments, stdout=files[0], stderr=files[1])
        process.join()
        stdout, stderr = (file.read_text() for file in files)
    stderr = without_log(stderr)
    if check:
        assert process.exitcode == 0, stderr
    return subprocess.CompletedProcess(
        [script, *arguments], process.exitcode, stdout, stderr
    )


def without_log(text):
    """Leaves out TensorFlow's own log, such as that there is no GPU."""
    return re.sub(r"^[IWEF]\d{4} .*\n", "", text, flags=re.MULTILINE)


def fails(done, message):
    """Expects one clear line, no traceback, and an exit code that says so."""
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert message in done.stderr, done.stderr
    return done


def _main(script, arguments, stdout, stderr):
    os.chdir(ROOT)
    for number, path in ((1, stdout), (2, stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = [f"adt-{script}", *arguments]
    importlib.import_module(f"adt_tf.cli.{script}").main()
