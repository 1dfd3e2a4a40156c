"""Reads JSON files against a schema, and writes them.

    FINDINGS = {"ok": bool, "findings": [{"check": str, "advice": Maybe(str)}]}
    write_json("lint.json", {"ok": True, "findings": []})
    read_json("lint.json", FINDINGS)["ok"]

A schema is a type (`float` includes integers, `object` is anything), a set of
the allowed values, a list with the schema of its items, a dictionary with the
schemas of its fields (further fields are allowed), `Each` or `Maybe`. A file
holds its `format`; files of version 0.1.0 have none.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import reprlib
from typing import Any

from adt_tf import files

_DEEPEST = 40
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(r"[\[\]{}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = re.compile(r"[\w -]{1,40}", re.ASCII)
_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


@dataclasses.dataclass(frozen=True)
class Maybe:
    """The schema of a field that may be missing or null."""

    schema: Any


@dataclasses.dataclass(frozen=True)
class Each:
    """The schema of an object with fields of any name and the same schema."""

    schema: Any


def write_json(path: str | os.PathLike, values: dict[str, Any]) -> None:
    """Writes an object and its format to a file, atomically.

    Raises `ValueError` if a number is NaN or infinite, which JSON lacks.

    Args:
        path: Path of the file.
        values: Fields of the object.
    """
    values = {"format": files.FORMAT, **values}
    try:
        text = json.dumps(values, indent=2, allow_nan=False)
    except ValueError as error:
        raise ValueError(
            f"{path} was not written, since JSON has no NaN and no infinite "
            "numbers: use None instead."
        ) from error
    files.write_text(path, text + "\n")


def read_json(path: str | os.PathLike, schema: Any = object) -> Any:
    """Reads a JSON file and checks its content.

    Raises `ValueError` with the file, the field, the expected type and the
    value.

    Args:
        path: Path of the file.
        schema: Schema of the content.
    """
    text = files.read_text(path)
    try:
        values = _parse(text)
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from error
    problem = _nonstandard(values, "")
    if problem:
        raise ValueError(f"{path}: {problem}")
    if isinstance(values, dict) and "format" in values:
        check(values, {"format": {files.FORMAT}}, path=path)
    check(values, schema, path=path)
    return values


def check(values: Any, schema: Any, *, path: str | os.PathLike) -> None:
    """Raises `ValueError` if the content of a file does not fit a schema."""
    problem = _problem(values, schema, "")
    if problem:
        raise ValueError(f"{path}: {problem}")


def _parse(text: str) -> Any:
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"it has the field {name!r:.80} twice")
        values[name] = value
    return values


def _nonstandard(value: Any, field: str) -> str | None:
    """Returns a message if a value is not valid JSON, or None.

    Python's reader accepts NaN, large integers and single surrogates.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return _message(field, "a finite number", str(value))
    if isinstance(value, int) and abs(value) >= 2**63:
        return _message(field, "a number of 64 bits", reprlib.repr(value))
    if isinstance(value, str) and _SURROGATE.search(value):
        return _message(field, "text of whole characters", ascii(value))
    if isinstance(value, dict):
        parts = [(_inside(field, name), v) for name, v in value.items()]
        parts += [(f"a name in {field}", name) for name in value]
    elif isinstance(value, list):
        parts = [(f"{field}[{i}]", v) for i, v in enumerate(value)]
    else:
        return None
    problems = (_nonstandard(v, name) for name, v in parts)
    return next((problem for problem in problems if problem), None)


def _message(field: str, expected: str, received: str) -> str:
    where = f"`{field}`" if field else "the file"
    if len(received) > 80:
        received = f"{received[:77]}..."
    return f"{where} must be {expected}. Received: {received}"


def _problem(value: Any, schema: Any, field: str) -> str | None:
    """Returns a message with the first error and its field, or None."""
    if isinstance(schema, Maybe):
        return None if value is None else _problem(value, schema.schema, field)
    expected = _expected(value, schema)
    if expected:
        received = "nothing" if value is None else json.dumps(value)
        return _message(field, expected, received)
    if isinstance(schema, list):
        parts = [(f"{field}[{i}]", v, schema[0]) for i, v in enumerate(value)]
    elif isinstance(schema, Each):
        parts = [
            (_inside(field, k), v, schema.schema) for k, v in value.items()
        ]
    elif isinstance(schema, dict):
        parts = [
            (_inside(field, k), value.get(k), v) for k, v in schema.items()
        ]
    else:
        return None
    problems = (_problem(v, part, name) for name, v, part in parts)
    return next((problem for problem in problems if problem), None)


def _inside(field: str, name: str) -> str:
    if not _PLAIN.fullmatch(name):
        return f"{field}[{reprlib.repr(name)}]"
    return f"{field}.{name}" if field else name


def _expected(value: Any, schema: Any) -> str | None:
    """Returns the expected type in words, or None if the value fits."""
    if isinstance(schema, list):
        return None if isinstance(value, list) else "a list"
    if isinstance(schema, (dict, Each)):
        return None if isinstance(value, dict) else "an object with fields"
    if isinstance(schema, set):
        is_allowed = isinstance(value, (str, int)) and value in schema
        return None if is_allowed else f"one of {sorted(schema)}"
    if schema is object:
        return None
    types = (int, float) if schema is float else schema
    # In Python, bool is a subclass of int.
    fits = isinstance(value, types) and (
        schema is bool or not isinstance(value, bool)
    )
    return None if fits else _NAMES[schema]
