"""The networks: classifiers, generators and the variational posterior.

    classifier = networks.get("wrn-28-10", input_shape=(32, 32, 3), seed=0)
    logits = classifier(images, training=False)

All networks are functional Keras models that consist of Keras' layers: they
take batches of any size, save and load without custom objects, and initialise
their weights from an explicit seed.

Classifiers, from images in [0, 1] to logits:

- `wide_resnet`: WRN-depth-widen_factor, the classifiers of the paper;
- `preact_resnet18`, `preact_resnet34`: ResNets with pre-activation;
- `resnet`: ResNet-18, 34 and 50 with the activation after the sum;
- `dm_wide_resnet`, `dm_preact_resnet`: DeepMind's networks with SiLU;
- `madry_resnet.madry_wide_resnet`: the network of Madry et al.'s challenge;
- `small_cnn`: for 8x8 to 32x32 images on a laptop;
- `trades_small_cnn`, `lenet5`: for MNIST;
- `get`: any of these classifiers by its name;
- `from_application`: a network of keras.applications, with a new head;
- `as_classifier`: any Keras model, scaled and without its softmax;
- `feature_extractor`: the part of a classifier before its pooling.

Networks of the amortised attacks:

- `explicit_generator`: parameters of an explicit distribution (ADT-EXP-AM);
- `implicit_generator`: samples of an implicit distribution (ADT-IMP-AM);
- `coupling`: one layer of a flow;
- `point_generator`: one perturbation for an image (L2L);
- `posterior`: q(z | delta), for the entropy of the implicit distribution.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import keras

from adt_tf.checks import arguments
from adt_tf.networks.adapting import as_classifier
from adt_tf.networks.applications import from_application
from adt_tf.networks.cifar_resnet import resnet
from adt_tf.networks.coupling import coupling
from adt_tf.networks.dm_resnets import dm_preact_resnet, dm_wide_resnet
from adt_tf.networks.features import feature_extractor
from adt_tf.networks.generator import (
    explicit_generator,
    implicit_generator,
    point_generator,
)
from adt_tf.networks.plain_cnns import lenet5, trades_small_cnn
from adt_tf.networks.posterior import posterior
from adt_tf.networks.preact_resnet import preact_resnet18, preact_resnet34
from adt_tf.networks.preactivation import Variant
from adt_tf.networks.small_cnn import small_cnn
from adt_tf.networks.wide_resnet import wide_resnet

__all__ = [
    "as_classifier",
    "coupling",
    "dm_preact_resnet",
    "dm_wide_resnet",
    "explicit_generator",
    "feature_extractor",
    "from_application",
    "get",
    "implicit_generator",
    "lenet5",
    "point_generator",
    "posterior",
    "preact_resnet18",
    "preact_resnet34",
    "resnet",
    "small_cnn",
    "trades_small_cnn",
    "wide_resnet",
]

_CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "lenet5": lenet5,
    "preact_resnet18": preact_resnet18,
    "preact_resnet34": preact_resnet34,
    "resnet18": functools.partial(resnet, 18),
    "resnet34": functools.partial(resnet, 34),
    "resnet50": functools.partial(resnet, 50),
    "small_cnn": small_cnn,
    "trades_small_cnn": trades_small_cnn,
}


def get(name: str, **kwargs: Any) -> keras.Model:
    """Builds a classifier by name.

    Args:
        name: `"wrn-<depth>-<widen_factor>"` such as `"wrn-28-10"`,
            `"dm-wrn-<depth>-<widen_factor>"`, `"preact_resnet18"` or
            `"preact_resnet34"`, `"resnet18"`, `"resnet34"` or `"resnet50"`,
            `"small_cnn"`, `"trades_small_cnn"` or `"lenet5"`; or
            `"keras:<name>"` for a network of keras.applications, such as
            `"keras:MobileNetV2"`.
        **kwargs: Arguments of the classifier: `input_shape`, `num_classes`
            and `seed`; for keras.applications also `weights` and
            `frozen_layers`; for all others also `activation`, such as
            "relu", by Keras' name.

    Returns:
        A model from images to logits.

    Example:

    >>> get("wrn-10-1", input_shape=(28, 28, 1), num_classes=5).output_shape
    (None, 5)
    """
    match = re.fullmatch(r"(dm-)?wrn-(\d+)-(\d+)", str(name))
    if match:
        deepmind, depth, widen_factor = match.groups()
        build = dm_wide_resnet if deepmind else wide_resnet
        if not deepmind:
            kwargs = _with_variant(kwargs)
        return build(int(depth), int(widen_factor), **kwargs)
    if str(name).startswith("keras:"):
        if "activation" in kwargs:
            raise arguments.error(
                "be left out: a network of keras.applications has its own",
                activation=kwargs["activation"],
            )
        return from_application(name.removeprefix("keras:"), **kwargs)
    if name in ("preact_resnet18", "preact_resnet34"):
        kwargs = _with_variant(kwargs)
    if name in _CLASSIFIERS:
        return _CLASSIFIERS[name](**kwargs)
    wide = "wrn-<depth>-<widen_factor>"
    names = [wide, f"dm-{wide}", *sorted(_CLASSIFIERS), "keras:<name>"]
    raise arguments.error(f"be one of {', '.join(map(repr, names))}", name=name)


def _with_variant(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with the activation inside a `Variant`."""
    if "activation" not in kwargs:
        return kwargs
    others = {k: v for k, v in kwargs.items() if k != "activation"}
    return {**others, "variant": Variant(activation=kwargs["activation"])}
