"""Serialization of parts, such as attacks and losses, as plain data.

    data = configs.serialize(attack)        # can be written as JSON
    attack = configs.deserialize(data)      # an equal attack
    configs.fingerprint(attack)             # a hash of the configuration

There are three kinds of parts. An object with `get_config`, as in Keras, is
described by its class and its arguments. The result of a function decorated by
`recorded` is described by that function and its arguments. A plain function is
described by its name. A function that is not part of adt_tf is described by its
code as well, so that its fingerprint changes when it is edited; it cannot be
serialized.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import importlib
import inspect
import json
import os
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import files

_PLAIN = (type(None), bool, int, float, str)
# Functions of these packages are described by name only; `provenance` records
# the versions of the packages.
_LIBRARIES = ("tensorflow", "keras", "numpy")
# Folders of installed code, which is not a user's own.
_INSTALLED = tuple(
    os.path.join(sysconfig.get_path(name), "")
    for name in ("stdlib", "purelib", "platlib")
)
# Types of global values that count as settings of a function that reads them.
_SETTINGS = (*_PLAIN[1:], np.generic, np.ndarray, tuple)
# Types of values without attributes that their text shows.
_SHOWN = (bytes, complex, range, enum.Enum, os.PathLike)


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function, so that its results can be serialized.

    The function and its arguments are stored in the attribute `made_by` of the
    result, which must accept attributes.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def recording(*args: Any, **kwargs: Any) -> Any:
        part = function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        part.made_by = (recording, dict(bound.arguments))
        return part

    vars(recording)["is_recorded"] = True
    return recording


def fingerprint(part: Any) -> str:
    """Returns a hash of the configuration of a part."""
    text = json.dumps(_described(part, exact=False), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def serialize(part: Any) -> Any:
    """Returns a part as plain data, which `deserialize` converts back.

    Raises `ValueError` if the part contains a function or object that is
    neither part of adt_tf nor registered with Keras, or an array.
    """
    return _described(part, exact=True)


def deserialize(data: Any) -> Any:
    """Returns the part that `serialize` described.

    The data may come from an untrusted file. Only names of adt_tf are looked
    up, and only what makes a part is called: the `from_config` of a class, or
    a function that is `recorded`.
    """
    if isinstance(data, list):
        return [deserialize(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "class" in data:
        config = {k: deserialize(v) for k, v in data["config"].items()}
        kind = _looked_up(data["class"], _makes_itself)
        return kind.from_config(config)
    if "made_by" in data:
        arguments = {k: deserialize(v) for k, v in data["arguments"].items()}
        make = _looked_up(data["made_by"], _is_recorded)
        return make(**arguments)
    if "function" in data:
        return _looked_up(data["function"], _is_function)
    if "keras" in data:
        return _from_keras(data["keras"])
    return {key: deserialize(value) for key, value in data.items()}


def _from_keras(data: Any) -> Any:
    """Returns the part that Keras described, or raises in one line."""
    try:
        return keras.saving.deserialize_keras_object(data, safe_mode=True)
    except TypeError as error:
        # Keras' message repeats the whole configuration.
        name = data.get("registered_name") if isinstance(data, dict) else data
        reason = files.first_line(error).partition(" Full object config")[0]
        raise ValueError(
            "A part of the configuration cannot be made. Received: "
            f"{name!r}, and Keras says: {reason} For a class or function of "
            "your own, import the module that registers it before you load "
            "the file."
        ) from error


def argument_names(kind: type) -> list[str]:
    """Returns the names of the arguments of a class's constructor."""
    names: dict[str, None] = {}
    for base in kind.__mro__[:-1]:  # without `object`
        constructor = vars(base).get("__init__")
        if constructor is None:
            continue
        parameters = list(inspect.signature(constructor).parameters.values())
        kinds = {parameter.name: parameter.kind for parameter in parameters[1:]}
        names |= {
            name: None
            for name, kind in kinds.items()
            if kind is not inspect.Parameter.VAR_KEYWORD
        }
        if inspect.Parameter.VAR_KEYWORD not in kinds.values():
            break
    return list(names)


