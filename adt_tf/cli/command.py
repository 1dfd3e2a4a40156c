"""Runs a command: parses flags, prints help, reports errors in one line.

    FLAGS = flags.FlagValues()
    flags.DEFINE_string("workdir", None, "Directory.", flag_values=FLAGS)

    def main() -> None:
        command.run("adt-train", __doc__, FLAGS, train)

Each command has its own `FlagValues`, apart from absl's global flags, so that
all commands can be imported and run in one process.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
import textwrap
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

import adt_tf
from adt_tf.runs import flagfiles

#: Group of flags that --help does not show.
HIDDEN = "not shown"
# Exit code that shells report for a process ended by Ctrl-C (SIGINT).
_INTERRUPTED = 128 + 2
_HELP = ("--help", "-help", "-h", "-?", "--helpshort", "--helpfull")
_EXPECTED = (
    flags.Error,
    ValueError,
    OSError,
    zipfile.BadZipFile,
)
_NO_READER = (
    "The reader of the output has closed it, so the command has stopped. "
    "Repeat the command to continue."
)
_OUT_OF_MEMORY = (
    "There is not enough memory. Use a smaller network, a smaller batch "
    "(--batch_size, --eval_batch_size) or --sample_chunk, or give the process "
    "more memory"
)
# Messages of C++ libraries that run out of memory.
_MEMORY_ERRORS = re.compile(
    "alloc failed|bad_alloc|failed to allocate|OOM when allocating"
    "|out of memory|Cannot allocate memory",
    re.IGNORECASE,
)


def run(
    name: str,
    description: str,
    values: flags.FlagValues,
    work: Callable[..., None],
) -> None:
    """Parses the command line and runs a command as an absl app.

    An expected error prints one line and exits with code 1. Ctrl-C prints one
    line and exits with code 130.

    Args:
        name: Name of the command.
        description: Text that --help prints above the flags.
        values: Flags of the command.
        work: Function that does the work. It receives the arguments of the
            command line that are not flags.
    """

    def parse(argv: list[str]) -> list[str]:
        flags.FLAGS(argv[:1])  # absl's own flags keep their defaults
        for flag in values:
            values[flag].unparse()
        _answer_questions(name, description, values, argv[1:])
        try:
            return values([name, *flagfiles.expand(argv[1:])])[1:]
        except (flags.Error, ValueError, OSError) as error:
            hint = f"{name} --help lists the flags"
            sys.exit(f"error: {_one_line(error)} ({hint})")

    def guarded(arguments: list[str]) -> None:
        logging.set_verbosity(logging.ERROR)
        try:
            _check_arguments(work, arguments)
            work(*arguments)
        except BrokenPipeError:
            sys.exit(f"error: {_NO_READER}")
        except _EXPECTED as error:
            sys.exit(f"error: {_one_line(error)}")
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
            sys.exit(f"error: {_OUT_OF_MEMORY} ({_one_line(error):.200})")

    _prepare_standard_streams()
    try:
        app.run(guarded, flags_parser=parse)
    except KeyboardInterrupt:
        print("Interrupted. Repeat the command to continue.", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)  # The reader of --help has closed the pipe.
    finally:
        _flush_output()


def _prepare_standard_streams() -> None:
    """Makes sure that everything can be printed to the standard streams.

    Opens the streams that the shell has closed. Otherwise the next file to be
    opened would get their number, and printed text would be written into it.
    Escapes characters that the encoding lacks.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The system assigns the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    """Flushes the standard output, and ignores a reader that has closed it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes the stream again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def required(values: flags.FlagValues, name: str) -> Any:
    """Returns the value of a required flag, or raises `ValueError`."""
    value = values[name].value
    if value is None:
        raise ValueError(f"--{name} is required. {values[name].help}")
    return value


def given(values: flags.FlagValues) -> list[str]:
    """Returns the flags of the command line, in the form --name=value."""
    return [values[name].serialize() for name in values if values[name].present]


def _answer_questions(
    name: str,
    description: str,
    values: flags.FlagValues,
    arguments: Sequence[str],
) -> None:
    """Prints the help or the version and exits, if a flag asks for it."""
    for argument in arguments:
        if argument == "--":
            return
        if argument in _HELP:
            print(_help(description, values))
            sys.exit(0)
        if argument == "--version":
            print(name, adt_tf.__version__)
            sys.exit(0)


def _help(description: str, values: flags.FlagValues) -> str:
    """Returns the description and the flags, group by group."""
    lines = [inspect.cleandoc(description)]
    groups: dict[str, list[flags.Flag]] = {"Flags": []}
    for group, members in values.flags_by_module_dict().items():
        is_own = " " not in group  # a module's name
        groups.setdefault("Flags" if is_own else group, []).extend(members)
    groups.pop(HIDDEN, None)
    for title, members in groups.items():
        lines += ["", f"{title}:"]
        for flag in members:
            label = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
            default = f" (default: {_default(flag)})" if flag.default else ""
            lines += textwrap.wrap(
                f"{label}: {flag.help}{default}",
                width=79,
                initial_indent="  ",
                subsequent_indent="      ",
            )
    lines += [
        "",
        "--flagfile=FILE reads flags from a file, or from a flagfile of "
        "adt_tf such as",
        "digits/adt_exp. --version prints the version.",
    ]
    return "\n".join(lines)


def _default(flag: flags.Flag) -> str:
    return flag.serialize().partition("=")[2] or "yes"


def _check_arguments(
    work: Callable[..., None], arguments: Sequence[str]
) -> None:
    takes_arguments = bool(inspect.signature(work).parameters)
    if arguments and not takes_arguments:
        raise ValueError(f"Too many arguments: {list(arguments)}")


def _is_out_of_memory(error: Exception) -> bool:
    # TensorFlow's own error is compared by name, since TensorFlow may not be
    # imported yet.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "ResourceExhaustedError"
        or _MEMORY_ERRORS.search(str(error)) is not None
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or repr(error)
