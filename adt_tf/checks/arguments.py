"""Checks of the arguments that every network of this package takes.

Each check returns the value in its plain Python form, or raises a
`ValueError` that names the argument, what it must be and what it was:

    input_shape = image_shape(input_shape)
    num_classes = integer_at_least(2, num_classes=num_classes)
"""

import numbers
from collections.abc import Sequence


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
    is_sequence = isinstance(input_shape, Sequence)
    if (
        not is_sequence
        or len(input_shape) != 3
        or not all(
            isinstance(size, numbers.Integral) and size >= 1
            for size in input_shape
        )
    ):
        raise ValueError(
            "Argument `input_shape` must be three positive integers (height, "
            "width, channels), without the batch dimension. "
            f"Received: input_shape={input_shape}"
        )
    height, width, channels = (int(size) for size in input_shape)
    return height, width, channels


def integer_at_least(minimum: int, **argument: int) -> int:
    """Checks that an argument is an integer not below `minimum`.

    Args:
        minimum: The least value allowed.
        **argument: The argument to check, by its name.

    Returns:
        The value as an `int`.

    Example:

    >>> integer_at_least(2, num_classes=10)
    10
    """
    ((name, value),) = argument.items()
    if not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(
            f"Argument `{name}` must be an integer of at least {minimum}. "
            f"Received: {name}={value}"
        )
    return int(value)


def scaled_width(width: int, width_factor: float) -> int:
    """Scales a number of channels, never below one.

    Args:
        width: The number of channels at `width_factor=1.0`.
        width_factor: A positive number.

    Returns:
        The scaled number of channels.

    Example:

    >>> scaled_width(256, 0.125)
    32
    """
    is_number = isinstance(width_factor, numbers.Real)
    if not is_number or not 0 < width_factor < float("inf"):
        raise ValueError(
            "Argument `width_factor` must be a positive number. "
            f"Received: width_factor={width_factor}"
        )
    return max(1, round(width * width_factor))
