"""Locks that a real process holds."""

import contextlib
import subprocess
import sys

from adt_tf.runs import lock

# The module alone, without TensorFlow, which takes seconds to import.
_HOLD = """
import importlib.util, pathlib, sys, time
spec = importlib.util.spec_from_file_location("lock", sys.argv[1])
lock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lock)
with lock.held(pathlib.Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def held_elsewhere(path):
    """Another process holds the lock of a file, until SIGKILL takes it away."""
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD, lock.__file__, path],
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout.readline() == b"held\n"
        yield
    finally:
        other.kill()
        other.communicate()
