"""Flagfiles: where they lie, and the flags that they stand for.

    expand(["--flagfile=digits/adt_exp", "--epochs=1"])
    # ["--momentum=0.9", ..., "--method=adt_exp", "--epochs=1"]

A flagfile has one flag a line; lines that begin with # or // are comments. It
may name others, whose flags then stand in that place. Later flags win.

A file is looked for as it is named, then beside the file that names it, then
among those that come with the package. There its short name is enough:
digits/adt_exp is flags/digits/adt_exp.flags.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

#: The flagfiles that come with the package.
SHIPPED = pathlib.Path(__file__).parents[1] / "flags"
_FLAGFILE = ("--flagfile", "-flagfile")
# What a file must not decide, since it may have come from anywhere.
_COMMAND_LINE_ONLY = ("download", "nodownload")


def expand(arguments: Sequence[str]) -> list[str]:
    """Puts the flags of flagfiles in the place of the flags that name them.

    Whether data are downloaded is for the command line to say: a flagfile may
    hold --download, as the flags.txt of a run does, but it does not count.

    Args:
        arguments: Flags as on a command line, without the program's name.
    """
    expanded, rest = [], list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*expanded, argument, *rest]
        if argument in _FLAGFILE:
            if not rest:
                raise ValueError("--flagfile needs the name of a file.")
            argument = f"{argument}={rest.pop(0)}"
        name = _named(argument)
        if name is None:
            expanded.append(argument)
        else:
            expanded += read(find(name))
    return expanded


def read(
    path: pathlib.Path, *, inside: tuple[pathlib.Path, ...] = ()
) -> list[str]:
    """Returns the flags of a file and of those that it names.

    Args:
        path: The file.
        inside: The files that have led to it, the first one first.
    """
    path = path.resolve()
    if path in inside:
        chain = " -> ".join(str(file) for file in (*inside, path))
        raise ValueError(f"These flagfiles name each other: {chain}")
    flags = []
    for line in read_lines(path):
        name = _named(line)
        if name is not None:
            file = find(name, beside=path)
            flags += read(file, inside=(*inside, path))
        elif line.partition("=")[0].lstrip("-") not in _COMMAND_LINE_ONLY:
            flags.append(line)
    return flags


def read_lines(path: pathlib.Path) -> list[str]:
    """Returns the lines of a flagfile that are no comments."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text file: {error}") from error
    except OSError as error:
        raise ValueError(f"Cannot read the flagfile {path}: {error}") from error
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
    path = pathlib.Path(name).expanduser()
    places = [path]
    if not path.is_absolute():
        places += [beside.parent / path] if beside else []
        is_prefixed = path.parts[:1] == ("flags",)
        short_path = path.relative_to("flags") if is_prefixed else path
        places.append(SHIPPED / short_path)
    for place in places:
        for file in (place, place.with_name(f"{place.name}.flags")):
            if place.name and file.is_file():
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
