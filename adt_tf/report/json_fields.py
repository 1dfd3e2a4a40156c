"""JSON files whose fields have the types that are expected of them.

    values = read_json(path, {"seed": int, "method": Optional(str)}, "Run ...")

A kind is `str`, `int`, `float` (a finite number) or `bool`; a tuple of the
texts that are allowed; a frozenset of the letters that a text may consist of; a
list of one kind, `[kind]`; an object with certain fields, `{"name": kind}`, or
with any, `{str: kind}`; or `Optional(kind)`, which may also be null or missing.
Further fields are ignored.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import reprlib
import sys
from typing import Any

from adt_tf import files


@dataclasses.dataclass(frozen=True)
class Optional:
    """A kind that may be null or missing."""

    kind: Any


def read_json(path: pathlib.Path, kind: Any, remedy: str) -> Any:
    """Reads a JSON file.

    Args:
        path: The file.
        kind: What it has to hold.
        remedy: A sentence on what to do where it does not.

    Raises:
        ValueError: If the file is no JSON or spoiled, with its path and the
            field in one line.
    """
    try:
        values = json.loads(files.read_text(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is no JSON file: {error}. {remedy}"
        ) from error
    try:
        _check(values, kind, "")
    except ValueError as error:
        raise ValueError(f"{path}: {error}. {remedy}") from error
    return values


def _check(value: Any, kind: Any, field: str) -> None:
    match kind:
        case Optional():
            if value is not None:
                _check(value, kind.kind, field)
        case dict():
            _expect(isinstance(value, dict), "an object", field, value)
            _check_object(value, kind, field)
        case list():
            _expect(isinstance(value, list), "a list", field, value)
            for i, element in enumerate(value):
                _check(element, kind[0], f"{field}[{i}]")
        case tuple():
            _expect(value in kind, f"one of {', '.join(kind)}", field, value)
        case frozenset():
            letters = isinstance(value, str) and kind.issuperset(value)
            expected = f"a text of the letters {''.join(sorted(kind))}"
            _expect(letters, expected, field, value)
        case _:
            name, holds = _SCALARS[kind]
            _expect(holds(value), name, field, value)


def _check_object(value: dict, kind: dict, field: str) -> None:
    if str in kind:
        for name, inside in value.items():
            _check(name, str, f"{field}, a name in it,")
            _check(inside, kind[str], _inside(field, name))
        return
    for name, inside in kind.items():
        if name in value:
            _check(value[name], inside, _inside(field, name))
        elif not isinstance(inside, Optional):
            raise ValueError(f"field {_inside(field, name)} is missing")


def _inside(field: str, name: str) -> str:
    if not re.fullmatch(r"[\w -]{1,40}", name):
        return f"{field}[{reprlib.repr(name)}]"
    return f"{field}.{name}" if field else name


def _expect(holds: bool, expected: str, field: str, value: Any) -> None:
    if not holds:
        where = f"field {field}" if field else "the whole"
        raise ValueError(
            f"{where} must be {expected}. Received: {reprlib.repr(value)}"
        )


def _is_text(value: Any) -> bool:
    """Whether it is a text that a file can hold: no half of a character."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_SCALARS = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    float: (
        "a finite number",
        lambda value: (
            type(value) in (int, float) and abs(value) <= sys.float_info.max
        ),
    ),
    int: (
        "an integer",
        lambda value: type(value) is int and abs(value) < 2**63,
    ),
    str: ("a text", _is_text),
}
