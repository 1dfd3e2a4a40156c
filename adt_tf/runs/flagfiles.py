"""Finds flagfiles, and replaces --flagfile by the flags of the file.

    expand(["--flagfile=digits/adt_exp", "--epochs=1"])
    # ["--momentum=0.9", ..., "--method=adt_exp", "--epochs=1"]

A flagfile has one flag on each line. Lines that begin with # or // are
comments. A flagfile may include others with --flagfile. Later flags win.

A recipe is a flagfile in a folder named `recipes`. It sets flags for several
methods; flags that the method of the run does not accept are dropped, with a
message.

A file is searched for under its name, then beside the file that includes it,
then among the flagfiles of the package, where the short name digits/adt_exp
stands for flags/digits/adt_exp.flags.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from adt_tf import files
from adt_tf.runs import method_flags

#: Directory of the package's own flagfiles.
SHIPPED = pathlib.Path(__file__).parents[1] / "flags"
_FLAGFILE = ("--flagfile", "-flagfile")
_RECIPES = "recipes"
# Flags that are ignored in files, which may come from an untrusted source.
_COMMAND_LINE_ONLY = ("download", "nodownload")


class _Flag(NamedTuple):
    """A flag, with the file and the recipe that set it, or None."""

    text: str
    recipe: str | None = None
    file: pathlib.Path | None = None

    @property
    def name(self) -> str:
        """The name in --name=value."""
        return self.text.partition("=")[0].lstrip("-")


def expand(
    arguments: Sequence[str], *, say: Callable[[str], None] = print
) -> list[str]:
    """Replaces each --flagfile by the flags of the file.

    Only the command line can request a download: --download in a flagfile,
    such as the flags.txt of a run, is ignored. Only the command line can name
    a Python function as the network: a flagfile that names one is refused,
    unless --network follows it on the command line. A --norm on the command
    line needs an --epsilon there.

    Args:
        arguments: Arguments of a command line, without the program's name.
        say: Function that receives a message about flags that were dropped.
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
    _check_radius(flags)
    return [flag.text for flag in _fitting(flags, say)] + rest


def names_code(network: str) -> bool:
    """Returns whether --network is a function, as in package.module:function.

    >>> names_code("mine.networks:tiny"), names_code("keras:MobileNetV2")
    (True, False)
    """
    module, colon, _ = network.partition(":")
    return bool(colon) and module != "keras" and not {*network} & {*"/\\"}


def _check_code(flags: Sequence[_Flag]) -> None:
    """Refuses Python code named in a file, which may be untrusted."""
    networks = [flag for flag in flags if flag.name == "network"]
    for flag in networks[-1:]:
        value = flag.text.partition("=")[2]
        if flag.file is not None and names_code(value):
            raise ValueError(
                f"{flag.file} names Python code to run, {value}, which is "
                "allowed on the command line only. If you trust it, add "
                f"--network={value} after --flagfile."
            )


def _check_radius(flags: Sequence[_Flag]) -> None:
    """Refuses a norm beside the radius of a file, meant for its own norm."""
    last = {flag.name: flag for flag in flags}
    norm, epsilon = last.get("norm"), last.get("epsilon")
    if norm and epsilon and norm.file is None and epsilon.file is not None:
        raise ValueError(
            f"{norm.text} needs --epsilon after --flagfile on the command "
            "line as well, since a radius depends on the norm (8/255 is usual "
            f"in linf, 0.5 in l2). Received: {epsilon.text} of {epsilon.file}"
        )


def read(path: pathlib.Path) -> list[str]:
    """Returns the flags of a file and of the files that it includes."""
    return [flag.text for flag in _read(path)]


def _read(
    path: pathlib.Path,
    inside: tuple[pathlib.Path, ...] = (),
    recipe: str | None = None,
) -> list[_Flag]:
    """Returns the flags of a file and of the files that it includes.

    Args:
        path: Path of the file.
        inside: Chain of the files that include it, outermost first.
        recipe: Name of the recipe in this chain, or None.
    """
    path = path.resolve()
    if path in inside:
        chain = " -> ".join(str(file) for file in (*inside, path))
        raise ValueError(f"These flagfiles include each other: {chain}")
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
    """Drops the flags of recipes that the method of the run does not accept."""
    method = method_flags.DEFAULT_METHOD
    for index, flag in enumerate(flags):
        if flag.name == "method":
            _, equals, value = flag.text.partition("=")
            # absl also accepts two arguments, --method NAME.
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
            f"{recipe}: dropped {', '.join(left_out)}, which {method} does not "
            "accept."
        )
    return [flag for flag in flags if flag not in unfit]


def read_lines(path: pathlib.Path) -> list[str]:
    """Returns the lines of a flagfile that are not comments."""
    try:
        text = files.read_text(path)
    except OSError as error:
        raise ValueError(f"Cannot read the flagfile {path}: {error}") from error
    # Some editors begin a file with a byte order mark.
    text = text.removeprefix("\ufeff")
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "//"))]


def find(name: str, *, beside: pathlib.Path | None = None) -> pathlib.Path:
    """Returns the path of a flagfile.

    Args:
        name: Path, or short name of a flagfile of the package.
        beside: File that includes this one, or None.

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
    named_in = f", which {beside} includes" if beside else ""
    raise ValueError(
        f"There is no flagfile {name}{named_in}. Give the path of a file, or "
        "the name of a flagfile of adt_tf, such as digits/adt_exp."
    )


def _named(argument: str) -> str | None:
    """Returns the file of a --flagfile, or None for any other flag."""
    flag, _, name = argument.partition("=")
    return name if flag in _FLAGFILE else None
