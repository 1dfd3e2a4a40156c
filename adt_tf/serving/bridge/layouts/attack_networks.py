"""The networks of ADT's amortised attacks, as their authors saved them.

In PyTorch's names:

    model.{0, 1}, model.{3, 4, 5}.{conv_block.{0, 1, 3, 4}, short_cut.{0, 1}},
        model.6, z_encoder.{0, 2}                       (generators)
    main1.{0, 1, 3, 4, 6, 7, 9, 10}, main2.0            (q)

The authors apply the tanh outside the implicit generator; here it is inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import keras

from adt_tf.networks.generator import explicit_generator, implicit_generator
from adt_tf.networks.posterior import posterior
from adt_tf.serving.bridge.layouts.base import Layout, Request, Shapes


def _generator_shapes(shapes: Shapes) -> tuple[int, int, int] | None:
    """Returns a generator's input channels, width and output channels."""
    first = shapes.get("model.0.weight", ())
    middle = shapes.get("model.4.conv_block.0.weight", ())
    last = shapes.get("model.6.weight", ())
    if not len(first) == len(middle) == len(last) == 4:
        return None
    if middle != (2 * first[0], 2 * first[0], 3, 3):
        return None
    return first[1], first[0], last[0]


def _recognize_generator(shapes: Shapes) -> list[str]:
    """Returns the generator of a state dict: only one has a latent vector."""
    if _generator_shapes(shapes) is None:
        return []
    has_latent = "z_encoder.0.weight" in shapes
    return ["implicit_generator" if has_latent else "explicit_generator"]


def _recognize_posterior(shapes: Shapes) -> list[str]:
    fits = "main1.9.weight" in shapes and "main2.0.weight" in shapes
    return ["posterior"] if fits else []


def _build_explicit(request: Request) -> keras.Model:
    inputs, width, _ = _generator_shapes(request.shapes) or (9, 256, 6)
    shape = request.input_shape or (32, 32, max(inputs // 3, 1))
    return explicit_generator(shape, width_factor=width / 256)


def _build_implicit(request: Request) -> keras.Model:
    inputs, width, _ = _generator_shapes(request.shapes) or (10, 256, 3)
    shape = request.input_shape or (32, 32, max((inputs - 1) // 3, 1))
    latent = request.shapes.get("z_encoder.0.weight", (256, 64))
    return implicit_generator(
        shape, latent_size=latent[1], width_factor=width / 256
    )


def _build_posterior(request: Request) -> keras.Model:
    first = request.shapes.get("main1.0.weight", (32, 3))
    last = request.shapes.get("main2.0.weight", (128,))
    return posterior(
        request.input_shape or (32, 32, first[1]),
        latent_size=max(last[0] // 2, 1),
        width_factor=first[0] / 32,
    )


def _generator_modules() -> dict[str, str]:
    modules = {
        r"model\.0": "stem",
        r"model\.1": "stem_normalization",
        r"model\.6": "head",
        r"z_encoder\.0": "latent_dense1",
        r"z_encoder\.2": "latent_dense2",
    }
    for block, index in ((1, 3), (2, 4), (3, 5)):
        for module, layer in (
            ("conv_block.0", "convolution1"),
            ("conv_block.1", "convolution1_normalization"),
            ("conv_block.3", "convolution2"),
            ("conv_block.4", "convolution2_normalization"),
            ("short_cut.0", "shortcut"),
            ("short_cut.1", "shortcut_normalization"),
        ):
            pattern = re.escape(f"model.{index}.{module}")
            modules[pattern] = f"block{block}_{layer}"
    return modules


def _generator(name: str, build: Callable[[Request], keras.Model]) -> Layout:
    def recognize(shapes: Shapes) -> list[str]:
        return [each for each in _recognize_generator(shapes) if each == name]

    return Layout(
        name=name,
        pattern=name.replace("_", "-"),
        recognize=recognize,
        build=build,
        modules=_generator_modules(),
    )


EXPLICIT_GENERATOR = _generator("explicit_generator", _build_explicit)
IMPLICIT_GENERATOR = _generator("implicit_generator", _build_implicit)

POSTERIOR = Layout(
    name="posterior",
    pattern=r"posterior",
    recognize=_recognize_posterior,
    build=_build_posterior,
    modules={
        r"main1\.0": "convolution1",
        r"main1\.1": "normalization1",
        r"main1\.3": "convolution2",
        r"main1\.4": "normalization2",
        r"main1\.6": "convolution3",
        r"main1\.7": "normalization3",
        r"main1\.9": "convolution4",
        r"main1\.10": "normalization4",
        r"main2\.0": "mean_and_raw_variance",
    },
)
