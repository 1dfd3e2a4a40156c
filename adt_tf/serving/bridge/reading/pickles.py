"""Reads pickles as data: no name in a file is imported or called.

    value = load(stream, constructors, persistent_load, budget)

A pickle is a program for a stack machine. Python's machine calls any function
that the program names. This one has the opcodes that build numbers, text and
containers, and a table of constructors; it refuses a name that is not in the
table. `pickletools` splits the program into opcodes and runs nothing.
"""

from __future__ import annotations

import mmap
import pickletools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from adt_tf.serving.bridge.reading.budget import Budget

# A checkpoint of 1,000 tensors with its optimiser has about 100,000 opcodes.
_MAX_OPCODES = 1_000_000

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_CONTAINERS = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}
# Opcodes whose argument is the value.
_LITERALS = frozenset(
    {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"}
    | {"FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"}
    | {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
    | {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
)
_KEYS = (str, bytes, int, float, type(None))


class Constructor:
    """A function in place of a global name of a pickle.

    Args:
        function: Function that is called with the pickle's arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class Buildable:
    """A value whose state a pickle sets after its construction."""

    def build(self, state: Any) -> None:
        """Sets the state."""
        raise NotImplementedError


class Record(dict, Buildable):
    """A dict, such as OrderedDict, without attributes."""

    def build(self, state: Any) -> None:
        """Ignores the attributes, such as the versions of torch's modules."""


def load(
    stream: BinaryIO | mmap.mmap,
    constructors: Mapping[str, Constructor],
    persistent_load: Callable[[Any], Any],
    budget: Budget,
) -> Any:
    """Reads the pickle at the current position of a stream.

    Args:
        stream: A `BytesIO` or a memory map. Its position afterwards is the
            end of the pickle.
        constructors: Constructors by the names `"module.name"` that the
            pickle may use.
        persistent_load: Function that returns the value of a persistent id.
        budget: Budget for the values that constructors return.

    Returns:
        The value.

    Raises:
        ValueError: The pickle is not one of weights. Damaged bytes may raise
            other exceptions too.

    Example:

    >>> import io, pickle
    >>> load(io.BytesIO(pickle.dumps({"a": [1, None]})), {}, None, Budget(0))
    {'a': [1, None]}
    >>> load(io.BytesIO(pickle.dumps(print)), {}, None, Budget(0))
    Traceback (most recent call last):
    ...
    ValueError: it names builtins.print, which is not read: ...
    """
    machine = _Machine(constructors, persistent_load, budget)
    for count, (opcode, argument, _) in enumerate(_opcodes(stream)):
        if opcode.name == "STOP":
            return machine.pop()
        if count == _MAX_OPCODES:
            raise ValueError(f"its pickle has more than {count} opcodes")
        machine.run(opcode.name, argument)
    raise ValueError("its pickle has no end")


def _opcodes(stream: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields the opcodes of a stream with `read`, `readline` and `tell`."""
    try:
        yield from pickletools.genops(stream)
    except ValueError as error:
        raise ValueError(
            f"its pickle is damaged or incomplete ({error}): copy or download "
            "the file again"
        ) from error


class _Machine:
    """The stack, its marks and the memo, with a method for each opcode."""

    def __init__(
        self,
        constructors: Mapping[str, Constructor],
        persistent_load: Callable[[Any], Any],
        budget: Budget,
    ) -> None:
        self._constructors = constructors
        self._persistent_load = persistent_load
        self._budget = budget
        self._stack: list[Any] = []
        self._marks: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, name, argument):
        """Executes one opcode."""
        if name in _CONTAINERS:
            self._stack.append(_CONTAINERS[name]())
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _LITERALS:
            self._stack.append(argument)
        elif hasattr(self, f"opcode_{name}"):
            getattr(self, f"opcode_{name}")(argument)
        else:
            class_name = f" of {argument}" if name == "INST" else ""
            raise ValueError(
                f"its pickle has the opcode {name}{class_name}, which weights "
                "do not need"
            )

    def pop(self):
        """Removes the top of the stack, above the last mark, and returns it."""
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise ValueError("its pickle pops an empty stack")
        return self._stack.pop()

    def _top(self, kind):
        value = self.pop()
        if not isinstance(value, kind):
            raise ValueError(
                f"its pickle treats a {type(value).__name__} as another type"
            )
        self._stack.append(value)
        return value

    def _since_mark(self):
        if not self._marks:
            raise ValueError("its pickle pops a mark that is not there")
        mark = self._marks.pop()
        values = self._stack[mark:]
        del self._stack[mark:]
        return values

    def _fill(self, target, values):
        if len(values) % 2:
            raise ValueError("its pickle has a key without a value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[checked_key(key)] = value

    def opcode_PROTO(self, _):
        pass

    def opcode_FRAME(self, _):
        pass

    def opcode_MARK(self, _):
        self._marks.append(len(self._stack))

    def opcode_POP(self, _):
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self.pop()

    def opcode_POP_MARK(self, _):
        self._since_mark()

    def opcode_DUP(self, _):
        self._stack.append(self._top(object))

    def opcode_TUPLE(self, _):
        self._stack.append(tuple(self._since_mark()))

    def opcode_TUPLE1(self, _):
        self._stack.append((self.pop(),))

    def opcode_TUPLE2(self, _):
        second, first = self.pop(), self.pop()
        self._stack.append((first, second))

    def opcode_TUPLE3(self, _):
        third, second, first = self.pop(), self.pop(), self.pop()
        self._stack.append((first, second, third))

    def opcode_LIST(self, _):
        self._stack.append(self._since_mark())

    def opcode_DICT(self, _):
        target = {}
        self._fill(target, self._since_mark())
        self._stack.append(target)

    def opcode_FROZENSET(self, _):
        self._stack.append(frozenset(map(checked_key, self._since_mark())))

    def opcode_APPEND(self, _):
        value = self.pop()
        self._top(list).append(value)

    def opcode_APPENDS(self, _):
        values = self._since_mark()
        self._top(list).extend(values)

    def opcode_SETITEM(self, _):
        value, key = self.pop(), self.pop()
        self._fill(self._top(dict), [key, value])

    def opcode_SETITEMS(self, _):
        values = self._since_mark()
        self._fill(self._top(dict), values)

    def opcode_ADDITEMS(self, _):
        values = self._since_mark()
        self._top(set).update(map(checked_key, values))

    def opcode_PUT(self, index):
        self._memo[index] = self._top(object)

    def opcode_MEMOIZE(self, _):
        self.opcode_PUT(len(self._memo))

    def opcode_GET(self, index):
        if index not in self._memo:
            raise ValueError("its pickle gets a value that is not in its memo")
        self._stack.append(self._memo[index])

    opcode_BINPUT = opcode_LONG_BINPUT = opcode_PUT
    opcode_BINGET = opcode_LONG_BINGET = opcode_GET

    def opcode_GLOBAL(self, argument):
        name = argument.replace(" ", ".")
        if name not in self._constructors:
            raise ValueError(
                f"it names {name}, which is not read: only tensors, storages, "
                "NumPy arrays and Python's plain types are. If you trust the "
                "file, save only its `state_dict()` with torch."
            )
        self._stack.append(self._constructors[name])

    def opcode_STACK_GLOBAL(self, _):
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError(
                "its pickle names a global by a value that is not text"
            )
        self.opcode_GLOBAL(f"{module} {name}")

    def opcode_REDUCE(self, _):
        arguments, constructor = self.pop(), self.pop()
        if not isinstance(constructor, Constructor) or not isinstance(
            arguments, tuple
        ):
            raise ValueError(
                "its pickle calls a value that is not a constructor"
            )
        size = sum(len(a) for a in arguments if hasattr(a, "__len__"))
        self._budget.spend(8 * size, "a value of its pickle")
        self._stack.append(constructor.function(*arguments))

    def opcode_BUILD(self, _):
        state = self.pop()
        self._top(Buildable).build(state)

    def opcode_BINPERSID(self, _):
        self._stack.append(self._persistent_load(self.pop()))


def checked_key(key: Any) -> Any:
    """Returns a key of a dict or a set, or raises if hashing may be slow."""
    if not isinstance(key, _KEYS) or (
        isinstance(key, int) and abs(key) >= 2**63
    ):
        raise ValueError(f"its pickle has a key of type {type(key).__name__}")
    return key
