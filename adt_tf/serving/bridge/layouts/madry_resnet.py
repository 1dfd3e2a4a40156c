"""The wide residual network of Madry et al.'s CIFAR-10 challenge.

In the names of its TensorFlow 1 checkpoint, with dots for slashes:

    input.init_conv, unit_1_0.{shared_activation.BatchNorm, sub1.conv1,
        sub2.BatchNorm, sub2.conv2}, unit_last.BatchNorm, logit

In other units than the first, `shared_activation` is
`residual_only_activation`.
"""

from __future__ import annotations

import keras

from adt_tf.networks.madry_resnet import madry_wide_resnet
from adt_tf.serving.bridge.layouts.base import Layout, Request, Shapes
from adt_tf.serving.bridge.layouts.wide_resnet import wide_names


def _recognize(shapes: Shapes) -> list[str]:
    return wide_names(
        shapes,
        "unit_{stage}_{block}.sub2.conv2.weight",
        first_stage=1,
        prefix="madry-",
        depth_of_ends=2,
    )


def _build(request: Request) -> keras.Model:
    if request.normalization is not None:
        raise ValueError(
            "Argument `normalization` must be None for this network, which "
            "standardises each image itself. Received: "
            f"normalization={request.normalization}"
        )
    return madry_wide_resnet(
        int(request.options["depth"]),
        int(request.options["widen_factor"]),
        input_shape=request.image_shape("input.init_conv.weight"),
        num_classes=request.num_classes("logit.weight"),
    )


_UNIT = r"unit_(?P<s>[123])_(?P<b0>\d+)\."

MADRY_WIDE_RESNET = Layout(
    name="madry-wrn-<depth>-<widen_factor>",
    pattern=r"madry-wrn-(?P<depth>\d+)-(?P<widen_factor>\d+)",
    recognize=_recognize,
    build=_build,
    modules={
        r"input\.init_conv": "stem",
        _UNIT + r"(shared|residual_only)_activation\.BatchNorm": (
            "stage{s}_block{b}_normalization1"
        ),
        _UNIT + r"sub1\.conv1": "stage{s}_block{b}_convolution1",
        _UNIT + r"sub2\.BatchNorm": "stage{s}_block{b}_normalization2",
        _UNIT + r"sub2\.conv2": "stage{s}_block{b}_convolution2",
        r"unit_last\.BatchNorm": "normalization",
        r"logit": "logits",
    },
)
