"""Flagfiles: where they lie, and the flags that they stand for.

    expand(["--flagfile=digits/adt_exp", "--epochs=1"])
    # ["--momentum=0.9", ..., "--method=adt_exp", "--epochs=1"]

A flagfile has one flag a line; lines that begin with # or // are comments. It
may name others, whose flags then stand in that place. Later flags win.

Those in a folder recipes set choices of several methods at once: of theirs, the
flags that the method of the run does not take are left out, and named.

A file is looked for as it is named, then beside the file that names it, then
among those that come with the package. There its short name is enough:
digits/adt_exp is flags/digits/adt_exp.flags.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from adt_tf import files
from adt_tf.runs import method_flags

#: The flagfiles that come with the package.
SHIPPED = pathlib.Path(__file__).parents[1] / "flags"
_FLAGFILE = ("--flagfile", "-flagfile")
_RECIPES = "recipes"
# What a file must not decide, since it may have come from anywhere.
_COMMAND_LINE_ONLY = ("download", "nodownload")


class _Flag(NamedTuple):
    """A flag, with the file and the recipe that have set it, if any has."""

    text: str
    recipe: str | None = None
    file: pathlib.Path | None = None

    @property
    def name(self) -> str:
        """The name, as --name=value has it."""
        return self.text.partition("=")[0].lstrip("-")


def expand(
    arguments: Sequence[str], *, say: Callable[[str], None] = print
) -> list[str]:
    """Puts the flags of flagfiles in the place of the flags that name them.

    Whether data are downloaded is for the command line to say: a flagfile may
    hold --download, as the flags.txt of a run does, but it does not count. A
    network that is a Python function must be named there as well: a flagfile
    that names one is refused, unless the command line gives --network after it.

    Args:
        arguments: Flags as on a command line, without the program's name.
        say: Gets a line that names what was left out of a recipe.
    """
    flags, rest = [], list(arguments)
    while rest and rest[0] != "--":
        argument = rest.pop(0)
        if argument in _FLAGFILE:
            if not rest:
                raise ValueError("--flagfile needs the name of a file.")
            argument = f"{argument}={rest.pop(0)}"
        name = _named(argument)
        if name is None:
            flags.append(_Flag(argument))
        else:
            flags += _read(find(name))
    _check_code(flags)
    return [flag.text for flag in _fitting(flags, say)] + rest


def names_code(network: str) -> bool:
    """Tells whether --network is a function, as in package.module:function.

    >>> names_code("mine.networks:tiny"), names_code("keras:MobileNetV2")
    (True, False)
    """
    module, colon, _ = network.partition(":")
    return bool(colon) and module != "keras" and not {*network} & {*"/\\"}


def _check_code(flags: Sequence[_Flag]) -> None:
    """Refuses Python code that is named by a file: it may be anybody's."""
    networks = [flag for flag in flags if flag.name == "network"]
    for flag in networks[-1:]:
        value = flag.text.partition("=")[2]
        if flag.file is not None and names_code(value):
            raise ValueError(
                f"{flag.file} names Python code to run, {value}, which only "
                "the command line may do. If you trust it, give the same "
                f"there, after --flagfile: --network={value}"
            )


def read(path: pathlib.Path) -> list[str]:
    """Returns the flags of a file and of those that it names."""
    return [flag.text for flag in _read(path)]


def _read(
    path: pathlib.Path,
    inside: tuple[pathlib.Path, ...] = (),
    recipe: str | None = None,
) -> list[_Flag]:
    """Returns the flags of a file and of those that it names.

    Args:
        path: The file.
        inside: The files that have led to it, the first one first.
        recipe: The recipe among them.
    """
    path = path.resolve()
    if path in inside:
        chain = " -> ".join(str(file) for file in (*inside, path))
        raise ValueError(f"These flagfiles name each other: {chain}")
    if recipe is None and path.parent.name == _RECIPES:
        recipe = f"{_RECIPES}/{path.stem}"
    flags = []
    for line in read_lines(path):
        name, flag = _named(line), _Flag(line, recipe, path)
        if name is not None:
            file = find(name, beside=path)
            flags += _read(file, (*inside, path), recipe)
        elif flag.name not in _COMMAND_LINE_ONLY:
            flags.append(flag)
    return flags


def _fitting(flags: list[_Flag], say: Callable[[str], None]) -> list[_Flag]:
    """Leaves out what a recipe sets and the method of the run does not take."""
    method = method_flags.DEFAULT_METHOD
    for index, flag in enumerate(flags):
        if flag.name == "method":
            _, equals, value = flag.text.partition("=")
            # --method NAME, as absl takes it, is two arguments.
            after = flags[index + 1 : index + 2]
            method = value if equals or not after else after[0].text
    unfit = [
        flag
        for flag in flags
        if flag.recipe and not method_flags.takes(method, flag.name)
    ]
    for recipe in dict.fromkeys(flag.recipe for flag in unfit):
        left_out = [flag.text for flag in unfit if flag.recipe == recipe]
        say(
            f"{recipe}: {method} does not take {', '.join(left_out)}, left out."
        )
    return [flag for flag in flags if flag not in unfit]


def read_lines(path: pathlib.Path) -> list[str]:
    """Returns the lines of a flagfile that are no comments."""
    try:
        text = files.read_text(path)
    except OSError as error:
        raise ValueError(f"Cannot read the flagfile {path}: {error}") from error
    # Editors of Windows begin a file with the mark of its byte order.
    text = text.removeprefix("\ufeff")
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "//"))]


def find(name: str, *, beside: pathlib.Path | None = None) -> pathlib.Path:
    """Returns the flagfile of a name.

    Args:
        name: A path, or the short name of a file that comes with the package.
        beside: The file that names it, if one does.

    Example:

    >>> find("digits/adt_exp") == SHIPPED / "digits" / "adt_exp.flags"
    True
    """
    path = pathlib.Path(os.path.expanduser(name))
    places = [path]
    if not path.is_absolute():
        places += [beside.parent / path] if beside else []
        is_prefixed = path.parts[:1] == ("flags",)
        short_path = path.relative_to("flags") if is_prefixed else path
        places.append(SHIPPED / short_path)
    for place in places if path.name else ():
        for file in (place, place.with_name(f"{place.name}.flags")):
            if file.is_file():
                return file
    named_in = f", which {beside} names" if beside else ""
    raise ValueError(
        f"There is no flagfile {name}{named_in}. Give the path of a file, or "
        "the name of one that comes with adt_tf, such as digits/adt_exp."
    )


def _named(argument: str) -> str | None:
    """Returns the file that a flag names, or None for any other flag."""
    flag, _, name = argument.partition("=")
    return name if flag in _FLAGFILE else None
