"""The configuration of a part as plain data: what it is, every number exact.

    data = configs.serialize(attack)        # JSON can hold it
    attack = configs.deserialize(data)      # an equal one
    configs.fingerprint(attack)             # tells two attacks apart

A part is one of three. An object with Keras' `get_config` is its class and its
arguments. What a function decorated by `recorded` has made is that function
and its arguments. A plain function is its name; one that is not adt_tf's own
is known by its code as well, so that a fingerprint changes when it is edited,
and cannot be saved. `repr` is for people, and no part of this.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import inspect
import json
import types
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_PLAIN = (type(None), bool, int, float, str)
# Functions of these are known by name: their versions are recorded elsewhere.
_LIBRARIES = ("tensorflow", "keras", "numpy")


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets what a function returns say how it was made.

    The result must take attributes, as functions and most objects do.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def recording(*args, **kwargs):
        made = function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        made.made_by = (recording, dict(bound.arguments))
        return made

    return recording


def fingerprint(part: Any) -> str:
    """Returns a hash of a part's configuration."""
    text = json.dumps(_described(part, exact=False), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def serialize(part: Any) -> Any:
    """Returns a part as plain data, from which `deserialize` makes it again.

    Raises `ValueError` where it holds what plain data cannot: a function that
    is not adt_tf's own, arrays, or a model that is no Keras model.
    """
    return _described(part, exact=True)


def deserialize(data: Any) -> Any:
    """Returns the part that `serialize` has described.

    Only names of adt_tf are looked up: nothing else can be imported or run.
    """
    if isinstance(data, list):
        return [deserialize(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "class" in data:
        config = {k: deserialize(v) for k, v in data["config"].items()}
        return _looked_up(data["class"]).from_config(config)
    if "made_by" in data:
        arguments = {k: deserialize(v) for k, v in data["arguments"].items()}
        return _looked_up(data["made_by"])(**arguments)
    if "function" in data:
        return _looked_up(data["function"])
    if "keras" in data:
        return keras.saving.deserialize_keras_object(
            data["keras"], safe_mode=True
        )
    return {key: deserialize(value) for key, value in data.items()}


class Configured:
    """Gives a class `get_config` and `from_config` by its constructor.

    Each argument of the constructor is also an attribute of that name.
    """

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        if type(self).__init__ is object.__init__:
            return {}
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Returns the object that `get_config` describes."""
        return cls(**config)


def _described(part: Any, *, exact: bool) -> Any:
    """The plain data of a part; where `exact`, only what can be made again."""
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
        # Names of layers count up in a process, and weights are not settings.
        shapes = [list(variable.shape) for variable in part.variables]
        return {"model": _name(type(part)), "shapes": shapes}
    if hasattr(part, "get_config") and (exact or _is_ours(type(part))):
        config = part.get_config().items()
        return {
            "class": _name(type(part)),
            "config": {key: describe(value) for key, value in config},
        }
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
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
            "Only parts of adt_tf can be saved: a function or object of your "
            "own has no configuration from which it could be made again. "
            f"Received: {part!r}; register it with "
            "`keras.saving.register_keras_serializable`."
        )
    if isinstance(part, np.ndarray | tf.Tensor | tf.Variable):
        array = np.ascontiguousarray(part)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return {"array": digest, "shape": list(array.shape)}
    if isinstance(part, types.FunctionType):
        return _code(part)
    return _object(part)


def _is_known_to_keras(part: Any) -> bool:
    """Whether Keras itself has the class or function, or a user told it."""
    kind = part if isinstance(part, types.FunctionType) else type(part)
    if _is_ours(kind):
        return False
    name = keras.saving.get_registered_name(kind)
    is_registered = keras.saving.get_registered_object(name) is not None
    return is_registered or isinstance(part, keras.losses.Loss)


def _object(part: Any) -> dict[str, Any]:
    """An object of somebody else's class, by its attributes and its code."""
    attributes = {
        name: _described(value, exact=False)
        for name, value in getattr(part, "__dict__", {}).items()
        if not name.startswith("_")
    }
    methods = [
        _bytes(function.__code__)
        for kind in type(part).__mro__
        if not _is_ours(kind)
        for function in vars(kind).values()
        if isinstance(function, types.FunctionType)
    ]
    return {
        "object": _name(type(part)),
        "attributes": attributes,
        "code": hashlib.sha256(b"\0".join(methods)).hexdigest(),
    }


def _code(function: types.FunctionType) -> dict[str, Any]:
    """A function by its name, its code and the values it has closed over."""
    if function.__module__.split(".")[0] in _LIBRARIES:
        return {"function": _name(function)}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    held = [*cells, *(function.__defaults__ or ())]
    held += (function.__kwdefaults__ or {}).values()
    return {
        "function": _name(function),
        "code": hashlib.sha256(_bytes(function.__code__)).hexdigest(),
        "holds": [
            _described(value, exact=False)
            for value in held
            if value is not function
        ],
    }


def _bytes(code: types.CodeType) -> bytes:
    """All that a function's code says, that of inner functions included."""
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
    """Whether a class or function is adt_tf's own, under a name of a module."""
    return (
        thing.__module__.split(".")[0] == "adt_tf"
        and "<" not in thing.__qualname__
    )


def _looked_up(name: str) -> Any:
    """Returns the class or function of a name, which must be adt_tf's."""
    module, _, path = str(name).partition(":")
    if module.split(".")[0] != "adt_tf" or not path.isidentifier():
        raise ValueError(
            "Only classes and functions of adt_tf can be named in a "
            f"configuration. Received: {name!r}"
        )
    try:
        found = getattr(importlib.import_module(module), path)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"This version of adt_tf has no {name!r}: the configuration was "
            "written by another version."
        ) from error
    return found
