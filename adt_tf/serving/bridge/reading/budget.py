"""Limits the memory that reading a file takes.

    budget = Budget(path.stat().st_size)
    budget.spend(num_bytes, "the array 'x'")    # or raises ValueError

A compressed member, a view that repeats its storage, or a value that a pickle
names many times can need far more bytes than the file has.
"""

_FREE = 64 * 2**20
_FACTOR = 20


class Budget:
    """Counts the bytes that a file needs, up to a limit.

    Args:
        file_size: Size of the file in bytes. The limit is 20 times the size
            plus 64 MiB, which is more than weights need in any form.

    Example:

    >>> Budget(file_size=1000).spend(10**9, "the array 'x'")
    Traceback (most recent call last):
    ...
    ValueError: the array 'x' would need 1000000000 bytes, ...
    """

    def __init__(self, file_size: int) -> None:
        self._limit = _FREE + _FACTOR * file_size
        self._spent = 0

    def spend(self, num_bytes: int, name: str) -> None:
        """Counts bytes before they are read, or raises ValueError.

        Args:
            num_bytes: Number of bytes.
            name: Description of what needs them.
        """
        self._spent += num_bytes
        if self._spent > self._limit:
            raise ValueError(
                f"{name} would need {num_bytes} bytes, and the whole file "
                f"more than the {self._limit} that its size allows"
            )