class Configured:
    """Base class that derives `get_config` from the constructor's signature.

    Each argument of the constructor must be an attribute of the same name.
    A constructor with `**kwargs` also has the arguments of its base class.
    """

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        names = argument_names(type(self))
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise ValueError(
                f"Each argument of {type(self).__name__}'s constructor must "
                "be stored under its name, or a copy or a saved file would "
                f"lose it. Received: {missing}; set self.{missing[0]} in the "
                "constructor."
            )
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Returns the object that `get_config` describes."""
        return cls(**config)


def _described(part: Any, *, exact: bool) -> Any:
    """Returns a part as plain data.

    Args:
        part: Part to describe.
        exact: Whether the part must be reconstructible from the data.
    """
    describe = functools.partial(_described, exact=exact)
    if isinstance(part, _PLAIN):
        return part
    if isinstance(part, np.generic):
        return part.item()
    if isinstance(part, list | tuple) and not hasattr(part, "_fields"):
        return [describe(item) for item in part]
    if isinstance(part, dict):
        return {str(key): describe(value) for key, value in part.items()}
    if hasattr(part, "made_by"):
        maker, arguments = part.made_by
        return {
            "made_by": _name(maker),
            "arguments": {k: describe(v) for k, v in arguments.items()},
        }
    if exact and (isinstance(part, keras.Model) or _is_known_to_keras(part)):
        return {"keras": keras.saving.serialize_keras_object(part)}
    if isinstance(part, keras.Model):
        # Names of layers depend on a counter, and weights are not settings.
        shapes = [list(variable.shape) for variable in part.variables]
        return {"model": _name(type(part)), "shapes": shapes}
    if hasattr(part, "get_config") and _is_ours(type(part)):
        config = part.get_config().items()
        return {
            "class": _name(type(part)),
            "config": {key: describe(value) for key, value in config},
        }
    if (
        dataclasses.is_dataclass(part)
        and not isinstance(part, type)
        and (_is_ours(type(part)) or not exact)
    ):
        fields = {
            f.name: getattr(part, f.name) for f in dataclasses.fields(part)
        }
        return {"class": _name(type(part)), "config": describe(fields)}
    if isinstance(part, functools.partial) and not exact:
        return [
            describe(part.func),
            describe(part.args),
            describe(part.keywords),
        ]
    if isinstance(part, types.FunctionType) and _is_ours(part):
        return {"function": _name(part)}
    if exact:
        raise ValueError(
            "Only parts of adt_tf, and registered functions and objects, can "
            f"be saved. Received: {part!r}; write "
            "`@keras.saving.register_keras_serializable()` above the "
            "definition of a class or function of your own."
        )
    if isinstance(part, np.ndarray | tf.Tensor | tf.Variable):
        array = np.ascontiguousarray(part)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return {"array": digest, "shape": list(array.shape)}
    if isinstance(part, types.FunctionType):
        return _code(part)
    if isinstance(part, types.MethodType):
        return [describe(part.__func__), describe(part.__self__)]
    if hasattr(part, "__wrapped__"):  # such as the result of `tf.function`
        return [_name(type(part)), describe(part.__wrapped__)]
    if isinstance(part, set | frozenset):
        return sorted(json.dumps(describe(item)) for item in part)
    if isinstance(part, _SHOWN):
        return [_name(type(part)), repr(part)]
    return _object(part)


def _is_known_to_keras(part: Any) -> bool:
    """Returns whether a class or function is Keras' own or registered."""
    kind = part if isinstance(part, types.FunctionType) else type(part)
    if _is_ours(kind):
        return False
    name = keras.saving.get_registered_name(kind)
    is_registered = keras.saving.get_registered_object(name) is not None
    return is_registered or isinstance(part, keras.losses.Loss)


