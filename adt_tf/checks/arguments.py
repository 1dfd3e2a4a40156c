"""Checks of plain arguments, with error messages of one form.

Each check returns the value as a plain Python object, or raises a
`ValueError` that states the argument, the requirement and the value:

    num_classes = integer_at_least(2, num_classes=num_classes)
    ValueError: Argument `num_classes` must be an integer of at least 2.
        Received: num_classes=1

Numbers: `integer_at_least`, `number_at_least`, `number_above`,
`number_between`. Names: `one_of`. Shapes: `image_shape`. Other checks raise
`error(...)`, which builds a message of the same form.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def error(requirement: str, /, advice: str = "", **argument: Any) -> ValueError:
    """Returns the error to raise for an invalid argument.

    Args:
        requirement: Text that follows "must", such as "be even".
        advice: Sentence that says how to correct the argument.
        **argument: The argument, passed by its name.

    Example:

    >>> raise error("be even", depth=3)
    Traceback (most recent call last):
    ValueError: Argument `depth` must be even. Received: depth=3
    """
    ((name, value),) = argument.items()
    text = f"Argument `{name}` must {requirement}. Received: {name}={value!r}"
    return ValueError(f"{text}. {advice}" if advice else text)


def integer_at_least(minimum: int, /, advice: str = "", **argument: Any) -> int:
    """Checks that an argument is an integer of at least `minimum`.

    Args:
        minimum: Smallest allowed value.
        advice: Sentence that says how to correct the argument.
        **argument: The argument, passed by its name.

    Returns:
        The value as an `int`.

    Example:

    >>> integer_at_least(2, num_classes=10)
    10
    """
    (value,) = argument.values()
    if not isinstance(value, numbers.Integral) or value < minimum:
        kind = f"an integer of at least {minimum}"
        raise error(f"be {kind}", advice, **argument)
    return int(value)


def number_at_least(
    minimum: float, /, advice: str = "", **argument: Any
) -> float:
    """Checks that an argument is a finite number of at least `minimum`.

    Example:

    >>> number_at_least(0, beta=6.0)
    6.0
    """
    return _number(
        lambda value: value >= minimum,
        f"a finite number of at least {minimum}",
        advice,
        argument,
    )


def number_above(minimum: float, /, advice: str = "", **argument: Any) -> float:
    """Checks that an argument is a finite number above `minimum`.

    Example:

    >>> number_above(0, width_factor=0.25)
    0.25
    """
    return _number(
        lambda value: value > minimum,
        f"a finite number above {minimum}",
        advice,
        argument,
    )


def number_between(
    low: float,
    high: float,
    /,
    ends: str = "[]",
    advice: str = "",
    **argument: Any,
) -> float:
    """Checks that an argument is a number inside an interval.

    Args:
        low: Lower end of the interval.
        high: Upper end of the interval.
        ends: Brackets of the interval: "[" and "]" include an end, "(" and ")"
            exclude it.
        advice: Sentence that says how to correct the argument.
        **argument: The argument, passed by its name.

    Returns:
        The value as a `float`.

    Example:

    >>> number_between(0, 1, "[)", label_smoothing=0.1)
    0.1
    """
    left, right = tuple(ends)

    def is_inside(value: float) -> bool:
        above = value >= low if left == "[" else value > low
        return above and (value <= high if right == "]" else value < high)

    interval = f"a number in {left}{low}, {high}{right}"
    return _number(is_inside, interval, advice, argument)


def one_of(choices: Iterable[Any], /, advice: str = "", **argument: Any) -> Any:
    """Checks that an argument is one of several values.

    Example:

    >>> one_of(("mean", "sum"), entropy_reduction="sum")
    'sum'
    """
    choices = list(choices)
    (value,) = argument.values()
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise error(f"be one of {listed}", advice, **argument)
    return value


def image_shape(input_shape: Sequence[int]) -> tuple[int, int, int]:
    """Checks the shape of one image, `(height, width, channels)`.

    Args:
        input_shape: Three positive integers, without the batch dimension.

    Returns:
        The shape as a tuple of three `int`s.

    Example:

    >>> image_shape([8, 8, 1])
    (8, 8, 1)
    """
    if (
        not isinstance(input_shape, Sequence)
        or len(input_shape) != 3
        or not all(
            isinstance(size, numbers.Integral) and size >= 1
            for size in input_shape
        )
    ):
        raise error(
            "be three positive integers (height, width, channels), without "
            "the batch dimension",
            input_shape=input_shape,
        )
    height, width, channels = (int(size) for size in input_shape)
    return height, width, channels


def scaled_width(width: int, width_factor: float) -> int:
    """Returns a scaled number of channels, at least one.

    Args:
        width: Number of channels at `width_factor=1.0`.
        width_factor: Positive scale factor.

    Example:

    >>> scaled_width(256, 0.125)
    32
    """
    return max(1, round(width * number_above(0, width_factor=width_factor)))


def _number(
    is_allowed: Callable[[float], bool],
    kind: str,
    advice: str,
    argument: dict[str, Any],
) -> float:
    (value,) = argument.values()
    is_number = isinstance(value, numbers.Real) and math.isfinite(value)
    if not is_number or not is_allowed(value):
        raise error(f"be {kind}", advice, **argument)
    return float(value)
