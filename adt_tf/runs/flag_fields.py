"""Dataclass fields that are flags, with help text, type and range.

    @dataclasses.dataclass(frozen=True)
    class Config:
        epochs: int = flag(30, "Passes over the training set.", at_least=1)

        def __post_init__(self):
            check_fields(self)

    parse_flags(Config, ["--epochs=3"])       # {"epochs": 3}
    format_flags(Config(epochs=3))            # ["--epochs=3"]

The annotation of a field is a key of `_TYPES`, optionally with `| None`.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class _Type(NamedTuple):
    """The type of a flag.

    Attributes:
        words: Name of the type in error messages.
        parse: Converts the text of a flag to a value.
        classes: Python classes that a value may have.
        plain: Converts a value of these classes to a plain Python object.
    """

    words: str
    parse: Callable[[str], Any]
    classes: type | tuple[type, ...]
    plain: Callable[[Any], Any]


_TYPES = {
    "str": _Type("text", str, str, str),
    "int": _Type("a whole number", int, numbers.Integral, int),
    "float": _Type("a number", float, numbers.Real, float),
    "bool": _Type(
        "true or false", lambda text: _BOOLEANS[text.lower()], bool, bool
    ),
    "tuple[int, ...]": _Type(
        "whole numbers, as in 100,150",
        lambda text: tuple(int(part) for part in text.split(",") if text),
        (tuple, list),
        lambda values: tuple(map(operator.index, values)),
    ),
}


def flag(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    decides: bool = True,
) -> Any:
    """Returns a dataclass field that is a flag.

    Args:
        default: Value if the flag is not given.
        help: Text that --help shows.
        at_least: Smallest allowed value.
        above: Exclusive lower bound.
        at_most: Largest allowed value.
        below: Exclusive upper bound.
        choices: Allowed values.
        decides: Whether the flag affects the results of a run. The location of
            the data and the times of checkpoints do not.
    """
    metadata = {
        "help": help,
        "at_least": at_least,
        "at_most": at_most,
        "below": below,
        "above": above,
        "choices": choices,
        "decides": decides,
    }
    return dataclasses.field(default=default, metadata=metadata)


def is_switch(field: dataclasses.Field) -> bool:
    """Returns whether a flag is boolean, written --name or --noname."""
    return _type_name(field) == "bool"


def check_fields(instance: Any) -> None:
    """Checks all fields of a frozen dataclass, and makes their values plain."""
    for field in dataclasses.fields(instance):
        value = _checked(field, getattr(instance, field.name))
        object.__setattr__(instance, field.name, value)


def parse_flags(cls: type, arguments: Iterable[str]) -> dict[str, Any]:
    """Parses flags; if a flag occurs twice, the later one wins.

    Args:
        cls: Dataclass of flags.
        arguments: Flags of the form --name=value, --name or --noname.

    Returns:
        A dictionary from the names of the flags to their values.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values = {}
    for argument in arguments:
        name, equals, text = argument.lstrip("-").partition("=")
        is_negative = name not in fields and not equals
        name = name.removeprefix("no") if is_negative else name
        if name not in fields or not argument.startswith("-"):
            raise ValueError(f"{argument} is not a flag of a training run.")
        if equals:
            values[name] = _parsed(fields[name], text)
        elif is_switch(fields[name]):
            values[name] = not is_negative
        else:
            raise ValueError(
                f"--{name} needs a value: --{name}=... Received: {argument}"
            )
    return values


def format_flags(
    instance: Any, names: Iterable[str] | None = None
) -> list[str]:
    """Returns the flags of all values that are not None, sorted by name.

    Args:
        instance: Instance of a dataclass of flags.
        names: Names of fields; None for all.
    """
    if names is None:
        names = [field.name for field in dataclasses.fields(instance)]
    flags = []
    for name in sorted(names):
        value = getattr(instance, name)
        if isinstance(value, bool):
            flags.append(f"--{name}" if value else f"--no{name}")
        elif value is not None:
            flags.append(f"--{name}={format_value(value)}")
    return flags


def format_value(value: Any) -> str:
    """Returns a value as the text of a flag."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)


def _type_name(field: dataclasses.Field) -> str:
    return field.type.removesuffix(" | None")


def _parsed(field: dataclasses.Field, text: str) -> Any:
    rules = _TYPES[_type_name(field)]
    try:
        return rules.parse(text)
    except (ValueError, KeyError) as error:
        raise _refusal(field, f"be {rules.words}", text) from error


def _checked(field: dataclasses.Field, value: Any) -> Any:
    """Returns a value as a plain Python object, or raises `ValueError`."""
    if value is None and field.type.endswith(" | None"):
        return None
    rules, bounds = _TYPES[_type_name(field)], field.metadata
    if not isinstance(value, rules.classes) or (
        isinstance(value, bool) and not is_switch(field)
    ):
        raise _refusal(field, f"be {rules.words}", repr(value))
    try:
        value = rules.plain(value)
    except TypeError as error:
        raise _refusal(field, f"be {rules.words}", value) from error
    if any(
        isinstance(number, int) and abs(number) >= 2**63
        for number in (value if isinstance(value, tuple) else (value,))
    ):
        raise _refusal(field, "be a number of 64 bits", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _refusal(field, "be finite", value)
    if bounds["at_least"] is not None and value < bounds["at_least"]:
        raise _refusal(field, f"be at least {bounds['at_least']:g}", value)
    if bounds["above"] is not None and value <= bounds["above"]:
        raise _refusal(field, f"be above {bounds['above']:g}", value)
    if bounds["at_most"] is not None and value > bounds["at_most"]:
        raise _refusal(field, f"be at most {bounds['at_most']:g}", value)
    if bounds["below"] is not None and value >= bounds["below"]:
        raise _refusal(field, f"be below {bounds['below']:g}", value)
    if bounds["choices"] and value not in bounds["choices"]:
        choices = ", ".join(bounds["choices"])
        raise _refusal(field, f"be one of {choices}", value)
    if isinstance(value, str) and "".join(value.splitlines()) != value:
        raise _refusal(field, "be one line", repr(value))
    return value


def _refusal(field: dataclasses.Field, rule: str, value: Any) -> ValueError:
    text = format_value(value)
    if len(text) > 80:
        text = f"{text[:77]}..."
    return ValueError(f"--{field.name} must {rule}. Received: {text}")