def _object(part: Any) -> dict[str, Any]:
    """Describes an object of another package by its attributes and code."""
    methods = [
        (name, function)
        for kind in type(part).__mro__
        if not _is_ours(kind)
        for name, function in vars(kind).items()
        if isinstance(function, types.FunctionType)
    ]
    # An argument may be kept under a private name, which else holds a cache.
    arguments = {
        f"_{argument}"
        for name, function in methods
        if name == "__init__"
        for argument in inspect.signature(function).parameters
    }
    attributes = {
        name: _described(value, exact=False)
        for name, value in getattr(part, "__dict__", {}).items()
        if not name.startswith("_") or name in arguments
    }
    return {
        "object": _name(type(part)),
        "attributes": attributes,
        "code": _digest(function for _, function in methods),
    }


def _code(function: types.FunctionType) -> dict[str, Any]:
    """Describes a function by its name, its code and its bound values."""
    if str(function.__module__).split(".")[0] in _LIBRARIES:
        return {"function": _name(function)}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    bound_values = [*cells, *(function.__defaults__ or ())]
    bound_values += (function.__kwdefaults__ or {}).values()
    return {
        "function": _name(function),
        "code": _digest([function]),
        "holds": [
            _described(value, exact=False)
            for value in bound_values
            if value is not function
        ],
    }


def _digest(functions: Iterable[types.FunctionType]) -> str:
    """Returns a hash of the code of functions and of what it refers to.

    These are the user's own functions that it calls by a global name, and the
    plain values that it reads by one.
    """
    total, reached = hashlib.sha256(), list(functions)
    for function in reached:  # grows while it is iterated
        total.update(_bytes(function.__code__))
        for name in sorted(set(_global_names(function.__code__))):
            value = function.__globals__.get(name)
            if isinstance(value, types.FunctionType):
                if _is_users(value) and value not in reached:
                    reached.append(value)
            elif isinstance(value, _SETTINGS):
                described = _described(value, exact=False)
                total.update(json.dumps([name, described]).encode())
    return total.hexdigest()


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Yields the names that code may look up, including inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _is_users(function: types.FunctionType) -> bool:
    """Returns whether a function is neither adt_tf's nor of a library."""
    is_installed = function.__code__.co_filename.startswith(_INSTALLED)
    return not is_installed and not _is_ours(function)


def _bytes(code: types.CodeType) -> bytes:
    """Returns the bytecode, names and constants, including inner functions."""
    parts = [code.co_code, repr(code.co_names).encode()]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            parts.append(_bytes(constant))
        else:
            parts.append(repr(constant).encode())
    return b"\0".join(parts)


def _name(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _is_ours(thing: Any) -> bool:
    """Returns whether a class or function is defined in a module of adt_tf."""
    return (
        str(thing.__module__).split(".")[0] == "adt_tf"
        and "<" not in thing.__qualname__
    )


def _makes_itself(thing: Any) -> bool:
    return isinstance(thing, type) and hasattr(thing, "from_config")


def _is_recorded(thing: Any) -> bool:
    return _is_function(thing) and vars(thing).get("is_recorded", False)


def _is_function(thing: Any) -> bool:
    return isinstance(thing, types.FunctionType)


def _looked_up(name: str, is_allowed: Callable[[Any], bool]) -> Any:
    """Returns the class or function of adt_tf with a name.

    Args:
        name: Name of the form "module:name".
        is_allowed: Function that returns whether the data may use it so.
    """
    module, _, path = str(name).partition(":")
    if module.split(".")[0] != "adt_tf" or not path.isidentifier():
        raise ValueError(
            "Only classes and functions of adt_tf can be named in a "
            f"configuration. Received: {name!r}; register it with "
            "`keras.saving.register_keras_serializable`, and save the file "
            "again."
        )
    try:
        thing = getattr(importlib.import_module(module), path)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"This version of adt_tf has no {name!r}: the configuration was "
            "written by another version."
        ) from error
    if not is_allowed(thing):
        raise ValueError(
            "A configuration may name only what makes a part of a trainer. "
            f"Received: {name!r:.80}"
        )
    return thing
