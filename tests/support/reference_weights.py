"""Weights that a name and a shape give, the same in every environment.

    array = weight("conv1.weight", (64, 3, 3, 3))
    arrays = state_dict("wrn-16-1-no-bias")
    images = images((2, 3, 32, 32))

So the files of torch's outputs need not hold the weights. Only NumPy's
`RandomState` is used, whose numbers are fixed for good.
"""

import ast
import functools
import math
import pathlib
import zlib

import numpy as np

_DATA = pathlib.Path(__file__).parents[1] / "data" / "bridge"


@functools.cache
def outputs():
    """Returns names, shapes and torch's outputs of each architecture."""
    return np.load(_DATA / "outputs.npz")


def shapes(name):
    """Returns the shapes of an architecture's state dict."""
    lines = (str(line).split(" ", 1) for line in outputs()[f"{name}/names"])
    return {entry: tuple(ast.literal_eval(shape)) for entry, shape in lines}


def state_dict(name, **others):
    """Returns the arrays of an architecture's state dict.

    Args:
        name: Name in the file of outputs.
        **others: Shapes in the place of those there, by name without dots.
    """
    return {
        entry: weight(entry, others.get(entry.replace(".", "_"), shape))
        for entry, shape in shapes(name).items()
    }


def weight(name, shape):
    """Returns the array of a state dict's entry."""
    leaf = name.split(".")[-1]
    if leaf == "num_batches_tracked":
        return np.asarray(7, np.int64)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    if leaf == "running_var":
        array = random.uniform(0.5, 1.5, shape)
    elif len(shape) > 1:
        array = random.standard_normal(shape) * math.sqrt(
            1.5 / math.prod(shape[1:])
        )
    elif leaf == "weight":  # of a batch normalisation
        array = random.uniform(0.3, 0.9, shape)
    else:
        array = random.standard_normal(shape) * 0.1
    return array.astype(np.float32)


def images(shape, seed=0):
    """Returns images in [0, 1], or other inputs, of a shape."""
    random = np.random.RandomState(seed)
    return random.uniform(size=shape).astype(np.float32)
