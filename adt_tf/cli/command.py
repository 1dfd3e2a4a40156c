"""Runs a command: its flags, its help, and errors in one line.

    FLAGS = flags.FlagValues()
    flags.DEFINE_string("workdir", None, "Directory.", flag_values=FLAGS)

    def main() -> None:
        command.run("adt-train", __doc__, FLAGS, train)

A command has flags of its own, apart from absl's global ones, so that all
commands can be imported, and run, in one process.
"""

from __future__ import annotations

import inspect
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
# What a shell reports of a process that Ctrl-C has ended.
_INTERRUPTED = 128 + 2
_HELP = ("--help", "-help", "-h", "-?", "--helpshort", "--helpfull")
_EXPECTED = (
    flags.Error,
    ValueError,
    OSError,
    MemoryError,
    zipfile.BadZipFile,
)


def run(
    name: str,
    description: str,
    values: flags.FlagValues,
    work: Callable[..., None],
) -> None:
    """Reads the command line and does the work of a command, as an absl app.

    An expected error becomes one line and exit code 1, Ctrl-C one line and
    exit code 130.

    Args:
        name: Name of the command.
        description: What it does, as --help shows it.
        values: Its flags.
        work: Does it, with the arguments that are no flags.
    """

    def parse(argv):
        flags.FLAGS(argv[:1])  # absl's own flags keep their defaults
        for flag in values:
            values[flag].unparse()
        _answer_questions(name, description, values, argv[1:])
        try:
            return values([name, *flagfiles.expand(argv[1:])])[1:]
        except (flags.Error, ValueError, OSError) as error:
            hint = f"{name} --help lists the flags"
            sys.exit(f"error: {_one_line(error)} ({hint})")

    def guarded(arguments):
        logging.set_verbosity(logging.ERROR)
        try:
            _check_arguments(work, arguments)
            work(*arguments)
        except _EXPECTED as error:
            sys.exit(f"error: {_one_line(error)}")

    try:
        app.run(guarded, flags_parser=parse)
    except KeyboardInterrupt:
        print("Interrupted. Repeat the command to go on.", file=sys.stderr)
        sys.exit(_INTERRUPTED)


def required(values: flags.FlagValues, name: str) -> Any:
    """Returns the value of a flag that must be given."""
    value = values[name].value
    if value is None:
        meaning = values[name].help
        raise ValueError(f"--{name} must be given. {meaning}")
    return value


def given(values: flags.FlagValues) -> list[str]:
    """Returns the flags of the command line, as they can be given again."""
    return [values[name].serialize() for name in values if values[name].present]


def _answer_questions(
    name: str,
    description: str,
    values: flags.FlagValues,
    arguments: Sequence[str],
) -> None:
    """Prints the help or the version and exits, where that is asked for."""
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
    groups = {"Flags": []}
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
        "--flagfile=FILE reads flags from a file, or from one that comes with "
        "adt_tf,",
        "such as digits/adt_exp. --version prints the version.",
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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or repr(error)
