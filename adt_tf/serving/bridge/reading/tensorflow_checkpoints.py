"""Weights in TensorFlow 1 checkpoints, as `tf.train.Saver` writes them.

    index = index_file("models/adv_trained")    # the directory, or the prefix
    arrays = read(index)                        # {"logit.weight": array, ...}

A checkpoint is an index (`NAME.index`) and its data (`NAME.data-*`).
TensorFlow reads it as tensors and runs nothing; the graph in `NAME.meta` is
not opened. TensorFlow ends the whole process on an index that was forged with
valid checksums, so another process reads it.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np

from adt_tf.serving.bridge.reading import array_files
from adt_tf.serving.bridge.reading.state_dicts import one_line

# Seconds after which reading is given up.
_TIMEOUT = 600

#: Names of PyTorch's tensors by those of TensorFlow's variables. Variables of
#: other names belong to the optimiser.
_LEAVES = {
    "DW": "weight",
    "biases": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def index_file(path: str | pathlib.Path) -> pathlib.Path | None:
    """Returns the index of a checkpoint, or None where there is none.

    Args:
        path: The index itself, the checkpoint's prefix (the name without
            `.index`), or a directory with one checkpoint.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        indices = sorted(path.glob("*.index"))
        if len(indices) > 1:
            raise ValueError(
                f"{path} must have one checkpoint, or pass one of its "
                f"indices. It has: {', '.join(each.name for each in indices)}"
            )
        return indices[0] if indices else None
    if path.is_file():
        return path if path.suffix == ".index" else None
    index = path.with_name(f"{path.name}.index")
    return index if index.is_file() else None


def read(index: str | pathlib.Path) -> dict[str, np.ndarray]:
    """Reads the weights, in PyTorch's names and shapes.

    Args:
        index: Index of the checkpoint; the data lie beside it.

    Returns:
        Arrays by name: `"logit/DW"` becomes `"logit.weight"`, transposed.
    """
    index = pathlib.Path(index)
    data_files = sorted(index.parent.glob(f"{index.stem}.data-*"))
    try:
        if not data_files:
            raise ValueError(f"there is no {index.stem}.data-* beside it")
        num_bytes = sum(path.stat().st_size for path in data_files)
        variables = _read_in_process(index.with_suffix(""), num_bytes)
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"Cannot read {index}: it took more than {_TIMEOUT} seconds"
        ) from error
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"Cannot read {index}: {one_line(error)}") from error
    arrays = {}
    for name, array in variables.items():
        module, _, leaf = name.rpartition("/")
        torch_name = f"{module}.{_LEAVES[leaf]}".replace("/", ".")
        # From HWIO to OIHW, or from [inputs, units] to [units, inputs].
        axes = {4: (3, 2, 0, 1), 2: (1, 0)}.get(array.ndim)
        arrays[torch_name] = array.transpose(axes) if axes else array
    return arrays


def _read_in_process(
    prefix: pathlib.Path, num_bytes: int
) -> dict[str, np.ndarray]:
    """Returns the variables of a checkpoint whose data have so many bytes."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "arrays.npz"
        process = subprocess.run(
            [
                *(sys.executable, "-c", _READ),
                *(os.path.abspath(prefix), str(target), str(num_bytes)),
                *_LEAVES,
            ],
            # The interpreter looks for modules here first.
            cwd=folder,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "-1",
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
        if process.returncode < 0:
            name = signal.Signals(-process.returncode).name
            raise ValueError(f"TensorFlow ended with {name} while reading it")
        if process.returncode:
            lines = process.stderr.strip().splitlines() or ["no reason given"]
            raise ValueError(lines[-1][:500])
        names = json.loads(process.stdout.splitlines()[-1])
        arrays = array_files.npz(target)
    return {
        name: arrays[f"arr_{position}"] for position, name in enumerate(names)
    }


_READ = """
import json
import math
import sys

import numpy as np
import tensorflow as tf

prefix, target, num_bytes, *leaves = sys.argv[1:]
try:
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    # The data are not compressed.
    claimed = sum(math.prod(shapes[k]) * dtypes[k].size for k in shapes)
    if claimed > int(num_bytes):
        sys.exit(f"its arrays need {claimed} bytes; its data have {num_bytes}")
    names = sorted(name for name in shapes if name.split("/")[-1] in leaves)
    if not names:
        sys.exit("it has no variable named " + ", ".join(leaves))
    np.savez(target, *(reader.get_tensor(name) for name in names))
except MemoryError:
    sys.exit("its index claims a block that is larger than the memory")
except Exception as error:
    sys.exit((str(error).splitlines() or [type(error).__name__])[0])
print(json.dumps(names))
"""
