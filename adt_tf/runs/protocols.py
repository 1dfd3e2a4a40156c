"""Evaluation protocols: the flagfiles in flags/protocols.

    names()                  # ["autoattack", "distributional", "paper", ...]
    read("paper")            # ["--attacks=fgsm,pgd-20,...", "--independent"]
    attacks_of("paper")      # ["fgsm", "pgd-20", ...]

Local flagfiles count too: flags/protocols/mine.flags is the protocol "mine".
"""

from __future__ import annotations

import pathlib
import re

from adt_tf.runs import flagfiles

_FOLDER = pathlib.Path("flags", "protocols")


def names() -> list[str]:
    """Returns the names of all protocols, including local ones."""
    folders = (_FOLDER, flagfiles.SHIPPED / _FOLDER.name)
    paths = [path for folder in folders for path in folder.glob("*.flags")]
    return sorted({path.stem for path in paths})


def read(name: str) -> list[str]:
    """Returns the flags of a protocol."""
    if not re.fullmatch(r"\w[\w-]*", name) or name not in names():
        raise ValueError(
            f"--protocol must be one of {', '.join(names())}. Received: {name}"
        )
    return flagfiles.read(flagfiles.find(str(_FOLDER / f"{name}.flags")))


def attacks_of(name: str) -> list[str]:
    """Returns the names of the attacks of a protocol.

    Example:

    >>> attacks_of("rice")
    ['pgd-10', 'pgd-20', 'pgd-100']
    """
    flag = "--attacks="
    values = [line for line in read(name) if line.startswith(flag)]
    if not values:
        raise ValueError(f"The protocol {name} has no line {flag}...")
    return values[-1].removeprefix(flag).split(",")
