"""Constructors of the torch values in a pickle: tensors and their storages.

    constructors = tensor_constructors(budget)
    number, key, num_elements, view = storage_id(persistent_id)

torch pickles a storage as a persistent id and a tensor as a function of it. A
storage's class gives the type of its numbers. The bytes of a storage that was
on a GPU are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adt_tf.serving.bridge.reading.budget import Budget
from adt_tf.serving.bridge.reading.pickles import Constructor
from adt_tf.serving.bridge.reading.tensors import NUMBERS, Storage, Tensor

_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


class StorageClass(Constructor):
    """A storage's class, which a pickle uses only as a name.

    Args:
        number: Type of the numbers.
    """

    def __init__(self, number: str) -> None:
        super().__init__(_no_call)
        self.number = number


class StorageId(NamedTuple):
    """The persistent id of a storage.

    Attributes:
        number: Type of the numbers.
        key: Name of the storage in the file.
        num_elements: Number of elements.
        view: Offset and size of a part of it, or None for the whole.
    """

    number: str
    key: str
    num_elements: int
    view: tuple[int, int] | None


def storage_id(persistent_id: Any) -> StorageId:
    """Parses `("storage", class, key, device, size[, view])`."""
    match persistent_id:
        case ("storage", StorageClass() as kind, str(key), _, int(size), *rest):
            pass
        case _:
            raise ValueError("it has a persistent id that is not a storage")
    view = None
    match rest:
        case [] | [None]:
            pass
        case [(_, int(offset), int(view_size))] if (
            min(offset, view_size) >= 0 and offset + view_size <= size
        ):
            view = (offset, view_size)
        case _:
            raise ValueError(f"it has a view outside the storage {key}")
    if not 0 <= size < 2**63:
        raise ValueError(f"it has a storage {key} of {size} elements")
    return StorageId(kind.number, key, size, view)


def tensor_constructors(budget: Budget) -> dict[str, Constructor]:
    """Returns the constructors of torch's tensors and storages.

    Args:
        budget: Budget for the bytes of the tensors.
    """

    def rebuild(
        storage: Any, offset: Any, size: Any, strides: Any, *_: Any
    ) -> Tensor:
        if not isinstance(storage, Storage):
            raise ValueError("it has a tensor without a storage")
        tensor = Tensor(storage, offset, size, strides)
        budget.spend(8 * tensor.num_elements, "a tensor")
        return tensor

    def rebuild_parameter(tensor: Any, *_: Any) -> Tensor:
        if not isinstance(tensor, Tensor):
            raise ValueError("it has a parameter without a tensor")
        return tensor

    def size(values: Any = ()) -> tuple[Any, ...]:
        return tuple(values)

    constructors = {
        "torch._utils._rebuild_tensor": Constructor(rebuild),
        "torch._utils._rebuild_tensor_v2": Constructor(rebuild),
        "torch._utils._rebuild_parameter": Constructor(rebuild_parameter),
        "torch._utils._rebuild_parameter_with_state": Constructor(
            rebuild_parameter
        ),
        "torch.Size": Constructor(size),
        # A device may be among the settings of a run.
        "torch.device": Constructor(lambda *_: "device"),
    }
    for module in ("torch", "torch.cuda"):
        constructors |= {
            f"{module}.{name}": StorageClass(number)
            for name, number in _STORAGES.items()
        }
    # A dtype may be among the settings of a run.
    constructors |= {
        f"torch.{number}": StorageClass(number) for number in NUMBERS
    }
    return constructors


def refuse_storage(_: Any) -> None:
    """Raises, as the `persistent_load` of a pickle without storages."""
    raise ValueError("it has a storage where none is expected")


def _no_call(*_: Any) -> None:
    raise ValueError("it makes a storage that is not in the file")
