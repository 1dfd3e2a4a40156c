"""Runs a command's real entry point in this process.

TensorFlow takes seconds to import, so that dozens of processes would take
minutes. What a process would have printed and returned is the same.
"""

import contextlib
import importlib
import io
import os
import pathlib
import subprocess
import sys
from unittest import mock

ROOT = pathlib.Path(__file__).parents[2]


def run(command, *arguments, cwd=ROOT):
    """Returns a `CompletedProcess`, as `subprocess.run` would."""
    main = importlib.import_module(f"adt_tf.cli.{command}").main
    argv = [f"adt-{command}", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    code, directory = 0, os.getcwd()
    with (
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        os.chdir(cwd)
        try:
            main()
        except SystemExit as end:
            # As the interpreter does with what sys.exit was given.
            if isinstance(end.code, str):
                print(end.code, file=err)
            code = (
                end.code if isinstance(end.code, int) else int(bool(end.code))
            )
        finally:
            os.chdir(directory)
    return subprocess.CompletedProcess(
        argv, code, out.getvalue(), err.getvalue()
    )
