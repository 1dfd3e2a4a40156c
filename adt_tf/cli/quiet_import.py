"""Imports TensorFlow without the log lines of its C++.

They are written to the standard error before any setting of log levels is
read. So what is written there during the import is kept back, and shown only
if the import fails or the process dies in it: a second process holds it. A
death is told in a line of its own.
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
    b"error: The process was ended while it imported TensorFlow: by a signal, "
    b"or for want of memory or threads.\n"
)


def import_tensorflow(*, devices: bool = True) -> None:
    """Imports TensorFlow and what takes long beside it.

    Raises `ValueError` where the limits of the process are too low for it.

    Args:
        devices: Whether to look for devices too. A program that is to meet
            other machines must do so before.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Off by default on many CPUs, and faster on all that have it.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    is_first = "tensorflow" not in sys.modules
    if is_first:
        check_limits()
    with held_back_errors() if is_first else contextlib.nullcontext():
        import tensorflow as tf
        import tensorflow_probability as tfp

        # It warns of repeated tracing wherever several attacks are run.
        tf.get_logger().setLevel("ERROR")
        if devices:
            tf.config.list_logical_devices()
            tfp.distributions.Normal(0.0, 1.0)


@contextlib.contextmanager
def held_back_errors() -> Iterator[None]:
    """Holds back what the block writes to the standard error.

    It is shown if the block raises an exception, or ends the process in
    whatever way. Where a process cannot be forked, nothing is held back.
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
    """Reads to the end, and shows what was read unless all is well."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the other process
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
