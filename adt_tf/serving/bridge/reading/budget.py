"""A bound on the memory that a file can make its reader take.

    budget = Budget(path.stat().st_size)
    budget.spend(num_bytes, "the array 'x'")    # or raises ValueError

A compressed member, a view that repeats its storage or a value that a pickle
names again and again can stand for far more bytes than the file has.
"""

_FREE = 64 * 2**20
_FACTOR = 20


class Budget:
    """Counts the bytes that a file asks for, up to a limit.

    Args:
        file_size: Size of the file in bytes. The limit is 20 times as much
            and 64 MiB: more than weights need, in any form.

    Example:

    >>> Budget(file_size=1000).spend(10**9, "the array 'x'")
    Traceback (most recent call last):
    ...
    ValueError: the array 'x' would need 1000000000 bytes, ...
    """

    def __init__(self, file_size: int) -> None:
        self._limit = _FREE + _FACTOR * file_size
        self._spent = 0

    def spend(self, num_bytes: int, what: str) -> None:
        """Counts what is about to be read, or raises ValueError."""
        self._spent += num_bytes
        if self._spent > self._limit:
            raise ValueError(
                f"{what} would need {num_bytes} bytes, and the whole file "
                f"more than the {self._limit} that its size allows"
            )
