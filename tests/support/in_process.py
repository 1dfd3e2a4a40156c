"""Runs a script's real entry point in this process.

TensorFlow takes seconds to import, so that dozens of processes would take
minutes. What a process would have printed and returned is the same: the script
runs as `__main__`, with its own flags and `sys.argv`.
"""

import contextlib
import io
import os
import pathlib
import runpy
import subprocess
import sys
from unittest import mock

from absl import flags

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def run(script, *arguments):
    """Returns a `CompletedProcess`, as `subprocess.run` would."""
    argv = [str(SCRIPTS / f"{script}.py"), *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    code, cwd = 0, os.getcwd()
    kept = _taken_out(_of_scripts())
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        os.chdir(ROOT)
        try:
            runpy.run_path(argv[0], run_name="__main__")
        except SystemExit as end:
            # As the interpreter does with what sys.exit was given.
            if isinstance(end.code, str):
                print(end.code, file=err)
            code = (
                end.code if isinstance(end.code, int) else int(bool(end.code))
            )
        finally:
            os.chdir(cwd)
            _taken_out(_of_scripts())
            flags.FLAGS.append_flag_values(kept)
    return subprocess.CompletedProcess(
        argv, code, out.getvalue(), err.getvalue()
    )


def _of_scripts():
    """The flags that a script, or common.py for it, has defined."""
    return [
        flag.name
        for module, found in flags.FLAGS.flags_by_module_dict().items()
        for flag in found
        if module == "common" or str(SCRIPTS) in module
    ]


def _taken_out(names):
    """Takes flags out of the global ones, and returns them."""
    kept = flags.FlagValues()
    for name in set(names):
        flag = flags.FLAGS[name]
        delattr(flags.FLAGS, name)
        kept[name] = flag
    return kept
