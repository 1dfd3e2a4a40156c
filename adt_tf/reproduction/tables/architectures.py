"""Tables 7 and 8: the networks of the amortised methods, layer by layer."""

from __future__ import annotations

import keras

from adt_tf.reproduction import documents
from adt_tf.reproduction.study import Study
from adt_tf.reproduction.target import Target

#: The shape of a CIFAR image.
_SHAPE = (32, 32, 3)


def write(study: Study, name: str, target: Target) -> None:
    """Lists the layers with weights of the networks as they are built."""
    lines, values = [target.note, ""], {}
    for label, build in target.networks.items():
        network = build(_SHAPE)
        values[label] = {
            "parameters": network.count_params(),
            "layers": [_layer(layer) for layer in _weighted(network)],
        }
        lines += [f"{label}: {network.count_params():,} parameters.", ""]
        lines += documents.markdown_table(
            ["layer", "filters or units", "kernel", "stride", "output"],
            values[label]["layers"],
        )
        lines.append("")
    number = name.removeprefix("table")
    documents.write(
        study, name, f"Table {number}: {target.title}", lines[:-1], values
    )


def _weighted(network: keras.Model) -> list[keras.layers.Layer]:
    kinds = (keras.layers.Conv2D, keras.layers.Dense)
    return [layer for layer in network.layers if isinstance(layer, kinds)]


def _layer(layer: keras.layers.Layer) -> list[str]:
    shape = "x".join(str(size) for size in layer.output.shape[1:])
    if isinstance(layer, keras.layers.Dense):
        return ["dense", str(layer.units), "", "", shape]
    return [
        "convolution",
        str(layer.filters),
        "x".join(map(str, layer.kernel_size)),
        str(layer.strides[0]),
        shape,
    ]
