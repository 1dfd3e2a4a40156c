"""Imports TensorFlow without the log lines of its C++ code.

TensorFlow writes these lines to the standard error before it reads any log
level. During the import a second process therefore collects the standard
error, and shows it only if the import fails or the process dies. If the
process dies, it also prints a line that says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

from adt_tf.cli.limits import check_limits

_ALL_IS_WELL, _EXCEPTION = b"+", b"-"
_DEATH = (
    b"error: The process ended while it imported TensorFlow: by a signal, or "
    b"because memory or threads ran out.\n"
)


def import_tensorflow(*, devices: bool = True, streams: bool = False) -> None:
    """Imports TensorFlow and TensorFlow Probability, which take long.

    Raises `ValueError` if the limits of the process are too low.

    Args:
        devices: Whether to initialise the devices too. A program that trains
            on several machines must connect to them before.
        streams: Whether images are read from disk. Then memory must not grow
            with their number.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # oneDNN is off by default on many CPUs, where it is faster nevertheless.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    if streams:
        # oneDNN's own allocator never returns memory, and fragments: with
        # batches of large images it holds about half as much again.
        os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    is_first = "tensorflow" not in sys.modules
    if is_first:
        check_limits()
    with held_back_errors() if is_first else contextlib.nullcontext():
        import tensorflow as tf
        import tensorflow_probability as tfp

        # Running several attacks causes warnings of repeated tracing.
        tf.get_logger().setLevel("ERROR")
        if devices:
            tf.config.list_logical_devices()
            tfp.distributions.Normal(0.0, 1.0)


@contextlib.contextmanager
def held_back_errors() -> Iterator[None]:
    """Holds back the text that the block writes to the standard error.

    The text is shown if the block raises an exception or ends the process. On
    systems without `fork`, nothing is held back.
    """
    if not hasattr(os, "fork") or sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    text_end, text_source = os.pipe()
    verdict_end, verdict_source = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(text_source)
        os.close(verdict_source)
        _hold(text_end, verdict_end)
    os.close(text_end)
    os.close(verdict_end)
    standard_error = os.dup(2)
    os.dup2(text_source, 2)
    os.close(text_source)
    verdict = _EXCEPTION
    try:
        yield
        verdict = _ALL_IS_WELL
    except KeyboardInterrupt:
        verdict = _ALL_IS_WELL
        raise
    finally:
        sys.stderr.flush()
        with contextlib.suppress(BrokenPipeError):
            os.write(verdict_source, verdict)
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(verdict_source)
        os.waitpid(holder, 0)


def _hold(text_end: int, verdict_end: int) -> None:
    """Collects the text, and prints it unless the block ends normally."""
    try:
        # Ctrl-C reaches both processes; only the other one handles it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        text = b""
        while part := os.read(text_end, 1 << 16):
            text += part
        verdict = os.read(verdict_end, 1)
        if verdict != _ALL_IS_WELL:
            os.write(2, text)
        if not verdict:
            os.write(2, _DEATH)
    finally:
        os._exit(0)
