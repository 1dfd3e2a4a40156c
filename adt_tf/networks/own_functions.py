"""Builds networks with a function of the user.

    function = find_function("mine.networks:tiny")    # imports mine.networks
    classifier = build(function, input_shape=(32, 32, 3), num_classes=10)

The function is called as `tiny(input_shape=..., num_classes=...)` and returns a
Keras model from images in [0, 1] to logits.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras

from adt_tf.checks import arguments
from adt_tf.files import first_line


def find_function(name: str) -> Callable[..., keras.Model]:
    """Imports a function; the current directory is searched too.

    Args:
        name: Name of the form "package.module:function".

    Example:

    >>> find_function("adt_tf.networks:small_cnn").__name__
    'small_cnn'
    """
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", str(name)):
        raise arguments.error(
            "have the form 'package.module:function'", name=name
        )
    module_name, _, function_name = name.partition(":")
    here = os.getcwd()
    # Unlike python -m, the program adt-train does not search there.
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module's code raises
        raise ValueError(
            f"Cannot import {module_name!r} of {name!r} (looked in {here} and "
            f"among the installed packages): {type(error).__name__}: "
            f"{first_line(error)}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ValueError(
            f"{module_name!r} has no function {function_name!r}: pass one that "
            "takes input_shape and num_classes and returns a Keras model. "
            f"Received: {name!r}"
        )
    return function


def build(
    function: Callable[..., Any],
    *,
    input_shape: Sequence[int],
    num_classes: int,
    seed: int = 0,
) -> keras.Model:
    """Builds a classifier with a function, and checks its type.

    Args:
        function: Function that is called as
            `function(input_shape=..., num_classes=...)`.
        input_shape: Height, width and channels of an image.
        num_classes: Number of classes.
        seed: Seed of Keras' random numbers, hence of the initial weights.
    """
    function_name = getattr(function, "__name__", repr(function))
    keras.utils.set_random_seed(seed % 2**32)
    try:
        model = function(
            input_shape=tuple(input_shape), num_classes=num_classes
        )
    except Exception as error:  # whatever the user's code raises
        raise ValueError(
            f"{function_name}(input_shape={tuple(input_shape)}, "
            f"num_classes={num_classes}) raised {type(error).__name__}: "
            f"{first_line(error)}"
        ) from error
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"{function_name} must return a Keras 3 model. Received: "
            f"{type(model).__name__}"
        )
    return model
